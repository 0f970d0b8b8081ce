//! What a figure says in words: of a value, of its cells, of where they come from.

use std::collections::BTreeSet;

use crate::noise::{self, Grade};
use crate::report::chart::text;
use crate::report::chart::unit::Unit;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::run::Definition;

use super::choose::{Group, Setting};

/// A value as it stands beside its mark: value, interval, grade.
pub(super) fn label(unit: Unit, value: f64, ci95: Option<[f64; 2]>, entry: &Entry<'_>) -> String {
    let mut out = unit.value(value);
    if let Some(ends) = ci95 {
        out.push_str(&format!(", 95 % {}", unit.interval(ends)));
    }
    match entry.cell.grade {
        Some(grade) => out.push_str(&format!(", grade {grade}")),
        None => out.push_str(", not graded"),
    }
    out
}

/// The last columns of every table: interval, grade, launches.
pub(super) fn evidence(unit: Unit, ci95: Option<[f64; 2]>, entry: &Entry<'_>) -> [String; 3] {
    let ci95 = ci95.map_or_else(|| number::MISSING.to_owned(), |ends| unit.interval(ends));
    [ci95, grade(entry), entry.cell.launches.to_string()]
}

/// The heads above them.
pub(super) const EVIDENCE: [&str; 3] = ["95 % interval", "grade", "launches"];

/// The grade of a cell; a dash if the machine does not say.
pub(super) fn grade(entry: &Entry<'_>) -> String {
    entry.cell.grade.map_or_else(|| number::MISSING.to_owned(), |grade| grade.to_string())
}

/// Definition and statistic, circumstances, launches, grades and dates, in sentences.
pub(super) fn about(what: &str, group: &Group<'_>) -> String {
    let (title, meaning) = group.setting.definition.title_and_meaning();
    format!(
        "{title}: {meaning}. {what} Measured: {}. {}",
        group.setting,
        source(group.entries.iter().copied())
    )
}

/// What a figure shows and how sound its cells are, in about two lines.
pub(super) fn caption(group: &Group<'_>) -> String {
    let (title, _) = group.setting.definition.title_and_meaning();
    format!("{title}: {}. {}", group.setting, count(&group.entries))
}

/// How many cells of how many launches, and how disturbed their tails were.
pub(super) fn count(entries: &[&Entry<'_>]) -> String {
    format!(
        "{} cells, {} launches each; tails: {}.",
        entries.len(),
        launches(entries),
        grades(entries)
    )
}

/// How many cells, of how many launches, of which grades, when.
pub(super) fn source<'a>(entries: impl IntoIterator<Item = &'a Entry<'a>>) -> String {
    let entries: Vec<&Entry<'_>> = entries.into_iter().collect();
    let launches = launches(&entries);
    let dates: BTreeSet<u64> = entries.iter().map(|e| e.run.started_unix_s).collect();
    let more = dates.len().saturating_sub(DATES_MAX);
    let mut dates: Vec<String> =
        dates.into_iter().rev().take(DATES_MAX).map(number::date).collect();
    if more > 0 {
        dates.push(format!("{more} more"));
    }
    format!(
        "{} cells, {launches} launches each; {}. Runs of {}.",
        entries.len(),
        grades(&entries),
        dates.join(", ")
    )
}

fn launches(entries: &[&Entry<'_>]) -> String {
    let launches: BTreeSet<u32> = entries.iter().map(|e| e.cell.launches).collect();
    match (launches.first(), launches.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => "no".to_owned(),
    }
}

fn grades(entries: &[&Entry<'_>]) -> String {
    noise::count_words(entries.iter().map(|entry| entry.cell.grade))
}

/// What else was measured and is not drawn here.
pub(super) fn others(groups: &[Group<'_>]) -> Option<String> {
    // Those of one pair of many are in the figures from CPU to CPU.
    let groups: Vec<&Group<'_>> = groups.iter().filter(|g| g.setting.pair.is_none()).collect();
    if groups.is_empty() {
        return None;
    }
    let named = groups.iter().take(OTHERS_MAX);
    let mut words: Vec<String> =
        named.map(|group| format!("{} ({} cells)", group.setting, group.entries.len())).collect();
    if groups.len() > OTHERS_MAX {
        words.push(format!("{} more", groups.len() - OTHERS_MAX));
    }
    Some(format!("Measured too and not drawn here: {}.", words.join("; ")))
}

/// What hollow marks are, if there are any.
pub(super) fn disturbed<'a>(entries: impl IntoIterator<Item = &'a Entry<'a>>) -> Option<String> {
    let count = entries.into_iter().filter(|e| e.cell.grade == Some(Grade::D)).count();
    (count > 0).then(|| {
        format!("{count} hollow marks are of grade D: something else ran on the same CPU.")
    })
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
        "floor-call" => "call in one process".to_owned(),
        other => text::clean(other),
    }
}

/// The machine as it stands in titles.
pub(super) fn machine(host: &Host<'_>) -> String {
    let id: String = host.machine.id.chars().take(8).collect();
    format!("{} ({})", text::clean_to(&host.machine.cpu_model, 40), text::clean(&id))
}

/// What a time or rate of these circumstances is, for an axis.
pub(super) fn axis(setting: &Setting) -> &'static str {
    match setting.definition {
        Definition::Rtt => "round trip, median",
        Definition::FromIntended => "response time, median",
        Definition::RttHalf => "half a round trip, median",
        Definition::TwoRtt => "two round trips, median",
        Definition::WholeBurst => "whole burst, median",
        Definition::SetUp => "set-up, median",
        Definition::OneWayThroughput => "one way",
    }
}

/// Said where there are no bounds to draw.
pub(super) const NO_FLOORS: &str = "This run has no floors for these circumstances: no bounds \
    are drawn. `nearcall bench` measures them beside its cells.";

/// So many runs are named.
const DATES_MAX: usize = 3;
/// So many other circumstances are named.
const OTHERS_MAX: usize = 4;
