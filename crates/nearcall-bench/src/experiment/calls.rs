//! Calls of the runtime, each beside what it moves on the bare channel.
//!
//! What cannot be measured is listed with the reason. Not here: the measured loops (`calls/`),
//! where one call's time goes (`calls/breakdown.rs`).

use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::{Caller, Route};

use super::{Experiment, Machine};
use crate::bench_plan::{BenchPlan, ExperimentDefaults, Shape};
use crate::calls::breakdown;
use crate::calls::ours::OURS;
use crate::calls::part::Part;
use crate::cell::{CellSpec, Subject, floor_of};
use crate::cell_list::CellList;
use crate::run::Kind;

/// Calls of the runtime: a fake server without work, over every mechanism and directly.
pub static CALLS: Experiment = Experiment {
    name: "calls",
    summary: "Measure calls of the runtime beside the bare channel",
    details: "A server in an event loop does no work. Empty calls, one-way calls and calls with an \
              argument go to it over every mechanism: from a client that blocks without a loop, \
              from one in a loop, from futures in a tokio runtime of one thread, and from within \
              the server's own loop; the short circuits are measured too. The ratio is the cost of \
              marshalling, dispatch and event loop: the bare exchange beside it has the same bytes \
              and the same wait policy at each end, in the same two processes.\n\n--wait is the \
              policy of the client. --size adds calls with an argument, of at most 1 MiB.",
    examples: EXAMPLES,
    options: &["mechanism", "client", "size", "wait", "breakdown", "streams", "placement"],
    kinds: &[Kind::Latency, Kind::Throughput],
    defaults: Some(ExperimentDefaults {
        launches: 5,
        launches_quick: 2,
        // Twice what the tour of bare mechanisms takes: every cell has its bare exchange beside it.
        budget: Duration::from_secs(120),
        budget_quick: Duration::from_secs(14),
        cell_max: None,
    }),
    check: |plan| match plan.sizes_bytes.iter().flatten().find(|&&size| size > BYTES_MAX) {
        Some(size) => {
            Err(format!("--size: an argument of {size} bytes is above the limit of 1 MiB"))
        }
        None => Ok(()),
    },
    cells,
    complete: |plan, run| {
        if plan.breakdown {
            breakdown::add(run);
        }
    },
    ..Experiment::BASE
};

/// Floors, bare exchanges and calls, and what cannot be measured.
fn cells(plan: &BenchPlan, on: &Machine<'_>) -> CellList {
    let mut list = CellList::default();
    let mut calls = Vec::new();
    for (route, wait) in routes(plan, on, &mut list) {
        let spins = wait == WaitPolicy::Spin && route.mechanism().is_some() && !route.is_alone();
        if let Some(reason) = on.no_spinning.filter(|_| spins) {
            list.skip(route.name(), reason.to_owned(), false);
            continue;
        }
        calls.extend(exchanges(plan, route).into_iter().map(|(kind, shape, message_bytes)| {
            CellSpec { kind, shape, message_bytes, ..CellSpec::empty_call(route, wait) }
        }));
    }
    let mut floors: Vec<CellSpec> = calls.iter().filter_map(floor_of).collect();
    floors.sort_by_key(|cell| {
        (cell.subject.name().to_owned(), cell.kind, cell.shape, cell.message_bytes)
    });
    floors.dedup();
    on.add_floors(floors, &mut list);
    let mut bare: Vec<CellSpec> = Vec::new();
    for cell in calls.iter().filter_map(CellSpec::bare) {
        if !bare.contains(&cell) {
            bare.push(cell);
        }
    }
    if plan.breakdown {
        let part = |part| CellSpec::latency(Subject::Part(part), Shape::Call, 0, WaitPolicy::Spin);
        list.cells.extend(Part::ALL.map(part));
        list.cells.extend(bare.iter().map(|bare| CellSpec { shape: Shape::Send, ..*bare }));
    }
    list.cells.extend(bare);
    list.cells.extend(calls);
    list
}

/// Routes, each with the way its client waits.
fn routes(plan: &BenchPlan, on: &Machine<'_>, list: &mut CellList) -> Vec<(Route, WaitPolicy)> {
    let defaults: &[Caller] = match plan.breakdown {
        true => &[Caller::Blocking, Caller::Loop, Caller::Bytes],
        false if plan.streams => &[Caller::Blocking, Caller::Async],
        false if plan.options.quick => {
            &[Caller::Blocking, Caller::Loop, Caller::Typed, Caller::Bytes]
        }
        false => &Caller::ALL,
    };
    let mut callers = plan.callers.clone().unwrap_or_else(|| defaults.to_vec());
    if plan.breakdown && !callers.contains(&Caller::Bytes) {
        callers.push(Caller::Bytes);
    }
    let mut routes = Vec::new();
    // They need no mechanism, and any name stands for none.
    for &caller in callers.iter().filter(|caller| caller.is_short_circuit()) {
        routes.push((caller.route(Mechanism::UnixStream), WaitPolicy::Spin));
    }
    let all: Vec<Mechanism> = match plan.breakdown || plan.streams {
        true => FEW_MECHANISMS.to_vec(),
        false => Mechanism::all().collect(),
    };
    for &mechanism in plan.mechanisms.as_ref().unwrap_or(&all) {
        if callers.iter().all(|caller| caller.is_short_circuit()) {
            break;
        }
        if let Err(reason) = (on.supported)(mechanism) {
            list.skip(mechanism.name(), reason, true);
            continue;
        }
        for caller in callers.iter().filter(|caller| !caller.is_short_circuit()) {
            let route = caller.route(mechanism);
            for wait in waits(plan, route) {
                match why_not(route, wait) {
                    // Unless the user asked for it, what cannot be is no news.
                    Some(_) if plan.waits.is_none() && plan.callers.is_none() => {}
                    Some(reason) => list.skip(mechanism.name(), reason, false),
                    None => routes.push((route, wait)),
                }
            }
        }
    }
    routes
}

fn waits(plan: &BenchPlan, route: Route) -> Vec<WaitPolicy> {
    plan.waits.clone().unwrap_or_else(|| vec![route.usual_wait()])
}

/// Why a client on this route cannot wait so.
fn why_not(route: Route, wait: WaitPolicy) -> Option<String> {
    let mechanism = route.mechanism()?;
    let has = |wait| mechanism.waits().contains(&wait);
    if !has(wait) {
        return Some(format!("cannot wait by {wait}"));
    }
    match (route, wait) {
        (Route::Async(_), WaitPolicy::Block) => Some("a future blocks no thread".into()),
        (Route::Async(Mechanism::ShmSignal), _) => {
            Some("its signals are for one thread, and a future may be in any".into())
        }
        (Route::Async(_), _) if !has(WaitPolicy::Poll) => {
            Some("futures need a channel with a descriptor".into())
        }
        (Route::Looped(_), WaitPolicy::Block) if has(WaitPolicy::Poll) => {
            Some("in a loop it is polled".into())
        }
        (Route::SameLoop(_), WaitPolicy::Block) => {
            Some("one loop cannot sleep in both ends of a channel without a descriptor".into())
        }
        _ => None,
    }
}

/// Kind, shape and argument size of each call of a route.
fn exchanges(plan: &BenchPlan, route: Route) -> Vec<(Kind, Shape, u64)> {
    if plan.streams {
        let sizes = plan.sizes_bytes.as_deref().unwrap_or(&STREAM_SIZES);
        let both =
            |&size| [Shape::Oneway, Shape::Stream].map(|shape| (Kind::Throughput, shape, size));
        return sizes.iter().flat_map(both).collect();
    }
    let defaults: &[u64] = if plan.options.quick { &QUICK_SIZES } else { &SIZES };
    let sizes = plan.sizes_bytes.as_deref().unwrap_or(defaults);
    let fits = |size: &&u64| !matches!(route, Route::SameLoop(_)) || **size <= SAME_LOOP_BYTES_MAX;
    let mut exchanges = vec![(Kind::Latency, Shape::Call, 0)];
    let is_short =
        plan.options.quick && !matches!(route, Route::Blocking(_)) && plan.callers.is_none();
    if plan.breakdown || is_short {
        return exchanges;
    }
    if !route.is_alone() {
        exchanges.push((Kind::Throughput, Shape::Oneway, ONEWAY_BYTES));
    }
    exchanges.extend(sizes.iter().filter(fits).map(|&size| (Kind::Latency, Shape::Call, size)));
    exchanges
}

/// With `--breakdown` or `--streams`: what an address without `via` gets, and what any library
/// could use.
const FEW_MECHANISMS: [Mechanism; 2] = [OURS, Mechanism::UnixStream];

/// A small record, a page of text, the largest that the thesis sent.
const SIZES: [u64; 3] = [1 << 10, 64 << 10, 1 << 20];

/// With `--quick`.
const QUICK_SIZES: [u64; 1] = [64 << 10];

/// With `--streams`: a number, and the largest item that `SIZES` has.
const STREAM_SIZES: [u64; 2] = [8, 1 << 20];

/// A number.
const ONEWAY_BYTES: u64 = 8;

/// In one thread a message must fit in the channel, or its bare exchange would wait for itself.
const SAME_LOOP_BYTES_MAX: u64 = 4 << 10;

/// The largest argument.
const BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  nearcall bench calls                           all of it, within two minutes
  nearcall bench calls --quick                   a first look
  nearcall bench calls --mechanism shm-futex,unix-stream --size 1KiB,1MiB
  nearcall bench calls --client typed,bytes      the short circuits
  nearcall bench calls --client blocking,async --mechanism shm --wait poll
  nearcall bench calls --streams                 streams beside one-way calls
  nearcall bench calls --breakdown --mechanism unix-stream
  nearcall bench calls --json | jq '.cells[] | [.mechanism, .call.bare_ns]'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_over_a_mechanism_has_its_bare_exchange_in_the_same_launch() {
        let list = cells(&BenchPlan::default(), &Machine::with(&|_| Ok(()), None));
        let calls = list.cells.iter().filter(|cell| matches!(cell.subject, Subject::Call(_)));
        for call in calls {
            let Some(bare) = call.bare() else { continue };
            assert!(list.cells.contains(&bare), "{call}");
            assert_eq!(bare.unit(), call.unit());
            assert_eq!(bare.frame_bytes(), bare.bytes() as u64);
        }
        let needed = list.cells.iter().filter_map(floor_of);
        assert!(needed.into_iter().all(|floor| list.cells.contains(&floor)));
        assert_eq!(list.skipped, []);
    }

    #[test]
    fn all_mechanisms_are_called_blocking_and_in_a_loop() {
        let list = cells(&BenchPlan::default(), &Machine::with(&|_| Ok(()), None));
        for mechanism in Mechanism::all() {
            for route in [Route::Blocking(mechanism), Route::Looped(mechanism)] {
                let of_route =
                    list.cells.iter().filter(|cell| cell.subject == Subject::Call(route));
                assert_eq!(of_route.count(), 5, "{route}");
            }
        }
    }

    #[test]
    fn an_item_and_a_one_way_call_share_their_bare_exchange() {
        let mechanisms = Some(vec![Mechanism::Shm]);
        let plan = BenchPlan { streams: true, mechanisms, ..BenchPlan::default() };
        let list = cells(&plan, &Machine::with(&|_| Ok(()), None));
        let count =
            |is: fn(Subject) -> bool| list.cells.iter().filter(|cell| is(cell.subject)).count();
        // Two sizes from each of two clients, either way.
        assert_eq!(count(|subject| matches!(subject, Subject::Call(_))), 8);
        assert_eq!(count(|subject| matches!(subject, Subject::Bare(_))), 4);
        let calls = list.cells.iter().filter(|cell| matches!(cell.subject, Subject::Call(_)));
        assert!(calls.filter_map(CellSpec::bare).all(|bare| list.cells.contains(&bare)));
    }

    #[test]
    fn a_wish_that_cannot_be_met_is_told() {
        let plan = BenchPlan {
            mechanisms: Some(vec![Mechanism::ShmFutex]),
            waits: Some(vec![WaitPolicy::Spin]),
            ..BenchPlan::default()
        };
        let list = cells(&plan, &Machine::with(&|_| Ok(()), None));
        assert_eq!(list.skipped[0].reason, "cannot wait by spin");
        let one = cells(&BenchPlan::default(), &Machine::with(&|_| Ok(()), Some("one CPU")));
        assert!(one.skipped.iter().any(|skip| skip.mechanism == "shm-spin"));
    }
}
