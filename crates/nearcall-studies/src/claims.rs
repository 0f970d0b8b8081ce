//! The verdicts on what the studies claim, from the figures of one machine.
//!
//! One row per claim, one file per study; a row follows the predicate that was written for its
//! claim, and says where it had to choose. All of it is pure.
//!
//! One rule for all studies decides by which statistic. A claim is judged by our robust one: the
//! median of the round trips, or their minimum where the study reports the minimum; claims about
//! maxima, first exchanges and occasional large values use just these. Then it is judged again by
//! the study's own statistic, and at other placements where the study does not state one; a verdict
//! that differs is named in the evidence. If the figures for the first way of looking are missing,
//! the next one judges, and the evidence says which.
//!
//! Whatever a claim needs and the evidence lacks makes it SKIPPED, with the name of what is
//! missing.
//!
//! **Invariant:** every claim has one predicate and every predicate a claim, and a predicate is a
//! pure function of evidence that can be true and false. *Checked by*
//! `every_claim_has_one_predicate_and_every_predicate_a_claim`,
//! `the_papers_own_figures_give_the_known_outcomes`.

mod cross;
mod enea;
mod facts;
mod motorola;
mod rising;
mod rule;
mod short_comparison;
mod term;
mod verdict;
mod wisconsin_evaluation;
mod wisconsin_latency;

pub use nearcall_results::run::{ClaimVerdict as Verdict, Judged};

use crate::Study;
use crate::claims::facts::View;
use crate::claims::rule::Rule;
use crate::claims::verdict::{Answer, Finding, Missing, Truth};
use crate::evidence::Evidence;
use crate::published::{self, Claim};

/// Judges the claims of `studies`, in the order of the claims; those between studies too if all
/// five are asked for.
#[must_use]
pub fn judge_all(evidence: &Evidence, studies: &[Study]) -> Vec<Judged> {
    let whole = Study::ALL.iter().all(|study| studies.contains(study));
    let wanted = |claim: &&Claim| match claim.study.parse::<Study>() {
        Ok(study) => studies.contains(&study),
        Err(_) => whole,
    };
    let rules = rules();
    published::claims().iter().filter(wanted).map(|claim| judge(evidence, &rules, claim)).collect()
}

/// Judges one claim. A claim that no row knows is SKIPPED.
fn judge(evidence: &Evidence, rules: &[(Study, Rule)], claim: &Claim) -> Judged {
    let of_study = rules.iter().find(|(_, rule)| rule.id == claim.id);
    let cross = cross::PREDICATES.iter().find(|(id, _)| *id == claim.id);
    let (verdict, words) = match (cross, of_study) {
        (Some((_, predicate)), _) => told(&predicate(evidence)),
        (None, Some((study, rule))) => look_at(evidence, *study, rule),
        (None, None) => (Verdict::Skipped, "no predicate of that name".to_owned()),
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

/// Judges a claim between studies.
type CrossPredicate = fn(&Evidence) -> Answer;

/// The claims of each study.
fn rules() -> Vec<(Study, Rule)> {
    let of = |study, rules: Vec<Rule>| rules.into_iter().map(move |rule| (study, rule));
    let motorola = of(Study::Motorola, motorola::rules());
    let enea = of(Study::Enea, enea::rules());
    let latency = of(Study::WisconsinLatency, wisconsin_latency::rules());
    let evaluation = of(Study::WisconsinEvaluation, wisconsin_evaluation::rules());
    let short = of(Study::ShortComparison, short_comparison::rules());
    motorola.chain(enea).chain(latency).chain(evaluation).chain(short).collect()
}

/// Judges by each way of looking at the study; the first that has its figures decides.
fn look_at(evidence: &Evidence, study: Study, rule: &Rule) -> (Verdict, String) {
    let looks = View::all(evidence, study).map(|view| (view.words, told(&rule.answer(&view))));
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
