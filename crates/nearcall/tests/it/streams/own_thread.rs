//! Streams between a caller and a service of one loop.

use std::time::Duration;

use nearcall::{CallOptions, Client, Code, EventLoop, Server};

use super::exchange;
use super::served::{Kind, Plan, Service, StreamsCaller, item, register};
use crate::stage::in_time;
use crate::support::unique_address;

/// A loop with a service and a caller of it.
fn with_loop(kind: Kind, case: impl Fn(&StreamsCaller)) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    register(&server, Service::new(kind));
    let address = unique_address();
    server.listen(&address).unwrap();
    for client in
        [Client::in_loop(&event_loop), Client::in_loop(&event_loop).without_short_circuit()]
    {
        case(&StreamsCaller::new(&client, &address).unwrap());
    }
}

#[test]
fn short_streams_to_a_method_of_the_own_loop_work() {
    in_time(|| {
        with_loop(Kind::Loop, |streams| {
            let plan = Plan { items: 100, bytes: 1000, code: 0 };
            assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 100);
            let mut upload = streams.sum().unwrap();
            (0..100).for_each(|number| upload.send(&item(number, 10)).unwrap());
            assert_eq!(upload.finish().unwrap().number, (0..100).sum());
            assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
        });
    });
}

#[test]
fn streams_to_tasks_and_pools_of_the_own_loop_work() {
    in_time(|| {
        for kind in [Kind::Thread, Kind::Pool, Kind::Async] {
            with_loop(kind, |streams| {
                let options = CallOptions::new().deadline(Duration::from_secs(30));
                for (items, bytes) in [(0, 0), (300, 8), (200, 20_000), (5, 1 << 20)] {
                    exchange(streams, &options, items, bytes);
                }
            });
        }
    });
}

/// Its caller could not go on before the method has returned, so waiting would never end.
#[test]
fn a_method_of_the_own_loop_that_has_to_wait_for_its_caller_fails() {
    in_time(|| {
        with_loop(Kind::Loop, |streams| {
            let plan = Plan { items: 1000, bytes: 100_000, code: 0 };
            let errors: Vec<_> = streams.count(&plan).unwrap().filter_map(Result::err).collect();
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0].code(), Code::FailedPrecondition);
            assert!(errors[0].message().contains("BlockingPool"), "{}", errors[0]);
            let (mut requests, mut replies) = streams.exchange().unwrap();
            requests.send(&item(1, 10)).unwrap();
            assert_eq!(replies.recv().unwrap(), Some(item(1, 10)));
            assert_eq!(replies.recv().unwrap_err().code(), Code::FailedPrecondition);
        });
    });
}
