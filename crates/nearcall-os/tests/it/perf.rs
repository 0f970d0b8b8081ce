//! Perf events: counted, or refused with a reason.

use nearcall_os::counters;
use nearcall_os::perf::{Counter, Event, Refusal};

#[test]
fn every_event_counts_or_says_why_not() {
    for event in Event::ALL {
        match Counter::open(event) {
            Ok(counter) => {
                let before = counter.read().unwrap();
                assert!(counter.read().unwrap() >= before, "{event:?}");
            }
            Err(refusal) => {
                assert!(!matches!(refusal, Refusal::Os(_)), "{event:?}: {refusal}");
            }
        }
    }
}

#[test]
fn the_scheduler_files_of_this_thread_are_read_where_they_exist() {
    // A young thread may show zero: the kernel counts at a tick or a switch.
    assert!(counters::thread_schedstat().is_none_or(|stat| stat.run_ns < 1 << 50));
    assert!(counters::thread_migrations().is_none_or(|count| count < 1_000_000));
}
