//! What calls cost over each mechanism on this machine, as lines of a stored tuning.
//!
//! ```text
//! cost = shm two-cpus busy 64 459 1100
//! ```
//!
//! A mechanism, where both ends ran, whether a pause came before each call, the bytes of the
//! request (the reply is empty), the latency of a call and the CPU time of both ends for it, both
//! in nanoseconds.
//!
//! **Invariants:** numbers are within limits, whatever a file says; mechanisms are names, since a
//! file may be of a later version.
//! **Not here:** who measures it (`nearcall-bench`), what a client concludes from it (`nearcall`).

use std::fmt;

/// The cost of a call over one mechanism, in one situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredCost {
    /// The name of the mechanism.
    pub mechanism: String,
    /// Where both ends ran.
    pub placement: EndPlacement,
    /// What came before each call.
    pub pace: Pace,
    /// Bytes of the request; the reply is empty.
    pub message_bytes: u64,
    /// From the start of a call to its end, in nanoseconds.
    pub latency_ns: u64,
    /// CPU time of both ends for a call, in nanoseconds.
    pub cpu_ns: u64,
}

/// Where the two ends of a connection run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndPlacement {
    /// On a CPU each.
    TwoCpus,
    /// On one and the same.
    OneCpu,
}

/// What comes before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pace {
    /// The end of the call before.
    Busy,
    /// A pause of milliseconds, in which both ends fall asleep.
    Rare,
}

impl EndPlacement {
    /// Both placements, in the order of the file.
    pub const ALL: [Self; 2] = [Self::TwoCpus, Self::OneCpu];

    /// Returns the word for it in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TwoCpus => "two-cpus",
            Self::OneCpu => "one-cpu",
        }
    }
}

impl Pace {
    /// Both paces, in the order of the file.
    pub const ALL: [Self; 2] = [Self::Busy, Self::Rare];

    /// Returns the word for it in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Rare => "rare",
        }
    }
}

impl MeasuredCost {
    /// Reads what follows `cost =`. `None`: it is not valid.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut fields = value.split_ascii_whitespace();
        let mechanism = fields.next()?;
        if mechanism.len() > NAME_BYTES_MAX {
            return None;
        }
        let (placement, pace) = (fields.next()?, fields.next()?);
        let mut number = || fields.next()?.parse::<u64>().ok();
        let cost = Self {
            mechanism: mechanism.to_owned(),
            placement: EndPlacement::ALL.into_iter().find(|it| it.name() == placement)?,
            pace: Pace::ALL.into_iter().find(|it| it.name() == pace)?,
            message_bytes: number()?.clamp(1, BYTES_MAX),
            latency_ns: number()?.clamp(1, COST_NS_MAX),
            cpu_ns: number()?.clamp(1, COST_NS_MAX),
        };
        fields.next().is_none().then_some(cost)
    }
}

impl fmt::Display for MeasuredCost {
    /// The line of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, placement, pace, message_bytes, latency_ns, cpu_ns } = self;
        let (placement, pace) = (placement.name(), pace.name());
        write!(f, "cost = {mechanism} {placement} {pace} {message_bytes} {latency_ns} {cpu_ns}")
    }
}

/// Costs that are read of a file: more than twice as many as are stored.
pub(super) const COSTS_MAX: usize = 256;

/// Longer than any name of a mechanism.
const NAME_BYTES_MAX: usize = 32;

/// The longest message that a cost is about, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// A call that takes longer was not measured, in nanoseconds: 10 s.
const COST_NS_MAX: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written_and_within_limits() {
        for placement in EndPlacement::ALL {
            for pace in Pace::ALL {
                let mechanism = "shm-unix".to_owned();
                let (latency_ns, cpu_ns) = (459, 1_100);
                let message_bytes = 64;
                let cost =
                    MeasuredCost { mechanism, placement, pace, message_bytes, latency_ns, cpu_ns };
                let line = cost.to_string();
                let value = line.strip_prefix("cost = ").unwrap();
                assert_eq!(MeasuredCost::parse(value), Some(cost));
            }
        }
        let huge = format!("x one-cpu rare 0 0 {}", u64::MAX);
        let read = MeasuredCost::parse(&huge).unwrap();
        assert_eq!((read.message_bytes, read.latency_ns, read.cpu_ns), (1, 1, COST_NS_MAX));
    }

    #[test]
    fn what_is_no_cost_is_refused() {
        for bad in [
            "",
            "shm",
            "shm two-cpus busy 64 1",
            "shm three busy 64 1 1",
            "shm one-cpu never 64 1 1",
            "shm one-cpu busy 64 1 -1",
            "shm one-cpu busy 64 1 1 1",
            "shm-with-a-name-that-no-mechanism-has one-cpu busy 1 1 1",
        ] {
            assert_eq!(MeasuredCost::parse(bad), None, "{bad}");
        }
    }
}
