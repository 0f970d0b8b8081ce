//! From every CPU to every other: a square of medians.

use std::collections::BTreeSet;

use crate::report::chart::Frame;
use crate::report::chart::axis::drawable;
use crate::report::chart::heat::{Field, Heat};
use crate::report::hosts::{Entry, Host};
use crate::report::number::{self, Unit};
use crate::report::table::{CPUS_MAX, classes};
use crate::run::fact;

use super::group::{Group, groups_by, is_disturbed};
use super::{Figure, words};

/// The square of the exchange of which most pairs were measured.
pub(super) fn figure(host: &Host<'_>) -> Option<Figure> {
    let group = most_pairs(host)?;
    let ends: BTreeSet<u32> = group.entries.iter().filter_map(|e| e.key.pair).flatten().collect();
    let cpus: Vec<u32> = ends.into_iter().collect();
    if !(2..=CPUS_MAX).contains(&cpus.len()) {
        return None;
    }
    let place = |cpu: u32| cpus.iter().position(|one| *one == cpu);
    let field = |entry: &&Entry<'_>| {
        let [client, server] = entry.key.pair?;
        let found = median(entry)?;
        let label = words::label(Unit::Time, found, None, entry);
        Some(Field {
            row: place(client)?,
            column: place(server)?,
            value: found,
            hollow: is_disturbed(entry),
            label: format!("CPU {client} to {server}: {label}"),
        })
    };
    let fields: Vec<Field> = group.entries.iter().filter_map(field).collect();
    let key = &group.entries.first()?.key;
    let (name, size) = (words::clean(&key.mechanism), number::size(key.message_bytes));
    let title = format!("From every CPU to every other: {name}, {size}");
    let desc = format!("A square of {} pairs of {} CPUs.", fields.len(), cpus.len());
    let names = cpus.iter().map(u32::to_string).collect();
    let heat = Heat { names, fields, titles: ["CPU of the client", "CPU of the server"] };
    let cells: Vec<_> = group.entries.iter().map(|entry| entry.cell).collect();
    let table = classes(&cells);
    table.texts().next()?;
    Some(Figure {
        svg: heat.draw(&Frame { id: "matrix", title: &title, desc: &desc }),
        id: "matrix".to_owned(),
        title,
        caption: words::caption("Median of each pair, the darker the longer.", &group),
        table,
        notes: words::disturbed(&group).into_iter().collect(),
    })
}

fn median(entry: &Entry<'_>) -> Option<f64> {
    fact::P50.valid(entry.cell).map(|found| found.value).filter(|value| drawable(*value))
}

/// The exchange of which most pairs were measured, across the placements of its pairs.
fn most_pairs<'a>(host: &'a Host<'a>) -> Option<Group<'a>> {
    let keep = |entry: &Entry<'_>| entry.key.pair.is_some() && median(entry).is_some();
    let groups = groups_by(host, keep, |key| {
        let mut same = key.clone();
        (same.class, same.pair) = (String::new(), None);
        same
    });
    // Of equal ones the first, which is the last of the other way round.
    let pairs = |group: &Group<'_>| {
        let pairs: BTreeSet<_> = group.entries.iter().map(|entry| entry.key.pair).collect();
        pairs.len()
    };
    groups.into_iter().rev().max_by_key(pairs)
}
