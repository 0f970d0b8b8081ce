//! `nearcall top`: what the servers of this user do, as a table that is kept up to date.
//!
//! On a terminal it is a screen with keys (`top/screen.rs`), elsewhere one block of text or one
//! JSON document for each tick.
//! **Not here:** counting, which every server does by itself.

mod rows;
mod sample;
mod screen;
mod text;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall_os::poll;
use nearcall_os::signal::Interrupt;
use nearcall_os::{Deadline, clock};
use serde::Serialize;

use self::rows::{History, Level, Rows, Sort, View};
use self::sample::Watcher;
use super::End;
use super::asked_server::ServerChoice;
use crate::args::{JsonArgs, interval};
use crate::terminal::style;
use crate::{completion, output};

/// Show what servers do: calls, times, processor, wake-ups
///
/// Asks each server once in each interval what it has counted, and shows the difference. p50 and
/// p99 are of the calls that the server has timed, one in 32 of each method, from the begin of a
/// call at the server until its reply is in the channel. Wake-ups are system calls of the server
/// that wake a client, and sleeps of the server that a message has ended.
///
/// On a terminal it is a screen: enter shows the methods of a server, c its connections, s sorts
/// by another column, r turns the order round, / takes a filter, q ends. Elsewhere each interval
/// is a block of text, or with --json one document in a line. A server of an older version, of
/// another user, or that does not answer is a row with the reason.
///
/// Exit code: 0 ended by q, by --count or by a reader that has gone; 1 failure; 2 usage error; 130
/// interrupted.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Names or addresses of servers, or numbers of their processes; none: all names of this user
    #[arg(value_name = "PID|NAME", add = ArgValueCompleter::new(completion::servers))]
    servers: Vec<ServerChoice>,

    /// What rows are about: servers, methods, connections
    #[arg(long, value_enum, default_value = "servers")]
    by: Level,

    /// What has the most comes first: calls, p50, p99, cpu, wakes, in-flight, errors, bytes, name
    #[arg(long, value_enum, default_value = "calls")]
    sort: Sort,

    /// Only rows with this in a name
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,

    /// Time between two ticks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// End after so many ticks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    format: JsonArgs,
}

pub(super) fn run(args: &TopArgs) -> anyhow::Result<End> {
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let view =
        View { level: args.by, sort: args.sort, filter: args.filter.clone(), ..View::default() };
    let mut ticker = Ticker::new(args)?;
    if !args.format.json && screen::is_possible() {
        return screen::run(&mut ticker, view, interrupt);
    }
    // The first answers are what the first interval begins with.
    let first = ticker.begin()?;
    if first.servers.is_empty() {
        output::diagnostic(&format!("no server yet in {}", ticker.watcher.place()));
    }
    loop {
        if !sleep_until(ticker.due(), interrupt)? {
            return Ok(End::Interrupted);
        }
        let rows = ticker.next()?;
        let is_read = match args.format.json {
            true => {
                let (schema, interval_s) = (SCHEMA, ticker.seconds);
                let document = Document { schema, interval_s, rows: &rows };
                output::message(&serde_json::to_string(&document).context("cannot make JSON")?)?
            }
            false => output::stream(&text::block(&rows, &view, ticker.seconds, style()))?,
        };
        if !is_read || ticker.is_over() {
            return Ok(End::Done);
        }
    }
}

/// Sleeps. Returns false after a signal.
fn sleep_until(due: Deadline, interrupt: Interrupt) -> anyhow::Result<bool> {
    poll::poll_one(interrupt.fd(), poll::Interest::Readable, due).context("cannot wait")?;
    Ok(!interrupt.interrupted())
}

/// Asks the servers at each tick.
struct Ticker {
    watcher: Watcher,
    history: History,
    interval: Duration,
    /// None: no end.
    left: Option<u64>,
    last: Instant,
    /// The length of the last interval.
    seconds: f64,
}

impl Ticker {
    fn new(args: &TopArgs) -> anyhow::Result<Self> {
        let (watcher, history) = (Watcher::new(&args.servers)?, History::default());
        let (interval, left, last) = (args.interval, args.count, clock::now());
        Ok(Self { watcher, history, interval, left, last, seconds: 0.0 })
    }

    /// Asks without counting it as a tick.
    fn begin(&mut self) -> anyhow::Result<Rows> {
        self.last = clock::now();
        Ok(self.history.advance(self.watcher.sample()?))
    }

    fn next(&mut self) -> anyhow::Result<Rows> {
        let before = self.last;
        self.left = self.left.map(|left| left.saturating_sub(1));
        let rows = self.begin()?;
        self.seconds = self.last.duration_since(before).as_secs_f64();
        Ok(rows)
    }

    /// Returns when the next tick is due: an interval after the last one began.
    fn due(&self) -> Deadline {
        self.last.checked_add(self.interval).map_or(Deadline::NEVER, Deadline::at)
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Servers => "servers",
        Level::Methods => "methods",
        Level::Connections => "connections",
    }
}

/// What `--json` prints for each tick, in one line.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    interval_s: f64,
    #[serde(flatten)]
    rows: &'a Rows,
}

const SCHEMA: &str = "nearcall.top/1";

pub(crate) const EXAMPLES: &str = "\
Examples:
  nearcall top
  nearcall top thermostat --by connections --sort p99
  nearcall top --json --count 1 | jq -c '.methods[] | [.method, .p99_ns]'";
