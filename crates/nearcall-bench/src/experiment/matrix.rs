//! From every CPU to every other: the client on one, the server on the other.
//!
//! Both directions of a pair are measured, since they can differ.
//! **Invariants:** a pair that was left out is listed, with the reason.
//! **Not here:** which pairs are taken where all would be too many (`matrix/pairs.rs`).

mod pairs;

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};

use self::pairs::Pairs;
use super::{Experiment, Machine, traffic};
use crate::bench_plan::{BenchPlan, Effort, ExperimentDefaults, Placement};
use crate::cell::{CellSpec, Conditions};
use crate::cell_list::CellList;
use crate::conditions::PinChoice;
use crate::run::{Matrix, Run};

/// From every CPU to every other.
pub static MATRIX: Experiment = Experiment {
    name: "matrix",
    summary: "Measure every pair of CPUs, in both directions",
    details: "The client runs on one CPU and the server on another; mechanisms that need not spin \
              are also measured with both ends on the same. Prints a table for each mechanism, and \
              a line for each class of pairs: threads of one core, cores of one cache, memory \
              nodes. On machines with many CPUs --time limits how many pairs of each class are \
              measured, which the table notes. By default over shm with ends that spin, and pipe.",
    examples: EXAMPLES,
    options: &["mechanism", "size", "wait", "load", "pm_qos"],
    defaults: Some(USUAL),
    check: |plan| match plan.options.placement {
        Placement::Pin { .. } => {
            Err("--pin: every pair of CPUs is measured; choose the CPUs by taskset".to_owned())
        }
        _ => plan.one_size(),
    },
    cells: |plan, on| cells(plan, &chosen(plan, on), on),
    finish: |plan, on, run, _, cells| {
        // Floors of so many places would take as long as the cells.
        cells.iter_mut().for_each(|cell| cell.floor = None);
        conclude(run, &chosen(plan, on), on.cpus);
    },
    ..Experiment::BASE
};

/// The pairs that are measured; the same for the same arguments.
fn chosen(plan: &BenchPlan, on: &Machine<'_>) -> Pairs {
    let most = pairs_max(plan, &plan.options.effort(&USUAL), on.cpus.len());
    pairs::choose(on.cpus, on.topology, most, plan.options.seed)
}

fn conclude(run: &mut Run, chosen: &Pairs, cpus: &[usize]) {
    let number = |&cpu: &usize| u32::try_from(cpu).ok();
    run.matrix = Some(Matrix {
        cpus: cpus.iter().filter_map(number).collect(),
        pairs: chosen.all,
        left_out: chosen.left_out(),
    });
    if chosen.left_out() > 0 {
        run.warnings.push(format!(
            "{} of {} pairs of CPUs were left out, as the time does not do for more; each class of \
             pairs is there; --time allows more",
            chosen.left_out(),
            chosen.all
        ));
    }
}

/// Mechanisms with their ways to wait.
fn ways(plan: &BenchPlan) -> Vec<(Mechanism, WaitPolicy)> {
    let Some(mechanisms) = &plan.mechanisms else {
        let defaults = [(Mechanism::Shm, WaitPolicy::Spin), (Mechanism::Pipe, WaitPolicy::Block)];
        let asked = |mechanism| plan.waits.iter().flatten().map(move |&wait| (mechanism, wait));
        return match plan.waits {
            None => defaults.to_vec(),
            Some(_) => defaults.iter().flat_map(|&(mechanism, _)| asked(mechanism)).collect(),
        };
    };
    let of = |&mechanism: &Mechanism| {
        let waits = plan.waits.clone().unwrap_or_else(|| mechanism.waits()[..1].to_vec());
        waits.into_iter().map(move |wait| (mechanism, wait))
    };
    mechanisms.iter().flat_map(of).collect()
}

/// As many pairs as the time does for, with all launches of all mechanisms, on a machine of so many
/// CPUs.
fn pairs_max(plan: &BenchPlan, effort: &Effort, cpus: usize) -> usize {
    let launches = effort.launches.max(1) as usize * ways(plan).len().max(1);
    let workers = if plan.options.load.is_idle() { 0 } else { cpus + WORKERS_MORE };
    let workers = WORKER_START.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX));
    let slots = effort.budget.as_millis() / PAIR_LAUNCH.saturating_add(workers).as_millis();
    usize::try_from(slots).unwrap_or(usize::MAX) / launches
}

fn cells(plan: &BenchPlan, chosen: &Pairs, on: &Machine<'_>) -> CellList {
    let mut list = CellList::default();
    // What would spin on one CPU is left out below, of those pairs only.
    let anywhere = Machine { no_spinning: None, ..*on };
    for (mechanism, wait) in anywhere.usable(ways(plan), &mut list) {
        let spins = wait == WaitPolicy::Spin || mechanism.capabilities().needs_spinning;
        if chosen.all == 1 {
            let reason = "from one CPU to another: only one CPU is allowed";
            list.skip(mechanism.name(), reason.to_owned(), false);
        }
        if spins {
            let reason = "on one CPU: an end that spins keeps the other from running";
            list.skip(mechanism.name(), reason.to_owned(), false);
        }
        for &(client, server) in chosen.taken.iter().filter(|(a, b)| a != b || !spins) {
            let (spot, load) = (PinChoice::Pair { client, server }, plan.options.load);
            let conditions = Conditions { spot, load, ..Conditions::default() };
            list.cells.push(CellSpec { conditions, ..traffic::echo(plan, mechanism, wait) });
        }
    }
    list
}

/// An interval needs two; with many pairs, more launches would mean fewer pairs.
const USUAL: ExperimentDefaults = ExperimentDefaults {
    launches: 3,
    launches_quick: 2,
    // All pairs of 16 CPUs fit.
    budget: Duration::from_secs(90),
    budget_quick: Duration::from_secs(20),
    // For one cell in one launch: thousands of exchanges.
    cell_max: Some(Duration::from_millis(30)),
};

/// What a launch of one pair takes at least: two processes, the detector, a short cell.
const PAIR_LAUNCH: Duration = Duration::from_millis(55);

/// What starting and ending one worker of a load adds to each launch.
const WORKER_START: Duration = Duration::from_millis(3);

/// Beside one for each CPU: one for memory, one for the disk.
const WORKERS_MORE: usize = 2;

const EXAMPLES: &str = "\
Examples:
  nearcall bench matrix                          shm and pipe, within 90 s
  nearcall bench matrix --mechanism unix-stream --size 1KiB --time 3m
  nearcall bench matrix --load cpu,memory,io     the same under load
  nearcall bench matrix --json | jq '.cells[] | [.placement.class, .rtt_ns.p50]'";

#[cfg(test)]
mod tests {
    use nearcall_results::topology::Topology;

    use super::*;
    use crate::bench_plan::RunOptions;
    use crate::conditions::Load;

    fn found(plan: &BenchPlan, cpus: &[usize]) -> CellList {
        let chosen = pairs::choose(cpus, &Topology::default(), 1_000, 1);
        cells(plan, &chosen, &Machine::with(&|_| Ok(()), None))
    }

    fn pairs_of(list: &CellList, name: &str) -> Vec<PinChoice> {
        let cells = list.cells.iter().filter(|cell| cell.subject.name() == name);
        cells.map(|cell| cell.conditions.spot).collect()
    }

    #[test]
    fn both_directions_are_measured_and_who_blocks_also_with_itself() {
        let list = found(&BenchPlan::default(), &[0, 1]);
        let pair = |client, server| PinChoice::Pair { client, server };
        assert_eq!(pairs_of(&list, "shm"), [pair(0, 1), pair(1, 0)]);
        assert_eq!(pairs_of(&list, "pipe"), [pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1)]);
        assert_eq!(list.skipped.len(), 1, "{:?}", list.skipped);
        assert!(list.skipped[0].reason.contains("on one CPU"));
    }

    #[test]
    fn one_cpu_skips_what_needs_two_with_the_reason() {
        let list = found(&BenchPlan::default(), &[3]);
        assert_eq!(pairs_of(&list, "pipe"), [PinChoice::Pair { client: 3, server: 3 }]);
        assert_eq!(pairs_of(&list, "shm"), []);
        let told = |name: &str| {
            list.skipped
                .iter()
                .any(|one| one.mechanism == name && one.reason.contains("only one CPU is allowed"))
        };
        assert!(told("shm") && told("pipe"), "{:?}", list.skipped);
    }

    #[test]
    fn more_launches_leave_room_for_fewer_pairs() {
        let plan = BenchPlan::default();
        let effort = |launches| Effort { launches, budget: USUAL.budget, cell_max: None };
        assert!(pairs_max(&plan, &effort(USUAL.launches), 16) >= 256);
        assert!(pairs_max(&plan, &effort(30), 16) < 256);
        let loaded = BenchPlan {
            options: RunOptions { load: Load::STRESS, ..RunOptions::default() },
            ..plan
        };
        assert!(pairs_max(&loaded, &effort(USUAL.launches), 16) < 256);
    }
}
