//! For each claim, one change to the agreeable machine that makes it false.

use super::{judged, scaled, world};
use crate::Study;
use crate::claims::Verdict;
use crate::evidence::{Key, Load, Place, Quantity};
use crate::published;

/// A claim, which figures are changed, and by what factor. Figures are those of the claim's study.
type Change = (&'static str, fn(&Key) -> bool, f64);

fn is(key: &Key, mechanism: &str) -> bool {
    key.mechanism == mechanism
}

/// A throughput between cores.
fn thr(key: &Key, mechanism: &str, load: Load) -> bool {
    let of = (key.quantity, key.place, key.load);
    is(key, mechanism) && of == (Quantity::Throughput, Place::Cross, load)
}

fn timed(key: &Key) -> bool {
    matches!(key.quantity, Quantity::Median | Quantity::Mean | Quantity::Min)
}

const BUFFER: &str = "shm_bounded_buffer_pthread_mutex_cond";
const FLAG: &str = "mempipe_lat(shm_flag_spin)";

const MOTOROLA: &[Change] = &[
    ("T01", |k| is(k, "uds_eventloop_marshalled") && k.message_bytes == 16_384, 1e3),
    ("T02", |k| is(k, "shm_boost+uds_eventloop") && k.message_bytes == 32_768, 10.0),
    ("T03", |k| is(k, "shm_boost+uds_eventloop") && k.message_bytes == 1 << 20, 2.0),
    ("T04", |k| is(k, "shm_boost+signals") && k.message_bytes == 1024, 3.0),
    ("T05", |k| is(k, "shm_boost+boost_mq") && k.message_bytes == 2048, 3.0),
    ("T06", |k| is(k, "shm_boost+uds_blocking") && k.message_bytes == 4096, 3.0),
    ("T07", |k| is(k, "shm_boost+uds_poll") && k.message_bytes == 8192, 3.0),
    ("T08", |k| is(k, "shm_boost+uds_poll") && k.message_bytes == 1024, 5.0),
    ("T09", |k| is(k, "shm_boost+uds_poll") && k.message_bytes == 1 << 20, 1.2),
    ("T10", |k| is(k, "short_circuit_same_process") && k.message_bytes == 4096, 3.0),
    ("T11", |k| is(k, "short_circuit_same_process") && k.message_bytes == 1 << 20, 0.5),
    ("T12", |k| is(k, "function_call_by_reference"), 100.0),
    ("T13", |k| is(k, "uds_poll_no_shm"), 2.0),
    ("T14", |k| is(k, "uds_poll_no_shm"), 3.0),
    ("T15", |k| is(k, "two_services_dynlib_one_process"), 2.0),
];

const ENEA: &[Change] = &[
    ("E01", |k| thr(k, "pipe", Load::Stress) && k.message_bytes == 8192, 2.0),
    ("E02", |k| thr(k, "mempipe_spin", Load::Stress) && k.message_bytes == 8192, 10.0),
    ("E03", |k| thr(k, "tcp", Load::Stress) && k.message_bytes == 65_536, 1.3),
    ("E04", |k| is(k, "mempipe") && k.quantity == Quantity::CpuThroughput, 0.01),
    ("E05", |k| is(k, "pipe") && k.quantity == Quantity::CpuThroughput, 1e3),
    ("E06", |k| thr(k, "unix", Load::Idle) && k.message_bytes == 4096, 1e-3),
    ("E07", |k| thr(k, "pipe", Load::Idle) && k.message_bytes == 1024, 0.5),
    ("E08", |k| thr(k, "pipe", Load::Idle) && k.message_bytes == 131_072, 10.0),
    ("E09", |k| thr(k, "pipe", Load::Idle) && k.message_bytes == 68 * 1024, 2.0),
    ("E10", |k| thr(k, "pipe", Load::Idle) && k.message_bytes > 98_304, 7.0 / 6.0),
    ("E11", |k| thr(k, "unix", Load::Stress) && k.message_bytes >= 65_536, 3.0),
    ("E12", |k| thr(k, "unix", Load::Stress), 3.0),
    ("E13", |k| thr(k, "unix", Load::Idle) && k.message_bytes == 4096, 2.0),
    ("E14", |k| k.place == Place::Smt, 10.0),
    ("E15", |k| is(k, "tcp") && k.place == Place::Same, 3.0),
    ("E16", |k| is(k, "mempipe") && k.place == Place::Same, 10.0),
    ("E17", |k| is(k, "mempipe_spin") && k.place == Place::Same, 1e3),
    ("E18", |k| k.place == Place::Pair(0, 4), 0.1),
    ("E19", |k| is(k, FLAG) && k.load == Load::Idle, 100.0),
    ("E20", |k| is(k, "tcp") && k.load == Load::Idle && timed(k), 0.1),
    ("E21", |k| is(k, FLAG) && k.load == Load::Stress, 100.0),
    ("E22", |k| is(k, "tcp") && k.load == Load::Stress && k.quantity == Quantity::Mean, 3.0),
    ("E23", |k| is(k, "pipe") && k.load == Load::Stress && k.place == Place::Pair(1, 1), 3.0),
    ("E24", |k| is(k, "lfs_fifo_sig") && k.message_bytes == 65_536, 0.1),
    ("E25", |k| is(k, "tcp") && k.load == Load::Idle && timed(k), 3.0),
];

const WISCONSIN: &[Change] = &[
    ("W01", |k| is(k, BUFFER) && k.message_bytes == 1024, 3.0),
    ("W02", |k| is(k, "tcp_nodelay") && k.message_bytes >= 4096, 10.0),
    ("W03", |k| is(k, "pipe") && k.message_bytes == 65_536, 5.0),
    ("W04", |k| is(k, "pipe") && k.message_bytes == 64, 2.0),
    ("W05", |k| is(k, "pipe") && k.message_bytes == 262_144 && !timed(k), 2.0),
    ("W06", |k| is(k, "tcp_nodelay") && k.message_bytes == 4096 && !timed(k), 10.0),
    ("W07", |k| is(k, "timer:rdtsc"), 100.0),
    ("W08", |k| is(k, "pipe") && k.quantity == Quantity::Disagreement, 10.0),
    ("W09", |k| k.mechanism.ends_with(":memcpy"), 10.0),
    ("W10", |k| k.quantity == Quantity::First, 0.1),
    ("V01", |k| is(k, "tcp") && k.message_bytes == 64, 0.1),
    ("V02", |k| is(k, "pipe") && k.message_bytes == 1024, 2.0),
    ("V03", |k| is(k, "shm_semaphore") && k.message_bytes == 65_536, 10.0),
    ("V04", |k| is(k, "pipe") && k.message_bytes == 64, 3.0),
    ("V05", |k| thr(k, "shm_semaphore", Load::Idle) && k.message_bytes == 65_536, 0.1),
    ("V06", |k| thr(k, "tcp", Load::Idle), 10.0),
    ("V07", |k| k.quantity == Quantity::Max, 0.01),
    ("V08", |k| k.place == Place::Same && k.message_bytes == 65_536, 10.0),
    ("V09", |k| thr(k, "tcp", Load::Idle) && k.message_bytes == 524_288, 2.0),
    ("V10", |k| is(k, "timer:rdtsc"), 100.0),
];

const REST: &[Change] = &[
    ("S01", |k| is(k, "pipe") && (5000..6000).contains(&k.message_bytes), 2.0),
    ("S02", |k| is(k, "unix") && k.message_bytes > 8000, 0.1),
    ("S03", |k| is(k, "pipe") && (1..2000).contains(&k.message_bytes), 0.1),
    ("S04", |k| is(k, "pipe") && k.message_bytes > 10_000, 10.0),
    ("S05", |k| is(k, "pipe") && (6000..7000).contains(&k.message_bytes), 0.5),
    ("S06", |k| is(k, "unix") && k.message_bytes > 12_000, 0.1),
    ("S07", |k| k.quantity == Quantity::SetUp, 0.01),
    ("X01", |k| is(k, BUFFER), 0.1),
    ("X02", |k| is(k, BUFFER), 0.01),
    ("X03", |k| is(k, "pipe") && k.place == Place::Same && k.message_bytes == 4, 10.0),
];

#[test]
fn every_claim_can_be_refuted() {
    let changes = [MOTOROLA, ENEA, WISCONSIN, REST].concat();
    let changed = changes.iter().map(|(id, ..)| *id);
    assert!(changed.eq(published::claims().iter().map(|claim| claim.id.as_str())));
    for (id, matches, factor) in changes {
        let claim = published::claims().iter().find(|claim| claim.id == id).unwrap();
        let of_study = |key: &Key| match claim.study.parse::<Study>() {
            Ok(study) => key.study == study,
            Err(_) => true,
        };
        let changed = scaled(world::agreeable(), |key| of_study(key) && matches(key), factor);
        let judged = judged(&changed, id);
        assert_eq!(judged.verdict, Verdict::Refuted, "{id}: {}", judged.evidence);
        let words = judged.evidence.as_str();
        assert!(words.contains("claimed") || id == "E02", "{id}: {words}");
    }
}
