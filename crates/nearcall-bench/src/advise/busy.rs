//! What else runs on the machine, looked at before anything is measured.
//!
//! So a user learns within the first second why figures will be bad, and not after the measurement.
//! The limit is fixed beforehand: whether a window is quiet enough is never decided by what was
//! measured in it.

use std::time::Duration;

use nearcall_os::cpu_load::CpuTimes;
use nearcall_os::{clock, cpu};
use nearcall_results::advise::BUSY_WARNING;

use crate::detector::Counters;

/// Looks for a quarter of a second how much other programs use the CPUs that this one may use. In
/// words if it is too much to measure beside; `None` if it is not, or if the kernel does not say.
#[must_use]
pub fn look() -> Option<String> {
    let before = Counters::read();
    clock::pause(LOOK);
    let after = Counters::read();
    words(busy_cpus(&before.cpu_times, &after.cpu_times, &cpu::allowed())?)
}

/// How many of the allowed CPUs were busy between two readings, and of how many.
fn busy_cpus(before: &[CpuTimes], after: &[CpuTimes], allowed: &[usize]) -> Option<(f64, usize)> {
    let mut busy = Vec::new();
    for cpu in allowed {
        let of = |times: &[CpuTimes]| times.iter().find(|one| one.cpu == *cpu).copied();
        let (Some(before), Some(after)) = (of(before), of(after)) else { continue };
        let grown =
            |field: fn(&CpuTimes) -> u64| field(&after).saturating_sub(field(&before)) as f64;
        let taken = grown(|times| times.busy) + grown(|times| times.steal);
        let total = taken + grown(|times| times.idle);
        if total > 0.0 {
            busy.push(taken / total);
        }
    }
    (!busy.is_empty()).then(|| (busy.iter().sum(), busy.len()))
}

fn words((busy, cpus): (f64, usize)) -> Option<String> {
    // A CPU for each end must be left, and on a machine with few of them nearly all of it.
    let free = cpus as f64 - busy;
    let is_busy = free < ENDS || busy > BUSY_MAX * cpus as f64;
    let is_busy = is_busy && busy > BUSY_MAX;
    is_busy.then(|| format!("{BUSY_WARNING} keep {busy:.1} of {cpus} CPUs busy"))
}

/// Ticks are 4 or 10 ms long: this is enough of them to see a tenth of a CPU.
const LOOK: Duration = Duration::from_millis(250);

/// Client and server have a CPU each.
const ENDS: f64 = 2.0;

/// Below this share of a CPU others are what runs on every machine.
const BUSY_MAX: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    fn times(cpu: usize, idle: u64, busy: u64) -> CpuTimes {
        CpuTimes { cpu, idle, busy, steal: 0 }
    }

    #[test]
    fn busy_cpus_are_those_that_did_not_idle() {
        let before = [times(0, 100, 100), times(1, 100, 100), times(2, 0, 0)];
        let after = [times(0, 100, 125), times(1, 120, 105), times(2, 25, 0)];
        let (busy, cpus) = busy_cpus(&before, &after, &[0, 1]).unwrap();
        assert!((busy - 1.2).abs() < 1e-9 && cpus == 2, "{busy} {cpus}");
        assert_eq!(busy_cpus(&before, &after, &[7]), None);
        assert_eq!(busy_cpus(&before, &before, &[0]), None);
    }

    #[test]
    fn a_cpu_for_each_end_has_to_be_left() {
        assert_eq!(words((0.1, 2)), None);
        assert_eq!(words((0.6, 2)).unwrap(), "Other programs keep 0.6 of 2 CPUs busy");
        assert_eq!(words((3.0, 64)), None);
        assert!(words((30.0, 64)).is_some() && words((0.5, 1)).is_some());
        assert_eq!(words((0.2, 1)), None);
    }
}
