//! What other mechanisms would cost for the traffic of a connection, by stored runs of this
//! machine.
//!
//! **Invariants:** nothing is measured; without a run that fits there is no figure, and the command
//! that makes one.
//! **Not here:** the judgement, which is `nearcall_results::advise`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use nearcall_bench::machine;
use nearcall_results::advise::{Pattern, Ranked, Requirements, advise, command};
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
    /// How many times the best one's cost it has.
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
        let runs: Vec<&Run> = evidence.runs.iter().map(|(_, run)| run).collect();
        match advise(&requirements, &runs) {
            Ok(advice) => {
                let alternative = |one: &Ranked| Alternative::of(one, offered);
                let mut ranking: Vec<Alternative> =
                    advice.ranking.iter().map(alternative).collect();
                mark_used(&mut ranking, used);
                Self::Judged { requirements: Box::new(requirements), ranking }
            }
            Err(refusal) => Self::Unknown { why: refusal.to_string(), command },
        }
    }
}

impl Alternative {
    fn of(ranked: &Ranked, offered: &[&str]) -> Self {
        let mechanism = ranked.candidate.mechanism.name();
        Self {
            mechanism: mechanism.to_owned(),
            wait: ranked.candidate.wait.name().to_owned(),
            is_used: false,
            is_offered: offered.contains(&mechanism),
            latency_ns: ranked.latency_ns.map(|figure| figure.value),
            p99_ns: ranked.p99_ns.map(|figure| figure.value),
            cpu_ns_per_message: ranked.cpu_ns_per_message.map(|figure| figure.value),
            cost_ratio: ranked.cost_ratio,
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
    let rate_per_s = from_client.messages_per_s.map(f64::round).filter(|rate| *rate >= 1.0);
    Some(Requirements {
        message_bytes,
        reply_bytes,
        rate_per_s,
        pattern,
        ..Requirements::default()
    })
}

/// The header of each message, which counts in what a connection has carried.
const HEADER_BYTES: u64 = 40;

/// The largest message that advice is for.
const PAYLOAD_BYTES_MAX: u64 = 4 << 20;

/// Stored runs that are read: some have megabytes.
const RUNS_READ_MAX: usize = 20;

#[cfg(test)]
mod tests {
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
        assert_eq!(command.unwrap(), "nearcall advise --size 64 --reply 32 --rate 100");
    }
}
