//! Advice from invented runs with known winners.

use std::fs;
use std::path::Path;

use nearcall_channel::{Mechanism, WaitPolicy};

use super::*;
use crate::report::lines::Style;
use crate::run::{AtRest, CallFacts, Cell, Kind, Machine, PaceFacts, RttNs, Settings};

mod steps;

/// A machine on which a round trip takes this long, by mechanism and way to wait.
struct World {
    run: Run,
}

impl World {
    fn new() -> Self {
        let machine = Machine { id: "here".to_owned(), ..Machine::default() };
        let settings = Settings { touch: "full".to_owned(), ..Settings::default() };
        Self { run: Run::new(machine, settings, 1_700_000_000) }
    }

    /// Calls of `bytes`, each with a tenth of it as its p99 above and CPU time of half.
    fn call(mut self, mechanism: Mechanism, wait: WaitPolicy, bytes: u64, ns: f64) -> Self {
        self.run.cells.push(call(mechanism, wait, bytes, ns));
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Cell)) -> Self {
        change(self.run.cells.last_mut().unwrap());
        self
    }

    fn advise(&self, requirements: &Requirements) -> Result<Advice, Refusal> {
        advise(requirements, &[&self.run])
    }
}

fn call(mechanism: Mechanism, wait: WaitPolicy, bytes: u64, ns: f64) -> Cell {
    let mut cell = Cell::new(Kind::Latency, mechanism.name(), bytes);
    let looped = wait == Poll;
    cell.call = Some(CallFacts {
        caller: if looped { "loop" } else { "blocking" }.to_owned(),
        client_wait: wait.name().to_owned(),
        ..CallFacts::default()
    });
    cell.shape = "call".to_owned();
    cell.wait = format!("{wait}/some");
    cell.placement.class = "same_llc".to_owned();
    cell.launches = 5;
    cell.grade = Some(Grade::B);
    cell.rtt_ns = Some(RttNs {
        p50: Some(ns),
        p99: Some(ns * 3.0),
        p50_ci95: Some([ns * 0.97, ns * 1.03]),
        ..RttNs::default()
    });
    cell.launch_medians_ns = [0.99, 1.0, 1.01, 1.0, 1.0].map(|share| share * ns).to_vec();
    cell.cpu_ns_per_message.client = Some(ns / 2.0);
    cell.cpu_ns_per_message.server = Some(ns / 2.0);
    cell
}

fn wanted(message_bytes: u64, needs: &[Need]) -> Requirements {
    let needs = needs.to_vec();
    Requirements { message_bytes, needs, clients: Some(1), ..Requirements::default() }
}

use Mechanism::{Pipe, Shm, ShmFutex, Tcp, UnixStream};
use WaitPolicy::{Adaptive, Block, Poll, Spin};

/// Spinning is fast and dear, pipes are slow, large messages suit the pipe.
fn usual() -> World {
    World::new()
        .call(Shm, Adaptive, 64, 500.0)
        .call(Shm, Adaptive, 65_536, 20_000.0)
        .call(Shm, Spin, 64, 300.0)
        .call(Shm, Spin, 65_536, 9_000.0)
        .call(ShmFutex, Block, 64, 5_000.0)
        .call(ShmFutex, Block, 65_536, 15_000.0)
        .call(Pipe, Poll, 64, 9_000.0)
        .call(Pipe, Poll, 65_536, 12_000.0)
        .call(Tcp, Block, 64, 15_000.0)
        .call(Tcp, Block, 65_536, 40_000.0)
}

fn names(advice: &Advice) -> Vec<String> {
    advice.ranking.iter().map(|one| one.candidate.to_string()).collect()
}

#[test]
fn the_fastest_that_meets_the_needs_is_chosen() {
    let world = usual();
    let choice = |needs: &[Need]| world.advise(&wanted(64, needs)).unwrap().choice.to_string();
    assert_eq!(choice(&[]), "shm spin");
    assert_eq!(choice(&[Need::SameCpuSafe]), "shm adaptive");
    assert_eq!(choice(&[Need::NoSpin]), "shm-futex block");
    // What adapts in a loop was not measured.
    assert_eq!(choice(&[Need::Pollable]), "pipe poll");
    assert_eq!(choice(&[Need::MultiMachine]), "tcp block");
}

#[test]
fn the_advice_has_all_that_a_program_needs() {
    let advice = usual().advise(&wanted(64, &[Need::NoSpin])).unwrap();
    assert_eq!(advice.address, "NAME?via=shm-futex&wait=block");
    assert_eq!(advice.server_address, "NAME?allow=shm-futex");
    // Most candidates were not measured.
    assert_eq!(advice.confidence, Confidence::Medium);
    let figure = advice.ranking[0].latency_ns.unwrap();
    assert!((figure.value - 5_000.0).abs() < 1e-6);
    assert!(figure.ci95.unwrap()[0] < 5_000.0 && figure.ci95.unwrap()[1] > 5_000.0);
    let second = advice.runner_up.as_ref().unwrap();
    assert_eq!(second.candidate.mechanism, Pipe);
    assert_eq!(second.wins[0], "with larger messages, as at 64 KiB");
    let spins = advice.excluded.iter().find(|one| one.candidate.to_string() == "shm adaptive");
    assert_eq!(spins.unwrap().by[0].requirement, "no-spin");
    assert!(advice.unmeasured.iter().any(|one| one.candidate.mechanism == UnixStream));
    let json = serde_json::to_string(&advice).unwrap();
    assert!(json.contains("\"schema\":\"nearcall.advice/1\""));
    let back: Advice = serde_json::from_str(&json).unwrap();
    assert_eq!((back.choice, back.address), (advice.choice, advice.address));
}

#[test]
fn sizes_between_are_read_off_and_said() {
    let advice = usual().advise(&wanted(1_024, &[Need::NoSpin])).unwrap();
    let ns = advice.ranking[0].latency_ns.unwrap().value;
    assert!(ns > 5_000.0 && ns < 15_000.0, "{ns}");
    assert!(advice.evidence.iter().any(|one| one.contains("doublings")), "{:?}", advice.evidence);
    assert!(advice.confidence < Confidence::High);
    let far = usual().advise(&wanted(1 << 20, &[])).unwrap_err();
    assert!(matches!(far, Refusal::Missing { .. }), "{far}");
}

#[test]
fn weights_decide_between_time_and_cpu() {
    let world = World::new()
        .call(Shm, Spin, 64, 300.0)
        .with(|cell| cell.cpu_ns_per_message.client = Some(90_000.0))
        .call(ShmFutex, Block, 64, 5_000.0);
    let choice = |text: &str| {
        let optimise = text.parse().unwrap();
        let requirements = Requirements { optimise, ..wanted(64, &[]) };
        world.advise(&requirements).unwrap().choice.to_string()
    };
    assert_eq!(choice("latency"), "shm spin");
    assert_eq!(choice("cpu"), "shm-futex block");
    assert_eq!(choice("latency=0.9,cpu=0.1"), "shm spin");
    assert_eq!(choice("latency=0.2,cpu=0.8"), "shm-futex block");
}

#[test]
fn a_disturbed_cell_is_judged_by_its_interval_and_never_left_out() {
    let noisy = |cell: &mut Cell| {
        cell.grade = Some(Grade::D);
        cell.rtt_ns.as_mut().unwrap().p50_ci95 = Some([890.0, 1_270.0]);
    };
    // Seen on a busy machine: all of the launches of what is best were disturbed.
    let world = World::new().call(Shm, Adaptive, 64, 1_060.0).with(noisy).call(
        Mechanism::Vmsplice,
        Block,
        64,
        20_200.0,
    );
    let advice = world.advise(&wanted(64, &[])).unwrap();
    assert_eq!(names(&advice), ["shm adaptive", "vmsplice block"]);
    assert!(advice.confidence < Confidence::High, "{:?}", advice.confidence);
    assert!(advice.warnings[0].contains("1 of 2 candidates"), "{:?}", advice.warnings);
    let text = text(&advice, Style::PLAIN);
    assert!(text.contains("  ! Something else ran on the CPUs of 1 of 2"), "{text}");
}

#[test]
fn percentiles_and_cpu_time_are_as_sure_as_their_own_launches() {
    let tails = |cell: &mut Cell| {
        cell.launch_p99s_ns = vec![10_000.0, 40_000.0, 20_000.0];
        cell.launch_cpu_ns = vec![700.0, 701.0, 699.0];
    };
    let world = World::new().call(Pipe, Block, 64, 5_000.0).with(tails);
    let first = &world.advise(&wanted(64, &[])).unwrap().ranking[0];
    let (p99, cpu) = (first.p99_ns.unwrap(), first.cpu_ns_per_message.unwrap());
    assert!((p99.value / 20_000.0 - 1.0).abs() < 1e-9 && p99.ci95.unwrap()[1] > 50_000.0);
    assert!((cpu.value / 700.0 - 1.0).abs() < 1e-3 && cpu.ci95.unwrap()[1] < 705.0, "{cpu:?}");
}

#[test]
fn what_was_dropped_after_a_first_look_is_no_choice() {
    let dropped = |cell: &mut Cell| cell.tags.push(evidence::FIRST_LOOK.to_owned());
    let world = World::new().call(Mechanism::Vmsplice, Block, 64, 20_200.0).with(dropped);
    let refusal = world.advise(&wanted(64, &[])).unwrap_err();
    assert!(matches!(refusal, Refusal::Missing { .. }), "{refusal}");
}

#[test]
fn what_is_here_to_be_measured_is_never_advised() {
    let world = World::new()
        .call(Mechanism::ShmMq, Block, 64, 1_000.0)
        .call(Mechanism::ShmCondvar, Block, 64, 1_100.0)
        .call(ShmFutex, Block, 64, 2_000.0)
        .call(Pipe, Block, 64, 9_000.0);
    let ranked = |clients| {
        let advice = world.advise(&Requirements { clients, ..wanted(64, &[]) }).unwrap();
        names(&advice)
    };
    assert_eq!(ranked(None), ["pipe block"]);
    assert_eq!(ranked(Some(3)), ["pipe block"]);
    assert_eq!(ranked(Some(1)), ["shm-futex block", "pipe block"]);
}

#[test]
fn no_stored_run_leads_to_what_exists_to_be_measured() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let mut advised = 0;
    for file in fs::read_dir(runs).unwrap() {
        let run = Run::load(&file.unwrap().path()).unwrap();
        for (message_bytes, pattern, placement) in [
            (8, Pattern::Call, Placement::Any),
            (8, Pattern::Call, Placement::SameCpu),
            (65_536, Pattern::OneWay, Placement::Any),
        ] {
            let requirements =
                Requirements { message_bytes, pattern, placement, ..Requirements::default() };
            let Ok(advice) = advise(&requirements, &[&run]) else { continue };
            advised += 1;
            for one in &advice.ranking {
                let mechanism = one.candidate.mechanism;
                assert!(!mechanism.measured_only(), "{mechanism}");
                assert!(!mechanism.one_client_in_a_loop(), "{mechanism}");
            }
        }
    }
    assert!(advised > 5, "{advised}");
}

#[test]
fn a_run_beside_other_programs_is_told_and_not_trusted() {
    let mut world = usual();
    world.run.warnings.push("Other programs keep 1.9 of 2 CPUs busy".to_owned());
    let advice = world.advise(&wanted(64, &[])).unwrap();
    assert_eq!(advice.confidence, Confidence::Low);
    assert_eq!(advice.warnings, ["Other programs keep 1.9 of 2 CPUs busy"]);
}

fn paced(rate_per_s: u32, kept: bool) -> impl FnOnce(&mut Cell) {
    move |cell| {
        cell.pace = Some(PaceFacts { rate_per_s, kept, ..PaceFacts::default() });
    }
}

#[test]
fn what_cannot_keep_the_rate_is_excluded() {
    let world = World::new()
        .call(Shm, Spin, 64, 400.0)
        .with(paced(10_000, true))
        .call(Pipe, Block, 64, 300.0)
        .with(paced(10_000, false))
        .call(Shm, Spin, 64, 300.0)
        .call(Pipe, Block, 64, 150_000.0);
    let at = |rate: f64| Requirements { rate_per_s: Some(rate), ..wanted(64, &[]) };
    let advice = world.advise(&at(10_000.0)).unwrap();
    assert_eq!(names(&advice), ["shm spin"]);
    let excluded = advice.excluded.iter().find(|one| one.candidate.mechanism == Pipe).unwrap();
    assert_eq!(excluded.by[0].requirement, "--rate");
    assert!(excluded.by[0].why.starts_with("cannot keep 10.0 k/s: does 6.67 k/s"), "{excluded:?}");
    let refusal = world.advise(&at(5e6)).unwrap_err();
    assert!(matches!(refusal, Refusal::TooSlow { .. }), "{refusal}");
}

#[test]
fn one_way_messages_are_judged_by_their_rate() {
    let stream = |mechanism, wait, rate: f64| {
        let mut cell = call(mechanism, wait, 64, 1e9 / rate);
        (cell.kind, cell.shape) = (Kind::Throughput, "one-way".to_owned());
        cell.definition = crate::run::Definition::OneWayThroughput;
        cell.rtt_ns = None;
        cell.messages_per_s = Some(rate);
        cell.messages_per_s_ci95 = Some([rate * 0.98, rate * 1.02]);
        cell
    };
    let mut world = World::new();
    world.run.cells = vec![stream(Pipe, Block, 1e6), stream(Shm, Adaptive, 4e6)];
    let requirements = Requirements {
        pattern: Pattern::OneWay,
        optimise: Weights::only(Objective::Throughput),
        ..wanted(64, &[])
    };
    let advice = world.advise(&requirements).unwrap();
    assert_eq!(names(&advice), ["shm adaptive", "pipe block"]);
    assert!((advice.ranking[1].cost_ratio - 4.0).abs() < 1e-9);
    let fast = Requirements { rate_per_s: Some(2e6), ..requirements };
    assert_eq!(names(&world.advise(&fast).unwrap()), ["shm adaptive"]);
}

#[test]
fn memory_is_that_of_an_idle_connection() {
    let mut world = usual();
    let rest = |mechanism: Mechanism, bytes: f64| AtRest {
        mechanism: mechanism.name().to_owned(),
        touched_bytes_per_connection: Some(bytes),
        launch_touched_bytes: vec![bytes],
        ..AtRest::default()
    };
    world.run.at_rest = vec![rest(Shm, 37_000.0), rest(Pipe, 12_000.0)];
    let optimise = Weights::only(Objective::Memory);
    let advice = world.advise(&Requirements { optimise, ..wanted(64, &[]) }).unwrap();
    assert_eq!(advice.choice.mechanism, Pipe);
}

#[test]
fn calls_and_plain_messages_are_never_compared() {
    let plain = |mechanism: Mechanism, ns| {
        let mut cell = call(mechanism, Block, 64, ns);
        (cell.call, cell.shape) = (None, "sink".to_owned());
        cell.wait = "block".to_owned();
        cell
    };
    let mut world = World::new().call(Shm, Spin, 64, 900.0).call(Pipe, Block, 64, 8_000.0);
    world.run.cells.push(plain(Tcp, 100.0));
    let advice = world.advise(&wanted(64, &[])).unwrap();
    assert_eq!(names(&advice), ["shm spin", "pipe block"]);
    assert!(advice.unmeasured.iter().any(|one| one.candidate.mechanism == Tcp));
}

#[test]
fn runs_of_two_machines_and_requirements_without_sense_are_refused() {
    let here = usual().run;
    let mut there = usual().run;
    there.machine.id = "there".to_owned();
    let refused = advise(&wanted(64, &[]), &[&here, &there]);
    assert_eq!(refused.unwrap_err(), Refusal::Machines);
    assert!(matches!(advise(&wanted(0, &[]), &[&here]), Err(Refusal::Requirements(_))));
    let needs = [Need::MultiMachine, Need::DescriptorPassing];
    let refusal = advise(&wanted(64, &needs), &[&here]).unwrap_err().to_string();
    assert!(refusal.starts_with("no mechanism does both descriptor-passing and multi-machine: "));
}

#[test]
fn the_choice_meets_all_needs_whatever_was_measured() {
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..200 {
        let mut world = World::new();
        for candidate in Candidate::all() {
            let ns = 300.0 * (10.0 * rng.f64()).exp2();
            world = world.call(candidate.mechanism, candidate.wait, 64, ns);
            if rng.u8(..) < 50 {
                world.run.cells.pop();
            }
        }
        let mut needs: Vec<Need> = Need::ALL.into_iter().filter(|_| rng.u8(..) < 60).collect();
        rng.shuffle(&mut needs);
        let requirements = wanted(64, &needs);
        let Ok(advice) = world.advise(&requirements) else { continue };
        assert_eq!(world.advise(&requirements).unwrap(), advice);
        for one in &advice.ranking {
            for need in &needs {
                assert_eq!(one.candidate.lacks(*need, &needs), None);
            }
        }
        // Chosen is what is fastest, or as good as.
        let ns = |one: &Ranked| one.latency_ns.unwrap().value;
        let best = advice.ranking.iter().map(ns).fold(f64::INFINITY, f64::min);
        assert!(ns(&advice.ranking[0]) <= best * rank::TIE_MAX, "{needs:?}");
    }
}

/// Launches that differ by 20 % on a machine that drifts by as much from round to round.
fn noisy_launches(rng: &mut fastrand::Rng, true_ns: f64, drift: &[f64]) -> Vec<f64> {
    let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
    drift.iter().map(|drift| true_ns * drift * (0.2 * normal()).exp()).collect()
}

#[test]
fn on_a_noisy_machine_the_choice_is_still_within_a_tenth_of_the_best() {
    let mut rng = fastrand::Rng::with_seed(40);
    let mut good = 0;
    for _ in 0..WORLDS {
        let drift: Vec<f64> = (0..18).map(|_| (rng.f64() - 0.5).exp()).collect();
        let mut world = World::new();
        let mut truth = Vec::new();
        for candidate in Candidate::all().into_iter().filter(|one| one.wait != Spin).take(8) {
            let true_ns = 10_000.0 * (2.0 * rng.f64()).exp2();
            let launches = noisy_launches(&mut rng, true_ns, &drift);
            let middle = crate::stats::median(&launches).unwrap();
            world = world.call(candidate.mechanism, candidate.wait, 64, middle);
            world.run.cells.last_mut().unwrap().launch_medians_ns = launches;
            truth.push((candidate, true_ns));
        }
        let choice = world.advise(&wanted(64, &[])).unwrap().choice;
        let best = truth.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
        let chosen = truth.iter().find(|one| one.0 == choice);
        good += usize::from(chosen.is_some_and(|one| one.1 <= best * 1.1));
    }
    assert!(good * 40 >= WORLDS * 36, "{good} of {WORLDS}");
}

const WORLDS: usize = 400;

#[test]
fn the_text_stays_as_it_is() {
    let found = text(
        &usual().advise(&wanted(64, &[Need::NoSpin, Need::Isolation])).unwrap(),
        Style::new(Some(100), false),
    );
    let expected = include_str!("golden.txt");
    assert!(found.lines().all(|line| line.chars().count() <= 100), "{found}");
    assert_eq!(found, expected, "\n{found}");
}
