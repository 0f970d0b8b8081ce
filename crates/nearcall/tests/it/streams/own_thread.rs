//! Streams between a caller and a service of one loop.

use nearcall::client::WaitPolicy;

use super::served::{Kind, Plan, Served, StreamsCaller, item, own_addresses};
use super::{Caller, exchange};
use crate::stage::prelude::*;

/// A loop with a service and a caller of it: with and without a socket, and over its socket.
fn with_loop(kind: Kind, case: impl Fn(&StreamsCaller)) {
    for address in own_addresses() {
        let served = Served::own(kind, &address);
        case(&served.caller(&served.own_client(), ""));
        if !address.starts_with("inproc") {
            case(&served.caller(&served.own_client().without_short_circuit(), ""));
        }
    }
}

#[timed]
fn short_streams_to_a_method_of_the_own_loop_work() {
    with_loop(Kind::Loop, |streams| {
        let plan = Plan { items: 100, bytes: 1000, code: 0 };
        assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 100);
        let mut upload = streams.sum().unwrap();
        (0..100).for_each(|number| upload.send(&item(number, 10)).unwrap());
        assert_eq!(upload.finish().unwrap().number, (0..100).sum());
        assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
    });
}

#[timed]
fn streams_to_tasks_and_pools_of_the_own_loop_work() {
    for kind in Kind::BESIDE_THE_LOOP {
        with_loop(kind, |streams| {
            let options = CallOptions::new().deadline(Duration::from_secs(30));
            for (items, bytes) in [(0, 0), (300, 8), (200, 20_000), (5, 1 << 20)] {
                exchange(&Caller::Blocking(streams.clone()), &options, items, bytes);
            }
        });
    }
}

#[timed]
fn every_mechanism_carries_streams_within_a_loop() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let _alone = alone(mechanism.name());
        let can_spin = mechanism.waits().contains(&WaitPolicy::Spin);
        let is_pollable = mechanism.capabilities().pollable;
        let wait = if is_pollable || !can_spin { "" } else { "&wait=spin" };
        for address in own_addresses() {
            let served = Served::own(Kind::Async, &address);
            let parameters = format!("?via={mechanism}{wait}");
            let streams = Caller::Blocking(served.caller(&served.own_client(), &parameters));
            if !is_pollable && !can_spin {
                // The loop would have to sleep in both ends at once.
                let refused = streams.count(&Plan::default()).unwrap_err();
                let text = refused.message();
                assert!(text.contains("has no descriptor, and its event loop"), "{text}");
                continue;
            }
            let options = CallOptions::new().deadline(Duration::from_secs(30));
            for (items, bytes) in [(100, 8), (5, 1 << 20)] {
                exchange(&streams, &options, items, bytes);
            }
        }
    }
}

/// The echoes are not read, so the service stops reading.
#[timed]
fn a_caller_waits_for_a_service_of_its_loop_that_does_not_read() {
    for kind in Kind::BESIDE_THE_LOOP {
        with_loop(kind, |streams| {
            let options = CallOptions::new().deadline(Duration::from_millis(500));
            let (mut requests, mut replies) = streams.with(options).exchange().unwrap();
            let mut sent = 0;
            let late = loop {
                match requests.send(&item(sent, 10_000)) {
                    Ok(()) => sent += 1,
                    Err(status) => break status,
                }
            };
            assert_eq!(late.code(), Code::DeadlineExceeded, "{kind:?}");
            // Both windows, and what waits to be sent.
            let most = (2 * u64::from(Limits::default().stream_window_bytes) + (1 << 20)) / 10_000;
            assert!((1..=most).contains(&sent), "{kind:?}: {sent} items");
            let end = replies.find_map(Result::err).unwrap();
            assert_eq!(end.code(), Code::DeadlineExceeded, "{kind:?}");
        });
    }
}

#[timed]
fn waiting_for_a_server_of_the_own_loop_finds_it() {
    let served = Served::own(Kind::Async, "inproc:streams");
    let client = served.own_client();
    client.hunt("inproc:streams", Duration::from_secs(30)).unwrap();
    let none = client.hunt("inproc:none", Duration::from_millis(10)).unwrap_err();
    assert!(matches!(none.code(), Code::Unavailable | Code::DeadlineExceeded), "{none}");
    assert_eq!(served.caller(&client, "").say(&item(1, 1)).unwrap(), item(1, 1));
}

/// Its caller could not go on before the method has returned, so waiting would never end.
#[timed]
fn a_method_of_the_own_loop_that_has_to_wait_for_its_caller_fails() {
    with_loop(Kind::Loop, wait_for_the_caller);
}

#[timed]
fn a_method_that_is_called_by_another_name_of_its_loop_fails_as_well() {
    let socket = |name: &str| format!("/tmp/nearcall-{name}-{}", std::process::id());
    let (path, link) = (socket("own"), socket("alias"));
    let served = Served::own(Kind::Loop, &format!("unix:{path}"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for client in [served.own_client(), served.own_client().without_short_circuit()] {
        let streams = StreamsCaller::new(&client, &format!("unix:{link}")).unwrap();
        wait_for_the_caller(&streams);
    }
    std::fs::remove_file(&link).unwrap();
}

fn wait_for_the_caller(streams: &StreamsCaller) {
    let plan = Plan { items: 1000, bytes: 100_000, code: 0 };
    let errors: Vec<_> = streams.count(&plan).unwrap().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].code(), Code::FailedPrecondition);
    assert!(errors[0].message().contains("BlockingPool"), "{}", errors[0]);
    let (mut requests, mut replies) = streams.exchange().unwrap();
    requests.send(&item(1, 10)).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(item(1, 10)));
    assert_eq!(replies.recv().unwrap_err().code(), Code::FailedPrecondition);
}
