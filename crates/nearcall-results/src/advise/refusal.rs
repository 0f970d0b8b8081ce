//! Why there is no advice.

use super::candidates::{Candidate, conflict, eligible};
use super::needs::Need;
use super::requirements::{BadRequirements, Requirements};
use crate::report::number;

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The requirements mean nothing.
    #[error(transparent)]
    Requirements(BadRequirements),
    /// Nothing meets all needs.
    #[error("{}", impossible(needs, met_by))]
    Impossible {
        /// Needs that nothing meets together, none of which can be left out.
        needs: Vec<String>,
        /// What meets each of them, in the same order.
        met_by: Vec<Vec<String>>,
    },
    /// Figures of two machines never meet in one ranking.
    #[error("the runs are of different machines; give those of one machine at a time")]
    Machines,
    /// Other programs use the CPUs, and nothing was measured.
    #[error(
        "{what}; nothing was measured. Wait until they are done, or measure beside them: {command} \
         --anyway"
    )]
    Busy {
        /// How much, in words.
        what: String,
        /// What measures in spite of it.
        command: String,
    },
    /// Nothing that fits was measured.
    #[error("nothing that fits was measured: {what}; this would: {command}")]
    Missing {
        /// What is missing.
        what: String,
        /// What would measure it.
        command: String,
    },
    /// Nothing keeps up.
    #[error(
        "nothing that was measured keeps {}{}",
        number::message_rate(*rate_per_s),
        fastest(*rate_per_s, *best)
    )]
    TooSlow {
        /// Messages per second that are wanted.
        rate_per_s: f64,
        /// The best there is, and what it can do, if that is known.
        best: Option<(Candidate, f64)>,
    },
}

impl Refusal {
    /// No candidate meets the needs of `requirements`.
    #[must_use]
    pub fn impossible(requirements: &Requirements) -> Self {
        let needs = conflict(requirements);
        let met_by = needs.iter().map(|need| {
            let (kept, _) = eligible(&Requirements { needs: vec![*need], ..requirements.clone() });
            let mut names: Vec<String> =
                kept.iter().map(|one| one.mechanism.name().to_owned()).collect();
            names.dedup();
            names
        });
        let met_by = met_by.collect();
        Self::Impossible { needs: needs.iter().map(Need::to_string).collect(), met_by }
    }
}

/// What nothing meets, and what meets each of it.
fn impossible(needs: &[String], met_by: &[Vec<String>]) -> String {
    let joined = match needs {
        [one] => one.clone(),
        [one, other] => format!("both {one} and {other}"),
        [first @ .., last] => format!("{} and {last} at once", first.join(", ")),
        [] => "this here".to_owned(),
    };
    let met = needs.iter().zip(met_by).map(|(need, names)| {
        let names = match names.len() {
            0 => "nothing".to_owned(),
            1..=NAMES_MAX => names.join(", "),
            more => format!("{} and {} more", names[..3].join(", "), more - 3),
        };
        format!("{need} is met by {names}")
    });
    let met = met.collect::<Vec<_>>().join("; ");
    format!("no mechanism does {joined}{}{met}", if met.is_empty() { "" } else { ": " })
}

/// The best there is where nothing keeps the rate.
fn fastest(rate_per_s: f64, best: Option<(Candidate, f64)>) -> String {
    best.map_or_else(String::new, |(candidate, rate)| {
        let room = if rate < rate_per_s { "" } else { ", too little room above" };
        let rate = number::message_rate(rate);
        format!("; the fastest is {candidate} with {rate}{room}")
    })
}

/// A sentence with more names is hard to read.
const NAMES_MAX: usize = 5;

/// The command line that measures for these requirements.
#[must_use]
pub fn command(requirements: &Requirements) -> String {
    let Requirements { reply_bytes, rate_per_s, clients, placement, load, optimise, .. } =
        requirements;
    let needs: Vec<&str> = requirements.needs.iter().map(|need| need.name()).collect();
    let is_one_way = requirements.pattern == super::Pattern::OneWay;
    let is_latency = *optimise == super::Weights::only(super::Objective::Latency);
    let options = [
        reply_bytes.map(|reply| format!("--reply {reply}")),
        rate_per_s.map(|rate| format!("--rate {rate}")),
        is_one_way.then(|| "--pattern one-way".to_owned()),
        (*placement != super::Placement::Any).then(|| format!("--placement {placement}")),
        (!load.is_idle()).then(|| format!("--load {load}")),
        (!needs.is_empty()).then(|| format!("--needs {}", needs.join(","))),
        clients.map(|clients| format!("--clients {clients}")),
        (!is_latency).then(|| format!("--optimise {optimise}")),
    ];
    let first = format!("nearcall advise --size {}", requirements.message_bytes);
    std::iter::once(first).chain(options.into_iter().flatten()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_told_with_what_meets_each_side() {
        let needs = vec![Need::MultiMachine, Need::SharedMemory];
        let refusal = Refusal::impossible(&Requirements { needs, ..Requirements::default() });
        assert_eq!(
            refusal.to_string(),
            "no mechanism does both multi-machine and shared-memory: multi-machine is met by tcp; \
             shared-memory is met by shm, shm-spin, shm-unix, shm-pipe, shm-signal"
        );
    }

    #[test]
    fn the_command_repeats_what_differs_from_the_usual() {
        assert_eq!(command(&Requirements::default()), "nearcall advise --size 64");
        let wanted = Requirements {
            rate_per_s: Some(1_000.0),
            needs: vec![Need::Pollable, Need::Isolation],
            load: "cpu,io".parse().unwrap(),
            optimise: "latency=0.7,cpu=0.3".parse().unwrap(),
            ..Requirements::default()
        };
        assert_eq!(
            command(&wanted),
            "nearcall advise --size 64 --rate 1000 --load cpu,io --needs pollable,isolation \
             --optimise latency=0.7,cpu=0.3"
        );
    }
}
