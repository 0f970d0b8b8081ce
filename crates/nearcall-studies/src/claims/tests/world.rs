//! Evidence for tests: what the papers print, and a machine that was made up so that it agrees with
//! every claim.

use crate::Study;
use crate::evidence::{Evidence, Facts, Key, Load, Place, Quantity, Series};
use crate::published::{self, Placement};

/// What the machine did in each round: all figures of a round share it.
const DRIFT: [f64; 5] = [1.0, 1.1, 0.95, 1.02, 0.98];

/// Four CPUs in two cores on one node, a fifth on another node.
fn facts() -> Facts {
    let siblings = vec![(0, 1), (2, 3)];
    let node_of = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1)].into();
    Facts { cpus: 5, has_smt: true, numa_nodes: 2, siblings, node_of }
}

/// The same value in each round.
fn steady(evidence: &mut Evidence, key: Key, value: f64) {
    evidence.insert(key, Series(vec![value; DRIFT.len()]));
}

/// A time that drifts with the machine.
fn time(evidence: &mut Evidence, key: Key, ns: f64) {
    evidence.insert(key, Series(DRIFT.map(|drift| ns * drift).to_vec()));
}

/// A rate that drifts with the machine.
fn rate(evidence: &mut Evidence, key: Key, per_s: f64) {
    evidence.insert(key, Series(DRIFT.map(|drift| per_s / drift).to_vec()));
}

/// A latency as median and mean.
fn latency(evidence: &mut Evidence, key: &Key, ns: f64) {
    for quantity in [Quantity::Median, Quantity::Mean] {
        time(evidence, Key { quantity, ..key.clone() }, ns);
    }
}

/// The figures that the papers print, as if measured in identical rounds.
pub(super) fn printed() -> Evidence {
    let mut evidence = Evidence::new(facts());
    printed_motorola(&mut evidence);
    printed_enea(&mut evidence);
    printed_wisconsin(&mut evidence);
    evidence
}

fn printed_motorola(evidence: &mut Evidence) {
    let study = Study::Motorola;
    for row in published::rows(study).iter().filter(|row| row.metric == "round_trip_mean") {
        let bytes = row.message_bytes.unwrap_or(0);
        for quantity in [Quantity::Median, Quantity::Mean] {
            let key = Key::new(study, &row.mechanism, bytes, Place::Same, quantity);
            steady(evidence, key, row.value_base().unwrap());
        }
    }
}

fn printed_enea(evidence: &mut Evidence) {
    for row in published::rows(Study::Enea).iter().filter(|row| row.metric == "ping_pong_latency") {
        let (Placement::SameCpu(client, server)
        | Placement::SmtSibling(client, server)
        | Placement::CrossCore(Some((client, server)))) = row.placement
        else {
            panic!("{row:?}");
        };
        let Some(value) = row.value_base() else { continue };
        for quantity in [Quantity::Median, Quantity::Mean] {
            let place = Place::Pair(client, server);
            let key = Key::new(Study::Enea, &row.mechanism, 0, place, quantity);
            steady(evidence, key.under(row.load), value);
        }
    }
}

fn printed_wisconsin(evidence: &mut Evidence) {
    let study = Study::WisconsinLatency;
    for row in published::rows(study) {
        let (place, quantity) = match (row.table.as_str(), row.metric.as_str()) {
            ("table1", _) => (Place::Unpinned, Quantity::Min),
            ("table2", _) => (Place::Same, Quantity::Min),
            ("table3", _) => (Place::Unpinned, Quantity::Throughput),
            (_, "timer_overhead") => (Place::None, Quantity::TimerOverhead),
            _ => continue,
        };
        let value = row.value_base().unwrap();
        let bytes = row.message_bytes.unwrap_or(0);
        steady(evidence, Key::new(study, &row.mechanism, bytes, place, quantity), value);
        if row.table == "table1" {
            let other =
                published::find(study, "table2", &row.mechanism, row.message_bytes).unwrap();
            let other = other.value_base().unwrap();
            let share = (value - other).abs() / ((value + other) / 2.0);
            let quantity = Quantity::Disagreement;
            let key = Key::new(study, &row.mechanism, bytes, place, quantity);
            steady(evidence, key, share);
        }
    }
    let study = Study::WisconsinEvaluation;
    for row in published::rows(study).iter().filter(|row| row.metric == "timer_resolution") {
        let quantity = Quantity::TimerGranularity;
        let key = Key::new(study, &row.mechanism, 0, Place::None, quantity);
        steady(evidence, key, row.value_base().unwrap());
    }
}

/// A machine on which every claim holds.
pub(super) fn agreeable() -> Evidence {
    let mut evidence = Evidence::new(facts());
    motorola(&mut evidence);
    enea_throughput(&mut evidence);
    enea_pairs(&mut evidence);
    wisconsin_latency(&mut evidence);
    wisconsin_evaluation(&mut evidence);
    short_comparison(&mut evidence);
    evidence
}

/// The paper agrees with itself.
fn motorola(evidence: &mut Evidence) {
    let study = Study::Motorola;
    for row in published::rows(study).iter().filter(|row| row.metric == "round_trip_mean") {
        let bytes = row.message_bytes.unwrap_or(0);
        let key = Key::new(study, &row.mechanism, bytes, Place::Same, Quantity::Median);
        latency(evidence, &key, row.value_base().unwrap());
    }
    for (mechanism, bytes) in
        [("two_services_separate_binaries", 4e5), ("two_services_dynlib_one_process", 3e5)]
    {
        let key = Key::new(study, mechanism, 0, Place::None, Quantity::PssBytes);
        steady(evidence, key, bytes);
    }
}

/// A throughput that rises and then flattens.
fn rising(bytes: u64) -> f64 {
    let bytes = bytes as f64;
    1e9 * bytes / (bytes + 4096.0)
}

fn enea_throughput(evidence: &mut Evidence) {
    let kib = |count: u64| count * 1024;
    let sizes = [64, 256, 1024, 4096, 8192, 16_384, kib(60), kib(64), kib(68), kib(88), kib(92)];
    let more = [kib(96), kib(100), kib(104), kib(108), kib(128)];
    let key = |mechanism: &str, bytes, place| {
        Key::new(Study::Enea, mechanism, bytes, place, Quantity::Throughput)
    };
    // Mechanism, its speed between cores, what it keeps under load, its speed on one CPU, and what
    // it moves per CPU-second.
    let mechanisms = [
        ("mempipe", 2.0, 0.25, 0.4, 5.0),
        ("mempipe_spin", 3.0, 0.2, 0.001, 2.0),
        ("shmem_pipe", 2.5, 0.4, 0.8, 9.0),
        ("pipe", 1.0, 0.8, 1.0, 4.0),
        ("tcp", 0.95, 0.7, 0.95, 3.0),
        ("unix", 1.05, 0.5, 1.0, 3.0),
    ];
    for (mechanism, speed, kept, same, per_cpu) in mechanisms {
        for bytes in sizes.into_iter().chain(more) {
            let speed = match bytes {
                _ if mechanism != "pipe" => speed,
                ..=65_536 => speed,
                65_537..=98_304 => speed * 0.7,
                _ => speed * 0.6,
            };
            let value = rising(bytes) * speed;
            rate(evidence, key(mechanism, bytes, Place::Cross), value);
            let loaded = key(mechanism, bytes, Place::Cross).under(Load::Stress);
            let quantity = Quantity::CpuThroughput;
            rate(evidence, Key { quantity, ..loaded.clone() }, per_cpu * rising(bytes));
            rate(evidence, loaded, value * kept);
            if bytes <= 8192 {
                rate(evidence, key(mechanism, bytes, Place::Smt), value * 0.6);
                rate(evidence, key(mechanism, bytes, Place::Same), rising(bytes) * same);
            }
        }
    }
    for bytes in [kib(60), kib(68)] {
        rate(evidence, key("pipe:1M", bytes, Place::Cross), rising(bytes));
    }
    for (bytes, overhead) in [(64, 3.0), (1024, 2.0), (8192, 1.5), (65_536, 1.1)] {
        rate(evidence, key("fifo", bytes, Place::Cross), rising(bytes));
        rate(evidence, key("lfs_fifo_sig", bytes, Place::Cross), rising(bytes) / overhead);
    }
}

/// The paper's idle pairs, and loaded ones that are slower as the claims want it.
fn enea_pairs(evidence: &mut Evidence) {
    let mut idle = Evidence::new(facts());
    printed_enea(&mut idle);
    for (key, series) in idle.iter().filter(|(key, _)| key.load == Load::Idle) {
        let Place::Pair(client, server) = key.place else { continue };
        let factor = match key.mechanism.as_str() {
            _ if client == server => 1.2,
            "tcp" => 1.3,
            "pipe" | "unix" => 6.0,
            _ => 1.05,
        };
        time(evidence, key.clone(), series.0[0]);
        time(evidence, key.clone().under(Load::Stress), series.0[0] * factor);
    }
    let flag = "mempipe_lat(shm_flag_spin)";
    let far = Key::new(Study::Enea, flag, 0, Place::Pair(0, 4), Quantity::Median);
    latency(evidence, &far, 1_500.0);
}

/// The paper's figures, with a slower socket at 1 KiB, a second buffer and clocks that agree.
fn wisconsin_latency(evidence: &mut Evidence) {
    let study = Study::WisconsinLatency;
    let mut paper = Evidence::new(facts());
    printed_wisconsin(&mut paper);
    for (key, series) in paper.iter().filter(|(key, _)| key.study == study) {
        let value = match (key.mechanism.as_str(), key.message_bytes, key.quantity) {
            (_, _, Quantity::Disagreement) => 0.003,
            ("tcp_nodelay", 1024, Quantity::Min) => 9_000.0,
            _ => series.0[0],
        };
        steady(evidence, key.clone(), value);
        if key.quantity != Quantity::Min {
            continue;
        }
        if key.mechanism == "pipe" {
            let mechanism = "shm_bounded_buffer_pthread_mutex_cond:memcpy".to_owned();
            steady(evidence, Key { mechanism, ..key.clone() }, value * 0.8);
        }
        if key.message_bytes <= 16 && key.place == Place::Unpinned {
            let samples = [(Quantity::First, 3.0), (Quantity::P99, 1.5), (Quantity::Median, 1.1)];
            for (quantity, factor) in samples {
                steady(evidence, Key { quantity, ..key.clone() }, value * factor);
            }
        }
    }
}

fn wisconsin_evaluation(evidence: &mut Evidence) {
    let study = Study::WisconsinEvaluation;
    let key = |mechanism: &str, bytes, quantity| {
        Key::new(study, mechanism, bytes, Place::Cross, quantity)
    };
    // Mechanism, its time for small messages, and per byte above 4 KiB.
    let mechanisms = [("pipe", 10_000.0, 1.0), ("tcp", 20_000.0, 2.0), ("shm_semaphore", 9e3, 0.2)];
    let sizes = [4u64, 8, 16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536];
    let larger = [131_072, 262_144, 524_288];
    for (mechanism, small, per_byte) in mechanisms {
        for (at, bytes) in sizes.into_iter().chain(larger).enumerate() {
            let ns = small + per_byte * bytes.saturating_sub(4096) as f64;
            latency(evidence, &key(mechanism, bytes, Quantity::Median), ns);
            let longest = 200_000.0 + ((at * 7) % 11) as f64 * 20_000.0;
            time(evidence, key(mechanism, bytes, Quantity::Max), longest);
            if mechanism == "pipe" {
                let same = Key { place: Place::Same, ..key("pipe", bytes, Quantity::Median) };
                latency(evidence, &same, ns / 2.0);
            }
        }
        for bytes in (0..=10).map(|power| 512u64 << power) {
            let factor = match mechanism {
                "tcp" => 0.5,
                "shm_semaphore" if bytes > 16_384 => 2.0,
                "shm_semaphore" => 1.1,
                _ => 1.0,
            };
            rate(evidence, key(mechanism, bytes, Quantity::Throughput), rising(bytes) * factor);
        }
    }
    for (timer, ns) in
        [("timer:gettimeofday", 1000.0), ("timer:clock_gettime", 30.0), ("timer:rdtsc", 20.0)]
    {
        let key = Key::new(study, timer, 0, Place::None, Quantity::TimerGranularity);
        steady(evidence, key, ns);
    }
}

fn short_comparison(evidence: &mut Evidence) {
    let key = |mechanism: &str, bytes, quantity| {
        let key = Key::new(Study::ShortComparison, mechanism, bytes, Place::Unpinned, quantity);
        key.under(Load::Duty35)
    };
    for bytes in (1..=32).map(|step| step * 512).chain([32_768, 65_536]) {
        let size = bytes as f64;
        let pipe = if bytes > 12_000 { 10_500.0 } else { 10_000.0 };
        let shared = if bytes < 4600 { 4_000.0 + size } else { 15_000.0 + size };
        let unix = if bytes > 12_000 { 12_000.0 + size } else { 9_000.0 + 0.05 * size };
        for (mechanism, ns) in [("pipe", pipe), ("shm_semaphore", shared), ("unix", unix)] {
            latency(evidence, &key(mechanism, bytes, Quantity::Median), ns);
        }
    }
    time(evidence, key("pipe", 0, Quantity::SetUp), 50_000.0);
}
