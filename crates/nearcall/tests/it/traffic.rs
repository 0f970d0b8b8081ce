//! What connections count of their messages.

use nearcall::observe::{MessageCounts, Traffic};

use crate::stage::prelude::*;

const HEADER_BYTES: u64 = 40;

/// Both ends count every call and reply once, small or long, before and after a switch.
#[timed]
fn both_ends_count_each_message_once() {
    let limits = Limits { switches_per_minute_max: 100, ..Limits::default() };
    let (event_loop, server, at) =
        serve_here_with(limits, &unique_address(), EchoDispatcher::new(Service::default()));
    let client = Client::in_loop(&event_loop).without_short_circuit();
    let echo = EchoCaller::new(&client, &at).unwrap();
    echo.nothing(&()).unwrap();
    let counts = || {
        let [ours] = &client.connections()[..] else { panic!("one connection") };
        let [theirs] = &server.connections()[..] else { panic!("one connection") };
        (ours.traffic.unwrap(), theirs.traffic.unwrap())
    };
    let (ours_before, theirs_before) = counts();
    for mechanism in ["shm", "unix-stream"] {
        for bytes in [0, 10, 1_000, 200_000] {
            let request = Words { data: vec![7; bytes].into(), number: 1 };
            assert_eq!(echo.say(&request).unwrap(), request, "{mechanism}");
        }
        echo.note(&words(0)).unwrap();
        if mechanism == "shm" {
            client.switch(&at, "unix-stream", PATIENCE).unwrap();
        }
    }
    echo.nothing(&()).unwrap();
    let (ours, theirs) = counts();
    check(&ours.since(&ours_before), &theirs.since(&theirs_before));
    let shown = client.connections()[0].to_string();
    assert!(shown.contains("messages"), "{shown}");
}

fn check(ours: &Traffic, theirs: &Traffic) {
    assert_eq!(ours.sent.messages(), 11, "{ours}: 8 calls, 2 notes, and the last call");
    assert_eq!(theirs.sent.messages(), 9, "{theirs}");
    for (sent, received) in [(ours.sent, theirs.received), (theirs.sent, ours.received)] {
        // The steps of the switch are headers of the protocol's own.
        let own = received.messages() - sent.messages();
        assert_eq!(received.bytes, sent.bytes + own * HEADER_BYTES);
        let is_its_class = |i: &usize| MessageCounts::class_bytes_max(*i) > 200_000;
        let class = (0..MessageCounts::CLASSES).find(is_its_class).unwrap();
        assert_eq!((sent.by_size[class], received.by_size[class]), (2, 2));
    }
}
