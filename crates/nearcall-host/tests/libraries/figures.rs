//! What a call between two libraries costs, beside one to another process. Printed, not judged.
//!
//! `NEARCALL_FIGURES` sets how many calls are measured; a build with `--release` on a quiet machine
//! has the figures that count.

use nearcall::CallOptions;

use crate::group::{Group, PATIENCE, service};
use crate::home::WatchRequest;

const CALLS: &str = "2000";

/// Returns what a call takes in nanoseconds, from a library of the group to that at an address.
fn measure(group: &[nearcall_host::library::LibraryConfig]) -> f64 {
    let running = Group::start(group);
    let thermostat = running.caller(&group[0]);
    let options = CallOptions::new().deadline(PATIENCE);
    thermostat.with(options).watch(&WatchRequest {}).unwrap().celsius
}

#[test]
fn the_cost_of_a_call_between_two_libraries() {
    let calls = std::env::var("NEARCALL_FIGURES").unwrap_or_else(|_| CALLS.to_owned());
    let services = ["nonblocking", "plain", "plain"].map(|kind| service(&[kind]));
    let [prompt, near, far] = services;
    let _elsewhere = Group::start(std::slice::from_ref(&far));
    let prompt_ns = measure(&[service(&["measure", &prompt.listen, &calls]), prompt]);
    let near_ns = measure(&[service(&["measure", &near.listen, &calls]), near]);
    let far_ns = measure(&[service(&["measure", &far.listen, &calls])]);
    println!(
        "a call from a library to one of its group: {prompt_ns:.0} ns if its methods do not wait, \
         otherwise {near_ns:.0} ns; to one of another process: {far_ns:.0} ns"
    );
}
