//! Advice as a person reads it: the answer first, then why, the ranking, and what was left out.
//!
//! A function of the advice; at most 100 columns.

use super::advice::{Advice, Figure, Ranked};
use super::candidates::{Candidate, Excluded};
use super::reasons::words;
use super::requirements::Objective;
use crate::report::lines::wrap;
use crate::report::number;

/// The advice as lines of text.
#[must_use]
pub fn text(advice: &Advice) -> String {
    let mut out = format!("Use {}: {}\n", advice.choice, advice.address);
    wrap(&mut out, "  ", &format!("The server listens at {}.", advice.server_address));
    wrap(&mut out, "  ", &format!("Confidence: {}.", advice.confidence.name()));
    out.push_str("\nWhy\n");
    for reason in &advice.reasons {
        wrap(&mut out, "  - ", reason);
    }
    if let Some(second) = &advice.runner_up {
        out.push_str(&format!("\nRunner-up: {}: {}\n", second.candidate, second.address));
        for wins in &second.wins {
            wrap(&mut out, "  - ", &format!("wins {wins}"));
        }
        if second.wins.is_empty() {
            out.push_str("  - nothing that was measured speaks for it\n");
        }
    }
    ranking(&mut out, advice);
    out.push_str("\nEvidence\n");
    for sentence in &advice.evidence {
        wrap(&mut out, "  - ", sentence);
    }
    for file in &advice.runs {
        out.push_str(&format!("  - {}\n", run_line(file)));
    }
    unmeasured(&mut out, advice);
    excluded(&mut out, &advice.excluded);
    out
}

fn ranking(out: &mut String, advice: &Advice) {
    let shown = columns(advice);
    let mut head: Vec<String> = ["", "mechanism", "wait", "cost"].map(str::to_owned).to_vec();
    for (at, objective) in shown.iter().enumerate() {
        head.push(objective.name().to_owned());
        if at == 0 {
            head.push("95 %".to_owned());
        }
    }
    head.push("grade".to_owned());
    let rows = advice.ranking.iter().take(ROWS_MAX).enumerate();
    let mut rows: Vec<Vec<String>> = rows.map(|(at, one)| row(at + 1, one, &shown)).collect();
    rows.insert(0, head);
    out.push_str("\nRanking\n");
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| match at {
            1 | 2 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(&format!("  {}\n", line.trim_end()));
    }
    if let Some(more) = advice.ranking.len().checked_sub(ROWS_MAX).filter(|&more| more > 0) {
        out.push_str(&format!("  and {more} more, in the JSON document\n"));
    }
    if advice.ranking.iter().take(ROWS_MAX).skip(1).any(|one| one.tied) {
        wrap(out, "  ", "= cannot be told apart from the best");
    }
    if advice.ranking.iter().take(ROWS_MAX).any(|one| one.first_look) {
        wrap(out, "  ", "' dropped after a first look of two launches");
    }
}

/// What counts first, then what else is known, four figures at most.
fn columns(advice: &Advice) -> Vec<Objective> {
    let mut shown = advice.requirements.optimise.wanted();
    let known =
        |objective: &Objective| advice.ranking.iter().any(|one| figure(one, *objective).is_some());
    let more = Objective::ALL.into_iter().filter(|one| !shown.contains(one) && known(one));
    let more: Vec<Objective> = more.collect();
    shown.extend(more);
    shown.truncate(FIGURES_MAX);
    shown
}

fn row(number: usize, one: &Ranked, shown: &[Objective]) -> Vec<String> {
    let mark = match (one.first_look, one.tied && number > 1) {
        (true, _) => "'",
        (_, true) => "=",
        _ => "",
    };
    let mut cells = vec![
        number.to_string(),
        one.candidate.mechanism.to_string(),
        one.candidate.wait.to_string(),
        format!("{mark}{}", number::ratio(one.cost_ratio)),
    ];
    for (at, &objective) in shown.iter().enumerate() {
        let figure = figure(one, objective);
        cells.push(figure.map_or(number::MISSING.to_owned(), |one| words(objective, one.value)));
        if at == 0 {
            let range = figure.and_then(|one| one.ci95);
            cells.push(range.map_or(String::new(), |[low, high]| {
                format!("{} to {}", words(objective, low), words(objective, high))
            }));
        }
    }
    cells.push(one.grade.map_or(number::MISSING.to_owned(), |grade| grade.to_string()));
    cells
}

fn figure(one: &Ranked, objective: Objective) -> Option<Figure> {
    match objective {
        Objective::Latency => one.latency_ns,
        Objective::P99 => one.p99_ns,
        Objective::Throughput => one.messages_per_s,
        Objective::Cpu => one.cpu_ns_per_message,
        Objective::Memory => one.bytes_per_connection,
    }
}

fn unmeasured(out: &mut String, advice: &Advice) {
    let groups = grouped(advice.unmeasured.iter().map(|one| (one.why.clone(), one.candidate)));
    if !groups.is_empty() {
        out.push_str("\nNot judged\n");
    }
    for (why, who) in groups {
        wrap(out, "  - ", &format!("{why}: {}", names(&who)));
    }
}

fn excluded(out: &mut String, excluded: &[Excluded]) {
    let all = excluded.iter().flat_map(|one| {
        one.by.iter().map(|by| (format!("{}: {}", by.requirement, by.why), one.candidate))
    });
    let groups = grouped(all);
    if !groups.is_empty() {
        out.push_str("\nExcluded, by what was required\n");
    }
    for (why, who) in groups {
        wrap(out, "  - ", &format!("{why}: {}", names(&who)));
    }
}

/// By reason, in the order of the first of each.
fn grouped(all: impl Iterator<Item = (String, Candidate)>) -> Vec<(String, Vec<Candidate>)> {
    let mut groups: Vec<(String, Vec<Candidate>)> = Vec::new();
    for (why, candidate) in all {
        match groups.iter_mut().find(|group| group.0 == why) {
            Some(group) => group.1.push(candidate),
            None => groups.push((why, vec![candidate])),
        }
    }
    groups
}

/// "pipe, shm (spin)": the ways to wait only where some of them are missing.
fn names(who: &[Candidate]) -> String {
    let mut words: Vec<String> = Vec::new();
    for one in who {
        let mechanism = one.mechanism;
        let waits: Vec<&str> = who
            .iter()
            .filter(|other| other.mechanism == mechanism)
            .map(|other| other.wait.name())
            .collect();
        let word = match waits.len() == mechanism.waits().len() {
            true => mechanism.to_string(),
            false => format!("{mechanism} ({})", waits.join(", ")),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

/// Where a run is; control characters of a name must not reach a terminal.
fn run_line(file: &str) -> String {
    format!("Run stored in {}", file.escape_debug())
}

/// Nobody reads on.
const ROWS_MAX: usize = 12;

/// More do not fit beside the interval.
const FIGURES_MAX: usize = 4;
