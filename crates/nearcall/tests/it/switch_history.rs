//! What both ends remember of the switches of a connection.
//!
//! **Not here:** switches under load (`switching.rs`).

use nearcall::control::{DescribeRequest, ServerCaller};
use nearcall::observe::{SwitchCause, SwitchRecord};

use crate::stage::prelude::*;

/// What is to be seen of one switch.
fn facts(record: &SwitchRecord) -> (Mechanism, Option<Mechanism>, SwitchCause, bool) {
    (record.from, record.to, record.cause, record.outcome.is_ok())
}

#[timed]
fn both_ends_remember_the_last_switches_and_why_one_failed() {
    let limits = Limits { switches_per_minute_max: 100, ..Limits::default() };
    let at = format!("{}?allow=shm,pipe", unique_address());
    let server = Server::builder().limits(limits).listen(&at).start().unwrap();
    let (client, at) = (Client::new(), server.address().to_string());
    let service = ServerCaller::new(&client, &at).unwrap();
    let describe = || service.describe(&DescribeRequest::default()).unwrap();
    describe();
    assert!(client.connections()[0].switches.is_empty());
    client.switch(&at, "pipe", PATIENCE).unwrap();
    client.switch(&at, "unix-stream", PATIENCE).unwrap_err();
    client.switch(&at, "shm", PATIENCE).unwrap();
    describe();
    let (shm, pipe) = (Mechanism::Shm, Mechanism::Pipe);
    for switches in [&client.connections()[0].switches, &server.connections()[0].switches] {
        assert_eq!(
            switches.iter().map(facts).collect::<Vec<_>>(),
            [
                (shm, Some(pipe), SwitchCause::Program, true),
                (pipe, Some(Mechanism::UnixStream), SwitchCause::Program, false),
                (pipe, Some(shm), SwitchCause::Program, true),
            ]
        );
        let why = switches[1].outcome.as_ref().unwrap_err();
        assert!(why.contains("offer"), "{why}");
        assert!(switches.iter().all(|it| it.at.elapsed() < PATIENCE + Duration::from_secs(60)));
    }
    for _ in 0..5 {
        client.switch(&at, "pipe", PATIENCE).unwrap();
        client.switch(&at, "shm", PATIENCE).unwrap();
    }
    assert_eq!(client.connections()[0].switches.len(), 8);
}
