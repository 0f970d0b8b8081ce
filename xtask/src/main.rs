//! `cargo xtask`: runs one chore and returns its exit code. `cargo xtask help` lists the chores.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::{env, io};

use xtask::chore::{self, Chore};
use xtask::facts::Facts;
use xtask::repository::Repository;
use xtask::tidy::{circles, words};
use xtask::{plan, step};

/// The exit code for a usage error, as of most programs.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chore = match Chore::parse(&arguments) {
        Ok(chore) => chore,
        Err(message) => return explain(&message),
    };
    match findings(&chore) {
        Ok(None) => {}
        Ok(Some(problems)) => return print(&problems),
        Err(error) => return explain(&format!("cannot read the repository: {error}")),
    }
    let facts = match Facts::gather() {
        Ok(facts) => facts,
        Err(error) => return explain(&format!("cannot look at the repository: {error}")),
    };
    let steps = plan::steps(&chore, &facts);
    ExitCode::from(step::run_all(&facts.root, &steps, chore.needs_all(), &mut io::stdout()))
}

/// What the rule that is asked for finds in the repository; nothing if a chore runs commands.
fn findings(chore: &Chore) -> io::Result<Option<Vec<String>>> {
    let repository = Repository::open()?;
    Ok(match chore {
        Chore::Circles => Some(circles::problems(&repository.rust_files()?)),
        Chore::Words => {
            let texts = repository.texts()?;
            Some(texts.iter().flat_map(|(path, text)| words::problems(path, text)).collect())
        }
        _ => None,
    })
}

fn print(problems: &[String]) -> ExitCode {
    for problem in problems {
        // A reader that has seen enough closes the pipe.
        let _ = writeln!(io::stdout(), "{problem}");
    }
    let _ = writeln!(io::stderr(), "{} found", problems.len());
    ExitCode::from(u8::from(!problems.is_empty()))
}

fn explain(message: &str) -> ExitCode {
    // Nothing else can be done if stderr is closed; the exit code still reports it.
    let _ = writeln!(io::stderr(), "{message}\n\n{}", chore::USAGE);
    ExitCode::from(USAGE)
}
