//! Published studies: each claim with its verdict, and each table with the paper's figures.

use maud::{Markup, html};

use super::table::Table;
use super::text::{capital, plain};
use crate::report::columns::{Column, table};
use crate::report::hosts::Host;
use crate::report::number;
use crate::report::table::studies::{LEGEND, document};
use crate::run::{ClaimVerdict, Run, StudyResult};

/// All studies of the machine; of a study that several runs have, the latest.
pub(super) fn body(host: &Host<'_>, id: &str) -> Option<Markup> {
    let studies = studies(host);
    if studies.is_empty() {
        return (!host.entries.is_empty()).then(missing);
    }
    Some(html! {
        (counts(&studies, id))
        p.note { (capital(LEGEND)) }
        @for (index, (run, study)) in studies.iter().enumerate() {
            (one(run, study, &format!("{id}-{index}")))
        }
    })
}

fn missing() -> Markup {
    html! {
        p.missing {
            "No run of studies was given. " code { "nearcall reproduce all" }
            " repeats five of them and judges 70 claims."
        }
    }
}

/// Each study once, from the latest run that has it.
pub(crate) fn studies<'a>(host: &Host<'a>) -> Vec<(&'a Run, &'a StudyResult)> {
    let mut found: Vec<(&Run, &StudyResult)> = Vec::new();
    for &run in &host.runs {
        for study in &run.studies {
            if found.len() < STUDIES_MAX && found.iter().all(|(_, seen)| seen.study != study.study)
            {
                found.push((run, study));
            }
        }
    }
    found.sort_by(|(_, a), (_, b)| {
        (a.number.is_empty(), &a.number).cmp(&(b.number.is_empty(), &b.number))
    });
    found
}

/// The number and name of a study.
fn title(study: &StudyResult) -> String {
    format!("{} {}", plain(&study.number), plain(&study.study)).trim().to_owned()
}

fn counts(studies: &[(&Run, &StudyResult)], id: &str) -> Markup {
    let verdicts = studies.iter().flat_map(|(_, study)| study.verdicts.iter().cloned());
    let all =
        StudyResult { study: "all".to_owned(), verdicts: verdicts.collect(), ..Default::default() };
    let rows = studies.iter().map(|(_, study)| *study).chain([&all]);
    let caption = "What became of the claims on this machine";
    let table = table(&verdict_columns(), rows);
    html! { (Table::new(&format!("{id}-counts"), caption, &table).in_order()) }
}

/// How many claims of a study there are, and what became of them.
pub(crate) fn verdict_columns() -> [Column<StudyResult>; 6] {
    fn count(study: &StudyResult, verdict: ClaimVerdict) -> String {
        study.verdicts.iter().filter(|judged| judged.verdict == verdict).count().to_string()
    }
    [
        Column::words("study", 0, title),
        Column::figure("claims", 0, |study| study.verdicts.len().to_string()),
        Column::figure("confirmed", 0, |study| count(study, ClaimVerdict::Confirmed)),
        Column::figure("refuted", 0, |study| count(study, ClaimVerdict::Refuted)),
        Column::figure("inconclusive", 0, |study| count(study, ClaimVerdict::Inconclusive)),
        Column::figure("skipped", 0, |study| count(study, ClaimVerdict::Skipped)),
    ]
}

fn one(run: &Run, study: &StudyResult, id: &str) -> Markup {
    html! {
        (document(study).html(id))
        p.note {
            "Measured " (number::date(run.started_unix_s)) ", " (run.settings.launches)
            " launches per cell, seed " (run.settings.seed) "."
        }
    }
}

/// There are five, and what compares them; a file may claim more.
const STUDIES_MAX: usize = 20;
