//! The claims of study 001 about throughput: rings, pipes and sockets, idle and under load.
//!
//! Those about latency, pair by pair of CPUs, are in `enea/pairs.rs`. The figures are pictures
//! whose sizes are mostly not named, so each claim is judged at all measured sizes that fit it.

mod pairs;

use std::ops::RangeBounds;

use crate::studies::claims::Predicate;
use crate::studies::claims::truth::{
    Answer, Bound, Finding, Missing, Truth, all, any, differ, less, within,
};
use crate::studies::claims::view::View;
use crate::studies::evidence::{Load, Place, Quantity, Unit};
use crate::studies::figure::{self, Figure};

pub(crate) const PREDICATES: &[(&str, Predicate)] = &[
    ("E01", e01),
    ("E02", e02),
    ("E03", e03),
    ("E04", e04),
    ("E05", e05),
    ("E06", e06),
    ("E07", e07),
    ("E08", e08),
    ("E09", e09),
    ("E10", e10),
    ("E11", e11),
    ("E12", e12),
    ("E13", e13),
    ("E14", e14),
    ("E15", e15),
    ("E16", e16),
    ("E17", e17),
    ("E18", pairs::e18),
    ("E19", pairs::e19),
    ("E20", pairs::e20),
    ("E21", pairs::e21),
    ("E22", pairs::e22),
    ("E23", pairs::e23),
    ("E24", e24),
    ("E25", pairs::e25),
];

/// At every size that was measured both ways.
fn e01(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in MECHANISMS {
        for bytes in sizes(view, &[mechanism], &BOTH, 1, ..)? {
            let idle = view.throughput(mechanism, bytes)?;
            findings.push(less(&loaded(view, mechanism, bytes)?, &idle));
        }
    }
    Ok(all(findings))
}

fn e02(view: &View<'_>) -> Answer {
    let reversed = |one: &str, other: &str| {
        let idle = less(&view.throughput(one, 8192)?, &view.throughput(other, 8192)?);
        let loaded = less(&loaded(view, one, 8192)?, &loaded(view, other, 8192)?);
        Ok(differ(&format!("order of {one} and {other}"), &idle, &loaded))
    };
    Ok(all([reversed(SPIN, SHMEM_PIPE)?, reversed(TCP, UNIX)?]))
}

/// The largest size of figure 5 is not named; taken is the largest up to 64 KiB at which all were
/// measured both ways, as the tool's own script ends there.
fn e03(view: &View<'_>) -> Answer {
    let sizes = sizes(view, &MECHANISMS, &BOTH, 1, ..=65_536)?;
    let largest = sizes[sizes.len() - 1];
    let pipe = kept(view, PIPE, largest)?;
    let mut findings = Vec::new();
    for mechanism in MECHANISMS.into_iter().filter(|&mechanism| mechanism != PIPE) {
        findings.push(less(&kept(view, mechanism, largest)?, &pipe));
    }
    Ok(all(findings))
}

/// Both halves under load, as figure 6 is; the two largest sizes up to 64 KiB at which the CPU time
/// of both rings was measured.
fn e04(view: &View<'_>) -> Answer {
    let rings = [FUTEX, SPIN];
    let quantity = Quantity::CpuThroughput;
    let sizes = view.sizes_of(2, quantity, &rings, &[Load::Stress], ..=65_536)?;
    let mut findings = Vec::new();
    for &bytes in &sizes[sizes.len() - 2..] {
        let [futex, spin] = [per_cpu(view, FUTEX, bytes)?, per_cpu(view, SPIN, bytes)?];
        findings.push(less(&spin, &futex));
        findings.push(less(&loaded(view, FUTEX, bytes)?, &loaded(view, SPIN, bytes)?));
    }
    Ok(all(findings))
}

fn e05(view: &View<'_>) -> Answer {
    let best = per_cpu(view, SHMEM_PIPE, 8192)?;
    let mut findings = Vec::new();
    for mechanism in MECHANISMS.into_iter().filter(|&mechanism| mechanism != SHMEM_PIPE) {
        findings.push(less(&per_cpu(view, mechanism, 8192)?, &best));
    }
    Ok(all(findings))
}

fn e06(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in MECHANISMS {
        let sizes = sizes(view, &[mechanism], &IDLE, 3, ..=4096)?;
        let rates: Result<Vec<Figure>, Missing> =
            sizes.iter().map(|&bytes| view.throughput(mechanism, bytes)).collect();
        let keys: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
        let name = format!("rank correlation of size and throughput of {mechanism}");
        let rises = Figure::made(&name, Unit::Count, true, &rates?, |values| {
            figure::rank_correlation(&keys, values)
        });
        findings.push(Finding::new(&rises.at("up to 4 KiB"), Bound::Above(0.9)));
        let growth = |large: u64, small: u64| {
            Ok(view.throughput(mechanism, large)?.over(&view.throughput(mechanism, small)?))
        };
        findings.push(less(&growth(65_536, 16_384)?, &growth(1024, 256)?));
    }
    Ok(all(findings))
}

fn e07(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for bytes in sizes(view, &[PIPE, TCP], &IDLE, 1, ..=4096)? {
        let ratio = view.throughput(PIPE, bytes)?.over(&view.throughput(TCP, bytes)?);
        findings.push(Finding::new(&ratio, Bound::AtLeast(0.9)));
    }
    Ok(all(findings))
}

fn e08(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for bytes in sizes(view, &MECHANISMS, &IDLE, 1, 65_537..=131_072)? {
        let tcp = view.throughput(TCP, bytes)?;
        findings.push(less(&view.throughput(PIPE, bytes)?, &tcp));
        for faster in [UNIX, FUTEX, SPIN, SHMEM_PIPE] {
            findings.push(less(&tcp, &view.throughput(faster, bytes)?));
        }
    }
    Ok(all(findings))
}

fn e09(view: &View<'_>) -> Answer {
    let step =
        |pipe: &str| Ok(view.throughput(pipe, 68 * 1024)?.over(&view.throughput(pipe, 60 * 1024)?));
    let drops = Finding::new(&step(PIPE)?, Bound::AtMost(0.90));
    let stays = Finding::new(&step(WIDE_PIPE)?, Bound::Above(0.95));
    Ok(all([drops, stays]))
}

/// Between sizes that are 8 KiB apart, around each middle from 90 to 110 KiB that was measured so.
fn e10(view: &View<'_>) -> Answer {
    let range = (86 * 1024)..=(114 * 1024);
    let sizes = sizes(view, &[PIPE], &IDLE, 2, range)?;
    let mut findings = Vec::new();
    for &bytes in &sizes {
        let further = bytes + 8 * 1024;
        if sizes.contains(&further) {
            let step = view.throughput(PIPE, further)?.over(&view.throughput(PIPE, bytes)?);
            findings.push(Finding::new(&step, Bound::AtMost(0.95)));
        }
    }
    if findings.is_empty() {
        let what = "no throughput of pipe at two sizes 8 KiB apart between 86 and 114 KiB";
        return Err(Missing(what.to_owned()));
    }
    Ok(any(findings))
}

fn e11(view: &View<'_>) -> Answer {
    let kept = |mechanism: &str| kept_over(view, mechanism, 65_536..);
    let pipe = kept(PIPE)?;
    let mut findings = Vec::new();
    for mechanism in MECHANISMS.into_iter().filter(|&mechanism| mechanism != PIPE) {
        findings.push(less(&kept(mechanism)?, &pipe));
    }
    Ok(all(findings))
}

fn e12(view: &View<'_>) -> Answer {
    Ok(less(&kept_over(view, UNIX, ..)?, &kept_over(view, TCP, ..)?))
}

/// At every size that was measured, as the predicate names no other way.
fn e13(view: &View<'_>) -> Answer {
    comparable(view, PIPE, UNIX)
}

/// The median is over mechanisms and sizes up to 16000 B.
fn e14(view: &View<'_>) -> Answer {
    let smt = view.on(Place::Smt);
    let mut shares = Vec::new();
    for mechanism in MECHANISMS {
        for bytes in sizes(&smt, &[mechanism], &IDLE, 1, ..=16_000)? {
            shares
                .push(smt.throughput(mechanism, bytes)?.over(&view.throughput(mechanism, bytes)?));
        }
    }
    let share = Figure::median_of("throughput on threads of one core / on two cores", &shares);
    Ok(Finding::new(&share.at(&format!("over {} cells", shares.len())), Bound::Below(1.0)))
}

/// Without SMT only the half about one CPU can be judged: it can refute the claim, not confirm it.
fn e15(view: &View<'_>) -> Answer {
    let same = comparable(&view.on(Place::Same), PIPE, TCP)?.noted("(on one CPU)");
    match comparable(&view.on(Place::Smt), PIPE, TCP) {
        Ok(smt) => Ok(all([same, smt])),
        Err(_) if same.truth == Truth::False => Ok(same.noted("threads of one core: not judged")),
        Err(Missing(reason)) => {
            let held = if same.truth == Truth::True { "holds" } else { "is open" };
            let words = same.evidence();
            Err(Missing(format!("{reason}; the part about one CPU {held}: {words}")))
        }
    }
}

/// At every size that was measured.
fn e16(view: &View<'_>) -> Answer {
    let same = view.on(Place::Same);
    let mut findings = Vec::new();
    for bytes in sizes(&same, &[FUTEX, SHMEM_PIPE], &IDLE, 1, ..)? {
        findings.push(less(&same.throughput(FUTEX, bytes)?, &same.throughput(SHMEM_PIPE, bytes)?));
    }
    Ok(all(findings))
}

/// At every size that was measured.
fn e17(view: &View<'_>) -> Answer {
    let same = view.on(Place::Same);
    let mut findings = Vec::new();
    for bytes in sizes(&same, &[FUTEX, SPIN], &IDLE, 1, ..)? {
        let share = same.throughput(SPIN, bytes)?.over(&same.throughput(FUTEX, bytes)?);
        findings.push(Finding::new(&share, Bound::AtMost(0.05)));
    }
    Ok(all(findings))
}

/// Overhead: how many times the throughput of the bare fifo is that of the messages over it. It
/// shrinks if its ranks fall with the size (a correlation of at most -0.5) and if it is smaller at
/// the largest size than at the smallest.
fn e24(view: &View<'_>) -> Answer {
    let sizes = sizes(view, &[FIFO, FIFO_MESSAGES], &IDLE, 3, ..)?;
    let mut overheads = Vec::new();
    for &bytes in &sizes {
        overheads.push(view.throughput(FIFO, bytes)?.over(&view.throughput(FIFO_MESSAGES, bytes)?));
    }
    let keys: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
    let name = "rank correlation of size and overhead";
    let falls = Figure::made(name, Unit::Count, true, &overheads, |values| {
        figure::rank_correlation(&keys, values)
    });
    let falls = Finding::new(&falls, Bound::AtMost(-0.5));
    Ok(all([falls, less(&overheads[overheads.len() - 1], &overheads[0])]))
}

/// Whether one has 0.8 to 1.25 of the throughput of the other at all sizes up to 16000 B.
fn comparable(view: &View<'_>, one: &str, other: &str) -> Answer {
    let mut findings = Vec::new();
    for bytes in sizes(view, &[one, other], &IDLE, 1, ..=16_000)? {
        let ratio = view.throughput(one, bytes)?.over(&view.throughput(other, bytes)?);
        findings.push(within(&ratio, 0.8, 1.25));
    }
    Ok(all(findings))
}

/// The share of its throughput that a mechanism keeps under load.
fn kept(view: &View<'_>, mechanism: &str, bytes: u64) -> Result<Figure, Missing> {
    let share = loaded(view, mechanism, bytes)?.over(&view.throughput(mechanism, bytes)?);
    Ok(share.named(&format!("share kept by {mechanism}")).at(&at(bytes)))
}

/// The median of that share over all sizes in `range` that were measured both ways.
fn kept_over(
    view: &View<'_>,
    mechanism: &str,
    range: impl RangeBounds<u64> + Clone,
) -> Result<Figure, Missing> {
    let sizes = sizes(view, &[mechanism], &BOTH, 1, range)?;
    let shares: Result<Vec<Figure>, Missing> =
        sizes.iter().map(|&bytes| kept(view, mechanism, bytes)).collect();
    let name = format!("median share kept by {mechanism}");
    Ok(Figure::median_of(&name, &shares?).at("under load"))
}

fn loaded(view: &View<'_>, mechanism: &str, bytes: u64) -> Result<Figure, Missing> {
    view.throughput_under(Load::Stress, mechanism, bytes)
}

fn per_cpu(view: &View<'_>, mechanism: &str, bytes: u64) -> Result<Figure, Missing> {
    view.get(&view.key(mechanism, bytes, Quantity::CpuThroughput).under(Load::Stress))
}

fn sizes(
    view: &View<'_>,
    mechanisms: &[&str],
    loads: &[Load],
    count: usize,
    range: impl RangeBounds<u64> + Clone,
) -> Result<Vec<u64>, Missing> {
    view.sizes_of(count, Quantity::Throughput, mechanisms, loads, range)
}

fn at(bytes: u64) -> String {
    format!("at {}", crate::report::number::size(bytes))
}

const FUTEX: &str = "mempipe";
const SPIN: &str = "mempipe_spin";
const SHMEM_PIPE: &str = "shmem_pipe";
const PIPE: &str = "pipe";
const TCP: &str = "tcp";
const UNIX: &str = "unix";
/// A pipe with a capacity of 1 MiB.
const WIDE_PIPE: &str = "pipe:1M";
const FIFO: &str = "fifo";
const FIFO_MESSAGES: &str = "lfs_fifo_sig";
const MECHANISMS: [&str; 6] = [FUTEX, SPIN, SHMEM_PIPE, PIPE, TCP, UNIX];
const IDLE: [Load; 1] = [Load::Idle];
const BOTH: [Load; 2] = [Load::Idle, Load::Stress];
