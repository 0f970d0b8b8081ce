//! Figures and pages of random runs, most of which no measurement would give: nothing panics,
//! everything is well formed.

use nearcall_results::histogram::{Histogram, StoredHistogram};
use nearcall_results::noise::Grade;
use nearcall_results::report::hosts::hosts;
use nearcall_results::report::markdown::markdown;
use nearcall_results::run::{
    Cell, Definition, GapFacts, Kind, LoadAchieved, Matrix, PaceFacts, PerEnd, Placement, RttNs,
    Run,
};

use crate::figures::figures;
use crate::report::{check_structure, page_of};
use crate::table::empty;

fn number(random: &mut fastrand::Rng) -> f64 {
    match random.u32(..12) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => 0.0,
        3 => -random.f64() * 1e6,
        4 => 1e-300,
        5 => f64::MAX,
        _ => 10_f64.powf(random.f64() * 9.0),
    }
}

fn some<T>(random: &mut fastrand::Rng, make: impl FnOnce(&mut fastrand::Rng) -> T) -> Option<T> {
    if random.u32(..4) == 0 { None } else { Some(make(random)) }
}

fn word(random: &mut fastrand::Rng, words: &[&str]) -> String {
    random.choice(words).copied().unwrap_or_default().to_owned()
}

/// Distributions, some of which contradict themselves. Making one takes long, so cells share them.
fn distributions(random: &mut fastrand::Rng) -> Vec<StoredHistogram> {
    let make = |_| {
        let mut times = Histogram::new();
        for _ in 0..random.u32(..200) {
            times.record(random.u64(..) >> random.u32(..64));
        }
        let mut stored = times.to_stored();
        if random.u32(..5) == 0 {
            stored.count = random.u64(..);
        }
        stored
    };
    (0..5).map(make).collect()
}

fn cell(random: &mut fastrand::Rng, times: &[StoredHistogram]) -> Cell {
    let kind = if random.bool() { Kind::Latency } else { Kind::Throughput };
    let names = ["pipe", "shm", "shm-spin", "tcp", "posix-mq", "", "<&\">", "\u{1b}\u{ffff}", "名"];
    let size = random.choice([0, 1, 8, 1_024, 65_536, u64::MAX]).unwrap();
    let mut cell = Cell::new(kind, &word(random, &names), size);
    cell.shape = word(random, &["echo", "echo", "sink", "call", "one-way", ""]);
    cell.wait = word(random, &["block", "spin", "adaptive", "\u{202e}"]);
    cell.load = word(random, &["idle", "idle", "idle", "cpu", "\n"]);
    cell.grade = some(random, |random| random.choice([Grade::A, Grade::C, Grade::D]).unwrap());
    cell.placement = Placement {
        class: word(random, &["same_llc", "same_cpu", ""]),
        client_cpu: some(random, |random| random.u32(..4)),
        server_cpu: some(random, |random| random.u32(..4)),
    };
    let ends = |random: &mut fastrand::Rng| some(random, |r| [number(r), number(r)]);
    cell.rtt_ns = some(random, |random| RttNs {
        p50: some(random, number),
        p50_ci95: ends(random),
        ..RttNs::default()
    });
    cell.messages_per_s = some(random, number);
    cell.messages_per_s_ci95 = ends(random);
    cell.bytes_per_s = some(random, number);
    cell.bytes_per_s_ci95 = ends(random);
    cell.cpu_ns_per_message = PerEnd { client: some(random, number), server: some(random, number) };
    cell.histogram = some(random, |random| times[random.usize(..times.len())].clone());
    rhythm(random, &mut cell);
    cell
}

fn rhythm(random: &mut fastrand::Rng, cell: &mut Cell) {
    match random.u32(..4) {
        0 => {
            let gap_ns = random.choice([0, 1_000, 1_000_000, u64::MAX]).unwrap();
            cell.gap = Some(GapFacts { gap_ns, ..GapFacts::default() });
        }
        1 => {
            let rate_per_s = random.choice([0, 10, 100_000, u32::MAX]).unwrap();
            cell.definition = Definition::FromIntended;
            cell.pace = Some(PaceFacts { rate_per_s, kept: random.bool(), ..PaceFacts::default() });
        }
        _ => {}
    }
    cell.load_achieved = some(random, |random| LoadAchieved {
        cpu_percent: vec![number(random), number(random)],
        memory_bytes_per_s: some(random, number),
        not_reached: vec!["\u{7f}".to_owned()],
        ..LoadAchieved::default()
    });
}

fn run(random: &mut fastrand::Rng) -> Run {
    let mut run = empty();
    let times = distributions(random);
    run.machine.id = word(random, &["aaaa", "bbbb", "\"\u{0}é"]);
    run.started_unix_s = random.u64(..);
    run.matrix = some(random, |_| Matrix::default());
    for _ in 0..random.u32(..60) {
        run.cells.push(cell(random, &times));
    }
    let floors = ["floor-spin", "floor-futex", "floor-memcpy", "floor-ring", "floor-?"];
    for _ in 0..random.u32(..8) {
        let mut floor = cell(random, &times);
        floor.mechanism = word(random, &floors);
        run.floors.push(floor);
    }
    run
}

#[test]
fn no_run_breaks_a_figure() {
    let mut figures_drawn = 0;
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let runs: Vec<Run> = (0..random.usize(1..4)).map(|_| run(&mut random)).collect();
        if let Ok(hosts) = hosts(&runs) {
            figures_drawn += figures(&hosts).len();
            check_structure(&page_of(&runs));
            let short = markdown(&hosts);
            assert!(short.chars().all(|c| c == '\n' || !c.is_control()), "{short:?}");
        }
    }
    assert!(figures_drawn > 20, "{figures_drawn}");
}
