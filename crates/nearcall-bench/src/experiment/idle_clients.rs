//! Calls of one client of a server that has more and more other clients, all of them silent.
//!
//! What a loop does for connections that say nothing shows as time of the call beside them.

use nearcall_channel::Mechanism;

use super::Experiment;
use super::traffic::{self, Wanted};
use crate::calls::ours::OURS;
use crate::conditions::{Conditions, Traffic};

/// Calls beside clients that are connected and say nothing.
pub static IDLE_CLIENTS: Experiment = Experiment {
    name: "idle-clients",
    summary: "Measure calls of one client beside 0 to 1,000 idle ones",
    details: "The server is one event loop that does no work; one client makes empty calls, the \
              others are connected and say nothing. Shows what a connection costs that does \
              nothing. By default over shm and unix-stream.",
    examples: EXAMPLES,
    options: &["mechanism", "wait", "placement"],
    cells: |plan, on| {
        let counts = if plan.options.quick { &IDLE[..IDLE.len() - 1] } else { &IDLE[..] };
        let one = traffic::of(Traffic::Clients { clients: 1, loops: None });
        let conditions = |&idle_connections: &u32| Conditions { idle_connections, ..one };
        let scenes = counts.iter().map(conditions).collect();
        let mechanisms = &[OURS, Mechanism::UnixStream];
        let waits = &traffic::waits_of_calls;
        let wanted = Wanted { mechanisms, waits, cell: &traffic::call, scenes };
        traffic::cells(plan, on, &wanted)
    },
    ..traffic::BASE
};

/// None, a few programs, a desktop, more than most servers have.
const IDLE: [u32; 4] = [0, 10, 100, 1_000];

const EXAMPLES: &str = "\
Examples:
  nearcall bench idle-clients                    up to 1,000, within two minutes
  nearcall bench idle-clients --quick            up to 100
  nearcall bench idle-clients --mechanism unix-stream,tcp --wait poll
  nearcall bench idle-clients --json | jq '.cells[] | [.load, .rtt_ns.p50]'";
