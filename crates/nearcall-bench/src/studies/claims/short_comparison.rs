//! The claims of study 004: pipes, shared memory with a semaphore, and UNIX sockets, while other
//! work keeps each CPU 35 % busy.
//!
//! The study prints no figures, only limits, so each claim is judged at all sizes that were
//! measured on its side of the limit.

use std::ops::RangeBounds;

use crate::studies::claims::Predicate;
use crate::studies::claims::rising;
use crate::studies::claims::truth::{Answer, Bound, Finding, Missing, all, less};
use crate::studies::claims::view::View;
use crate::studies::evidence::{Load, Quantity, Unit};
use crate::studies::figure::{self, Figure};

pub(crate) const PREDICATES: &[(&str, Predicate)] = &[
    ("S01", s01),
    ("S02", s02),
    ("S03", s03),
    ("S04", s04),
    ("S05", s05),
    ("S06", s06),
    ("S07", s07),
];

fn s01(view: &View<'_>) -> Answer {
    let sizes = sizes(view, &[PIPE], 3, 64..=12_000)?;
    let spread = Figure::spread("slowest / quickest size of pipe", &view.latencies(PIPE, &sizes)?);
    Ok(Finding::new(&spread.at(&format!("over {} sizes", sizes.len())), Bound::AtMost(1.2)))
}

/// Over all sizes that were measured.
fn s02(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in [SEMAPHORE, UNIX] {
        let sizes = sizes(view, &[mechanism], 3, ..)?;
        let keys: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
        let name = format!("rank correlation of size and time of {mechanism}");
        let follows =
            Figure::made(&name, Unit::Count, true, &view.latencies(mechanism, &sizes)?, {
                |values| figure::rank_correlation(&keys, values)
            });
        // Noise lowers the correlation of each round, so what refutes is that rounds of times which
        // do rise would hardly have had so low ones.
        let p_value = rising::p_value(&view.latencies(mechanism, &sizes)?);
        findings.push(Finding::tested(&follows, Bound::Above(0.9), p_value));
    }
    Ok(all(findings))
}

fn s03(view: &View<'_>) -> Answer {
    everywhere(view, ..4600, |bytes| {
        let shared = view.latency(SEMAPHORE, bytes)?;
        Ok([less(&shared, &view.latency(PIPE, bytes)?), less(&shared, &view.latency(UNIX, bytes)?)])
    })
}

fn s04(view: &View<'_>) -> Answer {
    everywhere(view, 4601.., |bytes| {
        let shared = view.latency(SEMAPHORE, bytes)?;
        Ok([less(&view.latency(PIPE, bytes)?, &shared), less(&view.latency(UNIX, bytes)?, &shared)])
    })
}

fn s05(view: &View<'_>) -> Answer {
    everywhere(view, 5100..=12_000, |bytes| {
        let unix = view.latency(UNIX, bytes)?;
        Ok([
            less(&unix, &view.latency(PIPE, bytes)?),
            less(&unix, &view.latency(SEMAPHORE, bytes)?),
        ])
    })
}

fn s06(view: &View<'_>) -> Answer {
    everywhere(view, 12_001.., |bytes| {
        let pipe = view.latency(PIPE, bytes)?;
        Ok([
            less(&pipe, &view.latency(UNIX, bytes)?),
            less(&pipe, &view.latency(SEMAPHORE, bytes)?),
        ])
    })
}

fn s07(view: &View<'_>) -> Answer {
    let set_up = view.anywhere(PIPE, Quantity::SetUp)?.named("set-up of a pipe");
    let ratio = set_up.over(&view.latency(PIPE, 1024)?.named("a transfer under 35 % load"));
    Ok(Finding::new(&ratio, Bound::AtLeast(2.0)))
}

/// All comparisons at all sizes in `range`.
fn everywhere(
    view: &View<'_>,
    range: impl RangeBounds<u64> + Clone,
    compare: impl Fn(u64) -> Result<[Finding; 2], Missing>,
) -> Answer {
    let sizes = sizes(view, &ALL, 1, range)?;
    let found: Result<Vec<[Finding; 2]>, Missing> =
        sizes.iter().map(|&bytes| compare(bytes)).collect();
    Ok(all(found?.into_iter().flatten()).noted(format!("{} sizes", sizes.len())))
}

fn sizes(
    view: &View<'_>,
    mechanisms: &[&str],
    count: usize,
    range: impl RangeBounds<u64> + Clone,
) -> Result<Vec<u64>, Missing> {
    view.sizes_of(count, view.latency_quantity(), mechanisms, &[Load::Duty35], range)
}

pub(crate) const PIPE: &str = "pipe";
pub(crate) const UNIX: &str = "unix";
pub(crate) const SEMAPHORE: &str = "shm_semaphore";
const ALL: [&str; 3] = [PIPE, UNIX, SEMAPHORE];
