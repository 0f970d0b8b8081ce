//! The verbs of the program: which there are, and how one is run.
//!
//! **To add a verb:** a file in `commands/` with its arguments (a struct that derives [`Args`],
//! whose comment is the help, and whose `before_help` the examples) and its `run`; its `mod`; and a
//! row in [`verbs`].
//!
//! 0: done. 1: failure. 2: usage error. 130: interrupted. A failure is one line on standard error.

mod advise;
mod asked_server;
mod bench;
mod call;
mod compare;
mod data;
mod describe;
mod doctor;
mod explain;
mod findings;
mod gateway;
mod r#gen;
mod host;
mod list;
mod man;
mod mechanisms;
pub(crate) mod offered;
mod profile;
mod record;
mod replay;
mod report;
mod reproduce;
mod restart;
mod show;
mod status;
mod stop;
mod switch;
mod timers;
mod top;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command};

use crate::{args, output, terminal};

/// Returns the verbs, in the order in which the help lists them.
fn verbs() -> Vec<Verb> {
    vec![
        verb("bench", bench::run),
        verb("advise", advise::run),
        verb("compare", compare::run),
        verb("report", report::run),
        verb("show", show::run),
        verb("mechanisms", mechanisms::run),
        verb("doctor", doctor::run),
        verb("profile", profile::run),
        verb("reproduce", reproduce::run),
        verb("timers", timers::run),
        verb("data", data::run),
        verb("gen", r#gen::run),
        verb("list", list::run),
        verb("describe", describe::run),
        verb("call", call::run),
        verb("top", top::run),
        verb("stop", stop::run),
        verb("switch", switch::run),
        verb("explain", explain::run),
        verb("record", record::run),
        verb("replay", replay::run),
        verb("host", host::run),
        verb("gateway", gateway::run),
        verb("status", status::run),
        verb("restart", restart::run),
        verb("man", man::run),
        verb("peer-process", bench::peer),
    ]
}

/// A verb: its name; what adds its arguments and its help; and what reads these and runs it.
struct Verb {
    name: &'static str,
    arguments: fn(Command) -> Command,
    run: Run,
}

/// Reads the arguments of a verb, and runs it if they can be read.
type Run = Box<dyn Fn(&ArgMatches) -> Result<anyhow::Result<End>, clap::Error>>;

/// Makes a row of the table. The arguments that `run` takes bring their options and their help.
fn verb<A: Args + 'static>(name: &'static str, run: fn(&A) -> anyhow::Result<End>) -> Verb {
    Verb {
        name,
        arguments: A::augment_args,
        run: Box::new(move |matches| A::from_arg_matches(matches).map(|args| run(&args))),
    }
}

/// Returns the command line with all verbs.
pub(crate) fn command() -> Command {
    args::command(verbs().iter().map(|verb| (verb.arguments)(Command::new(verb.name))))
}

/// Runs the command that the arguments of the program name.
pub(crate) fn run() -> ExitCode {
    match read_and_run(&command_line()) {
        Ok(Ok(End::Done)) => ExitCode::SUCCESS,
        Ok(Ok(End::Interrupted)) => code(CODE_INTERRUPTED),
        Ok(Ok(End::Code(code))) => code,
        Ok(Err(error)) => fail(&error),
        Err(message) => match output::usage(&message) {
            Ok(()) => code(message.exit_code()),
            Err(error) => fail(&error),
        },
    }
}

/// Reads the arguments, the program's name first, and runs the verb among them.
///
/// # Errors
///
/// Clap's: also help and version are "errors", whose text goes to standard output.
fn read_and_run(arguments: &[OsString]) -> Result<anyhow::Result<End>, clap::Error> {
    let color = args::color(arguments);
    let mut command = command().color(color);
    let matches = command.try_get_matches_from_mut(arguments)?;
    terminal::set_color(color);
    let (name, inner) = matches.subcommand().expect("clap asks for one");
    let verb = verbs().into_iter().find(|verb| verb.name == name);
    let verb = verb.expect("clap knows those of the table");
    (verb.run)(inner).map_err(|error| error.format(&mut command))
}

/// Returns the arguments of the program, its name first.
fn command_line() -> Vec<OsString> {
    env::args_os().collect()
}

/// Reports a failure, with its causes, in one line.
fn fail(error: &anyhow::Error) -> ExitCode {
    output::diagnostic(&format!("error: {error:#}"));
    code(if error.is::<Usage>() { CODE_USAGE } else { CODE_FAILED })
}

/// The end of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// As it should.
    Done,
    /// By Ctrl-C or SIGTERM; what was ready is kept.
    Interrupted,
    /// With an exit code that its help lists.
    Code(ExitCode),
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
