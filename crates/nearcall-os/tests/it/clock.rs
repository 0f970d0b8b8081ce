//! Clocks of the running machine.

use std::time::Duration;

use nearcall_os::clock::{self, Clock};
use nearcall_os::tsc::Tsc;

#[test]
fn every_clock_can_be_measured() {
    for clock in Clock::ALL {
        let cost = clock::measure(clock);
        assert!(cost.overhead_ns > 0.0 && cost.overhead_ns.is_finite(), "{}", clock.name());
        assert_ne!(cost.granularity_ns, Some(0), "{}", clock.name());
    }
}

#[test]
fn a_pause_lasts_at_least_as_long_as_asked() {
    let start = clock::monotonic_ns();
    clock::pause(Duration::from_millis(3));
    assert!(clock::monotonic_ns() - start >= 3_000_000);
}

#[test]
fn a_pause_ends_no_sooner_than_the_moment_asked() {
    let end_ns = clock::monotonic_ns() + 2_000_000;
    clock::pause_until(end_ns);
    assert!(clock::monotonic_ns() >= end_ns);
    // Long past.
    clock::pause_until(0);
}

#[test]
fn the_time_of_day_is_wall_time() {
    let before_us = clock::realtime_ns() / 1_000;
    let now_us = clock::time_of_day_us();
    // Both are the same clock; setting it meanwhile does not make it jump by a minute.
    assert!(now_us.abs_diff(before_us) < 60_000_000, "{before_us} {now_us}");
}

#[test]
fn processor_time_passes_when_we_work_and_not_when_we_sleep() {
    let start = clock::thread_cpu_ns();
    let end = clock::monotonic_ns() + 2_000_000;
    while clock::monotonic_ns() < end {
        clock::spin_hint();
    }
    let worked = clock::thread_cpu_ns();
    assert!(worked > start);
    assert!(clock::process_cpu_ns() >= worked - start);
    clock::pause(Duration::from_millis(20));
    assert!(clock::thread_cpu_ns() - worked < 15_000_000);
}

#[test]
fn the_raw_clock_goes_forward() {
    let raw = clock::monotonic_raw_ns();
    clock::pause(Duration::from_millis(1));
    assert!(clock::monotonic_raw_ns() > raw);
    assert!(clock::realtime_ns() > 1_600_000_000_000_000_000);
}

#[test]
fn the_counter_agrees_with_the_kernel_or_gives_the_reason() {
    let tsc = match Tsc::calibrate_with(Duration::from_millis(20)) {
        Ok(tsc) => tsc,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    // An interruption between the two pairs of readings spoils one try, not all.
    let agrees = (0..20).any(|_| {
        let (start_ns, start) = (clock::monotonic_raw_ns(), tsc.start());
        clock::pause(Duration::from_millis(5));
        let (stop, stop_ns) = (tsc.stop(), clock::monotonic_raw_ns());
        let by_kernel = stop_ns - start_ns;
        let by_counter = tsc.to_ns(stop.ticks - start);
        by_counter.abs_diff(by_kernel) * 100 <= by_kernel
    });
    assert!(agrees, "{tsc:?}");
    assert!(tsc.ticks_per_ms() > 100_000, "{tsc:?}");
    assert_eq!(tsc.to_ns(0), 0);
    let hour_ticks = tsc.ticks_per_ms() * 3_600_000;
    assert!(tsc.to_ns(hour_ticks).abs_diff(3_600_000_000_000) < 10_000_000);
}
