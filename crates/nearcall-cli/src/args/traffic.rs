//! Options of the experiments with traffic other than one exchange right after the other.

use clap::Args;

use super::WORKLOAD;
use super::options::{
    BackgroundLoadArgs, MechanismArgs, PlacementArgs, RunArgs, SizeArgs, WaitArgs,
};
use super::value;

/// Options of `bench open-loop`.
#[derive(Debug, Args)]
pub(crate) struct OpenLoopArgs {
    /// Exchanges per second [default: 1000,10000,100000]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=RATE_MAX),
        help_heading = WORKLOAD
    )]
    pub(crate) rate: Option<Vec<u32>>,

    /// Self-test: stall the server for this long, such as 100ms, again and again
    ///
    /// The stalls take a tenth of the time. In the open loop the p99 rises to about their length,
    /// since all that was due meanwhile is late; in the closed loop neither median nor p99 shows
    /// it.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        value_parser = value::stall_ns,
        help_heading = WORKLOAD
    )]
    pub(crate) stall: Option<u64>,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench idle-gap`.
#[derive(Debug, Args)]
pub(crate) struct IdleGapArgs {
    /// Gaps of 0 to 1s [default: 0,10us,100us,1ms,10ms,100ms]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = value::gap_ns,
        help_heading = WORKLOAD
    )]
    pub(crate) gap: Option<Vec<u64>>,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench burst`.
#[derive(Debug, Args)]
pub(crate) struct BurstArgs {
    /// Messages of a burst [default: 1,8,64,512]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=BURST_MAX),
        help_heading = WORKLOAD
    )]
    pub(crate) messages: Option<Vec<u32>>,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench clients`.
#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// Clients at once [default: 1,4,16,64,256]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX),
        help_heading = WORKLOAD
    )]
    pub(crate) clients: Option<Vec<u32>>,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench threads`.
#[derive(Debug, Args)]
pub(crate) struct ThreadsArgs {
    /// Threads at once [default: 1,2,4,8]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX),
        help_heading = WORKLOAD
    )]
    pub(crate) threads: Option<Vec<u32>>,

    /// Event loops of the server [default: 1,2]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=LOOPS_MAX),
        help_heading = WORKLOAD
    )]
    pub(crate) loops: Option<Vec<u32>>,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench connect`.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) size: SizeArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of all of these.
#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    #[command(flatten)]
    pub(crate) mechanism: MechanismArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) placement: PlacementArgs,

    #[command(flatten)]
    pub(crate) load: BackgroundLoadArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(super) const OPEN_LOOP_EXAMPLES: &str = "\
Examples:
  nearcall bench open-loop                       three rates, within two minutes
  nearcall bench open-loop --quick               a first look: 10,000 per second
  nearcall bench open-loop --rate 1000,10000 --mechanism shm,pipe --size 1KiB
  nearcall bench open-loop --rate 10000 --stall 100ms --mechanism unix-stream
  nearcall bench open-loop --load 35% --rate 1000 --mechanism shm,tcp
  nearcall bench open-loop --json | jq '.cells[] | [.pace.rate_per_s, .rtt_ns]'";

pub(super) const IDLE_GAP_EXAMPLES: &str = "\
Examples:
  nearcall bench idle-gap                        six gaps, within two minutes
  nearcall bench idle-gap --quick                without the longest
  nearcall bench idle-gap --gap 0,50us,5ms --mechanism shm --wait block
  nearcall bench idle-gap --json | jq '.cells[] | [.gap.gap_ns, .rtt_ns.p50]'";

pub(super) const BURST_EXAMPLES: &str = "\
Examples:
  nearcall bench burst                           four lengths, in two minutes
  nearcall bench burst --quick                   a first look
  nearcall bench burst --messages 1,1000 --size 1KiB --mechanism shm,pipe
  nearcall bench burst --json | jq '.cells[] | .burst.per_message_ns'";

pub(super) const CLIENTS_EXAMPLES: &str = "\
Examples:
  nearcall bench clients                         1 to 256, within two minutes
  nearcall bench clients --quick                 a first look, up to 64
  nearcall bench clients --clients 1,100 --mechanism shm-eventfd,unix-stream
  nearcall bench clients --json | jq '.cells[] | .clients.calls_per_s'";

pub(super) const THREADS_EXAMPLES: &str = "\
Examples:
  nearcall bench threads                         1 to 8, within two minutes
  nearcall bench threads --quick                 a first look: 2 and 4
  nearcall bench threads --threads 1,16 --loops 4 --wait adaptive
  nearcall bench threads --json | jq '.cells[] | [.clients, .rtt_ns.p99]'";

pub(super) const CONNECT_EXAMPLES: &str = "\
Examples:
  nearcall bench connect                         every mechanism, in two minutes
  nearcall bench connect --quick                 a first look
  nearcall bench connect --mechanism shm,unix-stream --launches 30
  nearcall bench connect --json | jq '.cells[] | .start.tear_down_ns.p50'";

/// A server takes 2048 connections of one user, and one of them is that of the runner; some are
/// left for others.
const CLIENTS_MAX: i64 = 2_000;

/// More loops than CPUs take them from each other, and no machine has more.
const LOOPS_MAX: i64 = 1_024;

/// A longer burst is a throughput, which `bench throughput` measures.
const BURST_MAX: i64 = 100_000;

/// Faster, reading the clock would be most of it.
const RATE_MAX: i64 = 1_000_000;
