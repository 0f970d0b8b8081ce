//! What became of the blind test, as a table.

use std::fmt::Write;

use super::{Checked, CheckedSet};
use crate::advise::{Pattern, Requirements};
use crate::report::number;

/// One line for each set, and the verdict.
#[must_use]
pub fn table(checked: &Checked) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>3}  {:<46} {:>4} {:<20} {:<20} {:>6}  ok",
        "set", "wanted", "of", "choice", "best", "ratio"
    );
    for set in &checked.sets {
        line(&mut out, set);
    }
    let all = checked.sets.len();
    let _ = writeln!(
        out,
        "\n{} of {all} choices cost at most {} times the best; {} lack a need: {}",
        checked.near,
        checked.ratio_max,
        checked.violated,
        if checked.passed { "passed" } else { "FAILED" }
    );
    if checked.partial {
        let _ = writeln!(out, "interrupted: {all} of {} sets", checked.sets_asked);
    }
    let _ = writeln!(
        out,
        "seed {}; of: candidates that meet the needs; ratio: cost to the best of them, both in one \
         run",
        checked.seed
    );
    out
}

fn line(out: &mut String, set: &CheckedSet) {
    let word = |one: &Option<_>| one.as_ref().map_or("-".to_owned(), ToString::to_string);
    let ratio = set.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let _ = writeln!(
        out,
        "{:>3}  {:<46} {:>4} {:<20} {:<20} {ratio:>6}  {}",
        set.number,
        words(&set.requirements),
        set.candidates,
        word(&set.choice),
        word(&set.best),
        if set.ok { "yes" } else { "NO" }
    );
    if !set.requirements.needs.is_empty() {
        let needs: Vec<&str> = set.requirements.needs.iter().map(|need| need.name()).collect();
        let _ = writeln!(out, "     needs {}", needs.join(", "));
    }
    for text in set.violations.iter().chain(&set.problem) {
        let _ = writeln!(out, "     {text}");
    }
}

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
