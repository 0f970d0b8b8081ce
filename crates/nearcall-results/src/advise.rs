//! Advises a mechanism: requirements and stored runs in, a ranking with reasons out.
//!
//! ```
//! use nearcall_results::advise::{Need, Refusal, Requirements, advise};
//!
//! let requirements = Requirements {
//!     message_bytes: 4096,
//!     needs: vec![Need::Pollable, Need::Isolation],
//!     optimise: "latency=0.7,cpu=0.3".parse()?,
//!     ..Requirements::default()
//! };
//! match advise(&requirements, &[]) {
//!     Ok(advice) => println!("use {}", advice.address),
//!     // Without a run there is no evidence; the refusal says what would give it.
//!     Err(refusal) => assert!(matches!(refusal, Refusal::Missing { .. })),
//! }
//! # Ok::<(), nearcall_results::advise::BadRequirements>(())
//! ```
//!
//! **Invariants:** a choice meets every need; all candidates of one ranking are judged by the same
//! kind of evidence from the same run; the same requirements and runs give the same advice. No cell
//! is left out for its grade, which would leave the choice to what was measured less; a mechanism
//! that exists to be measured is never a candidate. Where evidence is missing, advice is refused
//! with the reason.
//!
//! **Not here:** measuring (`nearcall-bench`), the verb (`nearcall-cli`).
//!
//! **Invariant:** an advised mechanism meets every requirement, and all candidates of one ranking
//! were judged by the same kind of evidence from the same run. *Checked by*
//! `the_choice_meets_all_needs_whatever_was_measured`, and by separate measurements in `cargo xtask
//! advise-check`.

mod advice;
mod candidates;
mod evidence;
mod exchange;
mod interpolation;
mod judge;
mod looks;
mod needs;
mod rank;
mod reasons;
mod refusal;
mod requirements;
mod text;
pub mod trace;

pub use advice::{Advice, Confidence, Figure, Ranked, RunnerUp, SCHEMA, Unmeasured};
pub use candidates::{Candidate, Excluded, OURS, Violation, candidates, eligible};
pub use exchange::Exchange;
pub use looks::{FINALISTS_MAX, finalists, join};
pub use needs::{Need, UnknownNeed};
pub use refusal::{Refusal, command};
pub use requirements::{BadRequirements, Objective, Pattern, Placement, Requirements, Weights};
pub use text::text;

use crate::noise::Grade;
use crate::report::number;
use crate::run::Run;
use evidence::EvidenceSet;
use judge::{Judged, judge};
use rank::{Position, Row, rank};

/// Advises a mechanism for `requirements` by what `runs` of one machine say. Of equally good
/// evidence that of the earlier run counts.
///
/// Pure: reads no file and no machine.
///
/// # Errors
///
/// [`Refusal`]: the requirements contradict each other, or the evidence is missing or bad.
pub fn advise(requirements: &Requirements, runs: &[&Run]) -> Result<Advice, Refusal> {
    requirements.check().map_err(Refusal::Requirements)?;
    let (eligible, mut excluded) = eligible(requirements);
    if eligible.is_empty() {
        return Err(Refusal::impossible(requirements));
    }
    if runs.windows(2).any(|pair| !pair[0].machine.is_same(&pair[1].machine)) {
        return Err(Refusal::Machines);
    }
    let mut judged = judge(requirements, &eligible, runs);
    excluded.append(&mut judged.too_slow);
    if judged.rows.is_empty() {
        return Err(refusal(requirements, &judged));
    }
    let standings = rank(&judged.rows, &requirements.optimise);
    if standings.is_empty() {
        return Err(Refusal::Missing {
            what:
                "every candidate of the second look is gone, and what was dropped after the first \
                   is no choice"
                    .to_owned(),
            command: command(requirements),
        });
    }
    let ranking: Vec<Ranked> =
        standings.iter().map(|one| ranked(requirements, &judged.rows[one.row], one)).collect();
    let choice = ranking[0].candidate;
    let run = judged.deciding(requirements).first().map_or(runs[0], |set| set.run);
    Ok(Advice {
        schema: SCHEMA.to_owned(),
        requirements: requirements.clone(),
        machine_id: run.machine.id.clone(),
        measured_unix_s: run.started_unix_s,
        runs: Vec::new(),
        choice,
        address: choice.address(&requirements.needs),
        server_address: choice.server_address(&requirements.needs),
        server_must: choice.server_must(&requirements.needs),
        confidence: confidence(requirements, &judged, &standings),
        reasons: reasons::reasons(requirements, &judged, &standings),
        runner_up: reasons::runner_up(requirements, &judged, &standings),
        ranking,
        evidence: evidence_words(requirements, &judged),
        measured_rate_per_s: judged.times.as_ref().and_then(EvidenceSet::rate_per_s),
        warnings: warnings(&judged, &standings, run),
        unmeasured: judged.unmeasured,
        excluded,
    })
}

fn refusal(requirements: &Requirements, judged: &Judged<'_>) -> Refusal {
    let command = command(requirements);
    if let Some(rate_per_s) = requirements.rate_per_s
        && let Some(best) = judged.fastest
    {
        return Refusal::TooSlow { rate_per_s, best: Some(best) };
    }
    let what = match judged.unmeasured.first() {
        Some(one) if !judged.deciding(requirements).is_empty() => {
            format!("{}: {}", one.candidate, one.why)
        }
        _ => format!("no {}", wanted_words(requirements)),
    };
    Refusal::Missing { what, command }
}

/// What evidence would be of, in words.
fn wanted_words(requirements: &Requirements) -> String {
    if requirements.optimise.wanted() == [Objective::Memory] {
        return "memory per connection".to_owned();
    }
    let what = match requirements.pattern {
        Pattern::Call => "calls or round trips",
        Pattern::OneWay => "one-way messages",
    };
    let size = number::size(requirements.message_bytes);
    let placement = match requirements.placement {
        Placement::Any => "",
        Placement::Cross => " across two CPUs",
        Placement::SameCpu => " with both ends on one CPU",
        Placement::Unpinned => " with ends that are not pinned",
    };
    let load = match requirements.load.is_idle() {
        true => String::new(),
        false => format!(" beside {}", requirements.load),
    };
    format!("{what} of about {size}{placement}{load}")
}

fn ranked(requirements: &Requirements, row: &Row, standing: &Position) -> Ranked {
    let figure = |objective| {
        row.value(objective).map(|value| Figure {
            value: value.value,
            ci95: value.spread.map(|spread| spread.map(|end| value.value * end.exp())),
        })
    };
    let cost = standing.cost;
    Ranked {
        candidate: row.candidate,
        address: row.candidate.address(&requirements.needs),
        server_address: row.candidate.server_address(&requirements.needs),
        offered_by_default: row.candidate.mechanism.offered_by_default(),
        cost_ratio: cost.exp(),
        cost_ratio_ci95: standing.half.map(|half| [(cost - half).exp(), (cost + half).exp()]),
        tied: standing.tied,
        latency_ns: figure(Objective::Latency),
        p99_ns: figure(Objective::P99),
        messages_per_s: figure(Objective::Throughput),
        cpu_ns_per_message: figure(Objective::Cpu),
        bytes_per_connection: figure(Objective::Memory),
        grade: row.grade,
        first_look: row.first_look,
    }
}

fn evidence_words(requirements: &Requirements, judged: &Judged<'_>) -> Vec<String> {
    let mut words = Vec::new();
    for set in judged.deciding(requirements) {
        words.push(format!("Judged by {}.", set.words(requirements)));
        let new = set.steps.iter().filter(|step| !words.contains(step)).cloned();
        words.extend(new.collect::<Vec<_>>());
        let away = set.estimates.iter().flatten().map(|one| one.away).fold(0.0, f64::max);
        if away > 0.0 {
            words.push(format!(
                "Up to {away:.1} doublings of the size away from what was measured: read off from \
                 the nearest sizes."
            ));
        }
    }
    if judged.rows.len() > 1 {
        words.push(
            "Costs are ratios within rounds of launches where there are three or more, so that the \
             machine's drift cancels; they need not be those of the figures beside them."
                .to_owned(),
        );
    }
    if requirements.pattern == Pattern::OneWay && requirements.optimise.latency > 0.0 {
        words.push("The way there cannot be timed alone: the round trip stands for it.".to_owned());
    }
    words
}

/// What a user should know before following the advice.
fn warnings(judged: &Judged<'_>, standings: &[Position], run: &Run) -> Vec<String> {
    let mut warnings: Vec<String> =
        run.warnings.iter().filter(|text| tells_of_others(text)).cloned().collect();
    let disturbed = |one: &&Position| judged.rows[one.row].grade == Some(Grade::D);
    let count = standings.iter().filter(disturbed).count();
    if count > 0 {
        warnings.push(format!(
            "Something else ran on the CPUs of {count} of {} candidates while they were measured: \
             their high percentiles say little.",
            standings.len()
        ));
    }
    warnings
}

/// Whether a warning of a run is that it was measured beside other programs.
fn tells_of_others(warning: &str) -> bool {
    warning.starts_with(BUSY_WARNING)
}

/// What a warning of a run begins with that was measured beside other programs.
pub const BUSY_WARNING: &str = "Other programs";

/// The worst of what speaks against the evidence.
fn confidence(
    requirements: &Requirements,
    judged: &Judged<'_>,
    standings: &[Position],
) -> Confidence {
    let sets = judged.deciding(requirements);
    let distance = sets.iter().map(|set| set.distance).fold(0.0, f64::max);
    let estimates = sets.iter().flat_map(|set| &set.estimates).flatten();
    let launches = estimates.map(|one| one.launches).max();
    let grade = standings.first().and_then(|one| judged.rows[one.row].grade);
    let heaviest = requirements.optimise.wanted().first().copied();
    let spread = standings
        .first()
        .zip(heaviest)
        .and_then(|(one, objective)| judged.rows[one.row].value(objective)?.spread);
    let width = spread.map_or(0.0, |[below, above]| (above - below) / 2.0);
    let tails = requirements.optimise.p99 >= 0.5;
    let of = |low: bool, medium: bool| match (low, medium) {
        (true, _) => Confidence::Low,
        (_, true) => Confidence::Medium,
        _ => Confidence::High,
    };
    let all = [
        of(distance > DISTANCE_FAR, distance > DISTANCE_NEAR),
        of(launches.is_some_and(|n| n < 3), launches.is_some_and(|n| n < 5)),
        of(tails && grade >= Some(Grade::C), grade == Some(Grade::D)),
        of(width > WIDTH_FAR.ln(), width > WIDTH_NEAR.ln()),
        of(sets.iter().any(|set| set.run.warnings.iter().any(|text| tells_of_others(text))), false),
        of(false, judged.unmeasured.len() > judged.rows.len()),
    ];
    all.into_iter().min().unwrap_or(Confidence::Low)
}

/// A pair of CPUs that lie a little further apart, a doubling of size.
const DISTANCE_NEAR: f64 = 0.15;

/// A figure of the choice that may be off by more either way is a rough one.
const WIDTH_NEAR: f64 = 1.2;

/// One that may be off by more says little but its order of magnitude.
const WIDTH_FAR: f64 = 1.6;

/// Plain messages for calls, another rhythm, another placement.
const DISTANCE_FAR: f64 = 0.7;

#[cfg(test)]
mod tests;
