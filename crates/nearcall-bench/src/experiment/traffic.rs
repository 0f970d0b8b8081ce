//! The experiments whose traffic is not one exchange right after the other: a row for each.
//!
//! **Invariants:** every way to wait of every mechanism is measured in all scenes of the traffic.
//! Not here: the clients' loops (`exchange/`, `calls/many.rs`), the pairs of mechanisms between
//! which connections move (`switches.rs`).

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use super::{Experiment, Machine};
use crate::bench_plan::{BenchPlan, ExperimentDefaults, Placement, Shape};
use crate::calls::ours::{self, OURS, Way};
use crate::cell::{CellSpec, Conditions, Subject};
use crate::cell_list::CellList;
use crate::conditions::Traffic;

/// Exchanges that are due at set times, beside the same ones one after the other.
pub static OPEN_LOOP: Experiment = Experiment {
    name: "open-loop",
    summary: "Measure exchanges at a constant rate beside a closed loop",
    details: "A time counts from when its exchange was due, so a delay counts for every exchange \
              that was due meanwhile; a closed loop would count it once. A cell fails if less than \
              99.9 % of its exchanges began in time.",
    examples: "\
Examples:
  nearcall bench open-loop                       three rates, within two minutes
  nearcall bench open-loop --quick               a first look: 10,000 per second
  nearcall bench open-loop --rate 1000,10000 --mechanism shm,pipe --size 1KiB
  nearcall bench open-loop --rate 10000 --stall 100ms --mechanism unix-stream
  nearcall bench open-loop --load 35% --rate 1000 --mechanism shm,tcp
  nearcall bench open-loop --json | jq '.cells[] | [.pace.rate_per_s, .rtt_ns]'",
    options: &["rate", "stall", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let defaults = if plan.options.quick { &RATES_PER_S[1..2] } else { &RATES_PER_S[..] };
        let rates = plan.rates_per_s.as_deref().unwrap_or(defaults);
        // Zero: one after the other, in the same launches.
        let with_closed = [0].iter().chain(rates);
        let scenes =
            with_closed.map(|&rate_per_s| Conditions { rate_per_s, ..Conditions::default() });
        cells(plan, on, &Wanted::ECHOES, scenes)
    },
    complete: |plan, run| {
        if let Some(ns) = plan.stall_ns {
            let ms = ns as f64 / 1e6;
            run.warnings.push(format!(
                "a self-test: the server sleeps for {ms} ms again and again, a tenth of the time"
            ));
        }
    },
    ..BASE
};

/// A sensor, a busy service, a data feed.
const RATES_PER_S: [u32; 3] = [1_000, 10_000, 100_000];

/// Messages right after each other, then one reply.
pub static BURST: Experiment = Experiment {
    name: "burst",
    summary: "Measure bursts of messages until all are answered",
    details: "The server reads all of a burst and replies once. What does not fit in the channel \
              waits until the server has read some of it.",
    examples: "\
Examples:
  nearcall bench burst                           four lengths, in two minutes
  nearcall bench burst --quick                   a first look
  nearcall bench burst --messages 1,1000 --size 1KiB --mechanism shm,pipe
  nearcall bench burst --json | jq '.cells[] | .burst.per_message_ns'",
    options: &["messages", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let bursts = plan.burst_messages.as_deref().unwrap_or(&BURSTS);
        let scenes = bursts.iter().map(|&messages| of(Traffic::Burst { messages }));
        let cell = |plan: &BenchPlan, mechanism, wait| CellSpec {
            shape: Shape::Sink,
            ..echo(plan, mechanism, wait)
        };
        cells(plan, on, &Wanted { cell, ..Wanted::ECHOES }, scenes)
    },
    ..BASE
};

/// One, a cache line of words, some pages of them, more than many queues hold.
const BURSTS: [u32; 4] = [1, 8, 64, 512];

/// Exchanges with a gap after each.
pub static IDLE_GAP: Experiment = Experiment {
    name: "idle-gap",
    summary: "Measure latency by the idle gap between messages",
    details: "After each round trip the client leaves a gap: below 100 µs it is busy until the gap \
              is over, from there on it sleeps. Caches and CPUs of both ends cool down meanwhile, \
              as in a program with little to do.",
    examples: "\
Examples:
  nearcall bench idle-gap                        six gaps, within two minutes
  nearcall bench idle-gap --quick                without the longest
  nearcall bench idle-gap --gap 0,50us,5ms --mechanism shm --wait block
  nearcall bench idle-gap --json | jq '.cells[] | [.gap.gap_ns, .rtt_ns.p50]'",
    options: &["gap", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let gaps = plan.gaps_ns.as_deref().unwrap_or(quick(plan, &GAPS_NS));
        let scenes = gaps.iter().map(|&ns| of(Traffic::Gap { ns }));
        cells(plan, on, &Wanted::ECHOES, scenes)
    },
    ..BASE
};

/// Without a pause, a busy service's, a human being's.
const GAPS_NS: [u64; 6] = [0, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Set-up, first message and tear-down of connections.
pub static CONNECT: Experiment = Experiment {
    name: "connect",
    summary: "Measure set-up, first message and tear-down of connections",
    details: "Many launches of new processes, and in each some connections one after another: the \
              first of each is cold and is reported separately. By default over every mechanism.",
    examples: "\
Examples:
  nearcall bench connect                         every mechanism, in two minutes
  nearcall bench connect --quick                 a first look
  nearcall bench connect --mechanism shm,unix-stream --launches 30
  nearcall bench connect --json | jq '.cells[] | .start.tear_down_ns.p50'",
    cells: |plan, on| {
        let all: Vec<Mechanism> = Mechanism::all().collect();
        // Each has its own price, and all together take little time.
        let wanted = Wanted { mechanisms: &all, waits: first_wait, ..Wanted::ECHOES };
        cells(plan, on, &wanted, [of(Traffic::Starts { connects: CONNECTS })])
    },
    // The first connection of new processes gives one time per launch.
    defaults: Some(ExperimentDefaults { launches: 10, launches_quick: 3, ..USUAL }),
    ..BASE
};

/// Connections of one launch: the first, and enough for a median of the others.
const CONNECTS: u32 = 50;

/// Clients of one server of the runtime, each calling without a pause.
pub static CLIENTS: Experiment = Experiment {
    name: "clients",
    summary: "Measure one server with 1 to 256 busy clients",
    details: "Each client is a thread with its own connection that calls without a pause; the \
              server is one event loop that does no work. Reports calls per second, their latency, \
              CPU time and fairness. By default over shm and unix-stream.",
    examples: "\
Examples:
  nearcall bench clients                         1 to 256, within two minutes
  nearcall bench clients --quick                 a first look, up to 64
  nearcall bench clients --clients 1,100 --mechanism shm-eventfd,unix-stream
  nearcall bench clients --json | jq '.cells[] | .clients.calls_per_s'",
    options: &["clients", "mechanism", "wait", "placement", "load"],
    cells: |plan, on| {
        let counts = plan.clients.as_deref().unwrap_or(quick(plan, &CLIENTS_AT_ONCE));
        let traffic = |&clients: &u32| of(Traffic::Clients { clients, loops: None });
        cells(plan, on, &Wanted::CALLS, counts.iter().map(traffic))
    },
    ..BASE
};

/// Alone, a few programs of one user, a busy machine.
const CLIENTS_AT_ONCE: [u32; 5] = [1, 4, 16, 64, 256];

/// Calls of one client of a server that has more and more other clients, all of them silent: what a
/// loop does for connections that say nothing shows as time of the call beside them.
pub static IDLE_CLIENTS: Experiment = Experiment {
    name: "idle-clients",
    summary: "Measure calls of one client beside 0 to 1,000 idle ones",
    details: "The server is one event loop that does no work; one client makes empty calls, the \
              others are connected and say nothing. Shows what a connection costs that does \
              nothing. By default over shm and unix-stream.",
    examples: "\
Examples:
  nearcall bench idle-clients                    up to 1,000, within two minutes
  nearcall bench idle-clients --quick            up to 100
  nearcall bench idle-clients --mechanism unix-stream,tcp --wait poll
  nearcall bench idle-clients --json | jq '.cells[] | [.load, .rtt_ns.p50]'",
    options: &["mechanism", "wait", "placement"],
    cells: |plan, on| {
        let one = of(Traffic::Clients { clients: 1, loops: None });
        let scene = |&idle_connections: &u32| Conditions { idle_connections, ..one };
        cells(plan, on, &Wanted::CALLS, quick(plan, &IDLE_CLIENTS_BESIDE).iter().map(scene))
    },
    ..BASE
};

/// None, a few programs, a desktop, more than most servers have.
const IDLE_CLIENTS_BESIDE: [u32; 4] = [0, 10, 100, 1_000];

/// Threads of one process that share one caller, each calling without a pause.
pub static THREADS: Experiment = Experiment {
    name: "threads",
    summary: "Measure threads that share one caller of one server",
    details: "Every thread calls without a pause through a clone of one caller, over a connection \
              of its own; the server is one service behind one or more event loops, and does no \
              work. Reports calls per second, their latency and fairness, and fails if a call that \
              was made was not served exactly once. Nothing is pinned unless --pin or --placement \
              is given. By default over shm, spinning and adaptive.",
    examples: "\
Examples:
  nearcall bench threads                         1 to 8, within two minutes
  nearcall bench threads --quick                 a first look: 2 and 4
  nearcall bench threads --threads 1,16 --loops 4 --wait adaptive
  nearcall bench threads --json | jq '.cells[] | [.clients, .rtt_ns.p99]'",
    options: &["threads", "loops", "mechanism", "wait", "placement", "load"],
    cells: |plan, on| {
        let (all, some) = (&THREADS_AT_ONCE[..], &THREADS_AT_ONCE[1..3]);
        let defaults = if plan.options.quick { some } else { all };
        let threads = plan.threads.as_deref().unwrap_or(defaults);
        let loops = plan.loops.as_deref().unwrap_or(&LOOPS);
        let with = |&loops: &u32| {
            let traffic = move |&clients: &u32| Traffic::Clients { clients, loops: Some(loops) };
            threads.iter().map(traffic)
        };
        let waits = |mechanism| of_calls(mechanism, [Way::Spin, Way::Adaptive]);
        let wanted = Wanted { mechanisms: &[OURS], waits, ..Wanted::CALLS };
        cells(plan, on, &wanted, loops.iter().flat_map(with).map(of))
    },
    // Threads need CPUs to run at the same time.
    placement: Placement::None,
    ..BASE
};

/// Alone, one for each CPU of small machines, and more than those have.
const THREADS_AT_ONCE: [u32; 4] = [1, 2, 4, 8];

/// The usual server, and one that uses a second CPU.
const LOOPS: [u32; 2] = [1, 2];

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
    pub(super) waits: fn(Mechanism) -> Vec<WaitPolicy>,
    /// The cell of a mechanism that waits so.
    pub(super) cell: fn(&BenchPlan, Mechanism, WaitPolicy) -> CellSpec,
}

impl Wanted<'_> {
    /// Round trips over what programs use.
    const ECHOES: Self = Self { mechanisms: &COMMON, waits, cell: echo };

    /// Calls over nearcall's own channel, and over what any library could use. Of many clients that
    /// spin on one CPU, one runs and the others wait for it.
    const CALLS: Self = Self {
        mechanisms: &[OURS, Mechanism::UnixStream],
        waits: |mechanism| of_calls(mechanism, [Way::Sleep, Way::Adaptive]),
        cell: |_, mechanism, wait| CellSpec::empty_call(Route::Blocking(mechanism), wait),
    };
}

/// Every way to wait of every mechanism, each with all scenes of the traffic.
pub(super) fn cells(
    plan: &BenchPlan,
    on: &Machine<'_>,
    wanted: &Wanted<'_>,
    scenes: impl IntoIterator<Item = Conditions>,
) -> CellList {
    let mut list = CellList::default();
    let scenes = Vec::from_iter(scenes);
    let asked = plan.mechanisms.as_deref().unwrap_or(wanted.mechanisms).iter();
    let waits = |one| plan.waits.clone().unwrap_or_else(|| (wanted.waits)(one));
    let ways = asked.flat_map(|&one| waits(one).into_iter().map(move |wait| (one, wait)));
    for (mechanism, wait) in on.usable(ways, &mut list) {
        let cell = (wanted.cell)(plan, mechanism, wait);
        list.cells.extend(scenes.iter().map(|conditions| {
            let conditions = Conditions { load: plan.options.load, ..*conditions };
            CellSpec { conditions, ..cell }
        }));
    }
    list
}

/// A round trip of a message of the plan's size.
pub(super) fn echo(plan: &BenchPlan, mechanism: Mechanism, wait: WaitPolicy) -> CellSpec {
    CellSpec::latency(Subject::Mechanism(mechanism), Shape::Echo, plan.message_bytes(), wait)
}

pub(super) fn of(traffic: Traffic) -> Conditions {
    Conditions { traffic, ..Conditions::default() }
}

/// All of these, or all but the last, which takes longest.
fn quick<'a, T>(plan: &BenchPlan, all: &'a [T]) -> &'a [T] {
    if plan.options.quick { &all[..all.len() - 1] } else { all }
}

/// All ways of nearcall's own channel, and the usual one of any other.
fn waits(mechanism: Mechanism) -> Vec<WaitPolicy> {
    let all = ours::policies().into_iter().filter(|(ours, _)| *ours == mechanism);
    let all: Vec<WaitPolicy> = all.map(|(_, wait)| wait).collect();
    if all.is_empty() { first_wait(mechanism) } else { all }
}

/// As [`waits`], of the client of a call.
fn of_calls(mechanism: Mechanism, ways: [Way; 2]) -> Vec<WaitPolicy> {
    match mechanism == OURS {
        true => ways.map(|way| way.ours().1).to_vec(),
        false => vec![Route::Blocking(mechanism).usual_wait()],
    }
}

fn first_wait(mechanism: Mechanism) -> Vec<WaitPolicy> {
    mechanism.waits().iter().take(1).copied().collect()
}

/// What programs use, one of each kind.
const COMMON: [Mechanism; 7] = [
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
        assert_eq!(defaults(&OPEN_LOOP).cells.len(), (1 + RATES_PER_S.len()) * 9);
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
        assert_eq!(list.cells.len(), 2 * THREADS_AT_ONCE.len() * LOOPS.len());
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
