//! What was measured on more than one machine, a column for each.
//!
//! **Invariants:** a table holds figures of one definition, which it states; nothing is averaged.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::summary::name;
use super::table::Table;
use super::text;
use crate::report::columns::{Column, shown};
use crate::report::hosts::{Entry, Host};
use crate::report::table::class_words;
use crate::report::table::grid::{Align, Grid};
use crate::run::fact;
use crate::run::{CellKey, Definition, List};

/// A key, and what each machine has of it.
type Shared<'a> = (&'a CellKey, Vec<Option<&'a Entry<'a>>>);

/// The tables, folded away.
pub(super) fn section(hosts: &[Host<'_>]) -> Markup {
    let rows = shared(hosts);
    let mut definitions: Vec<Definition> = rows.iter().map(|(key, _)| key.definition).collect();
    definitions.sort_unstable();
    definitions.dedup();
    html! {
        section aria-labelledby="side-by-side" {
            h2 #side-by-side { "Machines side by side" }
            @if rows.is_empty() {
                p.missing { "No measurement was made on more than one of these machines." }
            } @else {
                p {
                    (rows.len()) " measurements were made on more than one machine; nothing is \
                     averaged. "
                    code { "nearcall compare A.json B.json" } " decides whether a difference is \
                     more than chance."
                }
            }
            @for definition in definitions { (beside(hosts, definition, &rows)) }
        }
    }
}

fn beside(hosts: &[Host<'_>], definition: Definition, rows: &[Shared<'_>]) -> Markup {
    let names: Vec<String> =
        hosts.iter().enumerate().map(|(at, host)| name(host, at, hosts.len())).collect();
    let mut heads = vec![("what was measured", Align::Left, 0)];
    for name in &names {
        heads.extend([(name.as_str(), Align::Right, 0), ("95 % interval", Align::Right, 0)]);
    }
    let fact = match definition {
        Definition::OneWayThroughput => &fact::MESSAGES,
        _ => &fact::P50,
    };
    let mut grid = Grid::new(&heads);
    let own = || rows.iter().filter(|(key, _)| key.definition == definition);
    for (key, cells) in own().take(ROWS_MAX) {
        let bare = if key.list == List::Bare { " (bare)" } else { "" };
        let what = text::plain(&key.to_string()).replace(&key.class, &class_words(&key.class));
        let mut row = vec![what + bare];
        for entry in cells {
            let columns = [Column::fact(fact), Column::interval(fact)];
            row.extend(columns.map(|column| shown(entry.map(|entry| column.text(entry.cell)))));
        }
        grid.row(row);
    }
    let cut = match own().count() {
        count if count > ROWS_MAX => format!("; the first {ROWS_MAX} of {count}"),
        _ => String::new(),
    };
    let (title, meaning) = definition.title_and_meaning();
    let id = format!("side-by-side-{}", definition.name());
    html! {
        details {
            summary { (title) ", " (own().count()) " rows" }
            (Table::new(&id, format!("{title}: {meaning}{cut}"), &grid))
        }
    }
}

/// Keys of more than one machine with the entry of each.
fn shared<'a>(hosts: &'a [Host<'a>]) -> Vec<Shared<'a>> {
    let mut found: BTreeMap<&CellKey, Vec<Option<&Entry<'_>>>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate() {
        let own = [List::Cells, List::Bare, List::Floors];
        for entry in host.entries.iter().filter(|entry| own.contains(&entry.key.list)) {
            found.entry(&entry.key).or_insert_with(|| vec![None; hosts.len()])[index] = Some(entry);
        }
    }
    let several = |cells: &Vec<Option<&Entry<'_>>>| cells.iter().flatten().count() > 1;
    found.into_iter().filter(|(_, cells)| several(cells)).collect()
}

/// A longer table is for a program: `--csv` has all.
const ROWS_MAX: usize = 200;
