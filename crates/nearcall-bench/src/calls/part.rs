//! Parts of an empty call that can be measured by themselves. **Not here:** how (`parts.rs`).

use std::fmt;
use std::str::FromStr;

/// One part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Request and reply become bytes.
    Marshal,
    /// Bytes become request and reply.
    Unmarshal,
    /// Headers and call tables of both ends.
    Protocol,
    /// What the bare exchange does beside moving bytes: it fills in headers and judges lengths.
    Payload,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Marshal, Self::Unmarshal, Self::Protocol, Self::Payload];

    /// The word for it in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Marshal => "marshal",
            Self::Unmarshal => "unmarshal",
            Self::Protocol => "protocol",
            Self::Payload => "payload",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|part| part.name() == word);
        found.ok_or_else(|| format!("no part {word:?}"))
    }
}
