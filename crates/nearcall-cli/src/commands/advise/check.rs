//! `nearcall advise --check`: the blind test of the advice, by real measurements.
//!
//! **Invariants:** the evidence of the advisor is measured before the evidence of the test, and
//! apart from it; what was done before Ctrl-C is printed.

use std::time::Duration;

use anyhow::{Context, bail};
use nearcall_bench::advise::check::{CheckedSet, Parts, Stage, check, sets, table};
use nearcall_bench::advise::{Candidate, Effort, Requirements, advise, measure, specs};
use nearcall_bench::bench_plan::{BenchPlan, How};
use nearcall_bench::run::Run;
use nearcall_bench::runner::bench_specs;
use nearcall_os::signal::Interrupt;
use nearcall_os::{clock, cpu};

use crate::commands::{End, bench};
use crate::output;
use crate::terminal::style;

/// The test that the arguments ask for.
pub(super) struct Check<'a> {
    pub(super) sets: u32,
    pub(super) seed: u64,
    /// For all of it; `None`: [`SET_TIME`] for each set.
    pub(super) time: Option<Duration>,
    /// What the advisor goes by; none: a measurement for each set.
    pub(super) runs: &'a [Run],
    pub(super) json: bool,
    pub(super) arguments: Vec<String>,
}

pub(super) fn run(wanted: &Check<'_>) -> anyhow::Result<End> {
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let count = usize::try_from(wanted.sets).unwrap_or(usize::MAX);
    let sets = sets(wanted.seed, count, cpu::allowed().len());
    let budget = wanted.time.unwrap_or(SET_TIME * wanted.sets);
    let clock = Clock { until_ns: clock::monotonic_ns().saturating_add(ns(budget)) };
    let tester = Tester { wanted, interrupt };
    // Shared by the two measurements of a set and the advisor's.
    let left = std::cell::Cell::new(wanted.sets);
    let set_time = || clock.left() / left.get().max(1);
    let current = std::cell::Cell::new(Duration::ZERO);
    let checked = check(
        wanted.seed,
        &sets,
        &mut Parts {
            advise: &mut |requirements| {
                current.set(set_time());
                tester.advise(requirements, current.get().mul_f64(SHARE_EVIDENCE))
            },
            measure: &mut |requirements, candidates, stage| {
                tester.measure(requirements, candidates, stage, current.get())
            },
            done: &mut |set| {
                left.set(left.get().saturating_sub(1));
                report(set, wanted.sets);
            },
            interrupted: &|| interrupt.interrupted(),
        },
    );
    match wanted.json {
        true => output::json(&checked)?,
        false => output::result(&table(&checked, style()))?,
    }
    if interrupt.interrupted() {
        return Ok(End::Interrupted);
    }
    if !checked.passed {
        bail!("the advice did not pass: {} of {} choices are near the best", checked.near, count);
    }
    Ok(End::Done)
}

struct Clock {
    until_ns: u64,
}

impl Clock {
    fn left(&self) -> Duration {
        Duration::from_nanos(self.until_ns.saturating_sub(clock::monotonic_ns()))
    }
}

struct Tester<'a> {
    wanted: &'a Check<'a>,
    interrupt: Interrupt,
}

impl Tester<'_> {
    fn advise(&self, requirements: &Requirements, time: Duration) -> Result<Candidate, String> {
        let advice = if self.wanted.runs.is_empty() {
            let effort = Effort {
                time_budget: time.max(TIME_MIN),
                seed: self.wanted.seed,
                arguments: self.wanted.arguments.clone(),
            };
            let run = bench::hooked(self.interrupt, |hooks| measure(requirements, &effort, hooks));
            let run = run.map_err(|error| error.to_string())?;
            advise(requirements, &[&run])
        } else {
            advise(requirements, &self.wanted.runs.iter().collect::<Vec<_>>())
        };
        advice.map(|advice| advice.choice).map_err(|refusal| refusal.to_string())
    }

    fn measure(
        &self,
        requirements: &Requirements,
        candidates: &[Candidate],
        stage: Stage,
        set_time: Duration,
    ) -> Result<Run, String> {
        let (share, launches, seed) = match stage {
            Stage::Field => (SHARE_FIELD, LAUNCHES_FIELD, SEED_FIELD),
            Stage::Final => (SHARE_FINAL, LAUNCHES_FINAL, SEED_FINAL),
            Stage::Duel => (SHARE_DUEL, LAUNCHES_DUEL, SEED_DUEL),
        };
        let how = How {
            placement: requirements.placement.place(),
            load: requirements.load,
            launches: Some(launches),
            time_budget: Some(set_time.mul_f64(share).max(TIME_MIN)),
            // Not those of the evidence.
            seed: self.wanted.seed ^ seed,
            arguments: self.wanted.arguments.clone(),
            ..How::default()
        };
        let plan = BenchPlan { how, ..BenchPlan::default() };
        let cells = specs(requirements, candidates);
        let run = bench::hooked(self.interrupt, |hooks| bench_specs(&plan, &cells, hooks));
        run.map_err(|error| error.to_string())
    }
}

fn report(set: &CheckedSet, all: u32) {
    let found = match (&set.choice, set.ratio) {
        (Some(choice), Some(ratio)) => format!("{choice}: {ratio:.2} times the best"),
        _ => set.problem.clone().unwrap_or_default(),
    };
    let word = if set.ok { "ok" } else { "NOT OK" };
    output::diagnostic(&format!("set {} of {all}: {word}: {found}", set.number));
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Forty sets within twenty-five minutes.
const SET_TIME: Duration = Duration::from_secs(36);

/// Less measures nothing.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Of the time of a set, for what the advisor goes by.
const SHARE_EVIDENCE: f64 = 0.45;

/// For the first look at all candidates.
const SHARE_FIELD: f64 = 0.2;

/// For the choice and the best of them.
const SHARE_FINAL: f64 = 0.15;

/// For the choice and the very best.
const SHARE_DUEL: f64 = 0.2;

/// Two launches show which are among the best.
const LAUNCHES_FIELD: u32 = 2;

/// Rounds enough to find the best.
const LAUNCHES_FINAL: u32 = 9;

/// Launches of one mechanism differ by up to half, so a median of ratios to within a tenth needs
/// some dozens.
const LAUNCHES_DUEL: u32 = 31;

/// Other payloads and another order than those of the evidence.
const SEED_FIELD: u64 = 0x5eed_0001;
const SEED_FINAL: u64 = 0x5eed_0002;
const SEED_DUEL: u64 = 0x5eed_0003;
