//! Connections that move to another mechanism while calls, one-way messages, streams and loans are
//! under way.
//!
//! **Not here:** switches at random (`storm.rs`), the state machine (`nearcall-wire`), handshakes
//! that fail (`nearcall-channel`).

mod storm;

use crate::stage::in_time_of;
use crate::stage::prelude::*;
use crate::streams::served::{self, Kind, Plan, StreamsCaller, item};
use crate::support::LoopThread;

/// A server with an echo that counts notes, and with streams.
pub(crate) struct Both {
    pub(crate) address: String,
    _thread: LoopThread,
}

impl Both {
    pub(crate) fn start(limits: Limits) -> Self {
        Self::listening(limits, everything)
    }

    fn listening(limits: Limits, place: impl FnOnce(&str) -> String) -> Self {
        let at = place(&unique_address());
        let (_thread, address) = LoopThread::serve(limits, move |_, server| {
            let mut echo = Scripted::new(|_, request| Ok(request.clone()));
            let base = Arc::clone(&echo.base);
            echo.say = Box::new(move |_, request| match request.number {
                BOOKS if base.notes.get() == base.notes_in_order.get() => {
                    Ok(words(base.notes.get()))
                }
                BOOKS => Ok(words(u64::MAX)),
                _ => Ok(request.clone()),
            });
            server.register(EchoDispatcher::new(echo)).unwrap();
            // Streams that are open at once do not wait for each other.
            served::register(server, served::Service::new(Kind::Thread));
            let at = server.listen(&at).unwrap().to_string();
            at.split('?').next().unwrap_or_default().to_owned()
        });
        Self { address, _thread }
    }
}

/// The number of a `Say` that asks how many notes have come, if all came in order.
pub(crate) const BOOKS: u64 = u64::MAX - 1;

/// What may take a place in the loop of a server: one of the others takes it whole.
fn usable(mechanism: Mechanism) -> bool {
    let can = mechanism.capabilities();
    mechanism.supported().is_ok()
        && mechanism != Mechanism::Tcp
        && (can.pollable || can.needs_spinning)
}

pub(crate) fn long(number: u64, bytes: usize) -> Words {
    Words { data: (0..=250).cycle().take(bytes).collect::<Vec<u8>>().into(), number }
}

fn mechanism_of(client: &Client) -> Mechanism {
    client.connections()[0].mechanism
}

/// Calls, notes and a stream around one switch.
fn exchange_across(client: &Client, at: &str, to: Mechanism, notes: &mut u64) {
    let echo = EchoCaller::new(client, at).unwrap();
    let streams = StreamsCaller::new(client, at).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let (mut requests, mut replies) = streams.with(options.clone()).exchange().unwrap();
    let mut plan =
        streams.with(options.clone()).count(&Plan { items: 40, bytes: 900, code: 0 }).unwrap();
    requests.send(&item(0, 3_000)).unwrap();
    let mut note = |count: u64| {
        for _ in 0..count {
            echo.with(options.clone()).note(&words(*notes)).unwrap();
            *notes += 1;
        }
    };
    note(5);
    let pending: Vec<_> = [0, 40, 3_000, 90_000]
        .map(|bytes| echo.with(options.clone()).start_say(&long(bytes as u64, bytes)))
        .into_iter()
        .collect();
    client.switch(at, to.name(), PATIENCE).unwrap();
    note(5);
    requests.send(&item(1, 3_000)).unwrap();
    for (bytes, call) in [0, 40, 3_000, 90_000].into_iter().zip(pending) {
        assert_eq!(call.wait().unwrap(), long(bytes as u64, bytes), "{to}");
    }
    for number in 0..2 {
        assert_eq!(replies.recv().unwrap(), Some(item(number, 3_000)), "{to}");
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None, "{to}");
    for number in 0..40 {
        assert_eq!(plan.next().unwrap().unwrap(), item(number, 900), "{to}");
    }
    assert_eq!(
        echo.with(options.clone()).say(&long(1, 150_000)).unwrap(),
        long(1, 150_000),
        "{to}"
    );
    assert_eq!(echo.with(options.clone()).say(&words(BOOKS)).unwrap().number, *notes, "{to}");
}

/// Every pair of mechanisms, there and back, on the connections of one client.
fn every_pair(client: &Client) {
    let both = Both::start(Limits { switches_per_minute_max: 100_000, ..Limits::default() });
    let all: Vec<Mechanism> = Mechanism::all().filter(|it| usable(*it)).collect();
    let mut notes = 0;
    for &from in &all {
        let at = format!("{}?via={from}", both.address);
        for &to in all.iter().skip_while(|to| **to != from).skip(1) {
            let _alone = alone(&format!("{from} {to}"));
            exchange_across(client, &at, to, &mut notes);
            exchange_across(client, &at, from, &mut notes);
        }
    }
    assert_eq!(notes, 10 * (all.len() * (all.len() - 1)) as u64);
}

#[test]
fn a_connection_moves_between_all_pairs_of_mechanisms_under_load() {
    in_time_of(2 * PATIENCE, || every_pair(&Client::new()));
}

#[test]
fn a_connection_of_a_loop_moves_between_all_pairs_of_mechanisms() {
    in_time_of(2 * PATIENCE, || {
        let event_loop = EventLoop::new().unwrap();
        every_pair(&Client::in_loop(&event_loop));
    });
}

/// What cannot be had is refused with the reason, and the old channel goes on.
#[timed]
fn what_cannot_be_had_leaves_the_connection_where_it_is() {
    let limits = Limits { switches_per_minute_max: 3, ..Limits::default() };
    let both = Both::listening(limits, |address| format!("{address}?allow=shm,pipe,sysv-mq"));
    let (client, at) = (Client::new(), &both.address);
    let echo = EchoCaller::new(&client, at).unwrap();
    let fails = |to: &str| client.switch(at, to, PATIENCE).unwrap_err();
    let none = fails("pipe");
    assert_eq!(none.code(), Code::FailedPrecondition);
    assert!(none.message().contains("no connection"), "{none}");
    echo.nothing(&()).unwrap();
    let unknown = fails("shm-futexx");
    assert_eq!(unknown.code(), Code::InvalidArgument);
    assert!(unknown.message().contains("shm-futex"), "{unknown}");
    let not_offered = fails("unix-stream");
    assert_eq!(not_offered.code(), Code::FailedPrecondition);
    assert!(not_offered.message().contains("offer"), "{not_offered}");
    if Mechanism::SysvMq.supported().is_ok() {
        let not_pollable = fails("sysv-mq");
        assert_eq!(not_pollable.code(), Code::FailedPrecondition, "{not_pollable}");
    }
    assert_eq!(mechanism_of(&client), Mechanism::Shm);
    assert_eq!(echo.say(&words(4)).unwrap(), words(4));
    client.switch(at, "pipe", PATIENCE).unwrap();
    assert_eq!(mechanism_of(&client), Mechanism::Pipe);
    // Refused ones count as well: they cost the server as much.
    let too_often = fails("shm");
    assert_eq!(too_often.code(), Code::ResourceExhausted, "{too_often}");
    assert_eq!(mechanism_of(&client), Mechanism::Pipe);
    assert_eq!(echo.say(&words(5)).unwrap(), words(5));
}

#[timed]
fn a_connection_that_is_to_stay_on_tcp_stays() {
    let both = Both::listening(Limits { switches_per_minute_max: 3, ..Limits::default() }, |_| {
        "tcp://127.0.0.1:0".to_owned()
    });
    let (client, at) = (Client::new(), format!("{}?via=tcp", both.address));
    let echo = EchoCaller::new(&client, &at).unwrap();
    echo.nothing(&()).unwrap();
    expect_error(client.switch(&at, "shm", PATIENCE), Code::FailedPrecondition, &["tcp"]);
    assert_eq!(echo.say(&words(5)).unwrap(), words(5));
}

#[timed]
fn a_server_that_does_not_allow_it_is_not_asked() {
    let both = Both::start(Limits { switches_per_minute_max: 0, ..Limits::default() });
    let client = Client::new();
    let echo = EchoCaller::new(&client, &both.address).unwrap();
    echo.nothing(&()).unwrap();
    expect_code(client.switch(&both.address, "pipe", PATIENCE), Code::FailedPrecondition);
    assert_eq!((mechanism_of(&client), echo.say(&words(5))), (Mechanism::Shm, Ok(words(5))));
}
