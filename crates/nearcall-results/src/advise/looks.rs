//! Two looks at the candidates: which of the first are looked at again, and both as one run.
//!
//! **Invariants:** what was dropped after the first look is marked so in the run and never chosen.
//!
//! **Not here:** measuring (`nearcall-bench`).

use super::candidates::Candidate;
use super::evidence::FIRST_LOOK;
use super::judge::judge;
use super::rank::rank;
use super::requirements::{Objective, Requirements, Weights};
use crate::run::{Cell, CellKey, List, Run};

/// Those that may turn out best: few enough that each has time, by how near they came to the best.
#[must_use]
pub fn finalists(requirements: &Requirements, all: &[Candidate], first: &Run) -> Vec<Candidate> {
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

/// The second look, and of the first what the second has not, marked as dropped.
#[must_use]
pub fn join(first: Run, mut second: Run) -> Run {
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
    add(&mut second.at_rest, first.at_rest, |a, b| a.mechanism == b.mechanism);
    add(&mut second.skipped, first.skipped, PartialEq::eq);
    add(&mut second.warnings, first.warnings, PartialEq::eq);
    second.started_unix_s = first.started_unix_s;
    second.settings.budget_s += first.settings.budget_s;
    second.settings.mechanisms = first.settings.mechanisms;
    second
}

/// Adds what `all` has nothing like.
fn add<T>(all: &mut Vec<T>, more: Vec<T>, alike: fn(&T, &T) -> bool) {
    for new in more {
        if !all.iter().any(|one| alike(one, &new)) {
            all.push(new);
        }
    }
}

/// More share too little time.
pub const FINALISTS_MAX: usize = 8;

/// Two launches can be wrong by as much as the second and third are behind.
const FINALISTS_MIN: usize = 4;

/// What costs more than this many times as much after two launches is not the best.
const NEAR_MAX: f64 = 1.8;

#[cfg(test)]
mod tests {
    use nearcall_channel::WaitPolicy;

    use super::*;
    use crate::run::{Kind, Machine, RttNs, Settings};

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
    fn both_looks_are_one_run_and_the_dropped_are_marked() {
        let first = run(&[("pipe", 1_000.0), ("tcp", 9_000.0)]);
        let joined = join(first, run(&[("pipe", 1_200.0)]));
        assert_eq!(joined.cells.len(), 2);
        assert_eq!(joined.cells[0].rtt_ns.as_ref().unwrap().p50, Some(1_200.0));
        assert!(joined.cells[0].tags.is_empty());
        assert_eq!(joined.cells[1].tags, [FIRST_LOOK]);
    }
}
