//! The claims of study 000: calls over sockets and over shared memory with different doorbells.
//!
//! Latencies of whole calls, by the names of the paper's tables. The paper states no placement;
//! what judges is in `facts.rs`.

use crate::claims::rule::{Rule, above, alike, at_least, at_most, each, less, once, order};
use crate::claims::term::{
    Aggregate, Domain, EXPLAINED, MAX, MIN, SLOPE, SPREAD, Term, alone, latency, many,
};
use crate::evidence::Quantity;

pub(crate) fn rules() -> Vec<Rule> {
    let mut rules = doorbells();
    rules.extend(paths());
    rules
}

/// What a doorbell costs, size by size.
fn doorbells() -> Vec<Rule> {
    let added = |bytes: u64| (latency(POLL) - latency(BLOCKING)).at(bytes);
    let added = [KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB].map(added);
    vec![
        // The share of variance that a line explains, and the line rises.
        Rule::all(
            "T01",
            [once([
                at_least(0.99, line(EXPLAINED, "r² of a line")),
                above(0.0, line(SLOPE, "slope of that line")),
            ])],
        ),
        Rule::all(
            "T02",
            [
                each([16 * KIB], [less(latency(ORIGINAL), latency(EVENT_LOOP))]),
                each([32 * KIB], [less(latency(EVENT_LOOP), latency(ORIGINAL))]),
            ],
        ),
        Rule::all("T03", [each([MIB], [at_most(0.4, latency(EVENT_LOOP) / latency(ORIGINAL))])]),
        Rule::all("T04", [each([KIB], [at_most(0.6, latency(SIGNALS) / latency(EVENT_LOOP))])]),
        Rule::all("T05", [each(SMALL, [less(latency(QUEUE), latency(SIGNALS))])]),
        Rule::all(
            "T06",
            [each(
                [KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB],
                [at_most(1.0, latency(BLOCKING) / latency(QUEUE))],
            )],
        ),
        // Nearly constant: each addition is at most twice each other one.
        Rule::all(
            "T07",
            [
                each(
                    [KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB],
                    [less(latency(BLOCKING), latency(POLL))],
                ),
                once(alike(&added, 2.0, "an addition of poll - 2 × another")),
            ],
        ),
        Rule::all(
            "T08",
            [each(
                [KIB],
                order([BLOCKING, POLL, QUEUE, SIGNALS, ORIGINAL, EVENT_LOOP].map(latency)),
            )],
        ),
    ]
}

/// The largest message, calls inside the process, and what goes without shared memory.
fn paths() -> Vec<Rule> {
    let shared = |how, name: &str| many(how, name, SHARED.map(latency), [MIB]);
    // The calls between processes are those of tables 1 and 4 to 8; the bare socket of section
    // 3.6.3 was measured at one size only.
    let between = SHARED.into_iter().chain([ORIGINAL]).map(latency);
    let quickest = many(MIN, "quickest between processes", between, Domain::Here);
    vec![
        Rule::all(
            "T09",
            [once([at_most(1.05, shared(SPREAD, "slowest doorbell / quickest").said("at 1 MiB"))])],
        ),
        Rule::all("T10", [each(SMALL, [at_most(0.26, latency(IN_PROCESS) / quickest)])]),
        // At 1 MiB, as the claim says; the remark itself is about 512 KiB too.
        Rule::all(
            "T11",
            [each([MIB], [less(shared(MAX, "slowest doorbell"), latency(IN_PROCESS))])],
        ),
        Rule::all(
            "T12",
            [each([KIB], [at_most(1.0 / 30.0, alone(None, BY_REFERENCE) / latency(IN_PROCESS))])],
        ),
        Rule::all("T13", [each([8 * KIB], [less(latency(SOCKET_POLL), latency(POLL))])]),
        // A difference of half the smaller one is a ratio of 1.5.
        Rule::all(
            "T14",
            [each([8 * KIB], [at_least(1.5, latency(ORIGINAL) / latency(SOCKET_POLL))])],
        ),
        // By proportional shares of memory; the paper counted what was left free.
        Rule::all(
            "T15",
            [once([less(
                alone(Some(Quantity::PssBytes), "two_services_dynlib_one_process"),
                alone(Some(Quantity::PssBytes), "two_services_separate_binaries"),
            )])],
        ),
    ]
}

/// Of the original over all sizes from 16 KiB.
fn line(how: Aggregate, name: &str) -> Term {
    let sizes = [4, 5, 6, 7, 8, 9, 10].map(|power| KIB << power);
    many(how, name, [latency(ORIGINAL)], sizes).said("from 16 KiB to 1 MiB")
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
