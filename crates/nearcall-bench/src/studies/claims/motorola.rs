//! The claims of study 000: calls over sockets and over shared memory with different doorbells.
//!
//! Latencies of whole calls, by the names of the paper's tables. The paper states no placement;
//! what judges is in `view.rs`.

use crate::studies::claims::Predicate;
use crate::studies::claims::truth::{Answer, Bound, Finding, Missing, all, less, pairs_of};
use crate::studies::claims::view::View;
use crate::studies::evidence::{Quantity, Unit};
use crate::studies::figure::{self, Figure};

pub(crate) const PREDICATES: &[(&str, Predicate)] = &[
    ("T01", t01),
    ("T02", t02),
    ("T03", t03),
    ("T04", t04),
    ("T05", t05),
    ("T06", t06),
    ("T07", t07),
    ("T08", t08),
    ("T09", t09),
    ("T10", t10),
    ("T11", t11),
    ("T12", t12),
    ("T13", t13),
    ("T14", t14),
    ("T15", t15),
];

/// The share of variance that a line explains, over all sizes from 16 KiB, is at least 0.99, and
/// the line rises.
fn t01(view: &View<'_>) -> Answer {
    let sizes: Vec<u64> = (4..=10).map(|power| KIB << power).collect();
    let calls = view.latencies(ORIGINAL, &sizes)?;
    let x: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
    let fit = |name: &str, unit, from: fn(figure::Line) -> f64| {
        Figure::made(name, unit, true, &calls, |y| figure::line(&x, y).map(from))
            .at("from 16 KiB to 1 MiB")
    };
    let explained = fit("r² of a line", Unit::Count, |line| line.correlation.powi(2));
    let slope = fit("slope of that line", Unit::NsPerByte, |line| line.slope);
    Ok(all([Finding::new(&explained, Bound::AtLeast(0.99)), above_zero(&slope)]))
}

fn t02(view: &View<'_>) -> Answer {
    let loses = less(&view.latency(ORIGINAL, 16 * KIB)?, &view.latency(EVENT_LOOP, 16 * KIB)?);
    let wins = less(&view.latency(EVENT_LOOP, 32 * KIB)?, &view.latency(ORIGINAL, 32 * KIB)?);
    Ok(all([loses, wins]))
}

fn t03(view: &View<'_>) -> Answer {
    let share = view.latency(EVENT_LOOP, MIB)?.over(&view.latency(ORIGINAL, MIB)?);
    Ok(Finding::new(&share, Bound::AtMost(0.40)))
}

fn t04(view: &View<'_>) -> Answer {
    let share = view.latency(SIGNALS, KIB)?.over(&view.latency(EVENT_LOOP, KIB)?);
    Ok(Finding::new(&share, Bound::AtMost(0.6)))
}

fn t05(view: &View<'_>) -> Answer {
    let pairs = pairs(view, QUEUE, SIGNALS, &SMALL)?;
    Ok(all(pairs.iter().map(|(queue, signals)| less(queue, signals))))
}

fn t06(view: &View<'_>) -> Answer {
    let sizes: Vec<u64> = (0..=5).map(|power| KIB << power).collect();
    let pairs = pairs(view, BLOCKING, QUEUE, &sizes)?;
    let no_slower = |(blocking, queue): &(Figure, Figure)| {
        Finding::new(&blocking.over(queue), Bound::AtMost(1.0))
    };
    Ok(all(pairs.iter().map(no_slower)))
}

/// Nearly constant: the largest addition is at most twice the smallest. It is put as `largest - 2 ×
/// smallest <= 0`, which also means something in a round whose smallest is negative.
fn t07(view: &View<'_>) -> Answer {
    let sizes: Vec<u64> = (0..=4).map(|power| KIB << power).collect();
    let pairs = pairs(view, POLL, BLOCKING, &sizes)?;
    let positive = pairs.iter().map(|(poll, blocking)| less(blocking, poll));
    let added: Vec<Figure> = pairs.iter().map(|(poll, blocking)| poll.minus(blocking)).collect();
    // Size by size: the largest of all in a round is mostly that of its noise.
    let constant = pairs_of(&added).map(|(one, other)| {
        let beyond =
            one.minus(&other.clone().times(2.0)).named("an addition of poll - 2 × another");
        Finding::new(&beyond, Bound::AtMost(0.0))
    });
    Ok(all(positive.chain(constant)))
}

fn t08(view: &View<'_>) -> Answer {
    let order = [BLOCKING, POLL, QUEUE, SIGNALS, ORIGINAL, EVENT_LOOP];
    let calls = view.latencies_of(&order, KIB)?;
    Ok(all(calls.windows(2).map(|pair| less(&pair[0], &pair[1]))))
}

fn t09(view: &View<'_>) -> Answer {
    let calls = view.latencies_of(&SHARED, MIB)?;
    let spread = Figure::spread("slowest doorbell / quickest", &calls).at("at 1 MiB");
    Ok(Finding::new(&spread, Bound::AtMost(1.05)))
}

/// The calls between processes are those of tables 1 and 4 to 8; the bare socket of section 3.6.3
/// was measured at one size only.
fn t10(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for bytes in SMALL {
        let mut calls = view.latencies_of(&SHARED, bytes)?;
        calls.push(view.latency(ORIGINAL, bytes)?);
        let quickest = Figure::min_of("quickest between processes", &calls);
        let share = view.latency(IN_PROCESS, bytes)?.over(&quickest);
        findings.push(Finding::new(&share, Bound::AtMost(0.26)));
    }
    Ok(all(findings))
}

/// At 1 MiB, as the predicate says; the remark itself is about 512 KiB too.
fn t11(view: &View<'_>) -> Answer {
    let slowest = Figure::max_of("slowest doorbell", &view.latencies_of(&SHARED, MIB)?);
    Ok(less(&slowest, &view.latency(IN_PROCESS, MIB)?))
}

fn t12(view: &View<'_>) -> Answer {
    let plain = view.anywhere(BY_REFERENCE, view.latency_quantity())?;
    let share = plain.over(&view.latency(IN_PROCESS, KIB)?);
    Ok(Finding::new(&share, Bound::AtMost(1.0 / 30.0)))
}

fn t13(view: &View<'_>) -> Answer {
    Ok(less(&view.latency(SOCKET_POLL, 8 * KIB)?, &view.latency(POLL, 8 * KIB)?))
}

/// A difference of half the smaller one is a ratio of 1.5.
fn t14(view: &View<'_>) -> Answer {
    let ratio = view.latency(ORIGINAL, 8 * KIB)?.over(&view.latency(SOCKET_POLL, 8 * KIB)?);
    Ok(Finding::new(&ratio, Bound::AtLeast(1.5)))
}

/// By proportional shares of memory; the paper counted what was left free.
fn t15(view: &View<'_>) -> Answer {
    let two = view.anywhere("two_services_separate_binaries", Quantity::PssBytes)?;
    let one = view.anywhere("two_services_dynlib_one_process", Quantity::PssBytes)?;
    Ok(less(&one, &two))
}

/// Two mechanisms at each size.
fn pairs(
    view: &View<'_>,
    one: &str,
    other: &str,
    sizes: &[u64],
) -> Result<Vec<(Figure, Figure)>, Missing> {
    sizes
        .iter()
        .map(|&bytes| Ok((view.latency(one, bytes)?, view.latency(other, bytes)?)))
        .collect()
}

/// Whether a figure that may be negative is above zero.
fn above_zero(figure: &Figure) -> Finding {
    Finding::new(figure, Bound::Above(0.0))
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
/// The sizes that the platform uses.
const SMALL: [u64; 4] = [KIB, 2 * KIB, 4 * KIB, 8 * KIB];

const ORIGINAL: &str = "uds_eventloop_marshalled";
const IN_PROCESS: &str = "short_circuit_same_process";
const EVENT_LOOP: &str = "shm_boost+uds_eventloop";
const SIGNALS: &str = "shm_boost+signals";
const QUEUE: &str = "shm_boost+boost_mq";
const BLOCKING: &str = "shm_boost+uds_blocking";
const POLL: &str = "shm_boost+uds_poll";
const SOCKET_POLL: &str = "uds_poll_no_shm";
const BY_REFERENCE: &str = "function_call_by_reference";
const SHARED: [&str; 5] = [EVENT_LOOP, SIGNALS, QUEUE, BLOCKING, POLL];
