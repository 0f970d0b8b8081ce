//! Options of `nearcall bench` and of its experiments.
//!
//! **Not here:** traffic of other kinds than one exchange after the other (`traffic.rs`).

use std::ffi::OsString;

use clap::{Args, Subcommand};
use nearcall_bench::touch::Touch;
use nearcall_results::route::Caller;
use nearcall_results::shape::Shape;

use super::WORKLOAD;
use super::options::{
    BackgroundLoadArgs, MechanismArgs, OutputArgs, PlacementArgs, PmQosArgs, QuickArgs, RunArgs,
    SizeArgs, SizesArgs, WaitArgs,
};
use super::traffic::{
    BURST_EXAMPLES, BurstArgs, CLIENTS_EXAMPLES, CONNECT_EXAMPLES, ClientsArgs, ConnectArgs,
    IDLE_GAP_EXAMPLES, IdleGapArgs, OPEN_LOOP_EXAMPLES, OpenLoopArgs, THREADS_EXAMPLES,
    ThreadsArgs,
};
use super::value::{self, Sizes};

/// Options of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) cells: CellArgs,

    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
}

/// An experiment of `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Measure round trips, one at a time
    ///
    /// Each figure comes from several launches of two new, pinned processes, in random order,
    /// beside the same exchange without nearcall (the floor).
    #[command(before_help = LATENCY_EXAMPLES)]
    Latency(Box<CellArgs>),

    /// Measure messages one way, as many as fit
    ///
    /// Each figure comes from several launches of two new, pinned processes, in random order,
    /// beside the same stream without nearcall (the floor).
    #[command(before_help = THROUGHPUT_EXAMPLES)]
    Throughput(Box<CellArgs>),

    /// Measure latency and throughput (the default)
    #[command(before_help = super::BENCH_EXAMPLES)]
    All(Box<CellArgs>),

    /// Measure calls of the runtime beside the bare channel
    ///
    /// A server in an event loop does no work. Empty calls, one-way calls and calls with an
    /// argument go to it over every mechanism: from a client that blocks without a loop, from one
    /// in a loop, from futures in a tokio runtime of one thread, and from within the server's own
    /// loop; the short circuits are measured too. The
    /// ratio is the cost of marshalling, dispatch and event loop: the bare exchange beside it has
    /// the same bytes and the same wait policy at each end, in the same two processes.
    ///
    /// --wait is the policy of the client. --size adds calls with an argument, of at most 1 MiB.
    #[command(before_help = CALLS_EXAMPLES)]
    Calls(CallsArgs),

    /// Measure one server with 1 to 256 busy clients
    ///
    /// Each client is a thread with its own connection that calls without a pause; the server is
    /// one event loop that does no work. Reports calls per second, their latency, CPU time and
    /// fairness. By default over shm and unix-stream.
    #[command(before_help = CLIENTS_EXAMPLES)]
    Clients(ClientsArgs),

    /// Measure threads that share one caller of one server
    ///
    /// Every thread calls without a pause through a clone of one caller, over a connection of its
    /// own; the server is one service behind one or more event loops, and does no work. Reports
    /// calls per second, their latency and fairness, and fails if a call that was made was not
    /// served exactly once. Nothing is pinned unless --pin or --placement is given. By default over
    /// shm, spinning and adaptive.
    #[command(before_help = THREADS_EXAMPLES)]
    Threads(ThreadsArgs),

    /// Measure set-up, first message and tear-down of connections
    ///
    /// Many launches of new processes, and in each some connections one after the other: the first
    /// of each is cold and is reported separately. By default over every mechanism.
    #[command(before_help = CONNECT_EXAMPLES)]
    Connect(ConnectArgs),

    /// Measure exchanges at a constant rate beside a closed loop
    ///
    /// A time counts from when its exchange was due, so a delay counts for every exchange that was
    /// due meanwhile; a closed loop would count it once. A cell fails if less than 99.9 % of its
    /// exchanges began in time.
    #[command(before_help = OPEN_LOOP_EXAMPLES)]
    OpenLoop(OpenLoopArgs),

    /// Measure the memory of idle connections and services
    ///
    /// A server in an event loop and its clients, two processes, with up to 1,000 idle
    /// connections; then two services as two processes and as one. Reports proportional and
    /// private memory, and what can still be allocated in steps of 1 KiB below a limit of the
    /// program. By default over shm, unix-stream and pipe. Takes about half a minute.
    ///
    /// --setups measures 1 to 20 services instead, in each of the ways in which nearcall runs them:
    /// as processes, as libraries of one host or of a host each, and linked into one program. For
    /// each: memory, start-up time, and the cost of a call between two of the services.
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

    /// Measure bursts of messages until all are answered
    ///
    /// The server reads all of a burst and replies once. What does not fit in the channel waits
    /// until the server has read some of it.
    #[command(before_help = BURST_EXAMPLES)]
    Burst(BurstArgs),

    /// Measure latency by the idle gap between messages
    ///
    /// After each round trip the client leaves a gap: below 100 µs it is busy until the gap is
    /// over, from there on it sleeps. Caches and CPUs of both ends cool down meanwhile, as in a
    /// program with little to do.
    #[command(before_help = IDLE_GAP_EXAMPLES)]
    IdleGap(IdleGapArgs),

    /// Measure latency and CPU time by wait policy
    ///
    /// A client makes calls at 10 to 100,000 per second; a time counts from when its call was due.
    /// Across two CPUs and on one. The adaptive policy stands beside the better of spinning and
    /// sleeping. --wait selects policies to measure: spin, block, adaptive.
    #[command(before_help = WAIT_POLICIES_EXAMPLES)]
    WaitPolicies(WaitPoliciesArgs),

    /// Measure every pair of CPUs, in both directions
    ///
    /// The client runs on one CPU and the server on another; mechanisms that need not spin are also
    /// measured with both ends on the same. Prints a table for each mechanism, and a line for each
    /// class of pairs: threads of one core, cores of one cache, memory nodes. On machines with many
    /// CPUs --time limits how many pairs of each class are measured, which the table notes. By
    /// default over shm with ends that spin, and pipe.
    #[command(before_help = MATRIX_EXAMPLES)]
    Matrix(MatrixArgs),

    /// Measure calls against their budgets and floors
    ///
    /// Every figure and the floor that it is compared with come from the same run: interleaved
    /// launches of new processes on two pinned CPUs, or on one where a row says so. The ratio is
    /// the median over launches of the ratios of one round. Idle servers are checked too: CPU
    /// time, wake-ups, threads, memory.
    #[command(before_help = BUDGETS_EXAMPLES)]
    Budgets(RunArgs),
}

/// Options of latency and throughput by mechanism and size.
#[derive(Debug, Args)]
pub(crate) struct CellArgs {
    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    /// Every mechanism [default: one of each kind, unless a size or --quick is given]
    #[arg(long, conflicts_with = "mechanism", help_heading = WORKLOAD)]
    pub(crate) every: bool,

    #[command(flatten)]
    pub(crate) size: SizesArgs,

    /// Reply in latency cells: the same payload (echo) or none (sink)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::shape(),
        hide_possible_values = true,
        help_heading = WORKLOAD
    )]
    pub(crate) shape: Option<Vec<Shape>>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// Bytes of the payload that are written and read: full, header, none
    #[arg(
        long,
        value_name = "PART",
        default_value = "full",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = value::payload_access(),
        help_heading = WORKLOAD
    )]
    pub(crate) payload_access: Touch,

    /// Channel buffer per direction, such as 64KiB; another size fails the cell
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = WORKLOAD)]
    pub(crate) buffer: Option<Sizes>,

    /// Measure also where the buffer differs from --buffer
    #[arg(long, requires = "buffer", help_heading = WORKLOAD)]
    pub(crate) allow_buffer_mismatch: bool,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) pm_qos: PmQosArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of `bench calls`.
#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    /// Clients: blocking (no loop), loop, async (tokio), same-loop, typed, bytes (direct)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::client(),
        hide_possible_values = true,
        help_heading = WORKLOAD
    )]
    pub(crate) client: Option<Vec<Caller>>,

    #[command(flatten)]
    pub(crate) size: SizesArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// Show where the time of one empty call goes, part by part
    #[arg(long, help_heading = WORKLOAD)]
    pub(crate) breakdown: bool,

    /// Measure items of streams beside one-way calls, of 8 bytes and 1 MiB or --size
    #[arg(long, conflicts_with = "breakdown", help_heading = WORKLOAD)]
    pub(crate) streams: bool,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of `bench wait-policies`.
#[derive(Debug, Args)]
pub(crate) struct WaitPoliciesArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of `bench matrix`.
#[derive(Debug, Args)]
pub(crate) struct MatrixArgs {
    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) pm_qos: PmQosArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Measure services as processes, as libraries, and linked
    ///
    /// `cargo build --release` builds the service that is measured, as a program and as a library,
    /// beside this program; the variable NEARCALL_BENCH_SERVICE names another directory.
    #[arg(long, conflicts_with = "mechanism", help_heading = WORKLOAD)]
    pub(crate) setups: bool,

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

const LATENCY_EXAMPLES: &str = "\
Examples:
  nearcall bench latency --mechanism pipe,unix-stream --size 8,1KiB --time 30s
  nearcall bench latency --mechanism shm-spin --wait spin --pin 0,1";

const THROUGHPUT_EXAMPLES: &str = "\
Examples:
  nearcall bench throughput --size 64KiB --launches 10 --out run.json
  nearcall bench throughput --mechanism pipe --size 1MiB --buffer 64KiB";

const CALLS_EXAMPLES: &str = "\
Examples:
  nearcall bench calls                           all of it, within two minutes
  nearcall bench calls --quick                   a first look
  nearcall bench calls --mechanism shm-futex,unix-stream --size 1KiB,1MiB
  nearcall bench calls --client typed,bytes      the short circuits
  nearcall bench calls --client blocking,async --mechanism shm --wait poll
  nearcall bench calls --streams                 streams beside one-way calls
  nearcall bench calls --breakdown --mechanism unix-stream
  nearcall bench calls --json | jq '.cells[] | [.mechanism, .call.bare_ns]'";

const BUDGETS_EXAMPLES: &str = "\
Examples:
  nearcall bench budgets                         all of it, within 90 seconds
  nearcall bench budgets --quick                 a first look
  nearcall bench budgets --pin 0,1 --launches 10 --time 5m --out budgets.json
  nearcall bench budgets --json | jq '.budgets[] | [.what, .value, .verdict]'";

const WAIT_POLICIES_EXAMPLES: &str = "\
Examples:
  nearcall bench wait-policies                   all of it, within three minutes
  nearcall bench wait-policies --quick           without the slowest rate
  nearcall bench wait-policies --wait block --time 1m --out waits.json
  nearcall bench wait-policies --json | jq '.waits[] | [.class, .rate_per_s]'";

const MEMORY_EXAMPLES: &str = "\
Examples:
  nearcall bench memory                          all of it, within half a minute
  nearcall bench memory --quick                  up to 100 connections
  nearcall bench memory --mechanism shm,tcp --out memory.json
  nearcall bench memory --setups --out setups.json
  nearcall show setups.json
  nearcall bench memory --json | jq '.connections[] | .per_connection'";

const MATRIX_EXAMPLES: &str = "\
Examples:
  nearcall bench matrix                          shm and pipe, within 90 s
  nearcall bench matrix --mechanism unix-stream --size 1KiB --time 3m
  nearcall bench matrix --load cpu,memory,io     the same under load
  nearcall bench matrix --json | jq '.cells[] | [.placement.class, .rtt_ns.p50]'";

const LIBRARIES_EXAMPLES: &str = "\
Examples:
  nearcall bench libraries                       all that can be measured here
  nearcall bench libraries --quick --size 0,64,64KiB --out libraries.json
  nearcall bench libraries --help                the options of nearcall-peers
  NEARCALL_PEERS=target/release/nearcall-peers nearcall bench libraries";
