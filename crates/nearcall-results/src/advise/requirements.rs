//! What a user wants of a mechanism, judged as far as words alone can be.
//!
//! Plain data; what can meet it is in `candidates.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::needs::Need;
use crate::load::Load;
use crate::report::number::Unit;
use crate::sizes::MESSAGE_BYTES_MAX;
use crate::words::{self, words};

/// What the mechanism is wanted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirements {
    /// Payload bytes of one message, at least 1; of a call, the bytes of its argument.
    pub message_bytes: u64,
    /// Payload bytes of the reply; `None` and 0 mean an empty one.
    pub reply_bytes: Option<u64>,
    /// Messages per second that must be kept up; `None`: as they come, one after the other.
    pub rate_per_s: Option<f64>,
    /// Whether the sender waits for a reply.
    pub pattern: Pattern,
    /// Where both ends run.
    pub placement: Placement,
    /// What else runs on the machine.
    #[serde(with = "words")]
    pub load: Load,
    /// What the choice must have.
    pub needs: Vec<Need>,
    /// Clients that one server has at the same time; `None`: any number.
    #[serde(default)]
    pub clients: Option<u32>,
    /// What the choice is best at.
    pub optimise: Weights,
}

impl Default for Requirements {
    /// Short calls on an idle machine, as fast as they come.
    fn default() -> Self {
        Self {
            message_bytes: 64,
            reply_bytes: None,
            rate_per_s: None,
            pattern: Pattern::Call,
            placement: Placement::Any,
            load: Load::default(),
            needs: Vec::new(),
            clients: None,
            optimise: Weights::only(Objective::Latency),
        }
    }
}

impl Requirements {
    /// Judges the values by themselves.
    ///
    /// # Errors
    ///
    /// [`BadRequirements`] names the value and what would be right.
    pub fn check(&self) -> Result<(), BadRequirements> {
        let bad = |text: String| Err(BadRequirements(text));
        let reply = self.reply_bytes.unwrap_or(0);
        match self.rate_per_s {
            _ if self.message_bytes == 0 => return bad("the smallest message is 1 byte".into()),
            _ if self.message_bytes.max(reply) > MESSAGE_BYTES_MAX => {
                return bad("the largest message and reply is 4 MiB".into());
            }
            _ if self.clients == Some(0) => return bad("a server has at least 1 client".into()),
            _ if self.pattern == Pattern::OneWay && reply > 0 => {
                return bad("a one-way message has no reply".into());
            }
            Some(rate) if !(rate.is_finite() && rate > 0.0) => {
                return bad(format!("a rate of {rate} per second; give one above 0"));
            }
            Some(rate) if rate > RATE_PER_S_MAX => {
                return bad(format!("a rate of {rate} per second; the highest is 1e9"));
            }
            _ => {}
        }
        self.optimise.check()
    }
}

/// More messages per second than any mechanism moves.
const RATE_PER_S_MAX: f64 = 1e9;

/// Whether the sender waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A call: the sender waits until the reply is there.
    Call,
    /// A message without a reply.
    OneWay,
}

/// Where both ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Not known yet: judged on two CPUs if there are two.
    Any,
    /// Each on a CPU of its own.
    Cross,
    /// Both on one CPU.
    SameCpu,
    /// Wherever the scheduler puts them.
    Unpinned,
}

words! { Placement: Any => "any", Cross => "cross", SameCpu => "same", Unpinned => "none" }

/// Something that a choice can be best at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The median time until the reply is there.
    Latency,
    /// The time that 99 of 100 exchanges do not exceed.
    P99,
    /// Messages per second: of calls one at a time, one-way as fast as they go.
    Throughput,
    /// CPU time of both ends per message.
    Cpu,
    /// Memory that one more idle connection touches in both processes.
    Memory,
}

words! { Objective:
    Latency => "latency",
    P99 => "p99",
    Throughput => "throughput",
    Cpu => "cpu",
    Memory => "memory",
}

impl Objective {
    /// The name of its figure, by what a candidate is better, and the unit.
    pub(super) const fn figure(self) -> (&'static str, &'static str, Unit) {
        match self {
            Self::Latency => ("time of an exchange", "the time", Unit::Time),
            Self::P99 => ("99th percentile", "the 99th percentile", Unit::Time),
            Self::Throughput => ("rate of messages", "the time per message", Unit::MessageRate),
            Self::Cpu => ("CPU time per message", "the CPU time", Unit::Time),
            Self::Memory => ("memory per connection", "the memory", Unit::Memory),
        }
    }
}

/// How much each objective counts: shares that add up to 1.
///
/// A candidate's cost is the product of its ratios to the best candidate, each to the power of its
/// share. So no unit has to be weighed against another, and shares alone decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Weights {
    /// The share of [`Objective::Latency`].
    pub latency: f64,
    /// The share of [`Objective::P99`].
    pub p99: f64,
    /// The share of [`Objective::Throughput`].
    pub throughput: f64,
    /// The share of [`Objective::Cpu`].
    pub cpu: f64,
    /// The share of [`Objective::Memory`].
    pub memory: f64,
}

impl Weights {
    /// Nothing counts but this.
    #[must_use]
    pub fn only(objective: Objective) -> Self {
        let mut weights = Self::default();
        *weights.of_mut(objective) = 1.0;
        weights
    }

    /// The share of an objective.
    #[must_use]
    pub fn of(mut self, objective: Objective) -> f64 {
        *self.of_mut(objective)
    }

    /// The objectives that count, the heaviest first.
    #[must_use]
    pub fn wanted(&self) -> Vec<Objective> {
        let mut wanted: Vec<Objective> =
            Objective::ALL.into_iter().filter(|&one| self.of(one) > 0.0).collect();
        wanted.sort_by(|&a, &b| self.of(b).total_cmp(&self.of(a)));
        wanted
    }

    fn of_mut(&mut self, objective: Objective) -> &mut f64 {
        match objective {
            Objective::Latency => &mut self.latency,
            Objective::P99 => &mut self.p99,
            Objective::Throughput => &mut self.throughput,
            Objective::Cpu => &mut self.cpu,
            Objective::Memory => &mut self.memory,
        }
    }

    fn check(&self) -> Result<(), BadRequirements> {
        let shares = Objective::ALL.map(|objective| self.of(objective));
        let sum: f64 = shares.iter().sum();
        if shares.iter().any(|share| !(share.is_finite() && *share >= 0.0)) {
            return Err(BadRequirements("a share must be a number from 0 to 1".into()));
        }
        match (sum - 1.0).abs() <= SUM_TOLERANCE {
            true => Ok(()),
            false => Err(BadRequirements(format!("the shares add up to {sum:.3} and not to 1"))),
        }
    }
}

/// Three thirds of three digits are 0.999.
const SUM_TOLERANCE: f64 = 0.005;

impl FromStr for Weights {
    type Err = BadRequirements;

    /// `latency`, or shares such as `latency=0.7,cpu=0.3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let objective = |word: &str| {
            let found = Objective::ALL.into_iter().find(|one| one.name() == word.trim());
            found.ok_or_else(|| {
                let all = Objective::ALL.map(Objective::name).join(", ");
                BadRequirements(format!(
                    "unknown objective {word:?}; use {all}, or shares such as latency=0.7,cpu=0.3"
                ))
            })
        };
        if !text.contains('=') && !text.contains(',') {
            return objective(text).map(Self::only);
        }
        let mut weights = Self::default();
        for item in text.split(',') {
            let Some((word, share)) = item.split_once('=') else {
                objective(item)?;
                return Err(BadRequirements(format!("{item:?} has no share; write {item}=0.5")));
            };
            let place = weights.of_mut(objective(word)?);
            if *place != 0.0 {
                return Err(BadRequirements(format!("{:?} is given twice", word.trim())));
            }
            *place = share.trim().parse().map_err(|_| {
                BadRequirements(format!(
                    "{:?} is no share; give a number from 0 to 1",
                    share.trim()
                ))
            })?;
        }
        weights.check()?;
        Ok(weights)
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.wanted();
        if let [only] = wanted[..] {
            return f.write_str(only.name());
        }
        let items: Vec<String> =
            wanted.iter().map(|&one| format!("{}={}", one.name(), self.of(one))).collect();
        f.write_str(&items.join(","))
    }
}

/// Requirements that mean nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRequirements(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_a_word_or_shares_and_are_printed_back() {
        for text in ["latency", "p99", "throughput", "cpu", "memory", "latency=0.7,cpu=0.3"] {
            assert_eq!(text.parse::<Weights>().unwrap().to_string(), text);
        }
        let thirds: Weights = "latency=0.333,cpu=0.333,memory=0.333".parse().unwrap();
        assert_eq!(thirds.wanted().len(), 3);
    }

    #[test]
    fn weights_that_mean_nothing_are_refused_with_the_reason() {
        for (text, expected) in [
            ("speed", "unknown objective \"speed\"; use latency, p99"),
            ("", "unknown objective \"\""),
            ("latency=0.7", "add up to 0.700"),
            ("latency=0.7,cpu=0.7", "add up to 1.400"),
            ("latency=2,cpu=-1", "from 0 to 1"),
            ("latency=NaN,cpu=1", "from 0 to 1"),
            ("latency=a,cpu=1", "\"a\" is no share"),
            ("latency,cpu", "has no share"),
            ("latency=0.5,latency=0.5", "given twice"),
        ] {
            let error = text.parse::<Weights>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn values_are_judged_by_themselves() {
        let good = Requirements::default();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Requirements { message_bytes: 0, ..good.clone() },
            Requirements { message_bytes: MESSAGE_BYTES_MAX + 1, ..good.clone() },
            Requirements { reply_bytes: Some(MESSAGE_BYTES_MAX + 1), ..good.clone() },
            Requirements { rate_per_s: Some(-1.0), ..good.clone() },
            Requirements { rate_per_s: Some(f64::NAN), ..good.clone() },
            Requirements { pattern: Pattern::OneWay, reply_bytes: Some(8), ..good.clone() },
            Requirements { optimise: Weights::default(), ..good },
        ];
        for one in bad {
            assert!(one.check().is_err(), "{one:?}");
        }
    }
}
