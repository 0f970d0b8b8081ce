//! Runs a command and turns its end into an exit code.
//!
//! 0: done. 1: failure. 2: usage error. 130: interrupted. A failure is one line on standard error.

pub(crate) mod advise;
mod asked_server;
mod bench;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod explain;
mod findings;
pub(crate) mod gateway;
pub(crate) mod r#gen;
pub(crate) mod host;
pub(crate) mod list;
pub(crate) mod mechanisms;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod restart;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod switch;
pub(crate) mod timers;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use crate::args::{self, Command};
use crate::{output, terminal};

/// Runs the command of these arguments, the program's name first.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let cli = match args::parse(arguments.iter().cloned()) {
        Ok(cli) => cli,
        Err(message) => {
            return match output::usage(&message) {
                Ok(()) => code(message.exit_code()),
                Err(error) => fail(&error),
            };
        }
    };
    terminal::set_color(cli.color);
    let outcome = match cli.command {
        Command::Bench(args) => bench::run(&args, &arguments),
        Command::Reproduce(args) => reproduce::run(&args, &arguments),
        Command::Profile(args) => profile::run(&args, &arguments),
        Command::Advise(args) => advise::run(&args, &arguments),
        Command::Mechanisms(args) => mechanisms::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Timers(args) => timers::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Gen(args) => r#gen::run(&args),
        Command::List(args) => list::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Switch(args) => switch::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Restart(args) => restart::run(&args),
        Command::HostGroup => host::group(),
        Command::PeerProcess => return bench::peer(),
    };
    match outcome {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Interrupted) => code(CODE_INTERRUPTED),
        Err(error) => fail(&error),
    }
}

/// Reports a failure, with its causes, in one line.
fn fail(error: &anyhow::Error) -> ExitCode {
    output::diagnostic(&format!("error: {error:#}"));
    code(if error.is::<Usage>() { CODE_USAGE } else { CODE_FAILED })
}

/// The end of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As it should.
    Done,
    /// By Ctrl-C or SIGTERM; what was ready is kept.
    Interrupted,
}

/// A usage error that depends on this machine, such as a CPU that it lacks.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

const CODE_FAILED: i32 = 1;
const CODE_USAGE: i32 = 2;

/// As shells report a program that SIGINT has ended.
const CODE_INTERRUPTED: i32 = 130;
