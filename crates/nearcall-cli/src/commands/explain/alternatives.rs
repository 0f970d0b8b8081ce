//! What other mechanisms would cost for the traffic of a connection, by stored runs of this
//! machine.
//!
//! **Invariants:** nothing is measured; without a run that fits there is no figure, and the command
//! that makes one. Calls before which both ends sleep are judged by such calls only. The cost has
//! the CPU time of both ends in it, in the same shares as for `via=auto`.
//! **Not here:** the judgement, which is `nearcall_results::advise`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use nearcall_bench::machine;
use nearcall_results::advise::{Advice, Pattern, Ranked, Requirements, Weights, advise, command};
use nearcall_results::report::number;
use nearcall_results::run::Run;
use serde::Serialize;

use super::Traffic;
use crate::places;

/// The runs that alternatives are judged by.
pub(super) struct Evidence {
    runs: Vec<(String, Run)>,
}

impl Evidence {
    /// Loads the runs of these files, or the newest of this machine where `bench` and `advise`
    /// store them.
    pub(super) fn find(files: &[PathBuf]) -> anyhow::Result<Self> {
        let name = |file: &PathBuf| file.display().to_string();
        if !files.is_empty() {
            let load = |file| Ok((name(file), Run::load(file).with_context(|| name(file))?));
            return Ok(Self { runs: files.iter().map(load).collect::<anyhow::Result<_>>()? });
        }
        let mut stored: Vec<PathBuf> = match places::runs().and_then(|it| fs::read_dir(it).ok()) {
            Some(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            None => Vec::new(),
        };
        stored.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        // Their names have date and time.
        stored.sort_unstable();
        let newest = stored.iter().rev().take(RUNS_READ_MAX);
        let runs = newest.filter_map(|file| Some((name(file), Run::load(file).ok()?)));
        let runs: Vec<_> = runs.collect();
        if runs.is_empty() {
            return Ok(Self { runs });
        }
        let own = machine::read().id;
        Ok(Self { runs: runs.into_iter().filter(|(_, run)| run.machine.id == own).collect() })
    }

    pub(super) fn files(&self) -> Vec<String> {
        self.runs.iter().map(|(file, _)| file.clone()).collect()
    }
}

/// What other mechanisms would cost.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Alternatives {
    Judged {
        /// What was seen, as `nearcall advise` takes it.
        requirements: Box<Requirements>,
        /// The rate at which the figures were measured. Null: one right after the other.
        measured_rate_per_s: Option<f64>,
        /// The best first.
        ranking: Vec<Alternative>,
    },
    Unknown {
        why: String,
        /// What would measure it. Null: there is no traffic to measure for.
        command: Option<String>,
    },
}

/// A mechanism with a way to wait.
#[derive(Serialize)]
pub(super) struct Alternative {
    pub(super) mechanism: String,
    pub(super) wait: String,
    /// The connection uses this mechanism now, and the server waits so. Where no run has measured
    /// how the server waits, each of the mechanism.
    pub(super) is_used: bool,
    /// The server offers it.
    pub(super) is_offered: bool,
    pub(super) latency_ns: Option<f64>,
    pub(super) p99_ns: Option<f64>,
    pub(super) cpu_ns_per_message: Option<f64>,
    /// How many times the best one's cost it has: time and CPU time, in the shares of [`WEIGHTS`].
    pub(super) cost_ratio: f64,
}

impl Alternatives {
    pub(super) fn of(
        evidence: &Evidence,
        traffic: Option<&Traffic>,
        used: (&str, &str),
        offered: &[&str],
    ) -> Self {
        let Some(requirements) = traffic.and_then(requirements) else {
            let why = "no message of the client was counted yet".to_owned();
            return Self::Unknown { why, command: None };
        };
        let command = Some(command(&requirements));
        if evidence.runs.is_empty() {
            let why = "there is no stored run of this machine".to_owned();
            return Self::Unknown { why, command };
        }
        let Some(rate_per_s) = requirements.rate_per_s else {
            let why = "nothing came while it was watched, so how often calls come, and whether \
                       both ends sleep before each, is not known: watch longer, with --watch";
            return Self::Unknown { why: why.to_owned(), command: None };
        };
        let runs: Vec<&Run> = evidence.runs.iter().map(|(_, run)| run).collect();
        let advice = match advise(&requirements, &runs) {
            Ok(advice) => advice,
            Err(refusal) => return Self::Unknown { why: refusal.to_string(), command },
        };
        if rate_per_s < RATE_AWAKE_MIN && advice.measured_rate_per_s.is_none() {
            return Self::unknown_at(rate_per_s, requirements.pattern, command);
        }
        let mut ranking = ranking(&advice, offered);
        mark_used(&mut ranking, used);
        let measured_rate_per_s = advice.measured_rate_per_s;
        Self::Judged { requirements: Box::new(requirements), measured_rate_per_s, ranking }
    }

    /// There are figures, and all are of calls that come too fast for the ends to sleep.
    fn unknown_at(rate_per_s: f64, pattern: Pattern, command: Option<String>) -> Self {
        let rate = number::message_rate(rate_per_s);
        let (what, command) = match pattern {
            Pattern::Call => ("calls", command),
            // `advise` measures none at a rate.
            Pattern::OneWay => ("messages", None),
        };
        let why = format!(
            "at {rate} both ends sleep before each message, which takes longer and other CPU time, \
             and the stored runs have {what} right after each other only"
        );
        Self::Unknown { why, command }
    }
}

/// Orders the alternatives by time and CPU time, those last that were dropped after a first look.
fn ranking(advice: &Advice, offered: &[&str]) -> Vec<Alternative> {
    let cost = |one: &Ranked| {
        let (time, cpu) = (one.latency_ns?.value, one.cpu_ns_per_message?.value);
        Some(WEIGHTS.latency * time + WEIGHTS.cpu * cpu)
    };
    let mut all: Vec<(bool, f64, &Ranked)> =
        advice.ranking.iter().filter_map(|one| Some((one.first_look, cost(one)?, one))).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let least = all.first().map_or(1.0, |(_, cost, _)| *cost);
    all.into_iter().map(|(_, cost, one)| Alternative::of(one, offered, cost / least)).collect()
}

impl Alternative {
    fn of(ranked: &Ranked, offered: &[&str], cost_ratio: f64) -> Self {
        let mechanism = ranked.candidate.mechanism.name();
        Self {
            mechanism: mechanism.to_owned(),
            wait: ranked.candidate.wait.name().to_owned(),
            is_used: false,
            is_offered: offered.contains(&mechanism),
            latency_ns: ranked.latency_ns.map(|figure| figure.value),
            p99_ns: ranked.p99_ns.map(|figure| figure.value),
            cpu_ns_per_message: ranked.cpu_ns_per_message.map(|figure| figure.value),
            cost_ratio,
        }
    }
}

/// Marks what a connection uses: a mechanism, and how the server waits.
fn mark_used(ranking: &mut [Alternative], (mechanism, wait): (&str, &str)) {
    let is_known = ranking.iter().any(|it| it.mechanism == mechanism && it.wait == wait);
    for one in ranking {
        one.is_used = one.mechanism == mechanism && (!is_known || one.wait == wait);
    }
}

/// Returns what a mechanism for this traffic has to do. None: there was none.
fn requirements(traffic: &Traffic) -> Option<Requirements> {
    let Traffic { from_client, to_client, .. } = traffic;
    let payload = |mean: u64| mean.saturating_sub(HEADER_BYTES).clamp(1, PAYLOAD_BYTES_MAX);
    let message_bytes = payload(from_client.mean_bytes?);
    // One-way messages have no replies; of calls there may be some.
    let pattern = match to_client.messages >= from_client.messages.div_ceil(2) {
        true => Pattern::Call,
        false => Pattern::OneWay,
    };
    let reply_bytes = to_client.mean_bytes.filter(|_| pattern == Pattern::Call).map(payload);
    let whole = |rate: f64| if rate < 10.0 { rate } else { rate.round() };
    let rate_per_s = from_client.messages_per_s.map(whole).filter(|rate| *rate > 0.0);
    Some(Requirements {
        message_bytes,
        reply_bytes,
        rate_per_s,
        pattern,
        optimise: WEIGHTS,
        ..Requirements::default()
    })
}

/// The shares of the time and of the CPU time of both ends in a cost, as for `via=auto`.
pub(super) const WEIGHTS: Weights =
    Weights { latency: 0.7, p99: 0.0, throughput: 0.0, cpu: 0.3, memory: 0.0 };

/// Messages per second from which no end sleeps between two: it spins for about as long as a
/// wake-up takes, tens of microseconds. Below, figures of messages right after each other do not
/// hold.
const RATE_AWAKE_MIN: f64 = 10_000.0;

/// The header of each message, which counts in what a connection has carried.
const HEADER_BYTES: u64 = 40;

/// The largest message that advice is for.
const PAYLOAD_BYTES_MAX: u64 = 4 << 20;

/// Stored runs that are read: some have megabytes.
const RUNS_READ_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Flow;
    use super::*;

    fn flow(messages: u64, mean_bytes: Option<u64>) -> Flow {
        let bytes = messages.saturating_mul(mean_bytes.unwrap_or_default());
        Flow {
            messages,
            bytes,
            messages_per_s: Some(messages as f64),
            mean_bytes,
            sizes: Vec::new(),
        }
    }

    #[test]
    fn traffic_becomes_requirements() {
        let seen = |from_client, to_client| {
            requirements(&Traffic { is_current: true, from_client, to_client })
        };
        let calls = seen(flow(100, Some(104)), flow(100, Some(40))).unwrap();
        assert_eq!((calls.message_bytes, calls.reply_bytes), (64, Some(1)));
        assert_eq!((calls.rate_per_s, calls.pattern), (Some(100.0), Pattern::Call));
        let notes = seen(flow(100, Some(u64::MAX)), flow(1, Some(40))).unwrap();
        assert_eq!((notes.pattern, notes.reply_bytes), (Pattern::OneWay, None));
        assert!(notes.check().is_ok() && calls.check().is_ok());
        assert_eq!(seen(flow(0, None), flow(0, None)), None);
    }

    #[test]
    fn what_is_used_is_marked_with_its_wait_where_that_is_known() {
        let one = |mechanism: &str, wait: &str| Alternative {
            mechanism: mechanism.to_owned(),
            wait: wait.to_owned(),
            is_used: false,
            is_offered: true,
            latency_ns: None,
            p99_ns: None,
            cpu_ns_per_message: None,
            cost_ratio: 1.0,
        };
        let used = |wait: &str| {
            let mut ranking = [one("shm", "spin"), one("shm", "block"), one("pipe", "block")];
            mark_used(&mut ranking, ("shm", wait));
            ranking.map(|it| it.is_used)
        };
        assert_eq!(used("block"), [false, true, false]);
        assert_eq!(used("adaptive"), [true, true, false]);
    }

    #[test]
    fn without_a_run_the_command_that_makes_one_is_named() {
        let evidence = Evidence { runs: Vec::new() };
        let traffic = Traffic {
            is_current: true,
            from_client: flow(100, Some(104)),
            to_client: flow(100, Some(72)),
        };
        let Alternatives::Unknown { why, command } =
            Alternatives::of(&evidence, Some(&traffic), ("shm", "adaptive"), &["shm"])
        else {
            panic!("judged by nothing")
        };
        assert_eq!(why, "there is no stored run of this machine");
        let expected = "nearcall advise --size 64 --reply 32 --rate 100 --optimise \
                        latency=0.7,cpu=0.3";
        assert_eq!(command.unwrap(), expected);
    }

    fn at(rate_per_s: f64, run: &str) -> Alternatives {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
        let evidence = Evidence::find(&[docs.join(run)]).unwrap();
        let flow = || Flow { messages_per_s: Some(rate_per_s), ..flow(10, Some(48)) };
        let traffic = Traffic { is_current: true, from_client: flow(), to_client: flow() };
        Alternatives::of(&evidence, Some(&traffic), ("shm", "adaptive"), &["shm"])
    }

    #[test]
    fn rare_calls_are_judged_by_rare_calls_and_by_their_cpu_time() {
        let Alternatives::Judged { ranking, measured_rate_per_s, .. } =
            at(1.0, "epyc-2cpu-gaps.json")
        else {
            panic!("the run has pauses of 100 ms")
        };
        assert_eq!(measured_rate_per_s, Some(10.0));
        let find = |wait: &str| {
            ranking.iter().find(|one| one.mechanism == "shm" && one.wait == wait).unwrap()
        };
        let (adaptive, spin) = (find("adaptive"), find("spin"));
        assert!(adaptive.latency_ns.unwrap() > 100_000.0, "woken up: {:?}", adaptive.latency_ns);
        assert!(spin.cpu_ns_per_message.unwrap() >= 1e9, "{:?}", spin.cpu_ns_per_message);
        assert!(spin.cost_ratio > 1_000.0 && adaptive.cost_ratio < 2.0, "{}", spin.cost_ratio);
        assert!(ranking.windows(2).all(|pair| pair[0].cost_ratio <= pair[1].cost_ratio));
    }

    #[test]
    fn figures_of_busy_calls_are_shown_for_busy_calls_only() {
        let Alternatives::Unknown { why, command } = at(5.0, "epyc-2cpu-tour.json") else {
            panic!("the run has no rare call")
        };
        assert!(why.starts_with("at 5.00 /s both ends sleep before each message"), "{why}");
        assert!(command.unwrap().contains("--rate 5 "));
        let busy = at(200_000.0, "epyc-2cpu-tour.json");
        assert!(matches!(busy, Alternatives::Judged { measured_rate_per_s: None, .. }));
    }
}
