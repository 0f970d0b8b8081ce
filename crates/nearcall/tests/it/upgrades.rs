//! Connections over `tcp://` that move to shared memory by themselves, and those that must not.
//!
//! **Not here:** other namespaces and processes (`tests/faults`), the meeting by itself
//! (`nearcall-channel`), switches that a program asks for (`switching.rs`).
#![allow(clippy::print_stderr, reason = "one test prints figures")]

use nearcall::control::{ConnectionsRequest, MeetRequest, ServerCaller};
use nearcall::observe::SwitchCause;
use nearcall::server::RunningServer;
use nearcall_channel::MeetingClient;
use nearcall_channel::account::{Accounts, Resource};

use crate::stage::prelude::*;
use crate::streams::served::{self, Kind, Plan, StreamsCaller, item};
use crate::support::LoopThread;

/// Of a server whose connections move.
pub(crate) fn moving() -> Limits {
    Limits { switches_per_minute_max: 1_000, ..Limits::default() }
}

/// Of a server whose connections do not move.
pub(crate) fn staying() -> Limits {
    Limits { switches_per_minute_max: 0, ..Limits::default() }
}

/// Calls after which a connection has moved, if it does: it takes steps in the waits of calls.
const CALLS: u64 = 200;

/// A server that answers nothing of its own, in two loops.
pub(crate) fn plain(limits: Limits, parameters: &str) -> (RunningServer, String) {
    let server = Server::builder().threads(2).limits(limits);
    let server = server.listen(&format!("tcp://127.0.0.1:0{parameters}")).start().unwrap();
    let at = server.address().to_string();
    let at = at.split('?').next().unwrap_or_default().to_owned();
    (server, at)
}

fn mechanism_of(client: &Client) -> Mechanism {
    client.connections()[0].mechanism
}

/// Calls until the connection has moved, or for long.
fn call_until_moved(client: &Client, at: &str) -> Mechanism {
    let service = ServerCaller::new(client, at).unwrap();
    for _ in 0..CALLS {
        service.with(CallOptions::new().deadline(PATIENCE)).health(&Default::default()).unwrap();
        if mechanism_of(client) != Mechanism::Tcp {
            break;
        }
    }
    mechanism_of(client)
}

/// A server with an echo that counts notes and says whether it takes its caller for another
/// machine, and with streams.
pub(crate) fn busy(limits: Limits) -> (LoopThread, String) {
    LoopThread::serve(limits, |_, server| {
        let mut echo = Scripted::new(|_, request| Ok(request.clone()));
        let base = Arc::clone(&echo.base);
        echo.say = Box::new(move |_, request| match request.number {
            BOOKS if base.notes.get() == base.notes_in_order.get() => Ok(words(base.notes.get())),
            BOOKS => Ok(words(u64::MAX)),
            _ => Ok(request.clone()),
        });
        server.register(EchoDispatcher::new(echo)).unwrap();
        served::register(server, served::Service::new(Kind::Loop));
        server.listen("tcp://127.0.0.1:0").unwrap().to_string()
    })
}

/// The number of a `Say` that asks how many notes have come, if all came in order.
const BOOKS: u64 = u64::MAX - 1;

fn long(number: u64, bytes: usize) -> Words {
    Words { data: (0..=250).cycle().take(bytes).collect::<Vec<u8>>().into(), number }
}

/// Calls, one-way messages and streams while the connection moves by itself.
fn exchange_while_it_moves(client: &Client) {
    let (_server, at) = busy(moving());
    let echo = EchoCaller::new(client, &at).unwrap();
    let streams = StreamsCaller::new(client, &at).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let (mut requests, mut replies) = streams.with(options.clone()).exchange().unwrap();
    let mut plan =
        streams.with(options.clone()).count(&Plan { items: 400, bytes: 900, code: 0 }).unwrap();
    let mut on_tcp = 0;
    for round in 0..CALLS {
        on_tcp += u64::from(mechanism_of(client) == Mechanism::Tcp);
        echo.with(options.clone()).note(&words(2 * round)).unwrap();
        let sizes = [0, 3_000, 90_000];
        let pending = sizes.map(|bytes| echo.with(options.clone()).start_say(&long(round, bytes)));
        echo.with(options.clone()).note(&words(2 * round + 1)).unwrap();
        requests.send(&item(round, 700)).unwrap();
        for (bytes, call) in sizes.into_iter().zip(pending) {
            assert_eq!(call.wait().unwrap(), long(round, bytes));
        }
        assert_eq!(replies.recv().unwrap(), Some(item(round, 700)));
        for number in 2 * round..2 * round + 2 {
            assert_eq!(plan.next().unwrap().unwrap(), item(number, 900));
        }
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
    assert_eq!(echo.with(options.clone()).say(&words(BOOKS)).unwrap().number, 2 * CALLS);
    // The first calls went over tcp.
    assert!((1..CALLS).contains(&on_tcp), "{on_tcp} of {CALLS} rounds began over tcp");
    let connection = &client.connections()[0];
    assert_eq!(connection.mechanism, Mechanism::Shm);
    let [moved] = &connection.switches[..] else { panic!("{:?}", connection.switches) };
    assert_eq!((moved.from, moved.to), (Mechanism::Tcp, Some(Mechanism::Shm)), "{moved}");
    assert_eq!((moved.cause, &moved.outcome), (SwitchCause::Upgrade, &Ok(())), "{moved}");
    // Neither end takes the other for more than before.
    assert_eq!((connection.peer.uid(), connection.is_trusted), (None, false));
    let seen = echo.with(options.clone()).look(&()).unwrap();
    assert_eq!((seen.uid, seen.pid, seen.local), (u32::MAX, -1, false));
}

#[timed]
fn a_connection_over_tcp_moves_to_shared_memory_under_load() {
    exchange_while_it_moves(&Client::new());
}

#[timed]
fn a_connection_over_tcp_of_a_loop_moves_to_shared_memory_under_load() {
    exchange_while_it_moves(&Client::in_loop(&EventLoop::new().unwrap()));
}

/// With all places taken by calls of the program, the client asks when one of these has ended.
fn move_after_a_full_table(client: &Client) {
    let limits = Limits { calls_max: 4, ..moving() };
    let (_server, at) = LoopThread::serve(limits, |_, server| {
        server.register(EchoDispatcher::new(keeper())).unwrap();
        server.listen("tcp://127.0.0.1:0").unwrap().to_string()
    });
    let options = CallOptions::new().deadline(PATIENCE);
    let echo = EchoCaller::new(client, &at).unwrap();
    let kept: Vec<_> =
        (0..4).map(|number| echo.with(options.clone()).start_later(&words(number))).collect();
    // A wait sends what is due, and so does this one.
    let late = echo.with(CallOptions::new().deadline(SOON)).start_say(&words(0)).wait();
    assert!(late.is_err(), "there is no place for it");
    // Nor for a switch, which waits for the move: its time is up first.
    expect_code(client.switch(&at, "unix-stream", SOON), Code::DeadlineExceeded);
    let other = Client::new();
    let answers = EchoCaller::new(&other, &format!("{at}?via=tcp")).unwrap();
    let answer = words(command::ANSWER);
    let mut answered = 0;
    while answered < 4 {
        answered += answers.with(options.clone()).say(&answer).unwrap().number;
    }
    for (number, call) in kept.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap(), words(number as u64));
    }
    for _ in 0..CALLS {
        echo.with(options.clone()).say(&words(command::WANTED)).unwrap();
        if mechanism_of(client) == Mechanism::Shm {
            return;
        }
    }
    panic!("still on tcp: {:?}", client.connections()[0].switches);
}

/// Long enough for a client to send what it has.
const SOON: Duration = Duration::from_millis(50);

#[timed]
fn one_whose_calls_have_taken_every_place_moves_when_they_have_ended() {
    move_after_a_full_table(&Client::new());
    move_after_a_full_table(&Client::in_loop(&EventLoop::new().unwrap()));
}

/// The last place is for the program's calls, and the other one is enough to ask.
#[timed]
fn one_with_two_places_for_calls_moves_and_one_with_a_single_place_stays() {
    for (calls_max, mechanism) in [(2, Mechanism::Shm), (1, Mechanism::Tcp)] {
        let (_server, at) = plain(Limits { calls_max, ..moving() }, "");
        assert_eq!(call_until_moved(&Client::new(), &at), mechanism, "{calls_max}");
        let in_loop = Client::in_loop(&EventLoop::new().unwrap());
        assert_eq!(call_until_moved(&in_loop, &at), mechanism, "{calls_max} in a loop");
    }
}

#[timed]
fn the_server_shows_what_has_moved_and_lets_no_more_be_done_by_it() {
    let (server, at) = plain(moving(), "");
    let client = Client::new();
    assert_eq!(call_until_moved(&client, &at), Mechanism::Shm);
    // A server that answers by the new channel has moved as well.
    let service = ServerCaller::new(&client, &at).unwrap();
    service.health(&Default::default()).unwrap();
    let shown = &server.connections()[0];
    assert_eq!((shown.mechanism, shown.peer.uid()), (Mechanism::Shm, None));
    let [moved] = &shown.switches[..] else { panic!("{:?}", shown.switches) };
    assert_eq!((moved.cause, &moved.outcome), (SwitchCause::Upgrade, &Ok(())), "{moved}");
    // What is for the server's own user is not for its clients over tcp.
    expect_code(service.connections(&ConnectionsRequest::default()), Code::PermissionDenied);
    // It goes on from there as any other.
    client.switch(&at, "unix-stream", PATIENCE).unwrap();
    assert_eq!(call_until_moved(&client, &at), Mechanism::UnixStream);
}

/// Asks for a switch that nothing over `tcp://` can do, before the connection has moved.
fn switches_from_there(client: &Client) {
    let (_server, at) = plain(moving(), "");
    ServerCaller::new(client, &at).unwrap().health(&Default::default()).unwrap();
    client.switch(&at, "unix-stream", PATIENCE).unwrap();
    let connection = client.connections().remove(0);
    assert_eq!(connection.mechanism, Mechanism::UnixStream);
    let causes: Vec<_> = connection.switches.iter().map(|it| (it.cause, it.to)).collect();
    let (upgrade, program) = (SwitchCause::Upgrade, SwitchCause::Program);
    let wanted = [(upgrade, Some(Mechanism::Shm)), (program, Some(Mechanism::UnixStream))];
    assert_eq!(causes, wanted, "{:?}", connection.switches);
    assert_eq!(call_until_moved(client, &at), Mechanism::UnixStream);
}

#[timed]
fn a_switch_that_is_asked_for_at_once_begins_from_shared_memory() {
    switches_from_there(&Client::new());
    switches_from_there(&Client::in_loop(&EventLoop::new().unwrap()));
}

#[timed]
fn a_switch_of_one_that_stays_on_tcp_is_refused_with_the_reason() {
    for (limits, parameters, suffix) in
        [(moving(), "", "?via=tcp"), (moving(), "?allow=tcp", ""), (staying(), "", "")]
    {
        let (_server, at) = plain(limits, parameters);
        let (client, at) = (Client::new(), format!("{at}{suffix}"));
        let service = ServerCaller::new(&client, &at).unwrap();
        service.health(&Default::default()).unwrap();
        let refused =
            expect_code(client.switch(&at, "unix-stream", PATIENCE), Code::FailedPrecondition);
        assert!(refused.message().contains("tcp") || parameters.is_empty(), "{refused}");
        service.health(&Default::default()).unwrap();
        assert_eq!(mechanism_of(&client), Mechanism::Tcp);
    }
}

/// The end of a client hangs up the channel that a connection of another thread has moved to.
#[timed]
fn one_that_has_moved_in_another_thread_ends_with_its_client() {
    let (server, at) = plain(moving(), "");
    let client = Client::new();
    let (handle, (give, take)) = (client.clone(), mpsc::channel());
    let (end, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let moved = call_until_moved(&handle, &at);
        drop(handle);
        give.send(moved).unwrap();
        // It lives, and does nothing more.
        wait.recv().unwrap_err();
    });
    assert_eq!(take.recv().unwrap(), Mechanism::Shm);
    assert_eq!(client.connections()[0].mechanism, Mechanism::Shm);
    assert_eq!(server.connection_counts().iter().sum::<usize>(), 1);
    drop(client);
    while server.connection_counts().iter().sum::<usize>() > 0 {
        thread::yield_now();
    }
    drop(end);
    thread.join().unwrap();
}

/// A blocking client takes its steps in the waits of its calls. Wherever it pauses for longer than
/// its server waits, each call succeeds, and it stays or moves later.
#[timed]
fn a_program_that_pauses_between_its_calls_loses_none() {
    let limits = Limits { switch_timeout: Duration::from_millis(100), ..moving() };
    let mut moved = 0;
    for calls in 1..=10 {
        let (_server, at) = plain(limits, "");
        let client = Client::new();
        let service = ServerCaller::new(&client, &at).unwrap();
        let service = service.with(CallOptions::new().deadline(PATIENCE));
        for _ in 0..2 {
            for call in 0..calls {
                let outcome = service.health(&Default::default());
                outcome.unwrap_or_else(|status| panic!("call {call} of {calls}: {status}"));
            }
            clock::pause(Duration::from_millis(200));
        }
        moved += u64::from(call_until_moved(&client, &at) == Mechanism::Shm);
    }
    // With one pause in it, an attempt is repeated.
    assert!(moved >= 8, "{moved} of 10 have moved");
}

#[timed]
fn what_is_to_stay_on_tcp_stays() {
    for (limits, parameters, suffix) in [
        (moving(), "", "?via=tcp"),
        (moving(), "?allow=tcp", ""),
        (moving(), "?allow=tcp,unix-stream", ""),
        (staying(), "", ""),
    ] {
        let (server, at) = plain(limits, parameters);
        let client = Client::new();
        let case = format!("{parameters} {suffix}");
        assert_eq!(call_until_moved(&client, &format!("{at}{suffix}")), Mechanism::Tcp, "{case}");
        assert!(client.connections()[0].switches.is_empty(), "{case}");
        assert!(server.connections()[0].switches.is_empty(), "{case}");
        assert!(server.refusals().is_empty(), "{case}: {:?}", server.refusals());
    }
}

/// An address that says `?via=tcp` and one that does not are two connections.
#[timed]
fn one_that_stays_and_one_that_moves_are_two() {
    let (_server, at) = plain(moving(), "");
    let client = Client::new();
    let stays = ServerCaller::new(&client, &format!("{at}?via=tcp")).unwrap();
    stays.health(&Default::default()).unwrap();
    let moves = ServerCaller::new(&client, &at).unwrap();
    for _ in 0..CALLS {
        moves.health(&Default::default()).unwrap();
        stays.health(&Default::default()).unwrap();
    }
    let mechanisms: Vec<_> = client.connections().iter().map(|it| it.mechanism).collect();
    assert_eq!(mechanisms, [Mechanism::Tcp, Mechanism::Shm]);
}

#[test]
fn a_listener_over_tcp_offers_tcp_in_any_case() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let error = server.listen("tcp://127.0.0.1:0?allow=shm").unwrap_err().to_string();
    assert!(error.contains("name that"), "{error}");
    let options = nearcall::server::ListenOptions::new().mechanisms(Mechanism::Shm);
    let error = server.listen_with("tcp://127.0.0.1:0", &options).unwrap_err().to_string();
    assert!(error.contains("mechanisms") && error.contains("name that"), "{error}");
}

#[timed]
fn a_client_that_asks_again_and_again_has_one_invitation() {
    let (server, at) = plain(moving(), "");
    let client = Client::new();
    let service = ServerCaller::new(&client, &format!("{at}?via=tcp")).unwrap();
    let used = || Accounts::of_process().used(Resource::Descriptors).0;
    let ask = |of: &MeetingClient| service.meet(&request(of.number())).unwrap();
    let (asking, before) = (MeetingClient::new().unwrap(), used());
    let first = ask(&asking);
    assert_eq!(first.number.len(), 16);
    for _ in 0..100 {
        let next = ask(&asking);
        assert_ne!((&next.number, next.place), (&first.number, first.place));
    }
    // Tests beside this one hold some, too, but not a hundred for this.
    assert!(used() < before + 90, "{before} before, {} now", used());
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
}

fn request(number: [u8; 16]) -> MeetRequest {
    MeetRequest { number: number.to_vec().into() }
}

/// A client over a unix socket needs no meeting.
#[timed]
fn one_with_a_line_of_its_own_is_not_invited() {
    let at = unique_address();
    let server = Server::builder().limits(moving()).listen(&at).start().unwrap();
    let client = Client::new();
    let service = ServerCaller::new(&client, &server.address().to_string()).unwrap();
    let refused = service.meet(&request([7; 16])).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("unix socket"), "{refused}");
    let (_server, at) = plain(staying(), "");
    let service = ServerCaller::new(&client, &at).unwrap();
    let refused = service.meet(&request([7; 16])).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("allow"), "{refused}");
    let (_server, at) = plain(moving(), "");
    let service = ServerCaller::new(&client, &format!("{at}?via=tcp")).unwrap();
    expect_error(service.meet(&MeetRequest::default()), Code::InvalidArgument, &["16 bytes"]);
}

/// Prints what a call takes before and after, in one run, and what a first call takes, with its
/// connection, which an upgrade is not to delay.
#[test]
#[ignore = "prints figures"]
fn figures() {
    let (_server, at) = plain(moving(), "");
    let stays = format!("{at}?via=tcp");
    let timed = |service: &ServerCaller| {
        let begin = clock::now();
        service.health(&Default::default()).unwrap();
        begin.elapsed()
    };
    for round in 0..5 {
        let client = Client::new();
        let medians = [&stays, &at].map(|at| {
            let service = ServerCaller::new(&client, at).unwrap();
            median((0..22_000).map(|_| timed(&service)).skip(2_000).collect())
        });
        let mechanisms: Vec<_> = client.connections().iter().map(|it| it.mechanism).collect();
        assert_eq!(mechanisms, [Mechanism::Tcp, Mechanism::Shm]);
        let mut firsts = [Vec::new(), Vec::new()];
        for _ in 0..200 {
            for (at, firsts) in [&stays, &at].into_iter().zip(&mut firsts) {
                firsts.push(timed(&ServerCaller::new(&Client::new(), at).unwrap()));
            }
        }
        let firsts = firsts.map(median);
        eprintln!(
            "{round}: a call that stays, and one that has moved {medians:?}, first {firsts:?}"
        );
    }
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}
