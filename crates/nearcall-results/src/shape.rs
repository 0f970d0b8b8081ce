//! What comes back for a message: a word of the command line and of stored runs.

use std::fmt;
use std::str::FromStr;

/// What comes back for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// The same size.
    Echo,
    /// An empty reply.
    Sink,
    /// The end of a call without a result: on the bare channel a reply of a header's size.
    Call,
    /// Nothing: a call without a reply.
    Oneway,
    /// An item of one long stream of a call that returns when all of them have been read.
    Stream,
    /// As for a call, but only the sending is timed.
    Send,
}

impl Shape {
    /// Those of plain messages, which can be asked for.
    pub const ALL: [Self; 2] = [Self::Echo, Self::Sink];

    /// Those of calls.
    pub const CALLS: [Self; 4] = [Self::Call, Self::Oneway, Self::Stream, Self::Send];

    /// The word for it on the command line and in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Sink => "sink",
            Self::Call => "call",
            Self::Oneway => "one-way",
            Self::Stream => "stream",
            Self::Send => "send",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter().chain(Self::CALLS);
        let shape = all.find(|shape| shape.name() == word);
        shape.ok_or_else(|| UnknownShape(word.to_owned()))
    }
}

/// A word that names no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown shape {0:?}; use echo or sink")]
pub struct UnknownShape(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_is_parsed_back_from_its_name() {
        for shape in Shape::ALL.into_iter().chain(Shape::CALLS) {
            assert_eq!(shape.name().parse(), Ok(shape));
        }
        let refused = "ring".parse::<Shape>().expect_err("refused").to_string();
        assert_eq!(refused, "unknown shape \"ring\"; use echo or sink");
    }
}
