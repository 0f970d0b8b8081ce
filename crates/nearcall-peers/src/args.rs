//! The command line: arguments become a plan, results go to standard output.
//!
//! **Invariants:** exit code 0 if at least one row was measured, 1 if none was, 2 for a usage
//! error.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use nearcall_results::report::document::Document;
use nearcall_results::report::lines::Style;
use nearcall_results::report::table::table;
use nearcall_results::{run, sizes};

use crate::bench::{self, Plan};
use crate::launch::{self, PEER_VERB};
use crate::rival::Rival;
use crate::{peer, results, rivals};

/// nearcall beside other IPC libraries: same payloads, same harness, same run
#[derive(Parser, Debug)]
#[command(name = "nearcall-peers", version)]
struct Args {
    /// Measure only these rows, by name or by the beginning of a name; see --about
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Trade accuracy for speed: two launches, short cells
    #[arg(long)]
    quick: bool,
    /// Sizes of requests with an empty reply; 0 is an empty call
    #[arg(long, value_name = "LIST", default_value = "0,64,1KiB,64KiB,1MiB")]
    size: String,
    /// Sizes of requests that are echoed; 0 is the same as in --size
    #[arg(long, value_name = "LIST", default_value = "1KiB")]
    echo_size: String,
    /// Pairs of processes per row
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    launches: Option<u32>,
    /// Pin the client and the server to these CPUs, such as 0,1; or none
    #[arg(long, value_name = "CLIENT,SERVER")]
    pin: Option<String>,
    /// Seed of the launch order and the payloads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the run as JSON (nearcall.run/1) instead of text
    #[arg(long)]
    json: bool,
    /// Store the run in this file; `nearcall show`, report and compare take it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print how each row is configured, and measure nothing
    #[arg(long)]
    about: bool,
}

/// Runs the command of these arguments, the program's name first.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let outcome = match arguments.get(1) {
        Some(verb) if verb == PEER_VERB => peer::run(),
        _ => match Args::try_parse_from(&arguments) {
            Ok(args) => {
                let words = arguments.iter().skip(1);
                command(&args, words.map(|word| word.to_string_lossy().into_owned()).collect())
            }
            Err(error) => {
                let _ = error.print();
                return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
            }
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            aside(&format!("error: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn command(args: &Args, arguments: Vec<String>) -> anyhow::Result<()> {
    let rivals = chosen(&args.only)?;
    if args.about {
        return result(&about(&rivals));
    }
    let plan = plan_of(args)?;
    if let Some(path) = &args.out {
        run::check_writable(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    launch::sweep();
    let started_unix_s = bench::unix_s();
    let is_seen = io::stderr().is_terminal();
    let found = bench::bench(&plan, &rivals, &|done, all, next| {
        if is_seen {
            let end = if done == all { "\r\x1b[K" } else { "" };
            aside(&format!("\r\x1b[K{done}/{all} {next}{end}"));
        }
    });
    let run = results::run(arguments, &plan, &rivals, &found, started_unix_s);
    if let Some(path) = &args.out {
        run.save(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match args.json {
        true => result(&(run.to_json() + "\n"))?,
        false => result(&table(&run, Style::PLAIN))?,
    }
    if found.iter().all(|found| found.launches.is_empty()) {
        bail!("no row could be measured");
    }
    Ok(())
}

/// How each of `rivals` was configured.
fn about(rivals: &[Rival]) -> String {
    let mut out = Document::default();
    for rival in rivals {
        out.line(format!("{} ({}, {})", rival.name, rival.version, rival.waiting.name()));
        out.wrap("  ", rival.about);
        out.wrap("  ", format!("Rate: {}.", rival.rate));
        if let Some(missing) = rival.missing {
            out.wrap("  ", format!("SKIPPED here: {missing}."));
        }
        out.blank();
    }
    out.text(Style::PLAIN)
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<Rival>> {
    let all = rivals::all();
    let begins = |rival: &Rival, word: &String| rival.name.starts_with(word.as_str());
    for word in only {
        if word.is_empty() || !all.iter().any(|rival| begins(rival, word)) {
            let names: Vec<&str> = all.iter().map(|rival| rival.name).collect();
            bail!("no row begins with {word:?}; there are {}", names.join(", "));
        }
    }
    let is_chosen = |rival: &Rival| only.is_empty() || only.iter().any(|word| begins(rival, word));
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn plan_of(args: &Args) -> anyhow::Result<Plan> {
    let pin = match args.pin.as_deref() {
        Some("none") => None,
        Some(text) => Some(bench::choose_cpus(Some(pair(text)?))?),
        None => Some(bench::choose_cpus(None)?),
    };
    let (launches, cell, idle) = match args.quick {
        true => (2, Duration::from_millis(60), Duration::from_millis(500)),
        false => (5, Duration::from_millis(200), Duration::from_secs(2)),
    };
    Ok(Plan {
        sizes: sizes(&args.size)?,
        echo_sizes: sizes(&args.echo_size)?,
        launches: args.launches.unwrap_or(launches),
        cell,
        idle,
        pin,
        seed: args.seed,
    })
}

/// Sizes, of which 0 may be one.
fn sizes(text: &str) -> anyhow::Result<Vec<usize>> {
    let mut sizes = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let found = if item == "0" { vec![0] } else { sizes::parse_sizes(item)? };
        for size in found {
            let size = usize::try_from(size)?;
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
    }
    Ok(sizes)
}

fn pair(text: &str) -> anyhow::Result<[usize; 2]> {
    let cpus = text.split_once(',').context("give two CPUs, such as 0,1")?;
    let number = |text: &str| text.trim().parse().with_context(|| format!("{text:?} is no CPU"));
    Ok([number(cpus.0)?, number(cpus.1)?])
}

fn result(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write to standard output"),
    }
}

/// What is no result. If even that fails, nothing can report it.
fn aside(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> anyhow::Result<Plan> {
        plan_of(&Args::try_parse_from([&["nearcall-peers"], words].concat())?)
    }

    #[test]
    fn sizes_may_be_zero_and_come_once() {
        let plan = parsed(&["--size", "0,1KiB,1024", "--pin", "none"]).unwrap();
        assert_eq!(plan.sizes, [0, 1024]);
        assert!(parsed(&["--size", "1 kilo", "--pin", "none"]).is_err());
    }

    #[test]
    fn unknown_rows_and_cpus_are_refused() {
        assert!(chosen(&["tonik".to_owned()]).is_err());
        assert!(chosen(&["near".to_owned()]).unwrap().len() >= 2);
        assert!(parsed(&["--pin", "0"]).is_err());
        assert!(parsed(&["--pin", "0,99999"]).is_err());
    }
}
