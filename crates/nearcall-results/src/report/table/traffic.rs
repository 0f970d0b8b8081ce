//! Runs of traffic: open loops, gaps, bursts, many clients and threads, connections.
//!
//! Each kind is a [`Form`]: what its rows are grouped by, its columns, and what is asked of it.
//!
//! **Invariants:** the times of a cell that did not keep its pace are not shown; the rate that it
//! reached stands there instead.

use super::answer::{self, Candidate};
use super::cells::{print_left_out, print_legend, print_place};
use super::grid::{clean, clip};
use crate::report::columns::{self, Column};
use crate::report::document::Document;
use crate::report::number::{self, MISSING};
use crate::run::fact::{self, Fact};
use crate::run::{Cell, ClientsFacts, Run};

/// One kind of traffic.
struct Form {
    is_of: fn(&Cell) -> bool,
    /// Rows stand under it that have the same; empty: under none.
    heading: fn(&Cell) -> String,
    /// Groups ascend by it, and the best is sought where it is greatest.
    order: fn(&Cell) -> u64,
    columns: &'static [Column<Cell>],
    /// What is asked of the cells where `order` is greatest.
    question: fn(&[&Cell]) -> String,
    /// What is compared.
    fact: &'static Fact,
    legend: &'static str,
}

/// Whether the run is one of traffic.
pub(super) fn is_of_traffic(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.call.is_none() && cell.pace.is_some())
        || FORMS[..FORMS.len() - 1].iter().any(|form| run.cells.iter().any(form.is_of))
}

fn form_of(run: &Run) -> &'static Form {
    let found = FORMS.iter().find(|form| run.cells.iter().any(form.is_of));
    found.unwrap_or(&FORMS[FORMS.len() - 1])
}

/// Adds the table and what its columns mean.
pub(super) fn print(out: &mut Document, run: &Run) {
    let first = run.cells.first();
    let what = first.map_or_else(String::new, |first| match first.message_bytes {
        0 => format!(" {};", clip(&clean(&first.shape), 20)),
        bytes => format!(" {} of {};", clip(&clean(&first.shape), 20), number::size(bytes)),
    });
    print_place(out, first, &what);
    let form = form_of(run);
    let mut cells: Vec<&Cell> = run.cells.iter().collect();
    cells.sort_by_key(|cell| (form.order)(cell));
    let left_out = cells.len().saturating_sub(ROWS_MAX);
    cells.truncate(ROWS_MAX);
    let mut headings: Vec<String> = Vec::new();
    for heading in cells.iter().map(|cell| (form.heading)(cell)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let place = |cell: &&Cell| headings.iter().position(|one| *one == (form.heading)(cell));
    cells.sort_by_key(place);
    out.grid(columns::grouped(form.columns, cells, form.heading));
    out.blank();
    print_left_out(out, left_out);
    print_legend(out, form.legend, &run.cells);
}

/// Which mechanism did best: at the highest rate, after the longest gap, in the largest burst, with
/// most calls of many clients, or to connect.
pub(super) fn answer(run: &Run) -> String {
    let form = form_of(run);
    let usable = |cell: &&Cell| form.candidate(cell).is_some();
    let Some(last) = run.cells.iter().filter(usable).max_by_key(|cell| (form.order)(cell)) else {
        return "Nothing kept its rate, or was measured.".to_owned();
    };
    let is_alike = |cell: &&Cell| {
        cell.placement == last.placement
            && cell.load == last.load
            && (form.order)(cell) == (form.order)(last)
    };
    let alike: Vec<&Cell> = run.cells.iter().filter(is_alike).collect();
    let candidates = alike.iter().filter_map(|cell| form.candidate(cell)).collect();
    answer::sentence(&(form.question)(&alike), candidates, form.fact)
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn names(cell: &Cell) -> String {
    clip(&clean(&format!("{}, {}", cell.mechanism, cell.wait)), 40)
}

fn clients(cell: &Cell) -> ClientsFacts {
    cell.clients.clone().unwrap_or_default()
}

impl Form {
    /// The figure of a cell that is compared, if the cell kept its rate.
    fn candidate(&self, cell: &Cell) -> Option<Candidate> {
        let mut found = Candidate::of(cell, self.fact)?;
        if let Some(facts) = &cell.clients {
            let what = if facts.loops.is_some() { "thread" } else { "client" };
            let to = facts.loops.map(|loops| format!(" and {}", counted(loops, "loop")));
            let with = counted(facts.clients, what);
            found.name += &format!(" with {with}{}", to.unwrap_or_default());
        }
        Some(found)
    }
}

/// All kinds; what is none of the others is an open loop.
const FORMS: [Form; 6] = [
    Form {
        is_of: |cell| cell.gap.is_some(),
        heading: |cell| match gap_ns(cell) {
            0 => "no gap".to_owned(),
            ns => format!("after a gap of {}", number::time(ns as f64)),
        },
        order: gap_ns,
        columns: &GAP,
        question: |alike| {
            let gap = alike.first().map_or(0, |cell| gap_ns(cell));
            format!("Fastest after a gap of {}", number::time(gap as f64))
        },
        fact: &fact::P50,
        legend: "closed loop: one exchange at a time, and the gap between its end and the \
                 beginning of the next. A round trip counts from when it begins, after the client \
                 has woken up; the server waits all the while as it always does. gap: as it was; \
                 b: the client is busy until it is over, since no sleep is that short; s: it \
                 sleeps. CPU: within exchanges, of the server also while it waits.",
    },
    Form {
        is_of: |cell| cell.burst.is_some(),
        heading: |cell| format!("bursts of {}", messages(cell)),
        order: messages,
        columns: &BURST,
        question: |alike| {
            let messages = alike.first().map_or(0, |cell| messages(cell));
            format!("Least time per message in a burst of {messages}")
        },
        fact: &fact::PER_BURST_MESSAGE,
        legend: "closed loop: one burst at a time. Its messages are sent right after each other, \
                 the server reads all of them and replies once, without payload; a burst that has \
                 no room in the channel holds up the client until the server has read some of it. \
                 per message: the median of a burst, divided by its messages.",
    },
    Form {
        is_of: |cell| cell.clients.as_ref().is_some_and(|facts| facts.loops.is_some()),
        heading: |cell| {
            let loops = counted(clients(cell).loops.unwrap_or_default(), "loop");
            format!("{}, server of {loops}", names(cell))
        },
        legend: "closed loop: each thread makes an empty call as soon as its last one has \
                 returned. All threads share one cloned caller of one client and each has a \
                 connection of its own; one service, which does no work, is behind all loops of \
                 the server. calls: of all threads together, of which none was lost: as many were \
                 replied to as the server has counted; median, p99: of the calls of all; slowest: \
                 the calls of the slowest thread, to those of the mean one, 1 is fair; client, \
                 server: CPU time per call.",
        ..MANY_CLIENTS
    },
    MANY_CLIENTS,
    Form {
        is_of: |cell| cell.start.is_some(),
        heading: |_| String::new(),
        order: |_| 0,
        columns: &START,
        question: |_| "Fastest to connect".to_owned(),
        fact: &fact::SET_UP,
        legend: "set-up: from the beginning of the rendezvous until the channel can be used, of \
                 the first connection of two new processes; again: of those after it. first: the \
                 first round trip on that connection; again: on those after it. close: what \
                 closing costs the client; gone: from before it closes until the server's \
                 confirmation that it has noticed is there. All are medians; ± 95 %: over launches.",
    },
    Form {
        is_of: |_| true,
        heading: |cell| match &cell.pace {
            None => "closed loop: each exchange begins when the one before has ended".to_owned(),
            Some(pace) => {
                format!("open loop: {} per second, from when each was due", pace.rate_per_s)
            }
        },
        order: |cell| cell.pace.as_ref().map_or(0, |pace| u64::from(pace.rate_per_s)),
        columns: &PACE,
        question: |alike| {
            let rate = alike.iter().find_map(|cell| Some(cell.pace.as_ref()?.rate_per_s));
            let kept = alike.iter().filter(|cell| !cell.is_behind()).count();
            let (rate, all) = (rate.unwrap_or_default(), alike.len());
            format!("Lowest median at {rate} per second, which {kept} of {all} keep")
        },
        fact: &PACED,
        legend: "closed loop: from sending until the reply is there; what holds up one exchange \
                 delays the next and is counted once. open loop: from when an exchange was due, so \
                 what holds it up is counted for all that were due meanwhile; the client has one \
                 under way at a time and makes up for the others after it. service: from when it \
                 did begin. failed: fewer than 99.9 % began in time, and the rate that was \
                 reached. CPU: of both ends per message, of the client in open loop within \
                 exchanges only.",
    },
];

const MANY_CLIENTS: Form = Form {
    is_of: |cell| cell.clients.is_some(),
    heading: names,
    order: |_| 0,
    columns: &CLIENTS,
    question: |_| "Most calls".to_owned(),
    fact: &fact::CALLS,
    legend: "closed loop: each client makes an empty call as soon as its last one has returned. \
             Every client is a thread of one process with a connection of its own, all on the \
             client's CPU; the server is one event loop, which does no work. calls: of all clients \
             together; median, p99: of the calls of all; slowest: the calls of the slowest client, \
             to those of the mean one, 1 is fair; client, server: CPU time per call. A heading \
             names how client and server wait.",
};

fn gap_ns(cell: &Cell) -> u64 {
    cell.gap.as_ref().map_or(0, |gap| gap.gap_ns)
}

fn messages(cell: &Cell) -> u64 {
    cell.burst.as_ref().map_or(0, |burst| burst.messages.into())
}

const GAP: [Column<Cell>; 8] = [
    columns::NAME.wide(12),
    columns::WAIT,
    columns::MEDIAN,
    Column::spread(&fact::P50),
    columns::P99,
    columns::CPU,
    Column::figure("gap", 9, |cell| {
        let gap = cell.gap.clone().unwrap_or_default();
        match (gap.achieved_gap_ns, gap.idle.as_str()) {
            (Some(ns), "sleeps") => format!("{} s", number::time(ns)),
            (Some(ns), "spins") => format!("{} b", number::time(ns)),
            _ => MISSING.to_owned(),
        }
    }),
    columns::GRADE,
];

const BURST: [Column<Cell>; 7] = [
    columns::NAME.wide(12),
    columns::WAIT,
    Column::fact(&fact::PER_BURST_MESSAGE),
    columns::MEDIAN.named("whole burst"),
    columns::P99,
    columns::CPU,
    columns::GRADE,
];

const CLIENTS: [Column<Cell>; 9] = [
    // With how many of them are silent.
    Column::figure("clients", 12, |cell| match cell.load.split_once(" idle connections") {
        Some((idle, _)) => format!("{}+{} idle", clients(cell).clients, clean(idle)),
        None => clients(cell).clients.to_string(),
    }),
    Column::fact(&fact::CALLS),
    Column::spread(&fact::CALLS),
    columns::MEDIAN,
    columns::P99,
    Column::fact(&fact::SLOWEST_SHARE),
    Column::fact(&fact::CPU_CLIENT),
    Column::fact(&fact::CPU_SERVER),
    columns::GRADE,
];

const START: [Column<Cell>; 10] = [
    columns::NAME,
    columns::WAIT,
    Column::fact(&fact::SET_UP),
    Column::spread(&fact::SET_UP),
    columns::MEDIAN.named("again").wide(7),
    Column::fact(&fact::FRESH_FIRST),
    Column::fact(&fact::FIRST),
    Column::fact(&fact::CLOSE),
    Column::fact(&fact::TEAR_DOWN),
    columns::GRADE,
];

/// The median of what began at set times.
const PACED: Fact =
    Fact { of: |cell| cell.pace.as_ref().and_then(|_| (fact::P50.of)(cell)), ..fact::P50 };

const PACE: [Column<Cell>; 9] = [
    columns::NAME.wide(12),
    columns::WAIT,
    columns::MEDIAN.wide(7),
    columns::P99,
    Column::fact(&fact::P999),
    Column::fact(&fact::SERVICE),
    Column::fact(&fact::SERVICE_P99),
    columns::CPU,
    columns::GRADE,
];

/// There are fewer cells; a file may claim more.
const ROWS_MAX: usize = 300;
