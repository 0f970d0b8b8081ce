//! `nearcall mechanisms`: the mechanisms, their capabilities, and what works here.
//!
//! **Invariants:** tables fit 80 columns.
//!
//! **Not here:** the facts, which are those of `nearcall_channel::mechanism`.

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

/// A capability: the two lines of its heading, what it means, and whether a mechanism has it.
struct Capability {
    heading: [&'static str; 2],
    meaning: &'static str,
    has: fn(&Abilities) -> bool,
}

const CAPABILITIES: [Capability; 9] = [
    Capability {
        heading: ["event", "loop"],
        meaning: "an event loop can wait for messages on a descriptor (pollable)",
        has: |can| can.pollable,
    },
    Capability {
        heading: ["same", "CPU"],
        meaning: "works well with both ends on one CPU (same-cpu-safe)",
        has: |can| can.same_cpu_safe,
    },
    Capability {
        heading: ["pass", "fds"],
        meaning: "passes file descriptors (descriptor-passing)",
        has: |can| can.descriptor_passing,
    },
    Capability {
        heading: ["any", "size"],
        meaning: "carries messages larger than its buffer (survives-oversized)",
        has: |can| can.survives_oversized,
    },
    Capability {
        heading: ["iso-", "lates"],
        meaning: "a hostile peer can neither change sent data nor hold a lock (isolation)",
        has: |can| can.isolation,
    },
    Capability {
        heading: ["sees", "death"],
        meaning: "reports the death of the other end by itself (crash-detection)",
        has: |can| can.tells_of_death,
    },
    Capability {
        heading: ["keeps", "data"],
        meaning: "delivers what a killed end had sent (delivers-after-death)",
        has: |can| can.delivers_after_death,
    },
    Capability {
        heading: ["kill", "safe"],
        meaning: "a kill leaves no broken lock (kill-safe)",
        has: |can| can.kill_safe,
    },
    Capability {
        heading: ["cleans", "up"],
        meaning: "leaves nothing in the system if both ends are killed (nothing-left)",
        has: |can| can.vanishes_with_both,
    },
];

fn text(rows: &[Row]) -> String {
    let mut out = table(rows, &[WAYS_HEADING.map(str::to_owned).to_vec()], ways);
    out.push('\n');
    let headings: [Vec<String>; 2] = std::array::from_fn(|line| {
        let words = CAPABILITIES.iter().map(|capability| capability.heading[line].to_owned());
        std::iter::once(String::new()).chain(words).collect()
    });
    out.push_str(&table(rows, &headings, capabilities));
    let missing: Vec<&Row> = rows.iter().filter(|row| !row.supported).collect();
    out.push_str(match missing.is_empty() {
        true => "\nAll of them work here.\n",
        false => "\nNot here\n",
    });
    for row in missing {
        let reason = row.reason.as_deref().unwrap_or_default();
        wrap(&mut out, &format!("  {:<LABEL$}", row.name), reason);
    }
    out.push('\n');
    for (label, meaning) in LEGEND {
        wrap(&mut out, &format!("  {label:<LABEL$}"), meaning);
    }
    for Capability { heading: [first, second], meaning, .. } in CAPABILITIES {
        let joined = match first.strip_suffix('-') {
            Some(start) => format!("{start}{second}"),
            None => format!("{first} {second}"),
        };
        wrap(&mut out, &format!("  {joined:<LABEL$}"), meaning);
    }
    wrap(&mut out, "  ", "In parentheses: the name for `nearcall advise --needs`.");
    out
}

/// Wake-up, wait policies and size of a unit.
fn ways(row: &Row) -> Vec<String> {
    let unit = row.capabilities.atomic_message_bytes_max;
    vec![
        row.name.to_owned(),
        row.wake_up.to_owned(),
        row.waits.join(" "),
        unit.map_or_else(|| number::MISSING.to_owned(), |max| number::size(max.into())),
    ]
}

fn capabilities(row: &Row) -> Vec<String> {
    let words = CAPABILITIES.iter().map(|capability| {
        if (capability.has)(&row.capabilities) { "yes" } else { number::MISSING }.to_owned()
    });
    std::iter::once(row.name.to_owned()).chain(words).collect()
}

/// A table of all mechanisms, grouped by data path.
fn table(rows: &[Row], headings: &[Vec<String>], cells: fn(&Row) -> Vec<String>) -> String {
    let all: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in all.iter().chain(headings) {
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        format!("  {}", padded.collect::<Vec<_>>().join(GAP)).trim_end().to_owned() + "\n"
    };
    let mut out: String = headings.iter().map(|heading| line(heading)).collect();
    for path in [DataPath::KernelCopies, DataPath::SharedMemory] {
        out.push_str(match path {
            DataPath::KernelCopies => "The kernel copies\n",
            DataPath::SharedMemory => "Shared memory\n",
        });
        let of_path = rows.iter().zip(&all).filter(|(row, _)| row.data_path == path.name());
        of_path.for_each(|(_, cells)| out.push_str(&line(cells)));
    }
    out
}

const SCHEMA: &str = "nearcall.mechanisms/1";

/// Blanks between two columns.
const GAP: &str = "  ";

/// The width of the labels below the tables, the gap included.
const LABEL: usize = 16;

const WAYS_HEADING: [&str; 4] = ["", "wake-up", "wait policies", "unit"];

const LEGEND: [(&str, &str); 2] = [
    ("wait policies", "how an end can wait; the usual one first"),
    ("unit", "the largest message that travels in one piece, where there are pieces"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_fit_80_columns_and_have_every_mechanism() {
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
        let (tables, _) = found.split_once("\nNot here\n").expect("one is missing");
        assert!(tables.lines().all(|line| line.chars().count() <= 80), "{tables}");
    }
}
