//! Set-up, first message and tear-down of connections.

use nearcall_channel::Mechanism;

use super::Experiment;
use super::traffic::{self, Wanted};
use crate::bench_plan::ExperimentDefaults;
use crate::conditions::Traffic;

/// Set-up, first message and tear-down of connections.
pub static CONNECT: Experiment = Experiment {
    name: "connect",
    summary: "Measure set-up, first message and tear-down of connections",
    details: "Many launches of new processes, and in each some connections one after another: the \
              first of each is cold and is reported separately. By default over every mechanism.",
    examples: EXAMPLES,
    cells: |plan, on| {
        let all: Vec<Mechanism> = Mechanism::all().collect();
        let cell = |mechanism| traffic::echo(plan, mechanism);
        let scenes = vec![traffic::of(Traffic::Starts { connects: CONNECTS })];
        // Each has its own price, and all together take little time.
        let wanted = Wanted { mechanisms: &all, waits: &traffic::first_wait, cell: &cell, scenes };
        traffic::cells(plan, on, &wanted)
    },
    // The first connection of new processes gives one time per launch.
    defaults: Some(ExperimentDefaults { launches: 10, launches_quick: 3, ..traffic::USUAL }),
    ..traffic::BASE
};

/// Connections of one launch: the first, and enough for a median of the others.
const CONNECTS: u32 = 50;

const EXAMPLES: &str = "\
Examples:
  nearcall bench connect                         every mechanism, in two minutes
  nearcall bench connect --quick                 a first look
  nearcall bench connect --mechanism shm,unix-stream --launches 30
  nearcall bench connect --json | jq '.cells[] | .start.tear_down_ns.p50'";
