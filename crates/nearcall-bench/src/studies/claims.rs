//! The verdicts on what the studies claim, from the figures of one machine.
//!
//! One function per claim, one file per study; a function follows the predicate that was written
//! for its claim, and says where it had to choose. All of it is pure.
//!
//! One rule for all studies decides by which statistic. A claim is judged by our robust one: the
//! median of the round trips, or their minimum where the study reports the minimum; claims about
//! maxima, first exchanges and occasional large values use just these. Then it is judged again by
//! the study's own statistic, and at other placements where the study does not state one; a verdict
//! that differs is told in the evidence. If the figures for the first way of looking are missing,
//! the next one judges, and the evidence says which.
//!
//! Whatever a claim needs and the evidence lacks makes it SKIPPED, with the name of what is
//! missing.

mod cross;
mod enea;
mod motorola;
mod rising;
mod short_comparison;
mod truth;
mod view;
mod wisconsin_evaluation;
mod wisconsin_latency;

pub use nearcall_results::run::{ClaimVerdict as Verdict, Judged};

use crate::studies::Study;
use crate::studies::claims::truth::{Answer, Finding, Missing, Truth};
use crate::studies::claims::view::View;
use crate::studies::evidence::Evidence;
use crate::studies::paper::{self, Claim};

/// Judges the claims of `studies`, in the order of the claims; those between studies too if all
/// five are asked for.
#[must_use]
pub fn judge_all(evidence: &Evidence, studies: &[Study]) -> Vec<Judged> {
    let whole = Study::ALL.iter().all(|study| studies.contains(study));
    let wanted = |claim: &&Claim| match claim.study.parse::<Study>() {
        Ok(study) => studies.contains(&study),
        Err(_) => whole,
    };
    paper::claims().iter().filter(wanted).map(|claim| judge(evidence, claim)).collect()
}

/// Judges one claim. A claim that no function knows is SKIPPED.
#[must_use]
pub fn judge(evidence: &Evidence, claim: &Claim) -> Judged {
    let (verdict, words) = match rule(&claim.id) {
        Some(Rule::OfStudy(study, predicate)) => look_at(evidence, study, predicate),
        Some(Rule::Cross(predicate)) => told(&predicate(evidence)),
        None => (Verdict::Skipped, "no predicate of that name".to_owned()),
    };
    Judged {
        id: claim.id.clone(),
        study: claim.study.clone(),
        statement: claim.statement.clone(),
        verdict,
        evidence: words,
        paper: claim.paper_evidence.clone(),
    }
}

/// Judges a claim of one study by one way of looking.
type Predicate = fn(&View<'_>) -> Answer;

/// Judges a claim between studies.
type CrossPredicate = fn(&Evidence) -> Answer;

#[derive(Clone, Copy)]
enum Rule {
    OfStudy(Study, Predicate),
    Cross(CrossPredicate),
}

/// The predicates of each study.
const PREDICATES: [(Study, &[(&str, Predicate)]); 5] = [
    (Study::Motorola, motorola::PREDICATES),
    (Study::Enea, enea::PREDICATES),
    (Study::WisconsinLatency, wisconsin_latency::PREDICATES),
    (Study::WisconsinEvaluation, wisconsin_evaluation::PREDICATES),
    (Study::ShortComparison, short_comparison::PREDICATES),
];

fn rules() -> impl Iterator<Item = (&'static str, Rule)> {
    let of_studies = PREDICATES.into_iter().flat_map(|(study, table)| {
        table.iter().map(move |&(id, predicate)| (id, Rule::OfStudy(study, predicate)))
    });
    let cross = cross::PREDICATES.iter().map(|&(id, predicate)| (id, Rule::Cross(predicate)));
    of_studies.chain(cross)
}

fn rule(id: &str) -> Option<Rule> {
    rules().find(|(known, _)| *known == id).map(|(_, rule)| rule)
}

/// Judges by each way of looking at the study; the first that has its figures decides.
fn look_at(evidence: &Evidence, study: Study, predicate: Predicate) -> (Verdict, String) {
    let looks = View::all(evidence, study).map(|view| (view.words, told(&predicate(&view))));
    let looks: Vec<(&str, (Verdict, String))> = looks.collect();
    let judging = looks.iter().position(|(_, (verdict, _))| *verdict != Verdict::Skipped);
    let (words, (verdict, finding)) = &looks[judging.unwrap_or(0)];
    let mut text = finding.clone();
    // The tables of that study show another placement than the one that judges.
    if judging.is_some_and(|at| at > 0 || study == Study::Motorola) {
        text = format!("{words}: {text}");
    }
    let others = looks.iter().skip(judging.map_or(looks.len(), |at| at + 1));
    for (words, (other, finding)) in others {
        match other {
            Verdict::Skipped => {}
            same if same == verdict => {}
            // Contradicts nothing, so its figures would only take room.
            Verdict::Inconclusive => text.push_str(&format!("; {words} {other}")),
            _ => text.push_str(&format!("; {words} {other}: {finding}")),
        }
    }
    (*verdict, text)
}

fn told(answer: &Answer) -> (Verdict, String) {
    match answer {
        Ok(finding) => (verdict(finding), finding.evidence()),
        Err(Missing(reason)) => (Verdict::Skipped, reason.clone()),
    }
}

fn verdict(finding: &Finding) -> Verdict {
    match finding.truth {
        Truth::True => Verdict::Confirmed,
        Truth::Open => Verdict::Inconclusive,
        Truth::False => Verdict::Refuted,
    }
}

#[cfg(test)]
mod tests;
