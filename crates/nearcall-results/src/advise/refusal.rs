//! Why there is no advice.

use std::fmt;

use super::candidates::{Candidate, conflict, eligible};
use super::needs::Need;
use super::requirements::{BadRequirements, Requirements};
use crate::report::number;

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The requirements mean nothing.
    Requirements(BadRequirements),
    /// Nothing meets all needs.
    Impossible {
        /// Needs that nothing meets together, none of which can be left out.
        needs: Vec<String>,
        /// What meets each of them, in the same order.
        met_by: Vec<Vec<String>>,
    },
    /// Figures of two machines never meet in one ranking.
    Machines,
    /// Other programs use the CPUs, and nothing was measured.
    Busy {
        /// How much, in words.
        what: String,
        /// What measures in spite of it.
        command: String,
    },
    /// Nothing that fits was measured.
    Missing {
        /// What is missing.
        what: String,
        /// What would measure it.
        command: String,
    },
    /// Nothing keeps up.
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requirements(error) => error.fmt(f),
            Self::Impossible { needs, met_by } => {
                let joined = match &needs[..] {
                    [one] => one.clone(),
                    [one, other] => format!("both {one} and {other}"),
                    [first @ .., last] => format!("{} and {last} at once", first.join(", ")),
                    [] => "this here".to_owned(),
                };
                write!(f, "no mechanism does {joined}")?;
                for (index, (need, names)) in needs.iter().zip(met_by).enumerate() {
                    let lead = if index == 0 { ": " } else { "; " };
                    let names = match names.len() {
                        0 => "nothing".to_owned(),
                        1..=NAMES_MAX => names.join(", "),
                        more => format!("{} and {} more", names[..3].join(", "), more - 3),
                    };
                    write!(f, "{lead}{need} is met by {names}")?;
                }
                Ok(())
            }
            Self::Machines => f.write_str(
                "the runs are of different machines; give those of one machine at a time",
            ),
            Self::Busy { what, command } => write!(
                f,
                "{what}; nothing was measured. Wait until they are done, or measure beside them: \
                 {command} --anyway"
            ),
            Self::Missing { what, command } => {
                write!(f, "nothing that fits was measured: {what}; this would: {command}")
            }
            Self::TooSlow { rate_per_s, best } => {
                let wanted = number::message_rate(*rate_per_s);
                write!(f, "nothing that was measured keeps {wanted}")?;
                match best {
                    Some((candidate, rate)) => {
                        let room = if rate < rate_per_s { "" } else { ", too little room above" };
                        let rate = number::message_rate(*rate);
                        write!(f, "; the fastest is {candidate} with {rate}{room}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Refusal {}

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
