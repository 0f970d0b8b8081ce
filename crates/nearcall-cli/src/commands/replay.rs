//! `nearcall replay`: sends the calls of a recording to a server, and compares what it replies.
//!
//! **Not here:** what is sent when and how replies are compared (`nearcall-recording`).

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::Address;
use nearcall_os::signal::Interrupt;
use nearcall_recording::{Percentiles, Reader, ReplayError, ReplayOptions, ReplayReport, Speed};
use nearcall_results::report::document::Document;
use nearcall_results::report::number::MISSING;
use nearcall_results::report::table::grid::{Align, Grid};
use serde::Serialize;

use super::{End, asked_server};
use crate::args::{JsonArgs, timeout};
use crate::terminal::style;
use crate::{completion, output};

/// Send the calls of a recording to a server again
///
/// Each call is sent at its time, over as many connections as there were, and what the caller got
/// then is waited for in the same order. With --compare replies, items and codes are compared with
/// the recorded ones, by fields. Times that were recorded are those in the server, and times now
/// those of the caller: to compare two servers, replay to both.
///
/// Calls of methods that do not say that a second call changes nothing (`idempotency_level`) are
/// sent as well, unless --only-idempotent; the output says how many.
///
/// Exit code: 0 done, and equal with --compare; 1 failure, or the recording ends early; 2 usage
/// error; 3 something differs; 130 interrupted.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// What `nearcall record` has written
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The name or the address of the server
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: Address,

    /// So many times as fast as it was recorded, or max: without pauses
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub(crate) speed: Speed,

    /// Compare replies, items and codes with the recorded ones
    #[arg(long)]
    pub(crate) compare: bool,

    /// Leave out calls of methods that are not declared idempotent
    #[arg(long)]
    pub(crate) only_idempotent: bool,

    /// Connections at most; further recorded ones share them
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "64",
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub(crate) max_connections: u32,

    /// Deadline of calls that had none
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    pub(crate) default_deadline: Duration,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.map(Speed::Times).ok_or_else(|| "give a factor above 0, such as 0.5 or 10, or max".into())
}

pub(super) fn run(args: &ReplayArgs) -> anyhow::Result<End> {
    let name = || args.file.display().to_string();
    let file = File::open(&args.file).with_context(name)?;
    let mut reader = Reader::new(BufReader::new(file)).with_context(name)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let options = ReplayOptions {
        speed: args.speed,
        compare: args.compare,
        only_idempotent: args.only_idempotent,
        connections_max: args.max_connections as usize,
        timeout: args.default_deadline,
    };
    let is_stopped = || interrupt.interrupted();
    let address = asked_server::own_address(&args.server)?;
    let report = nearcall_recording::replay(&mut reader, &address, &options, &is_stopped);
    let report = report.map_err(|error| match error {
        ReplayError::Server(status) => asked_server::failure(status),
        error => error.into(),
    })?;
    match args.format.json {
        true => output::json(&ReplayDocument { schema: SCHEMA, report: &report })?,
        false => output::result(&text(&report, args.compare))?,
    }
    if interrupt.interrupted() {
        return Ok(End::Interrupted);
    }
    if let Some(why) = &report.incomplete {
        output::diagnostic(&format!("error: {}: {why}", name()));
        return Ok(End::Code(ExitCode::FAILURE));
    }
    Ok(if report.different > 0 { End::Code(ExitCode::from(CODE_DIFFERENT)) } else { End::Done })
}

/// A report as a document.
#[derive(Serialize)]
struct ReplayDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'a ReplayReport,
}

fn text(report: &ReplayReport, is_compared: bool) -> String {
    let mut out = Document::default();
    out.title("Replay");
    let ReplayReport { calls, equal, different, not_compared, failed, connections, .. } = report;
    let (duration_s, latest_ms) = (report.duration_s, report.latest_ms);
    out.line(format!("  {calls} calls over {connections} connections in {duration_s:.3} s"));
    out.line(format!("  sent {latest_ms:.1} ms late at most, {failed} have failed"));
    if is_compared {
        out.line(format!("  {equal} equal, {different} different, {not_compared} not compared"));
    }
    for (count, what) in [
        (report.not_idempotent, "calls of methods that are not declared idempotent were sent"),
        (report.left_out, "calls of methods that are not declared idempotent were left out"),
        (report.cut, "calls were left out, since they are cut in the recording"),
        (report.dropped_calls, "calls are not in the recording: the server had left them out"),
        (report.dropped_events, "events of calls are not in the recording either"),
    ] {
        if count > 0 {
            out.line(format!("  {count} {what}"));
        }
    }
    if let Some(why) = &report.incomplete {
        out.line(format!("  not to its end: {why}"));
    }
    out.blank();
    out.grid(methods(report, is_compared));
    out.line("  times in µs: recorded in the server, now of the caller");
    if report.intervals.len() > 1 {
        out.blank();
        out.part("By the time of the recording");
        out.grid(intervals(report));
    }
    for difference in &report.differences {
        out.blank();
        let (call, method, at_s) = (difference.call, &difference.method, difference.at_s);
        out.line(format!("call {call}, {method}, at {at_s:.3} s"));
        difference.fields.iter().for_each(|field| out.line(format!("  {field}")));
    }
    out.text(style())
}

fn methods(report: &ReplayReport, is_compared: bool) -> Grid {
    let counts: &[&str] = match is_compared {
        true => &["calls", "equal", "different", "failed"],
        false => &["calls", "failed"],
    };
    let names = [&["method"][..], counts, &TIMES].concat();
    let mut grid = Grid::new(&columns(&names)).compact();
    for row in &report.methods {
        let mut cells = vec![row.method.clone(), row.calls.to_string()];
        if is_compared {
            cells.extend([row.equal.to_string(), row.different.to_string()]);
        }
        cells.push(row.failed.to_string());
        cells.extend(times(row.recorded.as_ref(), row.now.as_ref()));
        grid.row(cells);
    }
    grid
}

fn intervals(report: &ReplayReport) -> Grid {
    let mut grid = Grid::new(&columns(&[&["seconds", "calls"][..], &TIMES].concat())).compact();
    for row in &report.intervals {
        let span = format!("{:.1} to {:.1}", row.from_s, row.to_s);
        let mut cells = vec![span, row.calls.to_string()];
        cells.extend(times(row.recorded.as_ref(), row.now.as_ref()));
        grid.row(cells);
    }
    grid
}

fn columns<'a>(names: &[&'a str]) -> Vec<(&'a str, Align, usize)> {
    let align = |index: usize| if index == 0 { Align::Left } else { Align::Right };
    names.iter().enumerate().map(|(index, name)| (*name, align(index), 0)).collect()
}

fn times(recorded: Option<&Percentiles>, now: Option<&Percentiles>) -> [String; 4] {
    let cells = |of: Option<&Percentiles>| match of {
        Some(of) => [format!("{:.1}", of.p50_us), format!("{:.1}", of.p99_us)],
        None => [MISSING.to_owned(), MISSING.to_owned()],
    };
    let ([recorded_p50, recorded_p99], [now_p50, now_p99]) = (cells(recorded), cells(now));
    [recorded_p50, now_p50, recorded_p99, now_p99]
}

const TIMES: [&str; 4] = ["p50 recorded", "p50 now", "p99 recorded", "p99 now"];

const SCHEMA: &str = "nearcall.replay/1";

/// Something differs.
const CODE_DIFFERENT: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  nearcall replay room.rec thermostat --compare
  nearcall replay room.rec unix:/run/new.sock --speed max --compare
  nearcall replay room.rec thermostat --speed 10 --json | jq .differences";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_factors_or_max() {
        assert_eq!((speed("max"), speed("0.5")), (Ok(Speed::Max), Ok(Speed::Times(0.5))));
        for bad in ["0", "-1", "fast", "inf", "NaN", ""] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
