//! Connections that move to another mechanism while calls, one-way messages, streams and loans are
//! under way.
//!
//! **Not here:** the state machine (`nearcall-wire`), handshakes that fail (`nearcall-channel`).

use std::sync::Arc;

use nearcall::{CallOptions, Client, EventLoop, Limits, Mechanism};

use crate::echo::{EchoCaller, EchoDispatcher, Words};
use crate::stage::{PATIENCE, Scripted, alone, in_time, words};
use crate::streams::served::{self, Kind, Plan, StreamsCaller, item};
use crate::support::{LoopThread, everything, unique_address};

/// A server with an echo that counts notes, and with streams.
struct Both {
    address: String,
    _thread: LoopThread,
}

impl Both {
    fn start(limits: Limits) -> Self {
        let address = unique_address();
        let at = everything(&address);
        let (_thread, ()) = LoopThread::serve(limits, move |_, server| {
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
            served::register(server, served::Service::new(Kind::Loop));
            server.listen(&at).unwrap();
        });
        Self { address, _thread }
    }
}

/// The number of a `Say` that asks how many notes have come, if all came in order.
const BOOKS: u64 = u64::MAX - 1;

/// What may take a place in the loop of a server: one of the others takes it whole.
fn usable(mechanism: Mechanism) -> bool {
    let can = mechanism.capabilities();
    mechanism.supported().is_ok()
        && mechanism != Mechanism::Tcp
        && (can.pollable || can.needs_spinning)
}

fn long(number: u64, bytes: usize) -> Words {
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
    let (mut requests, mut replies) = streams.exchange_with(&options).unwrap();
    let mut plan = streams.count_with(&Plan { items: 40, bytes: 900, code: 0 }, &options).unwrap();
    requests.send(&item(0, 3_000)).unwrap();
    let mut note = |count: u64| {
        for _ in 0..count {
            echo.note_with(&words(*notes), &options).unwrap();
            *notes += 1;
        }
    };
    note(5);
    let pending: Vec<_> = [0, 40, 3_000, 90_000]
        .map(|bytes| echo.start_say_with(&long(bytes as u64, bytes), &options))
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
    assert_eq!(echo.say_with(&long(1, 300_000), &options).unwrap(), long(1, 300_000), "{to}");
    assert_eq!(echo.say_with(&words(BOOKS), &options).unwrap().number, *notes, "{to}");
}

/// Every ordered pair of mechanisms, one after the other on the connections of one client.
fn every_pair(client: &Client) {
    let both = Both::start(Limits { switches_per_minute_max: 100_000, ..Limits::default() });
    let all: Vec<Mechanism> = Mechanism::all().filter(|it| usable(*it)).collect();
    let mut notes = 0;
    for &from in &all {
        let at = format!("{}?via={from}", both.address);
        for &to in all.iter().filter(|to| **to != from) {
            let _alone = alone(&format!("{from} {to}"));
            eprintln!("{from} {to}");
            exchange_across(client, &at, to, &mut notes);
            exchange_across(client, &at, from, &mut notes);
        }
    }
    assert!(notes >= 20 * (all.len() * (all.len() - 1)) as u64);
}

#[test]
fn a_connection_moves_between_all_pairs_of_mechanisms_under_load() {
    in_time(|| every_pair(&Client::new()));
}

#[test]
fn a_connection_of_a_loop_moves_between_all_pairs_of_mechanisms() {
    in_time(|| {
        let event_loop = EventLoop::new().unwrap();
        every_pair(&Client::in_loop(&event_loop));
    });
}
