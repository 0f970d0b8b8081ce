//! What a call between two libraries costs, beside one between two processes. Printed, not judged.
//!
//! `NEARCALL_FIGURES` sets how many calls are measured; a build with `--release` has the figures
//! that count.

use nearcall::CallOptions;
use nearcall_os::clock::monotonic_ns;

use crate::group::{Group, PATIENCE, service};
use crate::home::{SetTargetRequest, ThermostatCaller};

const CALLS: u32 = 2000;

/// Returns the time of a call in nanoseconds.
fn measure(thermostat: &ThermostatCaller, calls: u32) -> f64 {
    // Not the 250 ms of the interface: the machine may be busy.
    let options = CallOptions::new().deadline(PATIENCE);
    let request = SetTargetRequest { celsius: 20.0 };
    let call = || thermostat.set_target_with(&request, &options).unwrap();
    (0..calls / 10).for_each(|_| assert!(call().celsius_before >= 0.0));
    let start = monotonic_ns();
    (0..calls).for_each(|_| assert!(call().celsius_before >= 0.0));
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let ns = (monotonic_ns() - start) as f64;
    ns / f64::from(calls)
}

#[test]
fn the_cost_of_a_call_between_two_libraries() {
    let calls = std::env::var("NEARCALL_FIGURES").ok().and_then(|text| text.parse().ok());
    let calls = calls.unwrap_or(CALLS);
    let plain = service(&["plain"]);
    let relay = service(&["relay", &plain.listen]);
    let group = Group::start(&[plain.clone(), relay.clone()]);
    let elsewhere = service(&["plain"]);
    let _other = Group::start(std::slice::from_ref(&elsewhere));
    let relay_elsewhere = service(&["relay", &elsewhere.listen]);
    let relays = Group::start(std::slice::from_ref(&relay_elsewhere));
    let one = measure(&group.caller(&plain), calls);
    let near = measure(&group.caller(&relay), calls);
    let far = measure(&relays.caller(&relay_elsewhere), calls);
    println!(
        "a call to a library {one:.0} ns; through another one of its group {near:.0} ns (+{:.0}), \
         of another process {far:.0} ns (+{:.0})",
        near - one,
        far - one
    );
}
