//! The advice itself, as other programs read it (`nearcall.advice/1`).
//!
//! Units stand in the field names; a figure that nothing was measured of is `null`. Programs that
//! read advice must ignore fields they do not know. How it comes about is in `rank.rs`, its text in
//! `text.rs`.

use serde::{Deserialize, Serialize};

use super::candidates::{Candidate, Excluded};
use super::requirements::Requirements;
use crate::noise::Grade;
use crate::words::words;

/// The version that this program writes.
pub const SCHEMA: &str = "nearcall.advice/1";

/// What to use, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What was wanted.
    pub requirements: Requirements,
    /// The machine that was measured, by its id.
    pub machine_id: String,
    /// When the run that decided began, in seconds since 1970 (UTC).
    pub measured_unix_s: u64,
    /// The files of the runs that were judged, where who asked knows them.
    #[serde(default)]
    pub runs: Vec<String>,
    /// The first choice; it also heads the ranking.
    pub choice: Candidate,
    /// What a client puts into its program, for a service called NAME.
    pub address: String,
    /// What the server listens at.
    pub server_address: String,
    /// What the server has to do so that a client gets the choice, in a sentence; `null` where
    /// servers offer it by default.
    #[serde(default)]
    pub server_must: Option<String>,
    /// How far to trust it.
    pub confidence: Confidence,
    /// Why this one, in sentences; the most important first.
    pub reasons: Vec<String>,
    /// The next best, and when it would be better.
    pub runner_up: Option<RunnerUp>,
    /// All candidates with evidence, the best first.
    pub ranking: Vec<Ranked>,
    /// What the figures are, in sentences: the run, the exchange, each step away from what was
    /// wanted.
    pub evidence: Vec<String>,
    /// The rate at which the times were measured that decided; `null`: one right after the other.
    #[serde(default)]
    pub measured_rate_per_s: Option<f64>,
    /// What to know before following it, in sentences, such as what else ran meanwhile.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Candidates that meet the needs and of which nothing that fits was measured.
    pub unmeasured: Vec<Unmeasured>,
    /// What does not meet the needs.
    pub excluded: Vec<Excluded>,
}

/// How far to trust an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Far from what was wanted, disturbed, or from too few launches.
    Low,
    /// Some steps away, or on a noisy machine.
    Medium,
    /// What was wanted is what was measured.
    High,
}

words! { Confidence: Low => "low", Medium => "medium", High => "high" }

/// One candidate of a ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// The mechanism, and how it waits.
    pub candidate: Candidate,
    /// What a client puts into its program.
    pub address: String,
    /// What the server listens at.
    #[serde(default)]
    pub server_address: String,
    /// Whether servers offer it by default.
    #[serde(default)]
    pub offered_by_default: bool,
    /// How many times the cost of the best one it has, by the weights; 1 is the best.
    pub cost_ratio: f64,
    /// The 95 % confidence interval of it, where there were launches enough.
    pub cost_ratio_ci95: Option<[f64; 2]>,
    /// Whether the measurement cannot tell it from the best.
    pub tied: bool,
    /// The median time of an exchange.
    pub latency_ns: Option<Figure>,
    /// 99 of 100 exchanges are shorter.
    pub p99_ns: Option<Figure>,
    /// Messages per second: of calls one at a time, one-way as fast as they go.
    pub messages_per_s: Option<Figure>,
    /// CPU time of both ends per message.
    pub cpu_ns_per_message: Option<Figure>,
    /// Memory that one more idle connection touches in both processes.
    pub bytes_per_connection: Option<Figure>,
    /// The worst grade of the cells behind its figures.
    pub grade: Option<Grade>,
    /// Whether it was dropped after a first look and is judged by that alone.
    pub first_look: bool,
}

/// An expected figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Where it is expected with 95 % confidence, wider for each step away from what was wanted.
    pub ci95: Option<[f64; 2]>,
}

/// The next best candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// The mechanism, and how it waits.
    pub candidate: Candidate,
    /// What a client puts into its program.
    pub address: String,
    /// What the server listens at.
    #[serde(default)]
    pub server_address: String,
    /// When it would win, each a phrase that reads after "wins"; empty if nothing that was measured
    /// speaks for it.
    pub wins: Vec<String>,
}

/// A candidate that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The mechanism, and how it waits.
    pub candidate: Candidate,
    /// Why not.
    pub why: String,
}
