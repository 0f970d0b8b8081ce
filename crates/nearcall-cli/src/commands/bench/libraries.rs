//! `nearcall bench libraries`: becomes the program that measures other libraries.
//!
//! That program is built by name only, because users of nearcall do not need those libraries. It
//! takes the place of this process: it handles signals and sets the exit code.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::args::LibrariesArgs;
use crate::commands::{End, command};
use crate::output;

pub(super) fn run(args: &LibrariesArgs) -> anyhow::Result<End> {
    let program = match program(env::var_os(VARIABLE).map(PathBuf::from)) {
        Err(_) if asks_for_help(args) => {
            output::result(&help())?;
            return Ok(End::Done);
        }
        program => program?,
    };
    let error = Command::new(&program).args(&args.arguments).exec();
    // It only returns if there is nothing to become.
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// The program prints its own help; without it there is that of this command.
fn asks_for_help(args: &LibrariesArgs) -> bool {
    args.arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}

/// Renders the help of this command.
fn help() -> String {
    let mut command = command();
    command.build();
    let bench = command.find_subcommand_mut("bench");
    let libraries = bench.and_then(|bench| bench.find_subcommand_mut("libraries"));
    libraries.map(|libraries| libraries.render_long_help().to_string()).unwrap_or_default()
}

fn program(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(program) = named.filter(|path| !path.as_os_str().is_empty()) {
        if !program.is_file() {
            bail!("{VARIABLE} names {}, which is no file", program.display());
        }
        return Ok(absolute(&program));
    }
    let own = env::current_exe().context("cannot find the path of this program")?;
    let program = own.with_file_name(PROGRAM);
    if !program.is_file() {
        bail!(
            "there is no {PROGRAM} beside {}: build it by `cargo build --release -p {PROGRAM}`, or \
             name it in {VARIABLE}",
            own.display()
        );
    }
    Ok(program)
}

/// A name without a slash would be looked for in PATH.
fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

const PROGRAM: &str = "nearcall-peers";

/// Names the program where it does not lie beside this one.
const VARIABLE: &str = "NEARCALL_PEERS";
