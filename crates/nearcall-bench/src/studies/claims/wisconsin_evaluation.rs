//! The claims of study 003: pipes, TCP, and shared memory with semaphores, between two CPUs.
//!
//! The study halves its latencies; ratios are the same. Its figures are pictures without numbers.

use crate::studies::claims::Predicate;
use crate::studies::claims::truth::{Answer, Bound, Finding, Missing, all, less, within};
use crate::studies::claims::view::View;
use crate::studies::evidence::{Place, Quantity, Unit};
use crate::studies::figure::{self, Figure};

pub(crate) const PREDICATES: &[(&str, Predicate)] = &[
    ("V01", v01),
    ("V02", v02),
    ("V03", v03),
    ("V04", v04),
    ("V05", v05),
    ("V06", v06),
    ("V07", v07),
    ("V08", v08),
    ("V09", v09),
    ("V10", v10),
];

fn v01(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for bytes in LATENCY_SIZES {
        let tcp = view.latency(TCP, bytes)?;
        for other in [PIPE, SEMAPHORE] {
            findings.push(less(&view.latency(other, bytes)?, &tcp));
        }
    }
    Ok(all(findings))
}

fn v02(view: &View<'_>) -> Answer {
    let sizes: Vec<u64> = LATENCY_SIZES.into_iter().filter(|&bytes| bytes <= 4096).collect();
    let mut findings = Vec::new();
    for mechanism in ALL {
        let name = format!("slowest / quickest size of {mechanism}");
        let spread = Figure::spread(&name, &view.latencies(mechanism, &sizes)?);
        findings.push(Finding::new(&spread.at("from 4 B to 4 KiB"), Bound::AtMost(1.3)));
    }
    Ok(all(findings))
}

fn v03(view: &View<'_>) -> Answer {
    let growth = |mechanism: &str| {
        let large = view.latency(mechanism, 65_536)?;
        let name = format!("growth of {mechanism}");
        Ok(large.over(&view.latency(mechanism, 4096)?).named(&name).at("from 4 to 64 KiB"))
    };
    let shared = growth(SEMAPHORE)?;
    Ok(all([less(&shared, &growth(PIPE)?), less(&shared, &growth(TCP)?)]))
}

fn v04(view: &View<'_>) -> Answer {
    let small = view.latency(PIPE, 64)?.over(&view.latency(SEMAPHORE, 64)?);
    Ok(all([within(&small, 0.75, 1.33), large_shared_memory_wins(view)?]))
}

/// The part of V04 about large messages, which `cross.rs` needs alone.
pub(crate) fn large_shared_memory_wins(view: &View<'_>) -> Answer {
    let large = view.latency(PIPE, 65_536)?.over(&view.latency(SEMAPHORE, 65_536)?);
    Ok(Finding::new(&large, Bound::AtLeast(2.0)))
}

/// Within 25 %: from 0.8 to 1.25, the same in both directions.
fn v05(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for bytes in THROUGHPUT_SIZES.into_iter().filter(|&bytes| bytes <= 4096 || bytes > 16_384) {
        let ratio = view.throughput(SEMAPHORE, bytes)?.over(&view.throughput(PIPE, bytes)?);
        findings.push(match bytes {
            ..=4096 => within(&ratio, 0.8, 1.25),
            _ => Finding::new(&ratio, Bound::AtLeast(1.5)),
        });
    }
    Ok(all(findings))
}

fn v06(view: &View<'_>) -> Answer {
    let mean = |mechanism: &str| {
        let rates: Result<Vec<Figure>, _> =
            THROUGHPUT_SIZES.iter().map(|&bytes| view.throughput(mechanism, bytes)).collect();
        Ok(Figure::mean_of(&format!("mean throughput of {mechanism}"), &rates?))
    };
    let tcp = mean(TCP)?;
    Ok(all([less(&tcp, &mean(PIPE)?), less(&tcp, &mean(SEMAPHORE)?)]))
}

/// For each mechanism: the median over sizes of the largest latency to the typical one, and how far
/// the ranks of size and largest latency agree.
fn v07(view: &View<'_>) -> Answer {
    let keys = LATENCY_SIZES.map(|bytes| bytes as f64);
    let mut findings = Vec::new();
    for mechanism in ALL {
        let largest: Result<Vec<Figure>, _> = LATENCY_SIZES
            .iter()
            .map(|&bytes| view.get(&view.key(mechanism, bytes, Quantity::Max)))
            .collect();
        let largest = largest?;
        let means: Result<Vec<Figure>, _> = LATENCY_SIZES
            .iter()
            .map(|&bytes| view.get(&view.key(mechanism, bytes, Quantity::Mean)))
            .collect();
        let ratios: Vec<Figure> =
            largest.iter().zip(&means?).map(|(max, mean)| max.over(mean)).collect();
        let name = format!("longest / mean latency of {mechanism}");
        let far = Figure::median_of(&name, &ratios).at("over sizes");
        findings.push(Finding::new(&far, Bound::AtLeast(5.0)));
        let name = format!("rank correlation of size and longest latency of {mechanism}");
        let follows = Figure::made(&name, Unit::Count, true, &largest, {
            |values| figure::rank_correlation(&keys, values).map(f64::abs)
        });
        findings.push(Finding::new(&follows, Bound::Below(0.9)));
    }
    Ok(all(findings))
}

/// Grows: the difference at the largest size is above that at 16 KiB.
fn v08(view: &View<'_>) -> Answer {
    let (mut findings, mut gaps) = (Vec::new(), Vec::new());
    for bytes in DELTA_SIZES {
        let (same, cross) = pipe_on_one_and_two(view, bytes)?;
        findings.push(less(&same, &cross));
        gaps.push(cross.minus(&same));
    }
    let growth = gaps[gaps.len() - 1].minus(&gaps[0]).named("growth of the difference");
    findings.push(Finding::new(&growth.at("from 16 to 512 KiB"), Bound::Above(0.0)));
    Ok(all(findings))
}

fn v09(view: &View<'_>) -> Answer {
    let growth = view.throughput(TCP, 524_288)?.over(&view.throughput(TCP, 65_536)?);
    Ok(Finding::new(&growth, Bound::AtMost(1.15)))
}

/// "Resolves 1 µs" is chosen as 0.5 to 2 µs, "tens of ns" as at most 100 ns.
fn v10(view: &View<'_>) -> Answer {
    let step = |timer: &str| view.anywhere(timer, Quantity::TimerGranularity);
    let of_day = step("timer:gettimeofday")?;
    let (clock, tsc) = (step("timer:clock_gettime")?, step("timer:rdtsc")?);
    let shown = [&tsc, &clock, &of_day].map(|timer| {
        let center = timer.interval().map_or_else(String::new, |it| timer.show(it.center));
        format!("{} {center}", timer.name)
    });
    let note = format!("here {}; paper 62, 30 and 1000 ns", shown.join(", "));
    let fine = [&clock, &tsc].map(|timer| Finding::new(timer, Bound::AtMost(100.0)));
    Ok(all([within(&of_day, 500.0, 2000.0)].into_iter().chain(fine)).noted(note))
}

/// A pipe's round trip on one CPU and on two.
pub(crate) fn pipe_on_one_and_two(
    view: &View<'_>,
    bytes: u64,
) -> Result<(Figure, Figure), Missing> {
    let same = view.get(&view.on(Place::Same).key(PIPE, bytes, view.latency_quantity()))?;
    Ok((same, view.latency(PIPE, bytes)?))
}

pub(crate) const PIPE: &str = "pipe";
pub(crate) const TCP: &str = "tcp";
pub(crate) const SEMAPHORE: &str = "shm_semaphore";
const ALL: [&str; 3] = [PIPE, TCP, SEMAPHORE];
/// Of figures 1 and 3.
const LATENCY_SIZES: [u64; 11] = [4, 8, 16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536];
/// Of figure 2.
const THROUGHPUT_SIZES: [u64; 11] =
    [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288];
/// Of figure 4, from 16 KiB.
const DELTA_SIZES: [u64; 5] = [16_384, 65_536, 131_072, 262_144, 524_288];
