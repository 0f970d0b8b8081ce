//! The same calls over every mechanism and wait policy.

use std::time::Duration;

use nearcall::{CallOptions, Client, Mechanism};

use crate::echo::{EchoCaller, Words};
use crate::support::Served;

fn exchange(mechanism: Mechanism, parameters: &str) {
    let served = Served::start();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &served.via(parameters)).unwrap();
    echo.nothing(&()).unwrap();
    for bytes in [0, 1, 63, 5_000, 100_000, 1 << 20] {
        let data: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let request = Words { data, number: bytes as u64 };
        let reply = echo.say(&request).unwrap();
        assert!(reply == request, "{mechanism}: {bytes} bytes came back changed");
    }
    for number in 0..100 {
        echo.note(&Words { number, ..Words::default() }).unwrap();
    }
    let options = CallOptions::new().deadline(Duration::from_secs(10));
    assert_eq!(echo.quick(&Words { number: 4, ..Words::default() }).unwrap().number, 5);
    assert!(echo.look_with(&(), &options).unwrap().remaining_ns > 1_000_000_000);
}

#[test]
fn every_mechanism_carries_calls() {
    for mechanism in Mechanism::all() {
        if let Err(missing) = mechanism.supported() {
            assert!(!missing.is_empty());
            continue;
        }
        for wait in mechanism.waits() {
            exchange(mechanism, &format!("?via={mechanism}&wait={wait}"));
        }
    }
}
