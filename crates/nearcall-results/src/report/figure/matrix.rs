//! From every CPU to every other: one square per mechanism.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::chart::heat::{Heat, Warmth};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::table::class_words;
use crate::run::{Definition, List, Rhythm};

use super::choose::{is_disturbed, round_trip};
use super::{Figure, FigureTable, Parts, Place, figure, words};

/// One figure for each mechanism with one way to wait, beside one load. Of fewer CPUs than
/// [`CPUS_MIN`] the tables show as much.
pub(super) fn figures(host: &Host<'_>, place: &Place) -> Vec<Figure> {
    let mut squares: BTreeMap<Square, Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in host.entries.iter().filter(|entry| is_of_matrix(entry)) {
        squares.entry(Square::of(entry)).or_default().push(entry);
    }
    squares.retain(|_, entries| cpus(entries).len() >= CPUS_MIN);
    let left_out = squares.keys().skip(SQUARES_MAX).map(Square::name).collect::<Vec<_>>();
    let drawn = squares.iter().take(SQUARES_MAX).enumerate();
    drawn
        .map(|(index, (square, entries))| one(host, place, index, (square, entries), &left_out))
        .collect()
}

fn cpus(entries: &[&Entry<'_>]) -> BTreeSet<u32> {
    entries.iter().filter_map(|entry| entry.key.pair).flatten().collect()
}

fn is_of_matrix(entry: &Entry<'_>) -> bool {
    let key = &entry.key;
    key.list == List::Cells
        && key.study.is_none()
        && key.pair.is_some()
        && key.definition == Definition::Rtt
        && key.rhythm == Rhythm::Steady
        && round_trip(entry).is_some()
}

/// What all pairs of one square have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Square {
    load: String,
    mechanism: String,
    wait: String,
    shape: String,
    caller: String,
    by_reference: bool,
    message_bytes: u64,
}

impl Square {
    fn of(entry: &Entry<'_>) -> Self {
        let key = &entry.key;
        Self {
            // Empty comes first.
            load: if key.load == "idle" { String::new() } else { key.load.clone() },
            mechanism: key.mechanism.clone(),
            wait: key.wait.clone(),
            shape: key.shape.clone(),
            caller: key.caller.clone(),
            by_reference: key.by_reference,
            message_bytes: key.message_bytes,
        }
    }

    fn name(&self) -> String {
        let [mechanism, wait] = [&self.mechanism, &self.wait].map(|word| text::clean(word));
        let load = match self.load.as_str() {
            "" => String::new(),
            load => format!(", beside {}", text::clean(load)),
        };
        format!("{mechanism} ({wait}), {}{load}", number::size(self.message_bytes))
    }
}

fn one(
    host: &Host<'_>,
    place: &Place,
    index: usize,
    (square, entries): (&Square, &[&Entry<'_>]),
    left_out: &[String],
) -> Figure {
    let cpus = cpus(entries);
    let shown: Vec<u32> = cpus.iter().copied().take(CPUS_MAX).collect();
    let mut found: BTreeMap<[u32; 2], &Entry<'_>> = BTreeMap::new();
    for entry in entries {
        found.extend(entry.key.pair.map(|pair| (pair, *entry)));
    }
    let warmth = |client: u32, server: u32| {
        let entry = found.get(&[client, server])?;
        let headline = entry.cell.headline()?;
        let value = words::label(Unit::Time, headline.value, headline.ci95, entry);
        let class = class_words(&entry.key.class);
        let label = format!("CPU {client} to CPU {server} ({class}): {value}");
        Some(Warmth { ns: headline.value, label })
    };
    let row = |&client: &u32| shown.iter().map(|&server| warmth(client, server)).collect();
    let names: Vec<String> = shown.iter().map(u32::to_string).collect();
    let heat = Heat {
        rows: names.clone(),
        columns: names,
        titles: ["client CPU".to_owned(), "server CPU".to_owned()],
        places: shown.iter().map(row).collect(),
    };
    let mut notes = Vec::new();
    if cpus.len() > shown.len() {
        notes.push(format!("The first {} of {} CPUs are drawn.", shown.len(), cpus.len()));
    }
    if entries.len() > ROWS_MAX {
        let count = entries.len();
        notes.push(format!("The table has the first {ROWS_MAX} of {count} pairs; --csv has all."));
    }
    if index == 0 && !left_out.is_empty() {
        notes.push(format!("Measured too and not drawn: {}.", left_out.join("; ")));
    }
    notes.extend(
        words::disturbed(entries.iter().copied()).map(|text| text.replace("hollow marks", "pairs")),
    );
    let id = if index == 0 { "matrix".to_owned() } else { format!("matrix-{}", index + 1) };
    let parts = Parts {
        id: place.id(&id),
        title: place.title(&format!("From CPU to CPU: {}", square.name()), host),
        desc: describe(&found),
        caption: format!("Round trip of each pair of CPUs, median. {}", words::count(entries)),
        about: about(square, entries),
        table: table(&found),
        notes,
    };
    figure(parts, |frame| heat.draw(frame))
}

fn about(square: &Square, entries: &[&Entry<'_>]) -> String {
    let (title, meaning) = Definition::Rtt.title_and_meaning();
    let load = if square.load.is_empty() { "idle" } else { &square.load };
    format!(
        "{title}: {meaning}. Median of a typical launch of one pair of CPUs; the client is pinned \
         to that of the row, the server to that of the column, so each pair stands there in both \
         directions. Light is fast. Not measured: no colour. Bounds: the fastest pair of the same \
         square. Measured: {}, {}, {}. {}",
        text::clean(&square.shape),
        square.name(),
        text::clean(load),
        words::source(entries.iter().copied())
    )
}

fn table(found: &BTreeMap<[u32; 2], &Entry<'_>>) -> FigureTable {
    let mut table = FigureTable::new(&["client CPU", "server CPU", "class", "median"]);
    table.heads.extend(words::EVIDENCE.map(str::to_owned));
    for ([client, server], entry) in found.iter().take(ROWS_MAX) {
        let Some(headline) = entry.cell.headline() else { continue };
        let class = class_words(&entry.key.class);
        let value = number::time(headline.value);
        let mut row = vec![client.to_string(), server.to_string(), class, value];
        row.extend(words::evidence(Unit::Time, headline.ci95, entry));
        table.rows.push(row);
    }
    table
}

fn describe(found: &BTreeMap<[u32; 2], &Entry<'_>>) -> String {
    let value = |entry: &Entry<'_>| entry.cell.headline().map_or(f64::NAN, |h| h.value);
    let by = |a: &(&[u32; 2], &&Entry<'_>), b: &(&[u32; 2], &&Entry<'_>)| {
        value(a.1).total_cmp(&value(b.1))
    };
    let words = |pair: Option<(&[u32; 2], &&Entry<'_>)>| {
        pair.map_or_else(String::new, |([client, server], entry)| {
            format!("CPU {client} to CPU {server} with {}", number::time(value(entry)))
        })
    };
    let sound = || found.iter().filter(|(_, entry)| !is_disturbed(entry));
    if sound().next().is_none() {
        return format!("{} pairs of CPUs, all disturbed.", found.len());
    }
    format!(
        "{} pairs of CPUs. Fastest: {}. Slowest: {}.",
        found.len(),
        words(sound().min_by(by)),
        words(sound().max_by(by))
    )
}

/// Fewer are four places at most, which a table shows better.
const CPUS_MIN: usize = 4;
/// More squares than these are named only.
const SQUARES_MAX: usize = 6;
/// More CPUs would be less than ten units wide each.
const CPUS_MAX: usize = 64;
/// A longer table is no help on a page.
const ROWS_MAX: usize = 256;
