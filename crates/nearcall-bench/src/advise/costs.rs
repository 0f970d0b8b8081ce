//! Measures what calls cost over the mechanisms that servers offer by default, for the runtime:
//! clients with `via=auto` choose by it.
//!
//! Cells of calls, as any run has them: each mechanism by its usual wait policy, on two CPUs and on
//! one, of a few sizes, right after each other and after a pause.
//!
//! **Invariants:** what could not be measured is left out; nothing is made up.
//!
//! **Not here:** where it is stored (`store.rs`), what follows from it (`nearcall`).

use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::{EndPlacement, MeasuredCost, Pace};
use nearcall_os::cpu;
use nearcall_results::run::Cell;

use crate::bench_plan::{BenchPlan, Placement, RunOptions};
use crate::calls::route::Route;
use crate::cell::{CellSpec, Conditions};
use crate::conditions::Traffic;
use crate::run::Kind;
use crate::runner::{BenchError, RunContext, bench_specs};
use crate::touch::Touch;

/// The time that a measurement takes unless the user says otherwise.
pub const TIME: Duration = Duration::from_secs(25);

/// Measures for about `time`. Empty if it was interrupted, or had too little time to end.
///
/// # Errors
///
/// As [`bench_specs`].
pub fn measure(time: Duration, context: &RunContext<'_>) -> Result<Vec<MeasuredCost>, BenchError> {
    let placements =
        if cpu::allowed().len() > 1 { &EndPlacement::ALL[..] } else { &EndPlacement::ALL[1..] };
    let mut costs = Vec::new();
    let share = time / u32::try_from(placements.len()).unwrap_or(1).max(1);
    for &placement in placements {
        let specs = specs();
        let plan = BenchPlan {
            kinds: vec![Kind::Latency],
            options: RunOptions {
                placement: match placement {
                    EndPlacement::TwoCpus => Placement::Cross,
                    EndPlacement::OneCpu => Placement::Same,
                },
                launches: Some(LAUNCHES),
                time_budget: Some(share),
                ..RunOptions::default()
            },
            ..BenchPlan::default()
        };
        let run = bench_specs(&plan, &specs, context)?;
        if run.partial || (context.interrupted)() {
            return Ok(Vec::new());
        }
        costs.extend(run.cells.iter().filter_map(|cell| cost(cell, placement)));
    }
    Ok(costs)
}

/// What is measured of all mechanisms.
fn specs() -> Vec<CellSpec> {
    let offered = Mechanism::all().filter(|it| it.offered_by_default() && it.supported().is_ok());
    let of = |mechanism| {
        let route = Route::Blocking(mechanism);
        let paces = [Traffic::Steady, Traffic::Gap { ns: GAP_NS }];
        let all = paces.into_iter().flat_map(|traffic| SIZES.map(|bytes| (traffic, bytes)));
        all.map(move |(traffic, message_bytes)| CellSpec {
            message_bytes,
            // What a program does with its messages costs the same over each mechanism.
            conditions: Conditions { traffic, touch: Touch::None, ..Conditions::default() },
            ..CellSpec::empty_call(route, route.usual_wait())
        })
    };
    offered.flat_map(of).collect()
}

/// What the runtime has to know of a cell.
fn cost(cell: &Cell, placement: EndPlacement) -> Option<MeasuredCost> {
    let cpu = &cell.cpu_ns_per_message;
    Some(MeasuredCost {
        mechanism: cell.mechanism.clone(),
        placement,
        pace: if cell.gap.is_some() { Pace::Rare } else { Pace::Busy },
        message_bytes: cell.message_bytes,
        latency_ns: whole_ns(cell.rtt_ns.as_ref()?.p50?),
        cpu_ns: whole_ns(cpu.client? + cpu.server?),
    })
}

fn whole_ns(ns: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let whole = ns.round().clamp(1.0, 1e12) as u64;
    whole
}

/// Argument bytes of a call: a small message, a page, what fills a socket, what is copied in parts.
const SIZES: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];

/// Longer than any end spins, in nanoseconds: both fall asleep.
const GAP_NS: u64 = 3_000_000;

/// The median of a cell is that of a typical launch.
const LAUNCHES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Subject;

    #[test]
    fn each_mechanism_is_measured_in_the_same_situations() {
        let specs = specs();
        let shm = Subject::Call(Route::Blocking(Mechanism::Shm));
        let of_shm = specs.iter().filter(|spec| spec.subject == shm).count();
        assert_eq!(of_shm, 2 * SIZES.len());
        assert_eq!(specs.len() % of_shm, 0);
    }
}
