//! A profile as it is stored and printed: plain data.
//!
//! All figures are per exchange: one message there and its answer back. What could not be looked at
//! is `None`, and stands in [`Profile::missing`] with the reason.

use serde::{Deserialize, Serialize};

use crate::run::{Machine, PerEnd, Placement, RttNs, Tool};

/// Where the time of one exchange goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The name of the format: [`SCHEMA`].
    pub schema: String,
    /// What made it.
    pub tool: Tool,
    /// The machine that was measured.
    pub machine: Machine,
    /// The words of the command line.
    pub arguments: Vec<String>,
    /// The mechanism's name.
    pub mechanism: String,
    /// Payload bytes of one message.
    pub message_bytes: u64,
    /// "echo" or "sink".
    pub shape: String,
    /// How both ends wait.
    pub wait: String,
    /// Where both ends ran.
    pub placement: Placement,
    /// Round trips of the undisturbed run.
    pub rtt_ns: Option<RttNs>,
    /// How many those were.
    pub exchanges: u64,
    /// What each end used, in the undisturbed run.
    pub used: PerEnd<Used>,
    /// System calls of each end, counted in launches of their own.
    pub calls: Option<CountedCalls>,
    /// How often the payload is copied.
    pub copies: CopyCounts,
    /// Where samples of both ends were, in a launch of its own.
    pub stacks: Option<Stacks>,
    /// What could not be looked at.
    pub missing: Vec<Missing>,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

/// What one end used per exchange. A round trip is 1 exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU time in user space. Most kernels share the exact sum out by ticks, so it is rough.
    pub user_ns: Option<f64>,
    /// CPU time in the kernel, as rough.
    pub system_ns: Option<f64>,
    /// CPU time, both together, by the exact clock of the process.
    pub cpu_ns: Option<f64>,
    /// Sleeps. Each is ended by a wake-up from the other end.
    pub sleeps: Option<f64>,
    /// Times the CPU was taken from it.
    pub involuntary_switches: Option<f64>,
    /// Pages that had to be mapped or read.
    pub page_faults: Option<f64>,
    /// Moves to another CPU.
    pub migrations: Option<f64>,
}

/// System calls per exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedCalls {
    /// Counted over so many exchanges, after a warm-up.
    pub exchanges: u64,
    /// By name.
    pub ends: PerEnd<Vec<CountedCall>>,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedCall {
    /// Its name; "number 451" if it has none here.
    pub name: String,
    /// How often per exchange.
    pub per_exchange: f64,
    /// How often the mechanism declares that it is made: from least to most; `None` if it does not
    /// say.
    pub declared: Option<[f64; 2]>,
}

/// Copies of the payload: 1 is every byte once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyCounts {
    /// By system calls from the client to the server, counted by the bytes that they moved;
    /// headers of 8 bytes and the like included. `None` if calls could not be counted or do not
    /// show.
    pub kernel_one_way: Option<f64>,
    /// The same, there and back.
    pub kernel_there_and_back: Option<f64>,
    /// By the kernel one way, as the mechanism declares.
    pub declared_kernel: u8,
    /// In user space one way, whatever way the channel is used, as the mechanism declares.
    pub declared_inside: u8,
    /// From the sender's memory into the channel: none for who writes in place.
    pub declared_send: u8,
    /// From the channel into the receiver's memory: none for who reads in place.
    pub declared_receive: u8,
}

impl CopyCounts {
    /// All copies one way for who writes and reads in place.
    #[must_use]
    pub fn in_place(&self) -> u8 {
        self.declared_kernel + self.declared_inside
    }

    /// All copies one way for who sends from his memory and receives into it.
    #[must_use]
    pub fn by_value(&self) -> u8 {
        self.in_place() + self.declared_send + self.declared_receive
    }
}

/// Samples of both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// The file of folded stacks.
    pub folded: String,
    /// Samples of each end.
    pub samples: PerEnd<u64>,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The name of what is missing.
    pub what: String,
    /// Why, in a phrase.
    pub why: String,
    /// How to permit it; empty if that is unknown.
    pub how: String,
}

/// What a document of this form says of itself.
pub const SCHEMA: &str = "nearcall.profile/2";
