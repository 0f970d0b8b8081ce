//! The whole on this machine, and with a counter that is refused.

use nearcall_os::tsc;

use super::*;

/// A processor whose counter stops in deep sleep.
const STOPS: &str = "processor\t: 0\nflags\t\t: fpu tsc rdtscp constant_tsc\n";

fn quick() -> ClockOptions<'static> {
    ClockOptions { quick: true, ..ClockOptions::whole() }
}

#[test]
fn a_counter_that_is_not_invariant_is_refused_with_the_reason_and_the_rest_works() {
    let refusal = tsc::check_machine(STOPS, "tsc").unwrap_err();
    let found = measure_with(&quick(), &Err(refusal), &|| false);
    let counter = found.clock(ClockName::Tsc).unwrap();
    assert_eq!(counter.unusable.as_deref(), Some("a processor lacks nonstop_tsc"));
    assert!(counter.overhead.is_none() && counter.granularity_ns.is_none());
    let clock_gettime = found.clock(ClockName::ClockGettime).unwrap();
    assert!(clock_gettime.overhead.as_ref().unwrap().mean_ns > 0.0);
    assert!(found.sleep_error(ClockName::Gettimeofday, 10_000.0).is_some());
    assert!(found.sleep_error(ClockName::Tsc, 10_000.0).is_none());
    assert_eq!(found.disagreements(ClockName::Tsc, ClockName::ClockGettime).count(), 0);
    let both = found.disagreements(ClockName::Gettimeofday, ClockName::ClockGettime);
    assert_eq!(both.count(), agreement::SPANS_QUICK.len());
    assert_eq!(found.partial, None);
    let again: ClockFindings = serde_json::from_str(&found.to_json()).unwrap();
    assert_eq!((again.schema.as_str(), again.clocks[0].name), (SCHEMA, ClockName::ClockGettime));
}

#[test]
fn gettimeofday_has_a_step_of_a_microsecond_both_ways() {
    let found = finding(ClockName::Gettimeofday, &Gettimeofday, NS_PER_US, READINGS_QUICK);
    assert_eq!(found.granularity_ns, Some(1_000.0));
    assert_eq!(found.shrunk.unwrap().ns, 1_000.0);
    // A machine that takes the CPU away may make a median of two steps.
    assert!(found.smallest_run.unwrap().ns >= 1_000.0);
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    let asked = std::cell::Cell::new(0);
    let later = || {
        asked.set(asked.get() + 1);
        asked.get() > 4
    };
    let before = cpu::allowed();
    let found = measure_with(&quick(), &Err(TscRefusal::NoCounter), &later);
    assert_eq!(found.partial.as_deref(), Some("interrupted"));
    assert_eq!(found.clocks.len(), 3);
    assert!(found.agreement.is_empty());
    assert_eq!(cpu::allowed(), before, "the thread may run where it could before");
}
