//! Messages right after each other, then one reply.

use super::Experiment;
use super::traffic::{self, COMMON, Wanted};
use crate::bench_plan::Shape;
use crate::cell::CellSpec;
use crate::conditions::Traffic;

/// Messages right after each other, then one reply.
pub static BURST: Experiment = Experiment {
    name: "burst",
    summary: "Measure bursts of messages until all are answered",
    details: "The server reads all of a burst and replies once. What does not fit in the channel \
              waits until the server has read some of it.",
    examples: EXAMPLES,
    options: &["messages", "mechanism", "size", "wait", "placement", "load"],
    cells: |plan, on| {
        let bursts = plan.burst_messages.as_deref().unwrap_or(&BURSTS);
        let conditions = |&messages: &u32| traffic::of(Traffic::Burst { messages });
        let scenes = bursts.iter().map(conditions).collect();
        let cell = |one| CellSpec { shape: Shape::Sink, ..traffic::echo(plan, one) };
        let wanted = Wanted { mechanisms: &COMMON, waits: &traffic::waits, cell: &cell, scenes };
        traffic::cells(plan, on, &wanted)
    },
    ..traffic::BASE
};

/// One, a cache line of words, some pages of them, more than many queues hold.
const BURSTS: [u32; 4] = [1, 8, 64, 512];

const EXAMPLES: &str = "\
Examples:
  nearcall bench burst                           four lengths, in two minutes
  nearcall bench burst --quick                   a first look
  nearcall bench burst --messages 1,1000 --size 1KiB --mechanism shm,pipe
  nearcall bench burst --json | jq '.cells[] | .burst.per_message_ns'";
