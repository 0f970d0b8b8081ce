//! The conformance suite: each case over each mechanism, with each wait policy that it has.
//!
//! **Invariants:** the modules below name each mechanism of the table, which a test checks; the two
//! ends take turns in who listens, so that both have every part.
//! **Not here:** peers that break the rules (`hostile_region.rs`), the storm (`killed_peer.rs`).

use std::sync::{Mutex, PoisonError};

use crate::support::play::{self, Case};
use crate::support::prelude::*;
use crate::support::stage::Run;

mod capabilities;
mod claims;
mod closing;
mod killed;
mod readiness;
mod room;
mod sizes;
mod switching;

/// Gives `$then` its argument and the list of all cases.
macro_rules! for_each_case {
    ($then:ident $argument:tt) => {
        $then! {
            $argument
            sizes: many_messages_arrive_in_order, odd_sizes, oversized, timed_sends_arrive_in_order;
            claims: writing_in_place, dropped_claims_are_never_seen,
                a_long_message_given_up_half_way, an_incomplete_commit_gives_up,
                a_message_released_half_read, reading_in_place;
            room: a_full_channel_refuses_and_loses_nothing, deadlines_are_kept,
                a_late_message_is_given_up, a_slow_message_outlives_deadlines,
                both_directions_at_once, a_sender_sleeps_once_for_many_messages;
            readiness: an_event_loop_sleeps_until_a_message, an_event_loop_sleeps_until_room,
                an_event_loop_notices_the_end, a_disarmed_end_is_not_woken;
            capabilities: claims_of_the_table_hold, both_ends_on_one_cpu, descriptors_pass,
                meeting_by_name;
            closing: what_was_sent_before_the_close_arrives, a_close_wakes_a_receiver,
                a_close_wakes_a_sender;
            killed: killed_while_idle, killed_with_messages_unread, killed_while_we_receive,
                killed_while_we_send, killed_while_sending, killed_while_receiving,
                killed_while_echoing;
            switching: changes_to_every_mechanism;
        }
    };
}

macro_rules! table {
    (all $($file:ident: $($case:ident),*;)*) => {
        &[$($((stringify!($case), $file::$case as Case),)*)*]
    };
}

macro_rules! tests {
    ($mechanism:ident $($file:ident: $($case:ident),*;)*) => {
        $($(
            #[test]
            fn $case() {
                super::run(super::Mechanism::$mechanism, stringify!($case));
            }
        )*)*
    };
}

macro_rules! mechanisms {
    ($($module:ident $mechanism:ident,)*) => {
        $(mod $module { for_each_case! { tests $mechanism } })*
        const TESTED: &[Mechanism] = &[$(Mechanism::$mechanism),*];
    };
}

const CASES: &[(&str, Case)] = for_each_case! { table all };

super::for_each_mechanism! { mechanisms }

#[test]
fn every_mechanism_is_tested() {
    assert_eq!(Mechanism::all().collect::<Vec<_>>(), TESTED);
}

/// Where the processes of a case begin; nothing when the harness runs it.
#[test]
fn entry() {
    play::enter(CASES);
}

/// How long one run of one case may take. Far above what is needed: it ends a hang.
const TIMEOUT: Duration = Duration::from_secs(20);

fn run(mechanism: Mechanism, case: &str) {
    // Two spinning processes at a time leave the others a chance.
    static SPINNING: Mutex<()> = Mutex::new(());
    if let Err(reason) = mechanism.supported() {
        return report(&format!("{mechanism}: unsupported: {reason}"));
    }
    let place = CASES.iter().position(|(name, _)| *name == case).unwrap();
    for (turn, wait) in mechanism.waits().iter().copied().enumerate() {
        let _alone = (wait == WaitPolicy::Spin)
            .then(|| SPINNING.lock().unwrap_or_else(PoisonError::into_inner));
        let entry = "conformance::entry";
        let first_serves = (turn + place).is_multiple_of(2);
        let run = Run { entry, case, mechanism, wait, first_serves, timeout: TIMEOUT };
        for line in run.run() {
            report(&format!("{case}: {line}"));
        }
    }
}
