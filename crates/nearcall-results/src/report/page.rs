//! The report: one HTML page that needs nothing else, from stored runs.
//!
//! **Invariants:** the page asks for nothing outside itself and says so to the browser; all of it
//! can be read without its script; untrusted text of runs is escaped and without
//! control characters; figures of two machines stand beside each other and never in one. Which
//! figures there are is the business of `report/figure.rs`; the short form is `report/markdown.rs`.
//!
//! **Invariant:** the report needs no network and no script to be read, and nothing that a run
//! holds becomes markup. *Checked by* `every_page_is_well_built`, `names_of_strangers_stay_text`,
//! and in a real browser `crates/nearcall-cli/tests/it/report_browser.rs`.

mod answers;
mod cells;
mod figures;
mod first;
mod glossary;
mod method;
mod studies;
mod summary;
pub(in crate::report) mod table;
mod text;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use self::answers::{Advised, Answer, Found};
pub use self::method::quoted;
pub(crate) use self::studies::{studies, verdict_columns};
pub use self::summary::{CutShort, Summary, summary};
use self::summary::{grade_meaning, grades, name};

use super::chart;
use super::figure::{self, Shown};
use super::hosts::Host;
use crate::run::Run;
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
    let shown = figure::figures(hosts);
    let sections = sections(hosts, &shown);
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            (head(hosts))
            body {
                a.skip href="#content" { "Skip to the content" }
                header { (first::title(hosts)) }
                main #content {
                    (first::screen(hosts, &shown))
                    nav aria-labelledby="contents" {
                        h2 #contents { "On this page" }
                        ul {
                            @for section in &sections {
                                li { a href={ "#" (section.id) } { (section.title) } }
                            }
                        }
                    }
                    @for section in &sections {
                        section aria-labelledby=(section.id) {
                            h2 id=(section.id) { (section.title) }
                            (section.body)
                        }
                    }
                }
                footer { (method::footer(hosts, facts)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    harmless(&document.into_string())
}

/// One part of the page, in its list of contents.
struct Section {
    id: String,
    title: String,
    body: Markup,
}

fn head(hosts: &[Host<'_>]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content="nearcall";
            meta name="referrer" content="no-referrer";
            title { (first::heading(hosts)) " · nearcall" }
            link rel="icon" href=(ICON);
            style { (PreEscaped(STYLE)) (PreEscaped(chart::STYLE)) }
        }
    }
}

fn sections(hosts: &[Host<'_>], shown: &[Shown]) -> Vec<Section> {
    let section =
        |id: &str, title: &str, body| Section { id: id.to_owned(), title: title.to_owned(), body };
    let mut sections = vec![section("figures", "Figures", figures::body(shown))];
    if hosts.len() > 1 {
        let body = cells::side_by_side(hosts);
        sections.push(section("side-by-side", "Machines side by side", body));
    }
    let kinds: [(&str, &str, Part); 5] = [
        ("studies", "Published studies, repeated", studies::body),
        ("floors", "Floors", cells::floors),
        ("cells", "Every figure", cells::all),
        ("warnings", "Warnings, and what was left out", method::warnings),
        ("machine", "The machine", method::machine),
    ];
    for (id, title, part) in kinds {
        // With several machines each has ids of its own.
        let of_host = |(index, host)| {
            let (id, title) = match hosts.len() {
                1 => (id.to_owned(), title.to_owned()),
                count => {
                    let title = format!("{title}: {}", name(host, index, count));
                    (format!("{id}-{}", index + 1), title)
                }
            };
            let body = part(host, &id)?;
            Some(Section { id, title, body })
        };
        sections.extend(hosts.iter().enumerate().filter_map(of_host));
    }
    sections.push(section("method", "How it was measured", method::body(hosts)));
    sections.push(section("words", "Words and grades", glossary::body()));
    sections
}

/// Renders what one machine has for a section; the text is what its ids begin with.
type Part = fn(&Host<'_>, &str) -> Option<Markup>;

/// The last line of defence: characters that no text of ours has become visible, whoever wrote
/// them.
fn harmless(page: &str) -> String {
    let shown = |c: char| if is_hidden(c) && c != '\n' { '\u{fffd}' } else { c };
    page.chars().map(shown).collect()
}

/// All runs of all machines, each machine's latest first.
fn runs<'a>(hosts: &'a [Host<'a>]) -> impl Iterator<Item = &'a Run> {
    hosts.iter().flat_map(|host| host.runs.iter().copied())
}

/// Nothing may be fetched from anywhere; style and script are those of the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Two ends and a line between them; without it a browser would ask the server for one.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
                    viewBox='0 0 16 16'%3E%3Cpath d='M4 8h8' stroke='%230b62a4' \
                    stroke-width='2'/%3E%3Ccircle cx='4' cy='8' r='3' fill='%230b62a4'/%3E%3Ccircle \
                    cx='12' cy='8' r='3' fill='%23c05200'/%3E%3C/svg%3E";

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
