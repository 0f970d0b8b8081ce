//! Measures what some requirements need: all candidates briefly, then the best of them longer.
//!
//! Both times launches of all cells alternate in rounds, as in every run. Always true: what was
//! dropped after the first look is marked so in the run and never chosen. Which cells are measured
//! is in `specs.rs`, what follows from them in `rank.rs`.

use std::time::Duration;

use nearcall_os::clock;

use super::advise;
use super::candidates::{Candidate, Excluded, candidates};
use super::evidence::FIRST_LOOK;
use super::judge::judge;
use super::rank::rank;
use super::refusal::Refusal;
use super::requirements::{Objective, Requirements, Weights};
use super::specs::specs;
use crate::bench_plan::{BenchPlan, How};
use crate::cell::CellSpec;
use crate::run::{Cell, CellKey, Kind, List, Run, Skipped};
use crate::runner::{BenchError, Hooks, bench_specs};

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
/// [`bench`](crate::runner::bench()).
///
/// # Errors
///
/// [`MeasureError`]: no mechanism meets the needs on this machine, or nothing could be measured.
pub fn measure(
    requirements: &Requirements,
    effort: &Effort,
    hooks: &Hooks<'_>,
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
        let found = look(requirements, &all, effort, extent, hooks)?;
        return again_if_refused(requirements, &all, found, effort, hooks);
    }
    let begin_ns = clock::monotonic_ns();
    let share = effort.time_budget.mul_f64(FIRST_SHARE);
    let first = look(requirements, &all, effort, (share, LAUNCHES_FIRST), hooks)?;
    let finalists = finalists(requirements, &all, &first);
    if first.partial || (hooks.interrupted)() || finalists.is_empty() {
        return Ok(first);
    }
    let taken = Duration::from_nanos(clock::monotonic_ns().saturating_sub(begin_ns));
    let left = effort.time_budget.saturating_sub(taken);
    // Launches that are made in any case may have taken more than their share.
    let left = left.max(effort.time_budget.mul_f64(SECOND_SHARE_MIN));
    let second =
        look(requirements, &finalists, effort, (left, launches(left, finalists.len())), hooks)?;
    again_if_refused(requirements, &finalists, join(first, second), effort, hooks)
}

/// Looks again, some times at most, while what was found is too little to go by.
fn again_if_refused(
    requirements: &Requirements,
    candidates: &[Candidate],
    mut found: Run,
    effort: &Effort,
    hooks: &Hooks<'_>,
) -> Result<Run, MeasureError> {
    let time = effort.time_budget.mul_f64(AGAIN_SHARE);
    for _ in 0..AGAIN_MAX {
        let refused = matches!(advise(requirements, &[&found]), Err(Refusal::Missing { .. }));
        if !refused || found.partial || (hooks.interrupted)() {
            break;
        }
        let extent = (time, launches(time, candidates.len()));
        found = join(found, look(requirements, candidates, effort, extent, hooks)?);
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
    hooks: &Hooks<'_>,
) -> Result<Run, BenchError> {
    let cells: Vec<CellSpec> = specs(requirements, candidates);
    let plan = BenchPlan {
        kinds: vec![Kind::Latency, Kind::Throughput],
        sizes_bytes: Some(vec![requirements.message_bytes]),
        how: How {
            placement: requirements.placement.place(),
            load: requirements.load,
            launches: Some(launches),
            time_budget: Some(time_budget),
            seed: effort.seed,
            arguments: effort.arguments.clone(),
            ..How::default()
        },
        ..BenchPlan::default()
    };
    let mut run = bench_specs(&plan, &cells, hooks)?;
    run.skipped.extend(lacking(&super::candidates::candidates(requirements).1));
    Ok(run)
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
                kind: None,
                message_bytes: None,
                shape: None,
                wait: None,
            });
        }
    }
    found
}

/// Those that may turn out best.
fn finalists(requirements: &Requirements, all: &[Candidate], first: &Run) -> Vec<Candidate> {
    let mut judged = judge(requirements, all, &[first]);
    let mut standings = rank(&judged.rows, &requirements.optimise);
    if standings.is_empty() {
        // So short a look has no 99th percentile, but medians.
        let optimise = Weights::only(Objective::Latency);
        judged = judge(&Requirements { optimise, ..requirements.clone() }, all, &[first]);
        standings = rank(&judged.rows, &optimise);
    }
    let near = standings
        .iter()
        .enumerate()
        .filter(|(at, one)| *at < FINALISTS_MIN || one.cost <= NEAR_MAX.ln())
        .take(FINALISTS_MAX);
    near.map(|(_, one)| judged.rows[one.row].candidate).collect()
}

/// The second look, and of the first what the second has not.
fn join(first: Run, mut second: Run) -> Run {
    let key = |cell: &Cell| CellKey::new(List::Cells, cell, false);
    let again: Vec<CellKey> = second.cells.iter().map(key).collect();
    for mut cell in first.cells {
        if !again.contains(&key(&cell)) {
            if !cell.tags.iter().any(|tag| tag == FIRST_LOOK) {
                cell.tags.push(FIRST_LOOK.to_owned());
            }
            second.cells.push(cell);
        }
    }
    for rest in first.at_rest {
        if !second.at_rest.iter().any(|one| one.mechanism == rest.mechanism) {
            second.at_rest.push(rest);
        }
    }
    for skipped in first.skipped {
        if !second.skipped.contains(&skipped) {
            second.skipped.push(skipped);
        }
    }
    for warning in first.warnings {
        if !second.warnings.contains(&warning) {
            second.warnings.push(warning);
        }
    }
    second.started_unix_s = first.started_unix_s;
    second.settings.budget_s += first.settings.budget_s;
    second.settings.mechanisms = first.settings.mechanisms;
    second
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

/// More share too little time.
const FINALISTS_MAX: usize = 8;

/// Two launches can be wrong by as much as the second and third are behind.
const FINALISTS_MIN: usize = 4;

/// What costs more than this many times as much after two launches is not the best.
const NEAR_MAX: f64 = 1.8;

#[cfg(test)]
mod tests {
    use nearcall_channel::WaitPolicy;

    use super::*;
    use crate::advise::Violation;
    use crate::run::{Machine, RttNs, Settings};

    fn run(cells: &[(&str, f64)]) -> Run {
        let mut run = Run::new(Machine::default(), Settings::default(), 5);
        run.cells = cells
            .iter()
            .map(|&(name, ns)| {
                let mut cell = Cell::new(Kind::Latency, name, 64);
                cell.shape = "sink".to_owned();
                cell.placement.class = "same_llc".to_owned();
                cell.rtt_ns = Some(RttNs { p50: Some(ns), ..RttNs::default() });
                cell
            })
            .collect();
        run
    }

    #[test]
    fn the_best_of_the_first_look_are_looked_at_again() {
        let first = run(&[
            ("pipe", 1_000.0),
            ("fifo", 1_100.0),
            ("tcp", 9_000.0),
            ("udp", 5_000.0),
            ("uring", 1_700.0),
            ("shm-mq", 3_000.0),
        ]);
        let all = Candidate::all();
        let found = finalists(&Requirements::default(), &all, &first);
        let names: Vec<&str> = found.iter().map(|one| one.mechanism.name()).collect();
        assert_eq!(names, ["pipe", "fifo", "uring", "shm-mq"]);
        assert!(found.iter().all(|one| one.wait == WaitPolicy::Block));
    }

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

    #[test]
    fn both_looks_are_one_run_and_the_dropped_are_marked() {
        let first = run(&[("pipe", 1_000.0), ("tcp", 9_000.0)]);
        let joined = join(first, run(&[("pipe", 1_200.0)]));
        assert_eq!(joined.cells.len(), 2);
        assert_eq!(joined.cells[0].rtt_ns.as_ref().unwrap().p50, Some(1_200.0));
        assert!(joined.cells[0].tags.is_empty());
        assert_eq!(joined.cells[1].tags, [FIRST_LOOK]);
    }
}
