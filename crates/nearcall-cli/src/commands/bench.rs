//! `nearcall bench`: plans and runs an experiment, stores the run and prints it.
//!
//! **Invariants:** what can be refused is refused before the first measurement.
//!
//! **Not here:** the measurement, which is `nearcall_bench`.

mod libraries;
mod measure;
mod memory;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nearcall_bench::bench_plan::{BenchPlan, Placement, RunOptions};
use nearcall_bench::experiment::Experiment;
use nearcall_bench::machine;
use nearcall_channel::Mechanism;
use nearcall_os::signal::Interrupt;
use nearcall_os::{clock, cpu};
use nearcall_results::report::table::table;
use nearcall_results::run::{Run, Tool, check_writable};

pub(super) use self::measure::{hooked, peer, program, studies};
use super::{End, Usage, command_line};
use crate::args::{BenchArgs, ExperimentArgs, Other, Pin, PlacementArg, RunArgs, Sizes};
use crate::output;
use crate::places;
use crate::terminal::style;

pub(super) fn run(args: &BenchArgs) -> anyhow::Result<End> {
    match args {
        BenchArgs::Experiment(experiment, args) => {
            let plan = plan(experiment, args, &command_line(), &Cpus::read()).map_err(Usage)?;
            measure_and_deliver(&args.run, |interrupt| {
                measure::experiment(experiment, &plan, interrupt)
            })
        }
        BenchArgs::Other(Other::Memory(args)) => memory::run(args),
        BenchArgs::Other(Other::Libraries(args)) => libraries::run(args),
    }
}

/// Measures, stores and prints a run. What was measured before an interruption is kept.
pub(super) fn measure_and_deliver(
    args: &RunArgs,
    measure: impl FnOnce(Interrupt) -> anyhow::Result<Run>,
) -> anyhow::Result<End> {
    let file = file_to_write(args)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let measured = measure(interrupt);
    let interrupted = interrupt.interrupted();
    let mut run = match measured {
        Err(error) if interrupted => {
            output::diagnostic(&format!("interrupted before anything was measured ({error:#})"));
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
        (false, true) => {
            bail!("nothing that was asked for could be measured; the run has the reasons")
        }
        (false, false) => Ok(End::Done),
    }
}

/// Stores the run, then prints it: a closed pipe must not cost what was measured.
fn deliver(run: &Run, args: &RunArgs, file: Option<&Path>) -> anyhow::Result<()> {
    let mut stored = Ok(());
    if let Some(file) = file {
        stored =
            run.save(file).with_context(|| format!("cannot store the run in {}", file.display()));
    }
    if args.output.format.json {
        output::json_text(&run.to_json())?;
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
fn file_to_write(args: &RunArgs) -> anyhow::Result<Option<PathBuf>> {
    let file = match &args.output.out {
        Some(file) => file.clone(),
        None if args.output.format.json => return Ok(None),
        None => places::new_run_file(clock::realtime_ns() / NS_PER_S),
    };
    let advice = if args.output.out.is_some() { "" } else { "; give a path by --out" };
    check_writable(&file)
        .with_context(|| format!("cannot store a run in {}{advice}", file.display()))?;
    Ok(Some(file))
}

/// Turns the options into a plan that contradicts neither itself nor this machine.
fn plan(
    experiment: &Experiment,
    args: &ExperimentArgs,
    arguments: &[OsString],
    cpus: &Cpus,
) -> Result<BenchPlan, String> {
    let workload = &args.workload;
    let plan = BenchPlan {
        kinds: experiment.kinds.to_vec(),
        mechanisms: match workload.every {
            true => Some(Mechanism::all().collect()),
            false => distinct(&workload.mechanism.mechanism),
        },
        sizes_bytes: workload.size.size.clone().map(|sizes| sizes.0),
        shapes: distinct(&workload.shape),
        waits: distinct(&workload.wait.wait),
        touch: workload.payload_access,
        buffer_bytes: workload.buffer.as_ref().map(buffer_bytes).transpose()?,
        allow_different_sizes: workload.allow_buffer_mismatch,
        callers: distinct(&workload.client),
        breakdown: workload.breakdown,
        streams: workload.streams,
        rates_per_s: distinct(&workload.rate),
        stall_ns: workload.stall,
        gaps_ns: distinct(&workload.gap),
        burst_messages: distinct(&workload.messages),
        clients: distinct(&workload.clients),
        threads: distinct(&workload.threads),
        loops: distinct(&workload.loops),
        options: RunOptions {
            load: workload.load.load,
            awake: workload.pm_qos.pm_qos,
            ..run_options(&args.run, workload.placement.placement, arguments, cpus)?
        },
    };
    (experiment.check)(&plan)?;
    Ok(plan)
}

/// One size, which is no larger than the largest message.
fn buffer_bytes(sizes: &Sizes) -> Result<u32, String> {
    match sizes.0[..] {
        [size] => u32::try_from(size).map_err(|error| format!("--buffer: {error}")),
        _ => Err("--buffer: give one size such as 64KiB".to_owned()),
    }
}

/// Returns the arguments without the program's name, for the record.
pub(super) fn arguments(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().skip(1).map(|one| one.to_string_lossy().into_owned()).collect()
}

/// Turns the options that all experiments have into those of the library.
pub(super) fn run_options(
    args: &RunArgs,
    place: Option<PlacementArg>,
    arguments: &[OsString],
    cpus: &Cpus,
) -> Result<RunOptions, String> {
    Ok(RunOptions {
        placement: placement(args.pin.pin, place, cpus)?,
        launches: args.launches,
        time_budget: args.time.time,
        quick: args.quick.quick,
        seed: args.seed.seed.unwrap_or_else(new_seed),
        arguments: self::arguments(arguments),
        ..RunOptions::default()
    })
}

/// Returns where `--pin` or `--placement` puts both ends.
///
/// # Errors
///
/// A text that names the option, if this machine or its settings do not permit that.
pub(super) fn placement(
    pin: Option<Pin>,
    place: Option<PlacementArg>,
    cpus: &Cpus,
) -> Result<Placement, String> {
    if let Some(pin) = pin {
        for cpu in [pin.client, pin.server] {
            cpus.check(cpu)?;
        }
        return Ok(Placement::Pin { client: pin.client, server: pin.server });
    }
    match place {
        None => Ok(Placement::Auto),
        Some(PlacementArg::Same) => Ok(Placement::Same),
        Some(PlacementArg::None) => Ok(Placement::None),
        Some(PlacementArg::Cross) if cpus.allowed.len() == 1 => {
            Err(format!("--placement cross needs two CPUs; allowed is only {}", cpus.ranges()))
        }
        Some(PlacementArg::Cross) => Ok(Placement::Cross),
    }
}

/// The CPUs of this machine and those that this program may use.
pub(super) struct Cpus {
    online: Vec<usize>,
    allowed: Vec<usize>,
}

impl Cpus {
    pub(super) fn read() -> Self {
        let online = machine::topology().cpus.iter().map(|cpu| cpu.number).collect();
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
        Err(format!("--pin: {what}; allowed: {}", self.ranges()))
    }

    /// The CPUs as ranges: "0-3,7".
    fn ranges(&self) -> String {
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
fn distinct<T: Clone + PartialEq>(items: &Option<Vec<T>>) -> Option<Vec<T>> {
    let mut kept: Vec<T> = Vec::new();
    for item in items.as_ref()? {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Some(kept)
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
    use clap::{Args, Command, FromArgMatches};
    use nearcall_results::run::Kind;

    use super::*;
    use crate::args::command;

    fn plan_of(line: &str, cpus: &Cpus) -> Result<BenchPlan, String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = command([BenchArgs::augment_args(Command::new("bench"))]);
        let parsed = command.try_get_matches_from(&arguments);
        let parsed = parsed.and_then(|it| BenchArgs::from_arg_matches(it.subcommand().unwrap().1));
        let Ok(BenchArgs::Experiment(experiment, args)) = parsed else {
            panic!("no plan in {line}")
        };
        plan(experiment, &args, &arguments, cpus)
    }

    fn two() -> Cpus {
        Cpus { online: vec![0, 1, 2], allowed: vec![0, 1] }
    }

    #[test]
    fn arguments_become_a_plan() {
        let found = plan_of(
            "nearcall bench latency --mechanism pipe,tcp,pipe --size 8,1KiB --shape sink \
             --wait poll,block --pin 1,0 --launches 7 --time 2m --quick --seed 5",
            &two(),
        );
        let found = found.unwrap();
        assert_eq!(found.kinds, [Kind::Latency]);
        assert_eq!(found.mechanisms.unwrap().len(), 2);
        assert_eq!(found.sizes_bytes.unwrap(), [8, 1_024]);
        let options = found.options;
        assert_eq!(options.placement, Placement::Pin { client: 1, server: 0 });
        assert_eq!((options.launches, options.seed, options.quick), (Some(7), 5, true));
        assert_eq!(options.time_budget.unwrap().as_secs(), 120);
        assert_eq!(options.arguments.len(), 19);
    }

    #[test]
    fn no_arguments_measure_everything() {
        let found = plan_of("nearcall bench", &two()).unwrap();
        let expected = BenchPlan {
            options: RunOptions {
                seed: found.options.seed,
                arguments: vec!["bench".to_owned()],
                ..RunOptions::default()
            },
            ..BenchPlan::default()
        };
        assert_eq!(found, expected);
        assert!(found.options.seed < SEEDS);
    }

    #[test]
    fn cpus_are_checked_before_measuring() {
        let refused = |line| plan_of(line, &two()).expect_err("refused");
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
        assert_eq!(many.ranges(), "0-2,4,6-7");
    }
}
