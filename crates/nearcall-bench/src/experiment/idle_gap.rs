//! Exchanges with a gap after each.

use super::Experiment;
use super::traffic::{self, COMMON, Wanted};
use crate::conditions::Traffic;

/// Exchanges with a gap after each.
pub static IDLE_GAP: Experiment = Experiment {
    name: "idle-gap",
    summary: "Measure latency by the idle gap between messages",
    details: "After each round trip the client leaves a gap: below 100 µs it is busy until the gap \
              is over, from there on it sleeps. Caches and CPUs of both ends cool down meanwhile, \
              as in a program with little to do.",
    examples: EXAMPLES,
    options: &["gap", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let defaults =
            if plan.options.quick { &GAPS_NS[..GAPS_NS.len() - 1] } else { &GAPS_NS[..] };
        let gaps = plan.gaps_ns.as_deref().unwrap_or(defaults);
        let scenes = gaps.iter().map(|&ns| traffic::of(Traffic::Gap { ns })).collect();
        let cell = |mechanism| traffic::echo(plan, mechanism);
        let wanted = Wanted { mechanisms: &COMMON, waits: &traffic::waits, cell: &cell, scenes };
        traffic::cells(plan, on, &wanted)
    },
    ..traffic::BASE
};

/// Without a pause, a busy service's, a human being's.
const GAPS_NS: [u64; 6] = [0, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

const EXAMPLES: &str = "\
Examples:
  nearcall bench idle-gap                        six gaps, within two minutes
  nearcall bench idle-gap --quick                without the longest
  nearcall bench idle-gap --gap 0,50us,5ms --mechanism shm --wait block
  nearcall bench idle-gap --json | jq '.cells[] | [.gap.gap_ns, .rtt_ns.p50]'";
