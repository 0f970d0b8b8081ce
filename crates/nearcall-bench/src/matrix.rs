//! Measures from every CPU to every other: the client on one, the server on the other.
//!
//! Both directions of a pair are measured, since they can differ. Always true: a pair that was
//! left out is told, with the reason. Launches, interleaving and grades are those of every run
//! (`runner.rs`). Not here: which pairs are taken where all would be too many (`matrix/pairs.rs`),
//! the table (`report/table/matrix.rs`).

mod pairs;

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::cpu;

use self::pairs::Pairs;
use crate::bench_plan::{BenchPlan, How, Shape, Usual};
use crate::cell::{CellSpec, Scene, Subject};
use crate::machine;
use crate::run::{Cell, Kind, Matrix, Run};
use crate::runner::{self, BenchError, Extent, Hooks, Task};
use crate::scene::Spot;
use crate::tour::Tour;

/// How to measure from CPU to CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatrixPlan {
    /// The mechanisms; `None` means shared memory with ends that spin, and a pipe.
    pub mechanisms: Option<Vec<Mechanism>>,
    /// How both ends wait; `None` means each mechanism's usual way.
    pub waits: Option<Vec<WaitPolicy>>,
    /// Payload bytes of a message; 0 means [`MESSAGE_BYTES`].
    pub message_bytes: u64,
    /// Where and how.
    pub how: How,
}

/// What a message has if the plan does not say: one cache line's worth is moved.
pub const MESSAGE_BYTES: u64 = 8;

/// Measures from every CPU that is allowed to every other and returns the run.
///
/// Blocks for the plan's time budget, a minute and a half without one. Call it as
/// [`bench`](runner::bench).
///
/// # Errors
///
/// As [`bench`](runner::bench).
pub fn bench(plan: &MatrixPlan, hooks: &Hooks<'_>) -> Result<Run, BenchError> {
    let extent = plan.how.extent(&USUAL);
    let common = BenchPlan {
        kinds: vec![Kind::Latency],
        mechanisms: plan.mechanisms.clone(),
        sizes_bytes: Some(vec![message_bytes(plan)]),
        waits: plan.waits.clone(),
        how: plan.how.clone(),
        ..BenchPlan::default()
    };
    let (cpus, topology) = (cpu::allowed(), machine::topology());
    let chosen =
        pairs::choose(&cpus, &topology, pairs_max(plan, &extent, cpus.len()), plan.how.seed);
    let find = |_: Option<&str>| cells(plan, &chosen, &Mechanism::supported);
    let conclude = |run: &mut Run, _: &[CellSpec], cells: &mut [Cell]| {
        // Floors of so many places would take as long as the cells.
        cells.iter_mut().for_each(|cell| cell.floor = None);
        let number = |&cpu: &usize| u32::try_from(cpu).ok();
        run.matrix = Some(Matrix {
            cpus: cpus.iter().filter_map(number).collect(),
            pairs: chosen.all,
            left_out: chosen.left_out(),
        });
        if chosen.left_out() > 0 {
            run.warnings.push(format!(
                "{} of {} pairs of CPUs were left out, as the time does not do for more; each \
                 class of pairs is there; --time allows more",
                chosen.left_out(),
                chosen.all
            ));
        }
    };
    let task = Task { find: &find, extent: Some(extent), conclude: &conclude };
    runner::bench_cells(&common, &task, hooks)
}

fn message_bytes(plan: &MatrixPlan) -> u64 {
    if plan.message_bytes == 0 { MESSAGE_BYTES } else { plan.message_bytes }
}

/// Mechanisms with their ways to wait.
fn ways(plan: &MatrixPlan) -> Vec<(Mechanism, WaitPolicy)> {
    let Some(mechanisms) = &plan.mechanisms else {
        let usual = [(Mechanism::Shm, WaitPolicy::Spin), (Mechanism::Pipe, WaitPolicy::Block)];
        let asked = |mechanism| plan.waits.iter().flatten().map(move |&wait| (mechanism, wait));
        return match plan.waits {
            None => usual.to_vec(),
            Some(_) => usual.iter().flat_map(|&(mechanism, _)| asked(mechanism)).collect(),
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
fn pairs_max(plan: &MatrixPlan, extent: &Extent, cpus: usize) -> usize {
    let launches = extent.launches.max(1) as usize * ways(plan).len().max(1);
    let workers = if plan.how.load.is_idle() { 0 } else { cpus + WORKERS_MORE };
    let workers = WORKER_START.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX));
    let slots = extent.budget.as_millis() / PAIR_LAUNCH.saturating_add(workers).as_millis();
    usize::try_from(slots).unwrap_or(usize::MAX) / launches
}

fn cells(
    plan: &MatrixPlan,
    chosen: &Pairs,
    supported: &dyn Fn(Mechanism) -> Result<(), String>,
) -> Tour {
    let mut tour = Tour::default();
    for (mechanism, wait) in ways(plan) {
        if let Err(reason) = supported(mechanism) {
            tour.skip(mechanism.name(), reason, true);
            continue;
        }
        if !mechanism.waits().contains(&wait) {
            tour.skip(mechanism.name(), format!("cannot wait by {wait}"), false);
            continue;
        }
        let spins = wait == WaitPolicy::Spin || mechanism.capabilities().needs_spinning;
        if chosen.all == 1 {
            let reason = "from one CPU to another: only one CPU is allowed";
            tour.skip(mechanism.name(), reason.to_owned(), false);
        }
        if spins {
            let reason = "on one CPU: an end that spins keeps the other from running";
            tour.skip(mechanism.name(), reason.to_owned(), false);
        }
        for &(client, server) in chosen.taken.iter().filter(|(a, b)| a != b || !spins) {
            tour.cells.push(CellSpec {
                kind: Kind::Latency,
                subject: Subject::Mechanism(mechanism),
                shape: Shape::Echo,
                message_bytes: message_bytes(plan),
                wait,
                scene: Scene {
                    spot: Spot::Pair { client, server },
                    load: plan.how.load,
                    ..Scene::default()
                },
            });
        }
    }
    tour
}

/// An interval needs two; with many pairs, more launches would mean fewer pairs.
const LAUNCHES: u32 = 3;

/// With `--quick`.
const LAUNCHES_QUICK: u32 = 2;

/// All pairs of 16 CPUs fit.
const BUDGET: Duration = Duration::from_secs(90);

/// With `--quick`.
const BUDGET_QUICK: Duration = Duration::from_secs(20);

/// What all of that takes.
const USUAL: Usual = Usual {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: Some(CELL_MAX),
};

/// For one cell in one launch: thousands of exchanges.
const CELL_MAX: Duration = Duration::from_millis(30);

/// What a launch of one pair takes at least: two processes, the detector, a short cell.
const PAIR_LAUNCH: Duration = Duration::from_millis(55);

/// What starting and ending one worker of a load adds to each launch.
const WORKER_START: Duration = Duration::from_millis(3);

/// Beside one for each CPU: one for memory, one for the disk.
const WORKERS_MORE: usize = 2;

#[cfg(test)]
mod tests {
    use nearcall_results::topology::Topology;

    use super::*;
    use crate::scene::Load;

    fn found(plan: &MatrixPlan, cpus: &[usize]) -> Tour {
        let chosen = pairs::choose(cpus, &Topology::default(), 1_000, 1);
        cells(plan, &chosen, &|_| Ok(()))
    }

    fn pairs_of(tour: &Tour, name: &str) -> Vec<Spot> {
        let cells = tour.cells.iter().filter(|cell| cell.subject.name() == name);
        cells.map(|cell| cell.scene.spot).collect()
    }

    #[test]
    fn both_directions_are_measured_and_who_blocks_also_with_itself() {
        let tour = found(&MatrixPlan::default(), &[0, 1]);
        let pair = |client, server| Spot::Pair { client, server };
        assert_eq!(pairs_of(&tour, "shm"), [pair(0, 1), pair(1, 0)]);
        assert_eq!(pairs_of(&tour, "pipe"), [pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1)]);
        assert_eq!(tour.skipped.len(), 1, "{:?}", tour.skipped);
        assert!(tour.skipped[0].reason.contains("on one CPU"));
    }

    #[test]
    fn one_cpu_skips_what_needs_two_with_the_reason() {
        let tour = found(&MatrixPlan::default(), &[3]);
        assert_eq!(pairs_of(&tour, "pipe"), [Spot::Pair { client: 3, server: 3 }]);
        assert_eq!(pairs_of(&tour, "shm"), []);
        let told = |name: &str| {
            tour.skipped
                .iter()
                .any(|one| one.mechanism == name && one.reason.contains("only one CPU is allowed"))
        };
        assert!(told("shm") && told("pipe"), "{:?}", tour.skipped);
    }

    #[test]
    fn more_launches_leave_room_for_fewer_pairs() {
        let plan = MatrixPlan::default();
        let extent = |launches| Extent { launches, budget: BUDGET, cell_max: None };
        assert!(pairs_max(&plan, &extent(LAUNCHES), 16) >= 256);
        assert!(pairs_max(&plan, &extent(30), 16) < 256);
        let loaded = MatrixPlan { how: How { load: Load::STRESS, ..How::default() }, ..plan };
        assert!(pairs_max(&loaded, &extent(LAUNCHES), 16) < 256);
    }
}
