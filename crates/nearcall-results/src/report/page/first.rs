//! The first screen as HTML: what each machine is, what is fast on it, and the first figure.

use maud::{Markup, html};

use super::figures;
use super::summary::{Summary, summary};
use super::table::grade_mark;
use super::text::{capital, plain_long};
use super::{Advised, Answer, Found, name};
use crate::report::figure::Shown;
use crate::report::hosts::Host;
use crate::report::number;
use crate::run::Definition;

/// The page's name.
pub(super) fn heading(hosts: &[Host<'_>]) -> String {
    match hosts {
        [] => "IPC: no machine".to_owned(),
        [host] => format!("IPC on {}", name(host, 0, 1)),
        hosts => format!("IPC on {} machines", hosts.len()),
    }
}

pub(super) fn title(hosts: &[Host<'_>]) -> Markup {
    let latest = super::runs(hosts).map(|run| run.started_unix_s).max();
    html! {
        p.kicker {
            "nearcall report"
            @if let Some(latest) = latest { " · measured " (number::date(latest)) }
        }
        h1 { (heading(hosts)) }
    }
}

/// What one sees before scrolling.
pub(super) fn screen(hosts: &[Host<'_>], shown: &[Shown]) -> Markup {
    let count = hosts.len();
    let summaries: Vec<Summary> =
        hosts.iter().enumerate().map(|(index, host)| summary(host, index, count)).collect();
    html! {
        div class={ "first" @if count > 1 { " many" } } {
            @for (index, summary) in summaries.iter().enumerate() {
                div.machine { (machine(summary, index, count)) }
            }
            (figures::pictures(shown))
        }
    }
}

fn machine(summary: &Summary, index: usize, count: usize) -> Markup {
    let id = if count == 1 { "here".to_owned() } else { format!("here-{}", index + 1) };
    html! {
        section.card.what aria-labelledby=(id) {
            h2 id=(id) { @if count == 1 { "This machine" } @else { (summary.name) } }
            p.lead { (summary.sentence) }
            dl.facts {
                @for (label, text) in &summary.facts {
                    div { dt { (label) } dd { (text) } }
                }
            }
        }
        section.card.use-here aria-labelledby={ (id) "-use" } {
            h2 id={ (id) "-use" } {
                "What is fast here, and what to use"
                @if count > 1 { span.of { " (machine " (index + 1) ")" } }
            }
            @if summary.answers.iter().all(|answer| answer.found.is_none()) {
                p { "These runs have no cell that answers one of these questions." }
            }
            ul.answers {
                @for answer in summary.answers.iter().filter(|answer| answer.found.is_some()) {
                    li { (one(answer)) }
                }
            }
            @if let Some(snippet) = &summary.snippet { pre { code { (snippet) } } }
            (definitions(summary))
        }
    }
}

fn one(answer: &Answer) -> Markup {
    html! {
        p.question { (answer.question) }
        @if let Some(found) = &answer.found {
            (figure_of(found, matches!(answer.advice, Advised::Refused(_))))
        }
        @match &answer.advice {
            Advised::Use { address, server_address, server_must, confidence, reasons, .. } => {
                p.use {
                    "Use " code { (address) } " (confidence " (confidence) "); "
                    "the server listens at "
                    code { (server_address) } ". "
                    @if let Some(reason) = reasons.get(1) { (plain_long(reason)) }
                }
                @if let Some(must) = server_must { p.use { (plain_long(must)) } }
            },
            Advised::Refused(why) => p.use { "No advice: " (plain_long(why)) "." },
        }
    }
}

/// The figure; what came next only where no advice names it.
fn figure_of(found: &Found, next: bool) -> Markup {
    html! {
        p.figure {
            strong { (found.figure()) } " over " b { (found.mechanism) } " "
            (grade_mark(found.grade))
        }
        p.trust { (found.trust()) ", " a href="#counted" { (title_of(found.definition)) } }
        p.words { (capital(&found.what)) "." @if next { " " (found.next()) } }
    }
}

/// What a definition counts, in a word or two inside a sentence.
fn title_of(definition: Definition) -> String {
    definition.title_and_meaning().0.to_lowercase()
}

/// What is counted: one line for each definition that the answers have.
fn definitions(summary: &Summary) -> Markup {
    let found = summary.answers.iter().filter_map(|answer| answer.found.as_ref());
    let mut seen: Vec<Definition> = found.map(|found| found.definition).collect();
    seen.sort_unstable();
    seen.dedup();
    html! {
        @if !seen.is_empty() {
            p.definition {
                "Counted: "
                @for (index, definition) in seen.into_iter().enumerate() {
                    @if index > 0 { "; " }
                    (title_of(definition)) ", " (definition.title_and_meaning().1)
                }
                ". NAME is your server's."
            }
        }
    }
}
