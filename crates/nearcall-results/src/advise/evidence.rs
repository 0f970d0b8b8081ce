//! Which stored cells speak for the candidates, and what they say.
//!
//! **Invariants:** one [`EvidenceSet`] is one run, one shape of exchange, one placement, one
//! rhythm; all candidates that are compared by a figure have it from the same set. Each step
//! between a set and what was wanted is listed and widens the intervals. No cell is left out for
//! its grade: what disturbs medians shows in how much its launches differ, and so in its interval.
//! How figures become a ranking is in `rank.rs`, how sizes are interpolated in `interpolation.rs`.

use nearcall_channel::Options;

use super::candidates::Candidate;
use super::exchange::{Exchange, total_bytes};
use super::interpolation::{self, Point, SizeInterpolation, Value};
use super::requirements::{Pattern, Placement, Requirements};
use crate::noise::Grade;
use crate::report::number;
use crate::run::ROOM_BYTES;
use crate::run::{Cell, CellKey, Kind, List, Rhythm, Run};
use crate::shape::Shape;
use crate::stats;

/// The figures of one candidate by one set of evidence.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    /// The median time, or the rate.
    pub(super) middle: Value,
    pub(super) p99: Option<Value>,
    pub(super) cpu: Option<Value>,
    pub(super) grade: Option<Grade>,
    /// Dropped after a first look.
    pub(super) first_look: bool,
    /// Whether the rate was kept, where there was one.
    pub(super) kept: Option<bool>,
    /// How many per second did begin in time, where there was a rate.
    pub(super) achieved_per_s: Option<f64>,
    /// Doublings of size between what was measured and what is wanted.
    pub(super) away: f64,
    /// How many launches.
    pub(super) launches: u32,
}

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Calls of the runtime.
    Calls,
    /// Plain messages of the channel.
    Messages,
}

/// Cells of one kind of evidence.
#[derive(Debug)]
pub(super) struct EvidenceSet<'a> {
    pub(super) run: &'a Run,
    pub(super) form: Form,
    pub(super) kind: Kind,
    /// "echo", "sink", "call" and so on.
    pub(super) shape: String,
    pub(super) class: String,
    pub(super) rhythm: Rhythm,
    /// How far from what was wanted; 0 is exactly that.
    pub(super) distance: f64,
    /// Steps away from what was wanted, in sentences.
    pub(super) steps: Vec<String>,
    /// How much the steps widen an interval, on the logarithmic scale.
    widened: f64,
    /// The measured sizes of each candidate.
    pub(super) points: Vec<Vec<Point<'a>>>,
    /// One estimate per candidate.
    pub(super) estimates: Vec<Option<Estimate>>,
    /// Bytes that cross in what is wanted.
    pub(super) total: u64,
}

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    pub(super) requirements: &'q Requirements,
    pub(super) candidates: &'q [Candidate],
    pub(super) kind: Kind,
    /// Messages per second, where exchanges at a rate are looked for.
    pub(super) rate_per_s: Option<f64>,
}

/// Returns the set that fits best: near to what was wanted, with many candidates. Of equally good
/// ones that of the run that was given first.
pub(super) fn best<'a>(query: Query<'_>, runs: &[&'a Run]) -> Option<EvidenceSet<'a>> {
    let all = runs.iter().flat_map(|&run| sets(query, run));
    let known = |set: &EvidenceSet<'_>| set.estimates.iter().flatten().count() as f64;
    let score = |set: &EvidenceSet<'_>| set.distance - COVERAGE * (known(set) + 0.1).ln();
    let with_any = all.filter(|set| set.estimates.iter().any(Option::is_some));
    // The first of equal ones, which `min_by` gives.
    with_any.min_by(|a, b| score(a).total_cmp(&score(b)))
}

/// Twice the candidates make up for a sixth of a distance.
const COVERAGE: f64 = 0.25;

fn sets<'a>(query: Query<'_>, run: &'a Run) -> Vec<EvidenceSet<'a>> {
    // One pair of CPUs of many stands for none of the others.
    if run.matrix.is_some() || !matches!(run.settings.touch.as_str(), "" | "full") {
        return Vec::new();
    }
    let load = query.requirements.load.to_string();
    let fits = |key: &CellKey| {
        key.list == List::Cells
            && key.kind == query.kind
            && key.load == load
            && key.study.is_none()
            && !key.by_reference
    };
    let cells: Vec<(CellKey, &Cell)> =
        run.keyed_cells().filter(|(key, cell)| fits(key) && has_usual_room(cell)).collect();
    let mut found: Vec<EvidenceSet<'a>> = Vec::new();
    for (key, _) in &cells {
        let form = if key.caller.is_empty() { Form::Messages } else { Form::Calls };
        let same = |set: &EvidenceSet<'_>| {
            set.form == form
                && set.shape == key.shape
                && set.class == key.class
                && set.rhythm == key.rhythm
        };
        if !found.iter().any(same) {
            found.extend(set_of(query, run, (form, key), &cells));
        }
    }
    found
}

/// Whether a cell was measured with buffers of the default size.
fn has_usual_room(cell: &Cell) -> bool {
    let usual = u64::from(Options::default().buffer_bytes);
    let mut rooms = cell.sizes.iter().filter(|size| size.name == ROOM_BYTES);
    rooms.all(|room| room.requested.is_none_or(|bytes| bytes == 0 || bytes == usual))
}

fn set_of<'a>(
    query: Query<'_>,
    run: &'a Run,
    (form, like): (Form, &CellKey),
    cells: &[(CellKey, &'a Cell)],
) -> Option<EvidenceSet<'a>> {
    let Query { requirements, candidates, kind, .. } = query;
    let exchange = wanted(requirements, kind);
    let steps = [
        of_class(requirements.placement, &like.class)?,
        of_rhythm(query.rate_per_s, like.rhythm)?,
        of_form(exchange, form),
        of_shape(exchange, form, &like.shape),
        of_one_way_rate(requirements),
        of_sleep_states(run),
    ];
    let total = exchange.total_bytes();
    let points: Vec<Vec<Point<'a>>> = candidates
        .iter()
        .map(|candidate| {
            let own = cells.iter().filter(|(key, cell)| {
                key.class == like.class
                    && key.rhythm == like.rhythm
                    && key.shape == like.shape
                    && is_of(candidate, requirements, form, (key, cell))
            });
            let points = own.map(|(key, cell)| Point {
                total: total_bytes(&key.shape, key.message_bytes),
                cell,
            });
            interpolation::in_order(points.collect())
        })
        .collect();
    let mut set = EvidenceSet {
        run,
        form,
        kind,
        shape: like.shape.clone(),
        class: like.class.clone(),
        rhythm: like.rhythm,
        distance: steps.iter().map(|step| step.distance).sum(),
        widened: steps.iter().map(|step| step.widened).sum(),
        steps: steps.into_iter().filter_map(|step| step.told).collect(),
        estimates: Vec::new(),
        points,
        total,
    };
    set.estimates = set.points.iter().map(|points| set.estimate(points, set.total)).collect();
    let away: Vec<f64> = set.estimates.iter().flatten().map(|one| one.away).collect();
    if !away.is_empty() {
        set.distance += (away.iter().sum::<f64>() / away.len() as f64 * PER_DOUBLING).min(1.0);
    }
    Some(set)
}

/// The exchange that is looked for, by the kind of cell.
fn wanted(requirements: &Requirements, kind: Kind) -> Exchange {
    let exchange = Exchange::of(requirements);
    match (kind, exchange.shape) {
        (Kind::Throughput, Shape::Call) => Exchange { shape: Shape::Oneway, ..exchange },
        _ => exchange,
    }
}

/// Whether a cell measured this candidate.
fn is_of(
    candidate: &Candidate,
    requirements: &Requirements,
    form: Form,
    (key, cell): (&CellKey, &Cell),
) -> bool {
    if key.mechanism != candidate.mechanism.name() {
        return false;
    }
    match form {
        Form::Messages => key.caller.is_empty() && key.wait == candidate.wait.name(),
        Form::Calls => {
            let caller = candidate.route(&requirements.needs).caller().name();
            let waits = cell.call.as_ref().map(|call| call.client_wait.as_str());
            key.caller == caller && waits == Some(candidate.wait.name())
        }
    }
}

impl EvidenceSet<'_> {
    /// What `points` say of messages of which `total` bytes cross.
    pub(super) fn estimate(&self, points: &[Point<'_>], total: u64) -> Option<Estimate> {
        let sizes = SizeInterpolation::over(points, total)?;
        let cells = sizes.cells();
        let rate = self.kind == Kind::Throughput;
        let of = |figure: &dyn Fn(&Cell) -> Option<Value>| sizes.value(figure, rate, self.widened);
        let middle = of(&middle)?;
        Some(Estimate {
            p99: of(&p99),
            cpu: sizes.value(&cpu, false, self.widened),
            grade: cells.iter().filter_map(|cell| cell.grade).max(),
            first_look: cells.iter().any(|cell| cell.tags.iter().any(|tag| tag == FIRST_LOOK)),
            kept: cells.iter().filter_map(|cell| Some(cell.pace.as_ref()?.kept)).min(),
            achieved_per_s: cells
                .iter()
                .filter_map(|cell| cell.pace.as_ref()?.achieved_per_s)
                .reduce(f64::min),
            away: sizes.distance(),
            launches: cells.iter().map(|cell| cell.launches).min().unwrap_or(0),
            middle,
        })
    }

    /// The rate at which it was measured; `None`: one right after the other.
    pub(super) fn rate_per_s(&self) -> Option<f64> {
        rate_of(self.rhythm)
    }

    /// What was exchanged, where and how, as a sentence.
    pub(super) fn words(&self, requirements: &Requirements) -> String {
        let there_and_back = self.shape == Shape::Echo.name();
        let size = number::size(if there_and_back { self.total / 2 } else { self.total });
        let what = match (self.form, self.kind, there_and_back) {
            (Form::Calls, Kind::Latency, _) => {
                format!("calls with an argument of {size} and an empty reply")
            }
            (Form::Calls, Kind::Throughput, _) => format!("one-way calls of {size}"),
            (Form::Messages, Kind::Throughput, _) => format!("messages of {size} one way"),
            (Form::Messages, _, true) => format!("messages of {size} there and back"),
            (Form::Messages, ..) => format!("messages of {size} and empty replies"),
        };
        let rhythm = match self.rhythm {
            Rhythm::Pace(rate) => format!("{rate} per second, timed from when each was due"),
            Rhythm::Gap(ns) => format!("each after a pause of {}", number::time(ns as f64)),
            _ if self.kind == Kind::Throughput => "as fast as they go".to_owned(),
            _ => "one right after the other".to_owned(),
        };
        let load = match requirements.load.is_idle() {
            true => String::new(),
            false => format!(", beside {}", requirements.load),
        };
        let launches = self.estimates.iter().flatten().map(|one| one.launches).max();
        let launches = launches.unwrap_or(0);
        let class = self.class.replace('_', " ");
        let date = number::date(self.run.started_unix_s);
        format!("{what}, {rhythm}; {class}{load}; up to {launches} launches, run of {date}")
    }
}

/// A candidate's cells are from a first look, after which it was dropped.
pub(super) const FIRST_LOOK: &str = "first_look";

fn middle(cell: &Cell) -> Option<Value> {
    let headline = cell.headline()?;
    Some(Value {
        value: headline.value,
        spread: spread(headline.value, headline.ci95),
        launches: headline.launches.to_vec(),
    })
}

fn spread(value: f64, ci95: Option<[f64; 2]>) -> Option<[f64; 2]> {
    let [low, high] = ci95?;
    (low > 0.0 && value > 0.0).then(|| [(low / value).ln().min(0.0), (high / value).ln().max(0.0)])
}

/// The typical launch, with its interval, where each launch has a figure.
fn of_launches(launches: &[f64]) -> Option<Value> {
    let estimate = stats::estimate(launches, &[], 0.0).filter(|_| launches.len() > 1)?;
    let spread = spread(estimate.center, estimate.ci95);
    Some(Value { value: estimate.center, spread, launches: launches.to_vec() })
}

/// By the launches. A run without them, or with too few times in one, gives that of all times: as
/// uncertain as the median is between launches, and as the rank of a percentile is in so many
/// times.
fn p99(cell: &Cell) -> Option<Value> {
    if let Some(value) = of_launches(&cell.launch_p99s_ns) {
        return Some(value);
    }
    let value = cell.rtt_ns.as_ref()?.p99?;
    let [mut below, mut above] = middle(cell)?.spread?;
    if let Some(Ok(times)) = cell.histogram.as_ref().map(|stored| stored.to_histogram()) {
        let step = 1.96 * (0.99 * 0.01 / times.count().max(1) as f64).sqrt();
        let at = |q: f64| times.quantile_ns(q.min(1.0)).filter(|&ns| ns > 0.0);
        below -= at(0.99 - step).map_or(0.0, |low| (value / low).ln().max(0.0));
        above += at(0.99 + step).map_or(0.0, |high| (high / value).ln().max(0.0));
    }
    Some(Value { value, spread: Some([below, above]), launches: Vec::new() })
}

/// By the launches; in a run without them as uncertain as the median is between launches.
fn cpu(cell: &Cell) -> Option<Value> {
    if let Some(value) = of_launches(&cell.launch_cpu_ns) {
        return Some(value);
    }
    let value = cell.cpu_ns().filter(|&ns| ns > 0.0)?;
    Some(Value { value, spread: middle(cell)?.spread, launches: Vec::new() })
}

/// Memory of one more idle connection of each candidate, from the run that knows most of them.
pub(super) fn memory(candidates: &[Candidate], runs: &[&Run]) -> Vec<Option<Value>> {
    let of = |candidate: &Candidate, run: &Run| -> Option<Value> {
        let of_it = |name: &str| name == candidate.mechanism.name();
        let rest = run.at_rest.iter().find(|rest| {
            of_it(&rest.mechanism) && rest.touched_bytes_per_connection.is_some_and(|b| b > 0.0)
        })?;
        let value = rest.touched_bytes_per_connection?;
        let ends = |pick: fn(f64, f64) -> f64| {
            rest.launch_touched_bytes.iter().copied().filter(|&b| b > 0.0).reduce(pick)
        };
        let spread = spread(value, ends(f64::min).zip(ends(f64::max)).map(|(a, b)| [a, b]));
        Some(Value { value, spread, launches: Vec::new() })
    };
    let per_run = runs
        .iter()
        .map(|&run| candidates.iter().map(|one| of(one, run)).collect::<Vec<Option<Value>>>());
    let known = |all: &Vec<Option<Value>>| all.iter().flatten().count();
    // The first run of equally good ones.
    per_run.rev().max_by_key(known).unwrap_or_else(|| vec![None; candidates.len()])
}

/// A step away from what was wanted.
#[derive(Default)]
struct Step {
    distance: f64,
    widened: f64,
    told: Option<String>,
}

impl Step {
    fn new(distance: f64, widened: f64, told: impl Into<String>) -> Self {
        Self { distance, widened, told: Some(told.into()) }
    }
}

/// `None` where the placement says nothing about the one that is wanted.
fn of_class(placement: Placement, class: &str) -> Option<Step> {
    let near = match class {
        "same_llc" => Some(0.0),
        "same_node" => Some(0.02),
        "cross_node" | "smt" => Some(0.04),
        _ => None,
    };
    match (placement, class) {
        (Placement::SameCpu, "same_cpu") | (Placement::Unpinned, "unpinned") => {
            Some(Step::default())
        }
        (Placement::SameCpu, _) | (Placement::Cross, "unpinned" | "same_cpu") => None,
        (Placement::Any | Placement::Cross, _) if near.is_some() => {
            Some(Step { distance: near?, ..Step::default() })
        }
        (Placement::Unpinned, _) if near.is_some() => Some(Step::new(
            0.5,
            0.3,
            "Measured on two pinned CPUs; unpinned ends may come to share one.",
        )),
        (Placement::Any, "unpinned") => {
            Some(Step::new(0.3, 0.2, "Measured wherever the scheduler put both ends."))
        }
        (Placement::Any, "same_cpu") => {
            Some(Step::new(0.6, 0.0, "Measured with both ends on one CPU, for want of another."))
        }
        _ => None,
    }
}

fn of_rhythm(wanted: Option<f64>, rhythm: Rhythm) -> Option<Step> {
    match (wanted, rhythm) {
        (None, Rhythm::Steady) => Some(Step::default()),
        (Some(rate), Rhythm::Steady) => Some(Step::new(
            1.2,
            0.5,
            format!(
                "Measured one right after the other; at {rate} per second ends sleep between \
                 messages and take longer to wake."
            ),
        )),
        (Some(rate), _) => of_rate(rate, rate_of(rhythm)?, rhythm),
        _ => None,
    }
}

/// A step from a rate that is wanted to one that was measured.
fn of_rate(rate: f64, measured: f64, rhythm: Rhythm) -> Option<Step> {
    let doublings = (measured / rate).log2().abs();
    let both_rare = rate.max(measured) <= RATE_LOW;
    // A gap begins when the exchange before has ended, whenever that is.
    let (paused, pause) = match rhythm {
        Rhythm::Gap(ns) => (GAP_DISTANCE, format!(", with a pause of {}", number::time(ns as f64))),
        _ => (0.0, String::new()),
    };
    match doublings {
        near if near < 0.02 && pause.is_empty() => Some(Step::default()),
        near if near <= RATE_DOUBLINGS_MAX || both_rare => Some(Step::new(
            (0.1 * near).min(0.8) + paused,
            (0.05 * near).min(0.3),
            format!("Measured at {measured} per second{pause} instead of {rate}."),
        )),
        _ => None,
    }
}

/// The rate at which a rhythm has exchanges; `None` of one right after the other.
fn rate_of(rhythm: Rhythm) -> Option<f64> {
    match rhythm {
        Rhythm::Pace(rate_per_s) => Some(f64::from(rate_per_s)),
        Rhythm::Gap(ns) if ns > 0 => Some(1e9 / ns as f64),
        _ => None,
    }
}

fn of_form(exchange: Exchange, form: Form) -> Step {
    match (form, matches!(exchange.shape, Shape::Echo | Shape::Sink)) {
        (Form::Calls, false) | (Form::Messages, true) => Step::default(),
        (Form::Messages, false) => Step::new(
            0.4,
            0.1,
            "Measured with plain messages of the channel; a call adds its header and dispatch.",
        ),
        (Form::Calls, true) => {
            Step::new(0.7, 0.3, "Measured with calls that carry all bytes there and none back.")
        }
    }
}

/// Plain messages of the same bytes in all, but not the same both ways.
fn of_shape(exchange: Exchange, form: Form, shape: &str) -> Step {
    let told = match (form, exchange.shape == Shape::Echo, shape == Shape::Echo.name()) {
        (Form::Messages, true, false) => {
            "Measured with messages that carry all bytes there and none back."
        }
        (Form::Messages, false, true) => {
            "Measured with messages of which half the bytes go there and half back."
        }
        _ => return Step::default(),
    };
    Step::new(0.3, 0.1, told)
}

/// One-way messages are measured one right after the other, whatever their rate is.
fn of_one_way_rate(requirements: &Requirements) -> Step {
    match (requirements.pattern, requirements.rate_per_s) {
        (Pattern::OneWay, rate @ Some(_)) => of_rhythm(rate, Rhythm::Steady).unwrap_or_default(),
        _ => Step::default(),
    }
}

fn of_sleep_states(run: &Run) -> Step {
    match run.machine.state.idle_held {
        Some(true) => Step::new(
            0.3,
            0.1,
            "Measured with CPUs kept out of sleep states, which makes wake-ups shorter.",
        ),
        _ => Step::default(),
    }
}

/// The bytes that cross with a given number of bytes per message, in the shape that is wanted.
pub(super) fn message_bytes(requirements: &Requirements, total: u64) -> u64 {
    match Exchange::of(requirements).shape {
        Shape::Echo => total / 2,
        _ => total,
    }
}

/// The rate of calls, if there is one.
pub(super) fn rate_of_calls(requirements: &Requirements) -> Option<f64> {
    requirements.rate_per_s.filter(|_| requirements.pattern == Pattern::Call)
}

/// A doubling of size away is so much distance.
const PER_DOUBLING: f64 = 0.1;

/// What was timed from when it was due is a little better evidence for a rate than what came after
/// a pause.
const GAP_DISTANCE: f64 = 0.05;

/// Sixteen times as often or as rarely is something else.
const RATE_DOUBLINGS_MAX: f64 = 3.4;

/// Messages that are rarer than this differ little: their ends have long gone to sleep.
const RATE_LOW: f64 = 250.0;
