//! The words for what a user needs of a mechanism. Which candidates have it is in `candidates.rs`.

use std::str::FromStr;

use nearcall_channel::nearest_name;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// Something that the choice must have, whatever it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// An event loop can wait for it on a descriptor; so neither end blocks in it or spins.
    Pollable,
    /// The mechanism itself reports that the other process died.
    CrashDetection,
    /// A hostile peer can neither change what was sent nor hold a lock.
    Isolation,
    /// Descriptors can be passed beside the messages.
    DescriptorPassing,
    /// The other end may be on another machine.
    MultiMachine,
    /// Neither end spins, not even for a while.
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

words! { Need:
    Pollable => "pollable",
    CrashDetection => "crash-detection",
    Isolation => "isolation",
    DescriptorPassing => "descriptor-passing",
    MultiMachine => "multi-machine",
    NoSpin => "no-spin",
    SameCpuSafe => "same-cpu-safe",
    Oversized => "survives-oversized",
    DeliversAfterDeath => "delivers-after-death",
    KillSafe => "kill-safe",
    NothingLeft => "nothing-left",
    SharedMemory => "shared-memory",
}

impl FromStr for Need {
    type Err = UnknownNeed;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|need| need.name() == word);
        found.ok_or_else(|| UnknownNeed(word.to_owned()))
    }
}

/// A word that names no need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown need `{0}`{hint} There are: {all}", hint = hint(&self.0), all = names())]
pub struct UnknownNeed(pub String);

fn hint(word: &str) -> String {
    let nearest = nearest_name(&word.replace('_', "-"), Need::ALL.map(Need::name));
    nearest.map_or(".".to_owned(), |name| format!(", did you mean `{name}`?"))
}

fn names() -> String {
    Need::ALL.map(Need::name).join(" ")
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
