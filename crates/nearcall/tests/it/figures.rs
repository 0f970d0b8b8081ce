//! Figures of the runtime, printed rather than judged: other machines are busy. Run them alone:
//! `cargo test --release -p nearcall --test it figures -- --nocapture --test-threads 1`.
//!
//! They are small by default; each names the variables of the environment that enlarge it.
//! `NEARCALL_ROUNDS` is for all that compare: 2 rounds by default, 11 for the figures.
#![allow(clippy::print_stderr, reason = "they print figures")]

use crate::stage::prelude::*;

mod blocking;
mod connections;
mod deadlines;
mod decoding;
mod flood;
mod futures;
mod hunts;
mod recording;
mod replies;
mod slow_readers;

/// A number from the environment.
pub(crate) fn count(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn rounds() -> usize {
    count("NEARCALL_ROUNDS", 2).max(1)
}

/// The time at this share of the sorted ones, in microseconds.
pub(crate) fn percentile(sorted_ns: &[u64], share: f64) -> f64 {
    let last = sorted_ns.len() - 1;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index between zero and the last"
    )]
    let index = (last as f64 * share).round() as usize;
    sorted_ns[index.min(last)] as f64 / 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Response times of calls until `is_done`, of one at least, in nanoseconds.
fn time_calls(mut is_done: impl FnMut() -> bool, mut call: impl FnMut()) -> Vec<u64> {
    let mut times_ns = Vec::new();
    loop {
        let start_ns = clock::monotonic_ns();
        call();
        times_ns.push(clock::monotonic_ns() - start_ns);
        if is_done() {
            return times_ns;
        }
    }
}

/// Compares response times alone and beside something else, in rounds whose order alternates:
/// medians over the rounds, and of the ratios within each.
fn compare(mut alone: impl FnMut() -> Vec<u64>, mut beside: impl FnMut() -> Vec<u64>) -> String {
    let rounds: Vec<_> = (0..rounds())
        .map(|round| {
            let before = (round % 2 == 1).then(&mut beside);
            let alone = alone();
            let beside = before.unwrap_or_else(&mut beside);
            [alone, beside].map(|mut times_ns| {
                times_ns.sort_unstable();
                [percentile(&times_ns, 0.5), percentile(&times_ns, 0.99)]
            })
        })
        .collect();
    let [p50, p99] = [0, 1].map(|share| {
        let times = rounds.iter().map(|[alone, beside]| (alone[share], beside[share]));
        let alone = median(times.clone().map(|(alone, _)| alone));
        let beside = median(times.clone().map(|(_, beside)| beside));
        let ratio = median(times.map(|(alone, beside)| beside / alone));
        format!("{alone:.1} us alone, {beside:.1} us beside, ratio {ratio:.2}")
    });
    format!("p50 {p50}; p99 {p99}")
}
