//! One choice for traffic of several kinds: the cheapest for all of it together.
//!
//! A candidate's figure for the mixture is the mean of its figures for the kinds, each as heavy as
//! its share of the messages. Costs follow from figures as for one kind: the product of the ratios
//! to the best, by the weights.
//!
//! **Invariants:** pure; the choice was measured for every kind.

use serde::{Deserialize, Serialize};

use super::Recording;
use super::kinds::kind_words;
use crate::advise::{
    Advice, Candidate, Confidence, Excluded, Figure, Objective, Ranked, Refusal, Requirements,
    RunnerUp, Unmeasured, Violation, advise, command,
};
use crate::report::number;
use crate::run::Run;

/// An advice for recorded traffic (`nearcall.advice/1` with two more fields). Its requirements are
/// those of the most frequent kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficAdvice {
    /// What to use for all of it.
    #[serde(flatten)]
    pub advice: Advice,
    /// What was recorded.
    pub recording: Recording,
    /// The kinds of messages, the most frequent first.
    pub kinds: Vec<Kind>,
}

/// One kind of message, and what would be best for it alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Its share of all messages.
    pub share: f64,
    /// What it wants.
    pub requirements: Requirements,
    /// The first choice for it alone.
    pub choice: Candidate,
    /// How many times the cost of that the choice for the mixture has here.
    pub cost_ratio: f64,
}

/// Advises for one kind of message as [`advise`] does. Where the runs say nothing of its rate, it
/// is judged as if messages came one after the other, and the advice says so.
///
/// # Errors
///
/// As [`advise`].
pub fn advise_kind(wanted: &Requirements, runs: &[&Run]) -> Result<Advice, Refusal> {
    let refusal = match advise(wanted, runs) {
        Err(refusal @ Refusal::Missing { .. }) => refusal,
        outcome => return outcome,
    };
    let Some(rate) = wanted.rate_per_s else { return Err(refusal) };
    let unpaced = Requirements { rate_per_s: None, ..wanted.clone() };
    let mut advice = advise(&unpaced, runs).map_err(|_| refusal)?;
    advice.evidence.push(format!(
        "Nothing was measured at {rate} per second, as it was recorded: judged by messages that \
         come one after the other."
    ));
    Ok(advice)
}

/// Puts the advices for the kinds together, each with its share of the messages; the shares add up
/// to 1 and the heaviest comes first, as [`requirements`](super::requirements) gives them.
///
/// # Errors
///
/// [`Refusal::Missing`], if no candidate was measured for every kind.
pub fn combine(recording: Recording, parts: Vec<(Advice, f64)>) -> Result<TrafficAdvice, Refusal> {
    let Some((first, _)) = parts.first() else {
        let what = "the recording has no messages".to_owned();
        return Err(Refusal::Missing { what, command: "nearcall advise".to_owned() });
    };
    let (ranking, too_slow) = match &parts[..] {
        [(only, _)] => (only.ranking.clone(), Vec::new()),
        _ => rank(&parts, recording.rate_per_s),
    };
    let Some(choice) = ranking.first().map(|one| one.candidate) else {
        if let (Some(rate_per_s), false) = (recording.rate_per_s, too_slow.is_empty()) {
            return Err(Refusal::TooSlow { rate_per_s, best: None });
        }
        let what = "no candidate was measured for every kind of message".to_owned();
        return Err(Refusal::Missing { what, command: command(&first.requirements) });
    };
    let kinds: Vec<Kind> = parts.iter().map(|part| kind(part, choice)).collect();
    let mut advice = first.clone();
    if parts.len() > 1 {
        let needs = &first.requirements.needs;
        advice.choice = choice;
        advice.address = choice.address(needs);
        advice.server_address = choice.server_address(needs);
        let confidence = parts.iter().map(|part| part.0.confidence).min();
        advice.confidence = confidence.unwrap_or(Confidence::Low);
        advice.runner_up = ranking.get(1).map(|second| runner_up(&parts, choice, second));
        advice.excluded = excluded(&parts, too_slow);
        advice.ranking = ranking;
        advice.unmeasured = unmeasured(&parts, &advice);
        advice.evidence = distinct(parts.iter().flat_map(|part| &part.0.evidence));
        advice.runs = distinct(parts.iter().flat_map(|part| &part.0.runs));
        advice.reasons = reasons(&kinds, &advice);
    }
    advice.evidence.extend(recording.notes.iter().cloned());
    Ok(TrafficAdvice { advice, recording, kinds })
}

/// Each once, in the order given.
fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if !found.contains(text) {
            found.push(text.clone());
        }
    }
    found
}

/// The row of a candidate in the ranking for one kind.
fn row(advice: &Advice, candidate: Candidate) -> Option<&Ranked> {
    advice.ranking.iter().find(|one| one.candidate == candidate)
}

/// How many times the cost of the best for this kind alone a candidate has.
fn cost_ratio(advice: &Advice, candidate: Candidate) -> f64 {
    let best = advice.ranking.first().map_or(1.0, |one| one.cost_ratio);
    row(advice, candidate).map_or(f64::INFINITY, |own| own.cost_ratio / best)
}

fn kind((advice, share): &(Advice, f64), choice: Candidate) -> Kind {
    Kind {
        share: *share,
        requirements: advice.requirements.clone(),
        choice: advice.choice,
        cost_ratio: cost_ratio(advice, choice),
    }
}

/// Candidates that have figures for every kind, the cheapest for all together first, and those that
/// keep the rate of each kind alone and not that of all of them.
fn rank(parts: &[(Advice, f64)], rate_per_s: Option<f64>) -> (Vec<Ranked>, Vec<Excluded>) {
    let weights = parts[0].0.requirements.optimise;
    let (mut all, mut too_slow) = (Vec::new(), Vec::new());
    for one in parts[0].0.ranking.iter().filter_map(|one| mixed(parts, one.candidate)) {
        match too_slow_for(&one, rate_per_s) {
            Some(excluded) => too_slow.push(excluded),
            None => all.push(one),
        }
    }
    for objective in weights.wanted() {
        let values: Vec<f64> = all.iter().map(|one| cost(one, objective)).collect();
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        for (one, value) in all.iter_mut().zip(values) {
            one.cost_ratio *= (value / best).powf(weights.of(objective));
        }
    }
    let best = all.iter().map(|one| one.cost_ratio).fold(f64::INFINITY, f64::min);
    for one in &mut all {
        one.cost_ratio /= best;
        one.tied = one.cost_ratio <= ALIKE_MAX;
    }
    all.retain(|one| one.cost_ratio.is_finite());
    all.sort_by(|a, b| a.first_look.cmp(&b.first_look).then(a.cost_ratio.total_cmp(&b.cost_ratio)));
    (all, too_slow)
}

fn too_slow_for(one: &Ranked, rate_per_s: Option<f64>) -> Option<Excluded> {
    let (wanted, most) = (rate_per_s?, one.messages_per_s?.value);
    let why = format!(
        "cannot keep {} of all kinds together: does {} at most",
        number::message_rate(wanted),
        number::message_rate(most)
    );
    let by = vec![Violation { requirement: "the recorded rate".to_owned(), why }];
    (most < wanted).then_some(Excluded { candidate: one.candidate, by })
}

/// A candidate's figures for the mixture, without intervals; `None` if it lacks one kind.
fn mixed(parts: &[(Advice, f64)], candidate: Candidate) -> Option<Ranked> {
    let rows = parts.iter().map(|(advice, share)| Some((row(advice, candidate)?, *share)));
    let rows: Vec<(&Ranked, f64)> = rows.collect::<Option<_>>()?;
    let mean = |of: fn(&Ranked) -> Option<f64>| {
        let sum: Option<f64> = rows.iter().map(|(row, share)| Some(share * of(row)?)).sum();
        sum.map(|value| Figure { value, ci95: None })
    };
    let first_looks = rows.iter().filter(|row| row.0.first_look).map(|row| row.1);
    Some(Ranked {
        cost_ratio: 1.0,
        cost_ratio_ci95: None,
        latency_ns: mean(|row| Some(row.latency_ns?.value)),
        p99_ns: mean(|row| Some(row.p99_ns?.value)),
        // Of rates the times are added.
        messages_per_s: mean(|row| Some(1.0 / row.messages_per_s?.value))
            .map(|time_s| Figure { value: 1.0 / time_s.value, ci95: None }),
        cpu_ns_per_message: mean(|row| Some(row.cpu_ns_per_message?.value)),
        bytes_per_connection: mean(|row| Some(row.bytes_per_connection?.value)),
        grade: rows.iter().filter_map(|row| row.0.grade).max(),
        // One rare kind shall not put the best behind all others.
        first_look: first_looks.sum::<f64>() > 0.5,
        ..rows[0].0.clone()
    })
}

/// What is compared; infinite where it was not measured.
fn cost(row: &Ranked, objective: Objective) -> f64 {
    let figure = match objective {
        Objective::Latency => row.latency_ns,
        Objective::P99 => row.p99_ns,
        Objective::Throughput => row.messages_per_s,
        Objective::Cpu => row.cpu_ns_per_message,
        Objective::Memory => row.bytes_per_connection,
    };
    match figure.map(|figure| figure.value).filter(|value| *value > 0.0) {
        Some(rate) if objective == Objective::Throughput => 1.0 / rate,
        value => value.unwrap_or(f64::INFINITY),
    }
}

fn runner_up(parts: &[(Advice, f64)], choice: Candidate, second: &Ranked) -> RunnerUp {
    let is_cheaper =
        |advice: &Advice| cost_ratio(advice, second.candidate) < cost_ratio(advice, choice);
    let wins = parts.iter().map(|part| &part.0).filter(|advice| is_cheaper(advice));
    RunnerUp {
        candidate: second.candidate,
        address: second.address.clone(),
        wins: wins
            .map(|advice| format!("for {} alone", kind_words(&advice.requirements)))
            .collect(),
    }
}

/// What does not meet the requirements of some kind, with all that it fails.
fn excluded(parts: &[(Advice, f64)], too_slow: Vec<Excluded>) -> Vec<Excluded> {
    let mut found: Vec<Excluded> = Vec::new();
    for one in parts.iter().flat_map(|part| part.0.excluded.clone()).chain(too_slow) {
        match found.iter_mut().find(|known| known.candidate == one.candidate) {
            Some(known) => {
                let new: Vec<_> = one.by.into_iter().filter(|by| !known.by.contains(by)).collect();
                known.by.extend(new);
            }
            None => found.push(one),
        }
    }
    found
}

/// What was measured for some kinds and not for all, or not at all.
fn unmeasured(parts: &[(Advice, f64)], advice: &Advice) -> Vec<Unmeasured> {
    let is_told = |candidate| {
        advice.ranking.iter().any(|one| one.candidate == candidate)
            || advice.excluded.iter().any(|one| one.candidate == candidate)
    };
    let mut found: Vec<Unmeasured> = Vec::new();
    for (part, _) in parts {
        let ranked = part.ranking.iter().map(|one| Unmeasured {
            candidate: one.candidate,
            why: "it was not measured for every kind of message".to_owned(),
        });
        for one in part.unmeasured.iter().cloned().chain(ranked) {
            let is_known = found.iter().any(|known| known.candidate == one.candidate);
            if !is_known && !is_told(one.candidate) {
                found.push(one);
            }
        }
    }
    found
}

fn reasons(kinds: &[Kind], advice: &Advice) -> Vec<String> {
    let mut reasons = vec![format!(
        "Of {} kinds of messages, each counted by its share, all together cost the least with {}.",
        kinds.len(),
        advice.choice
    )];
    for kind in kinds {
        let percent = 100.0 * kind.share;
        let what = kind_words(&kind.requirements);
        reasons.push(match kind.choice == advice.choice {
            true => format!("{percent:.0} % are {what}: it is the best for them alone too."),
            false => format!(
                "{percent:.0} % are {what}: {} would be best for them alone; this costs {:.2} \
                 times as much.",
                kind.choice, kind.cost_ratio
            ),
        });
    }
    reasons
}

/// What is dearer by less makes no difference to anybody.
const ALIKE_MAX: f64 = 1.03;

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::advise::Weights;

    /// An advice whose ranking is these candidates with their latencies, the best first.
    fn advice(ranking: &[(&str, f64)]) -> Advice {
        let best = ranking[0].1;
        let ranked = |&(name, ns): &(&str, f64)| {
            let (mechanism, wait) = name.split_once(' ').unwrap();
            let candidate =
                Candidate { mechanism: mechanism.parse().unwrap(), wait: wait.parse().unwrap() };
            Ranked {
                candidate,
                address: candidate.address(&[]),
                cost_ratio: ns / best,
                cost_ratio_ci95: None,
                tied: false,
                latency_ns: Some(Figure { value: ns, ci95: Some([0.9 * ns, 1.1 * ns]) }),
                p99_ns: None,
                messages_per_s: Some(Figure { value: 1e9 / ns, ci95: None }),
                cpu_ns_per_message: None,
                bytes_per_connection: None,
                grade: None,
                first_look: false,
            }
        };
        let ranking: Vec<Ranked> = ranking.iter().map(ranked).collect();
        Advice {
            schema: crate::advise::SCHEMA.to_owned(),
            requirements: Requirements::default(),
            machine_id: "m".to_owned(),
            measured_unix_s: 0,
            runs: Vec::new(),
            choice: ranking[0].candidate,
            address: ranking[0].address.clone(),
            server_address: String::new(),
            confidence: Confidence::High,
            reasons: Vec::new(),
            runner_up: None,
            ranking,
            evidence: vec!["one run".to_owned()],
            warnings: Vec::new(),
            unmeasured: Vec::new(),
            excluded: Vec::new(),
        }
    }

    fn recording() -> Recording {
        read(&mut "0.1,8\n0.2,8\nx\n".as_bytes()).unwrap()
    }

    #[test]
    fn the_cheapest_for_all_together_wins_even_if_it_is_the_best_for_none() {
        let small = advice(&[("pipe block", 1_000.0), ("cma block", 1_200.0), ("tcp block", 9e3)]);
        let large =
            advice(&[("tcp block", 10_000.0), ("cma block", 11_000.0), ("pipe block", 9e4)]);
        let found = combine(recording(), vec![(small, 0.75), (large, 0.25)]).unwrap();
        let names: Vec<String> =
            found.advice.ranking.iter().map(|one| one.candidate.to_string()).collect();
        assert_eq!(names, ["cma block", "tcp block", "pipe block"]);
        let latency = found.advice.ranking[0].latency_ns.unwrap();
        assert!((latency.value - (0.75 * 1_200.0 + 0.25 * 11_000.0)).abs() < 1e-6);
        assert_eq!(found.advice.address, "NAME?via=cma&wait=block");
        assert!((found.kinds[0].cost_ratio - 1.2).abs() < 1e-9);
        assert!(found.advice.reasons[1].starts_with("75 % are calls of 64 B: pipe block"));
        let second = found.advice.runner_up.as_ref().unwrap();
        assert_eq!((second.candidate.mechanism.name(), second.wins.len()), ("tcp", 1));
        assert!(found.advice.evidence.iter().any(|text| text.contains("made no sense")));
        let text = serde_json::to_string(&found).unwrap();
        assert!(text.starts_with("{\"schema\":\"nearcall.advice/1\""), "{text}");
        let again: TrafficAdvice = serde_json::from_str(&text).unwrap();
        assert_eq!((again.advice.choice, again.kinds), (found.advice.choice, found.kinds));
        assert_eq!(again.recording, found.recording);
    }

    #[test]
    fn what_was_not_measured_for_every_kind_is_no_choice() {
        let small = advice(&[("pipe block", 1_000.0), ("tcp block", 9e3)]);
        let large = advice(&[("cma block", 1_000.0), ("tcp block", 9e3)]);
        let found = combine(recording(), vec![(small.clone(), 0.5), (large, 0.5)]).unwrap();
        assert_eq!(found.advice.choice.to_string(), "tcp block");
        assert_eq!(found.advice.unmeasured.len(), 2);
        let other = advice(&[("cma block", 1_000.0)]);
        let error = combine(recording(), vec![(small, 0.5), (other, 0.5)]).unwrap_err();
        assert!(error.to_string().contains("for every kind of message"), "{error}");
    }

    #[test]
    fn a_first_look_of_a_rare_kind_does_not_decide() {
        let often = advice(&[("pipe block", 1_000.0), ("tcp block", 9e3)]);
        let mut rare = advice(&[("tcp block", 5e3), ("pipe block", 9e3)]);
        rare.ranking[1].first_look = true;
        let found = combine(recording(), vec![(often, 0.9), (rare, 0.1)]).unwrap();
        assert_eq!(found.advice.choice.to_string(), "pipe block");
    }

    #[test]
    fn each_kind_alone_may_be_kept_and_all_together_not() {
        let parts = |slow_ns: f64| {
            let one = advice(&[("pipe block", slow_ns), ("tcp block", 2.0 * slow_ns)]);
            vec![(one.clone(), 0.5), (one, 0.5)]
        };
        let wanted = Recording { rate_per_s: Some(10_000.0), ..recording() };
        let found = combine(wanted.clone(), parts(60_000.0)).unwrap().advice;
        assert_eq!((found.ranking.len(), found.choice.to_string()), (1, "pipe block".to_owned()));
        assert!(found.excluded[0].by[0].why.starts_with("cannot keep 10.0 k/s of all kinds"));
        assert!(found.unmeasured.is_empty());
        let refusal = combine(wanted, parts(600_000.0)).unwrap_err();
        assert!(matches!(refusal, Refusal::TooSlow { .. }), "{refusal}");
    }

    #[test]
    fn what_a_later_kind_excludes_is_told_as_excluded() {
        let small = advice(&[("pipe block", 1_000.0), ("tcp block", 9e3)]);
        let mut large = advice(&[("tcp block", 9e3)]);
        let pipe = small.ranking[0].candidate;
        let by =
            |why: &str| vec![Violation { requirement: "--rate".to_owned(), why: why.to_owned() }];
        large.excluded = vec![Excluded { candidate: pipe, by: by("is too slow") }];
        let mut huge = large.clone();
        huge.excluded[0].by = by("is much too slow");
        let parts = vec![(small, 0.5), (large.clone(), 0.25), (huge, 0.25)];
        let found = combine(recording(), parts).unwrap().advice;
        assert_eq!((found.excluded.len(), found.excluded[0].by.len()), (1, 2));
        assert_eq!((found.excluded[0].candidate, found.unmeasured.len()), (pipe, 0));
    }

    #[test]
    fn one_kind_keeps_its_advice_and_rates_are_mixed_by_their_times() {
        let only = advice(&[("pipe block", 1_000.0)]);
        let found = combine(recording(), vec![(only.clone(), 1.0)]).unwrap();
        assert_eq!((found.advice.ranking, found.kinds.len()), (only.ranking.clone(), 1));
        let throughput = |ns| {
            let mut one = advice(&[("pipe block", ns)]);
            one.requirements.optimise = "throughput".parse::<Weights>().unwrap();
            one
        };
        let parts = vec![(throughput(1_000.0), 0.5), (throughput(3_000.0), 0.5)];
        let found = combine(recording(), parts).unwrap();
        let rate = found.advice.ranking[0].messages_per_s.unwrap().value;
        assert!((rate - 500_000.0).abs() < 1e-6, "{rate}");
    }
}
