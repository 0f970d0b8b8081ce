//! Clients and servers that do a part of a switch only, or do it in another way than they should.
//!
//! **Not here:** switches that go well (`switching.rs`).

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use nearcall::control::{ServerCaller, SwitchRequest};
use nearcall::observe::{RefusalKind, SwitchCause};
use nearcall_channel::{Endpoint, Handshake, Listener, MechanismSet, Options, ReceiveError};
use nearcall_os::descriptor;
use nearcall_os::socket::{self, Kind as SocketKind};
use nearcall_wire::{Frame, Kind, Payload, SwitchReason, SwitchStep};

use crate::raw_frames::{call, channel_at, note, receive};
use crate::stage::prelude::*;
use crate::support::hello;

/// A server in the loop of this thread, which does nothing while the test does not turn it.
struct Stage {
    event_loop: EventLoop,
    server: Server,
    address: String,
    base: Arc<Service>,
}

impl Stage {
    fn new(switch_timeout: Duration) -> Self {
        let limits = Limits { switches_per_minute_max: 1_000, switch_timeout, ..Limits::default() };
        Self::with(limits)
    }

    fn with(limits: Limits) -> Self {
        let echo = Scripted::new(|_, request| Ok(request.clone()));
        let base = Arc::clone(&echo.base);
        let (event_loop, server, address) =
            serve_here_with(limits, &unique_address(), EchoDispatcher::new(echo));
        Self { event_loop, server, address, base }
    }

    /// Turns the loop until another thread is done.
    fn join<T>(&self, thread: JoinHandle<T>) -> T {
        turn_until(&self.event_loop, || thread.is_finished());
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Returns how much of a processor turning the loop for `span` takes, in percent.
    fn share_of(&self, span: Duration) -> u128 {
        let end = clock::now() + span;
        let before = clock::thread_cpu_ns();
        while clock::now() < end {
            self.event_loop.next(Deadline::at(end)).unwrap();
        }
        percent(clock::thread_cpu_ns() - before, span)
    }

    fn refused(&self, kind: RefusalKind) -> u64 {
        let counts = self.server.refusals();
        counts.iter().filter(|it| it.kind == kind).map(|it| it.count).sum()
    }
}

fn percent(taken_ns: u64, span: Duration) -> u128 {
    u128::from(taken_ns) * 100 / span.as_nanos().max(1)
}

/// A client by hand.
struct Half {
    old: Endpoint,
    new: Option<Endpoint>,
    begun: u64,
    /// The ask that the next switch answers.
    answers: u64,
    /// Switches that this machine was too slow for.
    late: u64,
}

impl Half {
    fn connect(address: &str, mechanism: Mechanism) -> Self {
        let mut old = channel_at(&address.parse().unwrap(), mechanism);
        send(&mut old, &hello(1, 2));
        Self { old, new: None, begun: 0, answers: 0, late: 0 }
    }

    fn begin(&mut self, to: Mechanism) -> Handshake {
        let handshake = self.old.begin_switch(to, &Options::default()).unwrap();
        self.say_begun();
        handshake
    }

    fn say_begun(&mut self) {
        self.begun += 1;
        let ask = std::mem::take(&mut self.answers);
        self.say(SwitchStep::Begin { ask });
    }

    fn say(&mut self, step: SwitchStep) {
        send(&mut self.old, &frame(self.begun, step));
    }

    /// Until the server is ready and has received nothing more. A machine with too much to do may
    /// take longer for a step than a server waits: then it refuses, and this tries again.
    fn open(mut self, to: Mechanism) -> Self {
        while !self.try_open(to) {
            self.late += 1;
        }
        self
    }

    /// False: the server has refused, since this has come too late.
    fn try_open(&mut self, to: Mechanism) -> bool {
        let mut handshake = self.begin(to);
        if !self.hear_or_late(SwitchStep::Step) {
            return false;
        }
        // The end of one that came too late says nothing here: the server does.
        let advanced = handshake.advance();
        self.say(SwitchStep::Step);
        if !self.hear_or_late(SwitchStep::Ready) {
            return false;
        }
        assert!(advanced.unwrap().is_none());
        self.new = handshake.complete().ok();
        if self.new.is_none() {
            self.say(SwitchStep::Refuse(SwitchReason::TimedOut));
        }
        self.new.is_some()
    }

    /// Receives that step, or that this has come too late for it.
    fn hear_or_late(&mut self, wanted: SwitchStep) -> bool {
        let heard = self.hear();
        let is_late = heard == SwitchStep::Refuse(SwitchReason::TimedOut);
        assert!(is_late || heard == wanted, "{heard:?}");
        !is_late
    }

    /// Ends the old channel. None: it has come too late, and its connection has ended. The number:
    /// what the server has counted of being late.
    fn has_moved(mut self) -> (Option<Self>, u64) {
        self.say(SwitchStep::Last);
        match receive(&mut self.old) {
            Some(message) => {
                assert_eq!(step_of(&message), Some(SwitchStep::Last));
                let late = self.late;
                (Some(self), late)
            }
            None => (None, self.late + LATE_COMERS),
        }
    }

    fn next(&mut self) -> &mut Endpoint {
        self.new.as_mut().unwrap()
    }

    /// The next message on the old channel, which is one of the switch.
    fn hear(&mut self) -> SwitchStep {
        let message = receive(&mut self.old).expect("the server goes on");
        step_of(&message).unwrap_or_else(|| panic!("not of a switch: {message:?}"))
    }

    /// A call on the old channel, with a reply.
    fn calls_by_old(&mut self, id: u64) {
        send(&mut self.old, &call(id << 16, "Nothing", &[], &[]));
        let reply = receive(&mut self.old).expect("the server goes on");
        assert_eq!(reply[1], Kind::Reply as u8);
    }
}

pub(crate) fn frame(number: u64, step: SwitchStep) -> Vec<u8> {
    Frame::Switch { number, step }.encode().to_vec()
}

pub(crate) fn step_of(message: &[u8]) -> Option<SwitchStep> {
    match Frame::decode(message, message.len()) {
        Ok(Frame::Switch { step, .. }) => Some(step),
        _ => None,
    }
}

pub(crate) fn send(endpoint: &mut Endpoint, message: &[u8]) {
    endpoint.send(message, Deadline::after(PATIENCE)).unwrap();
    endpoint.flush(Deadline::after(PATIENCE)).unwrap();
}

/// A `Say` with much data.
fn long_call(slot: u64) -> Vec<u8> {
    let body = [&[0x0a, 0xd0, 0x89, 0x02][..], &[7; 34_000]].concat();
    call(1 << 16 | slot, "Say", &[], &body)
}

/// Calls whose replies fill any channel, and are not so many that the server reads no more.
const LONG_CALLS: u64 = 29;

const OLD: [Mechanism; 5] = [
    Mechanism::Shm,
    Mechanism::ShmEventfd,
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::Pipe,
];

/// The server's last message lies behind replies that are not read. It sleeps, serves what comes by
/// the new channel, and moves on as soon as the old one is read.
#[timed]
fn replies_that_are_not_read_keep_no_loop_awake_and_no_new_channel_unread() {
    for from in OLD {
        let stage = Stage::new(PATIENCE);
        let at = stage.address.clone();
        let half = stage.join(thread::spawn(move || {
            let mut half = Half::connect(&at, from).open(Mechanism::UnixStream);
            (0..LONG_CALLS).for_each(|slot| send(&mut half.old, &long_call(slot)));
            half.say(SwitchStep::Last);
            send(half.next(), &note(0));
            half
        }));
        turn_until(&stage.event_loop, || stage.base.notes.get() == 1);
        let share = stage.share_of(Duration::from_millis(300));
        assert!(share < 20, "{from}: {share} % of a processor");
        stage.join(thread::spawn(move || {
            let mut half = half;
            // More than fits into the new channel, before the old one is read.
            (1..100).for_each(|number| send(half.next(), &note(number)));
            let long = (100..105).map(long_call);
            long.for_each(|call| send(half.next(), &call));
            for _ in 0..LONG_CALLS {
                let reply = receive(&mut half.old).expect("a reply");
                assert_eq!((reply[1], reply.len() > 34_000), (Kind::Reply as u8, true));
            }
            assert_eq!(half.hear(), SwitchStep::Last);
            let done = frame(half.begun, SwitchStep::Done);
            send(half.next(), &done);
            for _ in 0..5 {
                let reply = receive(half.next()).expect("a reply");
                assert_eq!((reply[1], reply.len() > 34_000), (Kind::Reply as u8, true));
            }
            assert!(matches!(
                half.old.receive(Deadline::after(PATIENCE)).err(),
                Some(ReceiveError::PeerGone)
            ));
        }));
        assert_eq!((stage.base.notes.get(), stage.base.notes_in_order.get()), (100, 100));
        let share = stage.share_of(Duration::from_millis(100));
        assert!(share < 20, "{from}: {share} % of a processor afterwards");
    }
}

/// A client in a loop whose server does not go on: neither what it has sent before nor what it
/// sends by the new channel keeps it awake.
#[timed]
fn a_server_that_does_not_go_on_keeps_no_client_awake() {
    thread::scope(|scope| {
        for from in OLD {
            scope.spawn(move || wait_for_a_server_that_does_not_go_on(from));
        }
    });
}

fn wait_for_a_server_that_does_not_go_on(from: Mechanism) {
    let address = unique_address();
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    let (go_on, wait) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let (old, new) = half_server(&listener);
        wait.recv().unwrap_or(());
        drop((old, new));
    });
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let at = format!("{address}?via={from}");
    let echo = EchoCaller::new(&client, &at).unwrap();
    let quick = CallOptions::new().deadline(Duration::from_millis(300));
    echo.with(CallOptions::new().deadline(PATIENCE)).note(&words(1)).unwrap();
    // The server has opened the new channel by then.
    expect_code(client.switch(&at, "unix-stream", Duration::from_secs(2)), Code::DeadlineExceeded);
    let long = Words { data: vec![3; 60_000].into(), number: 0 };
    let (start, before) = (clock::now(), clock::thread_cpu_ns());
    let full = (0..100).find_map(|_| echo.with(quick.clone()).note(&long).err());
    let share = percent(clock::thread_cpu_ns() - before, start.elapsed());
    assert_eq!(full.expect("they are not read").code(), Code::DeadlineExceeded);
    assert!(share < 50, "{from}: {share} % of a processor");
    drop(go_on);
    server.join().unwrap();
}

/// Serves the handshake of a switch, and does nothing any more.
fn half_server(listener: &Listener) -> (Endpoint, Endpoint) {
    let options = Options { offered: MechanismSet::ALL, ..Options::default() };
    let mut old = listener.accept(Deadline::after(PATIENCE), &options).unwrap();
    send(&mut old, &hello(1, 2));
    let mut handshake = None;
    loop {
        let message = receive(&mut old).expect("the client goes on");
        match step_of(&message) {
            None => {}
            Some(SwitchStep::Begin { .. }) => {
                let mut begun = old.serve_switch(&options).unwrap();
                assert!(begun.advance().unwrap().is_none());
                handshake = Some(begun);
                send(&mut old, &frame(1, SwitchStep::Step));
            }
            Some(SwitchStep::Step) => {
                let mut begun = handshake.take().unwrap();
                let new = begun.advance().unwrap().expect("done");
                send(&mut old, &frame(1, SwitchStep::Ready));
                return (old, new);
            }
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// A server that asks for a switch and says nothing to it: after some time the client drops what it
/// has begun, with a loop, without one, and by the driver of those that tasks share.
#[timed]
fn a_server_that_is_silent_about_what_it_has_asked_for_is_given_up() {
    let switch_timeout = Duration::from_millis(50);
    let limits = Limits { switch_timeout, ..Limits::default() };
    for kind in ["blocking", "in a loop", "shared"] {
        let address = unique_address();
        let listener = Listener::bind(&address.parse().unwrap()).unwrap();
        let server = thread::spawn(move || ask_and_say_nothing(&listener));
        let event_loop = EventLoop::new().unwrap();
        let client = Client::builder().limits(limits);
        let client = if kind == "in a loop" { client.in_loop(&event_loop) } else { client };
        let (client, at) = (client.build(), format!("{address}?via=shm"));
        match kind {
            "shared" => {
                let echo = EchoAsyncCaller::new(&client, &at).unwrap();
                block_on(echo.nothing(&())).unwrap();
            }
            _ => {
                let echo = EchoCaller::new(&client, &at).unwrap();
                echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&()).unwrap();
            }
        }
        match kind {
            "in a loop" => turn_until(&event_loop, || server.is_finished()),
            // The first call has not waited for long enough if this thread had to.
            "blocking" => {
                while !server.is_finished() {
                    let echo = EchoCaller::new(&client, &at).unwrap();
                    echo.with(CallOptions::new().deadline(switch_timeout))
                        .nothing(&())
                        .unwrap_err();
                }
            }
            _ => {}
        }
        let (_old, reason) = server.join().unwrap();
        assert_eq!(reason, SwitchReason::TimedOut, "{kind}");
        let connection = client.connections().remove(0);
        let [late] = &connection.switches[..] else { panic!("{kind}: {connection:?}") };
        assert_eq!((late.cause, late.to), (SwitchCause::Asked, Some(Mechanism::Pipe)));
        assert!(late.outcome.is_err(), "{kind}: {late}");
        assert_eq!(connection.mechanism, Mechanism::Shm, "{kind}");
    }
}

/// Asks the client that has made a call for a switch, and returns why that gives it up.
fn ask_and_say_nothing(listener: &Listener) -> (Endpoint, SwitchReason) {
    let options = Options { offered: MechanismSet::ALL, ..Options::default() };
    let mut old = listener.accept(Deadline::after(PATIENCE), &options).unwrap();
    send(&mut old, &hello(1, 2));
    let mut has_asked = false;
    loop {
        let message = receive(&mut old).expect("the client goes on");
        match Frame::decode(&message, message.len()) {
            Ok(Frame::Call { id, .. }) if !has_asked => {
                has_asked = true;
                let pipe = b"pipe".iter();
                let mechanism = pipe.fold(0x811c_9dc5_u32, |hash, byte| {
                    (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
                });
                send(&mut old, &frame(1, SwitchStep::Ask { mechanism }));
                send(&mut old, &Frame::Reply { id, payload: Payload::EMPTY }.encode());
            }
            Ok(Frame::Switch { step: SwitchStep::Refuse(reason), .. }) => return (old, reason),
            _ => {}
        }
    }
}

/// One-way messages on the new channel of a client that has ended already, when its server learns
/// that it moves.
#[timed]
fn what_a_client_has_sent_before_it_ended_comes_by_the_new_channel() {
    for from in OLD {
        for to in OLD {
            let stage = Stage::new(PATIENCE);
            let at = stage.address.clone();
            let mut half = stage.join(thread::spawn(move || Half::connect(&at, from).open(to)));
            half.say(SwitchStep::Last);
            (0..3).for_each(|number| send(half.next(), &note(number)));
            drop(half);
            let until = Deadline::after(PATIENCE);
            while !stage.server.connections().is_empty() && !until.has_passed() {
                let soon = Deadline::after(Duration::from_millis(5));
                stage.event_loop.next(soon).unwrap();
            }
            assert_eq!(stage.base.notes_in_order.get(), 3, "{from} to {to}");
        }
    }
}

/// Short, and longer than a step of a client takes where there is a processor for it. One that came
/// too late is counted ([`Half::late`]), and tries again.
const SHORT: Duration = Duration::from_millis(300);

/// What the server counts of a client that comes to a channel which it has dropped: that it did so,
/// and that the client came.
const LATE_COMERS: u64 = 2;

#[timed]
fn a_handshake_that_takes_too_long_is_refused_and_the_connection_goes_on() {
    let stage = Stage::new(SHORT);
    let at = stage.address.clone();
    let late = stage.join(thread::spawn(move || {
        let mut half = Half::connect(&at, Mechanism::Shm);
        for round in 1..4 {
            let handshake = half.begin(Mechanism::UnixStream);
            assert_eq!(half.hear(), SwitchStep::Step);
            assert_eq!(half.hear(), SwitchStep::Refuse(SwitchReason::TimedOut));
            half.calls_by_old(round);
            drop(handshake);
        }
        half.open(Mechanism::UnixStream).has_moved().1
    }));
    assert_eq!(stage.refused(RefusalKind::HandshakeTimeout), 3 + late);
}

/// The server drops what it has opened; a client that sees it can stay.
#[timed]
fn a_client_that_does_not_move_keeps_no_second_channel() {
    let stage = Stage::new(SHORT);
    let at = stage.address.clone();
    let late = stage.join(thread::spawn(move || {
        let mut half = Half::connect(&at, Mechanism::Shm).open(Mechanism::UnixStream);
        assert!(receive(half.next()).is_none());
        half.say(SwitchStep::Refuse(SwitchReason::TimedOut));
        half.calls_by_old(1);
        half = half.open(Mechanism::UnixStream);
        assert!(receive(half.next()).is_none());
        half.calls_by_old(2);
        half.say(SwitchStep::Last);
        assert!(receive(&mut half.old).is_none());
        half.late
    }));
    assert_eq!(stage.refused(RefusalKind::HandshakeTimeout), 1 + LATE_COMERS + late);
}

#[timed]
fn an_old_channel_that_is_not_given_up_is_dropped() {
    for from in [Mechanism::Shm, Mechanism::UnixStream, Mechanism::Pipe] {
        let stage = Stage::new(SHORT);
        let at = stage.address.clone();
        let late = stage.join(thread::spawn(move || {
            let mut late = 0;
            let mut half = loop {
                let half = Half::connect(&at, from).open(Mechanism::UnixStream);
                let (moved, times_late) = half.has_moved();
                late += times_late;
                if let Some(half) = moved {
                    break half;
                }
            };
            while half.old.receive(Deadline::after(PATIENCE)).is_ok() {}
            // Late, and still well.
            let done = frame(half.begun, SwitchStep::Done);
            send(half.next(), &done);
            send(half.next(), &call(1 << 16, "Nothing", &[], &[]));
            let reply = receive(half.next()).expect("the server goes on");
            assert_eq!(reply[1], Kind::Reply as u8);
            late
        }));
        assert_eq!(stage.refused(RefusalKind::HandshakeTimeout), 1 + late, "{from}");
    }
}

#[timed]
fn a_client_that_does_not_read_its_old_channel_is_ended() {
    for from in [Mechanism::Shm, Mechanism::UnixStream, Mechanism::Pipe] {
        let stage = Stage::new(SHORT);
        let mut late = 0;
        while stage.refused(RefusalKind::SlowReader) == 0 {
            assert_eq!(stage.refused(RefusalKind::HandshakeTimeout), late, "{from}");
            let at = stage.address.clone();
            late += stage.join(thread::spawn(move || {
                let mut half = Half::connect(&at, from).open(Mechanism::UnixStream);
                (0..LONG_CALLS).for_each(|slot| send(&mut half.old, &long_call(slot)));
                half.say(SwitchStep::Last);
                assert!(receive(half.next()).is_none());
                // Both channels end, whichever limit it was.
                while half.old.receive(Deadline::after(PATIENCE)).is_ok() {}
                half.late
            }));
            // The server did not wait for so many calls.
            late += LATE_COMERS * u64::from(stage.refused(RefusalKind::SlowReader) == 0);
        }
        assert_eq!(stage.refused(RefusalKind::SlowReader), 1, "{from}");
        assert_eq!(stage.refused(RefusalKind::HandshakeTimeout), late, "{from}");
    }
}

/// An administrator learns where a client is that has moved to another mechanism than it was asked
/// for.
#[timed]
fn a_client_that_answers_an_ask_by_another_mechanism_is_reported_there() {
    answer_by_another_mechanism(true);
    answer_by_another_mechanism(false);
}

/// Its last step, or the end of the connection, has the ask reported before its deadline.
fn answer_by_another_mechanism(is_last_step_taken: bool) {
    let start = clock::now();
    let stage = Stage::new(PATIENCE);
    let at = stage.address.clone();
    let half = stage.join(thread::spawn(move || {
        let mut half = Half::connect(&at, Mechanism::Shm);
        half.calls_by_old(1);
        half
    }));
    let at = stage.address.clone();
    let admin = thread::spawn(move || {
        let service = ServerCaller::new(&Client::new(), &at).unwrap();
        let request = SwitchRequest {
            mechanism: "pipe".to_owned(),
            all: true,
            timeout_ms: u32::try_from(PATIENCE.as_millis()).unwrap(),
            ..SwitchRequest::default()
        };
        let options = CallOptions::new().deadline(PATIENCE);
        service.with(options).switch(&request).unwrap().connections
    });
    let half = stage.join(thread::spawn(move || {
        let mut half = half;
        let message = receive(&mut half.old).expect("an ask");
        let Ok(Frame::Switch { number, step: SwitchStep::Ask { .. } }) =
            Frame::decode(&message, message.len())
        else {
            panic!("{message:?}")
        };
        half.answers = number;
        let (half, _) = half.open(Mechanism::UnixStream).has_moved();
        let mut half = half.expect("in time");
        is_last_step_taken.then(|| {
            let done = frame(half.begun, SwitchStep::Done);
            send(half.next(), &done);
            half
        })
    }));
    let [outcome] = &stage.join(admin)[..] else { panic!("one client") };
    assert_eq!((&*outcome.before, &*outcome.after), ("shm", "unix-stream"), "{outcome:?}");
    assert_eq!(outcome.code, Code::FailedPrecondition as i32, "{outcome:?}");
    assert!(outcome.message.contains("moved to unix-stream instead"), "{outcome:?}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    drop(half);
}

/// What is no line of a handshake is refused, and costs no other client anything.
#[timed]
fn a_bad_line_is_refused_and_others_go_on() {
    let stage = Stage::with(Limits {
        switches_per_minute_max: 20,
        switch_timeout: SHORT,
        ..Limits::default()
    });
    let at = stage.address.clone();
    let (give, is_over) = mpsc::channel::<()>();
    let innocent = thread::spawn({
        let at = at.clone();
        move || {
            let client = Client::new();
            let echo = EchoCaller::new(&client, &at).unwrap();
            while is_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                assert_eq!(echo.say(&words(3)).unwrap(), words(3));
            }
            client.switch(&at, "pipe", PATIENCE).unwrap();
        }
    });
    stage.join(thread::spawn(move || {
        let mut half = Half::connect(&at, Mechanism::Shm);
        // A line by itself means nothing, and none at all is refused.
        half.say_begun();
        assert_eq!(half.hear(), SwitchStep::Refuse(SwitchReason::Failed));
        for (what, line) in bad_lines() {
            let control = half.old.control_fd();
            descriptor::send_with_fds(control, &[LINE], &[line.as_fd()]).unwrap();
            half.say_begun();
            let mut answer = half.hear();
            if answer == SwitchStep::Step {
                answer = half.hear();
            }
            let SwitchStep::Refuse(reason) = answer else { panic!("{what}: {answer:?}") };
            assert_ne!(reason, SwitchReason::TooOften, "{what}");
            half.calls_by_old(half.begun);
        }
        // Without end.
        let mut refused = 0;
        while half.begun < 100 {
            let handshake = half.begin(Mechanism::UnixStream);
            let mut answer = half.hear();
            // Of the one before, which its own refusal has crossed.
            while answer == SwitchStep::Refuse(SwitchReason::TimedOut) {
                answer = half.hear();
            }
            if answer == SwitchStep::Step {
                half.say(SwitchStep::Refuse(SwitchReason::Failed));
            } else {
                assert_eq!(answer, SwitchStep::Refuse(SwitchReason::TooOften));
                refused += 1;
            }
            drop(handshake);
        }
        assert!(refused > 60, "{refused}");
        half.calls_by_old(1_000);
        drop(give);
    }));
    stage.join(innocent);
    let failed = stage.refused(RefusalKind::HandshakeFailed);
    let late = stage.refused(RefusalKind::HandshakeTimeout);
    assert!(failed >= 5 && failed + late >= 8, "{:?}", stage.server.refusals());
    assert!(stage.refused(RefusalKind::ResourceLimit) > 60);
}

/// As the first byte of a packet that passes a line.
const LINE: u8 = 0xD9;

fn bad_lines() -> Vec<(&'static str, OwnedFd)> {
    let pair = |kind| socket::unix_pair(kind).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let inet = std::net::TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    let (stream, datagram, silent) =
        (pair(SocketKind::Stream).1, pair(SocketKind::Datagram).1, pair(SocketKind::Seqpacket));
    // One that stays open and says nothing.
    std::mem::forget(silent.0);
    vec![
        ("a file", File::open("/proc/self/exe").unwrap().into()),
        ("a device", File::open("/dev/zero").unwrap().into()),
        ("the end of a pipe", reader.into()),
        ("the other end of a pipe", writer.into()),
        ("a listener", listening.into()),
        ("a stream to this machine", inet.into()),
        ("a stream", stream),
        ("datagrams", datagram),
        ("silence", silent.1),
    ]
}
