//! `nearcall switch`: has clients of a server move to another mechanism.
//!
//! **Not here:** how a connection moves, which is `nearcall`'s.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::control::{ServerCaller, SwitchOutcome, SwitchRequest};
use nearcall::{CallOptions, Code, Mechanism};
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;
use serde::Serialize;

use super::End;
use super::asked_server::{self, ServerChoice};
use crate::args::{JsonArgs, ask_timeout};
use crate::terminal::style;
use crate::{completion, output};

/// Have clients of a server move to another mechanism, while calls go on
///
/// The server asks its clients, all of them unless --client or --connection chooses some. It
/// obeys its own user and root, has to offer the mechanism, and must not forbid switches
/// (`Limits::switches_per_minute_max`). A client in a loop moves at once, one without a loop
/// when it next calls, and one whose calls are futures at one of these moments: until --timeout
/// it is waited for, and after that it still moves. Prints what has become of each connection,
/// and why one stays.
///
/// Exit code: 0 all of them use the mechanism; 1 some do not, or the server refused; 2 usage
/// error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct SwitchArgs {
    /// The name or the address of the server, or the number of its process
    #[arg(value_name = "PID|NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: ServerChoice,

    /// The mechanism to move to; `nearcall mechanisms` lists them
    #[arg(value_name = "MECHANISM")]
    pub(crate) mechanism: Mechanism,

    /// Only connections of this client process
    #[arg(id = "client_pid", long = "client", value_name = "PID", conflicts_with = "connection")]
    pub(crate) client: Option<i32>,

    /// Only connections of these numbers, separated by commas; `nearcall explain` shows them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connection: Vec<u64>,

    /// Longest wait until that is done
    ///
    /// A minute at most. Clients that have not answered by then may still move.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = ask_timeout)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &SwitchArgs) -> anyhow::Result<End> {
    let address = asked_server::address(&args.server)?;
    let server = ServerCaller::new(&asked_server::client(), &address)?;
    let (connections, pid) = (args.connection.clone(), args.client);
    let request = SwitchRequest {
        mechanism: args.mechanism.name().to_owned(),
        all: connections.is_empty() && pid.is_none(),
        connections,
        pid,
        timeout_ms: u32::try_from(args.timeout.as_millis()).unwrap_or(u32::MAX).max(1),
    };
    let options = CallOptions::new().deadline(args.timeout + ANSWER_MAX);
    let reply = server.with(options).switch(&request).map_err(|status| match status.code() {
        Code::Unimplemented => {
            let why = format!("the server at {address} is of a version without switches");
            anyhow::Error::from(status).context(why)
        }
        _ => asked_server::failure(status),
    })?;
    let rows: Vec<_> = reply.connections.iter().map(Row::of).collect();
    match args.format.json {
        true => output::json(&Document { schema: SCHEMA, server: &address, connections: &rows })?,
        false => output::result(&text(&rows, args.mechanism.name(), style()))?,
    }
    let stay = rows.iter().filter(|row| row.why.is_some()).count();
    if stay > 0 {
        bail!("{stay} of {} connections do not use {}", rows.len(), args.mechanism);
    }
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    server: &'a str,
    connections: &'a [Row],
}

#[derive(Serialize)]
struct Row {
    connection: u64,
    client: String,
    pid: Option<i32>,
    before: String,
    after: String,
    /// Null: it uses the mechanism.
    why: Option<Why>,
}

#[derive(Serialize)]
struct Why {
    /// Such as `DEADLINE_EXCEEDED`: not yet.
    code: String,
    text: String,
}

impl Row {
    fn of(outcome: &SwitchOutcome) -> Self {
        let why = (outcome.code != 0)
            .then(|| Why { code: code_name(outcome.code), text: outcome.message.clone() });
        Self {
            connection: outcome.number,
            client: outcome.name.clone(),
            pid: outcome.pid,
            before: outcome.before.clone(),
            after: outcome.after.clone(),
            why,
        }
    }
}

fn code_name(number: i32) -> String {
    let code = Code::ALL.into_iter().find(|code| i32::from(code.number()) == number);
    code.map_or_else(|| number.to_string(), |code| code.to_string())
}

fn text(rows: &[Row], mechanism: &str, style: Style) -> String {
    let mut out = document::Document::default();
    let mut grid = Grid::new(&HEAD).compact();
    for row in rows {
        // A server chooses the texts that it replies with.
        let cells = [&row.client, &row.before, &row.after].map(|text| printable(text));
        let [client, before, after] = cells;
        grid.row(vec![row.connection.to_string(), client, before, after]);
        if row.why.is_some() {
            grid.paint(AFTER, Ink::Bad);
        }
    }
    out.grid(grid);
    let stay: Vec<_> = rows.iter().filter_map(|row| Some((row, row.why.as_ref()?))).collect();
    if !stay.is_empty() {
        out.blank();
        out.title("Why");
        for (row, why) in &stay {
            out.wrap(&format!("  {}  ", row.connection), printable(&why.text));
        }
    }
    let moved = rows.len() - stay.len();
    out.answer(format!("{moved} of {} connections use {mechanism}.", rows.len()));
    out.text(style)
}

const SCHEMA: &str = "nearcall.switch/1";

/// Longest wait for the answer beyond that for the clients.
const ANSWER_MAX: Duration = Duration::from_secs(5);

const HEAD: [(&str, Align, usize); 4] = [
    ("connection", Align::Right, 0),
    ("client", Align::Left, 0),
    ("before", Align::Left, 0),
    ("after", Align::Left, 0),
];

const AFTER: usize = 3;

const EXAMPLES: &str = "\
Examples:
  nearcall switch thermostat shm-futex           all of its clients
  nearcall switch 4711 unix-stream --client 4712   by processes
  nearcall switch thermostat shm --connection 3,5 --timeout 30s";
