//! What connections and services take of memory: a block for each question.

mod map;

use super::grid::clean;
use super::head;
use crate::findings::memory::{ConnectionMemory, MemoryFindings, Setup, SetupMemory, SetupsMemory};
use crate::report::columns::{self, Column, figure, shown, time};
use crate::report::document::Document;
use crate::report::lines::Style;
use crate::report::number;
use crate::stats;

/// Renders the findings. Ends with a line break.
#[must_use]
pub fn table(found: &MemoryFindings, style: Style) -> String {
    let mut out = Document::default();
    head::print_tool(&mut out, &found.tool, found.started_unix_s);
    if let Some(reason) = &found.partial {
        out.wrap("PARTIAL   ", format!("{}; figures are missing", clean(reason)));
    }
    out.blank();
    head::print_machine(&mut out, &found.machine);
    for warning in &found.warnings {
        out.wrap("  warning   ", clean(warning));
    }
    print_growth(&mut out, &found.connections);
    if let Some(setups) = &found.setups {
        print_setups(&mut out, setups);
    }
    map::print(&mut out, &found.maps);
    if !found.skipped.is_empty() {
        out.part("Skipped");
        for skip in &found.skipped {
            out.wrap(&label(&skip.what), clean(&skip.reason));
        }
    }
    out.answer(answer(found));
    out.text(style)
}

fn print_growth(out: &mut Document, connections: &[ConnectionMemory]) {
    if connections.is_empty() {
        return;
    }
    out.part("Each idle connection takes (slope over all levels)");
    out.table(&GROWTH, connections);
    for one in connections {
        let reasons = [("stopped", &one.stopped), ("unknown", &one.unreadable)];
        for (what, reason) in reasons {
            if let Some(reason) = reason {
                out.wrap(&label(what), format!("{}: {}", clean(&one.mechanism), clean(reason)));
            }
        }
    }
    out.note(GROWTH_LEGEND);
}

/// What ended the allocations, and how many of them do not count.
fn print_limit(out: &mut Document, limit: &str, uncounted: u32) {
    out.wrap(&label("limit"), clean_long(limit));
    if uncounted > 0 {
        let text = format!(
            "{uncounted} allocations do not count: others moved the machine's memory by more than \
             2 MiB meanwhile, or something else than the limit ended them"
        );
        out.wrap(&label("others"), &text);
    }
}

fn print_setups(out: &mut Document, found: &SetupsMemory) {
    let rounds = found.setups.iter().map(|one| one.pss_bytes.len()).max().unwrap_or(0);
    out.part(format!("Services in processes, in libraries and linked; median of {rounds} rounds"));
    out.grid(
        columns::grouped(&SETUPS, &found.setups, |one| match one.services {
            1 => "1 service".to_owned(),
            services => format!("{services} services"),
        })
        .compact(),
    );
    print_limit(out, &found.limit, found.uncounted);
    if let Some(reason) = &found.partial {
        out.wrap(&label("partial"), clean(reason));
    }
    out.note(SETUPS_LEGEND);
}

/// What the most services take in each set-up.
fn setups_answer(found: &SetupsMemory) -> Option<String> {
    let services = found.setups.iter().map(|one| one.services).max()?;
    let pss = |setup| {
        let one: &SetupMemory = found.of(setup, services)?;
        stats::median(&floats(&one.pss_bytes))
    };
    let processes = pss(Setup::Processes)?;
    let beside = |setup| {
        let bytes = pss(setup)?;
        Some(format!("{} ({})", number::memory(bytes), number::ratio(bytes / processes)))
    };
    Some(format!(
        "{services} services take {} as processes, {} as libraries of one host, {} linked into one \
         program (PSS).",
        number::memory(processes),
        beside(Setup::Libraries)?,
        beside(Setup::Linked)?,
    ))
}

/// Which mechanism's connections take least, and what services take in each set-up.
fn answer(found: &MemoryFindings) -> String {
    let connections = found.connections.iter();
    let touched = connections.map(|one| Some((one.per_connection.touched_bytes?, one)));
    let mut all: Vec<(f64, &ConnectionMemory)> = touched.flatten().collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let text = |(bytes, one): &(f64, &ConnectionMemory)| {
        format!("{}, {}", clean(&one.mechanism), signed(Some(*bytes)))
    };
    let mut parts = Vec::new();
    if let Some(least) = all.first() {
        let next = all.get(1).map(|next| format!("; next is {}", text(next))).unwrap_or_default();
        parts.push(format!("Least memory for an idle connection: {}{next}.", text(least)));
    }
    parts.extend(found.setups.as_ref().and_then(setups_answer));
    parts.extend(map::answer(&found.maps));
    parts.join(" ")
}

/// Text of ours that may be longer than what a file's text may be.
fn clean_long(text: &str) -> String {
    text.split_whitespace().map(clean).collect::<Vec<_>>().join(" ")
}

fn label(what: &str) -> String {
    format!("    {:<8} ", clean(what))
}

fn floats(values: &[u64]) -> Vec<f64> {
    values.iter().map(|&value| value as f64).collect()
}

fn median(values: &[u64]) -> String {
    figure(stats::median(&floats(values)), number::memory)
}

/// A difference of two amounts, which may be below zero.
fn signed(bytes: Option<f64>) -> String {
    number::optional(bytes, "bytes")
}

const GROWTH: [Column<ConnectionMemory>; 7] = [
    Column::words("", 14, |one| clean(&one.mechanism)),
    Column::figure("touched", FIGURE, |one| signed(one.per_connection.touched_bytes)),
    Column::figure("server", FIGURE, |one| signed(one.per_connection.server_private_bytes)),
    Column::figure("client", FIGURE, |one| signed(one.per_connection.client_private_bytes)),
    Column::figure("shared", FIGURE, |one| signed(one.per_connection.shared_bytes)),
    Column::figure("machine", FIGURE, |one| signed(one.per_connection.machine_bytes)),
    Column::figure("up to", FIGURE, |one| {
        shown(one.levels.last().map(|level| level.idle_connections))
    }),
];

const SETUPS: [Column<SetupMemory>; 8] = [
    Column::words("", 20, |one| one.setup.name().to_owned()),
    Column::figure("RSS", 9, |one| median(&one.rss_bytes)),
    Column::figure("PSS", 9, |one| median(&one.pss_bytes)),
    Column::figure("private", 9, |one| median(&one.private_bytes)),
    Column::figure("shared", 9, |one| median(&one.shared_bytes)),
    Column::figure("allocmem", 9, |one| signed(stats::median(&one.allocmem_bytes))),
    Column::figure("start-up", 8, |one| time(stats::median(&floats(&one.start_up_ns)))),
    Column::figure("a call", 8, |one| time(stats::median(&one.call_ns))),
];

/// An amount with its unit.
const FIGURE: usize = 10;

const GROWTH_LEGEND: &str = "touched: proportional memory (PSS) of both processes, so what they \
    share counts once. server, client: private memory; each connection has a client of its own. \
    shared: the part in rings and other memory that both map. machine: what the whole machine \
    lost of MemAvailable and of the processors' lists of free pages, with the kernel's buffers and \
    tables, and with what others took meanwhile.";

const SETUPS_LEGEND: &str = "Sums over the processes of a set-up. Each service has a program and a \
    library of its own (copies), so no code is shared but the C library's; linked, all share one \
    copy of nearcall. A host is the program nearcall, as in `nearcall host`. RSS counts a shared \
    page for each process, PSS divides it by the processes that map it, also those of others; \
    private: pages of one process alone; shared: the rest of RSS. allocmem: by how much less could \
    be allocated beside the services in blocks of 1 KiB, the method of the thesis. It differs from \
    PSS in both directions: code in the page cache can be dropped, so it takes nothing that an \
    allocation needs; page tables, stacks in the kernel, descriptors and socket buffers do, and \
    stand in no process's PSS. start-up: from before the first process is started until each \
    service has answered a call. a call: an empty call from one of the services to another; \
    nothing is pinned.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lines::COLUMNS;

    #[test]
    fn the_table_fits_every_page_and_tells_what_is_missing() {
        let text = include_str!("../../../tests/data/findings/memory.json");
        let found = MemoryFindings::parse(text).unwrap().unwrap();
        for width in 40..=200 {
            let text = table(&found, Style::new(Some(width), false));
            assert_eq!(text.lines().find(|line| line.chars().count() > width), None, "{width}");
        }
        let text = table(&found, Style::new(Some(COLUMNS), false));
        assert!(text.lines().all(|line| !line.ends_with('…')), "{text}");
        for part in [
            "PARTIAL   interrupted",
            "19.5 KiB",
            "1000 connections: after 17, too many open files",
            "Permission denied",
            "1 service\n",
            "20 services\n",
            "3 allocations do not count",
            "20.0 MiB (1.00×) as",
            "4.00 MiB   1.00 MiB   1.00 MiB   3.00 MiB          –   5.00 ms         –\n",
            "-2.00 KiB   5.00 ms    250 ns\n",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(MemoryFindings::parse(&found.to_json()), Some(Ok(found)));
        assert_eq!(MemoryFindings::parse(r#"{"schema":"nearcall.run/1"}"#), None);
    }
}
