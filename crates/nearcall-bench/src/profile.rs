//! Where the time of one exchange over a mechanism goes.
#![allow(missing_docs, dead_code, reason = "draft")]
use crate::bench_plan::{Place, Shape};
use crate::runner::Hooks;
use nearcall_channel::{Mechanism, WaitPolicy};
mod launches;
mod tally;
mod watching;

pub struct ProfilePlan {
    pub mechanism: Mechanism,
    pub message_bytes: u64,
    pub shape: Shape,
    pub wait: WaitPolicy,
    pub placement: Place,
    pub seed: u64,
}

pub fn draft(plan: &ProfilePlan, hooks: &Hooks<'_>) -> String {
    let topology = nearcall_os::cpu::Topology::read();
    let placed =
        crate::runner::placement::resolve(plan.placement, &nearcall_os::cpu::allowed(), &topology)
            .unwrap();
    let launches = launches::Launches { plan, hooks, placed };
    format!("{:?}", watching::count(&launches, 50))
}
