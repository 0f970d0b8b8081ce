//! `nearcall explain`: why the connections of a server are where they are, what they carry, and
//! what other mechanisms would cost.
//!
//! **Not here:** how it is printed (`explain/text.rs`), what is judged of the alternatives
//! (`explain/alternatives.rs`).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::control::{
    Connection, ConnectionsRequest, DescribeReply, DescribeRequest, MessageCounts, ServerCaller,
    SwitchRecord,
};
use nearcall::{CallOptions, Code};
use nearcall_os::{clock, process};
use serde::Serialize;

use self::alternatives::{Alternatives, Evidence};
use super::End;
use super::asked_server::{self, ServerChoice};
use crate::args::{JsonArgs, ask_timeout};
use crate::terminal::style;
use crate::{completion, output};

mod alternatives;
mod text;

/// Explain why the connections of a server are where they are
///
/// For each: who is there, its mechanism, its last switches with their causes, what it carries,
/// and what other mechanisms would cost for that, by stored runs of this machine. The server
/// answers its own user and root.
///
/// Exit code: 0 the server has answered; 1 it has not, or refused; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The name or the address of the server, or the number of its process
    #[arg(value_name = "PID|NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: ServerChoice,

    /// How long to watch what the connections carry, a minute at most
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = ask_timeout)]
    pub(crate) watch: Duration,

    /// Use stored runs of this or another machine; measure nothing
    ///
    /// Without it alternatives are judged by the newest 20 runs that are stored, as far as they are
    /// of this machine.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) run: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<End> {
    let address = asked_server::address(&args.server)?;
    let evidence = Evidence::find(&args.run)?;
    let client = asked_server::client();
    let server = ServerCaller::new(&client, &address)?;
    let options = CallOptions::new().deadline(ANSWER_MAX);
    let described = server
        .with(options)
        .describe(&DescribeRequest::default())
        .map_err(asked_server::failure)?;
    let pid = asked_server::process_of(&client).map_or(described.pid, |process| process.pid);
    let before = connections(&server)?;
    let began = clock::now();
    clock::pause(args.watch);
    let after = connections(&server)?;
    let watched = began.elapsed();
    if after.iter().any(|connection| connection.number == 0) {
        let version = nearcall_results::run::printable(&described.version);
        bail!("the server at {address} has version {version}, which explains nothing yet");
    }
    let offered: Vec<&str> =
        described.mechanisms.iter().filter(|it| it.offered).map(|it| &*it.name).collect();
    // A server that does not mark it is older, and may know this process by another number.
    let is_marked = after.iter().any(|connection| connection.is_asking);
    let rows = after.iter().filter(|connection| match is_marked {
        true => !connection.is_asking,
        false => connection.pid != Some(process::pid()),
    });
    let rows = rows.map(|now| {
        let earlier = before.iter().find(|earlier| earlier.number == now.number);
        Row::of(now, earlier, watched, &evidence, &offered)
    });
    let document = Document::new(&address, (pid, &described), watched, &evidence, rows.collect());
    match args.format.json {
        true => output::json(&document)?,
        false => output::result(&text::text(&document, style()))?,
    }
    Ok(End::Done)
}

/// Returns the connections as they are now; where a loop does not answer, as it has shown them.
fn connections(server: &ServerCaller) -> anyhow::Result<Vec<Connection>> {
    let options = CallOptions::new().deadline(ANSWER_MAX);
    let ask = |live| {
        let request = ConnectionsRequest { live, ..ConnectionsRequest::default() };
        server.with(options.clone()).connections(&request)
    };
    let reply = match ask(true) {
        Err(status) if status.code() == Code::DeadlineExceeded => {
            output::diagnostic(
                "a loop of the server does not answer: a method keeps it; what its connections \
                 carry is not known",
            );
            ask(false)
        }
        reply => reply,
    };
    let mut connections = reply.context("cannot list the connections")?.connections;
    connections.sort_by_key(|connection| connection.number);
    Ok(connections)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    server: String,
    /// As the kernel reports it here. Null: it cannot be seen from here.
    pid: Option<i32>,
    uid: Option<u32>,
    version: String,
    /// How long the traffic was watched.
    watched_s: f64,
    /// The stored runs of this machine that alternatives are judged by.
    runs: Vec<String>,
    connections: Vec<Row>,
}

impl Document {
    fn new(
        address: &str,
        (pid, described): (Option<i32>, &DescribeReply),
        watched: Duration,
        evidence: &Evidence,
        connections: Vec<Row>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            server: address.to_owned(),
            pid,
            uid: described.uid,
            version: described.version.clone(),
            watched_s: watched.as_secs_f64(),
            runs: evidence.files(),
            connections,
        }
    }
}

/// One connection.
#[derive(Serialize)]
struct Row {
    connection: u64,
    client: String,
    pid: Option<i32>,
    uid: Option<u32>,
    mechanism: String,
    /// How the server's end waits.
    wait: String,
    trusted: bool,
    /// The last switches, the oldest first.
    switches: Vec<Switch>,
    /// Null: it is not known.
    traffic: Option<Traffic>,
    alternatives: Alternatives,
}

/// A switch that has ended.
#[derive(Serialize)]
struct Switch {
    age_ms: u64,
    from: String,
    /// Null: the server has not learnt it.
    to: Option<String>,
    cause: String,
    /// Null: the connection has moved.
    failure: Option<String>,
    /// By the client's word. Null: none.
    note: Option<String>,
}

/// What a connection has carried.
#[derive(Serialize)]
struct Traffic {
    /// The figures are of the time that was watched; false: of all the time before, since nothing
    /// came meanwhile.
    is_current: bool,
    from_client: Flow,
    to_client: Flow,
}

/// Messages of one direction.
#[derive(Serialize)]
struct Flow {
    messages: u64,
    bytes: u64,
    /// Null: nothing came while it was watched.
    messages_per_s: Option<f64>,
    /// With headers. Null: there are none.
    mean_bytes: Option<u64>,
    sizes: Vec<SizeClass>,
}

/// Messages of up to a length, and above that of the class before.
#[derive(Serialize)]
struct SizeClass {
    bytes_max: u64,
    messages: u64,
}

impl Row {
    fn of(
        now: &Connection,
        earlier: Option<&Connection>,
        watched: Duration,
        evidence: &Evidence,
        offered: &[&str],
    ) -> Self {
        let traffic = Traffic::of(now, earlier, watched);
        let used = (&*now.mechanism, &*now.wait);
        let alternatives = Alternatives::of(evidence, traffic.as_ref(), used, offered);
        Self {
            connection: now.number,
            client: now.name.clone(),
            pid: now.pid,
            uid: now.uid,
            mechanism: now.mechanism.clone(),
            wait: now.wait.clone(),
            trusted: now.trusted,
            switches: now.switches.iter().map(Switch::of).collect(),
            traffic,
            alternatives,
        }
    }
}

impl Switch {
    fn of(record: &SwitchRecord) -> Self {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            age_ms: record.age_ms,
            from: record.from.clone(),
            to: given(&record.to),
            cause: record.cause.clone(),
            failure: given(&record.failure),
            note: given(&record.note),
        }
    }
}

impl Traffic {
    /// Returns what was carried while it was watched, or, if that is nothing, all.
    fn of(now: &Connection, earlier: Option<&Connection>, watched: Duration) -> Option<Self> {
        let all = now.traffic.as_ref()?;
        let before = earlier.and_then(|earlier| earlier.traffic.as_ref());
        let [received, sent] = [&all.received, &all.sent].map(|it| it.clone().unwrap_or_default());
        let [received_before, sent_before] = [
            before.and_then(|before| before.received.clone()),
            before.and_then(|before| before.sent.clone()),
        ]
        .map(Option::unwrap_or_default);
        let meanwhile = [since(&received, &received_before), since(&sent, &sent_before)];
        let is_current = before.is_some() && meanwhile.iter().any(|it| messages(it) > 0);
        let [from_client, to_client] = match is_current {
            true => meanwhile.map(|counts| Flow::of(&counts, Some(watched))),
            false => [received, sent].map(|counts| Flow::of(&counts, None)),
        };
        Some(Self { is_current, from_client, to_client })
    }
}

impl Flow {
    fn of(counts: &MessageCounts, watched: Option<Duration>) -> Self {
        let count = messages(counts);
        let classes = counts.by_size.iter().take(CLASSES_MAX).enumerate();
        Self {
            messages: count,
            bytes: counts.bytes,
            messages_per_s: watched.map(|watched| count as f64 / watched.as_secs_f64()),
            mean_bytes: counts.bytes.checked_div(count),
            sizes: classes
                .filter(|(_, messages)| **messages > 0)
                .map(|(class, &messages)| SizeClass { bytes_max: CLASS_BYTES << class, messages })
                .collect(),
        }
    }

    /// Returns the longest message of the class that half of all messages do not exceed.
    fn median_class_bytes(&self) -> Option<u64> {
        let mut left = self.messages.div_ceil(2);
        self.sizes.iter().find_map(|class| {
            left = left.saturating_sub(class.messages);
            (left == 0).then_some(class.bytes_max)
        })
    }
}

fn messages(counts: &MessageCounts) -> u64 {
    counts.by_size.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

fn since(now: &MessageCounts, before: &MessageCounts) -> MessageCounts {
    let earlier = before.by_size.iter().copied().chain(std::iter::repeat(0));
    let by_size = now.by_size.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before));
    MessageCounts { bytes: now.bytes.saturating_sub(before.bytes), by_size: by_size.collect() }
}

const SCHEMA: &str = "nearcall.explain/1";

/// Longest wait for an answer of the server: one that runs no method needs a millisecond.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Longest message of the first class of sizes, in bytes; each further class reaches twice as far.
const CLASS_BYTES: u64 = 64;

/// Classes that are read of a server, which may send any number: the last reaches 2 TiB.
const CLASSES_MAX: usize = 36;

const EXAMPLES: &str = "\
Examples:
  nearcall explain thermostat
  nearcall explain 4711 --watch 10s              by its process
  nearcall explain thermostat --json | jq '.connections[].switches'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_while_it_was_watched_counts_and_else_all() {
        let counts =
            |messages: u64| MessageCounts { bytes: 100 * messages, by_size: vec![0, messages] };
        let connection = |messages| Connection {
            traffic: Some(nearcall::control::Traffic {
                received: Some(counts(messages)),
                sent: None,
            }),
            ..Connection::default()
        };
        let watched = Duration::from_secs(2);
        let busy = Traffic::of(&connection(30), Some(&connection(10)), watched).unwrap();
        assert!(busy.is_current);
        assert_eq!(busy.from_client.messages_per_s, Some(10.0));
        assert_eq!((busy.from_client.messages, busy.from_client.mean_bytes), (20, Some(100)));
        assert_eq!(busy.from_client.median_class_bytes(), Some(128));
        assert_eq!((busy.to_client.mean_bytes, busy.to_client.median_class_bytes()), (None, None));
        let idle = Traffic::of(&connection(30), Some(&connection(30)), watched).unwrap();
        assert!(!idle.is_current);
        assert_eq!((idle.from_client.messages, idle.from_client.messages_per_s), (30, None));
        assert!(Traffic::of(&Connection::default(), None, watched).is_none());
        // A server says what it likes.
        let odd = MessageCounts { bytes: 0, by_size: vec![u64::MAX; 100] };
        assert_eq!(Flow::of(&odd, None).sizes.len(), CLASSES_MAX);
    }
}
