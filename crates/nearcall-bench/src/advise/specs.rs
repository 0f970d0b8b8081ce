//! Which cells a fresh measurement for some requirements has.
//!
//! A function of its arguments. Every candidate is measured by the same exchange: a call of the
//! runtime where calls can carry it, else the plain messages of the channel. What the cells say is
//! read by `evidence.rs`, whose idea of an exchange stands here too.

use nearcall_channel::WaitPolicy;

use super::candidates::Candidate;
use super::requirements::{Objective, Pattern, Requirements};
use crate::bench_plan::Shape;
use crate::budgets::rows::server_at_rest;
use crate::cell::{CellSpec, Scene, Subject};
use crate::run::Kind;
use crate::scene::Spot;

/// The exchange that is measured for a message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// What comes back.
    pub(super) shape: Shape,
    /// Payload bytes of one message of it.
    pub(super) bytes: u64,
}

impl Exchange {
    /// Calls of the runtime carry up to 1 MiB there and an empty reply; else plain messages. Where
    /// both ways carry much, the same amount of bytes goes half there and half back.
    pub(super) fn of(requirements: &Requirements) -> Self {
        let (message, reply) = (requirements.message_bytes, requirements.reply_bytes.unwrap_or(0));
        let (smaller, larger) = (message.min(reply), message.max(reply));
        let one_way = smaller <= REPLY_BYTES_SMALL || larger / smaller >= MUCH_LARGER;
        match one_way {
            true if larger <= CALL_BYTES_MAX => Self { shape: Shape::Call, bytes: larger },
            true => Self { shape: Shape::Sink, bytes: larger },
            false => Self { shape: Shape::Echo, bytes: (message + reply).div_ceil(2) },
        }
    }

    /// Payload bytes that cross, both ways together.
    pub(super) fn total_bytes(self) -> u64 {
        total_bytes(self.shape.name(), self.bytes)
    }
}

/// Payload bytes that an exchange of this shape moves, both ways together.
pub(super) fn total_bytes(shape: &str, message_bytes: u64) -> u64 {
    match shape == Shape::Echo.name() {
        true => message_bytes.saturating_mul(2),
        false => message_bytes,
    }
}

/// What a fresh measurement measures, candidate by candidate.
///
/// At a rate each exchange is measured at that rate, and once more without a pause, which tells how
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
        server_at_rest(mechanism, wait, IDLE_CONNECTIONS, Spot::OfRun)
    }));
    specs
}

fn exchanges(requirements: &Requirements, candidate: &Candidate) -> Vec<CellSpec> {
    let exchange = Exchange::of(requirements);
    let calls = exchange.shape == Shape::Call;
    let scene = Scene { load: requirements.load, ..Scene::default() };
    let latency = CellSpec {
        kind: Kind::Latency,
        subject: match calls {
            true => Subject::Call(candidate.route(&requirements.needs)),
            false => Subject::Mechanism(candidate.mechanism),
        },
        shape: exchange.shape,
        message_bytes: exchange.bytes,
        wait: candidate.wait,
        scene,
    };
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
            vec![latency, CellSpec { scene: Scene { rate_per_s, ..scene }, ..latency }]
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

/// A reply of a cache line costs what an empty one costs.
const REPLY_BYTES_SMALL: u64 = 64;

/// The smaller way is then lost in the noise.
const MUCH_LARGER: u64 = 8;

/// The largest argument that calls are measured with.
const CALL_BYTES_MAX: u64 = 1 << 20;

/// Thirty exchanges of a launch then take an eighth of a second.
const RATE_PER_S_MIN: u32 = 250;

/// A client that does nothing else begins hardly more.
const RATE_PER_S_MAX: u32 = 2_000_000;

/// Enough for a mean, and soon connected.
const IDLE_CONNECTIONS: u32 = 20;

#[cfg(test)]
mod tests {
    use nearcall_channel::Mechanism;

    use super::*;
    use crate::advise::{Need, Weights};
    use crate::calls::route::Route;

    fn exchange(message_bytes: u64, reply_bytes: u64) -> (Shape, u64) {
        let reply_bytes = Some(reply_bytes);
        let wanted = Requirements { message_bytes, reply_bytes, ..Requirements::default() };
        let exchange = Exchange::of(&wanted);
        (exchange.shape, exchange.bytes)
    }

    #[test]
    fn an_exchange_moves_as_much_as_is_wanted() {
        assert_eq!(exchange(4_096, 0), (Shape::Call, 4_096));
        assert_eq!(exchange(4_096, 64), (Shape::Call, 4_096));
        assert_eq!(exchange(8, 4_096), (Shape::Call, 4_096));
        assert_eq!(exchange(4_096, 4_096), (Shape::Echo, 4_096));
        assert_eq!(exchange(1_000, 3_000), (Shape::Echo, 2_000));
        assert_eq!(exchange(2 << 20, 0), (Shape::Sink, 2 << 20));
        assert_eq!(exchange(4 << 20, 4 << 20), (Shape::Echo, 4 << 20));
    }

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
        assert_eq!(specs[1].scene.rate_per_s, RATE_PER_S_MIN);
    }
}
