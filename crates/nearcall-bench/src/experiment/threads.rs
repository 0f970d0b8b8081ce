//! Threads of one process that share one caller, each calling without a pause.

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use super::Experiment;
use super::traffic::{self, Wanted};
use crate::bench_plan::Placement;
use crate::calls::ours::{OURS, Way};
use crate::conditions::Traffic;

/// Threads of one process that share one caller, each calling without a pause.
pub static THREADS: Experiment = Experiment {
    name: "threads",
    summary: "Measure threads that share one caller of one server",
    details: "Every thread calls without a pause through a clone of one caller, over a connection \
              of its own; the server is one service behind one or more event loops, and does no \
              work. Reports calls per second, their latency and fairness, and fails if a call that \
              was made was not served exactly once. Nothing is pinned unless --pin or --placement \
              is given. By default over shm, spinning and adaptive.",
    examples: EXAMPLES,
    options: &["threads", "loops", "mechanism", "wait", "placement", "load"],
    cells: |plan, on| {
        let (all, some) = (&THREADS_AT_ONCE[..], &THREADS_AT_ONCE[1..3]);
        let defaults = if plan.options.quick { some } else { all };
        let threads = plan.threads.as_deref().unwrap_or(defaults);
        let loops = plan.loops.as_deref().unwrap_or(&LOOPS);
        let with = |&loops: &u32| {
            let traffic = move |&clients: &u32| Traffic::Clients { clients, loops: Some(loops) };
            threads.iter().map(traffic)
        };
        let scenes = loops.iter().flat_map(with).map(traffic::of).collect();
        let wanted = Wanted { mechanisms: &[OURS], waits: &waits, cell: &traffic::call, scenes };
        traffic::cells(plan, on, &wanted)
    },
    // Threads need CPUs to run at the same time.
    placement: Placement::None,
    ..traffic::BASE
};

fn waits(mechanism: Mechanism) -> Vec<WaitPolicy> {
    match mechanism == OURS {
        true => [Way::Spin, Way::Adaptive].map(|way| way.ours().1).to_vec(),
        false => vec![Route::Blocking(mechanism).usual_wait()],
    }
}

/// Alone, one for each CPU of small machines, and more than those have.
pub(super) const THREADS_AT_ONCE: [u32; 4] = [1, 2, 4, 8];

/// The usual server, and one that uses a second CPU.
pub(super) const LOOPS: [u32; 2] = [1, 2];

const EXAMPLES: &str = "\
Examples:
  nearcall bench threads                         1 to 8, within two minutes
  nearcall bench threads --quick                 a first look: 2 and 4
  nearcall bench threads --threads 1,16 --loops 4 --wait adaptive
  nearcall bench threads --json | jq '.cells[] | [.clients, .rtt_ns.p99]'";
