//! The result of the blind test, as a table.

use std::fmt::Write;

use nearcall_results::advise::{Pattern, Requirements};
use nearcall_results::report::lines::{Ink, Style, Writer};
use nearcall_results::report::number::{self, MISSING};
use nearcall_results::report::table::grid::{Align, Grid};

use super::{Checked, CheckedSet};

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
    out.note(&format!(
        "seed {}; of: candidates that meet the needs; ratio: cost to the best of them, both in one \
         run",
        checked.seed
    ));
    let all = checked.sets.len();
    if checked.partial {
        out.line(&format!("interrupted: {all} of {} sets", checked.sets_asked));
    }
    out.answer(&format!(
        "{} of {all} choices cost at most {} times the best; {} lack a need: {}",
        checked.near,
        checked.ratio_max,
        checked.violated,
        if checked.passed { "passed" } else { "FAILED" }
    ));
    out.finish()
}

fn add_set(grid: &mut Grid, set: &CheckedSet) {
    let word = |one: &Option<_>| one.as_ref().map_or(MISSING.to_owned(), ToString::to_string);
    grid.row(vec![
        set.number.to_string(),
        words(&set.requirements),
        set.candidates.to_string(),
        word(&set.choice),
        word(&set.best),
        set.ratio.map_or(MISSING.to_owned(), |ratio| format!("{ratio:.2}")),
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

const HEAD: [(&str, Align, usize); 7] = [
    ("set", Align::Right, 3),
    ("wanted", Align::Left, 0),
    ("of", Align::Right, 0),
    ("choice", Align::Left, 0),
    ("best", Align::Left, 0),
    ("ratio", Align::Right, 0),
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
