//! One suite for all languages: each client against each server, over each mechanism.
//!
//! A language takes part by a program: `PROGRAM client ADDRESS` reads lines that say what to call
//! ([`cases`] has them) and answers each; `PROGRAM server ADDRESS DESCRIPTORS` serves
//! `grpc.testing.TestService` as gRPC describes it, and `conformance.v1.Notes`. It prints `ready
//! ADDRESS`, and when its input ends it lets calls under way end and exits with 0. `DESCRIPTORS` is
//! a directory in which `INTERFACE.binpb` describes an interface, for languages without generated
//! code.
//! The programs are in the directory `languages` of this crate; that in Rust is [`rust_client`] and
//! [`rust_server`].
//!
//! **Invariants:** a case is written once.
//! **Not here:** how the programs are built (`cargo xtask languages`).
//!
//! **Invariant:** a client of each language gets of a server of each language what the table says.
//! *Checked by* `cargo xtask languages`.

mod bench;
mod cases;
mod cell;
mod mix;
mod program;
mod rust_client;
mod rust_server;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nearcall::Status;
use nearcall_os::clock;

use self::cases::Case;
use self::cell::{Cell, Outcome};
use self::notes::NotesCaller;
use crate::testing::TestServiceCaller;

mod notes {
    nearcall::include_proto!("conformance.v1");
}

/// The longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What takes part.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A language and its program; Rust is always there
    #[arg(long = "program", value_name = "LANGUAGE=COMMAND")]
    programs: Vec<Language>,
    /// A mechanism; the default is all
    #[arg(long, value_enum)]
    mechanism: Vec<Via>,
    /// A language of clients; the default is all
    #[arg(long, value_name = "LANGUAGE")]
    client: Vec<String>,
    /// A language of servers; the default is all
    #[arg(long, value_name = "LANGUAGE")]
    server: Vec<String>,
    /// A case; the default is all
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Measure calls in each language, and run no case; on two CPUs that do nothing else
    #[arg(long)]
    bench: bool,
    /// What is measured beside: a name, and a program that knows `time`
    #[arg(long = "rival", value_name = "NAME=COMMAND", requires = "bench")]
    rivals: Vec<Language>,
    /// Call at random for so many seconds, kill processes meanwhile, and run no case
    #[arg(long, value_name = "SECONDS", conflicts_with = "bench")]
    mix: Option<u64>,
    /// What the mix follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long, conflicts_with = "mix")]
    json: bool,
}

/// A process of the suite: of Rust.
#[derive(Debug, clap::Subcommand)]
pub enum Part {
    /// Call a server by the lines of standard input
    Client {
        /// The address of the server
        address: String,
    },
    /// Serve the calls of clients
    Server {
        /// Where to
        address: String,
        /// Not used
        descriptors: PathBuf,
    },
    /// Serve what is measured
    Measured {
        /// Where to
        address: String,
        /// Not used
        descriptors: PathBuf,
    },
}

/// Is a process of the suite.
///
/// # Errors
///
/// Those of its part.
pub async fn run_part(part: Part) -> anyhow::Result<()> {
    match part {
        Part::Client { address } => rust_client::run(&address),
        Part::Server { address, .. } => rust_server::run(&address).await,
        Part::Measured { address, .. } => bench::serve(&address),
    }
}

/// A language that takes part.
#[derive(Debug, Clone)]
struct Language {
    name: String,
    /// The program, and its first arguments.
    command: Vec<String>,
}

impl FromStr for Language {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, command) = text.split_once('=').ok_or("it has no `=`")?;
        let command = command.split_whitespace().map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), command })
    }
}

/// The mechanism of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    Shm,
    UnixStream,
    Tcp,
}

impl Via {
    fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::UnixStream => "unix-stream",
            Self::Tcp => "tcp",
        }
    }

    fn is_local(self) -> bool {
        self != Self::Tcp
    }
}

/// What came of a cell.
struct Row {
    client: String,
    server: String,
    via: Via,
    passed: usize,
    skipped: usize,
    failures: Vec<(&'static str, String)>,
    seconds: f64,
}

impl Row {
    fn counts(&self) -> String {
        let all = self.passed + self.skipped + self.failures.len();
        let skipped = (self.skipped > 0).then(|| format!(" ({} skipped)", self.skipped));
        format!("{}/{all}{}", self.passed, skipped.unwrap_or_default())
    }
}

/// Runs the suite, and prints what came of it. Returns whether nothing has failed.
///
/// # Errors
///
/// The options name something that there is not.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let program = std::env::current_exe()?.display().to_string();
    let rust = Language { name: "Rust".into(), command: vec![program, "language".into()] };
    let languages: Vec<_> = [rust].into_iter().chain(options.programs.iter().cloned()).collect();
    if let Some(seconds) = options.mix {
        return mix::run(&languages, seconds, options.seed).map(|()| true);
    }
    if options.bench {
        return bench::run(&languages, &options.rivals, options.json).map(|()| true);
    }
    let (clients, servers) =
        (select(&languages, &options.client)?, select(&languages, &options.server)?);
    let cases = select_cases(&options.case)?;
    let all = <[Via]>::to_vec(<Via as clap::ValueEnum>::value_variants());
    let vias = if options.mechanism.is_empty() { &all } else { &options.mechanism };
    let descriptors = Descriptors::write()?;
    let mut rows = Vec::new();
    for client in &clients {
        for server in &servers {
            for &via in vias {
                let cell = Cell { client, server, via, descriptors: &descriptors.0 };
                rows.push(run_cell(&cell, &cases));
            }
        }
    }
    let mut out = io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", json(&rows))?,
        false => table(&rows, vias, &mut out)?,
    }
    Ok(rows.iter().all(|row| row.failures.is_empty()))
}

fn select<'a>(all: &'a [Language], names: &[String]) -> anyhow::Result<Vec<&'a Language>> {
    let is_name = |name: &String| all.iter().any(|language| language.name == *name);
    if let Some(unknown) = names.iter().find(|name| !is_name(name)) {
        bail!("no program is in {unknown}");
    }
    let is_chosen = |language: &&Language| names.is_empty() || names.contains(&language.name);
    Ok(all.iter().filter(is_chosen).collect())
}

fn select_cases(names: &[String]) -> anyhow::Result<Vec<Case>> {
    let mut cases = cases::all();
    for name in names {
        ensure!(cases.iter().any(|case| case.name == name), "there is no case {name}");
    }
    cases.retain(|case| names.is_empty() || names.iter().any(|name| case.name == name));
    Ok(cases)
}

fn run_cell(cell: &Cell<'_>, cases: &[Case]) -> Row {
    let started = clock::now();
    let mut row = Row {
        client: cell.client.name.clone(),
        server: cell.server.name.clone(),
        via: cell.via,
        passed: 0,
        skipped: 0,
        failures: Vec::new(),
        seconds: 0.0,
    };
    for (case, outcome) in cell.run(cases) {
        match outcome {
            Ok(Outcome::Passed) => row.passed += 1,
            Ok(Outcome::Skipped) => row.skipped += 1,
            Err(error) => row.failures.push((case.name, format!("{error:#}"))),
        }
    }
    row.seconds = started.elapsed().as_secs_f64();
    row
}

fn table(rows: &[Row], vias: &[Via], out: &mut impl Write) -> io::Result<()> {
    let width = rows.iter().map(|row| row.counts().len()).max().unwrap_or(0).max(11);
    write!(out, "{:16}", "client→server")?;
    for via in vias {
        write!(out, "  {:>width$}", via.name())?;
    }
    writeln!(out)?;
    for pair in rows.chunks(vias.len()) {
        write!(out, "{:16}", format!("{}→{}", pair[0].client, pair[0].server))?;
        for row in pair {
            write!(out, "  {:>width$}", row.counts())?;
        }
        writeln!(out)?;
    }
    for row in rows {
        for (case, failure) in &row.failures {
            let (via, Row { client, server, .. }) = (row.via.name(), row);
            writeln!(out, "FAIL {client}→{server} {via} {case}: {failure}")?;
        }
    }
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    writeln!(out, "{} cells in {seconds:.0} s", rows.len())
}

fn json(rows: &[Row]) -> serde_json::Value {
    let rows = rows.iter().map(|row| {
        let failures = row.failures.iter();
        let failures =
            failures.map(|(case, failure)| serde_json::json!({ "case": case, "failure": failure }));
        serde_json::json!({
            "client": row.client,
            "server": row.server,
            "via": row.via.name(),
            "passed": row.passed,
            "skipped": row.skipped,
            "failures": failures.collect::<Vec<_>>(),
            "seconds": row.seconds,
        })
    });
    serde_json::json!({ "schema": "nearcall.languages/1", "cells": rows.collect::<Vec<_>>() })
}

/// A directory with the descriptions of the interfaces, which goes with it.
struct Descriptors(PathBuf);

impl Descriptors {
    fn write() -> anyhow::Result<Self> {
        let name = format!("nearcall-languages-{}", std::process::id());
        let directory = Self(std::env::temp_dir().join(name));
        let path: &Path = &directory.0;
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        for interface in [TestServiceCaller::INTERFACE, NotesCaller::INTERFACE] {
            let file = path.join(format!("{}.binpb", interface.name));
            std::fs::write(file, interface.descriptor_set)?;
        }
        Ok(directory)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // What is left in the temporary directory does not matter.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints a line that another process waits for.
fn print(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, Status> {
    let pairs = hex.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    bytes.collect::<Option<_>>().ok_or_else(|| Status::invalid_argument("no hexadecimal number"))
}
