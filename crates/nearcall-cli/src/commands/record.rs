//! `nearcall record`: writes what the clients of a server call, and what they get, into a file.
//!
//! **Invariants:** whatever ends it, what was recorded until then can be read; what the server has
//! left out is in the file and in the summary.
//! **Not here:** what the server records and its bounds (`nearcall`), the file
//! (`nearcall-recording`).

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::control::{
    DescribeReply, DescribeRequest, RecordReply, RecordRequest, RecordedInterface, RecordingHeader,
    ServerCaller,
};
use nearcall::{CallOptions, Code, Status};
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_recording::{Summary, Writer};
use nearcall_results::report::number;
use nearcall_results::sizes::{SizeError, parse_bytes};
use serde::Serialize;

use super::End;
use super::asked_server::{self, ServerChoice};
use crate::args::{JsonArgs, timeout, value};
use crate::{completion, output};

/// Record the calls of a server and their replies into a file
///
/// The server streams what its clients call and get: requests, replies, items, metadata, times. It
/// obeys its own user and root. No call waits for that: what exceeds --max-rate or --max-memory is
/// left out and counted. Calls within a thread of the server are not recorded. Ends by Ctrl-C,
/// SIGTERM, --duration, or with the server. `nearcall replay` sends the calls again, `nearcall
/// advise --trace` reads the file, docs/book/src/reference/recording.md describes it.
///
/// Exit code: 0 ended as above; 1 the server refused or has gone, or the file cannot be written:
/// what was written until then can be read; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// The name or the address of the server, or the number of its process
    #[arg(value_name = "NAME|PID", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: ServerChoice,

    /// Write the recording here
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// End after this time
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub(crate) duration: Option<Duration>,

    /// Only calls of these interfaces, such as home.v1.Thermostat, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,

    /// Only calls of these methods, such as SetTarget or home.v1.Thermostat/SetTarget
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) method: Vec<String>,

    /// Only connections of these numbers, separated by commas; `nearcall explain` shows them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connection: Vec<u64>,

    /// Bytes that are recorded in a second at most
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes)]
    pub(crate) max_rate: u64,

    /// Bytes that wait in the server at most
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = bytes)]
    pub(crate) max_memory: u64,

    /// Bytes of a message that are recorded at most; a call with a longer request is not replayed
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = value::size)]
    pub(crate) max_body: u64,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Reads a number of bytes that may be more than a message has.
fn bytes(text: &str) -> Result<u64, SizeError> {
    parse_bytes(text, u64::MAX)
}

pub(super) fn run(args: &RecordArgs) -> anyhow::Result<End> {
    let address = asked_server::address(&args.server)?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let described = describe(&address)?;
    check_choice(args, &described)?;
    let request = RecordRequest {
        interfaces: args.interface.clone(),
        methods: args.method.clone(),
        connections: args.connection.clone(),
        bytes_per_s_max: args.max_rate,
        memory_bytes_max: args.max_memory,
        body_bytes_max: u32::try_from(args.max_body).unwrap_or(u32::MAX),
    };
    let parts = read(address.clone(), request.clone())?;
    // A server that refuses has no file made.
    match parts.recv() {
        Ok(Ok(_)) => {}
        Ok(Err(status)) if status.code() == Code::Unimplemented => {
            let version = described.version;
            return Err(anyhow!("{address}: its version, {version}, does not record: rebuild it"));
        }
        Ok(Err(status)) => return Err(asked_server::failure(status)),
        Err(_) => return Err(anyhow!("{address}: the server has ended")),
    }
    let name = args.out.display();
    let file = File::create(&args.out).with_context(|| format!("cannot write {name}"))?;
    let header = RecordingHeader {
        started_unix_ns: clock::realtime_ns(),
        address,
        request: Some(request),
        interfaces: described.interfaces.into_iter().map(recorded_interface).collect(),
        ..RecordingHeader::default()
    };
    let mut writer = Writer::new(BufWriter::new(file), header)
        .and_then(|mut writer| writer.flush().map(|()| writer))
        .with_context(|| format!("cannot write {name}"))?;
    output::diagnostic(&format!("recording into {name}; Ctrl-C ends it"));
    let end = args.duration.map(|time| clock::now() + time);
    let ended = loop {
        let is_over = end.is_some_and(|end| clock::now() >= end);
        if interrupt.interrupted() || is_over {
            break Ok(());
        }
        let written = match parts.recv_timeout(LOOK_INTERVAL) {
            Ok(Ok(part)) => {
                let mut events = part.events.into_iter();
                events.try_for_each(|event| writer.event(event)).and_then(|()| writer.flush())
            }
            Ok(Err(status)) => break Err(asked_server::failure(status).context("the server")),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            // The server drains.
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        };
        if let Err(error) = written {
            break Err(anyhow!(error).context(format!("cannot write {name}")));
        }
    };
    let before = *writer.summary();
    let finished = match ended {
        Ok(()) => writer.finish().with_context(|| format!("cannot write {name}")),
        Err(error) => {
            // A server that has gone leaves a whole file, a full disk one that is cut off.
            let _ = writer.finish();
            Err(error)
        }
    };
    let summary = finished.as_ref().unwrap_or(&before);
    show(summary, args)?;
    finished.map(|_| End::Done)
}

fn describe(address: &str) -> anyhow::Result<DescribeReply> {
    let client = asked_server::client();
    let server = ServerCaller::new(&client, address)?;
    let question = DescribeRequest { with_descriptor_sets: true, ..DescribeRequest::default() };
    let described = server.with(CallOptions::new().deadline(ANSWER_MAX)).describe(&question);
    described.map_err(|status| match status.code() {
        Code::Unimplemented => {
            asked_server::undescribed(&address, "its version", status.message()).into()
        }
        _ => asked_server::failure(status),
    })
}

/// Refuses names that the server does not have.
fn check_choice(args: &RecordArgs, described: &DescribeReply) -> anyhow::Result<()> {
    let names: Vec<_> = described.interfaces.iter().map(|it| it.name.as_str()).collect();
    match args.interface.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(anyhow!("the server has no interface `{name}`; it has {has}"))
        }
        None => Ok(()),
    }
}

fn recorded_interface(interface: nearcall::control::Interface) -> RecordedInterface {
    RecordedInterface { name: interface.name, descriptor_set: interface.descriptor_set }
}

/// Reads the stream in a thread of its own, which a signal does not end.
fn read(
    address: String,
    request: RecordRequest,
) -> anyhow::Result<Receiver<Result<RecordReply, Status>>> {
    let (give, take) = sync_channel(PARTS_WAITING_MAX);
    let read = move || {
        let client = asked_server::client();
        let server = ServerCaller::new(&client, &address).map_err(Status::from);
        match server.and_then(|server| server.record(&request)) {
            Ok(parts) => {
                for part in parts {
                    if give.send(part).is_err() {
                        return;
                    }
                }
            }
            Err(status) => drop(give.send(Err(status))),
        }
    };
    let builder = thread::Builder::new().name("record".to_owned());
    builder.spawn(read).context("cannot start a thread")?;
    Ok(take)
}

/// A recording that has ended.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    file: String,
    calls: u64,
    events: u64,
    file_bytes: u64,
    dropped_calls: u64,
    dropped_events: u64,
    dropped_bytes: u64,
}

fn show(summary: &Summary, args: &RecordArgs) -> anyhow::Result<()> {
    let Summary { calls, events, file_bytes, dropped } = summary;
    let file = args.out.display().to_string();
    if args.format.json {
        return output::json(&Document {
            schema: SCHEMA,
            file,
            calls: *calls,
            events: *events,
            file_bytes: *file_bytes,
            dropped_calls: dropped.calls,
            dropped_events: dropped.events,
            dropped_bytes: dropped.bytes,
        });
    }
    let size = number::size(*file_bytes);
    let mut text = format!("{file}: {calls} calls, {events} events, {size}\n");
    if dropped.calls > 0 || dropped.events > 0 {
        text += &format!(
            "left out by the server: {} calls and {} events of others, {}; allow more by \
             --max-rate and --max-memory, or choose by --method\n",
            dropped.calls,
            dropped.events,
            number::size(dropped.bytes)
        );
    }
    output::result(&text)
}

/// Longest wait for the description of a server.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Time between two looks whether a signal has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Parts that wait for the disk: 2 MiB of small events.
const PARTS_WAITING_MAX: usize = 64;

const SCHEMA: &str = "nearcall.record/1";

const EXAMPLES: &str = "\
Examples:
  nearcall record thermostat -o room.rec
  nearcall record thermostat -o room.rec --method SetTarget --duration 1m
  nearcall record 4711 -o calls.rec --max-rate 1MiB";
