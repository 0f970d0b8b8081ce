//! Gives each candidate its figures, and lists the candidates without.
//!
//! **Invariants:** a row has every figure that counts; a candidate without one is listed with the
//! reason, and one that cannot keep the rate is excluded by it. Which evidence is taken is in
//! `evidence.rs`, what follows from the rows in `rank.rs`.

use super::advice::Unmeasured;
use super::candidates::{Candidate, Excluded, Violation};
use super::evidence::{self, Estimate, EvidenceSet, Query};
use super::interpolation::Value;
use super::rank::Row;
use super::requirements::{Objective, Pattern, Requirements};
use crate::report::number;
use crate::run::{Kind, Rhythm, Run};

/// What the runs say of all candidates.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    /// Times of exchanges, at the rate if there is one.
    pub(super) times: Option<EvidenceSet<'a>>,
    /// Times of exchanges one right after the other, where there is a rate.
    pub(super) steady: Option<EvidenceSet<'a>>,
    /// Messages as fast as they go, one way.
    pub(super) stream: Option<EvidenceSet<'a>>,
    pub(super) rows: Vec<Row>,
    pub(super) unmeasured: Vec<Unmeasured>,
    pub(super) too_slow: Vec<Excluded>,
    /// The fastest of those that are too slow, with its rate.
    pub(super) fastest: Option<(Candidate, f64)>,
}

/// Judges candidates.
pub(super) fn judge<'a>(
    requirements: &Requirements,
    candidates: &[Candidate],
    runs: &[&'a Run],
) -> Judged<'a> {
    let rate_per_s = evidence::rate_of_calls(requirements);
    let query = |kind, rate_per_s| Query { requirements, candidates, kind, rate_per_s };
    let times = evidence::best(query(Kind::Latency, rate_per_s), runs);
    // From the run that the other times are from, if it has them.
    let steady = rate_per_s.and(times.as_ref()).and_then(|times| {
        let own = evidence::best(query(Kind::Latency, None), &[times.run]);
        own.or_else(|| evidence::best(query(Kind::Latency, None), runs))
    });
    let stream = (requirements.pattern == Pattern::OneWay)
        .then(|| evidence::best(query(Kind::Throughput, None), runs))
        .flatten();
    let mut judged = Judged {
        times,
        steady,
        stream,
        rows: Vec::new(),
        unmeasured: Vec::new(),
        too_slow: Vec::new(),
        fastest: None,
    };
    let memory = evidence::memory(candidates, runs);
    for (index, (&candidate, memory)) in candidates.iter().zip(memory).enumerate() {
        judged.add(requirements, (index, candidate), memory, runs);
    }
    judged
}

impl Judged<'_> {
    fn add(
        &mut self,
        requirements: &Requirements,
        (index, candidate): (usize, Candidate),
        memory: Option<Value>,
        runs: &[&Run],
    ) {
        let found = Sources {
            requirements,
            candidate,
            times: found(self.times.as_ref(), index),
            closed: found(self.steady.as_ref().or(self.times.as_ref()), index)
                .filter(|found| found.kept != Some(false)),
            stream: found(self.stream.as_ref(), index),
        };
        let values = Objective::ALL.map(|objective| match objective {
            Objective::Memory => memory.clone(),
            other => found.value(other),
        });
        let lacks = |objective: &Objective| {
            let at = Objective::ALL.iter().position(|one| one == objective);
            at.is_none_or(|at| values[at].is_none())
        };
        let keeps = found.keeps_rate(self.times.as_ref().map(|set| set.rhythm));
        if let Rate::Below { why, most } = keeps {
            if most > self.fastest.map_or(0.0, |(_, rate)| rate) {
                self.fastest = Some((candidate, most));
            }
            let by = vec![Violation { requirement: "--rate".to_owned(), why }];
            self.too_slow.push(Excluded { candidate, by });
            return;
        }
        let lacked = requirements.optimise.wanted().into_iter().find(|one| lacks(one));
        let memory_only = lacked == Some(Objective::Memory);
        let unknown = matches!(keeps, Rate::Unknown);
        if lacked.is_some() || unknown {
            let why = match lacked {
                Some(_) if !memory_only && found.fell_behind() => {
                    "it fell behind where it was measured, and such times say nothing".to_owned()
                }
                lacked => why_not(&candidate, runs).unwrap_or_else(|| match lacked {
                    Some(objective) => format!("no {} that fits", objective.figure().0),
                    None => "no cell shows whether it keeps the rate".to_owned(),
                }),
            };
            self.unmeasured.push(Unmeasured { candidate, why });
            return;
        }
        let used = [found.times, found.closed, found.stream];
        let used = || used.iter().flatten();
        self.rows.push(Row {
            candidate,
            values,
            grade: used().filter_map(|found| found.grade).max(),
            first_look: used().any(|found| found.first_look),
        });
    }

    /// Returns the sets that decide, the one of the heaviest objective first.
    pub(super) fn deciding(&self, requirements: &Requirements) -> Vec<&EvidenceSet<'_>> {
        let of = |objective: Objective| match (objective, requirements.pattern) {
            (Objective::Memory, _) => None,
            (Objective::Latency | Objective::P99, _) | (Objective::Cpu, Pattern::Call) => {
                self.times.as_ref()
            }
            (Objective::Throughput, Pattern::Call) => self.steady.as_ref().or(self.times.as_ref()),
            (Objective::Throughput | Objective::Cpu, Pattern::OneWay) => self.stream.as_ref(),
        };
        let mut sets: Vec<&EvidenceSet<'_>> = Vec::new();
        for set in requirements.optimise.wanted().into_iter().filter_map(of) {
            if !sets.iter().any(|one| std::ptr::eq(*one, set)) {
                sets.push(set);
            }
        }
        sets
    }
}

fn found<'b>(set: Option<&'b EvidenceSet<'_>>, index: usize) -> Option<&'b Estimate> {
    set?.estimates[index].as_ref()
}

/// Where a candidate's figures come from.
struct Sources<'b> {
    requirements: &'b Requirements,
    candidate: Candidate,
    times: Option<&'b Estimate>,
    closed: Option<&'b Estimate>,
    stream: Option<&'b Estimate>,
}

/// Whether a candidate keeps the rate.
enum Rate {
    Kept,
    /// It does no more than so many messages per second.
    Below {
        why: String,
        most: f64,
    },
    Unknown,
}

impl Sources<'_> {
    fn value(&self, objective: Objective) -> Option<Value> {
        let one_way = self.requirements.pattern == Pattern::OneWay;
        match objective {
            Objective::Latency => Some(self.kept_times()?.middle.clone()),
            Objective::P99 => self.kept_times()?.p99.clone(),
            Objective::Throughput if one_way => Some(self.stream?.middle.clone()),
            Objective::Throughput => Some(self.closed?.middle.inverted(NS_PER_S)),
            Objective::Cpu => {
                let found = if one_way { self.stream } else { self.kept_times() };
                Some(self.with_cpu_penalty(found?.cpu.clone()?))
            }
            Objective::Memory => None,
        }
    }

    /// Times of an end that fell behind tell how far it did so, and nothing of an exchange.
    fn kept_times(&self) -> Option<&Estimate> {
        self.times.filter(|_| !self.fell_behind())
    }

    fn fell_behind(&self) -> bool {
        self.times.is_some_and(|found| found.kept == Some(false))
    }

    /// CPU time that includes what a spinning end burns between two messages at the rate, also
    /// where it was measured at a higher one.
    fn with_cpu_penalty(&self, cpu: Value) -> Value {
        match self.requirements.rate_per_s {
            Some(rate) if self.candidate.spins() => {
                let least = NS_PER_S / rate;
                let launches = cpu.launches.iter().map(|ns| ns.max(least)).collect();
                Value { value: cpu.value.max(least), launches, ..cpu }
            }
            _ => cpu,
        }
    }

    fn keeps_rate(&self, measured: Option<Rhythm>) -> Rate {
        let Some(rate) = self.requirements.rate_per_s else { return Rate::Kept };
        let most = match self.requirements.pattern {
            Pattern::Call => self.closed.map(|found| NS_PER_S / found.middle.value),
            Pattern::OneWay => self.stream.map(|found| found.middle.value),
        };
        let tried = match (measured, self.times.and_then(|found| found.kept)) {
            (Some(Rhythm::Pace(tried)), Some(kept)) => Some((f64::from(tried), kept)),
            _ => None,
        };
        let words = number::message_rate;
        let at_most = |what: &str, most: f64| {
            let why = format!("{what} {}: does {} at most", words(rate), words(most));
            Rate::Below { why, most }
        };
        match (tried, most) {
            (Some((tried, true)), _) if tried >= rate * SAME_RATE => Rate::Kept,
            (Some((tried, false)), most) if tried * SAME_RATE <= rate => {
                match self.times.and_then(|found| found.achieved_per_s) {
                    Some(most) => {
                        let [wanted, tried, did] = [rate, tried, most].map(words);
                        let why =
                            format!("cannot keep {wanted}: fell behind at {tried} and did {did}");
                        Rate::Below { why, most }
                    }
                    None => at_most("cannot keep", most.unwrap_or(tried).min(tried)),
                }
            }
            (_, Some(most)) if most >= rate * HEADROOM => Rate::Kept,
            (_, Some(most)) if most >= rate => at_most("has too little room above", most),
            (_, Some(most)) => at_most("cannot keep", most),
            (_, None) => Rate::Unknown,
        }
    }
}

/// Why a run has nothing of a candidate, in its own words.
fn why_not(candidate: &Candidate, runs: &[&Run]) -> Option<String> {
    let of_it =
        |wait: &Option<String>| wait.as_deref().is_none_or(|wait| wait == candidate.wait.name());
    let skips = runs.iter().flat_map(|run| &run.skipped);
    let mut own =
        skips.filter(|one| one.mechanism == candidate.mechanism.name() && of_it(&one.wait));
    own.find(|one| one.unsupported || one.wait.is_some() || candidate.spins())
        .map(|one| one.reason.clone())
}

const NS_PER_S: f64 = 1e9;

/// What can do just the rate has no room for a bad moment.
const HEADROOM: f64 = 1.25;

/// Rates are measured in whole messages per second.
const SAME_RATE: f64 = 0.98;
