//! Perf events: counted, or refused with a reason.

use std::process::Stdio;

use nearcall_os::counters;
use nearcall_os::perf::{Counter, Event, Refusal};
use nearcall_os::process::Child;

use crate::partner::PATIENCE;

#[test]
fn every_event_counts_or_gives_the_reason() {
    for event in Event::ALL {
        match Counter::open(event) {
            Ok(counter) => {
                // A processor whose counters others use counts only some of the time.
                if let (Some(before), Some(after)) =
                    (counter.read().unwrap(), counter.read().unwrap())
                {
                    assert!(after >= before, "{event:?}");
                }
            }
            Err(refusal) => {
                assert!(!matches!(refusal, Refusal::Os(_)), "{event:?}: {refusal}");
            }
        }
    }
}

#[test]
fn the_events_of_a_child_can_be_read_after_its_end() {
    let mut command = std::process::Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = Child::spawn(&mut command).unwrap();
    let counter = Counter::open_for(Event::TaskClock, child.pid());
    drop(child.pipes().stdin.take());
    assert!(child.wait(PATIENCE).unwrap().is_some());
    match counter {
        Ok(counter) => assert!(counter.read().unwrap().is_some_and(|ns| ns > 0)),
        Err(refusal) => assert!(!matches!(refusal, Refusal::Os(_)), "{refusal}"),
    }
}

#[test]
fn the_scheduler_files_of_this_thread_are_read_where_they_exist() {
    // A young thread may show zero: the kernel counts at a tick or a switch.
    assert!(counters::thread_schedstat().is_none_or(|stat| stat.run_ns < 1 << 50));
    assert!(counters::thread_migrations().is_none_or(|count| count < 1_000_000));
}
