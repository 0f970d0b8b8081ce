//! A launch that measures cells of several subjects, a slice of each at a time.
//!
//! Both processes keep an end of every subject open. In each round every cell has a slice, in a
//! random order, so that what the machine does meanwhile falls on all alike, and the ratio of two
//! cells of a launch is that of neighbours in time. A cell's first slice warms it up. The client
//! says over a line of its own, which is silent during a slice, whose turn it is.
//! **Invariants:** a failure is reported as that of the cell whose turn it was.
//! **Not here:** the loops of a slice (`exchange/`), which cells share a launch (`runner.rs`).

use nearcall_channel::{Address, Listener};
use nearcall_os::clock;

use crate::cell::{CellSpec, Subject};
use crate::ends::Connection;
use crate::exchange::Failure;
use crate::exchange::job::{Job, Part};
use crate::exchange::measured::Measured;
use crate::exchange::opened::{self, Opened, OpenedEnd};
use crate::floor::meeting::Meeting;
use crate::histogram::Histogram;
use crate::launch::{Fault, LaunchRequest, Role, WorkerMessage};
use crate::run::{EffectiveSize, Kind};
use crate::session::{self, GOODBYE, READY};
use crate::{ends, locked, stats, worker};

/// The end that asks.
pub(crate) fn client(request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::connect(&request.meet_at)?;
    let mut told = vec![(None, Vec::new()); request.cells.len()];
    let mut ends = Ends::open(request, |at, cell| {
        let Subject::Mechanism(mechanism) = cell.subject else {
            return ends::open(&meeting, Role::Client, cell);
        };
        let Connection { end, set_up_ns, sizes, buffer_bytes } =
            Connection::open(mechanism, cell, &channels_at(request))?;
        told[at] = (Some(set_up_ns), sizes);
        Ok(opened::opened(end, buffer_bytes))
    });
    if meeting.hear()? != READY {
        return Err(Failure::other("the other end is not ready"));
    }
    let memory = locked::lock_for(request);
    let measured = measure(request, &mut ends, &meeting)?;
    for ((at, &cell), slices) in request.cells.iter().enumerate().zip(measured) {
        // Its turn had not come when the launch was cut short.
        if slices.as_ref().is_ok_and(Vec::is_empty) {
            continue;
        }
        let (set_up_ns, sizes) = told[ends.first_cell(at)].clone();
        write_cell(request, cell, (set_up_ns, sizes), &memory, slices)?;
    }
    meeting.say(GOODBYE)
}

fn write_cell(
    request: &LaunchRequest,
    cell: CellSpec,
    (set_up_ns, sizes): (Option<u64>, Vec<EffectiveSize>),
    memory: &str,
    slices: Result<Vec<Measured>, Failure>,
) -> Result<(), Failure> {
    session::write(&session::connected(request, set_up_ns, sizes, memory.to_owned()))?;
    let outcome = slices.and_then(|slices| together(&slices)).map(Box::new);
    session::write(&WorkerMessage::Cell { cell, outcome })
}

/// Gives each cell its slices until the time is over, or the parent wants what there is.
fn measure(
    request: &LaunchRequest,
    ends: &mut Ends<'_>,
    meeting: &Meeting,
) -> Result<Vec<Result<Vec<Measured>, Failure>>, Failure> {
    let mut found: Vec<Result<Vec<Measured>, Failure>> = (request.cells.iter().enumerate())
        .map(|(at, cell)| ends.failure(at).filter(|_| !cell.subject.is_alone()))
        .map(|failure| failure.map_or(Ok(Vec::new()), Err))
        .collect();
    let mut order: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_ok()).collect();
    let mut rng = fastrand::Rng::with_seed(request.seed);
    let first_ns = clock::monotonic_ns();
    let until_ns =
        first_ns.saturating_add(request.cell_budget_ns.saturating_mul(request.cells.len() as u64));
    let mut spent_ns = vec![0; request.cells.len()];
    let mut part = Part::First;
    'rounds: while !order.is_empty() {
        let begin_ns = clock::monotonic_ns();
        rng.shuffle(&mut order);
        for &at in &order {
            if worker::is_asked_to_end() {
                break 'rounds;
            }
            let start_ns = clock::monotonic_ns();
            // A cell whose slices are long has fewer of them.
            let share_ns = (start_ns - first_ns) / order.len() as u64;
            if part == Part::Later && spent_ns[at] > 2 * share_ns {
                continue;
            }
            let cell = request.cells[at];
            let budget_ns = match cell.kind {
                Kind::Latency => SLICE_NS,
                Kind::Throughput => STREAM_SLICE_NS,
            };
            let job = Job { part, budget_ns, ..session::job(request, cell) };
            let measured = slice(&job, ends, meeting, at).inspect_err(|failure| {
                // Should this fail, the failure itself is reported all the same.
                drop(session::write(&WorkerMessage::Cell { cell, outcome: Err(failure.clone()) }));
            })?;
            if let Ok(slices) = &mut found[at] {
                slices.push(measured);
            }
            spent_ns[at] += clock::monotonic_ns() - start_ns;
        }
        part = Part::Later;
        let now_ns = clock::monotonic_ns();
        // The next round takes about as long, and half of it may be too much.
        if now_ns + (now_ns - begin_ns) / 2 > until_ns {
            break;
        }
    }
    Ok(found)
}

fn slice(
    job: &Job,
    ends: &mut Ends<'_>,
    meeting: &Meeting,
    at: usize,
) -> Result<Measured, Failure> {
    if let Some(measured) = ends::measure_alone(job) {
        return measured;
    }
    meeting.say(&at.to_string())?;
    let mut measured = ends.of(at)?.ask(job)?;
    session::add_server(&mut measured, &meeting.hear()?)?;
    Ok(measured)
}

/// The end that answers.
pub(crate) fn server(request: &LaunchRequest) -> Result<(), Failure> {
    let listener = Listener::bind(&Address::Abstract(channels_at(request)))?;
    let meeting = Meeting::accept(&request.meet_at, || session::write(&WorkerMessage::Ready))?;
    let mut ends = Ends::open(request, |_, cell| match cell.subject {
        Subject::Mechanism(_) => Ok(opened::opened(ends::accept(&listener, cell)?, 0)),
        _ => ends::open(&meeting, Role::Server, cell),
    });
    locked::lock_for(request);
    meeting.say(READY)?;
    let fault = if request.fault == Fault::SlowStart { Fault::None } else { request.fault };
    let later = LaunchRequest { fault, ..request.clone() };
    let mut begun = vec![false; request.cells.len()];
    loop {
        let text = meeting.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        session::misbehave(request.fault)?;
        let at = text.parse::<usize>().ok().filter(|&at| at < request.cells.len());
        let at = at.ok_or_else(|| Failure::other(format!("{text:?} is no cell")))?;
        let request = if std::mem::replace(&mut begun[at], true) { &later } else { request };
        let report = ends.of(at)?.serve(&request.cells[at], request)?;
        meeting.say(&serde_json::to_string(&report)?)?;
    }
}

/// Where mechanisms are connected.
fn channels_at(request: &LaunchRequest) -> String {
    format!("{}-channels", request.meet_at)
}

/// The ends of all cells.
struct Ends<'a> {
    /// By the first cell of each; of what stays within one process only that it has none.
    open: Vec<(usize, OpenedEnd<'a>)>,
    /// Per cell, which of these it has.
    of_cell: Vec<usize>,
}

impl<'a> Ends<'a> {
    /// Opens what the cells need, which both processes do in the same order: for a mechanism a
    /// connection for all of its cells, for a floor one for each.
    fn open(
        request: &LaunchRequest,
        mut open: impl FnMut(usize, &CellSpec) -> OpenedEnd<'a>,
    ) -> Self {
        let mut ends = Self { open: Vec::new(), of_cell: Vec::new() };
        for (at, cell) in request.cells.iter().enumerate() {
            let is_mechanism = matches!(cell.subject, Subject::Mechanism(_));
            let same =
                |&(first, _): &(usize, OpenedEnd<'_>)| request.cells[first].unit() == cell.unit();
            let known = ends.open.iter().position(same).filter(|_| is_mechanism);
            ends.of_cell.push(known.unwrap_or(ends.open.len()));
            if known.is_none() {
                ends.open.push((at, open(at, cell)));
            }
        }
        ends
    }
}

impl Ends<'_> {
    /// The first cell that has the end of this one.
    fn first_cell(&self, at: usize) -> usize {
        self.open[self.of_cell[at]].0
    }

    fn failure(&self, at: usize) -> Option<Failure> {
        self.open[self.of_cell[at]].1.as_ref().err().cloned()
    }

    fn of(&mut self, at: usize) -> Result<&mut (dyn Opened + '_), Failure> {
        match &mut self.open[self.of_cell[at]].1 {
            Ok(end) => Ok(&mut **end),
            Err(failure) => Err(failure.clone()),
        }
    }
}

/// What a cell's slices say as one launch. Its median is that of a typical slice.
fn together(slices: &[Measured]) -> Result<Measured, Failure> {
    let Some((first, later)) = slices.split_first() else {
        return Err(Failure::other("no slice was measured"));
    };
    let mut all = first.clone();
    let mut times = Histogram::new();
    for stored in slices.iter().filter_map(|slice| slice.times.as_ref()) {
        times.merge(&stored.to_histogram().map_err(Failure::other)?);
    }
    for slice in later {
        all.client.add(&slice.client);
        if let Some((all, slice)) = all.server.as_mut().zip(slice.server.as_ref()) {
            all.add(slice);
        }
        all.messages += slice.messages;
        all.elapsed_ns += slice.elapsed_ns;
    }
    all.blocks_ns = slices.iter().filter_map(|slice| slice.median_ns).collect();
    all.median_ns = stats::typical(&all.blocks_ns);
    all.times = first.times.as_ref().map(|_| times.to_stored());
    Ok(all)
}

/// Short beside what the machine does, and long beside a change from one channel to another.
const SLICE_NS: u64 = 3_000_000;

/// A slice of messages one way has to fill and empty the channel several times.
const STREAM_SLICE_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::count::EndReport;

    fn measured(ns: u64, count: u64) -> Measured {
        let mut times = Histogram::new();
        times.record_n(ns, count);
        let end = EndReport { cpu_ns: 10 * count, received: count, ..EndReport::default() };
        Measured {
            client: end.clone(),
            server: Some(end),
            messages: count,
            elapsed_ns: ns * count,
            ..Measured::of(&times)
        }
    }

    #[test]
    fn slices_add_up_to_a_launch_whose_median_is_that_of_a_typical_slice() {
        let mut slices = vec![measured(1_000, 100); 7];
        slices[0].warmup_samples = 768;
        slices.push(measured(50_000, 20));
        let all = together(&slices).unwrap();
        assert_eq!((all.messages, all.warmup_samples, all.blocks_ns.len()), (720, 768, 8));
        assert_eq!(all.elapsed_ns, 700 * 1_000 + 20 * 50_000);
        assert!((all.median_ns.unwrap() - 1_000.0).abs() < 1e-6, "{all:?}");
        assert_eq!((all.client.cpu_ns, all.server.unwrap().received), (7_200, 720));
        let times = all.times.unwrap().to_histogram().unwrap();
        assert_eq!((times.count(), times.max_ns()), (720, Some(50_000)));
        assert!(together(&[]).is_err());
    }
}
