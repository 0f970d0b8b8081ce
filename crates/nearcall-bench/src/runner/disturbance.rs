//! Adds up what disturbed the launches of one cell, and grades it.
//!
//! A load that was asked for is no disturbance, and several clients are none for each other. The
//! grade of such a cell says how quiet the machine was apart from it: gaps and neighbours while its
//! workers were gone, steal, throttling. That the ends waited for their CPU inside is what such a
//! cell is there to show.

use crate::detector::{self, Counters, CpuWatch, DRIFT_MAX, Watch};
use crate::exchange::measured::Measured;
use crate::noise::{self, Graded, NoiseFacts};
use crate::runner::placement::PinnedTo;

/// What was observed around one launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    facts: NoiseFacts,
    drifted: bool,
}

impl Around {
    /// From the watches and counters before and after a launch.
    pub(crate) fn of(
        before: &(Watch, Counters),
        after: &(Watch, Counters),
        placed: &PinnedTo,
        is_crowded: bool,
    ) -> Self {
        let cpus = placed.cpus();
        let seen = [of_cpus(&before.0, &cpus), of_cpus(&after.0, &cpus)];
        let mut facts = detector::facts(&[&seen[0], &seen[1]], &before.1, &after.1, &cpus);
        if placed.is_shared() || is_crowded {
            // Both ends, our workers or our clients want the CPU by turns: they are the pressure.
            facts.psi_cpu_some_ns = None;
        }
        let drifted = detector::drift(&seen[0], &seen[1]).is_some_and(|drift| drift > DRIFT_MAX);
        Self { facts, drifted }
    }

    /// Whether the clock speed changed.
    pub(crate) fn drifted(&self) -> bool {
        self.drifted
    }
}

/// What was seen on the CPUs of one cell; on all that were watched, if its ends may run anywhere.
fn of_cpus(watch: &Watch, cpus: &[usize]) -> Watch {
    let is_ours = |one: &&CpuWatch| cpus.is_empty() || cpus.contains(&one.cpu);
    Watch { cpus: watch.cpus.iter().filter(is_ours).copied().collect() }
}

/// Grades a cell by all of its launches: what was around them, and what the ends saw themselves.
pub(crate) fn grade(
    launches: &[(&Around, &Measured)],
    placed: &PinnedTo,
    is_crowded: bool,
) -> Option<Graded> {
    let around = launches.iter().map(|(around, _)| around.facts.clone()).reduce(sum)?;
    let inside = launches.iter().map(|(_, measured)| inside(measured)).reduce(sum)?;
    let is_ours = placed.is_shared() || is_crowded;
    let inside = if is_ours { NoiseFacts::default() } else { inside };
    let (around, inside) = (noise::grade(&around), noise::grade(&inside));
    match (around, inside) {
        (Some(a), Some(b)) => {
            let (first, second) = if a.grade >= b.grade { (a, b) } else { (b, a) };
            let reasons = first.reasons.into_iter().chain(second.reasons).collect();
            Some(Graded { grade: first.grade, reasons })
        }
        (one, other) => one.or(other),
    }
}

/// What the ends saw inside the measured region; of two ends the more disturbed one.
fn inside(measured: &Measured) -> NoiseFacts {
    let ends = || [Some(&measured.client), measured.server.as_ref()].into_iter().flatten();
    NoiseFacts {
        cell_ns: measured.elapsed_ns,
        involuntary_switches: ends().filter_map(|end| end.counts.involuntary_switches).max(),
        run_delay_ns: ends().filter_map(|end| end.run_delay_ns).max(),
        ..NoiseFacts::default()
    }
}

fn sum(a: NoiseFacts, b: NoiseFacts) -> NoiseFacts {
    let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    NoiseFacts {
        observed_ns: a.observed_ns.saturating_add(b.observed_ns),
        gaps: add(a.gaps, b.gaps),
        gap_ns: add(a.gap_ns, b.gap_ns),
        steal_ns: add(a.steal_ns, b.steal_ns),
        cell_ns: a.cell_ns.saturating_add(b.cell_ns),
        involuntary_switches: add(a.involuntary_switches, b.involuntary_switches),
        run_delay_ns: add(a.run_delay_ns, b.run_delay_ns),
        psi_cpu_some_ns: add(a.psi_cpu_some_ns, b.psi_cpu_some_ns),
        throttled_ns: add(a.throttled_ns, b.throttled_ns),
        // A maximum: one launch with a neighbour is not made good by those without.
        run_queue_others: match (a.run_queue_others, b.run_queue_others) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        },
    }
}
