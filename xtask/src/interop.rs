//! `cargo xtask interop`: runs the interoperability cases of gRPC between nearcall, tonic and
//! gRPC's implementation in Go.
//!
//! A column is a client and a server, without or with TLS; a row is a case. Every case is a process
//! of the client. What the processes are is in `Column::serve` and `Column::call` alone. After the
//! table there is a storm: calls at random through two gateways in a row, which are killed.
//! Invariants: each process ends within a limit or is killed, and none outlives the chore.
//! Not here: the cases and the storm (`crates/nearcall-grpc-interop`).

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::{env, fs, process};

use clap::Args;
use serde_json::{Value, json};

use crate::child::{Child, succeed};
use crate::facts;

/// The version of gRPC's implementation in Go.
const GO_VERSION: &str = "v1.85.0";
/// The name in the certificates.
const DOMAIN: &str = "interop.test";
/// How long a case may take; the program `interop` ends its own cases before.
const CASE_LIMIT: Duration = Duration::from_secs(40);
/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often a server is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long the storm takes, in seconds, and its end, with what it waits for at most.
const STORM_SECONDS: &str = "20";
const STORM_LIMIT: Duration = Duration::from_secs(300);

/// What `cargo xtask interop` runs.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Options {
    /// Leave out what needs Go
    #[arg(long)]
    cargo_only: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Where the programs `client` and `server` of grpc-go are; without it they are installed
    /// below the target directory
    #[arg(long, value_name = "DIRECTORY")]
    go: Option<PathBuf>,
}

/// What can be an end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Nearcall,
    Tonic,
    Go,
    /// As a server only: the service of nearcall behind a gateway.
    Gateway,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Nearcall => "nearcall",
            Self::Tonic => "tonic",
            Self::Go => "go",
            Self::Gateway => "gateway",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Column {
    client: End,
    server: End,
    is_tls: bool,
}

/// The clients and servers of the columns.
const PAIRS: &[(End, End)] = &[
    (End::Nearcall, End::Nearcall),
    (End::Go, End::Gateway),
    (End::Tonic, End::Gateway),
    (End::Nearcall, End::Go),
    (End::Nearcall, End::Tonic),
    (End::Nearcall, End::Gateway),
    // What the columns above are compared with.
    (End::Tonic, End::Tonic),
    (End::Go, End::Tonic),
    (End::Tonic, End::Go),
];

/// How one case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    /// One of the ends does not have it.
    Absent,
    Passed,
    /// The reason.
    Failed(String),
}

/// What all columns share.
struct Setup {
    /// The program `interop`.
    interop: PathBuf,
    /// Where certificates are.
    directory: PathBuf,
    /// Where the programs of Go are.
    go: PathBuf,
}

/// A server and what is before it; the last one is called.
struct Served {
    children: Vec<Child>,
    /// The address of nearcall.
    service: String,
    port: u16,
}

/// Runs the table, prints it to `out`, and returns whether no case has failed.
///
/// # Errors
///
/// A program cannot be built or installed, or a server does not start.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let setup = Setup::prepare(root, options)?;
    let cases = setup.run_interop(&["cases"])?;
    let cases: Vec<&str> = cases.lines().collect();
    let tls = [false, true];
    let all = PAIRS.iter().flat_map(|(client, server)| {
        tls.map(|is_tls| Column { client: *client, server: *server, is_tls })
    });
    let mut columns = Vec::new();
    let mut left_out = Vec::new();
    for column in all.filter(Column::exists) {
        match column.left_out(options) {
            Some(reason) => left_out.push((column, reason)),
            None => columns.push((column, column.run(&setup, &cases)?)),
        }
    }
    let storm = setup.storm()?;
    let mut failed = failures(&columns, &cases);
    failed.extend(storm.as_ref().err().map(|reason| format!("FAIL storm: {reason}")));
    if options.json {
        let mut document = document(&columns, &cases, &left_out);
        document["storm"] = match &storm {
            Ok(text) => serde_json::from_str(text).map_err(io::Error::other)?,
            Err(reason) => json!({ "failure": reason }),
        };
        writeln!(out, "{document}")?;
    } else {
        table(&columns, &cases, out)?;
        writeln!(out, "storm: {}", storm.unwrap_or_default().trim_end())?;
        for line in &failed {
            writeln!(out, "{line}")?;
        }
        for (column, reason) in &left_out {
            writeln!(out, "not run: {}: {reason}", column.title())?;
        }
    }
    Ok(failed.is_empty())
}

impl Setup {
    /// Builds and installs what the columns need.
    fn prepare(root: &Path, options: &Options) -> io::Result<Self> {
        let target = facts::target_directory(root);
        let directory = target.join("interop");
        fs::create_dir_all(&directory)?;
        let mut build = Command::new("cargo");
        build.current_dir(root).args(["build", "--quiet", "--package", "nearcall-grpc-interop"]);
        succeed(&mut build)?;
        let go = options.go.clone().unwrap_or_else(|| directory.join(format!("go-{GO_VERSION}")));
        let interop = target.join("debug/interop");
        let setup = Self { interop, directory, go };
        let out = setup.directory.to_string_lossy().into_owned();
        setup.run_interop(&["certificates", "--domain", DOMAIN, "--out", &out])?;
        if !options.cargo_only && !setup.go.join("client").exists() {
            writeln!(io::stderr(), "installing grpc-go {GO_VERSION}: about two minutes")?;
            let mut install = Command::new("go");
            install.env("GOBIN", env::current_dir()?.join(&setup.go)).arg("install");
            let package = |name| format!("google.golang.org/grpc/interop/{name}@{GO_VERSION}");
            succeed(install.args(["client", "server"].map(package)))?;
        }
        Ok(setup)
    }

    fn run_interop(&self, arguments: &[&str]) -> io::Result<String> {
        succeed(Command::new(&self.interop).args(arguments))
    }

    /// Runs the storm, and returns its document, or why it failed.
    fn storm(&self) -> io::Result<Result<String, String>> {
        let mut command = Command::new(&self.interop);
        command.args(["storm", "--json", "--seconds", STORM_SECONDS]);
        Child::start(&mut command)?.finish(STORM_LIMIT)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }
}

impl Column {
    fn title(&self) -> String {
        let tls = if self.is_tls { " TLS" } else { "" };
        format!("{} > {}{tls}", self.client.name(), self.server.name())
    }

    /// Calls within this machine have no TLS.
    fn exists(&self) -> bool {
        !(self.is_tls && self.server == End::Nearcall)
    }

    /// Returns why it cannot be run.
    fn left_out(&self, options: &Options) -> Option<&'static str> {
        let is_go = [self.client, self.server].contains(&End::Go);
        (options.cargo_only && is_go).then_some("--cargo-only")
    }

    /// Whether both ends have a case.
    fn has(&self, case: &str) -> bool {
        let is_go = self.client == End::Go || self.server == End::Go;
        if case.contains("_compressed_") {
            // Only tonic's service sees which messages came compressed.
            return self.client == End::Tonic && self.server == End::Tonic;
        }
        !(is_go && case == "cacheable_unary")
    }

    fn run(&self, setup: &Setup, cases: &[&str]) -> io::Result<Vec<Cell>> {
        let named = |error| io::Error::other(format!("{}: {error}", self.title()));
        let served = self.serve(setup).map_err(named)?;
        let cell = |case: &&str| {
            if !self.has(case) {
                return Ok(Cell::Absent);
            }
            let child = Child::start(&mut self.call(setup, &served, case)).map_err(named)?;
            Ok(match child.finish(CASE_LIMIT)? {
                Ok(_) => Cell::Passed,
                Err(reason) => {
                    let repeated = format!("FAIL {case}: ");
                    Cell::Failed(reason.strip_prefix(&repeated).unwrap_or(&reason).to_owned())
                }
            })
        };
        cases.iter().map(cell).collect()
    }

    /// Starts the server.
    fn serve(&self, setup: &Setup) -> io::Result<Served> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let service = format!("unix:@nearcall-xtask-interop-{}", process::id());
        let mut served = Served { children: Vec::new(), service, port };
        if matches!(self.server, End::Nearcall | End::Gateway) {
            let mut command = Command::new(&setup.interop);
            let child = Child::start(command.args(["serve", "--nearcall", &served.service]))?;
            child.wait_for_line("listening", START_LIMIT)?;
            served.children.push(child);
        }
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(&setup.interop);
        match self.server {
            End::Nearcall => return Ok(served),
            End::Gateway => {
                let service = &served.service;
                command.args(["gateway", "--nearcall", service, "--listen", &listen]);
            }
            End::Tonic => {
                command.args(["serve-tonic", "--listen", &listen]);
            }
            End::Go => {
                command = Command::new(setup.go.join("server"));
                command.args(["-port", &port.to_string()]);
            }
        }
        if self.is_tls {
            let (certificate, key) = (setup.file("server.pem"), setup.file("server.key"));
            if self.server == End::Go {
                command.args(["-use_tls", "-tls_cert_file", &certificate, "-tls_key_file", &key]);
            } else {
                command.args(["--tls-cert", &certificate, "--tls-key", &key]);
            }
        }
        let child = Child::start(&mut command)?;
        listens(&child, port)?;
        served.children.push(child);
        Ok(served)
    }

    /// Returns the command of one case.
    fn call(&self, setup: &Setup, served: &Served, case: &str) -> Command {
        let port = served.port.to_string();
        let mut command = match self.client {
            End::Go => {
                let mut command = Command::new(setup.go.join("client"));
                command.args(["-server_host", "127.0.0.1", "-server_port", &port]);
                command.args(["-test_case", case]);
                command
            }
            End::Tonic => {
                let mut command = Command::new(&setup.interop);
                let scheme = if self.is_tls { "https" } else { "http" };
                let address = format!("{scheme}://127.0.0.1:{port}");
                command.args(["call-tonic", "--case", case, "--address", &address]);
                command
            }
            End::Nearcall | End::Gateway => {
                let scheme = if self.is_tls { "grpcs" } else { "grpc" };
                let address = match self.server {
                    End::Nearcall => served.service.clone(),
                    _ => format!("{scheme}://127.0.0.1:{port}"),
                };
                let mut command = Command::new(&setup.interop);
                command.args(["call", "--case", case, "--address", &address]);
                command
            }
        };
        let ca = setup.file("ca.pem");
        match self.client {
            End::Go if self.is_tls => {
                command.args(["-use_tls", "-use_test_ca", "-ca_file", &ca]);
                command.args(["-server_host_override", DOMAIN]);
            }
            _ if self.is_tls => {
                command.args(["--ca", &ca, "--domain", DOMAIN]);
            }
            _ => {}
        }
        command
    }
}

/// Waits until a server accepts connections at `port`.
fn listens(server: &Child, port: u16) -> io::Result<()> {
    let mut left = START_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        match server.wait_line(ASK_EVERY) {
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the server has ended"));
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                return Err(io::Error::other(format!("no server listens at port {port}")));
            }
            Err(RecvTimeoutError::Timeout) => left = left.saturating_sub(ASK_EVERY),
        }
    }
    Ok(())
}

type Columns = Vec<(Column, Vec<Cell>)>;

fn failures(columns: &Columns, cases: &[&str]) -> Vec<String> {
    let of_column = |(column, cells): &(Column, Vec<Cell>)| {
        let failed = cells.iter().zip(cases).filter_map(|(cell, case)| match cell {
            Cell::Failed(reason) => Some(format!("FAIL {case}, {}: {reason}", column.title())),
            _ => None,
        });
        failed.collect::<Vec<_>>()
    };
    columns.iter().flat_map(of_column).collect()
}

fn table(columns: &Columns, cases: &[&str], out: &mut dyn Write) -> io::Result<()> {
    let titles: Vec<String> = columns.iter().map(|(column, _)| column.title()).collect();
    let width = cases.iter().map(|case| case.len()).max().unwrap_or_default();
    writeln!(out, "{:width$}  {}", "case", titles.join("  "))?;
    for (row, case) in cases.iter().enumerate() {
        write!(out, "{case:width$}")?;
        for ((_, cells), title) in columns.iter().zip(&titles) {
            let text = match &cells[row] {
                Cell::Absent => "-",
                Cell::Passed => "pass",
                Cell::Failed(_) => "FAIL",
            };
            write!(out, "  {text:>width$}", width = title.len())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn document(columns: &Columns, cases: &[&str], left_out: &[(Column, &str)]) -> Value {
    let cell = |(case, cell): (&&str, &Cell)| match cell {
        Cell::Absent => json!({ "case": case, "result": "absent" }),
        Cell::Passed => json!({ "case": case, "result": "passed" }),
        Cell::Failed(reason) => json!({ "case": case, "result": "failed", "reason": reason }),
    };
    let column = |(column, cells): &(Column, Vec<Cell>)| {
        let cells: Value = cases.iter().zip(cells).map(cell).collect();
        json!({
            "client": column.client.name(),
            "server": column.server.name(),
            "tls": column.is_tls,
            "cases": cells,
        })
    };
    let left_out = left_out
        .iter()
        .map(|(column, reason)| json!({ "column": column.title(), "reason": reason }));
    json!({
        "schema": "nearcall.interop/1",
        "columns": columns.iter().map(column).collect::<Value>(),
        "left_out": left_out.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        let words = ["interop"].into_iter().chain(line.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).unwrap().options
    }

    fn columns() -> Vec<Column> {
        let column = |(client, server): &(End, End)| {
            [false, true].map(|is_tls| Column { client: *client, server: *server, is_tls })
        };
        PAIRS.iter().flat_map(column).filter(Column::exists).collect()
    }

    fn run_by(line: &str) -> Vec<String> {
        let options = options(line);
        let columns = columns().into_iter().filter(|column| column.left_out(&options).is_none());
        columns.map(|column| column.title()).collect()
    }

    #[test]
    fn columns_need_what_is_there() {
        let cargo_only = run_by("--cargo-only");
        assert!(cargo_only.contains(&"nearcall > tonic TLS".to_owned()), "{cargo_only:?}");
        assert!(cargo_only.iter().all(|title| !title.contains("go ") && !title.ends_with("go")));
        assert_eq!(run_by("").len(), columns().len());
    }

    #[test]
    fn a_case_is_run_where_both_ends_have_it() {
        let has = |case: &str| columns().iter().filter(|column| column.has(case)).count();
        assert_eq!(has("empty_unary"), columns().len());
        assert_eq!(has("server_compressed_unary"), 2);
        let is_go = |column: &&Column| column.client == End::Go || column.server == End::Go;
        assert_eq!(
            has("cacheable_unary"),
            columns().len() - columns().iter().filter(is_go).count()
        );
    }

    #[test]
    fn what_failed_is_in_the_table_and_named() {
        let column = Column { client: End::Go, server: End::Gateway, is_tls: true };
        let cells = vec![Cell::Passed, Cell::Failed("reason".to_owned()), Cell::Absent];
        let columns = vec![(column, cells)];
        let cases = ["one", "two", "three"];
        assert_eq!(failures(&columns, &cases), ["FAIL two, go > gateway TLS: reason"]);
        let mut out = Vec::new();
        table(&columns, &cases, &mut out).unwrap();
        let rows: Vec<Vec<String>> = String::from_utf8(out)
            .unwrap()
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        assert_eq!(rows, [["one", "pass"], ["two", "FAIL"], ["three", "-"]]);
        let document = document(&columns, &cases, &[]);
        assert_eq!(document["columns"][0]["cases"][1]["reason"], "reason");
    }
}
