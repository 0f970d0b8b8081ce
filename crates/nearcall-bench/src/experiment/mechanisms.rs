//! Latency and throughput by mechanism and size: those of the plan, the default tour where it says
//! nothing, and floors.
//!
//! A function of its arguments. What cannot be measured is listed with the reason; nothing is left
//! out silently.

use nearcall_channel::{Mechanism, WaitPolicy};

use super::{Experiment, Machine};
use crate::bench_plan::{BenchPlan, Shape};
use crate::cell::{CellSpec, Conditions, Subject, floor_of};
use crate::cell_list::CellList;
use crate::floor::Floor;
use crate::run::Kind;

/// Round trips, one at a time.
pub static LATENCY: Experiment = Experiment {
    name: "latency",
    summary: "Measure round trips, one at a time",
    examples: LATENCY_EXAMPLES,
    kinds: &[Kind::Latency],
    ..ALL_KINDS_ROW
};

/// Messages one way, as many as fit.
pub static THROUGHPUT: Experiment = Experiment {
    name: "throughput",
    summary: "Measure messages one way, as many as fit",
    examples: THROUGHPUT_EXAMPLES,
    kinds: &[Kind::Throughput],
    ..ALL_KINDS_ROW
};

/// Both, which is what `bench` does by itself.
pub static ALL_KINDS: Experiment = ALL_KINDS_ROW;

const ALL_KINDS_ROW: Experiment = Experiment {
    name: "all",
    summary: "Measure latency and throughput (the default)",
    details: "Each figure comes from several launches of two new, pinned processes, in random \
              order, beside the same exchange without nearcall (the floor).",
    examples: ALL_EXAMPLES,
    options: &[
        "mechanism",
        "every",
        "size",
        "shape",
        "wait",
        "payload_access",
        "buffer",
        "allow_buffer_mismatch",
        "placement",
        "load",
        "pm_qos",
    ],
    kinds: &[Kind::Latency, Kind::Throughput],
    cells,
    ..Experiment::BASE
};

/// Floors and mechanisms, and what cannot be measured.
fn cells(plan: &BenchPlan, on: &Machine<'_>) -> CellList {
    let defaults: Vec<Mechanism> = match plan.is_tour() && !plan.options.quick {
        true => TOUR.into(),
        false => Mechanism::all().collect(),
    };
    let asked = plan.mechanisms.as_ref().unwrap_or(&defaults).iter();
    let ways = asked.flat_map(|&one| waits(plan, one).into_iter().map(move |wait| (one, wait)));
    let mut list = CellList::default();
    let usable = on.usable(ways, &mut list).into_iter();
    let cells = usable.flat_map(|(mechanism, wait)| {
        let (subject, conditions) = (Subject::Mechanism(mechanism), conditions(plan));
        exchanges(plan).into_iter().map(move |(kind, shape, bytes)| CellSpec {
            kind,
            conditions,
            ..CellSpec::latency(subject, shape, bytes, wait)
        })
    });
    let measured: Vec<CellSpec> = cells.collect();
    on.add_floors(floors(plan, &measured), &mut list);
    list.cells.extend(measured);
    list
}

/// What all cells of a plan have in common.
fn conditions(plan: &BenchPlan) -> Conditions {
    Conditions {
        load: plan.options.load,
        touch: plan.touch,
        buffer_bytes: plan.buffer_bytes.unwrap_or(0),
        any_buffer: plan.allow_different_sizes,
        ..Conditions::default()
    }
}

fn waits(plan: &BenchPlan, mechanism: Mechanism) -> Vec<WaitPolicy> {
    plan.waits.clone().unwrap_or_else(|| mechanism.waits().iter().take(1).copied().collect())
}

/// Kind, shape and size of each cell of a mechanism.
fn exchanges(plan: &BenchPlan) -> Vec<(Kind, Shape, u64)> {
    let (latency_sizes, throughput_sizes): (&[u64], &[u64]) = match plan.options.quick {
        true => (&QUICK_SIZES, &QUICK_THROUGHPUT_SIZES),
        false => (&TOUR_SIZES, &TOUR_THROUGHPUT_SIZES),
    };
    let mut exchanges = Vec::new();
    if plan.kinds.contains(&Kind::Latency) {
        for &size in plan.sizes_bytes.as_deref().unwrap_or(latency_sizes) {
            exchanges.extend(shapes(plan, size).into_iter().map(|s| (Kind::Latency, s, size)));
        }
    }
    if plan.kinds.contains(&Kind::Throughput) {
        let sizes = plan.sizes_bytes.as_deref().unwrap_or(throughput_sizes);
        exchanges.extend(sizes.iter().map(|&size| (Kind::Throughput, Shape::Sink, size)));
    }
    exchanges
}

fn shapes(plan: &BenchPlan, size: u64) -> Vec<Shape> {
    match (&plan.shapes, &plan.sizes_bytes) {
        (Some(shapes), _) => shapes.clone(),
        // A call that carries much mostly carries it one way.
        (None, None) if size >= SINK_BYTES_MIN => vec![Shape::Sink],
        (None, _) => vec![Shape::Echo],
    }
}

/// Each floor cell that something is compared with, each once; in a tour also those that are shown
/// beside the mechanisms.
fn floors(plan: &BenchPlan, measured: &[CellSpec]) -> Vec<CellSpec> {
    let mut floors: Vec<CellSpec> = measured.iter().filter_map(floor_of).collect();
    if plan.is_tour() {
        for floor in Floor::ALL {
            let (kind, size) = match floor {
                Floor::Ring => (Kind::Throughput, TOUR_SIZES[0]),
                Floor::ChunkedCopy | Floor::Memcpy => (Kind::Latency, LARGE_BYTES),
                _ => (Kind::Latency, TOUR_SIZES[0]),
            };
            let shape = if size == LARGE_BYTES { Shape::Sink } else { Shape::Echo };
            if plan.kinds.contains(&kind) {
                let conditions = conditions(plan);
                floors.push(CellSpec { conditions, ..floor.cell(kind, shape, size) });
            }
        }
    }
    floors.sort_by_key(|cell| match cell.subject {
        Subject::Floor(floor) => (Some(floor), cell.kind, cell.shape, cell.message_bytes),
        _ => (None, cell.kind, cell.shape, cell.message_bytes),
    });
    floors.dedup();
    floors
}

/// One of each kind. The others differ from one of these by how they wake the other end, which
/// costs them about as much; the time goes to more launches of these, which alone tell mechanisms
/// apart.
const TOUR: [Mechanism; 12] = [
    Mechanism::Shm,
    Mechanism::Pipe,
    Mechanism::UnixStream,
    Mechanism::Tcp,
    Mechanism::Udp,
    Mechanism::PosixMq,
    Mechanism::Vmsplice,
    Mechanism::Cma,
    Mechanism::Uring,
    Mechanism::ShmSpin,
    Mechanism::ShmFutex,
    Mechanism::ShmEventfd,
];

/// A word, a page of text or a picture's row.
const TOUR_SIZES: [u64; 2] = [8, 64 << 10];

/// Where messages per second and where bytes per second are the point.
const TOUR_THROUGHPUT_SIZES: [u64; 2] = [8, 64 << 10];

/// With `--quick`.
const QUICK_SIZES: [u64; 2] = [8, 64 << 10];

/// With `--quick`.
const QUICK_THROUGHPUT_SIZES: [u64; 1] = [8];

/// The floors of copying are measured at this size too.
const LARGE_BYTES: u64 = 1 << 20;

/// From this size on the tour sends there and gets an empty reply.
const SINK_BYTES_MIN: u64 = 16 << 10;

const LATENCY_EXAMPLES: &str = "\
Examples:
  nearcall bench latency --mechanism pipe,unix-stream --size 8,1KiB --time 30s
  nearcall bench latency --mechanism shm-spin --wait spin --pin 0,1";

const THROUGHPUT_EXAMPLES: &str = "\
Examples:
  nearcall bench throughput --size 64KiB --launches 10 --out run.json
  nearcall bench throughput --mechanism pipe --size 1MiB --buffer 64KiB";

const ALL_EXAMPLES: &str = "\
Examples:
  nearcall bench                                 everything, within 90 seconds
  nearcall bench --quick                         a first look
  nearcall bench latency --mechanism pipe,unix-stream --size 8,1KiB --time 30s
  nearcall bench throughput --size 64KiB --launches 10 --out run.json
  nearcall bench --json | jq '.cells[] | [.mechanism, .rtt_ns.p50]'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tour_has_one_mechanism_of_each_kind_and_every_floor() {
        let lacking = |mechanism| match mechanism {
            Mechanism::Uring => Err("no io_uring".to_owned()),
            _ => Ok(()),
        };
        let list = cells(&BenchPlan::default(), &Machine::with(&lacking, None));
        for mechanism in Mechanism::all() {
            let subject = Subject::Mechanism(mechanism);
            let found = list.cells.iter().filter(|cell| cell.subject == subject).count();
            let is_there = TOUR.contains(&mechanism) && mechanism != Mechanism::Uring;
            assert_eq!(found, if is_there { 4 } else { 0 }, "{mechanism}");
        }
        let all = Some(Mechanism::all().collect());
        let plan = BenchPlan { mechanisms: all, ..BenchPlan::default() };
        let all = cells(&plan, &Machine::with(&|_| Ok(()), None));
        for mechanism in Mechanism::all() {
            let subject = Subject::Mechanism(mechanism);
            assert!(all.cells.iter().any(|cell| cell.subject == subject), "{mechanism}");
        }
        for floor in Floor::ALL {
            assert!(list.cells.iter().any(|cell| cell.subject == Subject::Floor(floor)), "{floor}");
        }
        assert!(list.skipped[0].unsupported && list.skipped[0].reason == "no io_uring");
        let needed = list.cells.iter().filter_map(floor_of);
        assert!(needed.into_iter().all(|floor| list.cells.contains(&floor)));
    }

    #[test]
    fn what_spins_is_left_out_on_one_cpu_with_the_reason() {
        let list = cells(&BenchPlan::default(), &Machine::with(&|_| Ok(()), Some("one CPU")));
        assert!(list.cells.iter().all(|cell| cell.subject.name() != "shm-spin"));
        let names: Vec<&str> = list.skipped.iter().map(|one| one.mechanism.as_str()).collect();
        assert_eq!(names, ["shm-spin", "floor-spin", "floor-chunked-copy", "floor-ring"]);
    }

    #[test]
    fn a_wait_that_a_mechanism_lacks_is_told() {
        let plan = BenchPlan {
            mechanisms: Some(vec![Mechanism::SysvMq]),
            waits: Some(vec![WaitPolicy::Poll]),
            ..BenchPlan::default()
        };
        let list = cells(&plan, &Machine::with(&|_| Ok(()), None));
        assert_eq!(list.cells, []);
        assert_eq!(list.skipped[0].reason, "cannot wait by poll; it can by block, spin");
    }
}
