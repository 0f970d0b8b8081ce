//! The blind test of the advice, by real measurements: `cargo xtask advise-check`.
//!
//! **Invariants:** the evidence of the advisor is measured before the evidence of the test, and
//! apart from it; a seed gives the same requirements again; what was done before Ctrl-C is printed.
//!
//! **Not here:** the judgement (`check.rs`).
#![forbid(unsafe_code)]

mod check;

use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, str};

use fastrand::Rng;
use nearcall_bench::advise::{Effort, candidates, measure, place, specs};
use nearcall_bench::bench_plan::{BenchPlan, RunOptions};
use nearcall_bench::peer;
use nearcall_bench::runner::{Program, RunContext, bench_specs};
use nearcall_os::signal::Interrupt;
use nearcall_os::{clock, cpu};
use nearcall_results::advise::{
    Need, Objective, Pattern, Placement, Requirements, Weights, advise, command,
};
use nearcall_results::load::Load;
use nearcall_results::run::Run;

use self::check::{Checked, Chosen, Parts, Stage, check};

const USAGE: &str = "\
usage: advise_check [--sets N] [--seed N,...] [--time SECONDS] [--json] [RUN.json ...]
  --sets N          random sets of requirements (40)
  --seed N,...      what they are drawn from, in turn (1)
  --time SECONDS    for all of them (36 for each)
  --json            print the result as nearcall.advice-check/2
  RUN.json          what the advisor goes by; without one it measures for each set";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments == [PEER] {
        true => peer::run().map(|()| ExitCode::SUCCESS),
        false => match Wanted::parse(&arguments) {
            Ok(wanted) => run(&wanted, &arguments),
            Err(error) => {
                report(&format!("error: {error}\n{USAGE}"));
                Ok(ExitCode::from(2))
            }
        },
    };
    outcome.unwrap_or_else(|error| {
        report(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
struct Wanted {
    sets: u32,
    seeds: Vec<u64>,
    /// For all of it; `None`: [`SET_TIME`] for each set.
    time: Option<Duration>,
    json: bool,
    /// Files of the runs that the advisor goes by; none: a measurement for each set.
    runs: Vec<String>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut wanted =
            Self { sets: 40, seeds: vec![1], time: None, json: false, runs: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().map_or("", String::as_str);
            match word.as_str() {
                "--sets" => wanted.sets = number(word, value())?,
                "--seed" => {
                    let seeds = value().split(',').map(|seed| number(word, seed));
                    wanted.seeds = seeds.collect::<Result<_, _>>()?;
                }
                "--time" => wanted.time = Some(Duration::from_secs(number(word, value())?)),
                "--json" => wanted.json = true,
                _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ => wanted.runs.push(word.clone()),
            }
        }
        match wanted.sets {
            // More than a hundred hours.
            0 | 10_001.. => Err(format!("--sets {}: give 1 to 10000", wanted.sets)),
            _ => Ok(wanted),
        }
    }
}

fn number<T: str::FromStr>(option: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{option} {word}: give a number"))
}

fn run(wanted: &Wanted, arguments: &[String]) -> Result<ExitCode, String> {
    let load = |file: &String| Run::load(Path::new(file)).map_err(|e| format!("{file}: {e}"));
    let runs = wanted.runs.iter().map(load).collect::<Result<Vec<Run>, String>>()?;
    let interrupt = Interrupt::install().map_err(|e| format!("cannot listen for Ctrl-C: {e}"))?;
    let interrupted = || interrupt.interrupted();
    let context =
        || RunContext { interrupted: &interrupted, ..RunContext::new(Program::current(&[PEER])) };
    let sets = sets(&wanted.seeds, wanted.sets as usize, cpu::allowed().len());
    let budget = wanted.time.unwrap_or(SET_TIME * wanted.sets);
    let begin_ns = clock::monotonic_ns();
    let spent = || Duration::from_nanos(clock::monotonic_ns().saturating_sub(begin_ns));
    // Shared by the measurements of a set and the advisor's.
    let (left, set_time) = (Cell::new(wanted.sets), Cell::new(Duration::ZERO));
    let seed = wanted.seeds[0];
    let parts = &mut Parts {
        advise: &mut |requirements| {
            set_time.set(budget.saturating_sub(spent()) / left.get().max(1));
            let time_budget = set_time.get().mul_f64(SHARE_EVIDENCE).max(TIME_MIN);
            let advice = if runs.is_empty() {
                let effort = Effort { time_budget, seed, arguments: arguments.to_vec() };
                let run = measure(requirements, &effort, &context());
                advise(requirements, &[&run.map_err(|error| error.to_string())?])
            } else {
                advise(requirements, &runs.iter().collect::<Vec<_>>())
            };
            advice.map(|advice| advice.choice).map_err(|refusal| refusal.to_string())
        },
        measure: &mut |requirements, candidates, stage| {
            let (share, launches, stage_seed) = extent(stage, requirements);
            let options = RunOptions {
                placement: place(requirements.placement),
                load: requirements.load,
                launches: Some(launches),
                time_budget: Some(set_time.get().mul_f64(share).max(TIME_MIN)),
                // Other payloads and another order than those of the evidence.
                seed: seed ^ stage_seed,
                arguments: arguments.to_vec(),
                ..RunOptions::default()
            };
            let plan = BenchPlan { options, ..BenchPlan::default() };
            let run = bench_specs(&plan, &specs(requirements, candidates), &context());
            run.map_err(|error| error.to_string())
        },
        done: &mut |set| {
            left.set(left.get().saturating_sub(1));
            let found = match set.advised() {
                Some(Chosen { candidate, ratio: Some(ratio), .. }) => {
                    format!("{candidate}: {ratio:.2} times the best of the others")
                }
                _ => set.problem.clone().unwrap_or_default(),
            };
            let word = if set.ok { "ok" } else { "NOT OK" };
            report(&format!("set {} of {}: {word}: {found}", set.number, wanted.sets));
        },
        interrupted: &interrupted,
    };
    let checked = check(&wanted.seeds, &sets, parts);
    let text = match wanted.json {
        true => serde_json::to_string_pretty(&checked).map_err(|e| e.to_string())? + "\n",
        false => table(&checked),
    };
    io::stdout().write_all(text.as_bytes()).map_err(|e| format!("cannot print: {e}"))?;
    match (interrupted(), checked.passed) {
        (true, _) => Ok(ExitCode::from(130)),
        (false, true) => Ok(ExitCode::SUCCESS),
        (false, false) => Err("the advice did not pass".to_owned()),
    }
}

/// A stage's share of the time of a set, its launches and its seed.
fn extent(stage: Stage, requirements: &Requirements) -> (f64, u32, u64) {
    match stage {
        // Two launches show which are among the best.
        Stage::Screening => (0.15, 2, 0x5eed_0001),
        Stage::Selection => (0.15, 9, 0x5eed_0002),
        // A launch has to be long enough for a 99th percentile.
        Stage::Confirmation if requirements.optimise.p99 > 0.0 => (0.3, 11, 0x5eed_0003),
        // Launches of one mechanism differ by up to half, so a median of ratios to within a tenth
        // needs some dozens.
        Stage::Confirmation => (0.3, 31, 0x5eed_0003),
    }
}

/// Random requirements that at least two candidates meet, from the seeds in turn, for a machine
/// with so many CPUs that may be used.
fn sets(seeds: &[u64], count: usize, cpus: usize) -> Vec<Requirements> {
    let mut rngs: Vec<Rng> = seeds.iter().map(|seed| Rng::with_seed(*seed)).collect();
    let mut sets = Vec::new();
    while sets.len() < count {
        let turn = sets.len() % rngs.len();
        let set = draw(&mut rngs[turn], cpus);
        if set.check().is_ok() && candidates(&set).0.len() >= 2 {
            sets.push(set);
        }
    }
    sets
}

fn draw(rng: &mut Rng, cpus: usize) -> Requirements {
    let message_bytes = logarithmic(rng, MESSAGE_BYTES_MAX);
    let pattern = if rng.u8(0..4) == 0 { Pattern::OneWay } else { Pattern::Call };
    let reply_bytes = match (pattern, rng.u8(0..10)) {
        (Pattern::OneWay, _) | (Pattern::Call, 0..4) => None,
        (Pattern::Call, 4..7) => Some(message_bytes),
        (Pattern::Call, _) => Some(logarithmic(rng, MESSAGE_BYTES_MAX)),
    };
    let optimise = match rng.u8(0..20) {
        0..9 => Weights::only(Objective::Latency),
        9..11 => Weights::only(Objective::P99),
        11..14 => Weights::only(Objective::Throughput),
        14..17 => Weights::only(Objective::Cpu),
        _ => Weights { latency: 0.7, cpu: 0.3, ..Weights::default() },
    };
    let all_bytes = message_bytes + reply_bytes.unwrap_or(0);
    // A rate that no candidate keeps up shows nothing, and few exchanges have no 99th percentile.
    let rate_max = (BYTES_PER_S_MAX / all_bytes).clamp(RATE_PER_S_MIN, RATE_PER_S_MAX);
    let rate = RATE_PER_S_MIN * logarithmic(rng, RATE_PER_S_MAX / RATE_PER_S_MIN);
    let has_rate = rng.u8(0..10) < 4 && optimise.p99 == 0.0;
    let placement = match (cpus, rng.u8(0..10)) {
        (0..2, _) => Placement::SameCpu,
        (_, 0..6) => Placement::Cross,
        (_, 6..9) => Placement::SameCpu,
        (_, _) => Placement::Any,
    };
    let mut needs = Need::ALL.to_vec();
    rng.shuffle(&mut needs);
    // More than three leave nothing to choose.
    needs.truncate(rng.usize(0..=3));
    Requirements {
        message_bytes,
        reply_bytes,
        rate_per_s: has_rate.then(|| rate.min(rate_max) as f64),
        pattern,
        placement,
        // Enough to be noticed; the ends still get their CPUs.
        load: if rng.u8(0..10) == 0 { Load::duty(30) } else { Load::default() },
        needs,
        clients: None,
        optimise,
    }
}

/// Each doubling from 1 to `max` is as likely as any other.
fn logarithmic(rng: &mut Rng, max: u64) -> u64 {
    let octave = rng.u32(0..=max.max(1).ilog2());
    let low = 1_u64 << octave;
    rng.u64(low..=(2 * low - 1).min(max.max(1)))
}

/// Two lines for each set, one for each way to choose, and the verdict.
fn table(checked: &Checked) -> String {
    let ratio = |one: Option<f64>| one.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let mut lines = Vec::new();
    for set in &checked.sets {
        let wanted = command(&set.requirements).replace("nearcall advise ", "");
        lines.push(format!("{:>3}  {wanted}; {} candidates", set.number, set.candidates));
        let of = |one: &Option<Chosen>| match one {
            Some(one) => {
                let other = one.best_other.map_or("-".to_owned(), |other| other.to_string());
                let ci95 = one.ratio_ci95;
                let ci95 = ci95.map(|[low, high]| format!(" ({low:.2} to {high:.2})"));
                let interval = ci95.unwrap_or_default();
                format!("{} {}{interval} of {other}", one.candidate, ratio(one.ratio))
            }
            None => "-".to_owned(),
        };
        let word = if set.ok { "ok" } else { "NOT OK" };
        let chosen: Vec<String> = set.chosen.iter().map(of).collect();
        lines.push(format!("     {word}: {}", chosen.join("; ")));
        lines.extend(set.violations.iter().chain(&set.problem).map(|text| format!("     {text}")));
    }
    let seeds: Vec<String> = checked.seeds.iter().map(u64::to_string).collect();
    lines.push(format!(
        "\nseeds {}; each choice with its cost to that of the best of all others: of the advice, \
         always shm adaptive, a random candidate",
        seeds.join(", ")
    ));
    let ratio_max = checked.ratio_max;
    lines.extend(checked.scores.iter().map(|one| {
        format!(
            "{}: {} of {} cost at most {ratio_max} times the best others ({} certainly, {} \
             certainly not); mean {}, worst {}",
            one.chooser,
            one.near,
            one.judged,
            one.surely_near,
            one.surely_worse,
            ratio(one.mean_ratio),
            ratio(one.worst_ratio)
        )
    }));
    let all = checked.sets.len();
    if checked.partial {
        lines.push(format!("interrupted: {all} of {} sets", checked.sets_asked));
    }
    let verdict = if checked.passed { "passed" } else { "FAILED" };
    let (near, violated) = (checked.scores[0].near, checked.violated);
    lines.push(format!(
        "{near} of {all} choices cost at most {ratio_max} times the best; {violated} lack a need: \
         {verdict}\n"
    ));
    lines.join("\n")
}

fn report(line: &str) {
    // Without standard error it has no reader, and the exit code still counts.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The argument by which this program becomes an end of a measurement.
const PEER: &str = "peer-process";

/// Forty sets within twenty-five minutes.
const SET_TIME: Duration = Duration::from_secs(36);

/// Less measures nothing.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Of the time of a set, for what the advisor goes by.
const SHARE_EVIDENCE: f64 = 0.4;

/// Larger messages take most of the time and are seldom sent.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

const RATE_PER_S_MIN: u64 = 100;
const RATE_PER_S_MAX: u64 = 50_000;

/// A tenth of what memory moves.
const BYTES_PER_S_MAX: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_full_or_refused() {
        let parse = |text: &str| {
            Wanted::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let all = parse("--sets 3 a.json --seed 9,11 --time 60 --json b.json").unwrap();
        assert_eq!((all.sets, all.seeds, all.json, all.runs.len()), (3, vec![9, 11], true, 2));
        for (text, message) in [
            ("--sets", "--sets : give a number"),
            ("--seed 1,x", "--seed x: give a number"),
            ("--sets 0", "--sets 0: give 1 to 10000"),
            ("--check 3", "unknown option --check"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_sets_again_and_another_one_others() {
        let (first, again) = (sets(&[1], 40, 2), sets(&[1], 40, 2));
        assert_eq!(first, again);
        assert_ne!(first, sets(&[2], 40, 2));
        let both = sets(&[1, 2], 4, 2);
        assert_eq!((&both[2], &both[3]), (&first[1], &sets(&[2], 2, 2)[1]));
        let has = |is: fn(&Requirements) -> bool| first.iter().any(is);
        assert!(has(|set| set.message_bytes < 64) && has(|set| set.message_bytes > 64 << 10));
        assert!(has(|set| set.needs.len() > 1) && has(|set| set.rate_per_s.is_some()));
        assert!(sets(&[3], 10, 1).iter().all(|set| set.placement == Placement::SameCpu));
    }
}
