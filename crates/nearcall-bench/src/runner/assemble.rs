//! Makes a stored cell from the launches of one cell, and compares cells with their floors.
//!
//! A function of its arguments: nothing is started or read here.

use crate::calls::route::Route;
use crate::cell::{CellSpec, Subject, floor_of};
use crate::exchange::count::EndReport;
use crate::exchange::measured::{Measured, Paced, Rest};
use crate::histogram::{Histogram, StoredHistogram};
use crate::load::{self, Sample};
use crate::run::{
    AtRest, CallFacts, Cell, CpuNsPerMessage, Definition, EffectiveSize, EndCounts, Kind,
    PaceFacts, PerEnd, ROOM_BYTES, RttNs, StudyFacts, Timer,
};
use crate::runner::disturbance::{self, Around};
use crate::runner::placement::PinnedTo;
use crate::stats::Estimate;
use crate::touch::Touch;
use crate::{stats, timers};

mod traffic;

/// One launch of one cell.
#[derive(Clone, Debug)]
pub(crate) struct CellLaunch {
    pub(crate) measured: Measured,
    pub(crate) around: Around,
    /// What ran beside it on purpose.
    pub(crate) beside: Option<Sample>,
    pub(crate) order: u32,
    pub(crate) pids: [u32; 2],
    pub(crate) environment_bytes: [u32; 2],
    pub(crate) set_up_ns: Option<u64>,
    pub(crate) sizes: Vec<EffectiveSize>,
}

/// Makes the stored cell. Its floor's ratio comes later: see [`compare`].
///
/// # Errors
///
/// Why the figures may not be given.
pub(crate) fn cell(
    spec: &CellSpec,
    launches: &[CellLaunch],
    placed: &PinnedTo,
    timer: Option<&Timer>,
    launches_asked: u32,
) -> Result<Cell, String> {
    check_buffer(spec, launches)?;
    let mut cell = Cell::new(spec.kind, spec.subject.name(), spec.message_bytes);
    spec.shape.name().clone_into(&mut cell.shape);
    spec.wait.name().clone_into(&mut cell.wait);
    if let Subject::Call(route) | Subject::Bare(route) = spec.subject {
        add_call(&mut cell, spec, route);
    }
    cell.placement = placed.stored();
    cell.load = spec.conditions.load_words();
    cell.load_achieved = load::achieved(launches.iter().filter_map(|one| one.beside.as_ref()));
    cell.launches = u32::try_from(launches.len()).unwrap_or(u32::MAX);
    cell.count = launches.iter().map(|launch| launch.measured.messages).sum();
    match spec.kind {
        Kind::Latency => add_times(&mut cell, launches, timer)?,
        Kind::Throughput => add_rates(&mut cell, launches)?,
    }
    if spec.conditions.rate_per_s > 0 {
        add_pace(&mut cell, launches, spec.conditions.rate_per_s)?;
    }
    traffic::add(&mut cell, spec, launches)?;
    if spec.conditions.exchanges > 0 {
        cell.study = Some(study_facts(spec, launches)?);
    }
    add_ends(&mut cell, launches);
    let median = |of: fn(&CellLaunch) -> Option<u64>| {
        stats::median(&launches.iter().filter_map(of).map(|ns| ns as f64).collect::<Vec<_>>())
    };
    cell.first_message_ns = median(|launch| launch.measured.first_message_ns);
    cell.set_up_ns = median(|launch| launch.set_up_ns);
    cell.warmup_samples =
        launches.iter().map(|launch| launch.measured.warmup_samples).max().unwrap_or(0);
    cell.pids = launches.iter().map(|launch| launch.pids).collect();
    cell.environment_bytes = launches.iter().map(|launch| launch.environment_bytes).collect();
    cell.order = launches.iter().map(|launch| launch.order).collect();
    cell.sizes = launches.first().map(|launch| launch.sizes.clone()).unwrap_or_default();
    cell.tags = tags(&cell, launches, placed, launches_asked);
    cell.tags.extend(match spec.conditions.touch {
        Touch::Full => None,
        touch => Some(format!("touch_{touch}")),
    });
    let observed: Vec<_> = launches.iter().map(|one| (&one.around, &one.measured)).collect();
    if let Some(graded) = disturbance::grade(&observed, placed, spec.conditions.crowds()) {
        cell.grade = Some(graded.grade);
        cell.noise = graded.reasons;
    }
    cell.floor = floor_of(spec).map(|floor| floor.subject.name().to_owned());
    Ok(cell)
}

/// A buffer that the user asked for is given, or the cell fails: rule R18. Where none was asked
/// for, a size that differs from our own default is a tag.
fn check_buffer(spec: &CellSpec, launches: &[CellLaunch]) -> Result<(), String> {
    let asked = u64::from(spec.conditions.buffer_bytes);
    if asked == 0 || spec.conditions.any_buffer {
        return Ok(());
    }
    let mut sizes = launches.iter().flat_map(|launch| &launch.sizes);
    match sizes.find(|size| size.name == ROOM_BYTES && size.effective != asked) {
        Some(size) => Err(format!(
            "a buffer of {asked} bytes was asked for and one of {} given; \
             --allow-buffer-mismatch measures it",
            size.effective
        )),
        None => Ok(()),
    }
}

fn add_times(
    cell: &mut Cell,
    launches: &[CellLaunch],
    timer: Option<&Timer>,
) -> Result<(), String> {
    let mut times = Histogram::new();
    let mut p99s_ns = Vec::new();
    for stored in launches.iter().filter_map(|launch| launch.measured.times.as_ref()) {
        let of_launch = read(stored)?;
        p99s_ns.push(of_launch.quantile_ns(0.99));
        times.merge(&of_launch);
    }
    cell.launch_p99s_ns = p99s_ns.into_iter().collect::<Option<_>>().unwrap_or_default();
    let batch = launches.iter().map(|launch| launch.measured.messages_per_sample).max();
    cell.messages_per_sample = batch.unwrap_or(1);
    let medians = launches.iter().filter_map(|launch| launch.measured.median_ns);
    cell.launch_medians_ns = medians.collect();
    let blocks: Vec<_> = launches.iter().map(|launch| launch.measured.blocks_ns.clone()).collect();
    let step_ns = timer.and_then(|timer| timer.granularity_ns).unwrap_or(0.0);
    let resolution_ns = step_ns / cell.messages_per_sample as f64;
    let estimate = stats::estimate(&cell.launch_medians_ns, &blocks, resolution_ns);
    let rtt = RttNs::new(&times, estimate.as_ref());
    if let (Some(p50), Some(timer)) = (rtt.p50, timer)
        && !timers::allowed(p50 * cell.messages_per_sample as f64, timer)
    {
        return Err(format!("{p50:.0} ns is below ten steps of the clock {}", timer.source));
    }
    cell.rtt_ns = Some(rtt);
    cell.histogram = Some(times.to_stored());
    if let Some(estimate) = estimate {
        cell.between_launch_variance = estimate.between_launch_variance;
        cell.within_launch_variance = estimate.within_launch_variance;
    }
    Ok(())
}

/// What each launch says by the statistics of the studies. Its cell is added later.
fn study_facts(spec: &CellSpec, launches: &[CellLaunch]) -> Result<StudyFacts, String> {
    let mut facts = StudyFacts { exchanges: spec.conditions.exchanges, ..StudyFacts::default() };
    for launch in launches {
        let measured = &launch.measured;
        if let Some(times) = measured.times.as_ref().map(read).transpose()? {
            facts.launch_means_ns.extend(times.mean_ns());
            facts.launch_mins_ns.extend(times.min_ns().map(|ns| ns as f64));
            facts.launch_maxs_ns.extend(times.max_ns().map(|ns| ns as f64));
            facts.launch_p99s_ns.extend(times.quantile_ns(0.99));
        }
        if let Some(times) = measured.clock_times.as_ref().map(read).transpose()? {
            facts.launch_clock_mins_ns.extend(times.min_ns().map(|ns| ns as f64));
            facts.launch_clock_medians_ns.extend(times.median_ns());
        }
        facts.launch_firsts_ns.extend(measured.first_message_ns.map(|ns| ns as f64));
        facts.launch_set_ups_ns.extend(launch.set_up_ns.map(|ns| ns as f64));
        let ends = [Some(&measured.client), measured.server.as_ref()];
        let cpu_ns: u64 = ends.into_iter().flatten().map(|end| end.cpu_ns).sum();
        facts.launch_cpu_ns.push(cpu_ns as f64 / measured.messages.max(1) as f64);
    }
    Ok(facts)
}

/// What only calls have that begin at set times.
fn add_pace(cell: &mut Cell, launches: &[CellLaunch], rate_per_s: u32) -> Result<(), String> {
    let paced = || launches.iter().filter_map(|launch| launch.measured.paced.as_ref());
    let mut times = Histogram::new();
    for one in paced() {
        times.merge(&read(&one.service)?);
    }
    let launch_service_medians_ns: Vec<f64> =
        paced().filter_map(|one| one.service_median_ns).collect();
    let service = stats::estimate(&launch_service_medians_ns, &[], 0.0);
    let sum = |of: fn(&Paced) -> u64| paced().map(of).sum::<u64>() as f64;
    let count = |of: fn(&Paced) -> u64| paced().map(of).sum::<u64>();
    let (planned, sent) = (count(|one| one.planned), count(|one| one.sent));
    let achieved_per_s = sent as f64 * 1e9 / sum(|one| one.elapsed_ns);
    cell.definition = Definition::FromIntended;
    cell.pace = Some(PaceFacts {
        rate_per_s,
        planned,
        sent,
        achieved_per_s: Some(achieved_per_s).filter(|rate| rate.is_finite()),
        kept: is_kept([planned, sent], rate_per_s, service.as_ref().map(|one| one.center)),
        service_ns: RttNs::new(&times, service.as_ref()),
        launch_service_medians_ns,
    });
    Ok(())
}

/// Whether the pace was kept: nearly all calls began in time, and the usual one had ended when the
/// next was due. A short series ends before a client that is too slow has fallen far behind.
fn is_kept([planned, sent]: [u64; 2], rate_per_s: u32, service_ns: Option<f64>) -> bool {
    let interval_ns = 1e9 / f64::from(rate_per_s.max(1));
    sent as f64 >= planned as f64 * KEPT_MIN && service_ns.is_none_or(|ns| ns <= interval_ns)
}

/// Makes what is stored of a server at rest.
pub(crate) fn at_rest(spec: &CellSpec, launches: &[CellLaunch], placed: &PinnedTo) -> AtRest {
    let rests = || launches.iter().filter_map(|launch| launch.measured.rest.as_ref());
    let values = |of: fn(&Rest) -> Option<u64>| -> Vec<f64> {
        rests().filter_map(of).map(|value| value as f64).collect()
    };
    let sum =
        |of: fn(&Rest) -> Option<u64>| rests().map(of).try_fold(0_u64, |sum, one| Some(sum + one?));
    let private = values(|rest| rest.private_bytes);
    let touched = values(|rest| rest.touched_bytes_per_connection);
    AtRest {
        mechanism: spec.subject.name().to_owned(),
        wait: spec.wait.name().to_owned(),
        placement: placed.stored(),
        idle_connections: spec.conditions.idle_connections,
        launches: u32::try_from(launches.len()).unwrap_or(u32::MAX),
        observed_ns: rests().map(|rest| rest.observed_ns).sum(),
        cpu_ns: sum(|rest| Some(rest.usage?.cpu_ns)),
        voluntary_switches: sum(|rest| Some(rest.usage?.voluntary_switches)),
        threads: rests().filter_map(|rest| Some(rest.usage?.threads)).max(),
        private_bytes: stats::median(&private),
        launch_private_bytes: private,
        touched_bytes_per_connection: stats::median(&touched),
        launch_touched_bytes: touched,
        shared_bytes_per_connection: stats::median(&values(|rest| {
            rest.shared_bytes_per_connection
        })),
    }
}

fn add_rates(cell: &mut Cell, launches: &[CellLaunch]) -> Result<(), String> {
    for launch in launches {
        let frame_bytes = cell.call.as_ref().map_or(cell.message_bytes, |call| call.frame_bytes);
        let moved = launch.measured.messages.saturating_mul(frame_bytes);
        let buffer = launch.sizes.iter().find(|size| size.name == ROOM_BYTES);
        if let Some(buffer) = buffer.filter(|buffer| moved < buffer.effective) {
            let buffer = buffer.effective;
            return Err(format!("{moved} bytes fit in the buffer of {buffer}: no throughput"));
        }
    }
    cell.launch_messages_per_s = launches.iter().filter_map(messages_per_s).collect();
    let (rate, estimate) = mean_rate(&cell.launch_messages_per_s);
    cell.messages_per_s = rate;
    if let Some(estimate) = estimate {
        cell.messages_per_s_ci95 = estimate.ci95;
        cell.between_launch_variance = estimate.between_launch_variance;
    }
    let bytes = cell.message_bytes as f64;
    cell.bytes_per_s = cell.messages_per_s.map(|rate| rate * bytes);
    cell.bytes_per_s_ci95 = cell.messages_per_s_ci95.map(|ci| ci.map(|rate| rate * bytes));
    let per_cpu_s: Vec<f64> =
        launches.iter().filter_map(|launch| bits_per_cpu_s(&launch.measured, bytes)).collect();
    if let Some(estimate) = stats::estimate(&per_cpu_s, &[], 0.0) {
        cell.bits_per_cpu_s = Some(estimate.center);
        cell.bits_per_cpu_s_ci95 = estimate.ci95;
    }
    Ok(())
}

fn messages_per_s(launch: &CellLaunch) -> Option<f64> {
    let Measured { messages, elapsed_ns, .. } = launch.measured;
    (elapsed_ns > 0).then(|| messages as f64 * 1e9 / elapsed_ns as f64)
}

/// The mean of the rates of launches, and their estimate with an interval that holds it: the middle
/// of that is the geometric mean, and the harmonic one may lie outside, with launches far apart.
fn mean_rate(rates: &[f64]) -> (Option<f64>, Option<Estimate>) {
    let mean = stats::harmonic_mean(rates);
    let mut estimate = stats::estimate(rates, &[], 0.0);
    if let Some(estimate) = &mut estimate {
        let ci95 = estimate.ci95.zip(mean);
        estimate.ci95 = ci95.map(|([low, high], rate)| [low.min(rate), high.max(rate)]);
    }
    (mean, estimate)
}

fn read(stored: &StoredHistogram) -> Result<Histogram, String> {
    stored.to_histogram().map_err(|error| error.to_string())
}

/// Payload bits that one second of CPU time of both ends moves.
fn bits_per_cpu_s(measured: &Measured, message_bytes: f64) -> Option<f64> {
    let cpu_ns = measured.client.cpu_ns + measured.server.as_ref()?.cpu_ns;
    (cpu_ns > 0).then(|| measured.messages as f64 * message_bytes * 8.0 * 1e9 / cpu_ns as f64)
}

/// CPU time and counts of both ends, over all launches.
fn add_ends(cell: &mut Cell, launches: &[CellLaunch]) {
    let clients: Vec<&EndReport> = launches.iter().map(|launch| &launch.measured.client).collect();
    let servers: Vec<&EndReport> =
        launches.iter().filter_map(|launch| launch.measured.server.as_ref()).collect();
    let of_launch = |launch: &CellLaunch| {
        let both_ns = launch.measured.client.cpu_ns + launch.measured.server.as_ref()?.cpu_ns;
        Some(both_ns as f64 / launch.measured.messages.max(1) as f64)
    };
    cell.launch_cpu_ns = launches.iter().map(of_launch).collect::<Option<_>>().unwrap_or_default();
    let messages = cell.count.max(1) as f64;
    let per_message = |ends: &[&EndReport]| {
        let sum_ns: u64 = ends.iter().map(|end| end.cpu_ns).sum();
        (!ends.is_empty()).then(|| sum_ns as f64 / messages)
    };
    cell.cpu_ns_per_message =
        CpuNsPerMessage { client: per_message(&clients), server: per_message(&servers) };
    cell.counts = PerEnd { client: sum_counts(&clients), server: sum_counts(&servers) };
}

fn sum_counts(ends: &[&EndReport]) -> EndCounts {
    let Some((&first, later)) = ends.split_first() else { return EndCounts::default() };
    let mut sum = first.clone();
    later.iter().for_each(|one| sum.add(one));
    sum.counts
}

fn tags(cell: &Cell, launches: &[CellLaunch], placed: &PinnedTo, asked: u32) -> Vec<String> {
    let ends = [&cell.counts.client, &cell.counts.server];
    let elsewhere = |end: &EndReport, cpu: Option<usize>| cpu.is_some_and(|cpu| cpu != end.cpu);
    let left = launches.iter().any(|launch| {
        let measured = &launch.measured;
        elsewhere(&measured.client, placed.client)
            || measured.server.as_ref().is_some_and(|server| elsewhere(server, placed.server))
    });
    let moved = ends.iter().any(|end| end.migrations.is_some_and(|count| count > 0));
    let faults = |end: &&EndCounts| end.minor_faults.unwrap_or(0) + end.major_faults.unwrap_or(0);
    let changed = cell.sizes.iter().any(|size| {
        size.requested.is_some_and(|requested| requested != 0 && requested != size.effective)
    });
    let fell_short = cell.load_achieved.as_ref().is_some_and(|load| !load.not_reached.is_empty());
    let found = [
        ("migrated", left || moved),
        ("page_faults", ends.iter().map(faults).sum::<u64>() > 0),
        ("warmup_capped", launches.iter().any(|launch| launch.measured.warmup_capped)),
        ("clock_drift", launches.iter().any(|launch| launch.around.drifted())),
        ("few_launches", cell.launches < asked),
        ("batched", cell.messages_per_sample > 1),
        ("size_changed", changed),
        ("load_not_reached", fell_short),
        ("two_modes", stats::has_two_modes(cell.headline().map_or(&[][..], |one| one.launches))),
        ("behind", cell.pace.as_ref().is_some_and(|pace| !pace.kept)),
    ];
    found.iter().filter(|(_, is)| *is).map(|(tag, _)| (*tag).to_owned()).collect()
}

/// Fills in how many times its floor's cost each cell is, and its bare exchange's each call.
/// `cells` belong to `specs` one by one.
pub(crate) fn compare(specs: &[CellSpec], cells: &mut [Cell]) {
    let at = |other: Option<CellSpec>| specs.iter().position(|spec| Some(*spec) == other);
    for (own, spec) in specs.iter().enumerate() {
        if let Some(floor) = at(floor_of(spec)) {
            let ratio = ratio(&cells[own], &cells[floor]);
            cells[own].ratio_to_floor = ratio.map(|(ratio, _)| ratio);
            cells[own].ratio_to_floor_ci95 = ratio.and_then(|(_, ci95)| ci95);
        }
        if let Some(bare) = at(spec.bare()) {
            let (bare_ns, ratio) = (cell_ns(&cells[bare]), ratio(&cells[own], &cells[bare]));
            let facts = cells[own].call.get_or_insert_default();
            facts.bare_ns = bare_ns;
            facts.ratio_to_bare = ratio.map(|(ratio, _)| ratio);
            facts.ratio_to_bare_ci95 = ratio.and_then(|(_, ci95)| ci95);
        }
    }
}

/// What one message takes.
fn cell_ns(cell: &Cell) -> Option<f64> {
    match cell.kind {
        Kind::Latency => cell.rtt_ns.as_ref()?.p50,
        Kind::Throughput => Some(1e9 / cell.messages_per_s?),
    }
}

/// What only calls have, and the wait policies of both ends.
fn add_call(cell: &mut Cell, spec: &CellSpec, route: Route) {
    let mut facts = CallFacts { caller: route.caller().name().to_owned(), ..CallFacts::default() };
    if route.mechanism().is_some() {
        let server = route.server_wait(spec.wait);
        if server != spec.wait {
            cell.wait = format!("{}/{server}", spec.wait);
        }
        spec.wait.name().clone_into(&mut facts.client_wait);
        server.name().clone_into(&mut facts.server_wait);
        facts.by_reference = spec.conditions.by_reference;
        // A reference is some bytes more than the header; which ones is the runtime's own affair.
        let moved = if facts.by_reference { 0 } else { spec.frame_bytes() };
        facts.frame_bytes = moved;
        facts.reply_bytes = spec.reply_bytes() as u64;
    }
    cell.call = Some(facts);
}

/// How many times the cost of `other` a cell has, and where that lies with 95 % confidence.
///
/// The ratio is that of the two in one launch or in one round, so that what these are slower by
/// does not count. A run that ran out of time ends within a round.
fn ratio(cell: &Cell, other: &Cell) -> Option<(f64, Option<[f64; 2]>)> {
    let both = launch_costs_ns(cell).into_iter().zip(launch_costs_ns(other));
    let ratios: Vec<f64> = both.map(|(own, other)| own / other).collect();
    if let Some(estimate) = stats::estimate(&ratios, &[], 0.0) {
        return Some((estimate.center, estimate.ci95));
    }
    let ratio = cell_ns(cell)? / cell_ns(other)?;
    ratio.is_finite().then_some((ratio, None))
}

/// What one message took in each launch, in the order of rounds.
fn launch_costs_ns(cell: &Cell) -> Vec<f64> {
    match cell.kind {
        Kind::Latency => cell.launch_medians_ns.clone(),
        Kind::Throughput => cell.launch_messages_per_s.iter().map(|rate| 1e9 / rate).collect(),
    }
}

/// The first pair of cells which shows that the payload was not touched: a large message costs
/// hardly more than a small one.
pub(crate) fn untouched(specs: &[CellSpec], cells: &[Cell]) -> Option<(CellSpec, f64)> {
    let p50 = |cell: &Cell| cell.rtt_ns.as_ref()?.p50;
    for (large, large_cell) in specs.iter().zip(cells) {
        let is_small = |small: &CellSpec| {
            let same = small.unit() == large.unit() && small.shape == large.shape;
            same && small.kind == Kind::Latency && small.message_bytes <= SMALL_BYTES_MAX
        };
        let Subject::Mechanism(_) = large.subject else { continue };
        if large.conditions.touch != Touch::Full {
            continue;
        }
        if large.kind != Kind::Latency || large.message_bytes < LARGE_BYTES_MIN {
            continue;
        }
        let small = specs.iter().zip(cells).find(|(small, _)| is_small(small));
        let small_ns = small.and_then(|(_, cell)| p50(cell));
        let Some((small_ns, large_ns)) = small_ns.zip(p50(large_cell)) else { continue };
        if large_ns < RATIO_MIN * small_ns {
            return Some((*large, large_ns / small_ns));
        }
    }
    None
}

/// Rule R16: the part of the planned calls that must have begun.
const KEPT_MIN: f64 = 0.999;

/// Rule R5: 4 MiB must cost at least twice what 64 bytes cost.
const RATIO_MIN: f64 = 2.0;

/// What counts as small for that rule.
const SMALL_BYTES_MAX: u64 = 64;

/// What counts as large for that rule.
const LARGE_BYTES_MIN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use nearcall_channel::{Mechanism, WaitPolicy};
    use nearcall_results::topology::Topology;

    use super::*;
    use crate::bench_plan::{Placement, Shape};
    use crate::cell::Conditions;
    use crate::detector::{Counters, CpuWatch, Watch};
    use crate::floor::Floor;
    use crate::noise::Gaps;
    use crate::runner::placement::resolve;

    fn spec(message_bytes: u64) -> CellSpec {
        let subject = Subject::Mechanism(Mechanism::ShmSpin);
        CellSpec::latency(subject, Shape::Echo, message_bytes, WaitPolicy::Spin)
    }

    /// Of messages one way.
    fn stream(message_bytes: u64) -> CellSpec {
        CellSpec { kind: Kind::Throughput, shape: Shape::Sink, ..spec(message_bytes) }
    }

    fn measured(spec: &CellSpec, p50: f64) -> Cell {
        let mut cell = Cell::new(spec.kind, spec.subject.name(), spec.message_bytes);
        cell.rtt_ns = Some(RttNs { p50: Some(p50), ..RttNs::default() });
        cell
    }

    #[test]
    fn a_large_message_at_the_price_of_a_small_one_is_found() {
        let specs = [spec(64), spec(4 << 20)];
        let cells = |large_ns| [measured(&specs[0], 400.0), measured(&specs[1], large_ns)];
        assert_eq!(untouched(&specs, &cells(790.0)).unwrap().0, specs[1]);
        assert_eq!(untouched(&specs, &cells(810.0)), None);
        let unread = specs.map(|spec| CellSpec {
            conditions: Conditions { touch: Touch::None, ..Conditions::default() },
            ..spec
        });
        assert_eq!(untouched(&unread, &cells(790.0)), None);
    }

    fn placed() -> PinnedTo {
        resolve(Placement::None, &[0, 1], &Topology::default()).unwrap()
    }

    fn launch(measured: Measured) -> CellLaunch {
        CellLaunch {
            measured,
            around: Around::default(),
            beside: None,
            order: 0,
            pids: [1, 2],
            environment_bytes: [10, 20],
            set_up_ns: None,
            sizes: vec![EffectiveSize {
                name: ROOM_BYTES.to_owned(),
                requested: Some(65_536),
                effective: 65_536,
            }],
        }
    }

    fn rate(messages: u64, elapsed_ns: u64) -> CellLaunch {
        launch(Measured { messages, elapsed_ns, ..Measured::default() })
    }

    /// A launch of `count` exchanges of `ns` each.
    fn times(count: u64, ns: u64) -> CellLaunch {
        let mut times = Histogram::new();
        (0..count).for_each(|_| times.record(ns));
        let client = EndReport { run_delay_ns: Some(0), ..EndReport::default() };
        launch(Measured { client, messages: count, elapsed_ns: count * ns, ..Measured::of(&times) })
    }

    /// Rule R13.
    #[test]
    fn the_times_of_all_launches_are_kept() {
        let launches = [times(1_000, 5_000), times(3_000, 6_000), times(30, 90_000)];
        let cell = cell(&spec(8), &launches, &placed(), None, 3).unwrap();
        let stored = cell.histogram.unwrap().to_histogram().unwrap();
        assert_eq!(
            (stored.count(), stored.min_ns(), stored.max_ns()),
            (4_030, Some(5_000), Some(90_000))
        );
        let rtt = cell.rtt_ns.unwrap();
        assert!((rtt.p90.unwrap() - 6_000.0).abs() < 10.0, "{rtt:?}");
        assert!((rtt.mean.unwrap() - 6_376.7).abs() < 10.0, "{rtt:?}");
        // Of the third launch there is no 99th percentile.
        assert_eq!(cell.launch_p99s_ns, [0.0; 0]);
        let launches = [times(1_000, 5_000), times(3_000, 6_000)];
        let cell = super::cell(&spec(8), &launches, &placed(), None, 2).unwrap();
        assert_eq!(cell.launch_p99s_ns.len(), 2);
        assert!((cell.launch_p99s_ns[1] - 6_000.0).abs() < 10.0, "{:?}", cell.launch_p99s_ns);
    }

    /// Rule R14: fast launches have more exchanges, which makes them no more typical.
    #[test]
    fn the_median_is_that_of_a_typical_launch_and_in_the_middle_of_its_interval() {
        let launches = [times(9_000, 1_000), times(2_250, 4_000), times(2_250, 4_000)];
        let rtt = cell(&spec(8), &launches, &placed(), None, 3).unwrap().rtt_ns.unwrap();
        let (p50, [low, high]) = (rtt.p50.unwrap(), rtt.p50_ci95.unwrap());
        assert!((p50 / 16e9_f64.cbrt() - 1.0).abs() < 0.002, "{p50}");
        assert!((low * high / p50.powi(2) - 1.0).abs() < 1e-9, "{low} {p50} {high}");
        // Student's t of two degrees, and a deviation of ln 4 / √3 between three launches.
        let half = 4.302_653 * (4.0_f64.ln() / 3.0_f64.sqrt()) / 3.0_f64.sqrt();
        assert!(((high / p50).ln() / half - 1.0).abs() < 0.005, "{low} {p50} {high}");
    }

    /// Rule R10.
    #[test]
    fn a_disturbed_launch_gives_its_cell_the_grade_and_the_reason() {
        let graded = |waited_ns| {
            let mut disturbed = times(1_000, 1_000_000);
            disturbed.measured.client.run_delay_ns = Some(waited_ns);
            let launches = [times(1_000, 1_000_000), disturbed];
            let place = Placement::Pin { client: 0, server: 1 };
            let pinned = resolve(place, &[0, 1], &Topology::default()).unwrap();
            let cell = cell(&spec(8), &launches, &pinned, None, 2).unwrap();
            (cell.grade, cell.noise)
        };
        let (grade, noise) = graded(900_000_000);
        assert_eq!(grade, Some(crate::noise::Grade::D));
        assert_eq!(noise, ["45 % waiting for the CPU"]);
        assert_eq!(graded(0), (Some(crate::noise::Grade::A), Vec::new()));
    }

    #[test]
    fn a_time_below_ten_steps_of_the_clock_is_refused() {
        let mut times = Histogram::new();
        (0..100).for_each(|_| times.record(9_000));
        let measured = Measured {
            times: Some(times.to_stored()),
            median_ns: Some(9_000.0),
            messages_per_sample: 1,
            ..Measured::default()
        };
        let coarse = |step| Timer { granularity_ns: Some(step), ..Timer::default() };
        let made = |measured: &Measured, step| {
            let launches = [launch(measured.clone())];
            cell(&spec(8), &launches, &placed(), Some(&coarse(step)), 1)
        };
        assert!(made(&measured, 1_000.0).unwrap_err().contains("ten steps"));
        assert!(made(&measured, 100.0).is_ok());
        let batches = Measured { messages_per_sample: 10, ..measured };
        assert_eq!(made(&batches, 1_000.0).unwrap().tags, ["batched"]);
    }

    /// Rules R7, R8 and R9.
    #[test]
    fn an_end_that_moved_or_faulted_or_changed_speed_marks_its_cell() {
        let spec = stream(64);
        let place = Placement::Pin { client: 0, server: 1 };
        let pinned = resolve(place, &[0, 1], &Topology::default()).unwrap();
        let tags = |change: &dyn Fn(&mut CellLaunch)| {
            let mut calm = rate(1_000_000, 1_000_000_000);
            let counts = EndCounts {
                minor_faults: Some(0),
                major_faults: Some(0),
                migrations: Some(0),
                ..EndCounts::default()
            };
            calm.measured.client = EndReport { counts, ..EndReport::default() };
            calm.measured.server = Some(EndReport { counts, cpu: 1, ..EndReport::default() });
            let mut disturbed = calm.clone();
            change(&mut disturbed);
            cell(&spec, &[calm, disturbed], &pinned, None, 2).unwrap().tags
        };
        assert_eq!(tags(&|_| ()), [""; 0]);
        assert_eq!(tags(&|one| one.measured.client.cpu = 1), ["migrated"]);
        assert_eq!(tags(&|one| one.measured.client.counts.migrations = Some(1)), ["migrated"]);
        assert_eq!(tags(&|one| one.measured.client.counts.minor_faults = Some(1)), ["page_faults"]);
        assert_eq!(tags(&|one| one.measured.client.counts.major_faults = Some(1)), ["page_faults"]);
        assert_eq!(tags(&|one| one.around = drifted(1_030)), ["clock_drift"]);
        assert_eq!(tags(&|one| one.around = drifted(1_010)), [""; 0]);
    }

    /// Around a launch whose fixed work took 1,000 ns before and `after_ns` after it.
    fn drifted(after_ns: u64) -> Around {
        let seen = |work_ns| {
            let cpu = CpuWatch { cpu: 0, gaps: Gaps::default(), work_ns };
            (Watch { cpus: vec![cpu] }, Counters::default())
        };
        Around::of(&seen(1_000), &seen(after_ns), &placed(), false)
    }

    #[test]
    fn what_fits_in_the_buffer_is_no_throughput() {
        let spec = stream(64);
        let made = |messages| cell(&spec, &[rate(messages, 1_000)], &placed(), None, 1);
        assert!(made(1_023).unwrap_err().contains("65472 bytes fit in the buffer of 65536"));
        assert!(made(1_024).is_ok());
    }

    #[test]
    fn a_rate_lies_in_its_interval() {
        let spec = stream(64);
        // One launch of nine a thousand times slower.
        let mut launches = vec![rate(1_000_000, 1_000_000); 8];
        launches.push(rate(1_000_000, 1_000_000_000));
        let cell = cell(&spec, &launches, &placed(), None, 10).unwrap();
        let (rate, [low, high]) = (cell.messages_per_s.unwrap(), cell.messages_per_s_ci95.unwrap());
        assert!(low <= rate && rate <= high, "{low} {rate} {high}");
        assert_eq!(cell.tags, ["few_launches"]);
    }

    #[test]
    fn bits_per_cpu_second_count_both_ends_and_have_an_interval() {
        let spec = stream(125);
        let end = |cpu_ns| EndReport { cpu_ns, ..EndReport::default() };
        let launch = |server_ns| {
            let mut launch = rate(1_000_000, 1_000_000_000);
            launch.measured.client = end(400_000_000);
            launch.measured.server = Some(end(server_ns));
            launch
        };
        let launches = [launch(600_000_000), launch(600_000_000), launch(600_000_001)];
        let cell = cell(&spec, &launches, &placed(), None, 3).unwrap();
        // A million messages of a thousand bits in one second of CPU time.
        assert!((cell.bits_per_cpu_s.unwrap() / 1e9 - 1.0).abs() < 1e-6, "{cell:?}");
        let [low, high] = cell.bits_per_cpu_s_ci95.unwrap();
        assert!(low <= high && high / low < 1.001);
        let alone = rate(1_000_000, 1_000_000_000);
        let cell = super::cell(&spec, &[alone], &placed(), None, 1).unwrap();
        assert_eq!(cell.bits_per_cpu_s, None);
    }

    #[test]
    fn a_buffer_of_another_size_is_told() {
        let spec = stream(64);
        let mut launch = rate(1_000_000, 1_000);
        launch.sizes[0].effective = 131_072;
        let cell = cell(&spec, &[launch], &placed(), None, 1).unwrap();
        assert_eq!(cell.tags, ["size_changed"]);
    }

    #[test]
    fn a_buffer_that_was_asked_for_is_given_or_the_cell_fails() {
        let conditions = Conditions { buffer_bytes: 65_536, ..Conditions::default() };
        let spec = CellSpec { conditions, ..stream(64) };
        let mut launch = rate(1_000_000, 1_000);
        let made = |spec: &CellSpec, launch: &CellLaunch| {
            cell(spec, std::slice::from_ref(launch), &placed(), None, 1)
        };
        assert_eq!(made(&spec, &launch).unwrap().tags, [""; 0]);
        launch.sizes[0].effective = 131_072;
        let reason = made(&spec, &launch).unwrap_err();
        assert!(reason.contains("65536 bytes was asked for and one of 131072 given"), "{reason}");
        let allowed =
            CellSpec { conditions: Conditions { any_buffer: true, ..conditions }, ..spec };
        assert_eq!(made(&allowed, &launch).unwrap().tags, ["size_changed"]);
    }

    /// Rule R16.
    #[test]
    fn a_pace_is_kept_by_calls_that_begin_in_time_and_end_before_the_next() {
        assert!(is_kept([1_000, 999], 10_000, Some(90_000.0)));
        assert!(!is_kept([1_000, 998], 10_000, Some(90_000.0)));
        assert!(!is_kept([1_000, 1_000], 10_000, Some(110_000.0)));
        assert!(is_kept([1_000, 1_000], 10_000, None));
    }

    fn rated(spec: &CellSpec, launches: &[f64]) -> Cell {
        let mut cell = Cell::new(spec.kind, spec.subject.name(), spec.message_bytes);
        cell.messages_per_s = stats::harmonic_mean(launches);
        cell.launch_messages_per_s = launches.to_vec();
        cell
    }

    #[test]
    fn a_cell_is_compared_with_its_own_floor() {
        let floor = Floor::Spin.cell(Kind::Latency, Shape::Echo, 8);
        let specs = [floor, spec(8)];
        let mut cells = vec![measured(&floor, 300.0), measured(&specs[1], 450.0)];
        compare(&specs, &mut cells);
        assert_eq!((cells[0].ratio_to_floor, cells[1].ratio_to_floor), (None, Some(1.5)));
        // Of one figure each there is no interval.
        assert_eq!(cells[1].ratio_to_floor_ci95, None);
    }

    #[test]
    fn half_the_rate_of_the_floor_is_twice_its_cost() {
        let spec = stream(64);
        let floor = floor_of(&spec).unwrap();
        let mut cells = vec![rated(&floor, &[2e6, 4e6, 2e6]), rated(&spec, &[1e6, 2e6, 1e6])];
        compare(&[floor, spec], &mut cells);
        assert!((cells[1].ratio_to_floor.unwrap() - 2.0).abs() < 1e-9, "{:?}", cells[1]);
    }

    /// What one round is slower by falls on both, and not on their ratio.
    #[test]
    fn the_ratio_to_the_floor_is_that_within_rounds() {
        let floor = Floor::Spin.cell(Kind::Latency, Shape::Echo, 8);
        let specs = [floor, spec(8)];
        let with = |spec: &CellSpec, launches: &[f64]| {
            let mut cell = measured(spec, 700.0);
            cell.launch_medians_ns = launches.to_vec();
            cell
        };
        let ratio = |floors: &[f64], launches: &[f64]| {
            let mut cells = vec![with(&floor, floors), with(&specs[1], launches)];
            compare(&specs, &mut cells);
            (cells[1].ratio_to_floor.unwrap(), cells[1].ratio_to_floor_ci95)
        };
        let (center, ci95) = ratio(&[300.0, 900.0, 500.0], &[451.0, 1_346.0, 751.0]);
        let [low, high] = ci95.unwrap();
        assert!((center - 1.5).abs() < 0.01 && low > 1.47 && high < 1.53, "{center} {ci95:?}");
        // The time was over before the last launch of one.
        let (center, ci95) = ratio(&[300.0, 900.0, 500.0], &[450.0, 1_350.0]);
        assert!((center - 1.5).abs() < 1e-9 && ci95.is_some(), "{center} {ci95:?}");
    }
}
