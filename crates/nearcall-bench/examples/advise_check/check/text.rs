//! The result of the blind test, as a table.

use std::fmt::Write;

use nearcall_results::advise::{Pattern, Requirements};
use nearcall_results::report::lines::{Ink, Style, Writer};
use nearcall_results::report::number::{self, MISSING};
use nearcall_results::report::table::grid::{Align, Grid};

use super::{Checked, CheckedSet, Chosen, Score};

/// One row for each set, and the verdict.
#[must_use]
pub(crate) fn table(checked: &Checked, style: Style) -> String {
    let mut out = Writer::new(style);
    let mut grid = Grid::new(&HEAD).compact();
    for set in &checked.sets {
        add_set(&mut grid, set);
    }
    grid.print(&mut out);
    out.blank();
    let seeds: Vec<String> = checked.seeds.iter().map(u64::to_string).collect();
    out.note(&format!(
        "seeds {}; of: candidates that meet the needs; ratio: cost to the best of all others, by \
         the rounds of one run; shm and random: the same for the baselines",
        seeds.join(", ")
    ));
    let all = checked.sets.len();
    for score in &checked.scores {
        out.line(&scored(score, checked.ratio_max));
    }
    if checked.partial {
        out.line(&format!("interrupted: {all} of {} sets", checked.sets_asked));
    }
    out.answer(&format!(
        "{} of {all} choices cost at most {} times the best; {} lack a need: {}",
        checked.scores[0].near,
        checked.ratio_max,
        checked.violated,
        if checked.passed { "passed" } else { "FAILED" }
    ));
    out.finish()
}

/// "always shm adaptive: 30 of 40 at most 1.1 times the best others (25 certain, 6 certainly not)".
fn scored(score: &Score, ratio_max: f64) -> String {
    let word = |ratio: Option<f64>| ratio.map_or(MISSING.to_owned(), |ratio| format!("{ratio:.2}"));
    let Score { chooser, judged, near, surely_near, surely_worse, .. } = score;
    format!(
        "{chooser}: {near} of {judged} cost at most {ratio_max} times the best others \
         ({surely_near} certainly, {surely_worse} certainly not); mean {}, worst {}",
        word(score.mean_ratio),
        word(score.worst_ratio)
    )
}

fn add_set(grid: &mut Grid, set: &CheckedSet) {
    let missing = || MISSING.to_owned();
    let ratio = |one: Option<&Chosen>| {
        one.and_then(|one| one.ratio).map_or_else(missing, |ratio| format!("{ratio:.2}"))
    };
    let baseline = |at: usize| ratio(set.chosen.get(at).and_then(Option::as_ref));
    let advised = set.advised();
    let interval = advised.and_then(|one| one.ratio_ci95);
    let best_other = advised.and_then(|one| one.best_other);
    grid.row(vec![
        set.number.to_string(),
        words(&set.requirements),
        set.candidates.to_string(),
        advised.map_or_else(missing, |one| one.candidate.to_string()),
        best_other.map_or_else(missing, |one| one.to_string()),
        ratio(advised),
        interval.map_or_else(missing, |[low, high]| format!("{low:.2} to {high:.2}")),
        baseline(1),
        baseline(2),
        if set.ok { "yes" } else { "NO" }.to_owned(),
    ]);
    grid.paint(HEAD.len() - 1, if set.ok { Ink::Good } else { Ink::Bad });
    if !set.requirements.needs.is_empty() {
        let needs: Vec<&str> = set.requirements.needs.iter().map(|need| need.name()).collect();
        grid.note(format!("needs {}", needs.join(", ")));
    }
    for text in set.violations.iter().chain(&set.problem) {
        grid.note(text.clone());
    }
}

const HEAD: [(&str, Align, usize); 10] = [
    ("set", Align::Right, 3),
    ("wanted", Align::Left, 0),
    ("of", Align::Right, 0),
    ("choice", Align::Left, 0),
    ("best other", Align::Left, 0),
    ("ratio", Align::Right, 0),
    ("95 %", Align::Right, 0),
    ("shm", Align::Right, 0),
    ("random", Align::Right, 0),
    ("ok", Align::Left, 0),
];

/// "call 4 KiB, reply 64 B, 1000/s, cross, latency".
fn words(wanted: &Requirements) -> String {
    let mut words = match wanted.pattern {
        Pattern::Call => format!("call {}", number::size(wanted.message_bytes)),
        Pattern::OneWay => format!("one-way {}", number::size(wanted.message_bytes)),
    };
    if let Some(bytes) = wanted.reply_bytes {
        let _ = write!(words, " and {}", number::size(bytes));
    }
    if let Some(rate) = wanted.rate_per_s {
        let _ = write!(words, ", {rate:.0}/s");
    }
    let _ = write!(words, ", {}", wanted.placement.name());
    if !wanted.load.is_idle() {
        let _ = write!(words, ", beside {}", wanted.load);
    }
    let _ = write!(words, ", {}", wanted.optimise);
    words
}
