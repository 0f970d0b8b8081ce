//! Tables of cells: the floors, every figure of a machine, and machines beside each other.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::table::{Slot, Table};
use super::{name, text};
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::{CellKey, Definition, Kind, List};

/// The same exchanges without nearcall.
pub(super) fn floors(host: &Host<'_>, id: &str) -> Option<Markup> {
    let floors: Vec<&Entry<'_>> =
        host.entries.iter().filter(|entry| entry.key.list == List::Floors).collect();
    if host.entries.is_empty() {
        return None;
    }
    if floors.is_empty() {
        return Some(html! {
            p.missing {
                "These runs have no floors, so no bound can be drawn and no ratio told. A run of "
                code { "nearcall bench" } " measures them beside everything else."
            }
        });
    }
    let title = "What the machine itself takes for the same exchange, without nearcall";
    let mut table = Table::new(&format!("{id}-table"), title, &HEADS);
    floors.iter().for_each(|entry| table.row(row(entry)));
    Some(html! {
        p {
            "A floor is the bare exchange: what a mechanism costs above it is the price of the \
             mechanism. Where a cell names its floor, the ratio to it stands in the table of every \
             figure; 1.00× is as good as it gets."
        }
        (table)
        (definitions(&floors))
    })
}

/// Every cell but those of studies, which stand in the tables of the studies.
pub(super) fn all(host: &Host<'_>, id: &str) -> Option<Markup> {
    let shown = |list| matches!(list, List::Cells | List::Bare | List::Parts);
    let entries: Vec<&Entry<'_>> =
        host.entries.iter().filter(|entry| shown(entry.key.list)).collect();
    if entries.is_empty() {
        return Some(html! { p.missing { "These runs have no cells of their own." } });
    }
    let mut table = Table::new(
        &format!("{id}-table"),
        "Medians of times, and rates, with 95 % confidence intervals over launches",
        &HEADS,
    );
    entries.iter().take(ROWS_MAX).for_each(|entry| table.row(row(entry)));
    Some(html! {
        p {
            (entries.len()) " cells"
            @if host.superseded > 0 {
                "; " (host.superseded) " more were measured again by a later run, which counts"
            }
            @if entries.len() > ROWS_MAX { "; the first " (ROWS_MAX) " are shown" }
            ". Times are closed_loop round trips, not halved, unless the column says otherwise."
        }
        details.long { summary { "Show all of them" } (table) }
        (definitions(&entries))
    })
}

const HEADS: [&str; 13] = [
    "mechanism",
    "exchange",
    "#size",
    "wait",
    "where",
    "conditions",
    "counted",
    "#figure",
    "#95 % interval",
    "#p99",
    "#CPU per message",
    "#to floor",
    "grade",
];

fn row(entry: &Entry<'_>) -> Vec<Slot> {
    let (key, cell) = (&entry.key, entry.cell);
    let figure = text::figure(cell);
    let unit = figure.map_or("", |(_, _, unit)| unit);
    let shape = match key.kind {
        Kind::Latency => text::plain(&key.shape),
        Kind::Throughput => "one way".to_owned(),
    };
    let list = match key.list {
        List::Bare => " (bare)",
        List::Parts => " (part)",
        _ => "",
    };
    let ratio = cell.ratio_to_floor.filter(|ratio| ratio.is_finite());
    let p99 = cell.rtt_ns.as_ref().and_then(|times| times.p99);
    vec![
        Slot::text(text::plain(&key.mechanism) + list),
        Slot::text(shape),
        Slot::Figure(number::size(key.message_bytes), Some(key.message_bytes as f64)),
        Slot::text(text::plain(&key.wait)),
        Slot::text(text::plain(&key.class)),
        Slot::text(text::conditions(key)),
        Slot::text(key.definition.name()),
        Slot::value(figure.map(|(value, ..)| value), unit),
        Slot::interval(figure.and_then(|(_, ci95, _)| ci95), unit),
        Slot::value(p99, "ns"),
        Slot::value(cell.cpu_ns(), "ns"),
        Slot::Figure(ratio.map_or_else(|| number::MISSING.to_owned(), number::ratio), ratio),
        Slot::Grade(cell.grade),
    ]
}

/// What the figures of a table mean: one line for each definition that occurs.
fn definitions(entries: &[&Entry<'_>]) -> Markup {
    let mut seen: Vec<Definition> = entries.iter().map(|entry| entry.key.definition).collect();
    seen.sort_unstable();
    seen.dedup();
    html! {
        ul.definitions {
            @for definition in seen {
                @let (title, meaning) = definition.title_and_meaning();
                li { code { (definition.name()) } ": " (title) ", " (meaning) "." }
            }
        }
    }
}

/// What was measured on more than one machine, one column per machine.
pub(super) fn side_by_side(hosts: &[Host<'_>]) -> Markup {
    let rows = shared(hosts);
    let mut heads = vec!["what was measured".to_owned()];
    for (index, host) in hosts.iter().enumerate() {
        let name = name(host, index, hosts.len());
        heads.extend([format!("#{name}"), "#95 % interval".to_owned(), "grade".to_owned()]);
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let title = "The same measurement on each machine; nothing is averaged";
    let mut table = Table::new("machines-table", title, &heads);
    for (key, cells) in rows.iter().take(ROWS_MAX) {
        let mut row = vec![Slot::text(text::plain(&key.to_string()))];
        for entry in cells {
            let figure = entry.and_then(|entry| text::figure(entry.cell));
            let unit = figure.map_or("", |(_, _, unit)| unit);
            row.push(Slot::value(figure.map(|(value, ..)| value), unit));
            row.push(Slot::interval(figure.and_then(|(_, ci95, _)| ci95), unit));
            row.push(Slot::Grade(entry.and_then(|entry| entry.cell.grade)));
        }
        table.row(row);
    }
    html! {
        @if table.is_empty() {
            p.missing { "No measurement was made on more than one of these machines." }
        } @else {
            p {
                (rows.len()) " measurements were made on more than one machine. Whether a \
                 difference is more than chance, " code { "nearcall compare A.json B.json" }
                " tells."
            }
            (table)
        }
    }
}

/// Keys of more than one machine with the entry of each. Pairs of CPUs have no counterpart on
/// another machine; their class has.
fn shared<'a>(hosts: &'a [Host<'a>]) -> Vec<(&'a CellKey, Vec<Option<&'a Entry<'a>>>)> {
    let mut found: BTreeMap<&CellKey, Vec<Option<&Entry<'_>>>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate() {
        for entry in host.entries.iter().filter(|entry| entry.key.list != List::StudyCells) {
            found.entry(&entry.key).or_insert_with(|| vec![None; hosts.len()])[index] = Some(entry);
        }
    }
    let several = |cells: &Vec<Option<&Entry<'_>>>| cells.iter().flatten().count() > 1;
    found.into_iter().filter(|(_, cells)| several(cells)).collect()
}

/// A tour of everything has hundreds; a file may claim more.
const ROWS_MAX: usize = 2_000;
