//! Runs of traffic: a row for each mechanism and way to wait; a group for each pace, or a column
//! for each gap or burst.
//!
//! Always true: the times of a cell that did not keep its pace are not shown; the rate that it
//! reached stands there instead.

use super::answer::{self, Better, Candidate};
use super::cells::place;
use super::grid::{Align, Grid, clean, clip};
use super::notes::DISTURBED;
use crate::noise::{self, Grade};
use crate::report::columns::{self, Column, figure, shown, spread, time, values};
use crate::report::lines::Writer;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, ClientsFacts, RttNs, Run, StartFacts};
use crate::stats;

/// Whether the run is one of traffic.
pub(super) fn is_of_traffic(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.pace.is_some() && cell.call.is_none() || key(cell).is_some())
}

/// Adds the table and what its columns mean.
pub(super) fn print(out: &mut Writer, run: &Run) {
    if let Some(first) = run.cells.first() {
        let of = match first.message_bytes {
            0 => String::new(),
            bytes => format!(" of {}", number::size(bytes)),
        };
        let what = format!("{}{of}", clip(&clean(&first.shape), 20));
        let load = clean(&first.load);
        out.line(&format!("{}; {what}; load: {load}.", place(&first.placement)));
    }
    let has = |is: fn(&Cell) -> bool| run.cells.iter().any(is);
    let legend = if has(|cell| cell.gap.is_some()) {
        print_gaps(out, run);
        GAP_LEGEND
    } else if has(|cell| cell.burst.is_some()) {
        print_bursts(out, run);
        BURST_LEGEND
    } else if has(|cell| cell.clients.is_some()) {
        print_clients(out, run);
        if has(|cell| loops(cell).is_some()) { THREADS_LEGEND } else { CLIENTS_LEGEND }
    } else if has(|cell| cell.start.is_some()) {
        print_starts(out, run);
        START_LEGEND
    } else {
        print_pace(out, run);
        PACE_LEGEND
    };
    out.blank();
    out.note(legend);
    if run.cells.iter().any(|cell| cell.grade == Some(Grade::D)) {
        out.note(DISTURBED);
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// Which mechanism did best: at the highest rate, after the longest gap, in the largest burst, with
/// most calls of many clients, or to connect.
pub(super) fn answer(run: &Run) -> String {
    if let Some(cell) = run.cells.iter().find(|cell| cell.clients.is_some()) {
        let calls = |cell: &Cell| {
            let facts = cell.clients.as_ref()?;
            let one = Candidate::new(cell, facts.calls_per_s?, facts.calls_per_s_ci95)?;
            let what = if facts.loops.is_some() { "thread" } else { "client" };
            let clients = counted(facts.clients, what);
            let to = facts.loops.map(|loops| format!(" and {}", counted(loops, "loop")));
            let name = format!("{} with {clients}{}", one.name, to.unwrap_or_default());
            Some(Candidate { name, ..one })
        };
        let all = alike(run, cell).filter_map(calls).collect();
        return answer::sentence("Most calls", all, Better::More, number::message_rate);
    }
    if let Some(cell) = run.cells.iter().find(|cell| cell.start.is_some()) {
        let set_up = |cell: &Cell| {
            let times = &cell.start.as_ref()?.fresh_set_up_ns;
            Candidate::new(cell, times.p50?, times.p50_ci95)
        };
        let all = alike(run, cell).filter_map(set_up).collect();
        return answer::sentence("Fastest to connect", all, Better::Less, number::time);
    }
    if run.cells.iter().any(|cell| cell.gap.is_some() || cell.burst.is_some()) {
        let last = run.cells.iter().max_by_key(|cell| key(cell));
        return last.map(|last| best_of_column(run, last)).unwrap_or_default();
    }
    best_at_rate(run)
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn loops(cell: &Cell) -> Option<u32> {
    cell.clients.as_ref()?.loops
}

/// The cells that may be compared with `one`.
fn alike<'a>(run: &'a Run, one: &'a Cell) -> impl Iterator<Item = &'a Cell> {
    let same = |cell: &&Cell| cell.placement == one.placement && cell.load == one.load;
    run.cells.iter().filter(same)
}

fn best_of_column(run: &Run, last: &Cell) -> String {
    let of_column = alike(run, last).filter(|cell| key(cell) == key(last));
    match &last.burst {
        Some(burst) => {
            let per_message = |cell: &Cell| {
                let facts = cell.burst.as_ref()?;
                Candidate::new(cell, facts.per_message_ns?, facts.per_message_ns_ci95)
            };
            let question = format!("Least time per message in a burst of {}", burst.messages);
            let all = of_column.filter_map(per_message).collect();
            answer::sentence(&question, all, Better::Less, number::time)
        }
        None => {
            let gap = last.gap.as_ref().map_or(0, |gap| gap.gap_ns);
            let question = format!("Fastest after a gap of {}", number::time(gap as f64));
            let all = of_column.filter_map(Candidate::median).collect();
            answer::sentence(&question, all, Better::Less, number::time)
        }
    }
}

/// At the highest rate that anything kept, and which mechanisms kept it.
fn best_at_rate(run: &Run) -> String {
    let kept = |cell: &&Cell| cell.pace.as_ref().is_some_and(|pace| pace.kept);
    let rate = |cell: &Cell| cell.pace.as_ref().map(|pace| pace.rate_per_s);
    let Some(highest) = run.cells.iter().filter(kept).max_by_key(|cell| rate(cell)) else {
        return "No mechanism kept a rate that was asked for.".to_owned();
    };
    let at_rate: Vec<&Cell> =
        alike(run, highest).filter(|cell| rate(cell) == rate(highest)).collect();
    let all: Vec<&Cell> = at_rate.iter().copied().filter(kept).collect();
    let (count, kept) = (at_rate.len(), all.len());
    let per_second = rate(highest).unwrap_or_default();
    let medians = all.into_iter().filter_map(Candidate::median).collect();
    let question =
        format!("Lowest median at {per_second} per second, which {kept} of {count} keep");
    answer::sentence(&question, medians, Better::Less, number::time)
}

fn print_pace(out: &mut Writer, run: &Run) {
    let rate = |cell: &Cell| cell.pace.as_ref().map(|pace| pace.rate_per_s);
    let mut rates: Vec<Option<u32>> = run.cells.iter().map(rate).collect();
    rates.sort_unstable();
    rates.dedup();
    let mut grid = columns::grid(&PACE);
    for group in rates.into_iter().take(GROUPS_MAX) {
        grid.heading(match group {
            None => "closed loop: each exchange begins when the one before has ended".to_owned(),
            Some(rate) => format!("open loop: {rate} per second, from when each was due"),
        });
        for cell in run.cells.iter().filter(|cell| rate(cell) == group).take(ROWS_MAX) {
            grid.row(values(&PACE, cell));
        }
    }
    grid.print(out);
}

fn print_gaps(out: &mut Writer, run: &Run) {
    let head = |ns: u64| if ns == 0 { "no gap".to_owned() } else { number::time(ns as f64) };
    out.title("  Median round trip after a gap of");
    print_columns(out, run, &head, &columns::MEDIAN.value);
    out.blank();
    out.title("  CPU time of both ends per round trip after a gap of");
    print_columns(out, run, &head, &columns::CPU.value);
    out.blank();
    out.title("  The gaps as they were, by what the client does in them");
    print_columns(out, run, &head, &|cell| {
        let gap = cell.gap.clone().unwrap_or_default();
        match (gap.achieved_gap_ns, gap.idle.as_str()) {
            (Some(ns), "sleeps") => format!("{} s", number::time(ns)),
            (Some(ns), "spins") => format!("{} b", number::time(ns)),
            _ => MISSING.to_owned(),
        }
    });
}

fn print_bursts(out: &mut Writer, run: &Run) {
    let head = |messages: u64| match messages {
        1 => "1 msg".to_owned(),
        _ => format!("{messages} msgs"),
    };
    out.title("  Per message: the median time of a burst, divided by its messages, of");
    print_columns(out, run, &head, &|cell| {
        time(cell.burst.as_ref().and_then(|b| b.per_message_ns))
    });
    for (title, column) in [("median", columns::MEDIAN), ("99th percentile", columns::P99)] {
        out.blank();
        out.title(&format!("  A whole burst until all is answered, {title}, of"));
        print_columns(out, run, &head, &column.value);
    }
}

fn print_clients(out: &mut Writer, run: &Run) {
    let mut grid = columns::grid(&CLIENTS);
    let heading = |cell: &Cell| {
        let names = clip(&clean(&format!("{}, {}", cell.mechanism, cell.wait)), 40);
        let loops = loops(cell).map(|loops| format!(", server of {}", counted(loops, "loop")));
        format!("{names}{}", loops.unwrap_or_default())
    };
    for (heading, cells) in grouped(run, heading) {
        grid.heading(heading);
        for cell in cells.into_iter().take(ROWS_MAX) {
            grid.row(values(&CLIENTS, cell));
        }
    }
    grid.print(out);
}

fn print_starts(out: &mut Writer, run: &Run) {
    let mut grid = columns::grid(&START);
    for cell in run.cells.iter().take(ROWS_MAX) {
        grid.row(values(&START, cell));
    }
    grid.print(out);
    let words = run.cells.iter().filter_map(|cell| cell.start.as_ref()?.word_ns);
    if let Some(ns) = stats::median(&words.collect::<Vec<_>>()) {
        out.blank();
        let text = format!("The confirmation in a tear-down takes {} by itself.", number::time(ns));
        out.note(&text);
    }
}

/// What columns are ordered by.
fn key(cell: &Cell) -> Option<u64> {
    let gap = cell.gap.as_ref().map(|gap| gap.gap_ns);
    let burst = cell.burst.as_ref().map(|burst| burst.messages.into());
    let clients = cell.clients.as_ref().map(|facts| facts.clients.into());
    gap.or(burst).or(clients).or(cell.start.as_ref().map(|facts| facts.connects.into()))
}

/// A row for each mechanism and way to wait, a column for each key, the worst grade at the end.
fn print_columns(
    out: &mut Writer,
    run: &Run,
    head: &dyn Fn(u64) -> String,
    text: &dyn Fn(&Cell) -> String,
) {
    let mut keys: Vec<u64> = run.cells.iter().filter_map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(COLUMNS);
    let heads: Vec<String> = keys.iter().map(|&key| head(key)).collect();
    let mut columns = vec![("", Align::Left, 12), ("wait", Align::Left, 8)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Align::Right, 8)));
    columns.push(("grade", Align::Grade, 5));
    let mut grid = Grid::new(&columns);
    for (mut row, cells) in grouped(run, names) {
        for &wanted in &keys {
            let cell = cells.iter().find(|cell| key(cell) == Some(wanted));
            row.push(cell.map_or_else(|| MISSING.to_owned(), |cell| text(cell)));
        }
        let worst = noise::worst_of(cells.iter().map(|cell| cell.grade));
        row.push(shown(worst));
        grid.row(row);
    }
    grid.print(out);
}

/// Cells that have the same key, in the order of the first of each.
fn grouped<K: PartialEq>(run: &Run, key: impl Fn(&Cell) -> K) -> Vec<(K, Vec<&Cell>)> {
    let mut groups: Vec<(K, Vec<&Cell>)> = Vec::new();
    for cell in &run.cells {
        let key = key(cell);
        match groups.iter().position(|(known, _)| *known == key) {
            Some(at) => groups[at].1.push(cell),
            None if groups.len() < ROWS_MAX => groups.push((key, vec![cell])),
            None => {}
        }
    }
    groups
}

fn names(cell: &Cell) -> Vec<String> {
    values(&[columns::NAME, columns::WAIT], cell)
}

const CLIENTS: [Column<Cell>; 9] = [
    // With how many of them are silent.
    Column::figure("clients", 12, |cell| match cell.load.split_once(" idle connections") {
        Some((idle, _)) => format!("{}+{} idle", clients(cell).clients, clean(idle)),
        None => clients(cell).clients.to_string(),
    }),
    Column::figure("calls", 8, |cell| figure(clients(cell).calls_per_s, number::message_rate)),
    Column::figure("± 95 %", 6, |cell| {
        let facts = clients(cell);
        spread(facts.calls_per_s, facts.calls_per_s_ci95)
    }),
    columns::MEDIAN,
    columns::P99,
    Column::figure("slowest", 7, |cell| figure(clients(cell).slowest_share, number::ratio)),
    columns::CPU_CLIENT,
    columns::CPU_SERVER,
    columns::GRADE,
];

fn clients(cell: &Cell) -> ClientsFacts {
    cell.clients.clone().unwrap_or_default()
}

const CLIENTS_LEGEND: &str = "closed loop: each client makes an empty call as soon as its last one \
                              has returned. Every client is a thread of one process with a \
                              connection of its own, all on the client's CPU; the server is one \
                              event loop, which does no work. calls: of all clients together; \
                              median, p99: of the calls of all; slowest: the calls of the slowest \
                              client, to those of the mean one, 1 is fair; client, server: CPU \
                              time per call. A heading names how client and server wait.";

const THREADS_LEGEND: &str = "closed loop: each thread makes an empty call as soon as its last one \
                              has returned. All threads share one cloned caller of one client and \
                              each has a connection of its own; one service, which does no work, \
                              is behind all loops of the server. calls: of all threads together, \
                              of which none was lost: as many were replied to as the server has \
                              counted; median, p99: of the calls of all; slowest: the calls of the \
                              slowest thread, to those of the mean one, 1 is fair; client, server: \
                              CPU time per call.";

const START: [Column<Cell>; 10] = [
    columns::NAME,
    columns::WAIT,
    Column::figure("set-up", 7, |cell| of_start(cell, |facts| &facts.fresh_set_up_ns)),
    Column::figure("± 95 %", 6, |cell| {
        let times = cell.start.as_ref().map(|facts| &facts.fresh_set_up_ns);
        spread(times.and_then(|times| times.p50), times.and_then(|times| times.p50_ci95))
    }),
    columns::MEDIAN.named("again").wide(7),
    Column::figure("first", 7, |cell| of_start(cell, |facts| &facts.fresh_first_message_ns)),
    Column::figure("again", 7, |cell| of_start(cell, |facts| &facts.first_message_ns)),
    Column::figure("close", 7, |cell| of_start(cell, |facts| &facts.close_ns)),
    Column::figure("gone", 7, |cell| of_start(cell, |facts| &facts.tear_down_ns)),
    columns::GRADE,
];

fn of_start(cell: &Cell, times: fn(&StartFacts) -> &RttNs) -> String {
    time(cell.start.as_ref().and_then(|facts| times(facts).p50))
}

const START_LEGEND: &str = "set-up: from the beginning of the rendezvous until the channel can be \
                            used, of the first connection of two new processes; again: of those \
                            after it. first: the first round trip on that connection; again: on \
                            those after it. close: what closing costs the client; gone: from \
                            before it closes until the server's word that it has noticed is there. \
                            All are medians; ± 95 %: over launches.";

const PACE: [Column<Cell>; 9] = [
    columns::NAME.wide(12),
    columns::WAIT,
    columns::MEDIAN.wide(7),
    Column::figure("p99", 8, |cell| match &cell.pace {
        Some(pace) if !pace.kept => figure(pace.achieved_per_s, number::message_rate),
        _ => (columns::P99.value)(cell),
    }),
    columns::P999,
    Column::figure("service", 7, |cell| of_service(cell, |times| times.p50)),
    Column::figure("its p99", 8, |cell| of_service(cell, |times| times.p99)),
    columns::CPU,
    columns::GRADE,
];

/// A time from when the exchange did begin, where that is not when it was due.
fn of_service(cell: &Cell, of: fn(&RttNs) -> Option<f64>) -> String {
    time(cell.pace.as_ref().filter(|pace| pace.kept).and_then(|pace| of(&pace.service_ns)))
}

const PACE_LEGEND: &str = "closed loop: from sending until the reply is there; what holds up one \
                           exchange delays the next and is counted once. open loop: from when an \
                           exchange was due, so what holds it up is counted for all that were due \
                           meanwhile; the client has one under way at a time and makes up for the \
                           others after it. service: from when it did begin. failed: fewer than \
                           99.9 % began in time, and the rate that was reached. CPU: of both ends \
                           per message, of the client in open loop within exchanges only.";

const GAP_LEGEND: &str = "closed loop: one exchange at a time, and the gap between its end and the \
                          beginning of the next. A round trip counts from when it begins, after \
                          the client has woken up; the server waits all the while as it always \
                          does. b: the client is busy until the gap is over, since no sleep is \
                          that short; s: it sleeps, and wakes up as late as stands there. CPU: \
                          within exchanges, of the server also while it waits.";

const BURST_LEGEND: &str = "closed loop: one burst at a time. Its messages are sent right after \
                            each other, the server reads all of them and replies once, without \
                            payload; a burst that has no room in the channel holds up the client until the \
                            server has read some of it. A burst of one is a round trip.";

/// Columns that a page has room for; the other cells are in the details.
const COLUMNS: usize = 6;

/// There are fewer mechanisms; a file may claim more.
const ROWS_MAX: usize = 100;

/// Nobody compares more paces; a file may claim so.
const GROUPS_MAX: usize = 20;
