//! Callers that do not read the replies that they asked for: cut off if they read nothing for a
//! time, and not if they read a little.

use super::replies::Replying;
use crate::stage::prelude::*;

fn within(unread_timeout: Duration) -> Replying {
    Replying::with(Limits { unread_timeout, ..Limits::default() })
}

#[timed]
fn a_caller_that_never_reads_is_cut_off_with_the_reason() {
    let server = within(Duration::from_millis(200));
    for (number, way) in ["shm", "unix-stream", "pipe", "shm-futex", "tcp"].iter().enumerate() {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &server.at(way, "loop")).unwrap();
        let started: Vec<_> = (0..40).map(|_| echo.start_say(&words(500_000))).collect();
        wait_until("the end", || server.slow_readers() == number as u64 + 1);
        wait_until("its connection", || server.connections() == 0);
        let ended: Vec<_> = started.into_iter().map(|call| call.wait()).collect();
        let failed: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
        assert!(failed.len() > 20, "{way}: {}", failed.len());
        for status in failed {
            assert_eq!(status.code(), Code::Unavailable, "{way}: {status}");
            // Over TCP there is no line beside the messages.
            for part in ["the limit `unread_timeout` of the server", "200ms", "read replies"] {
                assert!(*way == "tcp" || status.message().contains(part), "{way}: {status}");
            }
        }
        echo.nothing(&()).unwrap();
        drop((echo, client));
        wait_until("the next connection", || server.connections() == 0);
    }
}

/// The timeout is longer than a thread is kept from running, and the caller takes much longer.
#[timed]
fn a_caller_that_reads_a_little_is_not_slow_readers() {
    let timeout = Duration::from_secs(3);
    let server = within(timeout);
    for way in ["shm", "unix-stream"] {
        let echo = EchoCaller::new(&Client::new(), &server.at(way, "task")).unwrap();
        let started: Vec<_> = (0..200).map(|_| echo.start_say(&words(60_000))).collect();
        let start = clock::now();
        for call in started {
            assert_eq!(call.wait().unwrap().data.len(), 60_000, "{way}");
            if start.elapsed() < 2 * timeout {
                clock::pause(timeout / 30);
            }
        }
        assert_eq!(server.slow_readers(), 0);
    }
}

#[test]
fn a_stream_that_is_not_read_is_not_slow_readers() {
    use crate::streams::served::{Kind, Plan, Served};

    in_time(|| {
        let limits = Limits { unread_timeout: Duration::from_millis(50), ..Limits::default() };
        for kind in Kind::BESIDE_THE_LOOP {
            let served = Served::with(kind, limits);
            for way in ["?via=shm", "?via=unix-stream"] {
                let streams = served.caller(&Client::new(), way);
                let plan = Plan { items: 20, bytes: 1_500_000, code: 0 };
                let items = streams.count(&plan).unwrap();
                // Many times the limit.
                clock::pause(Duration::from_millis(500));
                assert_eq!(items.map(Result::unwrap).count(), 20, "{kind:?}{way}");
            }
        }
    });
}
