//! What cells of other traffic than one exchange right after the other store beside their times.
//!
//! A function of its arguments, as all of `assemble.rs`.

use super::CellLaunch;
use crate::cell::CellSpec;
use crate::exchange::client::OfTraffic;
use crate::exchange::gapped;
use crate::run::{BurstFacts, Cell, Definition, GapFacts};
use crate::scene::Traffic;
use crate::stats;

/// Adds the facts of the cell's kind of traffic. Its times are there already.
///
/// # Errors
///
/// Why the figures may not be given.
pub(super) fn add(
    cell: &mut Cell,
    spec: &CellSpec,
    launches: &[CellLaunch],
    _seed: u64,
) -> Result<(), String> {
    let found = || launches.iter().filter_map(|launch| launch.measured.traffic.as_ref());
    match spec.scene.traffic {
        Traffic::Steady => {}
        Traffic::Gap { ns } => {
            let achieved: Vec<f64> = found()
                .filter_map(|one| match one {
                    OfTraffic::Gap { achieved_ns } => *achieved_ns,
                })
                .collect();
            let idle = match ns {
                0 => "nothing",
                _ if gapped::sleeps(ns) => "sleeps",
                _ => "spins",
            };
            cell.gap = Some(GapFacts {
                gap_ns: ns,
                achieved_gap_ns: stats::median(&achieved),
                idle: idle.to_owned(),
            });
        }
        Traffic::Burst { messages } => {
            let rtt = cell.rtt_ns.clone().unwrap_or_default();
            let each = f64::from(messages.max(1));
            cell.definition = Definition::WholeBurst;
            cell.burst = Some(BurstFacts {
                messages,
                per_message_ns: rtt.p50.map(|ns| ns / each),
                per_message_ns_ci95: rtt.p50_ci95.map(|ci95| ci95.map(|ns| ns / each)),
            });
        }
    }
    Ok(())
}
