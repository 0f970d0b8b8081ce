//! `nearcall bench`: makes a plan of the words, measures, stores the run and prints it.
//!
//! Always true: what can be refused is refused before the first measurement. What is measured how
//! is `nearcall_bench`'s.

mod budgets;
mod calls;
mod matrix;
mod measure;
pub(super) mod memory;
mod rivals;
mod traffic;
mod waits;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use nearcall_bench::bench_plan::{BenchPlan, How, Place};
use nearcall_bench::report::table::table;
use nearcall_bench::run::{Kind, Run, Tool, check_writable};
use nearcall_bench::studies::reproduce::StudiesPlan;
use nearcall_os::signal::Interrupt;
use nearcall_os::{clock, cpu};

pub(super) use self::measure::hooked;
use super::{End, Usage};
use crate::args::{BenchArgs, BenchCommand, HowArgs, KindWord, Pin, PlaceWord, Sizes};
use crate::output;
use crate::places;
use crate::terminal::style;

pub(super) fn run(args: &BenchArgs, words: &[OsString]) -> anyhow::Result<End> {
    match &args.what {
        Some(BenchCommand::Calls(args)) => return calls::run(args, words),
        Some(BenchCommand::Budgets(args)) => return budgets::run(args, words),
        Some(BenchCommand::Waits(args)) => return waits::run(args, words),
        Some(BenchCommand::Memory(args)) => return memory::run(args),
        Some(BenchCommand::Matrix(args)) => return matrix::run(args, words),
        Some(BenchCommand::Pace(args)) => return traffic::pace(args, words),
        Some(BenchCommand::Gap(args)) => return traffic::gap(args, words),
        Some(BenchCommand::Burst(args)) => return traffic::burst(args, words),
        Some(BenchCommand::Clients(args)) => return traffic::clients(args, words),
        Some(BenchCommand::Start(args)) => return traffic::start(args, words),
        Some(BenchCommand::Rivals(args)) => return rivals::run(args),
        None => {}
    }
    let plan = plan(args, words, &Cpus::read()).map_err(Usage)?;
    measure_and_deliver(&args.how, |interrupt| measure::measure(&plan, interrupt))
}

/// Measures, stores and prints; what was measured before an interruption is kept.
pub(super) fn measure_and_deliver(
    args: &HowArgs,
    measure: impl FnOnce(Interrupt) -> anyhow::Result<Run>,
) -> anyhow::Result<End> {
    let file = file_to_write(args)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let measured = measure(interrupt);
    let interrupted = interrupt.interrupted();
    let mut run = match measured {
        Err(error) if interrupted => {
            output::aside(&format!("interrupted before anything was measured ({error:#})"));
            return Ok(End::Interrupted);
        }
        measured => measured?,
    };
    run.tool = tool();
    if cfg!(debug_assertions) {
        run.warnings.push(
            "a debug build: nearcall's own part is far slower than in a release build".to_owned(),
        );
    }
    if interrupted && !run.partial {
        run.mark_partial("interrupted");
    }
    deliver(&run, args, file.as_deref())?;
    let is_empty = run.cells.is_empty() && run.study_cells.is_empty();
    match (interrupted, is_empty) {
        (true, _) => Ok(End::Interrupted),
        (false, true) => bail!("nothing that was asked for could be measured; the run says why"),
        (false, false) => Ok(End::Done),
    }
}

/// Repeats studies; shows progress; ends early when interrupted.
pub(super) fn measure_studies(plan: &StudiesPlan, interrupt: Interrupt) -> anyhow::Result<Run> {
    measure::measure_studies(plan, interrupt)
}

/// What the second process runs.
pub(super) fn peer() -> ExitCode {
    measure::peer()
}

/// Stores the run, then prints it: a closed pipe must not cost what was measured.
fn deliver(run: &Run, args: &HowArgs, file: Option<&Path>) -> anyhow::Result<()> {
    let mut stored = Ok(());
    if let Some(file) = file {
        stored =
            run.save(file).with_context(|| format!("cannot store the run in {}", file.display()));
    }
    if args.json {
        output::result(&(run.to_json() + "\n"))?;
    } else {
        let mut text = table(run, style());
        if let (Some(file), Ok(())) = (file, &stored) {
            text.push_str(&format!("\nRun stored in {}\n", file.display()));
        }
        output::result(&text)?;
    }
    stored
}

/// Where the run goes; tried before measuring. `None`: only to standard output.
fn file_to_write(args: &HowArgs) -> anyhow::Result<Option<PathBuf>> {
    let file = match &args.out {
        Some(file) => file.clone(),
        None if args.json => return Ok(None),
        None => places::new_run_file(clock::realtime_ns() / NS_PER_S),
    };
    let advice = if args.out.is_some() { "" } else { "; give a path by --out" };
    check_writable(&file)
        .with_context(|| format!("cannot store a run in {}{advice}", file.display()))?;
    Ok(Some(file))
}

fn plan(args: &BenchArgs, words: &[OsString], cpus: &Cpus) -> Result<BenchPlan, String> {
    Ok(BenchPlan {
        kinds: match args.kind {
            KindWord::Latency => vec![Kind::Latency],
            KindWord::Throughput => vec![Kind::Throughput],
            KindWord::All => vec![Kind::Latency, Kind::Throughput],
        },
        mechanisms: args.mechanism.clone().map(distinct),
        sizes_bytes: args.sizes.clone().map(|sizes| sizes.0),
        shapes: args.shape.clone().map(distinct),
        waits: args.wait.clone().map(distinct),
        touch: args.rules.touch,
        buffer_bytes: args.rules.buffer.as_ref().map(buffer_bytes).transpose()?,
        allow_different_sizes: args.rules.allow_different_sizes,
        how: How {
            load: args.load.load,
            awake: args.rules.quiet.awake,
            ..how(&args.how, args.place.placement, words, cpus)?
        },
    })
}

/// One size, which is no larger than the largest message.
fn buffer_bytes(sizes: &Sizes) -> Result<u32, String> {
    match sizes.0[..] {
        [size] => u32::try_from(size).map_err(|error| format!("--buffer: {error}")),
        _ => Err("--buffer: give one size".to_owned()),
    }
}

/// The words without the program's name, for the record.
pub(super) fn arguments(words: &[OsString]) -> Vec<String> {
    words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Where and how to measure, of the words that all kinds of measurement have.
pub(super) fn how(
    args: &HowArgs,
    word: Option<PlaceWord>,
    words: &[OsString],
    cpus: &Cpus,
) -> Result<How, String> {
    Ok(How {
        placement: place_of(args.pin, word, cpus)?,
        launches: args.launches,
        time_budget: args.time,
        quick: args.quick,
        seed: args.seed.unwrap_or_else(new_seed),
        arguments: arguments(words),
        ..How::default()
    })
}

/// Where `--pin` or `--placement` puts both ends, if they can be there.
pub(super) fn place_of(
    pin: Option<Pin>,
    word: Option<PlaceWord>,
    cpus: &Cpus,
) -> Result<Place, String> {
    if let Some(pin) = pin {
        for cpu in [pin.client, pin.server] {
            cpus.check(cpu)?;
        }
        return Ok(Place::Pin { client: pin.client, server: pin.server });
    }
    match word {
        None => Ok(Place::Auto),
        Some(PlaceWord::Same) => Ok(Place::Same),
        Some(PlaceWord::None) => Ok(Place::None),
        Some(PlaceWord::Cross) if cpus.allowed.len() == 1 => {
            Err(format!("--placement cross needs two CPUs; allowed is only {}", cpus.words()))
        }
        Some(PlaceWord::Cross) => Ok(Place::Cross),
    }
}

/// The CPUs of this machine and those that this program may use.
pub(super) struct Cpus {
    online: Vec<usize>,
    allowed: Vec<usize>,
}

impl Cpus {
    pub(super) fn read() -> Self {
        let online = cpu::Topology::read().cpus.iter().map(|cpu| cpu.number).collect();
        Self { online, allowed: cpu::allowed() }
    }

    fn check(&self, cpu: u32) -> Result<(), String> {
        let number = usize::try_from(cpu).unwrap_or(usize::MAX);
        if self.allowed.contains(&number) {
            return Ok(());
        }
        let what = match self.online.contains(&number) {
            true => format!("this program may not run on CPU {cpu}"),
            false => format!("there is no CPU {cpu}"),
        };
        Err(format!("--pin: {what}; allowed: {}", self.words()))
    }

    /// "0-3,7".
    fn words(&self) -> String {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &cpu in &self.allowed {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let word = |(first, last): (usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        ranges.into_iter().map(word).collect::<Vec<_>>().join(",")
    }
}

/// Each item once, in the order given.
fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// A seed that differs from run to run and is easy to type again.
pub(super) fn new_seed() -> u64 {
    clock::realtime_ns() / NS_PER_MS % SEEDS
}

pub(super) fn tool() -> Tool {
    Tool {
        version: format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("NEARCALL_COMMIT")),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        compiler: env!("NEARCALL_COMPILER").to_owned(),
    }
}

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Seeds that are chosen for the user are below this.
const SEEDS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    fn plan_of(words: &str, cpus: &Cpus) -> Result<BenchPlan, String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let Ok(Command::Bench(args)) = args::parse(words.iter().cloned()) else {
            panic!("no plan in {words:?}");
        };
        plan(&args, &words, cpus)
    }

    fn two() -> Cpus {
        Cpus { online: vec![0, 1, 2], allowed: vec![0, 1] }
    }

    #[test]
    fn words_become_a_plan() {
        let found = plan_of(
            "nearcall bench latency --mechanism pipe,tcp,pipe --sizes 8,1KiB --shape sink \
             --wait poll,block --pin 1,0 --launches 7 --time 2m --quick --seed 5",
            &two(),
        );
        let found = found.unwrap();
        assert_eq!(found.kinds, [Kind::Latency]);
        assert_eq!(found.mechanisms.unwrap().len(), 2);
        assert_eq!(found.sizes_bytes.unwrap(), [8, 1_024]);
        let how = found.how;
        assert_eq!(how.placement, Place::Pin { client: 1, server: 0 });
        assert_eq!((how.launches, how.seed, how.quick), (Some(7), 5, true));
        assert_eq!(how.time_budget.unwrap().as_secs(), 120);
        assert_eq!(how.arguments.len(), 19);
    }

    #[test]
    fn no_words_are_the_tour() {
        let found = plan_of("nearcall bench", &two()).unwrap();
        let expected = BenchPlan {
            how: How {
                seed: found.how.seed,
                arguments: vec!["bench".to_owned()],
                ..How::default()
            },
            ..BenchPlan::default()
        };
        assert_eq!(found, expected);
        assert!(found.how.seed < SEEDS);
    }

    #[test]
    fn cpus_are_checked_before_measuring() {
        let refused = |words| plan_of(words, &two()).expect_err("refused");
        assert_eq!(
            refused("nearcall bench --pin 0,2"),
            "--pin: this program may not run on CPU 2; allowed: 0-1"
        );
        assert_eq!(refused("nearcall bench --pin 9,0"), "--pin: there is no CPU 9; allowed: 0-1");
        let one = Cpus { online: vec![0, 1, 2, 4], allowed: vec![4] };
        let refused = plan_of("nearcall bench --placement cross", &one).expect_err("refused");
        assert_eq!(refused, "--placement cross needs two CPUs; allowed is only 4");
        assert!(plan_of("nearcall bench --pin 4,4", &one).is_ok());
        let many = Cpus { online: Vec::new(), allowed: vec![0, 1, 2, 4, 6, 7] };
        assert_eq!(many.words(), "0-2,4,6-7");
    }
}
