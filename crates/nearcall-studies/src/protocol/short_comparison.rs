//! Study 004: pipes, shared memory and unix sockets while other work takes 35 % of the CPUs.
//!
//! Only three thresholds of its sizes are named; chosen here: 256 to 16384 in steps of 256, and 32
//! and 64 KB. Placement is not stated: not pinned. The 30 are spread over some periods of the load,
//! since right after each other they would all be within one: beside nothing, or beside a busy CPU.

use super::{KB, Line};
use crate::Study;
use crate::bench_plan::Shape;
use crate::conditions::{Load, PinChoice};
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;

pub(super) fn lines(layout: &StudyPlacement) -> Vec<Line> {
    let step = if layout.quick { 8 } else { 1 };
    let mut sizes: Vec<u64> = (1..=64).step_by(step).map(|count| count * 256).collect();
    if !sizes.contains(&KB) {
        sizes.push(KB);
    }
    sizes.extend([32 * KB, 64 * KB]);
    let methods =
        [("pipe", Method::Pipe), ("unix", Method::Unix), ("shm_semaphore", Method::Semaphore)];
    let mut lines = Vec::new();
    for (mechanism, method) in methods {
        let series = Line::latency(Study::ShortComparison, mechanism, method, Shape::Sink);
        let series = series.at(PinChoice::Unpinned).beside(Load::duty(LOAD_PERCENT));
        let series = series.with_pauses(PAUSE_US);
        lines.extend(series.lines(&sizes, REPETITIONS));
    }
    lines
}

/// "Every test at 35 % CPU utilisation".
const LOAD_PERCENT: u8 = 35;

/// 30 of them last over three periods of the load, and it divides none.
const PAUSE_US: u32 = 1_100;

/// "Averaged over 30".
const REPETITIONS: u32 = 30;
