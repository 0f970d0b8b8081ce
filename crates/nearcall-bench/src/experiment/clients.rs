//! Clients of one server of the runtime, each calling without a pause.

use nearcall_channel::Mechanism;

use super::Experiment;
use super::traffic::{self, Wanted};
use crate::calls::ours::OURS;
use crate::conditions::Traffic;

/// Clients of one server of the runtime, each calling without a pause.
pub static CLIENTS: Experiment = Experiment {
    name: "clients",
    summary: "Measure one server with 1 to 256 busy clients",
    details: "Each client is a thread with its own connection that calls without a pause; the \
              server is one event loop that does no work. Reports calls per second, their latency, \
              CPU time and fairness. By default over shm and unix-stream.",
    examples: EXAMPLES,
    options: &["clients", "mechanism", "wait", "placement", "load"],
    cells: |plan, on| {
        let defaults =
            if plan.options.quick { &CLIENTS_AT_ONCE[..4] } else { &CLIENTS_AT_ONCE[..] };
        let counts = plan.clients.as_deref().unwrap_or(defaults);
        let conditions = |&clients: &u32| traffic::of(Traffic::Clients { clients, loops: None });
        let scenes = counts.iter().map(conditions).collect();
        let mechanisms = &[OURS, Mechanism::UnixStream];
        let wanted =
            Wanted { mechanisms, waits: &traffic::waits_of_calls, cell: &traffic::call, scenes };
        traffic::cells(plan, on, &wanted)
    },
    ..traffic::BASE
};

/// Alone, a few programs of one user, a busy machine.
const CLIENTS_AT_ONCE: [u32; 5] = [1, 4, 16, 64, 256];

const EXAMPLES: &str = "\
Examples:
  nearcall bench clients                         1 to 256, within two minutes
  nearcall bench clients --quick                 a first look, up to 64
  nearcall bench clients --clients 1,100 --mechanism shm-eventfd,unix-stream
  nearcall bench clients --json | jq '.cells[] | .clients.calls_per_s'";
