//! The answer over all cells, in one word and in sentences.
//!
//! **Invariants:** of two machines no sentence speaks of the software.

use super::{Comparison, Counts, Overall, Verdict, counted, judge};
use crate::report::number;
use crate::stats::median;

/// The answer in one word.
pub(super) fn overall(comparison: &Comparison) -> Overall {
    let counts = &comparison.counts;
    let blind = comparison.typical_detectable.is_none_or(|least| least > DETECTABLE_MAX);
    match (counts.slower, counts.faster) {
        (0, 0) if counts.judged() == 0 => Overall::Unknown,
        (0, 0) if counts.no_difference == 0 && blind && with_floors(comparison) == 0 => {
            Overall::Unknown
        }
        (0, 0) if counts.cannot_tell == 0 => Overall::NoDifference,
        (0, 0) => Overall::NoneFound,
        (_, 0) => Overall::Slower,
        (0, _) => Overall::Faster,
        _ => Overall::Mixed,
    }
}

/// The answer in sentences.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    let counts = &comparison.counts;
    let mut said = vec![answer(comparison)];
    if counts.cannot_tell > 0 && comparison.overall != Overall::Unknown {
        said.extend(cannot_tell(comparison));
    }
    if let (Some(quartiles), false) = (comparison.slowdown_quartiles, comparison.same_run) {
        let [low, middle, high] = quartiles.map(number::ratio);
        said.push(format!(
            "Half of the judged cells took between {low} and {high} of their time before, the \
             median {middle}."
        ));
    }
    let left_out = counts.too_noisy + counts.incomplete;
    if left_out > 0 && comparison.overall != Overall::Unknown {
        said.push(format!("Not judged: {}.", left_out_why(comparison)));
    }
    if let Some(floors) = comparison.floors.filter(|_| !comparison.same_run) {
        let moved = floors.slowdown.ln().abs() >= comparison.rules.min_effect.ln_1p();
        let then = match (floors.flagged > 0, moved, comparison.same_machine) {
            (true, _, true) => ": the machine itself changed between the runs",
            (false, true, true) => ": so much may be the machine",
            _ => "",
        };
        said.push(format!(
            "Floors (exchanges without nearcall) took {} of their time before, the median of {}; \
             {} of them moved significantly{then}.",
            number::ratio(floors.slowdown),
            floors.floors,
            floors.flagged
        ));
    }
    said
}

fn answer(comparison: &Comparison) -> String {
    let (counts, margin) = (&comparison.counts, percent(comparison.rules.min_effect));
    let judged = counts.judged();
    let who = if comparison.same_machine { "" } else { "on the second machine " };
    match comparison.overall {
        Overall::NoDifference if comparison.same_run => {
            format!("No difference: all {judged} cells are those of the same run.")
        }
        Overall::NoDifference => format!(
            "No difference: all {judged} cells are within {margin} {who}with 95 % confidence each."
        ),
        Overall::NoneFound if with_floors(comparison) > 0 => {
            let (moved, unsure) = (with_floors(comparison), undecided(comparison));
            format!(
                "{moved} of {judged} cells moved about as much as the floors, and none further: {} \
                 are within {margin} with confidence, of {unsure} this cannot be told.",
                counts.no_difference
            )
        }
        Overall::NoneFound => format!(
            "No difference found {who}in {judged} cells: {} are within {margin} with confidence, \
             of {} this cannot be told.",
            counts.no_difference, counts.cannot_tell
        ),
        Overall::Unknown => format!("Nothing can be said: {}.", why_nothing(comparison)),
        Overall::Slower | Overall::Faster | Overall::Mixed => {
            let tested = comparison.tested();
            format!("{} {who}({margin} or more, corrected for {tested} cells).", flagged(counts))
        }
    }
}

fn flagged(counts: &Counts) -> String {
    let judged = counts.judged();
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    match (counts.slower, counts.faster) {
        (slower, 0) => format!("{slower} of {judged} cells {} slower, none is faster", are(slower)),
        (0, faster) => format!("{faster} of {judged} cells {} faster, none is slower", are(faster)),
        (slower, faster) => format!(
            "{slower} of {judged} cells {} slower and {faster} {} faster",
            are(slower),
            are(faster)
        ),
    }
}

/// What would help where a difference cannot be decided, and what moved only as the floors did.
fn cannot_tell(comparison: &Comparison) -> Vec<String> {
    let mut said = Vec::new();
    let needed: Vec<f64> =
        counted(&comparison.cells).filter_map(|cell| cell.launches_needed.map(f64::from)).collect();
    let margin = percent(comparison.rules.min_effect);
    let seen = comparison.typical_detectable.map(percent).unwrap_or_default();
    if let Some(needed) = median(&needed) {
        said.push(format!(
            "A typical cell here shows differences from {seen} on; to tell {margin}, half of the \
             undecided cells need {needed:.0} launches or more on each side."
        ));
    }
    let moved = with_floors(comparison);
    if moved > 0 && comparison.overall != Overall::NoneFound {
        said.push(format!(
            "{moved} others moved about as much as the floors: that may be the machine."
        ));
    }
    said
}

/// Cells that moved, but no further than the floors did.
fn with_floors(comparison: &Comparison) -> usize {
    let is = |reason: &str| reason == judge::AS_FLOORS;
    counted(&comparison.cells).filter(|cell| cell.reason.as_deref().is_some_and(is)).count()
}

/// Cells of which launches vary too much.
fn undecided(comparison: &Comparison) -> usize {
    comparison.counts.cannot_tell - with_floors(comparison)
}

fn why_nothing(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    if counts.judged() == 0 {
        return left_out_why(comparison);
    }
    let seen = comparison.typical_detectable.map(percent).unwrap_or_default();
    format!(
        "launches vary so much that a typical cell shows differences from {seen} on; measure on a \
         quieter machine, or with more launches"
    )
}

/// What kept cells from being judged, with counts.
fn left_out_why(comparison: &Comparison) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for cell in counted(&comparison.cells) {
        if !matches!(cell.verdict, Verdict::TooNoisy | Verdict::Incomplete) {
            continue;
        }
        let reason = cell.reason.as_deref().unwrap_or("no figure");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let told: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    told.join(", ")
}

/// A share in percent: `3 %`, `0.5 %`, `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let text = number::three_digits(share * 100.0);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} %")
}

/// Where a typical cell would not even show that twice the time is taken, the runs say nothing.
const DETECTABLE_MAX: f64 = 1.0;
