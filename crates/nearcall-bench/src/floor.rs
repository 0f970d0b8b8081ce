//! Floors: the same exchanges without nearcall, measured in the same run by the same loops.
//!
//! Each floor stands on `nearcall-os` alone and runs in the same two processes as a mechanism.
//! **Invariants:** where a floor carries a payload, it is written and read in full by the functions
//! of `payload.rs`, as with a mechanism.
//! **Not here:** the loops that measure (`exchange/`), what is compared with which
//! (`cell/floors.rs`).

use std::fmt;
use std::str::FromStr;

use nearcall_channel::WaitPolicy;

pub(crate) mod alone;
pub(crate) mod carrier;
pub(crate) mod chunked;
pub(crate) mod meeting;
pub(crate) mod ring;
pub(crate) mod stream;
pub(crate) mod word;

/// An exchange that a mechanism is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Floor {
    /// One word each way in memory that both map; both ends spin.
    Spin,
    /// The same, and both ends sleep on a futex.
    Futex,
    /// One eventfd each way, blocking.
    Eventfd,
    /// A unix stream socket, blocking.
    Unix,
    /// A unix stream socket, waited for by epoll.
    UnixEpoll,
    /// One pipe each way, blocking.
    Pipe,
    /// The payload made and read within one process.
    Memcpy,
    /// The payload through a ring of chunks in shared memory; both ends spin.
    ChunkedCopy,
    /// Words through a ring in shared memory, one way; both ends spin.
    Ring,
    /// A call through a trait object, within one process.
    Call,
}

impl Floor {
    /// All floors, in the order in which they are listed.
    pub const ALL: [Self; 10] = [
        Self::Spin,
        Self::Futex,
        Self::Eventfd,
        Self::Unix,
        Self::UnixEpoll,
        Self::Pipe,
        Self::Memcpy,
        Self::ChunkedCopy,
        Self::Ring,
        Self::Call,
    ];

    /// Its name in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "floor-spin",
            Self::Futex => "floor-futex",
            Self::Eventfd => "floor-eventfd",
            Self::Unix => "floor-unix",
            Self::UnixEpoll => "floor-unix-epoll",
            Self::Pipe => "floor-pipe",
            Self::Memcpy => "floor-memcpy",
            Self::ChunkedCopy => "floor-chunked-copy",
            Self::Ring => "floor-ring",
            Self::Call => "floor-call",
        }
    }

    /// How its ends wait.
    #[must_use]
    pub const fn wait(self) -> WaitPolicy {
        match self {
            Self::Futex | Self::Eventfd | Self::Unix | Self::Pipe => WaitPolicy::Block,
            Self::UnixEpoll => WaitPolicy::Poll,
            Self::Spin | Self::Memcpy | Self::ChunkedCopy | Self::Ring | Self::Call => {
                WaitPolicy::Spin
            }
        }
    }

    /// Whether it only works while both ends hold a CPU.
    #[must_use]
    pub const fn needs_two_cpus(self) -> bool {
        matches!(self, Self::Spin | Self::ChunkedCopy | Self::Ring)
    }

    /// Whether it stays within one process, so that there is no other end.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Memcpy | Self::Call)
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Floor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|floor| floor.name() == name);
        found.ok_or_else(|| format!("unknown floor {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_parsed_back_to_its_floor() {
        for floor in Floor::ALL {
            assert_eq!(floor.name().parse(), Ok(floor));
        }
    }
}
