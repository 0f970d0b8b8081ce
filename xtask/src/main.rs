//! `cargo xtask`: exit code and nothing else. What it can do: `cargo xtask help`.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::{env, io};

use xtask::chore::{self, Chore};
use xtask::facts::Facts;
use xtask::repository::Repository;
use xtask::tidy::circles;
use xtask::{plan, step};

/// The exit code of a command line that makes no sense, as for most programs.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chore = match Chore::parse(&words) {
        Ok(chore) => chore,
        Err(message) => return explain(&message),
    };
    if chore == Chore::Circles {
        return match circles() {
            Ok(code) => code,
            Err(error) => explain(&format!("cannot read the repository: {error}")),
        };
    }
    let facts = match Facts::gather() {
        Ok(facts) => facts,
        Err(error) => return explain(&format!("cannot look at the repository: {error}")),
    };
    let steps = plan::steps(&chore, &facts);
    ExitCode::from(step::run_all(&facts.root, &steps, chore.needs_all(), &mut io::stdout()))
}

fn circles() -> io::Result<ExitCode> {
    let files = Repository::open()?.rust_files()?;
    let problems = circles::problems(&files);
    for problem in &problems {
        writeln!(io::stdout(), "{problem}")?;
    }
    writeln!(io::stdout(), "{} circles", problems.len())?;
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn explain(message: &str) -> ExitCode {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "{message}\n\n{}", chore::USAGE);
    ExitCode::from(USAGE)
}
