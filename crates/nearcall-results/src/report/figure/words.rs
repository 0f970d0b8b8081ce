//! The words of a figure: of a value, of its cells, of where they come from.

use std::collections::BTreeSet;

use crate::noise::{self, Grade};
pub(super) use crate::report::chart::text::clean;
use crate::report::hosts::Entry;
use crate::report::number::{self, Unit};

use super::group::Group;

/// A value as it stands beside its mark: value, interval, grade.
pub(super) fn label(unit: Unit, value: f64, ci95: Option<[f64; 2]>, entry: &Entry<'_>) -> String {
    let interval = ci95.map(|ends| format!(", 95 % {}", unit.interval(ends))).unwrap_or_default();
    let grade = match entry.cell.grade {
        Some(grade) => format!("grade {grade}"),
        None => "not graded".to_owned(),
    };
    format!("{}{interval}, {grade}", unit.value(value))
}

/// The content of a figure, how a value came about and how sound its cells are.
pub(super) fn caption(statistic: &str, group: &Group<'_>) -> String {
    let (title, _) = group.setting.definition.title_and_meaning();
    let launches: BTreeSet<u32> = group.entries.iter().map(|e| e.cell.launches).collect();
    let launches = match (launches.first(), launches.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => "no".to_owned(),
    };
    let latest = group.entries.iter().map(|entry| entry.run.started_unix_s).max();
    format!(
        "{title}: {}. {statistic} {} cells, {launches} launches each, of {}; tails: {}.",
        group.words(),
        group.entries.len(),
        number::date(latest.unwrap_or_default()),
        noise::count_words(group.entries.iter().map(|entry| entry.cell.grade))
    )
}

/// What hollow marks are, if there are any.
pub(super) fn disturbed(group: &Group<'_>) -> Option<String> {
    let count = group.entries.iter().filter(|e| e.cell.grade == Some(Grade::D)).count();
    (count > 0).then(|| {
        format!("{count} hollow marks are of grade D: something else ran on the same CPU.")
    })
}

/// What a floor is, in words of the field.
pub(super) fn floor(name: &str) -> String {
    match name {
        "floor-spin" => "cache-line round trip".to_owned(),
        "floor-futex" => "futex context switches".to_owned(),
        "floor-ring" => "words through a ring".to_owned(),
        other => clean(other),
    }
}
