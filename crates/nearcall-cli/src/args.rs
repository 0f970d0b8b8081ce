//! The command line: arguments become typed commands.
//!
//! **Invariants:** what leaves this file was checked as far as text alone can be: names exist,
//! sizes lie within the limits, lists are not empty. One option has one name and one meaning in
//! every command.
//!
//! **Not here:** the options of each command, which its file in `commands/` has beside what it does
//! (those of `bench` are in `args/bench.rs`), and what depends on the machine (`--pin`), which
//! `commands/bench.rs` checks.

mod bench;
mod help;
mod options;
pub(crate) mod value;

use std::ffi::OsString;

use clap::{ColorChoice, FromArgMatches, Parser, Subcommand, ValueEnum};
use nearcall_bench::experiment::ALL_KINDS;
use nearcall_results::sizes::MESSAGE_BYTES_MAX;

pub(crate) use self::bench::{BenchArgs, ExperimentArgs, LibrariesArgs, MemoryArgs, Other};
pub(crate) use self::help::libraries_help;
pub(crate) use self::options::{
    BackgroundLoadArgs, JsonArgs, OutputArgs, PinArgs, PlacementArg, PlacementArgs, QuickArgs,
    RunArgs, SeedArgs, TimeArgs,
};
pub(crate) use self::value::{Pin, Sizes, ask_timeout, timeout};
use crate::commands::{
    advise, compare, data, doctor, explain, gateway, r#gen, host, list, mechanisms, profile,
    report, reproduce, restart, show, status, stop, switch, timers,
};

/// Reads the arguments, the program's name first.
///
/// # Errors
///
/// Clap's: also help and version are "errors", whose text goes to standard output.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = help::command().color(color(&arguments));
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Finds `--color` among the arguments: errors of the parser are coloured too.
fn color(arguments: &[OsString]) -> ColorChoice {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let next = |at: usize| words.get(at + 1).copied();
    let mut values = words.iter().enumerate().filter_map(|(at, word)| match *word {
        "--color" => next(at),
        word => word.strip_prefix("--color="),
    });
    let choice = values.next_back().and_then(|value| ColorChoice::from_str(value, true).ok());
    choice.unwrap_or_default()
}

/// Measures what every Linux IPC mechanism costs between two processes of this machine.
#[derive(Debug, Parser)]
#[command(
    name = "nearcall",
    version = VERSION,
    before_help = EXAMPLES,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Use colours: auto (on a terminal, if NO_COLOR is not set), always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    pub(crate) color: ColorChoice,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One verb with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure mechanisms, calls and more between two processes
    ///
    /// Without options: latency and throughput of every mechanism that works here, within 90
    /// seconds. Each figure comes from several launches of two new, pinned processes, in random
    /// order, beside the same exchange without nearcall (the floor). Prints a table and stores the
    /// run.
    ///
    /// Exit code: 0 done; 1 failure; 2 usage error; 130 interrupted, and what was measured until
    /// then is kept and marked.
    #[command(before_help = ALL_KINDS.examples)]
    Bench(Box<BenchArgs>),

    /// Recommend a mechanism for given requirements, by measurement
    ///
    /// Excludes every mechanism that lacks a need, measures the others by calls of the given size,
    /// rate, placement and load for at most 45 seconds, or --time, and ranks them. Prints the
    /// address to put into the program, the expected figures with their intervals, and when the
    /// runner-up would be better.
    ///
    /// Exit code: 0 advised; 1 refused, because needs contradict each other, evidence is missing,
    /// or the machine was too noisy; 2 usage error; 130 interrupted.
    #[command(before_help = advise::EXAMPLES)]
    Advise(Box<advise::AdviseArgs>),

    /// Compare two runs: slower, faster, or no difference
    ///
    /// Cells that measured the same are compared by their launches, corrected for the number of
    /// cells; differences below --min-effect are ignored. Where launches vary too much the verdict
    /// is "cannot tell", with the number of launches that would be needed. Runs of two machines are
    /// compared as machines; runs whose definitions differ are refused.
    ///
    /// Exit code: 0 compared; 1 slower by --fail-if-slower, refused, or too noisy for a verdict; 2
    /// usage error.
    #[command(before_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),

    /// Write a page of figures and tables from stored runs
    ///
    /// One HTML file that needs nothing else and no network. Runs of one machine complete each
    /// other, those of several stand side by side and are never averaged. Runs whose definitions
    /// differ are refused.
    #[command(before_help = report::EXAMPLES)]
    Report(report::ReportArgs),

    /// Print the table of a stored run again
    #[command(before_help = show::EXAMPLES)]
    Show(show::ShowArgs),

    /// List the mechanisms, their capabilities, and what works here
    #[command(before_help = mechanisms::EXAMPLES)]
    Mechanisms(JsonArgs),

    /// Report unsuitable machine settings, and how to fix them
    #[command(before_help = doctor::EXAMPLES)]
    Doctor(JsonArgs),

    /// Show where the time of one message goes
    ///
    /// System calls are counted by ptrace, copies by the bytes that those moved. Switches, faults
    /// and CPU time come from an undisturbed run of at most 3 seconds, or --time. Stacks are
    /// sampled only where they are permitted; otherwise the output explains how to permit them.
    #[command(before_help = profile::EXAMPLES)]
    Profile(Box<profile::ProfileArgs>),

    /// Repeat published studies of IPC and check their claims
    ///
    /// Each study by its own protocol: mechanisms with their synchronisation, sizes, counts,
    /// statistic, placement and load. Prints the paper's figures beside this machine's by the
    /// paper's statistic and by ours, and a verdict on each claim: CONFIRMED, REFUTED, INCONCLUSIVE
    /// or SKIPPED, with the evidence. All five take at most a quarter of an hour.
    #[command(before_help = reproduce::EXAMPLES)]
    Reproduce(Box<reproduce::ReproduceArgs>),

    /// Measure clock overhead, resolution, sleep error and agreement
    ///
    /// Compares clock_gettime, gettimeofday and the processor's counter, as two studies did: the
    /// cost of a reading, the smallest difference, the error of known sleeps, and the agreement of
    /// the clocks over the same spans. The counter is refused, with the reason, where it cannot be
    /// trusted. Takes about four seconds.
    #[command(before_help = timers::EXAMPLES)]
    Timers(timers::TimersArgs),

    /// Keep runs of many machines in a directory of plain files
    ///
    /// Each run lies in the directory of its machine; the file name is derived from the content.
    /// Runs of different machines are never averaged. For queries over many runs there are CSV and
    /// JSON lines, one row per cell.
    #[command(before_help = data::EXAMPLES, arg_required_else_help = true)]
    Data(data::DataArgs),

    /// Generate Rust, C++ or Python from .proto files
    ///
    /// Writes one file per package with its messages, callers and dispatchers, and only if the file
    /// would change; the packages that the files import are generated too. In a build script, use
    /// the crate nearcall-build instead.
    ///
    /// For C++ it writes NAME.nearcall.hpp for each file, with its callers and the bases of its
    /// services; its messages are those of protoc --cpp_out. For Python it is NAME_nearcall.py, and
    /// protoc --python_out.
    #[command(before_help = r#gen::EXAMPLES)]
    Gen(r#gen::GenArgs),

    /// List the servers that listen by name: objects, process, use
    ///
    /// Asks each server of this user over its own socket, for a second at most. One that does not
    /// answer is a row with the reason: it was killed, it is stopped, or the name is another
    /// user's.
    #[command(before_help = list::EXAMPLES)]
    List(JsonArgs),

    /// End a server as SIGTERM does, and wait for its process
    ///
    /// The server finishes the calls under way and takes no more. It obeys its own user and root. A
    /// program that does not wait in `run_until_signal`, such as a host of services, gets SIGTERM.
    /// Of a server that was killed before, what it has left is removed.
    ///
    /// Exit code: 0 the process has ended, or had been killed; 1 it has not, or the server refused;
    /// 2 usage error.
    #[command(before_help = stop::EXAMPLES)]
    Stop(stop::StopArgs),

    /// Have clients of a server move to another mechanism, while calls go on
    ///
    /// The server asks its clients, all of them unless --client or --connection chooses some. It
    /// obeys its own user and root, has to offer the mechanism, and must not forbid switches
    /// (`Limits::switches_per_minute_max`). A client in a loop moves at once, one without a loop
    /// when it next calls, and one whose calls are futures at one of these moments: until --timeout
    /// it is waited for, and after that it still moves. Prints what has become of each connection,
    /// and why one stays.
    ///
    /// Exit code: 0 all of them use the mechanism; 1 some do not, or the server refused; 2 usage
    /// error.
    #[command(before_help = switch::EXAMPLES)]
    Switch(switch::SwitchArgs),

    /// Explain why the connections of a server are where they are
    ///
    /// For each: who is there, its mechanism, its last switches with their causes, what it carries,
    /// and what other mechanisms would cost for that, by stored runs of this machine. The server
    /// answers its own user and root.
    ///
    /// Exit code: 0 the server has answered; 1 it has not, or refused; 2 usage error.
    #[command(before_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),

    /// Run a set of services that a file names, and keep them running
    ///
    /// Each service is a program in a process of its own, or a dynamic library in a process that it
    /// may share with others of its group. The host listens in their place and hands the sockets
    /// over, so that a restart loses no call. SIGTERM stops them in order, a second one at once;
    /// SIGHUP applies what has changed in the file.
    ///
    /// Exit code: 0 stopped; 1 the file or the host's address cannot be used; 2 usage error; 130
    /// stopped at once by a second signal.
    #[command(before_help = host::EXAMPLES)]
    Host(host::HostArgs),

    /// Let gRPC calls reach servers of this machine, and calls from here gRPC servers
    ///
    /// Peers call by HTTP/2, with or without TLS, what is exposed and nothing else; the servers
    /// need not know of it, nor be there yet. Health and reflection of gRPC answer for them.
    /// With --forward, programs of this machine call a gRPC server by a name, as any other server.
    /// Certificates are read again once their files have changed. SIGTERM lets the calls under way
    /// end, for 5 seconds; a second one does not.
    ///
    /// Exit code: 0 stopped, or checked; 1 an address, a file, a server of --forward or, with
    /// --check, any server cannot be used; 2 usage error.
    #[command(before_help = gateway::EXAMPLES)]
    Gateway(gateway::GatewayArgs),

    /// Show what the services of a host do, and what gateways have counted
    ///
    /// Exit code: 0 the host, or the gateway, has answered; 1 it has not; 2 usage error.
    #[command(before_help = status::EXAMPLES)]
    Status(status::StatusArgs),

    /// Restart services of a host, without losing a call
    ///
    /// The host reads its file again, starts new processes for the services that are named and for
    /// whatever has changed, and ends the ones before when the new ones serve. If one of them does
    /// not, nothing has changed.
    ///
    /// Exit code: 0 the new processes serve; 1 nothing was restarted; 2 usage error.
    #[command(before_help = restart::EXAMPLES)]
    Restart(restart::RestartArgs),

    /// The process of a group of libraries; started by `host` itself
    #[command(name = "host-group", hide = true)]
    HostGroup,

    /// A process that a measurement starts; started by `bench` itself
    #[command(name = "peer-process", hide = true)]
    PeerProcess,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NEARCALL_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  nearcall bench                                 measure this machine in 90 s
  nearcall bench latency --mechanism pipe,shm-futex --size 8,64KiB
  nearcall bench calls                           calls beside the bare channel
  nearcall advise --size 4KiB --needs pollable   which mechanism to use, and why
  nearcall compare BEFORE.json AFTER.json        slower or faster?
  nearcall report RUN.json -o report.html        figures and tables
  nearcall gen thermostat.proto --out-dir src    Rust from an interface file";

const _: () = assert!(MESSAGE_BYTES_MAX == 4 << 20, "the help of --size names the limit");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_found_before_the_arguments_are_parsed() {
        let found = |line: &str| color(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(found("nearcall bench"), ColorChoice::Auto);
        assert_eq!(found("nearcall --color always bench"), ColorChoice::Always);
        assert_eq!(found("nearcall bench --color=never --help"), ColorChoice::Never);
        assert_eq!(found("nearcall bench --color"), ColorChoice::Auto);
    }
}
