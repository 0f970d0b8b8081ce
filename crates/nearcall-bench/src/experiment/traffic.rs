//! What the experiments have in common whose traffic is not one exchange right after the other.
//!
//! Not here: the clients' loops (`exchange/`, `calls/many.rs`).

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use super::{Experiment, Machine};
use crate::bench_plan::{BenchPlan, ExperimentDefaults, Shape};
use crate::calls::ours::{self, Way};
use crate::cell::{CellSpec, Conditions, Subject};
use crate::cell_list::CellList;
use crate::conditions::Traffic;
use crate::run::Kind;

/// What a row of such an experiment has that says nothing else.
pub(super) const BASE: Experiment = Experiment {
    options: &["mechanism", "size", "wait", "placement", "load"],
    defaults: Some(USUAL),
    check: BenchPlan::one_size,
    // A floor is an exchange at full speed.
    finish: |_, _, _, _, cells| cells.iter_mut().for_each(|cell| cell.floor = None),
    ..Experiment::BASE
};

/// Launches and time.
pub(super) const USUAL: ExperimentDefaults = ExperimentDefaults {
    // An interval needs two; more take long.
    launches: 3,
    launches_quick: 2,
    // About forty cells, three launches each of most of a second.
    budget: Duration::from_secs(120),
    budget_quick: Duration::from_secs(15),
    // A 99.9th percentile of ten thousand messages per second needs a second.
    cell_max: Some(Duration::from_secs(1)),
};

/// What an experiment measures of each mechanism.
pub(super) struct Wanted<'a> {
    /// The mechanisms, if the plan names none.
    pub(super) mechanisms: &'a [Mechanism],
    /// How both ends wait, if the plan does not say.
    pub(super) waits: &'a dyn Fn(Mechanism) -> Vec<WaitPolicy>,
    /// The cell of a mechanism.
    pub(super) cell: &'a dyn Fn(Mechanism) -> CellSpec,
    /// The conditions of its cells.
    pub(super) scenes: Vec<Conditions>,
}

/// Every way to wait of every mechanism, each with all scenes of the traffic.
pub(super) fn cells(plan: &BenchPlan, on: &Machine<'_>, wanted: &Wanted<'_>) -> CellList {
    let mut list = CellList::default();
    let asked = plan.mechanisms.as_deref().unwrap_or(wanted.mechanisms).iter();
    let waits = |one| plan.waits.clone().unwrap_or_else(|| (wanted.waits)(one));
    let ways = asked.flat_map(|&one| waits(one).into_iter().map(move |wait| (one, wait)));
    for (mechanism, wait) in on.usable(ways, &mut list) {
        let cell = (wanted.cell)(mechanism);
        list.cells.extend(wanted.scenes.iter().map(|conditions| {
            let conditions = Conditions { load: plan.options.load, ..*conditions };
            CellSpec { wait, conditions, ..cell }
        }));
    }
    list
}

/// A round trip of a message of the plan's size.
pub(super) fn echo(plan: &BenchPlan, mechanism: Mechanism) -> CellSpec {
    CellSpec {
        kind: Kind::Latency,
        subject: Subject::Mechanism(mechanism),
        shape: Shape::Echo,
        message_bytes: plan.message_bytes(),
        wait: WaitPolicy::Block,
        conditions: Conditions::default(),
    }
}

/// An empty call of a client without a loop.
pub(super) fn call(mechanism: Mechanism) -> CellSpec {
    CellSpec {
        kind: Kind::Latency,
        subject: Subject::Call(Route::Blocking(mechanism)),
        shape: Shape::Call,
        message_bytes: 0,
        wait: WaitPolicy::Block,
        conditions: Conditions::default(),
    }
}

pub(super) fn of(traffic: Traffic) -> Conditions {
    Conditions { traffic, ..Conditions::default() }
}

/// All ways of nearcall's own channel, and the usual one of any other.
pub(super) fn waits(mechanism: Mechanism) -> Vec<WaitPolicy> {
    let all = ours::policies().into_iter().filter(|(ours, _)| *ours == mechanism);
    let all: Vec<WaitPolicy> = all.map(|(_, wait)| wait).collect();
    if all.is_empty() { first_wait(mechanism) } else { all }
}

/// As [`waits`], of the client of a call. Of many clients that spin on one CPU, one runs and the
/// others wait for it.
pub(super) fn waits_of_calls(mechanism: Mechanism) -> Vec<WaitPolicy> {
    match mechanism == ours::OURS {
        true => [Way::Sleep, Way::Adaptive].map(|way| way.ours().1).to_vec(),
        false => vec![Route::Blocking(mechanism).usual_wait()],
    }
}

pub(super) fn first_wait(mechanism: Mechanism) -> Vec<WaitPolicy> {
    mechanism.waits().iter().take(1).copied().collect()
}

/// What programs use, one of each kind.
pub(super) const COMMON: [Mechanism; 7] = [
    Mechanism::Shm,
    Mechanism::ShmFutex,
    Mechanism::Pipe,
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::Tcp,
    Mechanism::PosixMq,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_plan::RunOptions;
    use crate::conditions::Load;
    use crate::experiment::{
        BURST, CLIENTS, CONNECT, IDLE_GAP, OPEN_LOOP, THREADS, open_loop, threads,
    };

    fn found(experiment: &Experiment, plan: &BenchPlan, no_spinning: Option<&str>) -> CellList {
        let supported = |mechanism| match mechanism {
            Mechanism::Uring if plan.mechanisms.is_some() => Err("no io_uring".to_owned()),
            _ => Ok(()),
        };
        (experiment.cells)(plan, &Machine::with(&supported, no_spinning))
    }

    fn defaults(experiment: &Experiment) -> CellList {
        found(experiment, &BenchPlan::default(), None)
    }

    #[test]
    fn every_open_loop_has_its_closed_loop_in_the_same_launch() {
        let options = RunOptions { load: Load::duty(35), ..RunOptions::default() };
        let plan = BenchPlan { rates_per_s: Some(vec![10, 20]), options, ..BenchPlan::default() };
        let list = found(&OPEN_LOOP, &plan, None);
        assert_eq!(list.skipped, []);
        for cell in &list.cells {
            let conditions = Conditions { load: Load::duty(35), ..Conditions::default() };
            let closed = CellSpec { conditions, ..*cell };
            assert!(list.cells.contains(&closed) && closed.unit() == cell.unit(), "{cell}");
        }
        // Nearcall's own channel waits in three ways.
        assert_eq!(list.cells.len(), 3 * (COMMON.len() + 2));
        assert_eq!(defaults(&OPEN_LOOP).cells.len(), (1 + open_loop::RATES_PER_S.len()) * 9);
    }

    #[test]
    fn all_gaps_and_all_bursts_share_the_launches_of_their_mechanism() {
        for experiment in [&IDLE_GAP, &BURST] {
            let mut units: Vec<_> = defaults(experiment).cells.iter().map(CellSpec::unit).collect();
            units.dedup();
            assert_eq!(units.len(), COMMON.len() + 2);
        }
    }

    #[test]
    fn each_count_of_clients_has_launches_of_its_own() {
        let plan = BenchPlan {
            mechanisms: Some(vec![Mechanism::Pipe]),
            clients: Some(vec![1, 256]),
            ..BenchPlan::default()
        };
        let list = found(&CLIENTS, &plan, None);
        assert_eq!(list.cells.len(), 2);
        assert_ne!(list.cells[0].unit(), list.cells[1].unit());
        assert!(list.cells.iter().all(|cell| cell.wait == WaitPolicy::Block));
    }

    #[test]
    fn threads_spin_and_adapt_against_one_loop_and_two() {
        let list = defaults(&THREADS);
        assert_eq!(list.cells.len(), 2 * threads::THREADS_AT_ONCE.len() * threads::LOOPS.len());
        let one_cpu = found(&THREADS, &BenchPlan::default(), Some("one CPU"));
        assert!(one_cpu.cells.iter().all(|cell| cell.wait == WaitPolicy::Adaptive));
    }

    #[test]
    fn every_mechanism_begins_and_ends() {
        assert_eq!(defaults(&CONNECT).cells.len(), Mechanism::all().count());
    }

    #[test]
    fn what_cannot_be_is_told() {
        let plan = BenchPlan {
            mechanisms: Some(vec![Mechanism::ShmSpin, Mechanism::Pipe, Mechanism::Uring]),
            waits: Some(vec![WaitPolicy::Spin, WaitPolicy::Adaptive]),
            ..BenchPlan::default()
        };
        let list = found(&OPEN_LOOP, &plan, Some("one CPU"));
        assert_eq!(list.cells, []);
        let has = |name: &str, reason: &str| {
            list.skipped.iter().any(|skip| skip.mechanism == name && skip.reason == reason)
        };
        assert!(has("shm-spin", "by spin: one CPU") && has("pipe", "by spin: one CPU"), "{list:?}");
        assert!(has("pipe", "cannot wait by adaptive; it can by block, spin, poll"), "{list:?}");
        assert!(has("uring", "no io_uring"));
    }
}
