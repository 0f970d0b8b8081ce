//! What services send beside the ends of streams.
//!
//! **Not here:** beside other replies (`reply_metadata.rs`).

use nearcall::client::ReplyMetadata;

use super::forms::{Caller, caller};
use super::served::{Kind, Plan, Served, item, own_addresses};
use crate::hunts::Form;
use crate::stage::prelude::*;

#[track_caller]
fn check(metadata: &ReplyMetadata, method: &str) {
    assert_eq!(metadata.iter().collect::<Vec<_>>(), [("served-by", method.as_bytes())]);
}

/// The end waits behind items, behind none, and is an error.
const PLANS: [Plan; 3] = [
    Plan { items: 100, bytes: 10_000, code: 0 },
    Plan { items: 0, bytes: 0, code: 0 },
    Plan { items: 100, bytes: 10, code: 10 },
];

#[track_caller]
fn check_error(status: &Status) {
    assert_eq!((status.code(), status.metadata().get("served-by")), (Code::Aborted, Some("count")));
}

fn call(streams: &Caller) {
    for plan in PLANS {
        let mut replies = streams.count(&plan).unwrap();
        let mut items = 0;
        let end = loop {
            assert!(replies.metadata().is_empty(), "the end was not read");
            match replies.recv() {
                Ok(Some(_)) => items += 1,
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        assert_eq!((items, end.is_ok()), (plan.items, plan.code == 0));
        if let Err(status) = end {
            check_error(&status);
        }
        check(&replies.metadata(), "count");
        assert_eq!(replies.recv().unwrap(), None);
        check(&replies.metadata(), "count");
    }
    let mut requests = streams.sum().unwrap();
    requests.send(&item(5, 10)).unwrap();
    let (sum, metadata) = requests.finish_with_metadata();
    assert_eq!(sum.unwrap().number, 5);
    check(&metadata, "sum");
    let (requests, mut replies) = streams.exchange().unwrap();
    let (finished, metadata) = requests.finish_with_metadata();
    assert!(finished.is_ok() && metadata.is_empty());
    assert_eq!(replies.recv().unwrap(), None);
    check(&replies.metadata(), "exchange");
}

#[timed]
fn metadata_travel_with_the_ends_of_streams() {
    let event_loop = EventLoop::new().unwrap();
    for kind in Kind::ALL {
        let served = Served::start(kind);
        for via in ["", "?via=pipe"] {
            let at = format!("{}{via}", served.address);
            for form in Form::ALL {
                call(&caller(form, &event_loop, &at));
            }
        }
    }
    for kind in Kind::BESIDE_THE_LOOP {
        for address in own_addresses() {
            let served = Served::own(kind, &address);
            call(&Caller::Blocking(served.caller(&served.own_client(), "")));
        }
    }
}
