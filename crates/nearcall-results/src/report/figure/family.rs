//! Families of mechanisms: two dozen cannot have a colour each, eight families can.
//!
//! Always true: a family has the same colour, mark and dash in every chart. A name that no
//! mechanism of this version has belongs to the last family.

use std::str::FromStr;

use nearcall_channel::{DataPath, Mechanism};

use crate::report::chart::mark::Look;
use crate::run::CellKey;

/// How data travels, and who waits for it in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Family {
    SharedSpinning,
    SharedSleeping,
    SharedAdaptive,
    Unix,
    Pipes,
    Network,
    Queues,
    Others,
}

impl Family {
    pub(super) const ALL: [Self; 8] = [
        Self::SharedSpinning,
        Self::SharedSleeping,
        Self::SharedAdaptive,
        Self::Unix,
        Self::Pipes,
        Self::Network,
        Self::Queues,
        Self::Others,
    ];

    pub(super) fn of(key: &CellKey) -> Self {
        let Ok(mechanism) = Mechanism::from_str(&key.mechanism) else { return Self::Others };
        match mechanism {
            _ if mechanism.data_path() == DataPath::SharedMemory => match key.wait.as_str() {
                "spin" => Self::SharedSpinning,
                "adaptive" => Self::SharedAdaptive,
                _ => Self::SharedSleeping,
            },
            Mechanism::UnixStream | Mechanism::UnixSeqpacket | Mechanism::UnixDgram => Self::Unix,
            Mechanism::Pipe | Mechanism::Fifo | Mechanism::Vmsplice => Self::Pipes,
            Mechanism::Tcp | Mechanism::Udp => Self::Network,
            Mechanism::PosixMq | Mechanism::SysvMq => Self::Queues,
            _ => Self::Others,
        }
    }

    pub(super) const fn look(self) -> Look {
        Look::Series(self as u8)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SharedSpinning => "shared memory, spinning",
            Self::SharedSleeping => "shared memory, sleeping",
            Self::SharedAdaptive => "shared memory, adaptive",
            Self::Unix => "UNIX sockets",
            Self::Pipes => "pipes",
            Self::Network => "TCP and UDP",
            Self::Queues => "message queues",
            Self::Others => "others",
        }
    }
}

/// The key to the families that occur, in their order.
pub(super) fn key(found: impl IntoIterator<Item = Family>) -> Vec<(Look, bool, String)> {
    let found: Vec<Family> = found.into_iter().collect();
    let occurs = |family: &Family| found.contains(family);
    let entry = |family: Family| (family.look(), false, family.name().to_owned());
    Family::ALL.into_iter().filter(occurs).map(entry).collect()
}
