//! Which cells a fresh measurement for some requirements has.
//!
//! A function of its arguments. Every candidate is measured by the same exchange: a call of the
//! runtime where calls can carry it, else the plain messages of the channel. What the cells say is
//! read in `nearcall-results`, whose idea of an exchange this is.

use nearcall_channel::WaitPolicy;
use nearcall_results::advise::{Candidate, Exchange, Objective, Pattern, Requirements};

use crate::bench_plan::Shape;
use crate::cell::{CellSpec, Conditions, Subject};
use crate::conditions::PinChoice;
use crate::run::Kind;

/// What a fresh measurement measures, candidate by candidate.
///
/// At a rate each exchange is measured at that rate, and once more without a pause, which shows how
/// much more the candidate could do. One-way messages are measured as fast as they go.
#[must_use]
pub fn specs(requirements: &Requirements, candidates: &[Candidate]) -> Vec<CellSpec> {
    let mut specs = Vec::new();
    let mut at_rest = Vec::new();
    for candidate in candidates {
        specs.extend(exchanges(requirements, candidate));
        if requirements.optimise.of(Objective::Memory) > 0.0
            && !at_rest.contains(&candidate.mechanism)
        {
            at_rest.push(candidate.mechanism);
        }
    }
    specs.extend(at_rest.into_iter().map(|mechanism| {
        // What a connection takes does not depend on how its ends wait.
        let sleeps = mechanism.waits().contains(&WaitPolicy::Block);
        let wait = if sleeps { WaitPolicy::Block } else { WaitPolicy::Spin };
        CellSpec::at_rest(mechanism, wait, IDLE_CONNECTIONS, PinChoice::OfRun)
    }));
    specs
}

fn exchanges(requirements: &Requirements, candidate: &Candidate) -> Vec<CellSpec> {
    let exchange = Exchange::of(requirements);
    let calls = exchange.shape == Shape::Call;
    let conditions = Conditions { load: requirements.load, ..Conditions::default() };
    let subject = match calls {
        true => Subject::Call(candidate.route(&requirements.needs)),
        false => Subject::Mechanism(candidate.mechanism),
    };
    let latency = CellSpec::latency(subject, exchange.shape, exchange.bytes, candidate.wait);
    let latency = CellSpec { conditions, ..latency };
    let stream = CellSpec {
        kind: Kind::Throughput,
        shape: if calls { Shape::Oneway } else { Shape::Sink },
        ..latency
    };
    let weights = requirements.optimise;
    let times = weights.latency + weights.p99 > 0.0;
    match (requirements.pattern, requirements.rate_per_s) {
        (Pattern::Call, None) => vec![latency],
        (Pattern::Call, Some(rate)) => {
            let rate_per_s = measured_rate(rate);
            vec![
                latency,
                CellSpec { conditions: Conditions { rate_per_s, ..conditions }, ..latency },
            ]
        }
        (Pattern::OneWay, _) if times => vec![latency, stream],
        (Pattern::OneWay, _) => vec![stream],
    }
}

/// The rate at which a fresh measurement measures: rarer messages take too long, and sleepers
/// differ little below it; no client begins more.
fn measured_rate(rate_per_s: f64) -> u32 {
    let rate = rate_per_s.round().clamp(f64::from(RATE_PER_S_MIN), f64::from(RATE_PER_S_MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just clamped")]
    let rate = rate as u32;
    rate
}

/// Thirty exchanges of a launch then take an eighth of a second.
const RATE_PER_S_MIN: u32 = 250;

/// A client that does nothing else begins hardly more.
const RATE_PER_S_MAX: u32 = 2_000_000;

/// Enough for a mean, and soon connected.
const IDLE_CONNECTIONS: u32 = 20;

#[cfg(test)]
mod tests {
    use nearcall_channel::Mechanism;
    use nearcall_results::advise::{Need, Weights};

    use super::*;
    use crate::calls::route::Route;

    #[test]
    fn candidates_are_measured_alike() {
        let of = |mechanism, wait| Candidate { mechanism, wait };
        let candidates =
            [of(Mechanism::Shm, WaitPolicy::Adaptive), of(Mechanism::Pipe, WaitPolicy::Poll)];
        let requirements = Requirements {
            rate_per_s: Some(1.0),
            needs: vec![Need::Pollable],
            optimise: "cpu=0.5,memory=0.5".parse::<Weights>().unwrap(),
            ..Requirements::default()
        };
        let specs = specs(&requirements, &candidates);
        let subjects: Vec<Subject> = specs.iter().map(|spec| spec.subject).collect();
        assert_eq!(subjects[0], Subject::Call(Route::Looped(Mechanism::Shm)));
        assert_eq!(subjects[2], Subject::Call(Route::Looped(Mechanism::Pipe)));
        assert_eq!(subjects[4..], [Mechanism::Shm, Mechanism::Pipe].map(Subject::AtRest));
        assert_eq!(specs[1].conditions.rate_per_s, RATE_PER_S_MIN);
    }
}
