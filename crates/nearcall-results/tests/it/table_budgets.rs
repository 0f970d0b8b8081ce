//! A made-up run of budgets.

use nearcall_results::noise::Grade;
use nearcall_results::run::{AtRest, Budget, Run, Skipped, Verdict};

use crate::table::{empty, latency};

fn budget(what: &str, against: &str, [measured, floor]: [f64; 2], verdict: Verdict) -> Budget {
    let ratio = measured / floor;
    Budget {
        name: what.to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: "ns".to_owned(),
        measured: Some(measured),
        floor: Some("floor-spin".to_owned()),
        floor_value: Some(floor),
        value: Some(ratio),
        value_ci95: Some([ratio * 0.95, ratio * 1.05]),
        launch_values: vec![ratio * 0.97, ratio, ratio * 1.02],
        budget: 2.0,
        verdict,
        certain: true,
        grade: Some(Grade::B),
        ..Budget::default()
    }
}

/// A figure that is judged itself.
fn fact(what: &str, unit: &str, value: f64, limit: f64, verdict: Verdict) -> Budget {
    Budget {
        name: what.to_owned(),
        what: what.to_owned(),
        against: "a server at rest with 100 idle connections".to_owned(),
        unit: unit.to_owned(),
        measured: Some(value),
        value: Some(value),
        budget: limit,
        verdict,
        certain: true,
        ..Budget::default()
    }
}

pub(crate) fn run() -> Run {
    use Verdict::{Goal, Short, Unmeasured, Within};
    let mut run = empty();
    run.cells = vec![latency("shm", 0, "adaptive", 480.0, Some(("floor-spin", 1.45)))];
    run.floors = vec![latency("floor-spin", 8, "spin", 331.0, None)];
    let line = "cache-line ping-pong (floor-spin)";
    let futex = "futex ping-pong on that CPU (floor-futex)";
    let ring = "words through a ring, one way (floor-ring); rates";
    let mut empty_call = budget("empty call, wait=spin", line, [480.0, 331.0], Goal);
    empty_call.goal = Some(1.5);
    let mut asleep = budget("empty call, both ends sleep", futex, [15_000.0, 13_100.0], Within);
    (asleep.budget, asleep.goal, asleep.certain) = (1.15, Some(1.05), false);
    let mut one = budget("empty call, both ends on one CPU", futex, [9_400.0, 2_500.0], Short);
    (one.budget, one.short_by) = (1.3, Some(1.892));
    let mut rate = budget("one-way calls of 8 B, wait=spin", ring, [9.1e6, 36e6], Short);
    (rate.budget, rate.at_least, rate.short_by, rate.certain) =
        (1.0 / 3.0, true, Some(0.24), false);
    "per_s".clone_into(&mut rate.unit);
    let mut missing = budget("1 MiB loaned", "the empty call", [1.0, 1.0], Unmeasured);
    (missing.measured, missing.floor_value, missing.value) = (None, None, None);
    (missing.value_ci95, missing.launch_values) = (None, Vec::new());
    let mut memory = fact("touched per idle connection", "bytes", 81_920.0, 65_536.0, Short);
    (memory.short_by, memory.launch_values) = (Some(0.25), vec![81_920.0; 12]);
    "connection-memory".clone_into(&mut memory.name);
    run.at_rest = vec![AtRest { shared_bytes_per_connection: Some(50_000.0), ..AtRest::default() }];
    run.budgets = vec![
        empty_call,
        asleep,
        one,
        rate,
        missing,
        fact("CPU time", "cpu_share", 0.0, 0.0, Within),
        fact("wake-ups", "per_s_sleeps", 0.4, 0.0, Short),
        fact("threads", "threads", 1.0, 1.0, Within),
        memory,
        fact("private memory of the server", "bytes", 1_048_576.0, 1_258_291.2, Within),
    ];
    run.skipped = vec![Skipped {
        mechanism: "1 MiB loaned".to_owned(),
        reason: "needs two CPUs: only one CPU is allowed".to_owned(),
        unsupported: false,
        kind: None,
        message_bytes: None,
        shape: None,
        wait: None,
    }];
    run
}
