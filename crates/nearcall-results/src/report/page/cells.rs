//! Tables of cells: the floors, every figure of a machine, and machines beside each other.
//!
//! **Invariants:** a table holds figures of one definition, which it states; times stand as
//! medians, rates as messages per second, so that a column has one unit.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::table::Table;
use super::text::capital;
use super::{name, text};
use crate::report::columns::{self, Column, shown, table};
use crate::report::hosts::{Entry, Host};
use crate::report::number::{self, Measured};
use crate::report::table::class_words;
use crate::report::table::grid::{Align, Grid};
use crate::run::fact::{self, Fact};
use crate::run::{Cell, CellKey, Definition, List};

/// The same exchanges without nearcall.
pub(super) fn floors(host: &Host<'_>, id: &str) -> Option<Markup> {
    if host.entries.is_empty() {
        return None;
    }
    let floors = of_lists(host, &[List::Floors]);
    if floors.is_empty() {
        return Some(html! {
            p.missing {
                "These runs have no floors, so no bound can be drawn and no ratio given. A run of "
                code { "nearcall bench" } " measures them beside everything else."
            }
        });
    }
    Some(html! {
        p {
            "A floor is the bare exchange, without nearcall: what a mechanism takes above it is \
             the price of the mechanism. Where a cell has a floor, the ratio to it stands in the \
             tables of every figure; 1.00× is as good as it gets."
        }
        @for (definition, floors) in by_definition(&floors) {
            (of_definition(definition, &floors, id))
        }
    })
}

/// Every cell but those of studies, which stand in the tables of the studies.
pub(super) fn all(host: &Host<'_>, id: &str) -> Option<Markup> {
    let entries = of_lists(host, &[List::Cells, List::Bare, List::Parts, List::Libraries]);
    if entries.is_empty() {
        return Some(html! { p.missing { "These runs have no cells of their own." } });
    }
    Some(html! {
        p {
            (entries.len()) " cells"
            @if host.superseded > 0 {
                "; " (host.superseded) " more were measured again by a later run, which counts"
            }
            ". A table holds what is counted in the same way."
        }
        @for (definition, entries) in by_definition(&entries) {
            details.long {
                summary { (definition.title_and_meaning().0) ": " (entries.len()) " cells" }
                (of_definition(definition, &entries, id))
            }
        }
    })
}

fn of_lists<'a>(host: &'a Host<'a>, lists: &[List]) -> Vec<&'a Entry<'a>> {
    host.entries.iter().filter(|entry| lists.contains(&entry.key.list)).collect()
}

fn by_definition<'a>(entries: &[&'a Entry<'a>]) -> BTreeMap<Definition, Vec<&'a Entry<'a>>> {
    let mut found: BTreeMap<Definition, Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in entries {
        found.entry(entry.key.definition).or_default().push(entry);
    }
    found
}

fn of_definition(definition: Definition, entries: &[&Entry<'_>], id: &str) -> Markup {
    let (title, meaning) = definition.title_and_meaning();
    let figure = match is_rate(definition) {
        true => "messages per second",
        false if entries.iter().any(|entry| mean(entry.cell).is_some()) => {
            "median, where the conditions say mean that"
        }
        false => "median",
    };
    let caption = format!(
        "{title}: {meaning}. {}, 95 % interval over launches{}",
        capital(figure),
        cut(entries.len()),
    );
    let entries = entries.iter().copied().take(ROWS_MAX);
    let id = format!("{id}-{}", definition.name());
    html! { (Table::new(&id, caption, &table(&columns(definition), entries))) }
}

/// Said where a table does not hold all.
fn cut(rows: usize) -> String {
    match rows > ROWS_MAX {
        true => format!("; the first {ROWS_MAX} of {rows}, `nearcall report --csv` has all"),
        false => String::new(),
    }
}

const fn is_rate(definition: Definition) -> bool {
    matches!(definition, Definition::OneWayThroughput)
}

/// The columns of cells of one definition.
fn columns<'a>(definition: Definition) -> Vec<Column<Entry<'a>>> {
    let begin: [Column<Entry<'a>>; 6] = [
        Column::words("mechanism", 0, |one| text::plain(&one.key.mechanism) + list(&one.key)),
        Column::words("exchange", 0, |one| text::plain(&one.key.shape)),
        Column::figure("size", 0, |one| number::size(one.key.message_bytes)),
        Column::words("wait", 0, |one| text::plain(&one.key.wait)),
        Column::words("where", 0, |one| class_words(&one.key.class)),
        Column::words("conditions", 0, |one| conditions(&one.key, mean(one.cell).is_some())),
    ];
    let of = |column: Column<Cell>| column.on(|one: &Entry<'_>| one.cell);
    let fact = fact_of(definition);
    let value = of(Column::fact(fact));
    let figures = match is_rate(definition) {
        true => vec![
            value.named("messages per second"),
            of(Column::interval(fact)),
            of(Column::fact(&fact::BYTES)).named("bytes per second"),
        ],
        false => vec![
            value,
            of(Column::interval(fact)),
            of(columns::P99),
            of(Column::fact(&fact::CALLS)).named("calls per second"),
        ],
    };
    let end = [
        of(columns::CPU).named("CPU per message"),
        of(Column::fact(&fact::TO_FLOOR)),
        of(columns::GRADE),
    ];
    begin.into_iter().chain(figures).chain(end).collect()
}

/// The mark of a cell whose list may hold a cell that is alike.
const fn list(key: &CellKey) -> &'static str {
    match key.list {
        List::Bare => " (bare)",
        List::Parts => " (part)",
        List::Libraries => " (library)",
        List::Cells | List::Floors | List::StudyCells => "",
    }
}

/// What is special about a cell; also that its figure is no median.
fn conditions(key: &CellKey, is_mean: bool) -> String {
    let mut words = text::conditions(key);
    if is_mean {
        words.push_str(if words.is_empty() { MEAN } else { ", mean" });
    }
    words
}

/// The figure of a definition: one unit for all cells that have it.
const fn fact_of(definition: Definition) -> &'static Fact {
    if is_rate(definition) { &fact::MESSAGES } else { &TYPICAL }
}

/// The median, or the mean of a cell that has nothing else.
const TYPICAL: Fact = Fact {
    of: |cell| match mean(cell) {
        Some(value) => Some(Measured { value, ci95: None }),
        None => (fact::P50.of)(cell),
    },
    ..fact::P50
};

/// The mean of a cell that has nothing else, as cells of published data sets.
fn mean(cell: &Cell) -> Option<f64> {
    let times = cell.rtt_ns.as_ref().filter(|times| times.p50.is_none())?;
    times.mean.filter(|_| cell.tags.iter().any(|tag| tag == MEAN))
}

/// The tag of cells of which only means are stored.
const MEAN: &str = "mean";

/// What was measured on more than one machine, one column per machine.
pub(super) fn side_by_side(hosts: &[Host<'_>]) -> Markup {
    let rows = shared(hosts);
    let mut definitions: Vec<Definition> = rows.iter().map(|(key, _)| key.definition).collect();
    definitions.sort_unstable();
    definitions.dedup();
    html! {
        @if rows.is_empty() {
            p.missing { "No measurement was made on more than one of these machines." }
        } @else {
            p {
                (rows.len()) " measurements were made on more than one machine; nothing is \
                 averaged. "
                code { "nearcall compare A.json B.json" } " decides whether a difference is more \
                 than chance."
            }
        }
        @for definition in definitions { (beside(hosts, definition, &rows)) }
    }
}

fn beside(hosts: &[Host<'_>], definition: Definition, rows: &[Shared<'_>]) -> Table {
    let names = hosts.iter().enumerate().map(|(index, host)| name(host, index, hosts.len()));
    let names: Vec<String> = names.collect();
    let mut heads = vec![("what was measured", Align::Left, 0)];
    for name in &names {
        heads.push((name, Align::Right, 0));
        heads.extend([("95 % interval", Align::Right, 0), ("grade", Align::Grade, 0)]);
    }
    let (title, meaning) = definition.title_and_meaning();
    let rows: Vec<&Shared<'_>> =
        rows.iter().filter(|(key, _)| key.definition == definition).collect();
    let is_mean = |entry: &&Entry<'_>| mean(entry.cell).is_some();
    let means = rows.iter().any(|(_, cells)| cells.iter().flatten().any(is_mean));
    let means = if means { "; rows that end with mean have means, the others medians" } else { "" };
    let caption = format!("{title}: {meaning}{}{means}", cut(rows.len()));
    let fact = fact_of(definition);
    let columns = [Column::fact(fact), Column::interval(fact), columns::GRADE];
    let mut grid = Grid::new(&heads);
    for (key, cells) in rows.into_iter().take(ROWS_MAX) {
        let word = if cells.iter().flatten().any(is_mean) { ", mean" } else { "" };
        let what = text::plain(&key.to_string()).replace(&key.class, &class_words(&key.class));
        let mut row = vec![what + list(key) + word];
        for entry in cells {
            let texts = columns.map(|column| entry.map(|entry| column.text(entry.cell)));
            row.extend(texts.map(shown));
        }
        grid.row(row);
    }
    Table::new(&format!("side-by-side-{}", definition.name()), caption, &grid)
}

/// A key, and what each machine has of it.
type Shared<'a> = (&'a CellKey, Vec<Option<&'a Entry<'a>>>);

/// Keys of more than one machine with the entry of each.
fn shared<'a>(hosts: &'a [Host<'a>]) -> Vec<Shared<'a>> {
    let mut found: BTreeMap<&CellKey, Vec<Option<&Entry<'_>>>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate() {
        for entry in host.entries.iter().filter(|entry| entry.key.list != List::StudyCells) {
            found.entry(&entry.key).or_insert_with(|| vec![None; hosts.len()])[index] = Some(entry);
        }
    }
    let several = |cells: &Vec<Option<&Entry<'_>>>| cells.iter().flatten().count() > 1;
    found.into_iter().filter(|(_, cells)| several(cells)).collect()
}

/// A longer table is for a program: `--csv` has all.
const ROWS_MAX: usize = 200;
