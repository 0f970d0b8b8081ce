//! Options of `nearcall bench` and of its experiments.
//!
//! **Invariants:** the experiments, their texts and the options of each are those of the table in
//! `nearcall_bench::experiment`. An option means the same in all of them, and one that an
//! experiment does not take is refused.

use std::ffi::OsString;

use clap::builder::RangedI64ValueParser;
use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use nearcall_bench::experiment::{ALL, ALL_KINDS, Experiment};
use nearcall_bench::touch::Touch;
use nearcall_results::route::Caller;
use nearcall_results::shape::Shape;

use super::options::{
    BackgroundLoadArgs, MechanismArgs, OutputArgs, PlacementArgs, PmQosArgs, QuickArgs, RunArgs,
    SizesArgs, WaitArgs,
};
use super::value::{self, Sizes};

/// What `bench` measures, with its options.
#[derive(Debug)]
pub(crate) enum BenchArgs {
    /// What becomes a run.
    Experiment(&'static Experiment, Box<ExperimentArgs>),
    /// What does not.
    Other(Other),
}

/// Measure mechanisms, calls and more between two processes
///
/// Without options: latency and throughput of every mechanism that works here, within 90
/// seconds. Each figure comes from several launches of two new, pinned processes, in random
/// order, beside the same exchange without nearcall (the floor). Prints a table and stores the
/// run.
///
/// Exit code: 0 done; 1 failure; 2 usage error; 130 interrupted, and what was measured until
/// then is kept and marked.
#[derive(Args)]
#[command(before_help = ALL_KINDS.examples)]
struct BenchHelp {}

impl Args for BenchArgs {
    fn augment_args(command: Command) -> Command {
        let command = with_options(&ALL_KINDS, command).args_conflicts_with_subcommands(true);
        let command = ALL.iter().fold(command, |command, one| command.subcommand(subcommand(one)));
        BenchHelp::augment_args(Other::augment_subcommands(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for BenchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Some((name, inner)) = matches.subcommand() else { return of(&ALL_KINDS, matches) };
        match ALL.iter().find(|one| one.name == name) {
            Some(experiment) => of(experiment, inner),
            None => Other::from_arg_matches(matches).map(Self::Other),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reads the options of an experiment; refuses those that it does not take.
fn of(experiment: &'static Experiment, matches: &ArgMatches) -> Result<BenchArgs, Error> {
    let is_given = |id: &&String| matches.value_source(id) == Some(ValueSource::CommandLine);
    if let Some(id) = not_taken(experiment).iter().find(is_given) {
        let text = format!(
            "unexpected argument '--{}' found: `bench {}` does not take it\n",
            id.replace('_', "-"),
            experiment.name
        );
        return Err(Error::raw(ErrorKind::UnknownArgument, text));
    }
    let args = ExperimentArgs::from_arg_matches(matches)?;
    Ok(BenchArgs::Experiment(experiment, Box::new(args)))
}

fn subcommand(experiment: &'static Experiment) -> Command {
    let long = match experiment.details {
        "" => experiment.summary.to_owned(),
        details => format!("{}\n\n{details}", experiment.summary),
    };
    with_options(experiment, Command::new(experiment.name))
        .about(experiment.summary)
        .long_about(long)
        .before_help(experiment.examples)
}

/// Adds all options and hides those that the experiment does not take.
fn with_options(experiment: &Experiment, command: Command) -> Command {
    let command = ExperimentArgs::augment_args(command);
    let hide = |command: Command, id| command.mut_arg(id, |option| option.hide(true));
    not_taken(experiment).into_iter().fold(command, hide)
}

/// The options that other experiments have and this one has not.
fn not_taken(experiment: &Experiment) -> Vec<String> {
    let all = WorkloadArgs::augment_args(Command::new("all"));
    let ids = all.get_arguments().map(|option| option.get_id().to_string());
    ids.filter(|id| !experiment.options.contains(&id.as_str())).collect()
}

/// What is measured that does not become a run.
#[derive(Debug, Subcommand)]
pub(crate) enum Other {
    /// Measure the memory of idle connections, or of services
    ///
    /// A server in an event loop and its clients, two processes, with up to 1,000 idle
    /// connections. Reports proportional and private memory. By default over shm, unix-stream and
    /// pipe. Takes about a quarter of a minute.
    ///
    /// --setups measures 1 to 20 services instead, in each of the ways in which nearcall runs them:
    /// as processes, as libraries of one host or of a host each, and linked into one program. For
    /// each: memory, also by what can still be allocated in steps of 1 KiB below a limit of the
    /// program, start-up time, and the cost of a call between two of the services.
    #[command(before_help = MEMORY_EXAMPLES)]
    Memory(MemoryArgs),

    /// Measure other libraries beside nearcall
    ///
    /// Runs the program `nearcall-peers`, which lies beside this program or is named by the
    /// variable NEARCALL_PEERS, with all arguments. Its exit code is passed on. It is built by
    /// `cargo build --release -p nearcall-peers`; once it is there, `nearcall bench libraries
    /// --help` prints its options.
    #[command(
        before_help = LIBRARIES_EXAMPLES,
        disable_help_flag = true
    )]
    Libraries(LibrariesArgs),
}

/// Options of experiments.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// What to measure; each experiment takes some of these.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    /// Every mechanism [default: one of each kind, unless a size or --quick is given]
    #[arg(long, conflicts_with = "mechanism")]
    pub(crate) every: bool,

    #[command(flatten)]
    pub(crate) size: SizesArgs,

    /// Clients: blocking (no loop), loop, async (tokio), same-loop, typed, bytes (direct)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value::client())]
    pub(crate) client: Option<Vec<Caller>>,

    /// Exchanges per second [default: 1000,10000,100000]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = up_to(RATE_MAX))]
    pub(crate) rate: Option<Vec<u32>>,

    /// Self-test: stall the server for this long, such as 100ms, again and again
    ///
    /// The stalls take a tenth of the time. In the open loop the p99 rises to about their length,
    /// since all that was due meanwhile is late; in the closed loop neither median nor p99 shows
    /// it.
    #[arg(long, value_name = "TIME", value_parser = value::stall_ns)]
    pub(crate) stall: Option<u64>,

    /// Gaps of 0 to 1s [default: 0,10us,100us,1ms,10ms,100ms]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value::gap_ns)]
    pub(crate) gap: Option<Vec<u64>>,

    /// Messages of a burst [default: 1,8,64,512]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = up_to(BURST_MAX))]
    pub(crate) messages: Option<Vec<u32>>,

    /// Clients at once [default: 1,4,16,64,256]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = up_to(CLIENTS_MAX))]
    pub(crate) clients: Option<Vec<u32>>,

    /// Threads at once [default: 1,2,4,8]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = up_to(CLIENTS_MAX))]
    pub(crate) threads: Option<Vec<u32>>,

    /// Event loops of the server [default: 1,2]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = up_to(LOOPS_MAX))]
    pub(crate) loops: Option<Vec<u32>>,

    /// Reply in latency cells: the same payload (echo) or none (sink)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value::shape())]
    pub(crate) shape: Option<Vec<Shape>>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// Show where the time of one empty call goes, part by part
    #[arg(long)]
    pub(crate) breakdown: bool,

    /// Measure items of streams beside one-way calls, of 8 bytes and 1 MiB or --size
    #[arg(long, conflicts_with = "breakdown")]
    pub(crate) streams: bool,

    /// Bytes of the payload that are written and read: full, header, none
    #[arg(
        long,
        value_name = "PART",
        default_value = "full",
        hide_default_value = true,
        value_parser = value::payload_access()
    )]
    pub(crate) payload_access: Touch,

    /// Channel buffer per direction, such as 64KiB; another size fails the cell
    #[arg(long, value_name = "SIZE")]
    pub(crate) buffer: Option<Sizes>,

    /// Measure also where the buffer differs from --buffer
    #[arg(long, requires = "buffer")]
    pub(crate) allow_buffer_mismatch: bool,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) pm_qos: PmQosArgs,
}

/// A parser of counts of at least one.
fn up_to(max: i64) -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=max)
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Measure services as processes, as libraries, and linked
    ///
    /// `cargo build --release` builds the service that is measured, as a program and as a library,
    /// beside this program; the variable NEARCALL_BENCH_SERVICE names another directory.
    #[arg(long, conflicts_with = "mechanism")]
    pub(crate) setups: bool,

    /// Show where the memory of a service, of a host and of a library lies, and what for
    #[arg(long, conflicts_with_all = ["mechanism", "setups", "quick"])]
    pub(crate) map: bool,

    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    #[command(flatten)]
    pub(crate) quick: QuickArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `bench libraries`.
#[derive(Debug, Args)]
pub(crate) struct LibrariesArgs {
    /// Arguments of nearcall-peers
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

const MEMORY_EXAMPLES: &str = "\
Examples:
  nearcall bench memory                          all of it, within half a minute
  nearcall bench memory --quick                  up to 100 connections
  nearcall bench memory --mechanism shm,tcp --out memory.json
  nearcall bench memory --setups --out setups.json
  nearcall bench memory --map                    where it lies, and what for
  nearcall show setups.json
  nearcall bench memory --json | jq '.connections[] | .per_connection'";

const LIBRARIES_EXAMPLES: &str = "\
Examples:
  nearcall bench libraries                       all that can be measured here
  nearcall bench libraries --quick --size 0,64,64KiB --out libraries.json
  nearcall bench libraries --help                the options of nearcall-peers
  NEARCALL_PEERS=target/release/nearcall-peers nearcall bench libraries";

/// A server takes 2048 connections of one user, and one of them is that of the runner; some are
/// left for others.
const CLIENTS_MAX: i64 = 2_000;

/// More loops than CPUs take them from each other, and no machine has more.
const LOOPS_MAX: i64 = 1_024;

/// A longer burst is a throughput, which `bench throughput` measures.
const BURST_MAX: i64 = 100_000;

/// Faster, reading the clock would be most of it.
const RATE_MAX: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_table_exists() {
        let all = WorkloadArgs::augment_args(Command::new("all"));
        let ids: Vec<&str> = all.get_arguments().map(|option| option.get_id().as_str()).collect();
        for experiment in ALL {
            for option in experiment.options {
                assert!(ids.contains(option), "{experiment:?}: {option}");
            }
        }
    }
}
