//! `nearcall mechanisms`: the table of mechanisms, and what works here.
//!
//! The facts are those of `nearcall_channel::mechanism`; this file only arranges them.

use nearcall_bench::report::number;
use nearcall_channel::{Capabilities, DataPath, Mechanism};
use serde::Serialize;

use super::End;
use crate::args::JsonArgs;
use crate::output::{self, wrap};

pub(super) fn run(args: &JsonArgs) -> anyhow::Result<End> {
    let rows: Vec<Row> = Mechanism::all().map(Row::of).collect();
    if args.json {
        output::json(&Document { schema: SCHEMA, mechanisms: rows })?;
    } else {
        output::result(&text(&rows))?;
    }
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    mechanisms: Vec<Row>,
}

/// One mechanism.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    summary: &'static str,
    /// "kernel copies" or "shared memory".
    data_path: &'static str,
    wake_up: &'static str,
    /// The usual one first.
    waits: Vec<&'static str>,
    capabilities: Abilities,
    supported: bool,
    /// Why it is not.
    reason: Option<String>,
}

impl Row {
    fn of(mechanism: Mechanism) -> Self {
        let reason = mechanism.supported().err();
        Self {
            name: mechanism.name(),
            summary: mechanism.summary(),
            data_path: mechanism.data_path().name(),
            wake_up: mechanism.wake_up(),
            waits: mechanism.waits().iter().map(|wait| wait.name()).collect(),
            capabilities: mechanism.capabilities().into(),
            supported: reason.is_none(),
            reason,
        }
    }
}

/// [`Capabilities`] with the names that they have in JSON.
#[derive(Clone, Copy, Serialize)]
struct Abilities {
    pollable: bool,
    needs_spinning: bool,
    same_cpu_safe: bool,
    descriptor_passing: bool,
    survives_oversized: bool,
    atomic_message_bytes_max: Option<u32>,
    isolation: bool,
    tells_of_death: bool,
    delivers_after_death: bool,
    kill_safe: bool,
    vanishes_with_both: bool,
}

impl From<Capabilities> for Abilities {
    fn from(from: Capabilities) -> Self {
        let Capabilities {
            pollable,
            needs_spinning,
            same_cpu_safe,
            descriptor_passing,
            survives_oversized,
            atomic_message_bytes_max,
            isolation,
            tells_of_death,
            delivers_after_death,
            kill_safe,
            vanishes_with_both,
        } = from;
        Self {
            pollable,
            needs_spinning,
            same_cpu_safe,
            descriptor_passing,
            survives_oversized,
            atomic_message_bytes_max,
            isolation,
            tells_of_death,
            delivers_after_death,
            kill_safe,
            vanishes_with_both,
        }
    }
}

impl Abilities {
    /// A letter for each thing that it can do, a dash for each that it cannot; see [`LEGEND`].
    fn letters(self) -> String {
        let letters = [
            ('e', self.pollable),
            ('c', self.same_cpu_safe),
            ('f', self.descriptor_passing),
            ('o', self.survives_oversized),
            ('i', self.isolation),
            ('d', self.tells_of_death),
            ('u', self.delivers_after_death),
            ('k', self.kill_safe),
            ('v', self.vanishes_with_both),
        ];
        letters.map(|(letter, can)| if can { letter } else { '-' }).iter().collect()
    }
}

fn text(rows: &[Row]) -> String {
    let head = ["", "wake-up", "waits", "can", "unit", "here"].map(str::to_owned);
    let cells: Vec<[String; 6]> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let all = cells.iter().chain([&head]).map(|row| row[column].chars().count());
        all.max().unwrap_or_default() + GAP
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut out = line(&head, widths);
    for path in [DataPath::KernelCopies, DataPath::SharedMemory] {
        out.push_str(match path {
            DataPath::KernelCopies => "\nThe kernel copies\n",
            DataPath::SharedMemory => "\nShared memory\n",
        });
        let of_path = rows.iter().zip(&cells).filter(|(row, _)| row.data_path == path.name());
        of_path.for_each(|(_, cells)| out.push_str(&line(cells, widths)));
    }
    let missing: Vec<&Row> = rows.iter().filter(|row| !row.supported).collect();
    if !missing.is_empty() {
        out.push_str("\nNot here\n");
        for row in missing {
            let reason = row.reason.as_deref().unwrap_or_default();
            wrap(&mut out, &format!("  {:<NAME$}", row.name), reason);
        }
    }
    out.push('\n');
    for (label, meaning) in LEGEND {
        wrap(&mut out, &format!("  {label:<NAME$}"), meaning);
    }
    out
}

fn cells(row: &Row) -> [String; 6] {
    let unit = row.capabilities.atomic_message_bytes_max;
    [
        row.name.to_owned(),
        row.wake_up.to_owned(),
        row.waits.join(" "),
        row.capabilities.letters(),
        unit.map_or_else(|| number::MISSING.to_owned(), |max| number::size(max.into())),
        if row.supported { "yes" } else { "no" }.to_owned(),
    ]
}

fn line(cells: &[String; 6], widths: [usize; 6]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    format!("  {}", padded.collect::<String>()).trim_end().to_owned() + "\n"
}

const SCHEMA: &str = "nearcall.mechanisms/1";

/// Blanks between two columns.
const GAP: usize = 2;

/// The width of the first column of what stands below the table, the gap included.
const NAME: usize = 16;

const LEGEND: [(&str, &str); 4] = [
    ("waits", "how an end can wait; the usual way first"),
    (
        "can",
        "e: wait in an event loop, c: both ends on one CPU, f: pass file descriptors, o: carry \
         messages larger than its buffer",
    ),
    (
        "",
        "i: keep a hostile peer from our data and locks, d: tell of the other end's death by \
         itself, u: deliver what a killed end had sent, k: no lock is broken by a kill, v: leave \
         nothing behind if both ends are killed",
    ),
    ("unit", "the largest message that travels in one piece, where there are pieces"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_100_columns_and_has_every_mechanism() {
        let mut rows: Vec<Row> = Mechanism::all().map(Row::of).collect();
        rows[3].supported = false;
        rows[3].reason = Some("a long reason ".repeat(20));
        let found = text(&rows);
        for found_line in found.lines() {
            assert!(found_line.chars().count() <= output::COLUMNS, "{found_line}");
            assert_eq!(found_line.trim_end(), found_line);
        }
        for mechanism in Mechanism::all() {
            let start = format!("\n  {mechanism} ");
            assert!(found.contains(&start), "{mechanism} is missing in\n{found}");
        }
        assert!(found.contains("Not here\n"), "{found}");
    }
}
