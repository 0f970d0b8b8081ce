//! Measures what some requirements need: all candidates briefly, then the best of them longer.
//!
//! Both times launches of all cells alternate in rounds, as in every run.
//! **Invariants:** what was dropped after the first look is marked so in the run and never chosen.
//! Which cells are measured is in `specs.rs`; what follows from them, and which are looked at
//! again, in `nearcall-results`.

use std::time::Duration;

use nearcall_os::clock;
use nearcall_results::advise::{
    Candidate, Excluded, FINALISTS_MAX, Placement, Refusal, Requirements, advise, finalists, join,
};

use super::{candidates, specs};
use crate::bench_plan::{self, BenchPlan, RunOptions};
use crate::cell::CellSpec;
use crate::run::{Kind, Run, Skipped};
use crate::runner::{BenchError, RunContext, bench_specs};

/// How much to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// How long all may take.
    pub time_budget: Duration,
    /// Decides the order of launches and the payloads.
    pub seed: u64,
    /// The arguments of the program, without its name, for the record.
    pub arguments: Vec<String>,
}

impl Default for Effort {
    /// Enough for the intervals of most candidates to separate.
    fn default() -> Self {
        Self { time_budget: Duration::from_secs(45), seed: 1, arguments: Vec::new() }
    }
}

/// Why there is no run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// There is nothing to measure.
    #[error(transparent)]
    Refused(Refusal),
    /// The measurement failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// Measures all candidates for `requirements`. Blocks for the effort's time; call it as
/// [`bench_specs`].
///
/// # Errors
///
/// [`MeasureError`]: no mechanism meets the needs on this machine, or nothing could be measured.
pub fn measure(
    requirements: &Requirements,
    effort: &Effort,
    context: &RunContext<'_>,
) -> Result<Run, MeasureError> {
    let refused = |refusal| Err(MeasureError::Refused(refusal));
    if let Err(error) = requirements.check() {
        return refused(Refusal::Requirements(error));
    }
    let (all, excluded) = candidates(requirements);
    if all.is_empty() {
        // Some meet the needs, but this machine has none of those.
        let lacking = excluded.iter().find(|one| one.by[0].requirement == "this machine");
        return refused(match lacking {
            Some(one) => Refusal::Missing {
                what: format!("{}: {}", one.candidate, one.by[0].why),
                command: "nearcall doctor".to_owned(),
            },
            None => Refusal::impossible(requirements),
        });
    }
    if all.len() <= FINALISTS_MAX {
        let extent = (effort.time_budget, launches(effort.time_budget, all.len()));
        let found = look(requirements, &all, effort, extent, context)?;
        return again_if_refused(requirements, &all, found, effort, context);
    }
    let begin_ns = clock::monotonic_ns();
    let share = effort.time_budget.mul_f64(FIRST_SHARE);
    let first = look(requirements, &all, effort, (share, LAUNCHES_FIRST), context)?;
    let finalists = finalists(requirements, &all, &first);
    if first.partial || (context.interrupted)() || finalists.is_empty() {
        return Ok(first);
    }
    let taken = Duration::from_nanos(clock::monotonic_ns().saturating_sub(begin_ns));
    let left = effort.time_budget.saturating_sub(taken);
    // Launches that are made in any case may have taken more than their share.
    let left = left.max(effort.time_budget.mul_f64(SECOND_SHARE_MIN));
    let second =
        look(requirements, &finalists, effort, (left, launches(left, finalists.len())), context)?;
    again_if_refused(requirements, &finalists, join(first, second), effort, context)
}

/// Looks again, some times at most, while what was found is too little to go by.
fn again_if_refused(
    requirements: &Requirements,
    candidates: &[Candidate],
    mut found: Run,
    effort: &Effort,
    context: &RunContext<'_>,
) -> Result<Run, MeasureError> {
    let time = effort.time_budget.mul_f64(AGAIN_SHARE);
    for _ in 0..AGAIN_MAX {
        let refused = matches!(advise(requirements, &[&found]), Err(Refusal::Missing { .. }));
        if !refused || found.partial || (context.interrupted)() {
            break;
        }
        let extent = (time, launches(time, candidates.len()));
        found = join(found, look(requirements, candidates, effort, extent, context)?);
    }
    Ok(found)
}

/// Launches differ more than what is in them, so there are many short ones.
fn launches(time: Duration, candidates: usize) -> u32 {
    let each = LAUNCH.saturating_mul(u32::try_from(candidates).unwrap_or(u32::MAX));
    let fit = time.as_nanos() / each.as_nanos().max(1);
    u32::try_from(fit).unwrap_or(u32::MAX).clamp(LAUNCHES_MIN, LAUNCHES_MAX)
}

fn look(
    requirements: &Requirements,
    candidates: &[Candidate],
    effort: &Effort,
    (time_budget, launches): (Duration, u32),
    context: &RunContext<'_>,
) -> Result<Run, BenchError> {
    let cells: Vec<CellSpec> = specs(requirements, candidates);
    let plan = BenchPlan {
        kinds: vec![Kind::Latency, Kind::Throughput],
        sizes_bytes: Some(vec![requirements.message_bytes]),
        options: RunOptions {
            placement: place(requirements.placement),
            load: requirements.load,
            launches: Some(launches),
            time_budget: Some(time_budget),
            seed: effort.seed,
            arguments: effort.arguments.clone(),
            ..RunOptions::default()
        },
        ..BenchPlan::default()
    };
    let mut run = bench_specs(&plan, &cells, context)?;
    run.skipped.extend(lacking(&super::candidates(requirements).1));
    Ok(run)
}

/// Where a fresh measurement puts both ends.
#[must_use]
pub const fn place(wanted: Placement) -> bench_plan::Placement {
    match wanted {
        Placement::Any => bench_plan::Placement::Auto,
        Placement::Cross => bench_plan::Placement::Cross,
        Placement::SameCpu => bench_plan::Placement::Same,
        Placement::Unpinned => bench_plan::Placement::None,
    }
}

/// What this machine lacks, each mechanism once, so that who reads the run knows why it is missing.
fn lacking(excluded: &[Excluded]) -> Vec<Skipped> {
    let mut found: Vec<Skipped> = Vec::new();
    for one in excluded {
        let name = one.candidate.mechanism.name();
        let why = one.by.iter().find(|by| by.requirement == "this machine");
        let is_known = found.iter().any(|known| known.mechanism == name);
        if let Some(by) = why.filter(|_| !is_known) {
            found.push(Skipped {
                mechanism: name.to_owned(),
                reason: by.why.clone(),
                unsupported: true,
                ..Skipped::default()
            });
        }
    }
    found
}

/// The first look's share of the time.
const FIRST_SHARE: f64 = 0.4;

/// What the second has at least.
const SECOND_SHARE_MIN: f64 = 0.3;

/// What each further look has, beside the time for all.
const AGAIN_SHARE: f64 = 0.5;

/// What is still missing then does not come.
const AGAIN_MAX: u32 = 2;

/// An interval needs two.
const LAUNCHES_FIRST: u32 = 2;

/// What a launch takes with a cell or two that say something.
const LAUNCH: Duration = Duration::from_millis(180);

/// Rounds enough for ratios by rounds to have a median.
const LAUNCHES_MIN: u32 = 5;

/// From here on longer launches are better than more.
const LAUNCHES_MAX: u32 = 20;

#[cfg(test)]
mod tests {
    use nearcall_results::advise::Violation;

    use super::*;

    #[test]
    fn what_this_machine_lacks_is_told_once_per_mechanism() {
        let by = |requirement: &str| {
            vec![Violation { requirement: requirement.to_owned(), why: "no such call".to_owned() }]
        };
        let excluded: Vec<Excluded> = Candidate::all()
            .into_iter()
            .map(|candidate| match candidate.mechanism.name() {
                "uring" => Excluded { candidate, by: by("this machine") },
                _ => Excluded { candidate, by: by("no-spin") },
            })
            .collect();
        let found = lacking(&excluded);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].mechanism, &*found[0].reason), ("uring", "no such call"));
        assert!(found[0].unsupported && found[0].wait.is_none());
    }

    #[test]
    fn few_candidates_have_many_launches() {
        let of = |seconds, candidates| launches(Duration::from_secs(seconds), candidates);
        assert_eq!((of(27, 8), of(27, 3), of(2, 8)), (18, LAUNCHES_MAX, LAUNCHES_MIN));
    }
}
