//! Several clients of one loop over mechanisms without a descriptor, of which a loop takes one.
//!
//! **Invariants:** a client that is refused gets the reason, at whatever moment it comes.

use std::collections::BTreeMap;
use std::sync::Barrier;

use crate::stage::prelude::*;

const CLIENTS: usize = 3;
const ROUNDS: usize = 30;

#[timed]
fn clients_that_a_loop_cannot_sleep_in_are_told_so() {
    for via in ["shm-condvar", "shm-mq", "shm-futex", "sysv-mq"] {
        let served = Served::start();
        let at = served.via(&format!("?via={via}"));
        let together = Barrier::new(CLIENTS);
        let errors: BTreeMap<String, usize> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut errors = Vec::new();
                        for _ in 0..ROUNDS {
                            together.wait();
                            let caller = EchoCaller::new(&Client::new(), &at).unwrap();
                            for _ in 0..3 {
                                errors.extend(caller.nothing(&()).err());
                            }
                        }
                        errors
                    })
                })
                .collect();
            let errors = clients.into_iter().flat_map(|client| client.join().unwrap());
            errors.fold(BTreeMap::new(), |mut counts, status| {
                assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
                *counts.entry(status.message().to_owned()).or_default() += 1;
                counts
            })
        });
        for text in errors.keys() {
            assert!(text.contains("no descriptor"), "{via}: {errors:#?}");
        }
    }
}
