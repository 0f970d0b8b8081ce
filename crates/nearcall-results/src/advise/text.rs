//! Advice as a person reads it: the answer first, then why, the ranking, and what was left out.
//!
//! **Invariants:** a function of the advice and the [`Style`] alone.

use super::advice::{Advice, Figure, Ranked};
use super::candidates::Candidate;
use super::reasons::words;
use super::requirements::Objective;
use crate::report::document::Document;
use crate::report::lines::{Ink, Style};
use crate::report::number;
use crate::report::table::grid::{Align, Grid};

/// The advice as lines of text.
#[must_use]
pub fn text(advice: &Advice, style: Style) -> String {
    let mut out = Document::default();
    out.title(format!("Use {}: {}", advice.choice, advice.address));
    out.wrap("  ", format!("The server listens at {}.", advice.server_address));
    if let Some(must) = &advice.server_must {
        out.wrap_in(Ink::Bad, "  ! ", must);
    }
    out.wrap("  ", format!("Confidence: {}.", advice.confidence.name()));
    for warning in &advice.warnings {
        out.wrap_in(Ink::Bad, "  ! ", crate::run::printable(warning));
    }
    out.part("Why");
    for reason in &advice.reasons {
        out.wrap("  - ", reason);
    }
    if let Some(second) = &advice.runner_up {
        out.part(format!("Runner-up: {}: {}", second.candidate, second.address));
        for wins in &second.wins {
            out.wrap("  - ", format!("wins {wins}"));
        }
        if second.wins.is_empty() {
            out.wrap("  - ", "nothing that was measured speaks for it");
        }
    }
    ranking(&mut out, advice);
    out.part("Evidence");
    for sentence in &advice.evidence {
        out.wrap("  - ", sentence);
    }
    for file in &advice.runs {
        out.wrap("  - ", run_line(file));
    }
    let unmeasured = advice.unmeasured.iter().map(|one| (one.why.clone(), one.candidate));
    reasons(&mut out, "Not judged", unmeasured);
    let excluded = advice.excluded.iter().flat_map(|one| {
        one.by.iter().map(|by| (format!("{}: {}", by.requirement, by.why), one.candidate))
    });
    reasons(&mut out, "Excluded, by what was required", excluded);
    out.answer(answer(advice));
    out.text(style)
}

/// What to use, how certain that is, and what the next would cost.
fn answer(advice: &Advice) -> String {
    let Advice { choice, confidence, .. } = advice;
    let text = format!("Use {choice} (confidence: {})", confidence.name());
    let cost = |one: &&Ranked| one.cost_ratio.is_finite();
    match advice.ranking.get(1).filter(cost) {
        None => format!("{text}: nothing else that was measured meets the requirements."),
        Some(next) if next.tied => {
            let tied = advice.ranking.iter().skip(1).filter(|one| one.tied).count();
            let more = if tied > 1 { format!(" and {} more", tied - 1) } else { String::new() };
            format!("{text}; it cannot be told apart from {}{more}.", next.candidate)
        }
        Some(next) => {
            let ratio = number::ratio(next.cost_ratio);
            format!("{text}; the next, {}, costs {ratio} as much.", next.candidate)
        }
    }
}

fn ranking(out: &mut Document, advice: &Advice) {
    let shown = columns(advice);
    let mut head: Vec<String> = ["", "mechanism", "wait", "cost"].map(str::to_owned).to_vec();
    for (at, objective) in shown.iter().enumerate() {
        head.push(objective.name().to_owned());
        if at == 0 {
            head.push("95 %".to_owned());
        }
    }
    head.push("grade".to_owned());
    out.part("Ranking");
    let columns = head.iter().enumerate().map(|(at, name)| {
        let align = match at {
            1 | 2 => Align::Left,
            _ if at + 1 == head.len() => Align::Grade,
            _ => Align::Right,
        };
        (name.as_str(), align, 0)
    });
    let mut grid = Grid::new(&columns.collect::<Vec<_>>()).compact();
    for (at, one) in advice.ranking.iter().take(ROWS_MAX).enumerate() {
        grid.row(row(at + 1, one, &shown));
        if at == 0 {
            grid.paint(CHOICE_COLUMN, Ink::Good);
        }
    }
    out.grid(grid);
    if let Some(more) = advice.ranking.len().checked_sub(ROWS_MAX).filter(|&more| more > 0) {
        out.note(format!("and {more} more, in the JSON document"));
    }
    if advice.ranking.iter().take(ROWS_MAX).skip(1).any(|one| one.tied) {
        out.note("= cannot be told apart from the best");
    }
    if advice.ranking.iter().take(ROWS_MAX).any(|one| one.first_look) {
        out.note("' dropped after a first look of two launches");
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

/// Adds candidates by the reason that they have in common.
fn reasons(out: &mut Document, head: &str, all: impl Iterator<Item = (String, Candidate)>) {
    let groups = grouped(all);
    if !groups.is_empty() {
        out.part(head);
    }
    for (why, who) in groups {
        out.wrap("  - ", format!("{why}: {}", names(&who)));
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

/// More rows are in the JSON document.
const ROWS_MAX: usize = 12;

/// The column of the mechanism.
const CHOICE_COLUMN: usize = 1;

/// More do not fit beside the interval.
const FIGURES_MAX: usize = 4;
