//! The command line, and what the options of all commands have in common.
//!
//! **Invariants:** what leaves this file was checked as far as text alone can be: names exist,
//! sizes lie within the limits, lists are not empty. One option has one name and one meaning in
//! every command.
//!
//! **Not here:** which commands there are (`commands.rs`), the options of each, which its file in
//! `commands/` has beside what it does (those of `bench` are in `args/bench.rs`), and what depends
//! on the machine (`--pin`), which `commands/bench.rs` checks.

mod bench;
mod help;
mod options;
pub(crate) mod value;

use std::ffi::OsString;

use clap::{ColorChoice, Command, CommandFactory, Parser, ValueEnum};
use nearcall_results::sizes::MESSAGE_BYTES_MAX;

pub(crate) use self::bench::{BenchArgs, ExperimentArgs, LibrariesArgs, MemoryArgs, Other};
pub(crate) use self::options::{
    BackgroundLoadArgs, JsonArgs, OutputArgs, PinArgs, PlacementArg, PlacementArgs, QuickArgs,
    ReachArgs, RunArgs, SeedArgs, TimeArgs,
};
pub(crate) use self::value::{Pin, Sizes, ask_timeout, interval, timeout};

/// Returns the command line with these verbs.
pub(crate) fn command(verbs: impl IntoIterator<Item = Command>) -> Command {
    help::with_form(Cli::command().subcommand_required(true).subcommands(verbs))
}

/// Finds `--color` among the arguments: errors of the parser are coloured too.
pub(crate) fn color(arguments: &[OsString]) -> ColorChoice {
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
#[derive(Parser)]
#[command(
    name = "nearcall",
    version = VERSION,
    before_help = EXAMPLES,
    arg_required_else_help = true
)]
struct Cli {
    /// Use colours: auto (on a terminal, if NO_COLOR is not set), always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    #[allow(dead_code, reason = "`color` finds it before the arguments are read")]
    color: ColorChoice,
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
