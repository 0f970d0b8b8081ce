//! Exchanges that are due at set times, beside the same ones one after the other.

use std::iter;

use super::Experiment;
use super::traffic::{self, COMMON, Wanted};
use crate::bench_plan::BenchPlan;
use crate::cell::Conditions;
use crate::run::Run;

/// Exchanges at a constant rate.
pub static OPEN_LOOP: Experiment = Experiment {
    name: "open-loop",
    summary: "Measure exchanges at a constant rate beside a closed loop",
    details: "A time counts from when its exchange was due, so a delay counts for every exchange \
              that was due meanwhile; a closed loop would count it once. A cell fails if less than \
              99.9 % of its exchanges began in time.",
    examples: EXAMPLES,
    options: &["rate", "stall", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let cell = |mechanism| traffic::echo(plan, mechanism);
        let scenes = scenes(plan);
        let wanted = Wanted { mechanisms: &COMMON, waits: &traffic::waits, cell: &cell, scenes };
        traffic::cells(plan, on, &wanted)
    },
    complete: tell_of_stalls,
    ..traffic::BASE
};

fn scenes(plan: &BenchPlan) -> Vec<Conditions> {
    let defaults = if plan.options.quick { &RATES_PER_S[1..2] } else { &RATES_PER_S[..] };
    let rates = plan.rates_per_s.as_deref().unwrap_or(defaults);
    // Zero: one after the other, in the same launches.
    let with_closed = iter::once(&0).chain(rates);
    with_closed.map(|&rate_per_s| Conditions { rate_per_s, ..Conditions::default() }).collect()
}

fn tell_of_stalls(plan: &BenchPlan, run: &mut Run) {
    if let Some(ns) = plan.stall_ns {
        let ms = ns as f64 / 1e6;
        run.warnings.push(format!(
            "a self-test: the server sleeps for {ms} ms again and again, a tenth of the time"
        ));
    }
}

/// A sensor, a busy service, a data feed.
pub(super) const RATES_PER_S: [u32; 3] = [1_000, 10_000, 100_000];

const EXAMPLES: &str = "\
Examples:
  nearcall bench open-loop                       three rates, within two minutes
  nearcall bench open-loop --quick               a first look: 10,000 per second
  nearcall bench open-loop --rate 1000,10000 --mechanism shm,pipe --size 1KiB
  nearcall bench open-loop --rate 10000 --stall 100ms --mechanism unix-stream
  nearcall bench open-loop --load 35% --rate 1000 --mechanism shm,tcp
  nearcall bench open-loop --json | jq '.cells[] | [.pace.rate_per_s, .rtt_ns]'";
