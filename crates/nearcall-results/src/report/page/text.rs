//! Untrusted text from runs, and figures with what they cannot be read without.
//!
//! **Invariants:** what [`plain`] gives has no control characters and none that turn the direction
//! of writing, and no more of it than a page can bear. Escaping for HTML is left to maud.

use crate::noise::Grade;
pub(super) use crate::report::lines::capital;
pub(super) use crate::report::number::interval;
use crate::report::table::grid;
use crate::run::{Cell, Kind, UNKNOWN};

/// A name or phrase from a file.
pub(super) fn plain(text: &str) -> String {
    grid::clean(text)
}

/// A text from a file that may be long, such as evidence or a kernel's command line.
pub(super) fn plain_long(text: &str) -> String {
    grid::clean_to(text, LONG_CHARS_MAX)
}

/// The same, or "unknown".
pub(super) fn known(text: &str) -> String {
    match text.trim() {
        "" => UNKNOWN.to_owned(),
        text => plain_long(text),
    }
}

/// The grade, or that there is none.
pub(super) fn grade(grade: Option<Grade>) -> String {
    grade.map_or_else(|| "not graded".to_owned(), |grade| format!("grade {grade}"))
}

/// How both ends wait, for people.
pub(super) fn wait(wait: &str) -> String {
    match wait {
        "spin" => "both ends spin".to_owned(),
        "block" => "both ends sleep in a call".to_owned(),
        "poll" => "both ends sleep in an event loop".to_owned(),
        "block/poll" => "the client sleeps in a call, the server in an event loop".to_owned(),
        "adaptive" => "both ends spin for a while, then sleep".to_owned(),
        other => format!("wait {}", plain(other)),
    }
}

/// The figure that stands for a cell: value, interval and unit. Throughput of payloads that fill
/// lines of cache is given in bytes.
pub(super) fn figure(cell: &Cell) -> Option<(f64, Option<[f64; 2]>, &'static str)> {
    if cell.kind == Kind::Throughput
        && cell.clients.is_none()
        && cell.message_bytes >= IN_BYTES_MIN
        && let Some(rate) = cell.bytes_per_s
    {
        let bytes = cell.message_bytes as f64;
        let of_messages = cell.messages_per_s_ci95.map(|ci95| ci95.map(|per_s| per_s * bytes));
        return Some((rate, cell.bytes_per_s_ci95.or(of_messages), "bytes/s"));
    }
    let headline = cell.headline()?;
    headline.value.is_finite().then_some((headline.value, headline.ci95, headline.unit))
}

/// Below this the rate of messages is more useful than that of bytes.
pub(super) const IN_BYTES_MIN: u64 = 1_024;

/// Evidence of the longest claim and the command line of a kernel fit.
const LONG_CHARS_MAX: usize = 1_500;
