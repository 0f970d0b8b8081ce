//! The claims of study 002: pipes, TCP without delay, and a bounded buffer in shared memory.
//!
//! Latencies are whole round trips; the study reports the minimum of 100. Its table of throughputs
//! is size divided by latency; ours is measured as the text describes it.

use crate::claims::rule::{
    Group, Rule, above, alike, at_least, at_most, between, each, less, once,
};
use crate::claims::term::{
    Domain, MAX, MEDIAN, SPREAD, Term, alone, latency, many, measured, over, rate,
};
use crate::evidence::Quantity;

pub(crate) fn rules() -> Vec<Rule> {
    let spread = |one: &'static str| {
        let name = format!("slowest / quickest size of {one}");
        let sizes = many(SPREAD, name, [latency(one)], [4, 16, 64, 256]);
        at_most(1.35, sizes.said("from 4 to 256 B"))
    };
    let agree = |one| each(Domain::measured(1, ..), [at_most(0.005, measured(DIFFERENCE, one))]);
    let cost = |timer| alone(Some(Quantity::TimerOverhead), timer);
    let near = |timer, paper: f64| between(paper / 3.0, paper * 3.0, cost(timer));
    vec![
        Rule::all(
            "W01",
            [each(
                [4, 16, 64, 256, 1024],
                [less(latency(PIPE), latency(TCP)), less(latency(BUFFER), latency(TCP))],
            )],
        ),
        Rule::all("W02", [buffer_is_slow()]),
        Rule::all(
            "W03",
            [each(
                [16_384, 65_536, 262_144, 524_288],
                [between(0.5, 2.0, latency(PIPE) / latency(TCP))],
            )],
        ),
        Rule::all("W04", [once(ALL.map(spread))]),
        Rule::all("W05", [each([65_536, 262_144, 524_288], [less(rate(PIPE), rate(TCP))])]),
        Rule::all("W06", [each([1024, 4096, 16_384], [less(rate(TCP), rate(PIPE))])]),
        // Chosen: the order of the two is the paper's, and each is within a factor of 3 of its
        // figure, as processors and kernels differ.
        Rule::all("W07", [once([less(cost(TSC), cost(CLOCK)), near(CLOCK, 65.0), near(TSC, 7.0)])])
            .values(
                "here timer:clock_gettime {}, timer:rdtsc {}; paper 65 ns and 7 ns",
                [cost(CLOCK), cost(TSC)],
            ),
        // Every cell that was timed by both clocks in one run.
        Rule::measured("W08", ALL.map(agree)),
        bytes_cost_the_same(),
        // Said of iterations in general, so the median over all cells with enough exchanges for a
        // percentile is judged.
        Rule::all(
            "W10",
            [once([
                above(
                    1.0,
                    over_cells("first exchange / 99th percentile", Quantity::First, Quantity::P99),
                ),
                at_most(1.2, over_cells("median / minimum", Quantity::Median, Quantity::Min)),
            ])],
        ),
    ]
}

/// The buffer that copies byte by byte takes at least three times as long as the others.
pub(crate) fn buffer_is_slow() -> Group {
    let name = "the slower of pipe and tcp";
    let slower = many(MAX, name, [PIPE, TCP].map(latency), Domain::Here);
    each([4096, 16_384, 65_536, 262_144, 524_288], [at_least(3.0, latency(BUFFER) / slower)])
}

/// The dearest byte costs at most 1.25 times the cheapest, between neighbouring sizes from 256 B
/// and in one direction. The paper's own figures vary by 1.01.
fn bytes_cost_the_same() -> Rule {
    let sizes = [256, 1024, 4096, 16_384, 65_536, 262_144, 524_288];
    let slope = |ends: &[u64]| {
        let more = latency(BUFFER).at(ends[1]) - latency(BUFFER).at(ends[0]);
        more.per_byte(0.5 / (ends[1] - ends[0]) as f64)
    };
    let slopes: Vec<Term> = sizes.windows(2).map(slope).collect();
    let quicker = each([524_288], [less(latency(BUFFER_MEMCPY), latency(PIPE))]);
    Rule::all("W09", [once(alike(&slopes, 1.25, "a byte - 1.25 × another")), quicker]).values(
        "a byte costs {} in one direction; paper 2.27 to 2.29 ns/B",
        [many(MEDIAN, "a byte", slopes, Domain::Here)],
    )
}

/// The median of one statistic to another over all cells that have a 99th percentile.
fn over_cells(name: &'static str, one: Quantity, other: Quantity) -> Term {
    let ratio = |mechanism| measured(one, mechanism) / measured(other, mechanism);
    let ratio = |mechanism| ratio(mechanism).given(&measured(Quantity::P99, mechanism));
    over("cells", MEDIAN, name, ALL.map(ratio), Domain::measured(1, ..))
}

const PIPE: &str = "pipe";
const TCP: &str = "tcp_nodelay";
/// Copies byte by byte, as the study's figures show.
pub(crate) const BUFFER: &str = "shm_bounded_buffer_pthread_mutex_cond";
/// The same with memcpy.
pub(crate) const BUFFER_MEMCPY: &str = "shm_bounded_buffer_pthread_mutex_cond:memcpy";
const ALL: [&str; 3] = [PIPE, TCP, BUFFER];
const CLOCK: &str = "timer:clock_gettime";
const TSC: &str = "timer:rdtsc";
const DIFFERENCE: Quantity = Quantity::Disagreement;
