//! Words of the command line, and the typed commands that they mean.
//!
//! Always true: what leaves this file was judged as far as words alone can be: names exist, sizes
//! lie within the limits, lists are not empty. What depends on the machine (`--pin`) is judged in
//! `commands/bench.rs`.

mod advise;
mod compare;
mod data;
mod load;
mod matrix;
mod profile;
mod report;
mod reproduce;
mod rules;
pub(crate) mod traffic;
mod value;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use nearcall_bench::bench_plan::Shape;
use nearcall_bench::calls::route::Caller;
use nearcall_bench::plan::MESSAGE_BYTES_MAX;
use nearcall_channel::{Mechanism, WaitPolicy};

pub(crate) use self::advise::AdviseArgs;
pub(crate) use self::compare::CompareArgs;
pub(crate) use self::data::{
    AddArgs, DataArgs, DataCommand, ExportArgs, ImportArgs, ListArgs, MergeArgs, WhichArgs,
};
pub(crate) use self::load::LoadArgs;
pub(crate) use self::matrix::MatrixArgs;
pub(crate) use self::profile::ProfileArgs;
pub(crate) use self::report::ReportArgs;
pub(crate) use self::reproduce::ReproduceArgs;
use self::rules::RulesArgs;
use self::traffic::{
    BURST_EXAMPLES, BurstArgs, CLIENTS_EXAMPLES, ClientsArgs, GAP_EXAMPLES, GapArgs, PACE_EXAMPLES,
    PaceArgs, START_EXAMPLES, StartArgs,
};
pub(crate) use self::value::{Pin, Sizes};

/// Reads the words, the program's name first.
///
/// # Errors
///
/// Clap's: also help and version are "errors", whose text goes to standard output.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    Words::try_parse_from(words).map(|words| words.command)
}

/// Measures what every Linux IPC mechanism costs between two processes of this machine.
#[derive(Debug, Parser)]
#[command(
    name = "nearcall",
    version = VERSION,
    help_template = TEMPLATE,
    before_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

/// One verb with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure mechanisms between two processes, print a table and store the run
    ///
    /// Without options: a tour of every mechanism that works here, within 90 seconds. Each figure
    /// comes from several launches of two new, pinned processes, in random order, and stands beside
    /// the same exchange without nearcall (the floor).
    ///
    /// Exit code: 0 done; 1 something failed; 2 wrong words; 130 interrupted, and what was measured
    /// until then is kept and marked.
    #[command(
        help_template = TEMPLATE,
        before_help = BENCH_EXAMPLES,
        verbatim_doc_comment
    )]
    Bench(Box<BenchArgs>),

    /// Repeat published studies of IPC here, and tell which of their claims hold
    ///
    /// Each study by its own protocol: mechanisms with their synchronisation, sizes, counts,
    /// statistic, placement and load. Prints the paper's figures beside this machine's by the
    /// paper's statistic and by ours, and a verdict on each claim: CONFIRMED, REFUTED, INCONCLUSIVE
    /// or SKIPPED, with the evidence. All five within a quarter of an hour.
    #[command(
        help_template = TEMPLATE,
        before_help = reproduce::EXAMPLES,
        verbatim_doc_comment
    )]
    Reproduce(Box<ReproduceArgs>),

    /// Tell where the time of one message goes: system calls, copies, switches, stacks
    ///
    /// System calls are counted by ptrace, copies by the bytes that those moved. Switches, faults
    /// and CPU time come from an undisturbed run. Hardware counters and stacks only where they are
    /// permitted; else it says how to permit them.
    #[command(
        help_template = TEMPLATE,
        before_help = profile::EXAMPLES,
        verbatim_doc_comment
    )]
    Profile(Box<ProfileArgs>),

    /// Advise a mechanism for what is wanted, by measuring it here, with the reasons
    ///
    /// Excludes what lacks a need, measures all that is left by calls of the wanted size, rate,
    /// placement and load, and ranks it. Prints the address to put into the program, the expected
    /// figures with their intervals, and when the runner-up would be better.
    ///
    /// Exit code: 0 advised; 1 refused, as needs contradict each other, evidence is missing, or the
    /// machine was too noisy; 2 wrong words; 130 interrupted.
    #[command(
        help_template = TEMPLATE,
        before_help = advise::EXAMPLES,
        verbatim_doc_comment
    )]
    Advise(Box<AdviseArgs>),

    /// List the mechanisms: how data travels, how a sleeper is woken, what works here
    #[command(help_template = TEMPLATE, before_help = MECHANISMS_EXAMPLES)]
    Mechanisms(JsonArgs),

    /// Print the table of a stored run again
    #[command(help_template = TEMPLATE, before_help = SHOW_EXAMPLES)]
    Show(ShowArgs),

    /// Make one page of stored runs: figures, tables, what is fast and what to use
    ///
    /// One HTML file that needs nothing else and no network. Runs of one machine complete each
    /// other, those of several stand side by side and are never averaged. Runs that mean different
    /// things by the same words are refused.
    #[command(
        help_template = TEMPLATE,
        before_help = report::EXAMPLES,
        verbatim_doc_comment
    )]
    Report(ReportArgs),

    /// Tell whether a later run differs from an earlier one: slower, faster, no difference
    ///
    /// Cells that measured the same are judged by their launches, corrected for the number of
    /// cells; what is smaller than --min-effect does not matter. Where launches vary too much it
    /// says "cannot tell", and how many would be needed. Runs of two machines are compared as
    /// machines; runs that mean different things are refused.
    ///
    /// Exit code: 0 compared; 1 slower by --fail-if-slower, refused, or too noisy to say anything;
    /// 2 wrong words.
    #[command(
        help_template = TEMPLATE,
        before_help = compare::EXAMPLES,
        verbatim_doc_comment
    )]
    Compare(CompareArgs),

    /// Keep runs of many machines in a folder, as plain files that can be sent to others
    ///
    /// Each run lies in the folder of its machine, under a name that follows from its content. Runs
    /// of different machines are never averaged. For questions to many runs there are CSV and
    /// Parquet, one row per cell.
    #[command(
        help_template = TEMPLATE,
        before_help = data::EXAMPLES,
        arg_required_else_help = true,
        verbatim_doc_comment
    )]
    Data(DataArgs),

    /// Compare clock_gettime, gettimeofday and the processor's counter, as two studies did
    ///
    /// What a reading costs, what it tells apart, how far known sleeps are off, whether the clocks
    /// agree over the same spans, and how far those of two CPUs are apart. The counter is refused,
    /// with the reason, where it cannot be trusted. Takes about four seconds.
    #[command(
        help_template = TEMPLATE,
        before_help = TIMERS_EXAMPLES,
        verbatim_doc_comment
    )]
    Timers(TimersArgs),

    /// Tell what this machine lacks or has badly set for IPC and measuring, and what to do
    #[command(help_template = TEMPLATE, before_help = DOCTOR_EXAMPLES)]
    Doctor(JsonArgs),

    /// Generate Rust from .proto files: messages, and what calls and serves each service
    ///
    /// Writes one file per package, and only if it would change; the packages that the files import
    /// are generated too. In a build script, use the crate nearcall-build instead.
    #[command(help_template = TEMPLATE, before_help = GEN_EXAMPLES, verbatim_doc_comment)]
    Gen(GenArgs),

    /// The second process of a measurement; started by `bench` itself
    #[command(name = "peer-process", hide = true)]
    PeerProcess,

    /// A process whose memory is measured; started by `bench memory` itself
    #[command(name = "memory-process", hide = true)]
    MemoryProcess,
}

/// Options of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_help_heading = "Or")]
pub(crate) struct BenchArgs {
    /// What to measure: latency, throughput or all
    #[arg(value_name = "KIND", default_value = "all", hide_possible_values = true)]
    pub(crate) kind: KindWord,

    /// Mechanisms, separated by commas; see `nearcall mechanisms`
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) mechanism: Option<Vec<Mechanism>>,

    /// Payload sizes from 1 byte to 4 MiB, such as 8,1KiB,64KiB,1MiB
    #[arg(long, value_name = "LIST", allow_negative_numbers = true, help_heading = WHAT)]
    pub(crate) sizes: Option<Sizes>,

    /// What comes back in latency cells: the same (echo) or nothing (sink)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::shape(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) shape: Option<Vec<Shape>>,

    /// How both ends wait: adaptive, spin, block (a call), poll (epoll)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    #[command(flatten)]
    pub(crate) how: HowArgs,

    #[command(subcommand)]
    pub(crate) what: Option<BenchCommand>,
}

/// What `bench` measures beside mechanisms.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure calls of the runtime beside what they move on the bare channel
    ///
    /// A fake server in an event loop does no work. Empty calls, one-way calls and calls with an
    /// argument go to it over every mechanism: from a client that blocks without a loop, from one
    /// in a loop, and from within the server's own loop; the short circuits are measured too. The
    /// ratio tells what marshalling, dispatch and event loop cost: the bare exchange beside it has
    /// the same bytes and the same way to wait at each end, in the same two processes.
    #[command(
        help_template = TEMPLATE,
        before_help = CALLS_EXAMPLES,
        verbatim_doc_comment
    )]
    Calls(CallsArgs),

    /// Measure what calls cost against what they may cost: each budget beside its floor
    ///
    /// Every figure and the floor that it is judged by come from the same run: interleaved launches
    /// of new processes on two pinned CPUs, or on one where a row says so. The ratio is the median
    /// over launches of the ratios of one round. Servers at rest are judged too: CPU time,
    /// wake-ups, threads, memory.
    #[command(
        help_template = TEMPLATE,
        before_help = BUDGETS_EXAMPLES,
        verbatim_doc_comment
    )]
    Budgets(BudgetsArgs),

    /// Measure latency and CPU time of calls at 10 to 100,000 per second, by how both ends wait
    ///
    /// A client makes calls at set times; a time counts from when its call should have begun.
    /// Across two CPUs and on one. What adapts stands beside the better of spinning and sleeping.
    #[command(
        help_template = TEMPLATE,
        before_help = WAITS_EXAMPLES,
        verbatim_doc_comment
    )]
    Waits(WaitsArgs),

    /// Measure what idle connections and services take of memory
    ///
    /// A server in an event loop and its clients, two processes, with up to 1,000 connections that
    /// say nothing; then two services as two processes and as one. Proportional and private memory,
    /// and as a second opinion what can still be allocated in steps of 1 KiB, within a limit of the
    /// program's own. Takes about half a minute.
    #[command(
        help_template = TEMPLATE,
        before_help = MEMORY_EXAMPLES,
        verbatim_doc_comment
    )]
    Memory(MemoryArgs),

    /// Measure from every CPU to every other, in both directions
    ///
    /// The client runs on one CPU and the server on another; mechanisms that need not spin are also
    /// measured with both ends on the same. A table for each mechanism, and a line for each class
    /// of pairs: threads of one core, cores of one cache, memory nodes. On machines with many CPUs
    /// the time decides how many pairs of each class are measured, and the table says so.
    #[command(
        help_template = TEMPLATE,
        before_help = matrix::EXAMPLES,
        verbatim_doc_comment
    )]
    Matrix(MatrixArgs),

    /// Measure exchanges that are due at a constant rate (open loop) beside a closed loop
    ///
    /// A time counts from when its exchange was due, so what holds it up counts for all that were
    /// due meanwhile; a closed loop would count it once. A cell fails that did not begin 99.9 % of
    /// its exchanges in time.
    #[command(
        help_template = TEMPLATE,
        before_help = PACE_EXAMPLES,
        verbatim_doc_comment
    )]
    Pace(PaceArgs),

    /// Measure how the latency grows when messages are rare, by the gap between them
    ///
    /// After each round trip the client leaves a gap: below 100 µs it is busy until the gap is
    /// over, from there on it sleeps. Both ends cool down meanwhile, as in a program with little
    /// to do.
    #[command(
        help_template = TEMPLATE,
        before_help = GAP_EXAMPLES,
        verbatim_doc_comment
    )]
    Gap(GapArgs),

    /// Measure bursts: some messages right after each other, until all are answered
    ///
    /// The server reads all of a burst and replies once. What does not fit in the channel waits
    /// until the server has read some of it.
    #[command(
        help_template = TEMPLATE,
        before_help = BURST_EXAMPLES,
        verbatim_doc_comment
    )]
    Burst(BurstArgs),

    /// Measure one server with 1 to 256 clients that all call without a pause
    ///
    /// Each client is a thread with a connection of its own; the server is one event loop that
    /// does no work. Tells calls per second, their latency, CPU time, and how fair it is.
    #[command(
        help_template = TEMPLATE,
        before_help = CLIENTS_EXAMPLES,
        verbatim_doc_comment
    )]
    Clients(ClientsArgs),

    /// Measure how long setting up, the first message and tearing down take
    ///
    /// Many launches of new processes, and in each some connections one after the other: the first
    /// of each is cold and told apart from the others.
    #[command(
        help_template = TEMPLATE,
        before_help = START_EXAMPLES,
        verbatim_doc_comment
    )]
    Start(StartArgs),

    /// Measure other libraries beside nearcall, by the program nearcall-peers
    ///
    /// Runs the program `nearcall-peers` that lies beside this one, or the one that the variable
    /// NEARCALL_PEERS names, with all that follows. Its exit code is passed on.
    #[command(
        help_template = TEMPLATE,
        before_help = RIVALS_EXAMPLES,
        disable_help_flag = true,
        verbatim_doc_comment
    )]
    Rivals(RivalsArgs),
}

/// Options of `bench budgets`.
#[derive(Debug, Args)]
pub(crate) struct BudgetsArgs {
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// Options of `bench waits`.
#[derive(Debug, Args)]
pub(crate) struct WaitsArgs {
    /// How both ends wait: those of spin, block and adaptive that shall be measured
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Mechanisms, separated by commas [default: shm,unix-stream,pipe]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) mechanism: Option<Vec<Mechanism>>,

    /// Give up accuracy for speed: up to 100 connections, fewer rounds
    #[arg(long, help_heading = HOW)]
    pub(crate) quick: bool,

    /// Store the findings here as JSON too
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(crate) out: Option<PathBuf>,

    /// Print one JSON document (nearcall.memory/1) instead of the table
    #[arg(long, help_heading = RESULT)]
    pub(crate) json: bool,
}

/// What `bench rivals` passes on.
#[derive(Debug, Args)]
pub(crate) struct RivalsArgs {
    /// Words for nearcall-peers; `--help` tells which
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Options of `bench calls`.
#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Mechanisms, separated by commas; see `nearcall mechanisms`
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) via: Option<Vec<Mechanism>>,

    /// Who calls: blocking (no loop), loop, same-loop, typed, bytes (direct)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::caller(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) caller: Option<Vec<Caller>>,

    /// Argument sizes from 1 byte to 1 MiB, such as 1KiB,64KiB, beside empty calls
    #[arg(long, value_name = "LIST", allow_negative_numbers = true, help_heading = WHAT)]
    pub(crate) size: Option<Sizes>,

    /// How the client waits: adaptive, spin, block (in a call), poll (in its loop)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    /// Tell for each mechanism where the time of one empty call goes, part by part
    #[arg(long, help_heading = WHAT)]
    pub(crate) breakdown: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// Where both ends run, for what is measured in one place only.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Both ends on the same CPU, cross CPUs, or not pinned (none)
    #[arg(
        long,
        value_name = "PLACE",
        hide_possible_values = true,
        conflicts_with = "pin",
        help_heading = WHERE
    )]
    pub(crate) placement: Option<PlaceWord>,
}

/// Where, how long, and what becomes of the result: the same for all that is measured.
#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Pin the client and the server to these CPUs
    #[arg(
        long,
        value_name = "CLIENT,SERVER",
        allow_negative_numbers = true,
        help_heading = WHERE
    )]
    pub(crate) pin: Option<Pin>,

    /// Launches of new processes per figure [default: 3 to 10, by what is measured]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=LAUNCHES_MAX),
        help_heading = HOW
    )]
    pub(crate) launches: Option<u32>,

    /// How long all may take, such as 30s, 2m or plain seconds
    #[arg(
        long,
        value_name = "BUDGET",
        allow_negative_numbers = true,
        value_parser = value::budget,
        help_heading = HOW
    )]
    pub(crate) time: Option<Duration>,

    /// Give up accuracy for speed: fewer launches and sizes, less time
    #[arg(long, help_heading = HOW)]
    pub(crate) quick: bool,

    /// Decides the order of launches and the payloads [default: a new one each time]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = HOW)]
    pub(crate) seed: Option<u64>,

    /// Store the run here [default: a new file in the data directory of nearcall]
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(crate) out: Option<PathBuf>,

    /// Print the run as one JSON document (nearcall.run/1) instead of the table
    ///
    /// Stores it in a file only if --out is given too.
    #[arg(long, help_heading = RESULT)]
    pub(crate) json: bool,
}

/// Options of verbs that have no others.
#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `timers`.
#[derive(Debug, Args)]
pub(crate) struct TimersArgs {
    /// Give up accuracy for speed: one second
    #[arg(long)]
    pub(crate) quick: bool,

    /// Store the findings here as JSON too
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Print one JSON document (nearcall.timers/1) instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A run that `bench` has stored
    #[arg(value_name = "RUN.json")]
    pub(crate) file: PathBuf,

    /// Print every cell with its interval and its marks
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,

    /// Print the run as one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `gen`.
#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Interface files, as paths or as names within an include folder
    #[arg(value_name = "FILE.proto", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The folder to write to; made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Where imports are; repeatable [default: the folder of each file]
    #[arg(long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,

    /// A method that answers later, as package.Service.Method; repeatable
    #[arg(long, value_name = "METHOD")]
    pub(crate) answer_later: Vec<String>,

    /// Print one JSON document instead of the list
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindWord {
    /// Round trips, one at a time
    Latency,
    /// As much as fits, one way
    Throughput,
    /// Both
    All,
}

/// Where both ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceWord {
    /// Both on one CPU
    Same,
    /// On two CPUs
    Cross,
    /// Not pinned
    None,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NEARCALL_COMMIT"), ")");

/// Examples come first: most people look for one.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}";

const EXAMPLES: &str = "\
Examples:
  nearcall bench                                 measure this machine, within 90 seconds
  nearcall bench latency --mechanism pipe,shm-futex --sizes 8,64KiB
  nearcall bench calls                           what calls cost beside the bare channel
  nearcall bench budgets                         what calls cost beside what they may cost
  nearcall bench pace                            open loop at constant rates
  nearcall advise --size 4KiB --needs pollable   which mechanism to use here, and why
  nearcall profile shm-futex                     where the time of one message goes
  nearcall reproduce all                         five published studies, and which claims hold here
  nearcall mechanisms                            what there is, and what works here
  nearcall timers                                what the clocks are good for
  nearcall doctor                                what to set before measuring
  nearcall show RUN.json                         the table of a stored run
  nearcall report RUN.json -o report.html        one page: figures, tables, what to use
  nearcall compare BEFORE.json AFTER.json        whether a later run differs
  nearcall data add RUN.json                     keep it among the runs of many machines
  nearcall gen thermostat.proto --out src        Rust from an interface file";

const BENCH_EXAMPLES: &str = "\
Examples:
  nearcall bench                                 everything, within 90 seconds
  nearcall bench --quick                         a first look
  nearcall bench latency --mechanism pipe,unix-stream --sizes 8,1KiB --time 30s
  nearcall bench latency --mechanism shm-spin --wait spin --pin 0,1
  nearcall bench throughput --sizes 64KiB --launches 10 --out run.json
  nearcall bench --json | jq '.cells[] | [.mechanism, .rtt_ns.p50]'";

const CALLS_EXAMPLES: &str = "\
Examples:
  nearcall bench calls                           all of it, within two minutes
  nearcall bench calls --quick                   a first look
  nearcall bench calls --via shm-futex,unix-stream --size 1KiB,1MiB
  nearcall bench calls --caller typed,bytes      the short circuits
  nearcall bench calls --breakdown --via unix-stream
  nearcall bench calls --json | jq '.cells[] | [.mechanism, .call.ratio_to_bare]'";

const BUDGETS_EXAMPLES: &str = "\
Examples:
  nearcall bench budgets                         all of it, within 90 seconds
  nearcall bench budgets --quick                 a first look
  nearcall bench budgets --pin 0,1 --launches 10 --time 5m --out budgets.json
  nearcall bench budgets --json | jq '.budgets[] | [.what, .value, .budget, .verdict]'";

const WAITS_EXAMPLES: &str = "\
Examples:
  nearcall bench waits                           all of it, within three minutes
  nearcall bench waits --quick                   a first look, without the slowest pace
  nearcall bench waits --wait block --time 1m --out waits.json
  nearcall bench waits --json | jq '.waits[] | [.class, .rate_per_s, .latency_ratio]'";

const MEMORY_EXAMPLES: &str = "\
Examples:
  nearcall bench memory                          all of it, within half a minute
  nearcall bench memory --quick                  a first look, up to 100 connections
  nearcall bench memory --mechanism shm,tcp --out memory.json
  nearcall bench memory --json | jq '.connections[] | [.mechanism, .per_connection]'";

const RIVALS_EXAMPLES: &str = "\
Examples:
  nearcall bench rivals                          all that nearcall-peers can measure here
  nearcall bench rivals --help                   the words of nearcall-peers
  NEARCALL_PEERS=target/release/nearcall-peers nearcall bench rivals";

const MECHANISMS_EXAMPLES: &str = "\
Examples:
  nearcall mechanisms
  nearcall mechanisms --json | jq -r '.mechanisms[] | select(.supported) | .name'";

const SHOW_EXAMPLES: &str = "\
Examples:
  nearcall show run.json
  nearcall show --all run.json | less
  nearcall show run.json --json | jq '.machine'";

const TIMERS_EXAMPLES: &str = "\
Examples:
  nearcall timers
  nearcall timers --quick                        a first look
  nearcall timers --json | jq '.clocks[] | [.name, .overhead.mean_ns, .granularity_ns]'
  nearcall timers --json | jq '.skew.pairs[] | [.cpus, .tsc.bound_ns]'";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  nearcall doctor
  nearcall doctor --json | jq -r '.findings[] | select(.severity == \"warning\") | .advice'";

const GEN_EXAMPLES: &str = "\
Examples:
  nearcall gen thermostat.proto --out src/generated
  nearcall gen home/v1/thermostat.proto --include proto --out src/generated
  nearcall gen thermostat.proto --out src --answer-later home.v1.Thermostat.Watch";

const WHAT: &str = "What";
const WHERE: &str = "Where";
const HOW: &str = "How long";
const RESULT: &str = "Result";

/// More launches than this take days.
const LAUNCHES_MAX: i64 = 1_000;

const _: () = assert!(MESSAGE_BYTES_MAX == 4 << 20, "the help of --sizes names the limit");

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_options_do_not_contradict_each_other() {
        Words::command().debug_assert();
    }

    #[test]
    fn help_fits_100_columns_and_shows_examples_first() {
        let mut command = Words::command();
        command.build();
        let bench = command.find_subcommand("bench").expect("there is one").clone();
        let data = command.find_subcommand("data").expect("there is one").clone();
        let inner = bench.get_subcommands().chain(data.get_subcommands());
        let all = command.get_subcommands().chain(inner);
        for command in std::iter::once(&command).chain(all) {
            if command.is_hide_set() {
                continue;
            }
            let mut command = command.clone();
            let (long, short) = (command.render_long_help(), command.render_help());
            for help in [long.to_string(), short.to_string()] {
                let examples = help.find("Examples:").expect("examples");
                assert!(examples < help.find("Usage:").expect("usage"), "{help}");
                let wide = help.lines().filter(|line| line.chars().count() > 100);
                assert_eq!(wide.collect::<Vec<_>>(), [""; 0], "{}", command.get_name());
            }
        }
    }
}
