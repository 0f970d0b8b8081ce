//! The report in short, as Markdown for a comment or a summary of continuous integration, and what
//! any Markdown of ours is made of.
//!
//! **Invariants:** untrusted names from runs can neither begin markup nor mention a user; every
//! figure stands with interval and grade. The whole report is `report/page.rs`.

use super::columns::{self, Column};
use super::figure::smallest;
use super::hosts::Host;
use super::number;
use super::page::{Advised, Summary, summary};
use super::table::class_words;
use super::table::grid::{Align, Grid, clean};
use crate::run::{Cell, ClaimVerdict, StudyResult};
use crate::visible::is_hidden;

/// Renders machine after machine: what it is, what is fast, and tables. Ends with a line break.
#[must_use]
pub fn markdown(hosts: &[Host<'_>]) -> String {
    let machines = hosts.iter().enumerate();
    let texts = machines.map(|(index, host)| machine(host, &summary(host, index, hosts.len())));
    texts.collect::<String>() + LEGEND
}

fn machine(host: &Host<'_>, summary: &Summary) -> String {
    let mut lines =
        vec![format!("## IPC on {}\n\n{}\n", escape(&summary.name), escape(&summary.sentence))];
    lines.extend(summary.facts.iter().map(|(label, text)| format!("- {label}: {}", escape(text))));
    for run in &summary.partial {
        let reason = escape(run.reason.as_deref().unwrap_or("for an unknown reason"));
        let date = number::date(run.started_unix_s);
        lines.push(format!("- **cut short**: the run of {date}: {reason}"));
    }
    let warnings = summary.warnings.iter().take(WARNINGS_MAX);
    lines.extend(warnings.map(|warning| format!("- **warning**: {}", escape(warning))));
    lines.push("\n### What is fast here, and what to use\n".to_owned());
    for answer in &summary.answers {
        let Some(found) = &answer.found else { continue };
        let [name, what, next] = [&found.mechanism, &found.what, &found.next()].map(|t| escape(t));
        let (question, figure, trust) = (answer.question, found.figure(), found.trust());
        let advice = match &answer.advice {
            Advised::Use { address, server_address, server_must, confidence, .. } => {
                let must = server_must.as_deref().map(|must| format!(" {}", escape(must)));
                format!(
                    " Use `{address}` (confidence {confidence}); the server listens at \
                     `{server_address}`.{}",
                    must.unwrap_or_default()
                )
            }
            Advised::Refused(_) => String::new(),
        };
        lines.push(format!(
            "- {question}: **{figure}** over {name} ({trust}; {what}). {next}{advice}"
        ));
    }
    if let Some(snippet) = &summary.snippet {
        lines.push(format!("\n```rust\n{snippet}\n```"));
    }
    lines.push("\n### Round trips of the smallest messages between two processes\n".to_owned());
    let smallest = smallest(host);
    lines.push(table(&columns::table(&COLUMNS, smallest.iter().copied().take(ROWS_MAX))));
    if smallest.len() > ROWS_MAX {
        lines.push(format!("{} more are in the whole report.\n", smallest.len() - ROWS_MAX));
    }
    let studies = studies(host);
    if !studies.is_empty() {
        lines.push("### Claims of published studies on this machine\n".to_owned());
        lines.push(table(&columns::table(&verdict_columns(), studies.iter().copied())));
    }
    lines.join("\n") + "\n"
}

/// The columns of the smallest round trips; a phone shows the first four.
pub(super) const COLUMNS: [Column<Cell>; 10] = [
    columns::NAME.named("mechanism"),
    columns::WAIT,
    columns::MEDIAN,
    columns::GRADE,
    columns::INTERVAL,
    columns::P99,
    columns::CPU.named("CPU, both ends"),
    columns::TO_FLOOR,
    columns::SIZE,
    Column::words("where", 0, |cell| class_words(&cell.placement.class)),
];

/// Each study once, from the latest run that has it.
fn studies<'a>(host: &Host<'a>) -> Vec<&'a StudyResult> {
    let mut found: Vec<&StudyResult> = Vec::new();
    for study in host.runs.iter().flat_map(|run| &run.studies) {
        if found.len() < STUDIES_MAX && found.iter().all(|seen| seen.study != study.study) {
            found.push(study);
        }
    }
    found.sort_by_key(|study| (study.number.is_empty(), &study.number));
    found
}

/// How many claims of a study there are, and what became of them.
fn verdict_columns() -> [Column<StudyResult>; 6] {
    fn count(study: &StudyResult, verdict: ClaimVerdict) -> String {
        study.verdicts.iter().filter(|judged| judged.verdict == verdict).count().to_string()
    }
    [
        Column::words("study", 0, |study| {
            clean(&format!("{} {}", study.number, study.study)).trim().to_owned()
        }),
        Column::figure("claims", 0, |study| study.verdicts.len().to_string()),
        Column::figure("confirmed", 0, |study| count(study, ClaimVerdict::Confirmed)),
        Column::figure("refuted", 0, |study| count(study, ClaimVerdict::Refuted)),
        Column::figure("inconclusive", 0, |study| count(study, ClaimVerdict::Inconclusive)),
        Column::figure("skipped", 0, |study| count(study, ClaimVerdict::Skipped)),
    ]
}

/// The rows of a grid as a table.
pub(crate) fn table(grid: &Grid) -> String {
    let (heads, aligns): (Vec<String>, Vec<Align>) = grid.heads().unzip();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |align: &Align| if *align == Align::Right { "|--:" } else { "|---" };
    let mut out = line(heads.iter().map(|head| escape(head)).collect());
    out.extend(aligns.iter().map(rule).chain(["|\n"]));
    out.extend(grid.texts().map(|row| line(row.into_iter().map(escape).collect())));
    out
}

/// Text in which nothing is markup, in one line: it makes no link, no mention and no table.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    // What is hidden would hide what stands around it; controls become blanks below.
    let shown = text.chars().filter(|&c| c.is_control() || !is_hidden(c));
    for c in shown.take(TEXT_CHARS_MAX) {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            // Addresses become links without any markup.
            '/' if out.ends_with(":/") => {
                out.truncate(out.len() - 2);
                out.push_str("&#58;//");
            }
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("&#46;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

const LEGEND: &str = "Grades: A undisturbed to D, where something else ran on the same CPU. \
    Intervals: 95 % confidence, from how much launches of new processes differ. Times are \
    closed-loop round trips, not halved, where nothing else is said.\n";

/// A comment with more rows is not read.
const ROWS_MAX: usize = 40;
const WARNINGS_MAX: usize = 20;

/// There are five, and what compares them; a file may claim more.
const STUDIES_MAX: usize = 20;

/// Longer than any sentence of ours.
const TEXT_CHARS_MAX: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_neither_begin_markup_nor_mention_anybody_nor_hide() {
        let cases = [
            (
                "<b>|`x`|</b> @all #1 https://x [a](b)",
                "&lt;b&gt;\\|\\`x\\`\\|&lt;/b&gt; &#64;all &#35;1 https&#58;//x \\[a\\](b)",
            ),
            ("www.x.org WWW.y ww. é..", "www&#46;x.org WWW&#46;y ww. é.."),
            ("w\u{200b}ww.x \u{202e}ab\n[c](d)@e", "www&#46;x ab \\[c\\](d)&#64;e"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected);
        }
    }
}
