//! Prints what is known of the connections of a server.
//!
//! **Invariants:** texts of the server and of its clients have no control characters when printed.
//! **Not here:** how it comes about (`explain.rs`).

use nearcall_results::advise::Weights;
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::number::{self, MISSING};
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;

use super::alternatives::{Alternative, Alternatives, WEIGHTS};
use super::{Document, Flow, Row, Switch, Traffic};
use crate::commands::list::uptime;

pub(super) fn text(document: &Document, style: Style) -> String {
    let mut out = document::Document::default();
    for (at, row) in document.connections.iter().enumerate() {
        if at > 0 {
            out.blank();
        }
        connection(&mut out, row, document.watched_s);
    }
    if !document.runs.is_empty() {
        out.blank();
    }
    for file in &document.runs {
        out.note(format!("judged by {}", printable(file)));
    }
    let count = document.connections.len();
    let plural = if count == 1 { "" } else { "s" };
    let pid = document.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    out.answer(format!("{}{pid} has {count} connection{plural}.", printable(&document.server)));
    out.text(style)
}

fn connection(out: &mut document::Document, row: &Row, watched_s: f64) {
    let user = row.uid.map_or_else(String::new, |uid| format!(", user {uid}"));
    out.title(format!("Connection {}: {}{user}", row.connection, printable(&row.client)));
    let trust = if row.trusted { ", trusted" } else { "" };
    let uses = format!("{}, the server waits by {}{trust}", row.mechanism, row.wait);
    out.wrap("  uses     ", printable(&uses));
    match &row.switches[..] {
        [] => out.wrap("  why      ", "the client has opened it so; no switch since"),
        switches => {
            for (at, switch) in switches.iter().rev().enumerate() {
                let label = if at == 0 { "  why      " } else { "           " };
                let ink = if switch.failure.is_some() { Ink::Bad } else { Ink::Plain };
                out.wrap_in(ink, label, printable(&describe(switch)));
            }
        }
    }
    match &row.traffic {
        None => out.wrap("  carries  ", "not known: another loop has it, which did not answer"),
        Some(traffic) => carried(out, traffic, watched_s),
    }
    match &row.alternatives {
        Alternatives::Judged { ranking, measured_rate_per_s, .. } => {
            table(out, ranking);
            let when = match measured_rate_per_s {
                Some(rate) => format!("at {}", number::message_rate(*rate)),
                None => "right after each other".to_owned(),
            };
            let Weights { latency, cpu, .. } = WEIGHTS;
            out.note(format!(
                "measured {when}; cost: {latency} of the median and {cpu} of the CPU time of both \
                 ends"
            ));
        }
        Alternatives::Unknown { why, command } => {
            out.wrap("  instead  ", format!("not known: {}", printable(why)));
            if let Some(command) = command {
                out.wrap("           ", format!("to measure it: {command}"));
            }
        }
    }
}

/// One switch in a sentence.
fn describe(switch: &Switch) -> String {
    let Switch { age_ms, from, to, cause, failure, note } = switch;
    let age = uptime(*age_ms);
    let by = match &**cause {
        "program" => "the client's program",
        "asked" => "the server was asked to",
        "automatic" => "the client, by what it saw",
        "upgrade" => "the client, as both ends can",
        other => other,
    };
    let to = to.as_deref().unwrap_or("another mechanism");
    let note = note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
    match failure {
        None => format!("{age} ago from {from} to {to} ({by}){note}"),
        Some(why) => format!("{age} ago it did not move from {from} to {to} ({by}): {why}{note}"),
    }
}

fn carried(out: &mut document::Document, traffic: &Traffic, watched_s: f64) {
    let when = match traffic.is_current {
        true => format!("in the last {}", number::time(watched_s * 1e9)),
        false => "nothing now; before".to_owned(),
    };
    out.wrap("  carries  ", format!("{when}: from the client {}", flow(&traffic.from_client)));
    out.wrap("           ", format!("to the client {}", flow(&traffic.to_client)));
}

fn flow(flow: &Flow) -> String {
    let (Some(mean), Some(median)) = (flow.mean_bytes, flow.median_class_bytes()) else {
        return "nothing".to_owned();
    };
    let count = match flow.messages_per_s {
        Some(rate) => number::message_rate(rate),
        None => format!("{} messages", flow.messages),
    };
    format!(
        "{count} of {} on average, half of them up to {}",
        number::size(mean),
        number::size(median)
    )
}

/// The best, and what is used now.
fn table(out: &mut document::Document, ranking: &[Alternative]) {
    let mut grid = Grid::new(&HEAD).compact();
    let best = ranking.iter().take(ROWS_MAX);
    let used = ranking.iter().skip(ROWS_MAX).find(|one| one.is_used);
    let time = |ns: Option<f64>| ns.map_or_else(|| MISSING.to_owned(), number::time);
    for one in best.chain(used) {
        grid.row(vec![
            if one.is_used { "now".to_owned() } else { String::new() },
            one.mechanism.clone(),
            one.wait.clone(),
            time(one.latency_ns),
            time(one.p99_ns),
            time(one.cpu_ns_per_message),
            number::ratio(one.cost_ratio),
            if one.is_offered { "yes" } else { "no" }.to_owned(),
        ]);
        if one.is_used {
            grid.paint(USED, Ink::Good);
        }
    }
    out.grid(grid);
}

/// Rows of a table beside that of what is used.
const ROWS_MAX: usize = 6;

const HEAD: [(&str, Align, usize); 8] = [
    ("", Align::Left, 0),
    ("mechanism", Align::Left, 0),
    ("wait", Align::Left, 0),
    ("median", Align::Right, 0),
    ("p99", Align::Right, 0),
    ("CPU per\nmessage", Align::Right, 0),
    ("cost", Align::Right, 0),
    ("offered", Align::Left, 0),
];

/// The column that marks what is used.
const USED: usize = 0;
