//! `nearcall mechanisms`: the mechanisms, their capabilities, and what works here.
//!
//! **Not here:** the facts, which are those of `nearcall_channel::mechanism`.

use clap::Args;
use nearcall_channel::{Capabilities, DataPath, Mechanism};
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::number;
use nearcall_results::report::table::grid::{Align, Grid};
use serde::Serialize;

use super::End;
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// List the mechanisms, their capabilities, and what works here
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct MechanismsArgs {
    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &MechanismsArgs) -> anyhow::Result<End> {
    let rows: Vec<Row> = Mechanism::all().map(Row::of).collect();
    if args.format.json {
        output::json(&Document { schema: SCHEMA, mechanisms: rows })?;
    } else {
        output::result(&text(&rows, style()))?;
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
    #[serde(with = "Abilities")]
    capabilities: Capabilities,
    /// A server opens it for every client unless it names other mechanisms.
    offered_by_default: bool,
    /// Why it is not.
    reason_to_be_named: Option<&'static str>,
    /// It exists to be compared with, and is never advised.
    measured_only: bool,
    /// An event loop serves one connection of it.
    one_client_in_a_loop: bool,
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
            capabilities: mechanism.capabilities(),
            offered_by_default: mechanism.offered_by_default(),
            reason_to_be_named: mechanism.reason_to_be_named(),
            measured_only: mechanism.measured_only(),
            one_client_in_a_loop: mechanism.one_client_in_a_loop(),
            supported: reason.is_none(),
            reason,
        }
    }
}

/// [`Capabilities`] as JSON has them.
#[derive(Serialize)]
#[serde(remote = "Capabilities")]
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

/// What users choose by, in the order of [`HEAD`].
fn in_columns(can: &Capabilities) -> [bool; 9] {
    [
        can.pollable,
        can.same_cpu_safe,
        can.descriptor_passing,
        can.survives_oversized,
        can.isolation,
        can.tells_of_death,
        can.delivers_after_death,
        can.kill_safe,
        can.vanishes_with_both,
    ]
}

fn text(rows: &[Row], style: Style) -> String {
    let mut out = document::Document::default();
    let mut grid = Grid::new(&HEAD).compact();
    for path in [DataPath::KernelCopies, DataPath::SharedMemory] {
        grid.heading(match path {
            DataPath::KernelCopies => "The kernel copies".to_owned(),
            DataPath::SharedMemory => "Shared memory".to_owned(),
        });
        for row in rows.iter().filter(|row| row.data_path == path.name()) {
            grid.row(cells(row));
            if !row.supported {
                grid.paint(HERE, Ink::Bad);
            }
        }
    }
    out.grid(grid);
    let missing: Vec<&Row> = rows.iter().filter(|row| !row.supported).collect();
    if !missing.is_empty() {
        out.blank();
        out.title("Not here");
        for row in &missing {
            let reason = row.reason.as_deref().unwrap_or_default();
            out.wrap(&format!("  {:<NAME$}", row.name), reason);
        }
    }
    out.blank();
    out.title("Why a server has to name it");
    for row in rows {
        if let Some(reason) = row.reason_to_be_named {
            out.wrap(&format!("  {:<NAME$}", row.name), reason);
        }
    }
    out.blank();
    for (label, meaning) in LEGEND {
        out.wrap_in(Ink::Note, &format!("  {label:<NAME$}"), meaning);
    }
    out.wrap_in(Ink::Note, "  ", "In parentheses: the name for `nearcall advise --needs`.");
    let here = rows.len() - missing.len();
    out.answer(format!("{here} of {} mechanisms work here.", rows.len()));
    out.text(style)
}

fn cells(row: &Row) -> Vec<String> {
    let unit = row.capabilities.atomic_message_bytes_max;
    let mut cells = vec![row.name.to_owned()];
    let can = |can: bool| if can { "yes" } else { number::MISSING }.to_owned();
    cells.extend(in_columns(&row.capabilities).map(can));
    cells.push(unit.map_or_else(|| number::MISSING.to_owned(), |max| number::size(max.into())));
    cells.push(can(row.offered_by_default));
    cells.push(
        match (row.measured_only, row.one_client_in_a_loop) {
            (true, _) => "never",
            (false, true) => "1 client",
            (false, false) => "yes",
        }
        .to_owned(),
    );
    cells.push(if row.supported { "yes" } else { "no" }.to_owned());
    cells.extend([row.wake_up.to_owned(), row.waits.join(" ")]);
    cells
}

const SCHEMA: &str = "nearcall.mechanisms/1";

/// The width of the first column of what stands below the table, the gap included.
const NAME: usize = 16;

const HEAD: [(&str, Align, usize); 16] = [
    ("", Align::Left, 0),
    ("event\nloop", Align::Right, 0),
    ("same\nCPU", Align::Right, 0),
    ("passes\nfds", Align::Right, 0),
    ("over-\nsized", Align::Right, 0),
    ("iso-\nlated", Align::Right, 0),
    ("sees\ndeath", Align::Right, 0),
    ("delivers", Align::Right, 0),
    ("kill-\nsafe", Align::Right, 0),
    ("leaves\nnothing", Align::Right, 0),
    ("unit", Align::Right, 0),
    ("offered", Align::Right, 0),
    ("advised", Align::Right, 0),
    ("here", Align::Left, 0),
    ("wake-up", Align::Left, 0),
    ("waits", Align::Text, 0),
];

/// The column of whether the mechanism works here.
const HERE: usize = 13;

const LEGEND: [(&str, &str); 13] = [
    ("event loop", "an end can wait for it in epoll (pollable)"),
    ("same CPU", "both ends can share one CPU without a loss (same-cpu-safe)"),
    ("passes fds", "its channel can pass descriptors; calls carry none (descriptor-passing)"),
    ("oversized", "messages may be larger than its buffer (survives-oversized)"),
    ("isolated", "a hostile peer reaches neither sent data nor locks (isolation)"),
    ("sees death", "it reports the death of the other end by itself (crash-detection)"),
    ("delivers", "what a killed end has sent still arrives (delivers-after-death)"),
    ("kill-safe", "a kill leaves no lock taken or broken (kill-safe)"),
    ("leaves nothing", "if both ends are killed, nothing stays behind (nothing-left)"),
    ("unit", "the largest message that travels in one piece, where there are pieces"),
    ("offered", "servers open it for every client; the others only if they name it (`?allow=`)"),
    (
        "advised",
        "never: it exists to be compared with; 1 client: a server with an event loop serves one \
         only",
    ),
    ("waits", "how an end can wait; the default first"),
];

const EXAMPLES: &str = "\
Examples:
  nearcall mechanisms
  nearcall mechanisms --json | jq '.mechanisms[] | select(.supported) | .name'";

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of documents: what a server offers, and why not the rest.
    fn markdown() -> String {
        let mut out =
            String::from("| mechanism | offered | why a server has to name it |\n|---|---|---|\n");
        for mechanism in Mechanism::all() {
            let (offered, why) = match mechanism.reason_to_be_named() {
                None => ("by default", ""),
                Some(reason) => ("when named", reason),
            };
            out.push_str(&format!("| `{mechanism}` | {offered} | {why} |\n"));
        }
        out
    }

    #[test]
    fn documents_have_the_table_of_what_servers_offer() {
        const BEGIN: &str = "<!-- offered mechanisms: from the code -->\n";
        const END: &str = "<!-- end of offered mechanisms -->";
        for document in ["SECURITY.md", "docs/book/src/reference/mechanisms.md"] {
            let path = format!("{}/../../{document}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let table = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
            match table {
                Some((table, _)) => {
                    let expected = markdown();
                    assert_eq!(table, expected, "put this into {document}:\n{expected}");
                }
                None => panic!("{document} lacks {BEGIN}{}{END}", markdown()),
            }
        }
    }

    #[test]
    fn the_table_fits_every_terminal_and_has_every_mechanism() {
        let mut rows: Vec<Row> = Mechanism::all().map(Row::of).collect();
        rows[3].supported = false;
        rows[3].reason = Some("a long reason ".repeat(20));
        for width in 40..=200 {
            let found = text(&rows, Style::new(Some(width), false));
            for found_line in found.lines() {
                assert!(found_line.chars().count() <= width, "{width}: {found_line}");
                assert_eq!(found_line.trim_end(), found_line);
            }
            for mechanism in Mechanism::all() {
                let start = format!("\n  {mechanism} ");
                assert!(found.contains(&start), "{mechanism} is missing in\n{found}");
            }
            assert!(found.contains("Not here\n"), "{found}");
        }
    }
}
