//! Measures how a mechanism does under traffic that is not one exchange right after the other.
//!
//! One plan and one way to measure for all kinds of traffic; launches, interleaving and grades are
//! those of every run (`runner.rs`). Not here: the clients' loops (`exchange/`), the tables
//! (`report/table/traffic.rs`).

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::bench_plan::{BenchPlan, How, Place, Shape, Usual};
use crate::calls::ours::{self, Way};
use crate::calls::route::Route;
use crate::cell::{CellSpec, Scene, Subject};
use crate::launch::Fault;
use crate::run::{Cell, Kind, Run};
use crate::runner::{self, BenchError, Hooks, Task};
use crate::scene::Traffic;
use crate::tour::Tour;

/// What traffic to measure, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficPlan {
    /// The kind of traffic.
    pub what: What,
    /// The mechanisms; `None` means those that are in common use.
    pub mechanisms: Option<Vec<Mechanism>>,
    /// How both ends wait; `None` means each mechanism's usual way, and all of nearcall's own.
    pub waits: Option<Vec<WaitPolicy>>,
    /// Payload bytes of one message, at least 1.
    pub message_bytes: u64,
    /// Where and how.
    pub how: How,
}

/// A kind of traffic. `None` in it means the usual values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Exchanges that are due at set times, beside the same ones one after the other.
    Pace {
        /// Exchanges per second, at least 1.
        rates_per_s: Option<Vec<u32>>,
    },
    /// Exchanges with a gap after each.
    Gap {
        /// The gaps; 0 is none.
        gaps_ns: Option<Vec<u64>>,
    },
    /// Messages right after each other, then one reply.
    Burst {
        /// Messages of a burst, at least 1.
        messages: Option<Vec<u32>>,
    },
    /// Clients of one server of the runtime, each calling without a pause.
    Clients {
        /// How many at once, at least 1.
        clients: Option<Vec<u32>>,
    },
    /// Threads of one process that share one caller, each calling without a pause.
    Threads {
        /// How many at once, at least 1.
        threads: Option<Vec<u32>>,
        /// Event loops of the server, at least 1.
        loops: Option<Vec<u32>>,
    },
    /// Set-up, first message and tear-down of connections.
    Start,
}

impl TrafficPlan {
    /// The usual cells of a kind of traffic, with a fixed seed.
    #[must_use]
    pub fn new(what: What) -> Self {
        Self {
            what,
            mechanisms: None,
            waits: None,
            message_bytes: MESSAGE_BYTES,
            how: How::default(),
        }
    }
}

/// Measures traffic and returns the run, whole or marked as cut short.
///
/// Blocks for the plan's time budget, two minutes without one. Call it as
/// [`bench`](runner::bench).
///
/// # Errors
///
/// As [`bench`](runner::bench).
pub fn bench(plan: &TrafficPlan, hooks: &Hooks<'_>) -> Result<Run, BenchError> {
    let launches = if plan.what == What::Start { LAUNCHES_START } else { LAUNCHES };
    let launches_quick = if plan.what == What::Start { LAUNCHES } else { LAUNCHES_QUICK };
    let extent = plan.how.extent(&Usual { launches, launches_quick, ..EXTENT });
    let common = BenchPlan {
        kinds: vec![Kind::Latency],
        mechanisms: plan.mechanisms.clone(),
        sizes_bytes: Some(vec![plan.message_bytes]),
        waits: plan.waits.clone(),
        how: How { placement: placement(plan), ..plan.how.clone() },
        ..BenchPlan::default()
    };
    let find = |no_spinning: Option<&str>| cells(plan, &Mechanism::supported, no_spinning);
    let conclude = |run: &mut Run, _: &[CellSpec], cells: &mut [Cell]| {
        // A floor is an exchange at full speed.
        cells.iter_mut().for_each(|cell| cell.floor = None);
        if let Fault::Stall { ns } = hooks.fault {
            let ms = ns as f64 / 1e6;
            run.warnings.push(format!(
                "a self-test: the server sleeps for {ms} ms again and again, a tenth of the time"
            ));
        }
    };
    let task = Task { find: &find, extent: Some(extent), conclude: &conclude };
    runner::bench_cells(&common, &task, hooks)
}

/// Returns where both ends run. Threads need CPUs to run at the same time, so nothing pins them
/// unless the plan does.
fn placement(plan: &TrafficPlan) -> Place {
    match (&plan.what, plan.how.placement) {
        (What::Threads { .. }, Place::Auto) => Place::None,
        (_, placement) => placement,
    }
}

/// Every way to wait of every mechanism, each with all scenes of the traffic.
fn cells(
    plan: &TrafficPlan,
    supported: &dyn Fn(Mechanism) -> Result<(), String>,
    no_spinning: Option<&str>,
) -> Tour {
    let mut tour = Tour::default();
    for mechanism in mechanisms(plan) {
        if let Err(reason) = supported(mechanism) {
            tour.skip(mechanism.name(), reason, true);
            continue;
        }
        for wait in waits(plan, mechanism) {
            let what = format!("{mechanism} {wait}");
            if !mechanism.waits().contains(&wait) {
                tour.skip(
                    &what,
                    "this mechanism does not support this wait policy".to_owned(),
                    false,
                );
                continue;
            }
            let spins = wait == WaitPolicy::Spin || mechanism.capabilities().needs_spinning;
            if let (true, Some(reason)) = (spins, no_spinning) {
                tour.skip(&what, reason.to_owned(), false);
                continue;
            }
            tour.cells
                .extend(scenes(plan).into_iter().map(|scene| cell(plan, mechanism, wait, scene)));
        }
    }
    tour
}

fn mechanisms(plan: &TrafficPlan) -> Vec<Mechanism> {
    plan.mechanisms.clone().unwrap_or_else(|| match plan.what {
        What::Pace { .. } | What::Gap { .. } | What::Burst { .. } => USUAL.to_vec(),
        What::Clients { .. } => USUAL_OF_CALLS.to_vec(),
        What::Threads { .. } => vec![ours::OURS],
        // Each has its own price, and all together take little time.
        What::Start => Mechanism::all().collect(),
    })
}

fn cell(plan: &TrafficPlan, mechanism: Mechanism, wait: WaitPolicy, scene: Scene) -> CellSpec {
    let scene = Scene { load: plan.how.load, ..scene };
    let plain = CellSpec {
        kind: Kind::Latency,
        subject: Subject::Mechanism(mechanism),
        shape: Shape::Echo,
        message_bytes: plan.message_bytes,
        wait,
        scene,
    };
    match plan.what {
        What::Pace { .. } | What::Gap { .. } | What::Start => plain,
        What::Burst { .. } => CellSpec { shape: Shape::Sink, ..plain },
        What::Clients { .. } | What::Threads { .. } => CellSpec {
            subject: Subject::Call(Route::Blocking(mechanism)),
            shape: Shape::Call,
            message_bytes: 0,
            ..plain
        },
    }
}

/// Those of the plan, else all of nearcall's own channel and the usual one of any other.
fn waits(plan: &TrafficPlan, mechanism: Mechanism) -> Vec<WaitPolicy> {
    let has = mechanism.waits();
    plan.waits.clone().unwrap_or_else(|| {
        match plan.what {
            What::Start => return has.iter().take(1).copied().collect(),
            What::Clients { .. } | What::Threads { .. } if mechanism != ours::OURS => {
                return vec![Route::Blocking(mechanism).usual_wait()];
            }
            What::Threads { .. } => {
                return [Way::Spin, Way::Usual].map(|way| way.ours().1).to_vec();
            }
            _ => {}
        }
        let all = ours::policies().into_iter().filter(|(ours, _)| *ours == mechanism);
        // Of many clients that spin on one CPU, one runs and the others wait for it.
        let many = matches!(plan.what, What::Clients { .. });
        let all = all.map(|(_, wait)| wait).filter(|&wait| !many || wait != WaitPolicy::Spin);
        let all: Vec<WaitPolicy> = all.collect();
        if all.is_empty() { has.iter().take(1).copied().collect() } else { all }
    })
}

fn scenes(plan: &TrafficPlan) -> Vec<Scene> {
    match &plan.what {
        What::Pace { rates_per_s } => {
            let usual = if plan.how.quick { &RATES_PER_S[1..2] } else { &RATES_PER_S[..] };
            let rates = rates_per_s.as_deref().unwrap_or(usual);
            // Zero: one after the other, in the same launches.
            let with_closed = std::iter::once(&0).chain(rates);
            with_closed.map(|&rate_per_s| Scene { rate_per_s, ..Scene::default() }).collect()
        }
        What::Gap { gaps_ns } => {
            let usual = if plan.how.quick { &GAPS_NS[..GAPS_NS.len() - 1] } else { &GAPS_NS[..] };
            let gaps = gaps_ns.as_deref().unwrap_or(usual);
            gaps.iter().map(|&ns| of(Traffic::Gap { ns })).collect()
        }
        What::Burst { messages } => {
            let bursts = messages.as_deref().unwrap_or(&BURSTS);
            bursts.iter().map(|&messages| of(Traffic::Burst { messages })).collect()
        }
        What::Clients { clients } => {
            let usual = if plan.how.quick { &CLIENTS[..CLIENTS.len() - 1] } else { &CLIENTS[..] };
            let clients = clients.as_deref().unwrap_or(usual);
            clients.iter().map(|&clients| of(Traffic::Clients { clients, loops: None })).collect()
        }
        What::Threads { threads, loops } => {
            let (all, most) = (&THREADS[..], &THREADS[1..THREADS.len() - 1]);
            let threads = threads.as_deref().unwrap_or(if plan.how.quick { most } else { all });
            let loops = loops.as_deref().unwrap_or(&LOOPS);
            let with = |&loops| {
                threads.iter().map(move |&clients| Traffic::Clients { clients, loops: Some(loops) })
            };
            loops.iter().flat_map(with).map(of).collect()
        }
        What::Start => vec![of(Traffic::Starts { connects: CONNECTS })],
    }
}

fn of(traffic: Traffic) -> Scene {
    Scene { traffic, ..Scene::default() }
}

/// What programs use, one of each kind.
const USUAL: [Mechanism; 7] = [
    Mechanism::Shm,
    Mechanism::ShmFutex,
    Mechanism::Pipe,
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::Tcp,
    Mechanism::PosixMq,
];

/// What an address says by itself, and what any library could use.
const USUAL_OF_CALLS: [Mechanism; 2] = [ours::OURS, Mechanism::UnixStream];

/// A word.
const MESSAGE_BYTES: u64 = 8;

/// A sensor, a busy service, a data feed.
const RATES_PER_S: [u32; 3] = [1_000, 10_000, 100_000];

/// Without a pause, a busy service's, a human being's.
const GAPS_NS: [u64; 6] = [0, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// One, a cache line of words, some pages of them, more than many queues hold.
const BURSTS: [u32; 4] = [1, 8, 64, 512];

/// Alone, a few programs of one user, a busy machine.
const CLIENTS: [u32; 5] = [1, 4, 16, 64, 256];

/// Alone, one for each CPU of small machines, and more than those have.
const THREADS: [u32; 4] = [1, 2, 4, 8];

/// The usual server, and one that uses a second CPU.
const LOOPS: [u32; 2] = [1, 2];

/// Connections of one launch: the first, and enough for a median of the others.
const CONNECTS: u32 = 50;

/// The first connection of new processes gives one time per launch.
const LAUNCHES_START: u32 = 10;

/// An interval needs two; more take long.
const LAUNCHES: u32 = 3;

/// With `--quick`.
const LAUNCHES_QUICK: u32 = 2;

/// About forty cells, three launches each of most of a second.
const BUDGET: Duration = Duration::from_secs(120);

/// With `--quick`.
const BUDGET_QUICK: Duration = Duration::from_secs(15);

/// What all of that takes.
const EXTENT: Usual = Usual {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: Some(CELL_MAX),
};

/// A 99.9th percentile of ten thousand messages per second needs a second.
const CELL_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Load;

    fn pace() -> TrafficPlan {
        TrafficPlan::new(What::Pace { rates_per_s: Some(vec![10, 20]) })
    }

    #[test]
    fn every_open_loop_has_its_closed_loop_in_the_same_launch() {
        let plan = TrafficPlan { how: How { load: Load::duty(35), ..How::default() }, ..pace() };
        let tour = cells(&plan, &|_| Ok(()), None);
        assert_eq!(tour.skipped, []);
        for cell in &tour.cells {
            let scene = Scene { load: Load::duty(35), ..Scene::default() };
            let closed = CellSpec { scene, ..*cell };
            assert!(tour.cells.contains(&closed) && closed.unit() == cell.unit(), "{cell}");
        }
        // Nearcall's own channel waits in three ways.
        assert_eq!(tour.cells.len(), 3 * (USUAL.len() + 2));
    }

    #[test]
    fn all_gaps_and_all_bursts_share_the_launches_of_their_mechanism() {
        for what in [What::Gap { gaps_ns: None }, What::Burst { messages: None }] {
            let tour = cells(&TrafficPlan::new(what), &|_| Ok(()), None);
            let mut units: Vec<_> = tour.cells.iter().map(CellSpec::unit).collect();
            units.dedup();
            assert_eq!(units.len(), USUAL.len() + 2);
        }
    }

    #[test]
    fn each_count_of_clients_has_launches_of_its_own() {
        let clients = Some(vec![1, 256]);
        let plan = TrafficPlan {
            mechanisms: Some(vec![Mechanism::Pipe]),
            ..TrafficPlan::new(What::Clients { clients })
        };
        let tour = cells(&plan, &|_| Ok(()), None);
        assert_eq!(tour.cells.len(), 2);
        assert_ne!(tour.cells[0].unit(), tour.cells[1].unit());
        assert!(tour.cells.iter().all(|cell| cell.wait == WaitPolicy::Block));
    }

    #[test]
    fn threads_spin_and_adapt_against_one_loop_and_two() {
        let plan = TrafficPlan::new(What::Threads { threads: None, loops: None });
        assert_eq!(placement(&plan), Place::None);
        let tour = cells(&plan, &|_| Ok(()), None);
        assert_eq!(tour.cells.len(), 2 * THREADS.len() * LOOPS.len());
        let one_cpu = cells(&plan, &|_| Ok(()), Some("one CPU"));
        assert!(one_cpu.cells.iter().all(|cell| cell.wait == WaitPolicy::Adaptive));
    }

    #[test]
    fn every_mechanism_begins_and_ends() {
        let tour = cells(&TrafficPlan::new(What::Start), &|_| Ok(()), None);
        assert_eq!(tour.cells.len(), Mechanism::all().count());
    }

    #[test]
    fn what_cannot_be_is_told() {
        let plan = TrafficPlan {
            mechanisms: Some(vec![Mechanism::ShmSpin, Mechanism::Pipe, Mechanism::Uring]),
            waits: Some(vec![WaitPolicy::Spin, WaitPolicy::Adaptive]),
            ..pace()
        };
        let lacking = |mechanism| match mechanism {
            Mechanism::Uring => Err("no io_uring".to_owned()),
            _ => Ok(()),
        };
        let tour = cells(&plan, &lacking, Some("one CPU"));
        assert_eq!(tour.cells, []);
        let has = |name: &str, reason: &str| {
            tour.skipped.iter().any(|one| one.mechanism == name && one.reason == reason)
        };
        assert!(has("shm-spin spin", "one CPU") && has("uring", "no io_uring"));
        assert!(has("pipe adaptive", "this mechanism does not support this wait policy"));
    }
}
