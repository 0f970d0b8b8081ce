//! What one cell measures, as plain data that travels from the runner to its two processes.
//!
//! **Invariants:** a subject is printed and parsed by the name that stands in stored runs. Where
//! the ends run and what was found are not here (`run/cell.rs` has both), nor which cells a run has
//! (`tour.rs`).

mod floors;

use std::fmt;

use nearcall_channel::{Mechanism, WaitPolicy};
use serde::{Deserialize, Serialize};

use crate::bench_plan::Shape;
use crate::calls::part::Part;
use crate::calls::route::{Route, frame_bytes};
pub use crate::conditions::Conditions;
use crate::conditions::PinChoice;
use crate::custom_name::CustomName;
use crate::floor::Floor;
use crate::payload::Payload;
use crate::run::Kind;
use crate::words;
pub use floors::floor_of;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellSpec {
    /// What is measured of it.
    pub kind: Kind,
    /// Whose cost it is.
    pub subject: Subject,
    /// What comes back. A throughput cell is one way and counts as a sink.
    #[serde(with = "words")]
    pub shape: Shape,
    /// Payload bytes of one message, at least 1; of a call, the bytes of its argument.
    pub message_bytes: u64,
    /// How both ends wait; of a call, how the client waits.
    #[serde(with = "words")]
    pub wait: WaitPolicy,
    /// Where and beside what.
    #[serde(default)]
    pub conditions: Conditions,
}

impl CellSpec {
    /// What must be opened to measure it. Cells with the same unit share a launch.
    #[must_use]
    pub fn unit(&self) -> (Subject, WaitPolicy, Conditions) {
        let subject = match self.subject {
            // In the same two processes, one after the other.
            Subject::Bare(route) => Subject::Call(route),
            // One launch measures all of them.
            Subject::Part(_) => Subject::Part(Part::ALL[0]),
            other => other,
        };
        (subject, self.wait, self.conditions.of_unit())
    }

    /// Payload bytes as a length in this process's memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = match self.subject {
            Subject::Bare(_) => self.frame_bytes(),
            _ => self.message_bytes,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Bytes of one message in the channel: of a call, with its header.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        match self.subject {
            Subject::Call(_) | Subject::Bare(_) => frame_bytes(self.message_bytes),
            Subject::Mechanism(_)
            | Subject::Floor(_)
            | Subject::Custom(_)
            | Subject::Part(_)
            | Subject::AtRest(_) => self.message_bytes,
        }
    }

    /// What a call moves, on the bare channel: an item moves as much as a one-way call. `None` for
    /// what goes over no channel.
    #[must_use]
    pub fn bare(&self) -> Option<Self> {
        let Subject::Call(route) = self.subject else { return None };
        let shape = if self.shape == Shape::Stream { Shape::Oneway } else { self.shape };
        route.mechanism().map(|_| Self { subject: Subject::Bare(route), shape, ..*self })
    }

    /// Times of single exchanges, under no special conditions.
    #[must_use]
    pub fn latency(subject: Subject, shape: Shape, message_bytes: u64, wait: WaitPolicy) -> Self {
        let conditions = Conditions::default();
        Self { kind: Kind::Latency, subject, shape, message_bytes, wait, conditions }
    }

    /// Empty calls of one client.
    #[must_use]
    pub fn empty_call(route: Route, wait: WaitPolicy) -> Self {
        Self::latency(Subject::Call(route), Shape::Call, 0, wait)
    }

    /// A server without calls.
    #[must_use]
    pub fn at_rest(
        mechanism: Mechanism,
        wait: WaitPolicy,
        idle_connections: u32,
        spot: PinChoice,
    ) -> Self {
        Self {
            conditions: Conditions { spot, idle_connections, ..Conditions::default() },
            ..Self::latency(Subject::AtRest(mechanism), Shape::Call, 0, wait)
        }
    }

    /// What the client sends.
    pub(crate) fn requests(&self, seed: u64) -> Payload {
        match (self.subject, self.message_bytes) {
            (Subject::Bare(_), 0) => Payload::headers(seed, self.bytes()),
            _ => Payload::touched(seed, self.bytes(), self.conditions.touch),
        }
    }

    /// What the server answers.
    pub(crate) fn replies(&self, seed: u64) -> Payload {
        match self.subject {
            Subject::Bare(_) => Payload::headers(seed, self.reply_bytes()),
            _ => Payload::touched(seed, self.reply_bytes(), self.conditions.touch),
        }
    }

    /// Bytes of the reply in the channel.
    #[must_use]
    pub fn reply_bytes(&self) -> usize {
        match self.shape {
            Shape::Echo => self.bytes(),
            Shape::Call | Shape::Send => usize::try_from(frame_bytes(0)).unwrap_or(usize::MAX),
            Shape::Sink | Shape::Oneway | Shape::Stream => 0,
        }
    }
}

impl fmt::Display for CellSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Latency => self.shape.name(),
            Kind::Throughput => "throughput",
        };
        let bare = if matches!(self.subject, Subject::Bare(_)) { "bare " } else { "" };
        write!(
            f,
            "{bare}{} {kind} {} B {}{}",
            self.subject, self.message_bytes, self.wait, self.conditions
        )
    }
}

/// Whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    /// A way to move messages.
    Mechanism(Mechanism),
    /// The same exchange without nearcall.
    Floor(Floor),
    /// What the harness does not know (`custom.rs`).
    Custom(CustomName),
    /// A call of the runtime.
    Call(Route),
    /// What that call moves, on the bare channel.
    Bare(Route),
    /// A part of an empty call, by itself.
    Part(Part),
    /// A server over this mechanism without calls.
    AtRest(Mechanism),
}

impl Subject {
    /// Its name in stored runs.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Mechanism(mechanism) | Self::AtRest(mechanism) => mechanism.name(),
            Self::Floor(floor) => floor.name(),
            Self::Custom(name) => name.as_str(),
            Self::Call(route) | Self::Bare(route) => route.name(),
            Self::Part(part) => part.name(),
        }
    }

    /// Whether it is known to stay within one process, so that there is no other end.
    pub(crate) const fn is_alone(self) -> bool {
        match self {
            Self::Floor(floor) => floor.is_alone(),
            _ => false,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Call(route) => format!("call:{route}"),
            Subject::Bare(route) => format!("bare:{route}"),
            Subject::Part(part) => format!("part:{part}"),
            Subject::AtRest(mechanism) => format!("rest:{mechanism}"),
            Subject::Custom(name) => format!("custom:{}", name.as_str()),
            _ => subject.name().to_owned(),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.split_once(':') {
            Some(("call", route)) => return route.parse().map(Self::Call),
            Some(("bare", route)) => return route.parse().map(Self::Bare),
            Some(("part", part)) => return part.parse().map(Self::Part),
            Some(("custom", name)) => {
                return CustomName::try_from(name).map(Self::Custom).map_err(|e| e.to_string());
            }
            Some(("rest", mechanism)) => {
                return mechanism.parse().map(Self::AtRest).map_err(|error| format!("{error}"));
            }
            _ => {}
        }
        match name.parse::<Floor>() {
            Ok(floor) => Ok(Self::Floor(floor)),
            Err(_) => name.parse().map(Self::Mechanism).map_err(|error| format!("{error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{Load, PinChoice, Traffic};
    use crate::touch::Touch;

    #[test]
    fn a_cell_survives_the_way_to_another_process() {
        for subject in [
            Subject::Mechanism(Mechanism::ShmFutex),
            Subject::Floor(Floor::Unix),
            Subject::Call(Route::Looped(Mechanism::Pipe)),
            Subject::Bare(Route::SameLoop(Mechanism::ShmSpin)),
            Subject::Call(Route::Typed),
            Subject::AtRest(Mechanism::ShmFutex),
            Subject::Custom(CustomName::new("study-pipe")),
        ] {
            let cell = CellSpec {
                kind: Kind::Latency,
                subject,
                shape: Shape::Sink,
                message_bytes: 65_537,
                wait: WaitPolicy::Poll,
                conditions: Conditions {
                    spot: PinChoice::Pair { client: 1, server: 0 },
                    load: Load::duty(35),
                    idle_connections: 3,
                    rate_per_s: 10,
                    by_reference: true,
                    exchanges: 100,
                    pause_us: 1_100,
                    touch: Touch::Header,
                    buffer_bytes: 65_536,
                    any_buffer: true,
                    traffic: Traffic::Burst { messages: 8 },
                    two_clocks: true,
                },
            };
            let text = serde_json::to_string(&cell).unwrap();
            assert_eq!(serde_json::from_str::<CellSpec>(&text).unwrap(), cell, "{text}");
        }
        assert!(serde_json::from_str::<Subject>("\"pip\"").is_err());
    }
}
