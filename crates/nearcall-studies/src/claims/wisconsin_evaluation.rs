//! The claims of study 003: pipes, TCP, and shared memory with semaphores, between two CPUs.
//!
//! The study halves its latencies; ratios are the same. Its figures are pictures without numbers.

use crate::claims::rule::{
    Group, Rule, above, at_least, at_most, below, between, each, less, once,
};
use crate::claims::term::{
    Domain, MEAN, MEDIAN, RANK_EITHER_WAY, SPREAD, Term, alone, latency, many, measured, rate,
};
use crate::evidence::{Place, Quantity};

pub(crate) fn rules() -> Vec<Rule> {
    let spread = |one: &'static str| {
        let name = format!("slowest / quickest size of {one}");
        let small = LATENCY_SIZES.into_iter().filter(|&bytes| bytes <= 4096).collect();
        let sizes = many(SPREAD, name, [latency(one)], Domain::Sizes(small));
        at_most(1.3, sizes.said("from 4 B to 4 KiB"))
    };
    let growth = |one: &'static str| {
        let growth = latency(one).at(65_536) / latency(one).at(4096);
        growth.named(format!("growth of {one}")).said("from 4 to 64 KiB")
    };
    let mean = |one: &'static str| {
        let name = format!("mean throughput of {one}");
        many(MEAN, name, [rate(one)], THROUGHPUT_SIZES)
    };
    let shared_to_pipe = || rate(SEMAPHORE) / rate(PIPE);
    let step = |timer| alone(Some(Quantity::TimerGranularity), timer);
    let small = latency(PIPE) / latency(SEMAPHORE);
    vec![
        Rule::all(
            "V01",
            [each(LATENCY_SIZES, [PIPE, SEMAPHORE].map(|one| less(latency(one), latency(TCP))))],
        ),
        Rule::all("V02", [once(ALL.map(spread))]),
        Rule::all("V03", [once([PIPE, TCP].map(|other| less(growth(SEMAPHORE), growth(other))))]),
        Rule::all("V04", [each([64], [between(0.75, 1.33, small)]), large_shared_memory_wins()]),
        // Within 25 %: from 0.8 to 1.25, the same in both directions.
        Rule::all(
            "V05",
            [
                each([512, 1024, 2048, 4096], [between(0.8, 1.25, shared_to_pipe())]),
                each(
                    [32_768, 65_536, 131_072, 262_144, 524_288],
                    [at_least(1.5, shared_to_pipe())],
                ),
            ],
        ),
        Rule::all("V06", [once([PIPE, SEMAPHORE].map(|other| less(mean(TCP), mean(other))))]),
        Rule::all("V07", ALL.map(longest)),
        gap_grows(),
        Rule::all("V09", [once([at_most(1.15, rate(TCP).at(524_288) / rate(TCP).at(65_536))])]),
        // "Resolves 1 µs" is chosen as 0.5 to 2 µs, "tens of ns" as at most 100 ns.
        Rule::all(
            "V10",
            [once([
                between(500.0, 2000.0, step(OF_DAY)),
                at_most(100.0, step(CLOCK)),
                at_most(100.0, step(TSC)),
            ])],
        )
        .values(
            "here timer:rdtsc {}, timer:clock_gettime {}, timer:gettimeofday {}; paper 62, 30 and \
             1000 ns",
            [TSC, CLOCK, OF_DAY].map(step),
        ),
    ]
}

/// The part of V04 about large messages, which `cross.rs` needs alone.
pub(crate) fn large_shared_memory_wins() -> Group {
    each([65_536], [at_least(2.0, latency(PIPE) / latency(SEMAPHORE))])
}

/// The median over sizes of the largest latency to the typical one, and how far the ranks of size
/// and largest latency agree.
fn longest(one: &'static str) -> Group {
    let ratio = measured(Quantity::Max, one) / measured(Quantity::Mean, one);
    let name = format!("longest / mean latency of {one}");
    let far = many(MEDIAN, name, [ratio], LATENCY_SIZES);
    let name = format!("rank correlation of size and longest latency of {one}");
    let longest = [measured(Quantity::Max, one)];
    let follows = many(RANK_EITHER_WAY, name, longest, LATENCY_SIZES);
    once([at_least(5.0, far.said("over sizes")), below(0.9, follows)])
}

/// The difference is there at each size, and above that at 16 KiB at the largest one.
fn gap_grows() -> Rule {
    let gap = |bytes: u64| (latency(PIPE) - on_one_cpu()).at(bytes);
    let growth = (gap(524_288) - gap(16_384)).named("growth of the difference");
    Rule::all(
        "V08",
        [
            each([16_384, 65_536, 131_072, 262_144, 524_288], [less(on_one_cpu(), latency(PIPE))]),
            once([above(0.0, growth.said("from 16 to 512 KiB"))]),
        ],
    )
}

/// A pipe's round trip on one CPU.
pub(crate) fn on_one_cpu() -> Term {
    latency(PIPE).placed(Place::Same)
}

const PIPE: &str = "pipe";
const TCP: &str = "tcp";
const SEMAPHORE: &str = "shm_semaphore";
const ALL: [&str; 3] = [PIPE, TCP, SEMAPHORE];
const OF_DAY: &str = "timer:gettimeofday";
const CLOCK: &str = "timer:clock_gettime";
const TSC: &str = "timer:rdtsc";
/// Of figures 1 and 3.
const LATENCY_SIZES: [u64; 11] = [4, 8, 16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536];
/// Of figure 2.
const THROUGHPUT_SIZES: [u64; 11] =
    [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288];
