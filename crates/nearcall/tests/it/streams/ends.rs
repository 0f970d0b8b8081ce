//! The ends of streams: in the middle, by either side, by time and by death.

use super::forms::{Caller, in_each_form};
use super::served::{Kind, PANIC, Plan, Served, item, own_addresses};
use crate::stage::prelude::*;

/// In each way, and with a client in the loop of the server.
fn everywhere(case: impl Fn(&str, &Served, &Caller) + Send + 'static) {
    in_time(move || {
        let case = |what: &str, served: &Served, caller: &Caller| {
            case(what, served, caller);
            assert_eq!(caller.say(&item(3, 3)).unwrap(), item(3, 3), "{what}");
        };
        in_each_form(case);
        for kind in Kind::BESIDE_THE_LOOP {
            for address in own_addresses() {
                let served = Served::own(kind, &address);
                let caller = Caller::Blocking(served.caller(&served.own_client(), ""));
                case(&format!("{kind:?}, {address}"), &served, &caller);
            }
        }
    });
}

/// Opens the connection, so that a deadline is one of a stream alone. Streams within a loop have
/// one of their own, which a call without a stream does not need.
fn open_connection(streams: &Caller) {
    assert_eq!(streams.count(&Plan::default()).unwrap().count(), 0);
}

#[test]
fn an_error_comes_after_the_items_before_it() {
    everywhere(|what, _, streams| {
        let plan = Plan { items: 1000, bytes: 500, code: 10 };
        let mut replies = streams.count(&plan).unwrap();
        for number in 0..1000 {
            assert_eq!(replies.recv().unwrap().unwrap().number, number, "{what}");
        }
        let status = replies.recv().unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Aborted, "as planned"), "{what}");
        assert_eq!(replies.recv().unwrap(), None, "the error comes once");
    });
}

#[test]
fn a_panic_ends_its_stream_after_the_items_before_it() {
    everywhere(|what, _, streams| {
        let mut replies = streams.count(&Plan { items: 10, bytes: 100, code: PANIC }).unwrap();
        for number in 0..10 {
            assert_eq!(replies.recv().unwrap().unwrap().number, number, "{what}");
        }
        assert_eq!(replies.recv().unwrap_err().code(), Code::Unknown, "{what}");
        let (one, bad) = (item(1, 1), item(PANIC.into(), 1));
        let mut requests = streams.sum().unwrap();
        requests.send(&one).unwrap();
        requests.send(&bad).unwrap();
        assert_eq!(requests.finish().unwrap_err().code(), Code::Unknown, "{what}");
        let (mut requests, mut replies) = streams.exchange().unwrap();
        requests.send(&one).unwrap();
        assert_eq!(replies.recv().unwrap().unwrap(), one, "{what}");
        requests.send(&bad).unwrap();
        assert_eq!(replies.recv().unwrap_err().code(), Code::Unknown, "{what}");
    });
}

#[test]
fn a_caller_that_drops_the_replies_ends_the_call() {
    everywhere(|what, served, streams| {
        let plan = Plan { items: 1 << 40, bytes: 100, code: 0 };
        let mut replies = streams.count(&plan).unwrap();
        for number in 0..10 {
            assert_eq!(replies.recv().unwrap().unwrap().number, number);
        }
        drop(replies);
        assert_eq!(served.failure(), Code::Cancelled, "{what}");
    });
}

#[test]
fn a_caller_that_drops_the_requests_ends_the_call() {
    everywhere(|what, served, streams| {
        let (mut requests, mut replies) = streams.exchange().unwrap();
        requests.send(&item(1, 10)).unwrap();
        assert_eq!(replies.recv().unwrap(), Some(item(1, 10)), "the method runs");
        drop(requests);
        assert_eq!(served.failure(), Code::Cancelled, "{what}");
        assert_eq!(replies.recv().unwrap_err().code(), Code::Cancelled);
    });
}

#[test]
fn a_deadline_ends_the_whole_stream() {
    everywhere(|what, served, streams| {
        open_connection(streams);
        let options = CallOptions::new().deadline(Duration::from_millis(200));
        let (mut requests, mut replies) = streams.with(options).exchange().unwrap();
        let first = requests.send(&item(0, 10)).and_then(|()| replies.recv());
        // On a busy machine the time may be over before the echo is there.
        let echoes = first.is_ok();
        let ended = match first {
            Ok(reply) => {
                assert_eq!(reply.unwrap().number, 0);
                replies.recv().unwrap_err()
            }
            Err(status) => status,
        };
        assert_eq!(ended.code(), Code::DeadlineExceeded, "{what}");
        let late = requests.send(&item(1, 10)).unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded, "{what}");
        if echoes {
            // Whichever end notices first.
            let code = served.failure();
            assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled), "{what}: {code}");
        }
    });
}

/// A service that sends without pause does not hold its caller beyond the deadline.
#[timed]
fn what_has_come_is_not_read_after_the_deadline() {
    in_each_form(|what, served, streams| {
        // A task gets what its connection has read in time.
        if matches!(streams, Caller::Task(_)) {
            return;
        }
        // Connected, so that all of the time is the call's.
        streams.say(&item(1, 1)).unwrap();
        let end = clock::now() + Duration::from_millis(200);
        let options = CallOptions::new().deadline_at(end);
        let plan = Plan { items: 1000, bytes: 100, code: 0 };
        let mut replies = streams.with(options).count(&plan).unwrap();
        served.settled();
        while clock::now() <= end {
            clock::pause(Duration::from_millis(1));
        }
        let status = replies.recv().unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{what}");
    })
}

#[test]
fn a_deadline_ends_a_sender_that_waits() {
    everywhere(|what, _, streams| {
        open_connection(streams);
        let plan = Plan { items: 1 << 40, bytes: 10_000, code: 0 };
        let mut replies = streams.count_quickly(&plan).unwrap();
        let status = loop {
            match replies.recv() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{what}"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::DeadlineExceeded, "{what}");
    });
}

#[timed]
fn both_ends_learn_that_a_server_has_gone() {
    for kind in Kind::ALL {
        let served = Served::start(kind);
        let streams = served.caller(&Client::new(), "");
        let plan = Plan { items: 1 << 40, bytes: 1000, code: 0 };
        let mut replies = streams.count(&plan).unwrap();
        assert!(replies.recv().unwrap().is_some());
        served.settled();
        if kind == Kind::Loop {
            // Its method runs inside the loop, which ends with the client only.
            drop(replies);
            continue;
        }
        drop(served);
        let mut errors = 0;
        for reply in replies.by_ref() {
            if let Err(status) = reply {
                assert_eq!(status.code(), Code::Unavailable, "{kind:?}");
                errors += 1;
            }
        }
        assert_eq!(errors, 1, "{kind:?}");
    }
}
