//! The words of a figure: of a value, of its cells, of where they come from.

use std::collections::BTreeSet;

use crate::noise::{self, Grade};
use crate::report::chart::text;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::number::Unit;
use crate::run::Definition;

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

/// What the figure counts, how it is drawn, and when it was measured.
pub(super) fn about(what: &str, group: &Group<'_>) -> String {
    let (title, meaning) = group.setting.definition.title_and_meaning();
    let dates: BTreeSet<u64> = group.entries.iter().map(|e| e.run.started_unix_s).collect();
    let latest = dates.last().map(|&date| number::date(date)).unwrap_or_default();
    let more = match dates.len() {
        0 | 1 => String::new(),
        runs => format!(" and {} earlier", runs - 1),
    };
    format!("{title}: {meaning}. {what} Runs of {latest}{more}.")
}

/// The content of a figure and how sound its cells are, in about two lines.
pub(super) fn caption(group: &Group<'_>) -> String {
    let (title, _) = group.setting.definition.title_and_meaning();
    let launches: BTreeSet<u32> = group.entries.iter().map(|e| e.cell.launches).collect();
    let launches = match (launches.first(), launches.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => "no".to_owned(),
    };
    format!(
        "{title}: {}. {} cells, {launches} launches each; tails: {}.",
        group.words(),
        group.entries.len(),
        noise::count_words(group.entries.iter().map(|entry| entry.cell.grade))
    )
}

/// What else was measured and is not drawn here.
pub(super) fn others(groups: &[Group<'_>]) -> Option<String> {
    // Those of one pair of many are in the tables.
    let groups: Vec<&Group<'_>> = groups.iter().filter(|g| g.setting.pair.is_none()).collect();
    if groups.is_empty() {
        return None;
    }
    let named = groups.iter().take(OTHERS_MAX);
    let mut words: Vec<String> =
        named.map(|group| format!("{} ({} cells)", group.words(), group.entries.len())).collect();
    if groups.len() > OTHERS_MAX {
        words.push(format!("{} more", groups.len() - OTHERS_MAX));
    }
    Some(format!("Measured too and not drawn here: {}.", words.join("; ")))
}

/// What `marks` of disturbed cells are, if there are any.
pub(super) fn disturbed<'a>(
    marks: &str,
    entries: impl IntoIterator<Item = &'a Entry<'a>>,
) -> Option<String> {
    let count = entries.into_iter().filter(|e| e.cell.grade == Some(Grade::D)).count();
    (count > 0)
        .then(|| format!("{count} {marks} are of grade D: something else ran on the same CPU."))
}

/// What a floor is, in words of the field.
pub(super) fn floor(name: &str) -> String {
    match name {
        "floor-spin" => "cache-line round trip".to_owned(),
        "floor-futex" => "futex context switches".to_owned(),
        "floor-eventfd" => "eventfd wake-ups".to_owned(),
        "floor-unix" => "bare UNIX socket".to_owned(),
        "floor-unix-epoll" => "bare UNIX socket, epoll".to_owned(),
        "floor-pipe" => "bare pipe".to_owned(),
        "floor-memcpy" => "memcpy, one process".to_owned(),
        "floor-chunked-copy" => "shared-memory copy".to_owned(),
        "floor-ring" => "words through a ring".to_owned(),
        other => text::clean(other),
    }
}

/// The machine as it stands in titles.
pub(super) fn machine(host: &Host<'_>) -> String {
    let id: String = host.machine.id.chars().take(8).collect();
    format!("{} ({})", text::clean_to(&host.machine.cpu_model, 40), text::clean(&id))
}

/// What a time of these circumstances is, for an axis.
pub(super) fn axis(group: &Group<'_>) -> &'static str {
    match group.setting.definition {
        Definition::FromIntended => "response time, median, logarithmic",
        Definition::RttHalf => "half a round trip, median, logarithmic",
        _ => "round trip, median, logarithmic",
    }
}

/// Said where there are no bounds to draw.
pub(super) fn no_floors(is_bare: bool) -> String {
    if is_bare { NO_FLOORS.to_owned() } else { String::new() }
}

const NO_FLOORS: &str = "This run has no floors for these circumstances: no bounds are drawn. \
    `nearcall bench` measures them beside its cells.";

/// So many other circumstances are named.
const OTHERS_MAX: usize = 4;
