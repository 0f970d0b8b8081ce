//! The budgets: what is measured, beside which floor, and what it may be.
//!
//! A function of its arguments. The numbers are those of the design; each stands here once.

use nearcall_channel::WaitPolicy;

use crate::bench_plan::Shape;
use crate::calls::ours::Way;
use crate::calls::route::Route;
use crate::cell::{CellSpec, Conditions, Subject};
use crate::conditions::PinChoice;
use crate::floor::Floor;
use crate::run::{AtRest, Kind};

/// One budget.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) against: &'static str,
    pub(crate) of: Of,
    pub(crate) budget: f64,
    pub(crate) goal: Option<f64>,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// A cell beside its floor: the time to the floor's, or the rate to the floor's.
    Beside(CellSpec, CellSpec),
    /// The time itself.
    Time(CellSpec),
    /// A fact of the server at rest, and its unit.
    Rest(CellSpec, Fact),
}

/// A fact of a server at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    CpuShare,
    Sleeps,
    Threads,
    TouchedBytes,
    PrivateBytes,
}

impl Fact {
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::CpuShare => "cpu_share",
            Self::Sleeps => "per_s_sleeps",
            Self::Threads => "threads",
            Self::TouchedBytes | Self::PrivateBytes => "bytes",
        }
    }

    /// The figure, and that of each launch where there is one.
    pub(crate) fn of(self, rest: &AtRest) -> (Option<f64>, Vec<f64>) {
        let seconds = rest.observed_ns as f64 / 1e9;
        match self {
            Self::CpuShare => (rest.cpu_share(), Vec::new()),
            Self::Sleeps => {
                (rest.voluntary_switches.map(|sleeps| sleeps as f64 / seconds), Vec::new())
            }
            Self::Threads => (rest.threads.map(f64::from), Vec::new()),
            Self::TouchedBytes => {
                (rest.touched_bytes_per_connection, rest.launch_touched_bytes.clone())
            }
            Self::PrivateBytes => (rest.private_bytes, rest.launch_private_bytes.clone()),
        }
    }
}

impl Of {
    /// What must be measured for it.
    pub(crate) fn cells(&self) -> Vec<CellSpec> {
        match *self {
            Self::Beside(cell, floor) => vec![floor, cell],
            Self::Time(cell) | Self::Rest(cell, _) => vec![cell],
        }
    }

    /// Whether more is better.
    pub(crate) fn at_least(&self) -> bool {
        matches!(self, Self::Beside(cell, _) if cell.kind == Kind::Throughput)
    }

    /// Whether an end that is measured must spin, so that both need a CPU.
    pub(crate) fn needs_two_cpus(&self) -> bool {
        match self {
            Self::Beside(cell, _) => cell.conditions.spot != PinChoice::OneCpu,
            Self::Time(_) | Self::Rest(..) => false,
        }
    }
}

/// All budgets, in the order in which they are shown.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = empty_calls();
    rows.extend(large_calls());
    rows.extend(by_reference());
    rows.extend(oneway_calls());
    rows.extend(short_circuits());
    rows.extend(at_rest());
    rows
}

fn empty_calls() -> Vec<Row> {
    let on_one = Conditions { spot: PinChoice::OneCpu, ..Conditions::default() };
    let beside = Conditions { idle_connections: IDLE_CONNECTIONS, ..Conditions::default() };
    let row = |name, what, against, of, budget, goal| Row { name, what, against, of, budget, goal };
    let word = |floor: Floor| floor.cell(Kind::Latency, Shape::Echo, 8);
    let futex = word(Floor::Futex);
    vec![
        row(
            "spin",
            "empty call, wait=spin",
            "cache-line ping-pong (floor-spin)",
            Of::Beside(empty(Way::Spin, Conditions::default()), word(Floor::Spin)),
            2.0,
            Some(1.5),
        ),
        row(
            "sleep",
            "empty call, both ends sleep",
            "futex ping-pong (floor-futex)",
            Of::Beside(empty(Way::Sleep, Conditions::default()), futex),
            1.15,
            Some(1.05),
        ),
        row(
            "one-cpu",
            "empty call, both ends on one CPU",
            "futex ping-pong on that CPU (floor-futex)",
            Of::Beside(empty(Way::Adaptive, on_one), CellSpec { conditions: on_one, ..futex }),
            1.3,
            None,
        ),
        row(
            "loop-sleep",
            "100 idle connections, both sleep",
            "eventfd ping-pong (floor-eventfd)",
            Of::Beside(empty(Way::Sleep, beside), word(Floor::Eventfd)),
            1.25,
            None,
        ),
        row(
            "loop",
            "100 idle connections, as usual",
            "eventfd ping-pong (floor-eventfd)",
            Of::Beside(empty(Way::Adaptive, beside), word(Floor::Eventfd)),
            1.25,
            None,
        ),
    ]
}

fn large_calls() -> Vec<Row> {
    let row = |name, what, way, message_bytes| Row {
        name,
        what,
        against: "chunked copy through shared memory (floor-chunked-copy)",
        of: Of::Beside(
            CellSpec { message_bytes, ..empty(way, Conditions::default()) },
            Floor::ChunkedCopy.cell(Kind::Latency, Shape::Sink, message_bytes),
        ),
        budget: 1.1,
        goal: None,
    };
    vec![
        row("64k-spin", "64 KiB there, wait=spin", Way::Spin, 64 << 10),
        row("64k", "64 KiB there, as usual", Way::Adaptive, 64 << 10),
        row("1m-spin", "1 MiB there, wait=spin", Way::Spin, 1 << 20),
        row("1m", "1 MiB there, as usual", Way::Adaptive, 1 << 20),
    ]
}

fn by_reference() -> Vec<Row> {
    let beside = empty(Way::Spin, Conditions::default());
    let conditions = Conditions { by_reference: true, ..Conditions::default() };
    let of = Of::Beside(CellSpec { message_bytes: 1 << 20, conditions, ..beside }, beside);
    vec![Row {
        name: "1m-loan",
        what: "1 MiB loaned, wait=spin",
        against: "the empty call, wait=spin; passed by reference, trusted, not touched",
        of,
        budget: 1.5,
        goal: None,
    }]
}

fn oneway_calls() -> Vec<Row> {
    let row = |name, what, way| {
        let cell = empty(way, Conditions::default());
        let (kind, shape, message_bytes) = (Kind::Throughput, Shape::Oneway, ONEWAY_BYTES);
        Row {
            name,
            what,
            against: "words through a ring, one way (floor-ring); rates",
            of: Of::Beside(
                CellSpec { kind, shape, message_bytes, ..cell },
                Floor::Ring.cell(Kind::Throughput, Shape::Sink, ONEWAY_BYTES),
            ),
            budget: 1.0 / 3.0,
            goal: None,
        }
    };
    vec![
        row("one-way-spin", "one-way calls of 8 B, wait=spin", Way::Spin),
        row("one-way", "one-way calls of 8 B, as usual", Way::Adaptive),
    ]
}

fn short_circuits() -> Vec<Row> {
    let row = |name, what, route, budget| {
        let cell = empty(Way::Adaptive, Conditions::default());
        let (subject, wait) = (Subject::Call(route), WaitPolicy::Spin);
        let of = Of::Time(CellSpec { subject, wait, ..cell });
        Row { name, what, against: "within one process; times", of, budget, goal: None }
    };
    vec![
        row("typed", "short circuit, typed", Route::Typed, 50.0),
        row("bytes", "short circuit, through bytes", Route::Bytes, 250.0),
    ]
}

fn at_rest() -> Vec<Row> {
    let (mechanism, wait) = Way::Adaptive.ours();
    let cell = CellSpec::at_rest(mechanism, wait, IDLE_CONNECTIONS, PinChoice::OfRun);
    let row = |name, what, fact, budget| Row {
        name,
        what,
        against: "a server at rest with 100 idle connections",
        of: Of::Rest(cell, fact),
        budget,
        goal: None,
    };
    vec![
        row("idle-cpu", "CPU time", Fact::CpuShare, 0.0),
        row("idle-wake-ups", "wake-ups", Fact::Sleeps, 0.0),
        row("idle-threads", "threads", Fact::Threads, 1.0),
        row("connection-memory", "touched per idle connection", Fact::TouchedBytes, 65_536.0),
        row("private-memory", "private memory of the server", Fact::PrivateBytes, PRIVATE_BYTES),
    ]
}

/// An empty call of a client without a loop.
fn empty(way: Way, conditions: Conditions) -> CellSpec {
    let (mechanism, wait) = way.ours();
    CellSpec { conditions, ..CellSpec::empty_call(Route::Blocking(mechanism), wait) }
}

/// As many clients as a server of a machine may have that mostly say nothing.
const IDLE_CONNECTIONS: u32 = 100;

/// A number.
const ONEWAY_BYTES: u64 = 8;

/// 1.2 MiB.
const PRIVATE_BYTES: f64 = 1.2 * 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_floors_of_their_kind() {
        let rows = all();
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[..index].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.what.chars().count() <= 32, "{}", row.what);
            if let Of::Beside(cell, floor) = row.of {
                assert_eq!((cell.kind, cell.conditions.spot), (floor.kind, floor.conditions.spot));
                let is_floor = matches!(floor.subject, Subject::Floor(_));
                assert!(is_floor || cell.conditions.by_reference, "{}", row.name);
            }
        }
    }

    #[test]
    fn what_stands_under_one_heading_stands_together() {
        let mut headings: Vec<&str> = all().iter().map(|row| row.against).collect();
        headings.dedup();
        let mut sorted = headings.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), headings.len(), "{headings:?}");
    }
}
