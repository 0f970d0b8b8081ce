//! The report: one HTML page that needs nothing else, from stored runs.
//!
//! Each machine has four answers, one table and at most six figures; below them, folded away, is
//! what each of its runs says, as `nearcall show` prints it.
//!
//! **Invariants:** the page asks for nothing outside itself, has no script, and says so to the
//! browser; untrusted text of runs is escaped and without control characters; figures of two
//! machines stand beside each other and never in one. Which figures there are is the business of
//! `report/figure.rs`; the short form is `report/markdown.rs`.
//!
//! **Invariant:** the report needs no network and no script to be read, and nothing that a run
//! holds becomes markup. *Checked by* `every_page_is_well_built`, `names_of_strangers_stay_text`,
//! and in a real browser `crates/nearcall-cli/tests/it/report_browser.rs`.

mod answers;
mod beside;
mod first;
mod glossary;
mod summary;
pub(in crate::report) mod table;
mod text;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use self::answers::{Advised, Answer, Found};
use self::summary::grade_meaning;
pub use self::summary::{CutShort, Summary, summary};
use super::chart;
use super::hosts::Host;
use super::number;
use crate::visible::is_hidden;

/// Facts about the page itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageFacts {
    /// The version that made it.
    pub version: String,
    /// The words that make it again.
    pub command: String,
}

/// Renders the page.
#[must_use]
pub fn page(hosts: &[Host<'_>], facts: &PageFacts) -> String {
    let heading = match hosts {
        [] => "IPC: no machine".to_owned(),
        [host] => format!("IPC on {}", summary::name(host, 0, 1)),
        hosts => format!("IPC on {} machines", hosts.len()),
    };
    let runs = || hosts.iter().flat_map(|host| &host.runs);
    let latest = runs().map(|run| run.started_unix_s).max();
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&heading))
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    p.kicker {
                        "nearcall report"
                        @if let Some(latest) = latest { " · measured " (number::date(latest)) }
                    }
                    h1 { (heading) }
                }
                main #content {
                    @for (index, host) in hosts.iter().enumerate() {
                        (first::machine(host, index, hosts.len()))
                    }
                    @if hosts.len() > 1 { (beside::section(hosts)) }
                    (glossary::section())
                }
                footer {
                    p {
                        "Made by nearcall " (facts.version) " from " (runs().count())
                        " stored runs, and from nothing else"
                        @if !facts.command.is_empty() {
                            ": " code { (text::plain_long(&facts.command)) }
                        }
                        "."
                    }
                }
            }
        }
    };
    harmless(&document.into_string())
}

fn head(heading: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content="nearcall";
            meta name="referrer" content="no-referrer";
            title { (heading) " · nearcall" }
            link rel="icon" href=(ICON);
            style { (PreEscaped(STYLE)) (PreEscaped(chart::STYLE)) }
        }
    }
}

/// The last line of defence: characters that no text of ours has become visible, whoever wrote
/// them.
fn harmless(page: &str) -> String {
    let shown = |c: char| if is_hidden(c) && c != '\n' { '\u{fffd}' } else { c };
    page.chars().map(shown).collect()
}

/// A word as a shell reads it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(harmless) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Nothing may be fetched from anywhere, and no script may run; the style is that of the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// Two ends and a line between them; without it a browser would ask the server for one.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
                    viewBox='0 0 16 16'%3E%3Cpath d='M4 8h8' stroke='%230b62a4' \
                    stroke-width='2'/%3E%3Ccircle cx='4' cy='8' r='3' fill='%230b62a4'/%3E%3Ccircle \
                    cx='12' cy='8' r='3' fill='%23c05200'/%3E%3C/svg%3E";

const STYLE: &str = include_str!("page/style.css");
