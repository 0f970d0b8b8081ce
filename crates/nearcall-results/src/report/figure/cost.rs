//! CPU time against latency: who is fast because it burns both CPUs, and who is merely good.

use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::scatter::{Scatter, Spot, front};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::columns::time;
use crate::report::hosts::{Entry, Host};
use crate::report::number;

use super::choose::{Group, Set, is_disturbed, looks, round_trip};
use super::family::{Family, key};
use super::overview::smallest_exchange;
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// The scatter of the smallest exchange; where a few outliers press the others together, these
/// once more by themselves.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let found = smallest_exchange(host, "echo").or_else(|| smallest_exchange(host, "call"));
    let Some((group, _)) = found else { return Vec::new() };
    let best = unbeaten(&group);
    let Some(whole) = one(host, place, (&group, &best), ID) else { return Vec::new() };
    let near = crowd(&group).and_then(|crowd| one(host, place, (&crowd, &best), ID_NEAR));
    std::iter::once(whole).chain(near).collect()
}

/// The cells around the median one, if they share a small part of the axes with several others.
fn crowd<'a>(group: &Group<'a>) -> Option<Group<'a>> {
    let latency = |entry: &Entry<'_>| costs(entry).map(|[latency, _]| latency);
    let mut all: Vec<f64> = group.entries.iter().filter_map(|entry| latency(entry)).collect();
    all.sort_by(f64::total_cmp);
    let middle = *all.get(all.len() / 2)?;
    let near = |latency: f64| (middle / NEAR..=middle * NEAR).contains(&latency);
    let span = all.last()? / all.first()?;
    let entries: Vec<&Entry<'_>> =
        group.entries.iter().copied().filter(|entry| latency(entry).is_some_and(near)).collect();
    let worth = span > SPAN_WIDE && entries.len() >= CROWD_MIN && entries.len() < all.len();
    worth.then(|| Group { setting: group.setting.clone(), entries })
}

/// What nothing beats in both costs, of all that was measured, ascending by latency. What was
/// disturbed beats nothing.
fn unbeaten<'a>(group: &Group<'a>) -> Vec<&'a Entry<'a>> {
    let sound = |entry: &&Entry<'_>| costs(entry).filter(|_| !is_disturbed(entry));
    let all: Vec<[f64; 2]> =
        group.entries.iter().map(|entry| sound(entry).unwrap_or([f64::NAN; 2])).collect();
    front(&all).into_iter().map(|index| group.entries[index]).collect()
}

/// The chart of `group`, with the front of `best`, of which some may lie outside.
fn one(
    host: &Host<'_>,
    place: &Place,
    (group, best): (&Group<'_>, &[&Entry<'_>]),
    id: &str,
) -> Option<Figure> {
    let sets = group.series();
    let mut spots = spots(&sets, best, id == ID_NEAR);
    if spots.is_empty() {
        return None;
    }
    let [left, right] = spots.iter().fold([f64::INFINITY, 0.0_f64], |[low, high], spot| {
        [low.min(spot.at[0]), high.max(spot.at[0])]
    });
    for name in ["floor-spin", "floor-futex"] {
        let floors = group.floors(host);
        let floor = floors.iter().find(|entry| entry.key.mechanism == name);
        let floor = floor.and_then(|e| spot(e, words::floor(name), Look::Floor));
        let within = left / NEAR..=right * NEAR;
        spots.extend(floor.filter(|floor| within.contains(&floor.at[0])));
    }
    let families = sets.iter().filter(|set| spots.iter().any(|s| s.name == set.name));
    let mut legend = key(families.map(|set| set.family));
    let floors = spots.iter().any(|spot| spot.look == Look::Floor);
    if floors {
        legend.push((Look::Floor, false, "bound (not nearcall)".to_owned()));
    }
    let x =
        Axis::log(Unit::Time, "round trip, median, logarithmic", spots.iter().map(|s| s.at[0]))?;
    let y_title = "CPU time of both ends per round trip, logarithmic";
    let y = Axis::log(Unit::Time, y_title, spots.iter().map(|s| s.at[1]))?;
    let remark = (!floors).then(|| words::NO_FLOORS.to_owned());
    let before = best.iter().filter_map(|entry| costs(entry)).rfind(|at| at[0] < left);
    let chart = Scatter { x, y, spots, from: before, key: legend, remark };
    let on_front: Vec<&str> =
        chart.front().into_iter().map(|index| chart.spots[index].name.as_str()).collect();
    let size = group.sizes().first().copied().unwrap_or_default();
    let suffix = if id == ID_NEAR { ", enlarged" } else { "" };
    let unusual = group.setting.unusual();
    let title = format!("CPU time against latency, {}{unusual}{suffix}", number::size(size));
    let front = if on_front.is_empty() { NO_FRONT } else { FRONT };
    let parts = Parts {
        id: place.id(id),
        title: place.title(&title, host),
        desc: match on_front.as_slice() {
            [] => NO_FRONT.to_owned(),
            names => format!("Nothing beats these in both costs: {}.", names.join(", ")),
        },
        caption: words::caption(group),
        about: words::about(&format!("{AXES} {front}"), group),
        table: table(group, best),
        notes: words::disturbed(group.entries.iter().copied()).into_iter().collect(),
    };
    Some(figure(parts, |frame| chart.draw(frame)))
}

/// Latency and CPU time, if both can be drawn.
fn costs(entry: &Entry<'_>) -> Option<[f64; 2]> {
    let costs = [round_trip(entry)?.value, entry.cell.cpu_ns()?];
    costs.iter().all(|cost| drawable(*cost)).then_some(costs)
}

/// One spot for each mechanism that has both costs; named where it is the best of its family.
fn spots(sets: &[Set<'_>], best: &[&Entry<'_>], all_named: bool) -> Vec<Spot> {
    let looks = looks(sets, |set| set.entries.first().and_then(|entry| Some(costs(entry)?[0])));
    let spot = |(set, look): (&Set<'_>, &Look)| {
        let entry = set.entries.first()?;
        Some(Spot {
            on_front: is_among(entry, best),
            named: all_named || look.is_singled_out(),
            ..spot(entry, set.name.clone(), set.family.look())?
        })
    };
    sets.iter().zip(&looks).filter_map(spot).collect()
}

fn is_among(entry: &Entry<'_>, best: &[&Entry<'_>]) -> bool {
    best.iter().any(|other| other.key == entry.key)
}

/// A named spot, not on the front.
fn spot(entry: &Entry<'_>, name: String, look: Look) -> Option<Spot> {
    let at = costs(entry)?;
    let ci95 = entry.cell.headline()?.ci95;
    let label = format!(
        "{}; CPU time {}",
        words::label(Unit::Time, at[0], ci95, entry),
        number::time(at[1])
    );
    let hollow = is_disturbed(entry);
    Some(Spot { name, look, at, on_front: false, named: true, hollow, label })
}

fn table(group: &Group<'_>, best: &[&Entry<'_>]) -> FigureTable {
    let heads = ["mechanism", "waits by", "median", "95 % interval", "CPU time, client"];
    let mut table = FigureTable::new(&heads);
    let more =
        ["CPU time, server", "CPU time, both", "family", "on the front", "grade", "launches"];
    table.heads.extend(more.map(str::to_owned));
    let mut entries: Vec<(&Entry<'_>, [f64; 2])> =
        group.entries.iter().filter_map(|entry| Some((*entry, costs(entry)?))).collect();
    entries.sort_by(|(_, a), (_, b)| a[0].total_cmp(&b[0]));
    for (entry, [latency, cpu]) in entries {
        let name = group.name(entry);
        let ends = entry.cell.cpu_ns_per_message;
        let ci95 = entry.cell.headline().and_then(|headline| headline.ci95);
        let [ci95, grade, launches] = words::evidence(Unit::Time, ci95, entry);
        let front = if is_among(entry, best) { "yes" } else { "no" };
        table.rows.push(vec![
            name,
            text::clean(&entry.key.wait),
            number::time(latency),
            ci95,
            time(ends.client),
            time(ends.server),
            number::time(cpu),
            Family::of(&entry.key).name().to_owned(),
            front.to_owned(),
            grade,
            launches,
        ]);
    }
    table
}

const AXES: &str = "From left to right: the median of a typical launch. From bottom to top: user \
    and system time of client and server, divided by the round trips.";
const FRONT: &str = "Dashed: the Pareto front of all that was measured, around what is beaten in \
    one without being better in the other.";
const NO_FRONT: &str = "Nothing here is on the Pareto front of all that was measured.";
const ID: &str = "cpu-latency";
const ID_NEAR: &str = "cpu-latency-near";
/// So many times around the median is near.
const NEAR: f64 = 3.0;
/// An axis of which the crowd takes less than half.
const SPAN_WIDE: f64 = 50.0;
/// Fewer can be read where they are.
const CROWD_MIN: usize = 5;
