//! Makes a run of what was found: libraries and their cells, as all runs are stored and shown.
//!
//! **Invariants:** a library that was not measured says why; a figure is a median over launches,
//! with the interval that `nearcall-results` gives it. **Not here:** how nearcall stands beside the
//! others, which is computed where a run is shown.

use nearcall_bench::machine;
use nearcall_results::run::{Cell, Kind, Library, PerEnd, Placement, RttNs, Run, Settings, Tool};
use nearcall_results::stats;

use crate::bench::{Found, Plan, unix_s};
use crate::request::{self, Measured};
use crate::rival::Rival;

/// Puts together what was found for each of `rivals`.
pub(crate) fn run(
    arguments: Vec<String>,
    plan: &Plan,
    rivals: &[Rival],
    found: &[Found],
    started_unix_s: u64,
) -> Run {
    let settings = Settings {
        arguments,
        kinds: vec![Kind::Latency, Kind::Throughput],
        mechanisms: rivals.iter().map(|rival| rival.name.to_owned()).collect(),
        sizes_bytes: plan.sizes.iter().map(|&bytes| bytes as u64).collect(),
        touch: "full".to_owned(),
        launches: plan.launches,
        seed: plan.seed,
        ..Settings::default()
    };
    let mut run = Run::new(machine::read(), settings, started_unix_s);
    if cfg!(debug_assertions) {
        run.warnings
            .push("a debug build: every library is far slower than in a release".to_owned());
    }
    run.tool = Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        ..Tool::default()
    };
    for (rival, found) in rivals.iter().zip(found) {
        let cells = plan.cells().into_iter().filter_map(|cell| cell_of(plan, cell, rival, found));
        run.library_cells.extend(cells);
        run.libraries.push(Library {
            name: rival.name.to_owned(),
            version: rival.version.to_owned(),
            wait: rival.waiting.name().to_owned(),
            about: rival.about.split_whitespace().collect::<Vec<_>>().join(" "),
            rate_is: rival.rate.to_owned(),
            failure: found.failure.clone(),
            idle_server: found.idle,
        });
    }
    run.finished_unix_s = Some(unix_s());
    run
}

/// Makes a cell of what all launches measured; `None` without any.
fn cell_of(plan: &Plan, wanted: request::Cell, rival: &Rival, found: &Found) -> Option<Cell> {
    let launches = found.launches.iter().flatten().filter(|(measured, _)| *measured == wanted);
    let launches: Vec<&Measured> = launches.map(|(_, measured)| measured).collect();
    let over = |value: &dyn Fn(&Measured) -> Option<f64>| {
        launches.iter().filter_map(|measured| value(measured)).collect::<Vec<f64>>()
    };
    let per_message = |ns: u64, one: &Measured| Some(ns as f64 / one.messages as f64);
    let is_rate = wanted.kind == request::Kind::Rate;
    let values = match is_rate {
        true => over(&|one| Some(one.messages as f64 * 1e9 / one.elapsed_ns as f64)),
        false => over(&|one| one.median_ns),
    };
    let estimate = stats::estimate(&values, &[], 0.0)?;
    let kind = if is_rate { Kind::Throughput } else { Kind::Latency };
    let mut cell = Cell::new(kind, rival.name, wanted.bytes as u64);
    cell.shape = wanted.kind.shape().to_owned();
    cell.wait = rival.waiting.name().to_owned();
    cell.placement = placement(plan.pin);
    cell.launches = u32::try_from(values.len()).unwrap_or(u32::MAX);
    cell.count = launches.iter().map(|one| one.messages).sum();
    cell.grade = found.noise;
    cell.cpu_ns_per_message = PerEnd {
        client: stats::median(&over(&|one| per_message(one.client_cpu_ns, one))),
        server: stats::median(&over(&|one| per_message(one.server_cpu_ns, one))),
    };
    if launches.iter().any(|one| one.still_warming) {
        cell.tags.push("warmup_capped".to_owned());
    }
    if is_rate {
        cell.messages_per_s = Some(estimate.center);
        cell.messages_per_s_ci95 = estimate.ci95;
        cell.launch_messages_per_s = values;
    } else {
        cell.rtt_ns = Some(RttNs {
            p50: Some(estimate.center),
            p50_ci95: estimate.ci95,
            p99: stats::median(&over(&|one| one.p99_ns)),
            ..RttNs::default()
        });
        cell.launch_medians_ns = values;
    }
    Some(cell)
}

fn placement(pin: Option<[usize; 2]>) -> Placement {
    let class = match pin {
        Some([client, server]) => machine::topology().class(client, server).name(),
        None => "unpinned",
    };
    let cpu = |at: usize| pin.and_then(|pin| u32::try_from(pin[at]).ok());
    Placement { class: class.to_owned(), client_cpu: cpu(0), server_cpu: cpu(1) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rivals;

    fn run_of(found: impl Fn(&Rival) -> Found) -> Run {
        let plan = Plan {
            sizes: vec![0],
            echo_sizes: vec![],
            launches: 2,
            cell: Duration::from_millis(1),
            idle: Duration::ZERO,
            pin: None,
            seed: 1,
        };
        let rivals = rivals::all();
        let found: Vec<Found> = rivals.iter().map(found).collect();
        let run = run(Vec::new(), &plan, &rivals, &found, 0);
        assert_eq!(Run::parse(&run.to_json()).unwrap(), run, "every reader of runs takes it");
        run
    }

    fn measured(median_ns: f64) -> Found {
        let sink = Measured {
            messages: 10,
            elapsed_ns: 1_000,
            median_ns: Some(median_ns),
            client_cpu_ns: 100,
            server_cpu_ns: 200,
            ..Measured::default()
        };
        let cell = request::Cell { kind: request::Kind::Sink, bytes: 0 };
        let rate = request::Cell { kind: request::Kind::Rate, bytes: 8 };
        let launch = vec![(cell, sink.clone()), (rate, sink)];
        Found { launches: vec![launch.clone(), launch], ..Found::default() }
    }

    #[test]
    fn figures_stand_beside_those_of_nearcall_with_the_same_wait() {
        let is_ours = |rival: &Rival| rival.version.starts_with("nearcall");
        let run = run_of(|rival| measured(if is_ours(rival) { 100.0 } else { 300.0 }));
        let beside = run.beside_nearcall();
        let of_tonic: Vec<usize> = (0..run.library_cells.len())
            .filter(|&at| run.library_cells[at].mechanism == "tonic")
            .collect();
        let &[call, rate] = of_tonic.as_slice() else { panic!("{of_tonic:?}") };
        let times = |at: usize| beside[at].unwrap().0;
        assert!((times(call) - 3.0).abs() < 1e-9 && (times(rate) - 1.0).abs() < 1e-9);
        let cell = &run.library_cells[call];
        assert_eq!((&*cell.shape, &*cell.wait, cell.launches), ("sink", "block", 2));
        assert_eq!(cell.cpu_ns_per_message, PerEnd { client: Some(10.0), server: Some(20.0) });
        let messages_per_s = run.library_cells[rate].messages_per_s.unwrap();
        assert!((messages_per_s / 1e7 - 1.0).abs() < 1e-9, "{messages_per_s}");
    }

    #[test]
    fn a_row_that_failed_has_its_reason_and_no_cells() {
        let run = run_of(|_| Found { failure: Some("no".to_owned()), ..Found::default() });
        assert!(run.library_cells.is_empty());
        assert!(run.libraries.iter().all(|library| library.failure.as_deref() == Some("no")));
    }
}
