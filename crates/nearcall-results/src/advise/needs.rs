//! The words for what a user needs of a mechanism. Which candidates have it is in `candidates.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Something that the choice must have, whatever it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    #[serde(rename = "survives-oversized")]
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

/// Returns the name with the most pairs of letters in common, if that is half of them.
fn nearest(word: &str) -> Option<&'static str> {
    // Longer words are near no name.
    const WORD_BYTES_MAX: usize = 64;
    let word = word.to_ascii_lowercase().replace('_', "-");
    let shared = |name: &str| {
        let pairs = |text: &str| text.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (own, theirs) = (pairs(&word), pairs(name));
        let common = own.iter().filter(|pair| theirs.contains(pair)).count();
        2.0 * common as f64 / (own.len() + theirs.len()) as f64
    };
    let all = Need::ALL.map(|need| (shared(need.name()), need.name()));
    let (best, name) = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best >= 0.5 && word.len() <= WORD_BYTES_MAX).then_some(name)
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
}
