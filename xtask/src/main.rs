//! `cargo xtask`: runs one chore and returns its exit code. `cargo xtask help` lists the chores.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use xtask::chore::Chore;
use xtask::facts::Facts;
use xtask::repository::Repository;
use xtask::tidy::{circles, invariants, words};
use xtask::{corpus, device, interop, languages, package, plan, platforms, step};

fn main() -> ExitCode {
    let chore = match Chore::try_parse() {
        Ok(chore) => chore,
        Err(error) => {
            // Nothing else can be done if it cannot be printed; the exit code still reports it.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(&chore) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "cannot go on: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> io::Result<ExitCode> {
    if let Some(problems) = findings(chore)? {
        return Ok(print(&problems));
    }
    if let Chore::Interop(options) = chore {
        let passed = interop::run(Repository::open()?.root(), options, &mut io::stdout())?;
        return Ok(ExitCode::from(u8::from(!passed)));
    }
    if matches!(chore, Chore::Device) {
        device::run(Repository::open()?.root(), &mut io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Chore::Languages(options) = chore {
        languages::run(Repository::open()?.root(), *options, &mut io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Chore::Invariants = chore {
        list_invariants(&Repository::open()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = Facts::gather()?;
    if let Chore::Platforms(options) = chore {
        let passed = platforms::run(&facts.root, &facts.target, options, &mut io::stdout())?;
        return Ok(ExitCode::from(u8::from(!passed)));
    }
    if let Chore::Package(options) = chore {
        let passed = package::run(&facts.root, &facts.target, options, &mut io::stdout())?;
        return Ok(ExitCode::from(u8::from(!passed)));
    }
    let steps = plan::steps(chore, &facts);
    let code = step::run_all(&facts.root, &steps, chore.needs_all(), &mut io::stdout());
    Ok(ExitCode::from(code))
}

/// What the rule that is asked for finds in the repository; nothing if a chore runs commands.
fn findings(chore: &Chore) -> io::Result<Option<Vec<String>>> {
    let repository = Repository::open()?;
    Ok(match chore {
        Chore::Corpus { package, every } => {
            Some(corpus::run(repository.root(), package.as_deref(), *every)?)
        }
        Chore::Circles => Some(circles::problems(&repository.rust_files()?)),
        Chore::Words => {
            let texts = repository.texts()?;
            Some(texts.iter().flat_map(|(path, text)| words::problems(path, text)).collect())
        }
        _ => None,
    })
}

fn list_invariants(repository: &Repository) -> io::Result<()> {
    for invariant in invariants::collect(&repository.rust_files()?) {
        let invariants::Invariant { path, line, text } = invariant;
        // A reader that has seen enough closes the pipe.
        let _ = writeln!(io::stdout(), "{path}:{line}: {text}\n");
    }
    Ok(())
}

fn print(problems: &[String]) -> ExitCode {
    for problem in problems {
        // A reader that has seen enough closes the pipe.
        let _ = writeln!(io::stdout(), "{problem}");
    }
    let _ = writeln!(io::stderr(), "{} found", problems.len());
    ExitCode::from(u8::from(!problems.is_empty()))
}
