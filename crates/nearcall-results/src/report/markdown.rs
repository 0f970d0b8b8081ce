//! The report in short, as Markdown for a comment or a summary of continuous integration.
//!
//! Always true: names from runs, which come from strangers, can neither begin markup nor mention
//! anybody; every figure stands with interval and grade. The whole report is `report/page.rs`.

use std::fmt::Write as _;

use super::columns::{Column, figure, shown, values};
use super::hosts::{Entry, Host};
use super::number;
use super::page::text::{self, plain};
use super::page::{
    Advised, Answer, GRADES, Summary, grade_meaning, studies, summary, verdict_columns,
};
use super::table::class_words;
use super::table::grid::Align;
use crate::run::{CellKey, Definition, List, Rhythm};

/// Renders machine after machine: what it is, what is fast, and tables. Ends with a line break.
#[must_use]
pub fn markdown(hosts: &[Host<'_>]) -> String {
    let mut out = String::new();
    for (index, host) in hosts.iter().enumerate() {
        machine(&mut out, host, &summary(host, index, hosts.len()));
    }
    out.push_str("Noise grades:");
    for (index, grade) in GRADES.into_iter().enumerate() {
        let mark = if index == 0 { " " } else { "; " };
        let _ = write!(out, "{mark}{grade} {}", grade_meaning(grade));
    }
    out.push_str(
        ". Intervals: 95 % confidence, from how much launches of new processes differ. Times are \
         closed-loop round trips, not halved, where nothing else is said.\n",
    );
    out
}

fn machine(out: &mut String, host: &Host<'_>, summary: &Summary) {
    let _ = writeln!(out, "## IPC on {}\n\n{}\n", escape(&summary.name), escape(&summary.sentence));
    for (label, text) in &summary.facts {
        let _ = writeln!(out, "- {label}: {}", escape(text));
    }
    for run in &summary.partial {
        let reason = run.reason.as_deref().unwrap_or("for an unknown reason");
        let date = number::date(run.started_unix_s);
        let _ = writeln!(out, "- **cut short**: the run of {date}: {}", escape(reason));
    }
    for warning in summary.warnings.iter().take(WARNINGS_MAX) {
        let _ = writeln!(out, "- **warning**: {}", escape(warning));
    }
    out.push_str("\n### What is fast here, and what to use\n\n");
    summary.answers.iter().for_each(|answer| answered(out, answer));
    if summary.answers.iter().all(|answer| answer.found.is_none()) {
        out.push_str("These runs have no cell that answers one of these questions.\n");
    }
    if let Some(snippet) = &summary.snippet {
        let _ = writeln!(out, "\n```rust\n{snippet}\n```");
    }
    out.push('\n');
    small_messages(out, host);
    verdicts(out, host);
}

fn answered(out: &mut String, answer: &Answer) {
    let Some(found) = &answer.found else { return };
    let (name, what) = (escape(&found.mechanism), escape(&found.what));
    let _ = write!(
        out,
        "- {}: **{}** over {name} ({}; {what}). {}",
        answer.question,
        found.figure(),
        found.trust(),
        escape(&found.next()),
    );
    if let Advised::Use { address, confidence, .. } = &answer.advice {
        let _ = write!(out, " Use `{address}` (confidence {confidence}).");
    }
    out.push('\n');
}

/// Round trips of the smallest message, for every mechanism, each with its floor.
fn small_messages(out: &mut String, host: &Host<'_>) {
    let wanted = |entry: &&Entry<'_>| {
        let key = &entry.key;
        let steady = key.definition == Definition::Rtt && key.rhythm == Rhythm::Steady;
        key.list == List::Cells && steady && is_between_processes(key)
    };
    let mut entries: Vec<&Entry<'_>> = host.entries.iter().filter(wanted).collect();
    let Some(least) = entries.iter().map(|entry| entry.key.message_bytes).min() else { return };
    entries.retain(|entry| entry.key.message_bytes == least);
    let by =
        |entry: &Entry<'_>| text::figure(entry.cell).map_or(f64::INFINITY, |(value, ..)| value);
    entries.sort_by(|a, b| by(a).total_cmp(&by(b)));
    let _ = writeln!(
        out,
        "### Round trips of {} between two processes, the fastest first\n",
        number::size(least)
    );
    out.push_str(&table(&columns(), entries.iter().copied().take(ROWS_MAX)));
    if entries.len() > ROWS_MAX {
        let _ = writeln!(out, "\n{} more are in the whole report.", entries.len() - ROWS_MAX);
    }
    out.push('\n');
}

fn is_between_processes(key: &CellKey) -> bool {
    let caller = matches!(key.caller.as_str(), "" | "blocking" | "loop");
    caller && !key.by_reference && matches!(key.shape.as_str(), "echo" | "call")
}

/// The columns of round trips.
fn columns<'a>() -> [Column<Entry<'a>>; 8] {
    [
        Column::words("mechanism", 0, |one| plain(&one.key.mechanism)),
        Column::words("wait", 0, |one| plain(&one.key.wait)),
        Column::words("where", 0, |one| class_words(&one.key.class)),
        Column::words("conditions", 0, |one| text::conditions(&one.key)),
        Column::figure("median", 0, |one| {
            text::optional(text::figure(one.cell).map(|(value, ..)| value), "ns")
        }),
        Column::figure("95 %", 0, |one| {
            text::interval(text::figure(one.cell).and_then(|(_, ci95, _)| ci95), "ns")
        }),
        Column::figure("to floor", 0, |one| figure(one.cell.ratio_to_floor, number::ratio)),
        Column::words("grade", 0, |one| shown(one.cell.grade)),
    ]
}

/// A table of these columns with a row for each of `rows`.
fn table<'r, R: 'r>(columns: &[Column<R>], rows: impl IntoIterator<Item = &'r R>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|column| escape(column.head)).collect());
    for column in columns {
        out.push_str(if column.align == Align::Right { "|--:" } else { "|---" });
    }
    out.push_str("|\n");
    for row in rows {
        out.push_str(&line(values(columns, row).iter().map(|text| escape(text)).collect()));
    }
    out
}

fn verdicts(out: &mut String, host: &Host<'_>) {
    let studies = studies(host);
    if studies.is_empty() {
        return;
    }
    out.push_str("### Claims of published studies on this machine\n\n");
    out.push_str(&table(&verdict_columns(), studies.iter().map(|(_, study)| *study)));
    out.push('\n');
}

/// Text that stays text, also in a table.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Nobody is told, no issue is linked, and no address becomes a link.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            ':' if text[at..].starts_with("://") => out.push_str("&#58;"),
            '.' if ends_with_www(&text[..at]) => out.push_str("&#46;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn ends_with_www(text: &str) -> bool {
    let (bytes, www) = (text.as_bytes(), b"www");
    bytes.len() >= www.len() && bytes[bytes.len() - www.len()..].eq_ignore_ascii_case(www)
}

/// A comment with more rows is not read.
const ROWS_MAX: usize = 40;
const WARNINGS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_neither_begin_markup_nor_mention_anybody() {
        let found = escape("<b>|`x`|</b> @all #1 https://x [a](b)");
        assert_eq!(
            found,
            "&lt;b&gt;\\|\\`x\\`\\|&lt;/b&gt; &#64;all &#35;1 https&#58;//x \\[a\\](b)"
        );
        assert_eq!(escape("www.x.org WWW.y ww. é.."), "www&#46;x.org WWW&#46;y ww. é..");
    }
}
