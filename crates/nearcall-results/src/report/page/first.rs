//! One machine on the page: what it is, what to use, one table, its figures, and its runs.

use maud::{Markup, html};

use super::summary::{Summary, summary};
use super::table::{Table, grade_mark};
use super::text::{capital, plain_long};
use super::{Advised, Answer, Found};
use crate::report::columns;
use crate::report::figure::{Figure, figures, smallest};
use crate::report::hosts::Host;
use crate::report::markdown::COLUMNS;
use crate::report::number;
use crate::report::table;
use crate::run::{Definition, Run};

/// The `index`th machine of `count`, from 0.
pub(super) fn machine(host: &Host<'_>, index: usize, count: usize) -> Markup {
    let summary = summary(host, index, count);
    let id = |name: &str| match index {
        0 => name.to_owned(),
        index => format!("{name}-{}", index + 1),
    };
    let drawn = figures(host, index);
    html! {
        section aria-labelledby=(id("machine")) {
            h2 id=(id("machine")) { @if count == 1 { "This machine" } @else { (summary.name) } }
            p.lead { (summary.sentence) }
            dl.facts {
                @for (label, text) in &summary.facts { div { dt { (label) } dd { (text) } } }
            }
            @if host.entries.is_empty() && host.runs.iter().all(|run| run.studies.is_empty()) {
                p.missing { "These runs have no cells of their own." }
            }
            (answers(&summary, &id("use")))
            (small(host, &id("small")))
            @if !drawn.is_empty() {
                h3 id=(id("figures")) { "Figures" }
                div.figures { @for figure in &drawn { (one_figure(figure)) } }
            }
            h3 id=(id("more")) { "All runs" }
            @for (at, run) in host.runs.iter().take(RUNS_MAX).enumerate() {
                (of_run(run, &format!("{}-{}", id("run"), at + 1)))
            }
            @if let Some(more @ 1..) = host.runs.len().checked_sub(RUNS_MAX) {
                p.note { (more) " earlier runs are not listed here; `nearcall show` prints each." }
            }
        }
    }
}

/// A card for each question that has an answer; nothing without any.
fn answers(summary: &Summary, id: &str) -> Markup {
    let found = || summary.answers.iter().filter(|answer| answer.found.is_some());
    html! {
        @if found().next().is_some() {
            h3 id=(id) { "What is fast here, and what to use" }
            ul.answers { @for answer in found() { li.card { (one(answer)) } } }
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

/// The smallest round trip of every mechanism, of which a phone shows the first columns.
fn small(host: &Host<'_>, id: &str) -> Markup {
    let cells = smallest(host);
    html! {
        @if !cells.is_empty() {
            h3 id=(id) { "Every mechanism: the smallest round trip" }
            div.brief {
                (Table::new(&format!("{id}-table"), "Sorted by the median; grade: how undisturbed",
                    &columns::table(&COLUMNS, cells.into_iter().take(ROWS_MAX))))
            }
        }
    }
}

fn one_figure(figure: &Figure) -> Markup {
    let rows = figure.table.texts().count();
    let id = format!("{}-values", figure.id);
    html! {
        figure id=(figure.id) aria-labelledby={ (figure.id) "-head" } {
            h4 id={ (figure.id) "-head" } { (figure.title) }
            div.plot { (figure.svg) }
            figcaption {
                (plain_long(&figure.caption))
                @for note in &figure.notes { " " (plain_long(note)) }
            }
            details {
                summary { "The values as a table (" (rows) " rows)" }
                (Table::new(&id, &figure.title, &figure.table))
            }
        }
    }
}

/// What a run says, as a terminal shows it.
fn of_run(run: &Run, id: &str) -> Markup {
    html! {
        details.run {
            summary {
                (capital(crate::dataset::kind_of_run(run))) ", " (number::date(run.started_unix_s))
                @if run.partial { ", cut short" }
                @if !run.warnings.is_empty() { ", with warnings" }
            }
            (table::document(run).html(id))
        }
    }
}

/// A longer table is for a program: `--csv` has all.
const ROWS_MAX: usize = 80;

/// More runs on one page are not read.
const RUNS_MAX: usize = 60;
