//! The blind test of the advice, by real measurements: `cargo xtask advise-check`.
//!
//! **Invariants:** the evidence of the advisor is measured before the evidence of the test, and
//! apart from it; what was done before Ctrl-C is printed.
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

use nearcall_bench::advise::{Effort, measure, place, specs};
use nearcall_bench::bench_plan::{BenchPlan, How};
use nearcall_bench::peer;
use nearcall_bench::runner::{Hooks, Program, bench_specs};
use nearcall_os::signal::Interrupt;
use nearcall_os::{clock, cpu};
use nearcall_results::advise::{Candidate, Requirements, advise};
use nearcall_results::report::lines::Style;
use nearcall_results::run::Run;

use self::check::{CheckedSet, Chosen, Parts, Stage, check, sets, table};

const USAGE: &str = "\
usage: advise_check [--sets N] [--seed N,...] [--time SECONDS] [--json] [RUN.json ...]
  --sets N          random sets of requirements (40)
  --seed N,...      what they are drawn from, in turn (1)
  --time SECONDS    for all of them (36 for each)
  --json            print the result as nearcall.advice-check/1
  RUN.json          what the advisor goes by; without one it measures for each set";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments == [PEER] {
        return end(peer::run().map(|()| ExitCode::SUCCESS), 1);
    }
    match Wanted::parse(&arguments) {
        Ok(wanted) => end(run(&wanted, arguments), 1),
        Err(error) => end(Err(format!("{error}\n{USAGE}")), 2),
    }
}

/// The exit code; an error is printed first.
fn end(outcome: Result<ExitCode, String>, failure: u8) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        report(&format!("error: {error}"));
        ExitCode::from(failure)
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
            match word.as_str() {
                "--sets" => wanted.sets = number(word, rest.next().map_or("", String::as_str))?,
                "--seed" => {
                    let seeds = rest.next().map_or("", String::as_str).split(',');
                    wanted.seeds =
                        seeds.map(|seed| number(word, seed)).collect::<Result<_, _>>()?;
                }
                "--time" => {
                    let seconds = number(word, rest.next().map_or("", String::as_str))?;
                    wanted.time = Some(Duration::from_secs(seconds));
                }
                "--json" => wanted.json = true,
                _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ => wanted.runs.push(word.clone()),
            }
        }
        match wanted.sets {
            1..=SETS_MAX => Ok(wanted),
            other => Err(format!("--sets {other}: give 1 to {SETS_MAX}")),
        }
    }
}

fn number<T: str::FromStr>(option: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{option} {word}: give a number"))
}

fn run(wanted: &Wanted, arguments: Vec<String>) -> Result<ExitCode, String> {
    let load = |file: &String| Run::load(Path::new(file)).map_err(|e| format!("{file}: {e}"));
    let runs = wanted.runs.iter().map(load).collect::<Result<Vec<Run>, String>>()?;
    let interrupt = Interrupt::install().map_err(|e| format!("cannot listen for Ctrl-C: {e}"))?;
    let count = usize::try_from(wanted.sets).unwrap_or(usize::MAX);
    let sets = sets(&wanted.seeds, count, cpu::allowed().len());
    let budget = wanted.time.unwrap_or(SET_TIME * wanted.sets);
    let until_ns = clock::monotonic_ns().saturating_add(ns(budget));
    let tester = Tester { seed: wanted.seeds[0], runs: &runs, arguments, interrupt };
    // Shared by the measurements of a set and the advisor's.
    let left = Cell::new(wanted.sets);
    let left_ns = || until_ns.saturating_sub(clock::monotonic_ns());
    let set_time = || Duration::from_nanos(left_ns()) / left.get().max(1);
    let current = Cell::new(Duration::ZERO);
    let checked = check(
        &wanted.seeds,
        &sets,
        &mut Parts {
            advise: &mut |requirements| {
                current.set(set_time());
                tester.advise(requirements, current.get().mul_f64(SHARE_EVIDENCE))
            },
            measure: &mut |requirements, candidates, stage| {
                tester.measure(requirements, candidates, stage, current.get())
            },
            done: &mut |set| {
                left.set(left.get().saturating_sub(1));
                report(&progress(set, wanted.sets));
            },
            interrupted: &|| interrupt.interrupted(),
        },
    );
    let text = match wanted.json {
        true => serde_json::to_string_pretty(&checked).map_err(|e| e.to_string())? + "\n",
        false => table(&checked, Style::PLAIN),
    };
    io::stdout().write_all(text.as_bytes()).map_err(|e| format!("cannot print: {e}"))?;
    match (interrupt.interrupted(), checked.passed) {
        (true, _) => Ok(ExitCode::from(INTERRUPTED)),
        (false, true) => Ok(ExitCode::SUCCESS),
        (false, false) => Err(format!(
            "the advice did not pass: {} of {count} choices are near the best",
            checked.scores[0].near
        )),
    }
}

struct Tester<'a> {
    seed: u64,
    /// What the advisor goes by; none: a measurement for each set.
    runs: &'a [Run],
    arguments: Vec<String>,
    interrupt: Interrupt,
}

impl Tester<'_> {
    /// Runs what starts processes, with this program as the second one.
    fn hooked<T>(&self, run: impl FnOnce(&Hooks<'_>) -> T) -> T {
        let interrupted = || self.interrupt.interrupted();
        run(&Hooks { interrupted: &interrupted, ..Hooks::new(Program::current(&[PEER])) })
    }

    fn advise(&self, requirements: &Requirements, time: Duration) -> Result<Candidate, String> {
        let advice = if self.runs.is_empty() {
            let effort = Effort {
                time_budget: time.max(TIME_MIN),
                seed: self.seed,
                arguments: self.arguments.clone(),
            };
            let run = self.hooked(|hooks| measure(requirements, &effort, hooks));
            let run = run.map_err(|error| error.to_string())?;
            advise(requirements, &[&run])
        } else {
            advise(requirements, &self.runs.iter().collect::<Vec<_>>())
        };
        advice.map(|advice| advice.choice).map_err(|refusal| refusal.to_string())
    }

    fn measure(
        &self,
        requirements: &Requirements,
        candidates: &[Candidate],
        stage: Stage,
        set_time: Duration,
    ) -> Result<Run, String> {
        let (share, launches, seed) = match stage {
            Stage::Screening => (SHARE_SCREENING, LAUNCHES_SCREENING, SEED_SCREENING),
            Stage::Selection => (SHARE_SELECTION, LAUNCHES_SELECTION, SEED_SELECTION),
            Stage::Confirmation if requirements.optimise.p99 > 0.0 => {
                (SHARE_CONFIRMATION, LAUNCHES_P99, SEED_CONFIRMATION)
            }
            Stage::Confirmation => (SHARE_CONFIRMATION, LAUNCHES_CONFIRMATION, SEED_CONFIRMATION),
        };
        let how = How {
            placement: place(requirements.placement),
            load: requirements.load,
            launches: Some(launches),
            time_budget: Some(set_time.mul_f64(share).max(TIME_MIN)),
            // Not those of the evidence.
            seed: self.seed ^ seed,
            arguments: self.arguments.clone(),
            ..How::default()
        };
        let plan = BenchPlan { how, ..BenchPlan::default() };
        let cells = specs(requirements, candidates);
        let run = self.hooked(|hooks| bench_specs(&plan, &cells, hooks));
        run.map_err(|error| error.to_string())
    }
}

fn progress(set: &CheckedSet, all: u32) -> String {
    let found = match set.advised() {
        Some(Chosen { candidate, ratio: Some(ratio), .. }) => {
            format!("{candidate}: {ratio:.2} times the best of the others")
        }
        _ => set.problem.clone().unwrap_or_default(),
    };
    let word = if set.ok { "ok" } else { "NOT OK" };
    format!("set {} of {all}: {word}: {found}", set.number)
}

fn report(line: &str) {
    // Without standard error nobody reads it, and the exit code still counts.
    let _ = writeln!(io::stderr(), "{line}");
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The argument by which this program becomes an end of a measurement.
const PEER: &str = "peer-process";

/// Sets of requirements: a hundred hours.
const SETS_MAX: u32 = 10_000;

/// The exit code of programs that end by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Forty sets within twenty-five minutes.
const SET_TIME: Duration = Duration::from_secs(36);

/// Less measures nothing.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Of the time of a set, for what the advisor goes by.
const SHARE_EVIDENCE: f64 = 0.4;

/// For the first look at all candidates.
const SHARE_SCREENING: f64 = 0.15;

/// For the chosen and the best of the others.
const SHARE_SELECTION: f64 = 0.15;

/// For the chosen and the very best.
const SHARE_CONFIRMATION: f64 = 0.3;

/// Two launches show which are among the best.
const LAUNCHES_SCREENING: u32 = 2;

/// Rounds enough to find the best.
const LAUNCHES_SELECTION: u32 = 9;

/// Launches of one mechanism differ by up to half, so a median of ratios to within a tenth needs
/// some dozens.
const LAUNCHES_CONFIRMATION: u32 = 31;

/// A launch has to be long enough for a 99th percentile.
const LAUNCHES_P99: u32 = 11;

/// Other payloads and another order than those of the evidence.
const SEED_SCREENING: u64 = 0x5eed_0001;
const SEED_SELECTION: u64 = 0x5eed_0002;
const SEED_CONFIRMATION: u64 = 0x5eed_0003;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_full_or_refused() {
        let parse = |text: &str| {
            Wanted::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let usual = parse("").unwrap();
        assert_eq!((usual.sets, usual.seeds, usual.time), (40, vec![1], None));
        let all = parse("--sets 3 a.json --seed 9,11 --time 60 --json b.json").unwrap();
        assert_eq!((all.sets, all.seeds, all.json, all.runs.len()), (3, vec![9, 11], true, 2));
        assert_eq!(all.time, Some(Duration::from_secs(60)));
        for (text, message) in [
            ("--sets", "--sets : give a number"),
            ("--seed 1,x", "--seed x: give a number"),
            ("--sets 0", "--sets 0: give 1 to 10000"),
            ("--seed -1", "--seed -1: give a number"),
            ("--check 3", "unknown option --check"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
    }
}
