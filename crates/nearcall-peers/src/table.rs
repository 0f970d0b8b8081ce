//! The comparison as a person reads it. A function of the document alone.

use std::fmt::Write as _;

use nearcall_results::report::number;

use crate::document::{Document, Figures, Row};
use crate::measure::Kind;
use crate::rival::{Rival, Waiting};

/// The tables, one group of rows after the other.
pub(crate) fn render(document: &Document) -> String {
    let mut out = String::new();
    head(&mut out, document);
    for waiting in [Waiting::Polling, Waiting::Sleeping, Waiting::Adaptive] {
        let rows: Vec<&Row> =
            document.rows.iter().filter(|row| row.waiting == waiting.name()).collect();
        if rows.iter().any(|row| !row.cells.is_empty()) {
            group(&mut out, waiting, &rows);
        }
    }
    idle(&mut out, &document.rows);
    failures(&mut out, &document.rows);
    out
}

/// How each of `rivals` was configured.
pub(crate) fn about(rivals: &[Rival]) -> String {
    let mut out = String::new();
    for rival in rivals {
        let _ = writeln!(out, "{} ({}, {})", rival.name, rival.version, rival.waiting.name());
        wrap(&mut out, "  ", rival.about);
        wrap(&mut out, "  ", &format!("Rate: {}.", rival.rate));
        if let Some(missing) = rival.missing {
            wrap(&mut out, "  ", &format!("SKIPPED here: {missing}."));
        }
        out.push('\n');
    }
    out
}

fn head(out: &mut String, document: &Document) {
    let settings = &document.settings;
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let _ = writeln!(
        out,
        "nearcall {} and its rivals · {} · {}\n",
        document.version,
        document.profile,
        number::date(document.started_unix_s)
    );
    let machine = &document.machine;
    wrap(out, "  ", &format!("{} · kernel {}", machine.cpu_model, machine.kernel));
    let text = format!(
        "Client on CPU {}, server on CPU {}; {} launches of {} s per cell, rows in random order. \
         Medians over launches, ± half of the 95 % interval in percent. Requests carry a payload \
         that is written and read in full; \"echo\" gives it back, otherwise the reply is empty.",
        cpu(settings.client_cpu),
        cpu(settings.server_cpu),
        settings.launches,
        settings.cell_s
    );
    wrap(out, "  ", &text);
    let grades = document.rows.iter().filter_map(|row| row.noise);
    let worst = grades.max().map_or("unknown".to_owned(), |grade| grade.to_string());
    wrap(out, "  ", &format!("Worst noise grade around a launch: {worst} (A is quiet, D is not)."));
    out.push('\n');
}

/// What a cell says in one of the tables.
type Text = fn(&Figures) -> String;

fn group(out: &mut String, waiting: Waiting, rows: &[&Row]) {
    let parts: [(&str, Text); 3] = [
        ("round trip; one-way rate", |cell| format!("{}{}", value(cell), interval(cell))),
        ("times nearcall's (≈: intervals overlap)", ahead),
        ("CPU time per message, both processes", |cell| {
            number::time(cell.cpu_ns_per_message.iter().sum())
        }),
    ];
    for (title, text) in parts {
        let mut figures = rows.iter().flat_map(|row| &row.cells);
        if title.starts_with("times") && figures.all(|cell| cell.nearcall_ahead.is_none()) {
            continue;
        }
        let _ = writeln!(out, "{} · {title}", waiting.name().to_uppercase());
        let mut grid = vec![titles(rows)];
        for row in rows.iter().filter(|row| !row.cells.is_empty()) {
            let figures = row.cells.iter().map(text);
            grid.push([row.name.to_owned()].into_iter().chain(figures).collect());
        }
        print(out, &grid);
    }
}

fn titles(rows: &[&Row]) -> Vec<String> {
    let most = rows.iter().max_by_key(|row| row.cells.len());
    let cells = most.map(|row| row.cells.as_slice()).unwrap_or_default();
    let title = |cell: &Figures| match cell.kind {
        Kind::Sink => number::size(cell.bytes as u64),
        Kind::Echo => format!("echo {}", number::size(cell.bytes as u64)),
        Kind::Rate => format!("rate {}", number::size(cell.bytes as u64)),
    };
    [String::new()].into_iter().chain(cells.iter().map(title)).collect()
}

fn value(cell: &Figures) -> String {
    match cell.kind {
        Kind::Rate => number::message_rate(cell.value),
        Kind::Sink | Kind::Echo => number::time(cell.value),
    }
}

fn interval(cell: &Figures) -> String {
    let half = |[low, high]: [f64; 2]| 50.0 * (high - low) / cell.value;
    match cell.ci95.map(half) {
        Some(half) if half < 100.0 => format!(" ±{half:.0}"),
        // Two launches that differ, or noise: no figure to rely on.
        Some(_) => " ±??".to_owned(),
        None => String::new(),
    }
}

fn ahead(cell: &Figures) -> String {
    let close = if cell.nearcall_apart == Some(false) { "≈" } else { "" };
    cell.nearcall_ahead
        .map_or(number::MISSING.to_owned(), |times| format!("{close}{}", number::ratio(times)))
}

fn idle(out: &mut String, rows: &[Row]) {
    let _ = writeln!(out, "IDLE SERVER · one connected client that says nothing");
    let titles = ["", "private", "of it written", "shared, its half", "threads", "CPU"];
    let mut grid = vec![titles.map(str::to_owned).to_vec()];
    for row in rows {
        let Some(idle) = row.idle_server else { continue };
        let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
        grid.push(vec![
            row.name.to_owned(),
            kib(idle.private_bytes),
            kib(idle.private_dirty_bytes),
            kib(idle.channel_bytes),
            idle.threads.to_string(),
            format!("{:.1} %", 100.0 * idle.cpu_share),
        ]);
    }
    print(out, &grid);
}

fn failures(out: &mut String, rows: &[Row]) {
    for row in rows {
        if let Some(failure) = &row.failure {
            wrap(out, &format!("{}: ", row.name), failure);
        }
    }
}

/// Columns as wide as their widest text, the first to the left, the others to the right.
fn print(out: &mut String, grid: &[Vec<String>]) {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let texts = grid.iter().filter_map(|row| row.get(column));
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in grid {
        let mut line = String::from("  ");
        for (column, text) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(text.chars().count()));
            let (left, right) = if column == 0 { ("", pad) } else { (pad.as_str(), String::new()) };
            let _ = write!(line, "{left}{text}{right}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
}

/// Adds `text` in lines that are not too long, `label` before the first.
fn wrap(out: &mut String, label: &str, text: &str) {
    let mut line = label.to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + word.chars().count() > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(label.chars().count());
        }
        line.push_str(word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// The width of texts.
const COLUMNS: usize = 100;
