//! What a user needs of a mechanism, and which candidates have it.
//!
//! A function of the table of mechanisms; nothing is measured. Always true: each need judges each
//! candidate by itself, but for those that a connection to another machine takes away. Which
//! candidates there are is in `candidates.rs`.

use std::fmt;
use std::str::FromStr;

use nearcall_channel::mechanism::DataPath;
use nearcall_channel::{Mechanism, WaitPolicy};
use serde::{Deserialize, Serialize};

use super::candidates::Candidate;

/// Something that the choice must have, whatever it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Need {
    /// An event loop can wait for it on a descriptor; so neither end blocks in it or spins.
    Pollable,
    /// The mechanism itself tells that the other process died.
    CrashDetection,
    /// A hostile peer can neither change what was sent nor hold a lock.
    Isolation,
    /// Descriptors can be passed beside the messages.
    DescriptorPassing,
    /// The other end may be on another machine.
    MultiMachine,
    /// Nobody ever spins, not even for a while.
    NoSpin,
    /// Works when both ends share one CPU.
    SameCpuSafe,
    /// A message larger than the room of the channel gets through.
    Oversized,
    /// What was sent before the sender died can still be received.
    DeliversAfterDeath,
    /// A kill at any moment leaves the other end nothing to hang in.
    KillSafe,
    /// Nothing is left in the system if both ends are killed.
    NothingLeft,
    /// The kernel copies nothing.
    SharedMemory,
}

impl Need {
    /// All of them, in the order in which they are listed to users.
    pub const ALL: [Self; 12] = [
        Self::Pollable,
        Self::CrashDetection,
        Self::Isolation,
        Self::DescriptorPassing,
        Self::MultiMachine,
        Self::NoSpin,
        Self::SameCpuSafe,
        Self::Oversized,
        Self::DeliversAfterDeath,
        Self::KillSafe,
        Self::NothingLeft,
        Self::SharedMemory,
    ];

    /// The word for it on the command line and in stored advice.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pollable => "pollable",
            Self::CrashDetection => "crash-detection",
            Self::Isolation => "isolation",
            Self::DescriptorPassing => "descriptor-passing",
            Self::MultiMachine => "multi-machine",
            Self::NoSpin => "no-spin",
            Self::SameCpuSafe => "same-cpu-safe",
            Self::Oversized => "survives-oversized",
            Self::DeliversAfterDeath => "delivers-after-death",
            Self::KillSafe => "kill-safe",
            Self::NothingLeft => "nothing-left",
            Self::SharedMemory => "shared-memory",
        }
    }

    /// Why `candidate` does not have it; `None` if it does. `all` are the needs that stand beside
    /// it: a connection that reaches other machines can do less.
    #[must_use]
    pub fn lacked_by(self, candidate: &Candidate, all: &[Self]) -> Option<&'static str> {
        let can = candidate.mechanism.capabilities();
        let spins = candidate.wait == WaitPolicy::Spin || can.needs_spinning;
        let far = all.contains(&Self::MultiMachine);
        let lacks = |has: bool, why: &'static str| (!has).then_some(why);
        match self {
            Self::Pollable if !can.pollable => Some("has no descriptor that a loop can wait on"),
            Self::Pollable => lacks(
                matches!(candidate.wait, WaitPolicy::Poll | WaitPolicy::Adaptive),
                "waits in a call of its own, not on a descriptor",
            ),
            Self::CrashDetection => lacks(
                can.tells_of_death,
                "does not tell of a death itself; a second descriptor has to",
            ),
            Self::Isolation => lacks(can.isolation, "lets a hostile peer interfere"),
            Self::DescriptorPassing if far => Some("passes no descriptor to another machine"),
            Self::DescriptorPassing => lacks(can.descriptor_passing, "passes no descriptors"),
            Self::MultiMachine => {
                lacks(candidate.mechanism == Mechanism::Tcp, "ends at the border of its machine")
            }
            Self::NoSpin if spins => Some("spins"),
            Self::NoSpin => lacks(
                candidate.wait != WaitPolicy::Adaptive,
                "spins for a bounded share of the time before it sleeps",
            ),
            Self::SameCpuSafe => lacks(
                can.same_cpu_safe && !spins,
                "spins, and so keeps the other end from running on a shared CPU",
            ),
            Self::Oversized => lacks(
                can.survives_oversized,
                "refuses a message larger than the room of its channel",
            ),
            Self::DeliversAfterDeath => {
                lacks(can.delivers_after_death, "may lose what was under way when the sender died")
            }
            Self::KillSafe => lacks(can.kill_safe, "may break a lock when an end is killed"),
            Self::NothingLeft => lacks(
                can.vanishes_with_both,
                "leaves something in the system when both ends are killed",
            ),
            Self::SharedMemory => lacks(
                candidate.mechanism.data_path() == DataPath::SharedMemory,
                "has the kernel copy each message",
            ),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Need {
    type Err = UnknownNeed;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|need| need.name() == word);
        found.ok_or_else(|| UnknownNeed(word.to_owned()))
    }
}

impl From<Need> for String {
    fn from(need: Need) -> Self {
        need.name().to_owned()
    }
}

impl TryFrom<String> for Need {
    type Error = UnknownNeed;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        word.parse()
    }
}

/// A word that names no need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNeed(pub String);

impl fmt::Display for UnknownNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown need `{}`", self.0)?;
        match nearest(&self.0) {
            Some(name) => write!(f, ", did you mean `{name}`?")?,
            None => f.write_str(".")?,
        }
        write!(f, " There are: {}", Need::ALL.map(Need::name).join(" "))
    }
}

impl std::error::Error for UnknownNeed {}

/// The name with the most pairs of letters in common, if that is half of them.
fn nearest(word: &str) -> Option<&'static str> {
    // Longer words are near no name.
    const WORD_BYTES_MAX: usize = 64;
    let word = word.to_ascii_lowercase().replace('_', "-");
    let pairs = |text: &str| -> Vec<[u8; 2]> {
        text.as_bytes().windows(2).map(|pair| [pair[0], pair[1]]).collect()
    };
    let own = pairs(&word);
    if word.len() > WORD_BYTES_MAX || own.is_empty() {
        return None;
    }
    let shared = |name: &str| {
        let theirs = pairs(name);
        let common = own.iter().filter(|pair| theirs.contains(pair)).count();
        2.0 * common as f64 / (own.len() + theirs.len()) as f64
    };
    let all = Need::ALL.map(|need| (shared(need.name()), need.name()));
    let best = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.5).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_is_parsed_back_from_its_name() {
        for need in Need::ALL {
            assert_eq!(need.name().parse(), Ok(need));
            let text = serde_json::to_string(&need).unwrap();
            assert_eq!(serde_json::from_str::<Need>(&text).unwrap(), need);
        }
    }

    #[test]
    fn an_unknown_need_gets_the_nearest_and_the_list() {
        let text = "polable".parse::<Need>().unwrap_err().to_string();
        assert!(text.contains("did you mean `pollable`?"), "{text}");
        assert!(Need::ALL.iter().all(|need| text.contains(need.name())), "{text}");
        let text = "multimachine".parse::<Need>().unwrap_err().to_string();
        assert!(text.contains("did you mean `multi-machine`?"), "{text}");
        for far in ["", "x", "quick", &"pollable".repeat(100)] {
            assert!(!far.parse::<Need>().unwrap_err().to_string().contains("did you mean"));
        }
    }

    #[test]
    fn what_adapts_spins_for_a_while_and_can_be_polled() {
        let shm = |wait| Candidate { mechanism: Mechanism::Shm, wait };
        let lacks = |need: Need, wait| need.lacked_by(&shm(wait), &[need]).is_some();
        assert!(lacks(Need::NoSpin, WaitPolicy::Adaptive) && lacks(Need::NoSpin, WaitPolicy::Spin));
        assert!(!lacks(Need::NoSpin, WaitPolicy::Block));
        assert!(!lacks(Need::Pollable, WaitPolicy::Adaptive));
        assert!(lacks(Need::Pollable, WaitPolicy::Block));
        assert!(!lacks(Need::SameCpuSafe, WaitPolicy::Adaptive));
        assert!(lacks(Need::SameCpuSafe, WaitPolicy::Spin));
    }
}
