//! Random requirements that some candidates meet.
//!
//! A function of the seed and of what this machine supports. Always true: at least two candidates
//! are left, so that there is something to choose.

use fastrand::Rng;
use nearcall_bench::advise::candidates;
use nearcall_results::advise::{Need, Objective, Pattern, Placement, Requirements, Weights};
use nearcall_results::load::Load;

/// So many sets from the seeds in turn, for a machine with so many CPUs that may be used.
#[must_use]
pub(crate) fn sets(seeds: &[u64], count: usize, cpus: usize) -> Vec<Requirements> {
    let mut rngs: Vec<Rng> = seeds.iter().map(|seed| Rng::with_seed(*seed)).collect();
    let mut sets = Vec::new();
    while sets.len() < count {
        let turn = sets.len() % rngs.len();
        let set = one(&mut rngs[turn], cpus);
        if set.check().is_ok() && candidates(&set).0.len() >= CANDIDATES_MIN {
            sets.push(set);
        }
    }
    sets
}

fn one(rng: &mut Rng, cpus: usize) -> Requirements {
    let message_bytes = logarithmic(rng, MESSAGE_BYTES_MAX);
    let pattern = if rng.u8(0..4) == 0 { Pattern::OneWay } else { Pattern::Call };
    let reply_bytes = match (pattern, rng.u8(0..10)) {
        (Pattern::OneWay, _) | (Pattern::Call, 0..4) => None,
        (Pattern::Call, 4..7) => Some(message_bytes),
        (Pattern::Call, _) => Some(logarithmic(rng, MESSAGE_BYTES_MAX)),
    };
    let optimise = weights(rng);
    let all_bytes = message_bytes + reply_bytes.unwrap_or(0);
    // What nobody can keep up tells nothing, and few exchanges have no 99th percentile.
    let rate_max = (BYTES_PER_S_MAX / all_bytes).clamp(RATE_PER_S_MIN, RATE_PER_S_MAX);
    let rate = RATE_PER_S_MIN * logarithmic(rng, RATE_PER_S_MAX / RATE_PER_S_MIN);
    let has_rate = rng.u8(0..10) < 4 && optimise.p99 == 0.0;
    let placement = match (cpus, rng.u8(0..10)) {
        (0..2, _) => Placement::SameCpu,
        (_, 0..6) => Placement::Cross,
        (_, 6..9) => Placement::SameCpu,
        (_, _) => Placement::Any,
    };
    let mut needs = Need::ALL.to_vec();
    rng.shuffle(&mut needs);
    needs.truncate(rng.usize(0..=NEEDS_MAX));
    Requirements {
        message_bytes,
        reply_bytes,
        rate_per_s: has_rate.then(|| rate.min(rate_max) as f64),
        pattern,
        placement,
        load: if rng.u8(0..10) == 0 { Load::duty(LOAD_PERCENT) } else { Load::default() },
        needs,
        clients: None,
        optimise,
    }
}

/// Each doubling from 1 to `max` is as likely as any other.
fn logarithmic(rng: &mut Rng, max: u64) -> u64 {
    let octave = rng.u32(0..=max.max(1).ilog2());
    let low = 1_u64 << octave;
    rng.u64(low..=(2 * low - 1).min(max.max(1)))
}

fn weights(rng: &mut Rng) -> Weights {
    match rng.u8(0..20) {
        0..9 => Weights::only(Objective::Latency),
        9..11 => Weights::only(Objective::P99),
        11..14 => Weights::only(Objective::Throughput),
        14..17 => Weights::only(Objective::Cpu),
        _ => Weights { latency: 0.7, cpu: 0.3, ..Weights::default() },
    }
}

/// One candidate is no choice.
const CANDIDATES_MIN: usize = 2;

/// More needs than this leave nothing to choose.
const NEEDS_MAX: usize = 3;

/// Larger messages take most of the time and are seldom sent.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

const RATE_PER_S_MIN: u64 = 100;
const RATE_PER_S_MAX: u64 = 50_000;

/// A tenth of what memory moves.
const BYTES_PER_S_MAX: u64 = 200_000_000;

/// Enough to be noticed; the ends still get their CPUs.
const LOAD_PERCENT: u8 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sets_again_and_another_one_others() {
        let (first, again) = (sets(&[1], 40, 2), sets(&[1], 40, 2));
        assert_eq!(first, again);
        assert_ne!(first, sets(&[2], 40, 2));
        let both = sets(&[1, 2], 4, 2);
        assert_eq!((&both[2], &both[3]), (&first[1], &sets(&[2], 2, 2)[1]));
        assert!(first.iter().any(|set| set.message_bytes < 64));
        assert!(first.iter().any(|set| set.message_bytes > 64 << 10));
        assert!(first.iter().any(|set| set.needs.len() > 1));
        assert!(first.iter().any(|set| set.rate_per_s.is_some()));
        for set in &first {
            assert_eq!(set.check(), Ok(()), "{set:?}");
        }
    }

    #[test]
    fn with_one_cpu_both_ends_share_it() {
        assert!(sets(&[3], 10, 1).iter().all(|set| set.placement == Placement::SameCpu));
    }
}
