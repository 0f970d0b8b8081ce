//! Peers that mean harm: what they hand over, and what they write into their own memory.
//!
//! The first end is an honest server, the second a client that speaks raw packets.
//!
//! **Invariants:** the server refuses with the right error and within its time, serves the next
//! client as if nothing had been, and holds nothing of the hostile one.

use crate::support::live_seconds;
use crate::support::play::{self, Case};
use crate::support::prelude::*;
use crate::support::stage::Run;

mod attack;
mod lanes;
mod live;
mod wakes;

/// Where the processes begin; nothing when the harness runs it.
#[test]
fn entry() {
    play::enter(CASES);
}

const TIMEOUT: Duration = Duration::from_secs(30);

fn run(case: &str, mechanism: Mechanism, wait: WaitPolicy) {
    let entry = "hostile_region::entry";
    // A connection of an instrumented build takes several times its share of the seconds.
    let timeout = TIMEOUT + Duration::from_secs(live_seconds().unwrap_or(0) * 8);
    let run = Run { entry, case, mechanism, wait, first_serves: true, timeout };
    for line in run.run() {
        report(&format!("{case}: {line}"));
    }
}

macro_rules! cases {
    ($($name:ident $file:ident $mechanism:ident $wait:ident,)*) => {
        const CASES: &[(&str, Case)] = &[$((stringify!($name), $file::$name),)*];
        $(
            #[test]
            fn $name() {
                run(stringify!($name), Mechanism::$mechanism, WaitPolicy::$wait);
            }
        )*
    };
}

cases! {
    an_unknown_process_is_refused attack ShmFutex Block,
    r02_bad_parts_are_refused attack ShmFutex Block,
    bad_terms_are_refused attack ShmFutex Block,
    a_client_that_leaves_or_falls_silent_is_given_up attack ShmFutex Block,
    r02_bad_parts_of_shm_are_refused attack Shm Adaptive,
    r03_random_bytes_in_a_live_shm_that_adapts live Shm Adaptive,
    r03_random_bytes_in_a_live_shm_that_polls live Shm Poll,
    r04_random_bytes_in_a_live_shm_spinning live Shm Spin,
    r03_random_bytes_in_a_live_ring_asleep live ShmFutex Block,
    r04_random_bytes_in_a_live_ring_spinning live ShmSpin Spin,
    r03_random_bytes_in_live_lanes_and_segments lanes Shm Adaptive,
    r20_a_peer_that_never_wakes_delays_its_own_messages_only wakes Shm Block,
    r20_wakes_at_full_speed_end_no_wait_early wakes Shm Block,
    r20_signals_at_full_speed_end_no_wait_early wakes Shm Block,
}
