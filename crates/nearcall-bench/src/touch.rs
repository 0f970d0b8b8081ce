//! How much of a payload the sender writes and the receiver reads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What both ends do with the bytes of a message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// The sender writes every byte, the receiver reads and checks every byte.
    #[default]
    Full,
    /// The first [`HEADER_BYTES`] only.
    Header,
    /// None: only the length is checked. What moves the bytes moves them all the same.
    None,
}

impl Touch {
    /// In the order of work.
    pub const ALL: [Self; 3] = [Self::Full, Self::Header, Self::None];

    /// The word for it on the command line and in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Header => "header",
            Self::None => "none",
        }
    }

    /// How many bytes of a message that is.
    #[must_use]
    pub fn bytes_of(self, message_bytes: usize) -> usize {
        match self {
            Self::Full => message_bytes,
            Self::Header => message_bytes.min(HEADER_BYTES),
            Self::None => 0,
        }
    }
}

/// A cache line: what a program looks at to decide what to do with a message.
pub const HEADER_BYTES: usize = 64;

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_stored_by_its_name() {
        for touch in Touch::ALL {
            assert_eq!(serde_json::to_string(&touch).unwrap(), format!("\"{touch}\""));
        }
        assert_eq!(Touch::Header.bytes_of(9), 9);
    }
}
