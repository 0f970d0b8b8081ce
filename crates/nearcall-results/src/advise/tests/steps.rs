//! Advice from evidence that is near to what was wanted and is not it.

use super::*;
use crate::run::EffectiveSize;

/// Plain messages of `bytes`.
fn plain(mechanism: Mechanism, shape: &str, bytes: u64, ns: f64) -> Cell {
    let mut cell = call(mechanism, Block, bytes, ns);
    (cell.call, cell.shape) = (None, shape.to_owned());
    cell.wait = "block".to_owned();
    cell
}

fn world(cells: Vec<Cell>) -> World {
    let mut world = World::new();
    world.run.cells = cells;
    world
}

fn at(rate: f64, message_bytes: u64) -> Requirements {
    Requirements { rate_per_s: Some(rate), ..wanted(message_bytes, &[]) }
}

fn told(advice: &Advice, part: &str) -> bool {
    advice.evidence.iter().any(|one| one.contains(part))
}

#[test]
fn shapes_are_never_mixed_and_another_one_is_told() {
    let both = world(vec![
        plain(Pipe, "echo", 8, 5_000.0),
        plain(Pipe, "echo", 1_024, 6_000.0),
        plain(Pipe, "sink", 65_536, 20_000.0),
        plain(Tcp, "sink", 2_048, 1_000.0),
    ]);
    // 1 KiB there and back are 2 KiB in all; what only sinks were measured of is not compared.
    let advice = both.advise(&wanted(2_048, &[])).unwrap();
    assert!(names(&advice) == ["tcp block"] && !told(&advice, "half back"), "{advice:?}");
    let echo = world(both.run.cells[..3].to_vec());
    let advice = echo.advise(&wanted(2_048, &[])).unwrap();
    assert!(told(&advice, "half the bytes go there and half back"), "{:?}", advice.evidence);
    assert!(told(&advice, "messages of 1 KiB there and back"), "{:?}", advice.evidence);
    // Between the largest echo and the sink there is no line.
    assert!(echo.advise(&wanted(8_192, &[])).is_err());
    let requirements = Requirements { reply_bytes: Some(32_768), ..wanted(32_768, &[]) };
    let advice = echo.advise(&requirements).unwrap();
    assert!(told(&advice, "all bytes there and none back"), "{:?}", advice.evidence);
}

#[test]
fn rare_messages_are_not_judged_by_frequent_ones() {
    let paced = |rate| World::new().call(Pipe, Block, 64, 9_000.0).with(paced(rate, true));
    assert!(paced(250).advise(&at(1.0, 64)).is_ok());
    assert!(paced(100_000).advise(&at(1.0, 64)).is_err());
}

#[test]
fn a_spinner_burns_its_cpu_between_rare_messages() {
    let cpu = Requirements { optimise: Weights::only(Objective::Cpu), ..at(10.0, 64) };
    let world = World::new()
        .call(ShmSpin, Spin, 64, 300.0)
        .with(paced(250, true))
        .with(|cell| cell.cpu_ns_per_message.client = Some(4e6))
        .call(Pipe, Block, 64, 20e6)
        .with(paced(250, true));
    // Pipes take 20 ms in this world; 10 messages per second of a spinner take 100 ms each.
    let advice = world.advise(&cpu).unwrap();
    assert_eq!(names(&advice), ["pipe block", "shm-spin spin"]);
    assert!((advice.ranking[1].cpu_ns_per_message.unwrap().value - 1e8).abs() < 1.0);
}

#[test]
fn times_of_what_fell_behind_are_no_times() {
    let world = World::new()
        .call(Pipe, Block, 64, 100.0)
        .with(paced(10_000, false))
        .call(Pipe, Block, 64, 60_000.0)
        .call(Tcp, Block, 64, 9_000.0)
        .with(paced(10_000, true))
        .call(Tcp, Block, 64, 9_000.0);
    let advice = world.advise(&at(5_000.0, 64)).unwrap();
    assert_eq!(names(&advice), ["tcp block"]);
    let pipe = advice.unmeasured.iter().find(|one| one.candidate.to_string() == "pipe block");
    assert!(pipe.unwrap().why.starts_with("it fell behind"), "{pipe:?}");
}

#[test]
fn what_is_too_slow_is_told_by_what_it_did() {
    let behind = |cell: &mut Cell| {
        let achieved_per_s = Some(9_100.0);
        cell.pace = Some(PaceFacts { rate_per_s: 10_000, achieved_per_s, ..PaceFacts::default() });
    };
    let world = World::new()
        .call(Pipe, Block, 64, 100.0)
        .with(behind)
        .call(Pipe, Block, 64, 1e9 / 12_000.0)
        .call(Tcp, Block, 64, 1e9 / 12_000.0)
        .call(Shm, Spin, 64, 300.0)
        .with(paced(10_000, true));
    let advice = world.advise(&at(10_000.0, 64)).unwrap();
    let why = |name: &str| {
        let found = advice.excluded.iter().find(|one| one.candidate.to_string() == name);
        found.unwrap().by[0].why.clone()
    };
    assert_eq!(why("pipe block"), "cannot keep 10.0 k/s: fell behind at 10.0 k/s and did 9.10 k/s");
    assert_eq!(why("tcp block"), "has too little room above 10.0 k/s: does 12.0 k/s at most");
    let tight = World::new().call(Tcp, Block, 64, 1e9 / 12_000.0);
    let refusal = tight.advise(&at(10_000.0, 64)).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "nothing that was measured keeps 10.0 k/s; the fastest is tcp block with 12.0 k/s, too \
         little room above"
    );
}

#[test]
fn a_rate_of_one_way_messages_is_told_to_be_unmeasured() {
    let requirements = Requirements { pattern: Pattern::OneWay, ..at(100.0, 64) };
    let mut stream = plain(Pipe, "sink", 64, 1_000.0);
    (stream.kind, stream.messages_per_s) = (Kind::Throughput, Some(1e6));
    let cells = vec![plain(Pipe, "sink", 64, 9_000.0), stream];
    let advice = world(cells).advise(&requirements).unwrap();
    let step = "at 100 per second ends sleep between messages";
    assert_eq!(advice.evidence.iter().filter(|one| one.contains(step)).count(), 1, "{advice:?}");
    assert_eq!(advice.confidence, Confidence::Low);
}

#[test]
fn other_buffers_do_not_count_and_forbidden_sleep_is_told() {
    let mut usual = usual();
    usual.run.machine.state.idle_held = Some(true);
    let advice = usual.advise(&wanted(64, &[])).unwrap();
    assert!(told(&advice, "kept out of sleep states"), "{:?}", advice.evidence);
    let room = |bytes: u64| EffectiveSize {
        name: "room_bytes".to_owned(),
        requested: Some(bytes),
        effective: bytes,
    };
    let with = |bytes| {
        World::new().call(Pipe, Block, 64, 900.0).with(move |cell| cell.sizes = vec![room(bytes)])
    };
    assert!(with(256 << 10).advise(&wanted(64, &[])).is_ok());
    assert!(with(1 << 20).advise(&wanted(64, &[])).is_err());
}

#[test]
fn other_sizes_speak_for_the_second_only_where_time_counts() {
    let wins = |world: &World, optimise: &str| {
        let optimise = optimise.parse().unwrap();
        let requirements = Requirements { optimise, ..wanted(64, &[Need::NoSpin]) };
        let second = world.advise(&requirements).unwrap().runner_up.unwrap();
        second.wins.iter().any(|one| one.contains("larger messages"))
    };
    assert!(wins(&usual(), "latency") && !wins(&usual(), "cpu"));
}

use Mechanism::ShmSpin;
