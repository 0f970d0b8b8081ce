//! From what servers have counted at two moments to the rows of a table.
//!
//! **Invariants:** a figure of an interval is a difference of two answers of the same server; a
//! server that was started anew, or is seen for the first time, has none.
//! **Not here:** asking (`sample.rs`), drawing (`screen.rs`, `text.rs`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use clap::ValueEnum;
use nearcall::control::{CallCounts, Connection, CountersReply, ServerCaller};
use nearcall::observe::CallTimes;
use serde::Serialize;

use super::sample::{Answer, Sample, last_cpu};

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Servers,
    Methods,
    Connections,
}

/// A server, a method or a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) server: String,
    /// Of a method: its name behind that of its object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    /// Of a connection: its number at the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connection: Option<u64>,
    /// Of a connection: the process or the address of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<String>,
    /// Of a server: its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pid: Option<i32>,
    /// Of a server: its connections, without that of this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connections: Option<usize>,
    /// Since the server was started, or the connection opened.
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) in_flight: u64,
    /// Of the interval, as all that follows.
    pub(super) calls_per_s: Option<f64>,
    pub(super) errors_per_s: Option<f64>,
    pub(super) bytes_per_s: Option<f64>,
    /// Calls that were timed.
    pub(super) timed: Option<u64>,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Of a server: processor time of its process for each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<f64>,
    /// System calls of the server that wake clients, and sleeps of it that calls have ended, for
    /// each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wakes_per_call: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mechanism: Option<String>,
    /// Of a connection: the processors on which the server's loop and the client have run last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<[Option<u32>; 2]>,
    pub(super) state: String,
}

/// All rows of one interval.
#[derive(Debug, Default, Serialize)]
pub(super) struct Rows {
    pub(super) servers: Vec<Row>,
    pub(super) methods: Vec<Row>,
    pub(super) connections: Vec<Row>,
}

/// The last answer of each server.
#[derive(Default)]
pub(super) struct History(BTreeMap<String, CountersReply>);

impl History {
    /// Compares answers with those before, which they replace.
    pub(super) fn advance(&mut self, samples: Vec<Sample>) -> Rows {
        let mut rows = Rows::default();
        let mut next = BTreeMap::new();
        for Sample { server, pid, answer } in samples {
            match answer {
                Answer::Counters(reply) => {
                    let before = self.0.get(&server);
                    let interval = Interval::between(before, &reply);
                    interval.add_rows(&server, pid, &reply, &mut rows);
                    next.insert(server, reply);
                }
                Answer::Nothing(state) => {
                    rows.servers.push(Row { server, pid, state, ..Row::default() });
                }
            }
        }
        self.0 = next;
        rows
    }
}

/// The time between two answers of one server.
struct Interval<'a> {
    before: Option<&'a CountersReply>,
    seconds: f64,
}

impl<'a> Interval<'a> {
    fn between(before: Option<&'a CountersReply>, now: &CountersReply) -> Self {
        let before = before.filter(|before| before.uptime_us < now.uptime_us);
        let us = now.uptime_us - before.map_or(0, |before| before.uptime_us);
        Self { before, seconds: us as f64 / 1e6 }
    }

    /// Returns the rate of a count; none without an answer before.
    fn rate(&self, before: u64, now: u64) -> Option<f64> {
        self.before.map(|_| now.saturating_sub(before) as f64 / self.seconds)
    }

    fn add_rows(&self, server: &str, pid: Option<i32>, reply: &CountersReply, rows: &mut Rows) {
        let named = |object: &str, method: &str| (object.to_owned(), method.to_owned());
        let methods = self.before.map_or(&[][..], |before| &before.methods);
        let methods = methods
            .iter()
            .filter_map(|it| Some((named(&it.object, &it.method), it.counts.as_ref()?)));
        let before: HashMap<_, _> = methods.collect();
        let (mut all, mut all_before) = (CallCounts::default(), CallCounts::default());
        for method in &reply.methods {
            let key = named(&method.object, &method.method);
            let (counts, earlier) = (method.counts.clone().unwrap_or_default(), before.get(&key));
            let earlier = earlier.copied().cloned().unwrap_or_default();
            let name = match &*method.method {
                "" => format!("{}/?", method.object),
                name => format!("{}/{name}", method.object),
            };
            let mut row = self.row(server, &earlier, &counts);
            row.method = Some(name);
            rows.methods.push(row);
            // What every server answers itself: this program's own questions among it.
            if method.object != ServerCaller::INTERFACE.name {
                add(&mut all, &counts);
                add(&mut all_before, &earlier);
            }
        }
        let mut row = self.row(server, &all_before, &all);
        let (wakes, calls) = self.add_connections(server, reply, &mut rows.connections);
        row.wakes_per_call = self.before.and_then(|_| per_call(wakes, calls));
        let others: Vec<_> = reply.connections.iter().filter(|it| !it.is_asking).collect();
        row.mechanism = Some(mechanisms(&others));
        row.connections = Some(others.len());
        row.pid = pid;
        let cpu = self.before.and_then(|before| before.cpu_ns).zip(reply.cpu_ns);
        row.cpu = cpu.map(|(before, now)| now.saturating_sub(before) as f64 / 1e9 / self.seconds);
        row.state = "serving".to_owned();
        rows.servers.push(row);
    }

    /// Adds a row for each connection but the one that asks. Returns their wake-ups and calls of
    /// the interval; no wake-ups if one of them has no such count.
    fn add_connections(
        &self,
        server: &str,
        reply: &CountersReply,
        rows: &mut Vec<Row>,
    ) -> (Option<u64>, u64) {
        let before = self.before.map_or(&[][..], |before| &before.connections);
        let before: HashMap<u64, &Connection> = before.iter().map(|it| (it.number, it)).collect();
        let (mut all_wakes, mut all_calls) = (Some(0), 0);
        for connection in reply.connections.iter().filter(|it| !it.is_asking) {
            let earlier = before.get(&connection.number);
            let counts = connection.calls.clone().unwrap_or_default();
            let earlier_counts = earlier.and_then(|it| it.calls.clone()).unwrap_or_default();
            let mut row = self.row(server, &earlier_counts, &counts);
            let calls = counts.calls.saturating_sub(earlier_counts.calls);
            let wakes = |it: &Connection| Some(it.wakes_given? + it.wakes_taken?);
            let wakes_before = earlier.map_or(Some(0), |it| wakes(it));
            let woken = wakes(connection).zip(wakes_before);
            let woken = woken.map(|(now, before)| now.saturating_sub(before));
            row.wakes_per_call = self.before.and_then(|_| per_call(woken, calls));
            all_wakes = all_wakes.zip(woken).map(|(all, more)| all + more);
            all_calls += calls;
            row.connection = Some(connection.number);
            row.client = Some(client(connection));
            row.mechanism = Some(connection.mechanism.clone());
            let last = connection.pid.and_then(last_cpu);
            row.cpus = Some([connection.cpu, last]);
            row.state = state(connection, &counts, calls);
            rows.push(row);
        }
        (all_wakes, all_calls)
    }

    fn row(&self, server: &str, before: &CallCounts, now: &CallCounts) -> Row {
        let errors = |counts: &CallCounts| counts.errors.iter().map(|it| it.count).sum::<u64>();
        let bytes = |counts: &CallCounts| counts.received_bytes + counts.sent_bytes;
        let times = difference(&before.times, &now.times);
        let timed: u64 = times.iter().sum();
        let quantile = |part| self.before.and_then(|_| quantile(&times, part));
        Row {
            server: server.to_owned(),
            calls: now.calls,
            errors: errors(now),
            in_flight: now.in_flight,
            calls_per_s: self.rate(before.calls, now.calls),
            errors_per_s: self.rate(errors(before), errors(now)),
            bytes_per_s: self.rate(bytes(before), bytes(now)),
            timed: self.before.map(|_| timed),
            p50_ns: quantile(0.50),
            p99_ns: quantile(0.99),
            ..Row::default()
        }
    }
}

fn per_call(wakes: Option<u64>, calls: u64) -> Option<f64> {
    wakes.filter(|_| calls > 0).map(|wakes| wakes as f64 / calls as f64)
}

fn client(connection: &Connection) -> String {
    match (connection.pid, &*connection.remote_address) {
        (_, address) if !address.is_empty() => address.to_owned(),
        (Some(pid), _) => format!("pid {pid}"),
        _ => format!("#{}", connection.number),
    }
}

fn state(connection: &Connection, counts: &CallCounts, calls: u64) -> String {
    let trusted = if connection.trusted { ", trusted" } else { "" };
    let does = match (counts.in_flight, calls) {
        (0, 0) => "idle",
        _ => "active",
    };
    format!("{does}{trusted}")
}

/// Returns the mechanisms of connections, those of most connections first.
fn mechanisms(connections: &[&Connection]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for connection in connections {
        *counts.entry(&connection.mechanism).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

fn add(all: &mut CallCounts, counts: &CallCounts) {
    all.calls += counts.calls;
    all.in_flight += counts.in_flight;
    all.received_bytes += counts.received_bytes;
    all.sent_bytes += counts.sent_bytes;
    all.errors.extend(counts.errors.iter().cloned());
    if counts.times.len() > all.times.len() {
        all.times.resize(counts.times.len(), 0);
    }
    for (sum, more) in all.times.iter_mut().zip(&counts.times) {
        *sum = sum.saturating_add(*more);
    }
}

/// Returns how many calls took each time in between.
fn difference(before: &[u32], now: &[u32]) -> Vec<u64> {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(before).into()).collect()
}

/// Returns the time that a part of all calls did not exceed: the longest of its bucket, in ns.
fn quantile(times: &[u64], part: f64) -> Option<u64> {
    let all: u64 = times.iter().sum();
    let rank = (all as f64 * part).ceil().max(1.0);
    let mut seen = 0;
    let bucket = times.iter().position(|count| {
        seen += count;
        seen as f64 >= rank
    })?;
    Some(CallTimes::lowest_ns(bucket + 1) - 1)
}

/// By what rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Name,
    Calls,
    Errors,
    P50,
    P99,
    Cpu,
    Wakes,
    InFlight,
    Bytes,
}

impl Sort {
    pub(super) const ALL: [Self; 9] = [
        Self::Calls,
        Self::P50,
        Self::P99,
        Self::Cpu,
        Self::Wakes,
        Self::InFlight,
        Self::Errors,
        Self::Bytes,
        Self::Name,
    ];

    /// Returns what there is most of in the first row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Cpu => "CPU",
            Self::Wakes => "wake-ups",
            Self::InFlight => "in flight",
            Self::Bytes => "bytes",
        }
    }

    /// Orders two rows: the largest figure first, names from A to Z; rows without the figure last.
    fn compare(self, one: &Row, other: &Row) -> Ordering {
        let figure = |row: &Row| match self {
            Self::Name => None,
            Self::Calls => row.calls_per_s.or(Some(row.calls as f64)),
            Self::Errors => row.errors_per_s.or(Some(row.errors as f64)),
            Self::P50 => row.p50_ns.map(|ns| ns as f64),
            Self::P99 => row.p99_ns.map(|ns| ns as f64),
            Self::Cpu => row.cpu,
            Self::Wakes => row.wakes_per_call,
            Self::InFlight => Some(row.in_flight as f64),
            Self::Bytes => row.bytes_per_s,
        };
        let largest_first = figure(other).partial_cmp(&figure(one)).unwrap_or(Ordering::Equal);
        largest_first.then_with(|| one.key().cmp(&other.key()))
    }
}

impl Row {
    fn key(&self) -> (&str, Option<&str>, Option<u64>) {
        (&self.server, self.method.as_deref(), self.connection)
    }

    /// Returns whether a word stands in one of its names. Capital letters do not matter.
    fn matches(&self, word: &str) -> bool {
        let names = [
            Some(&self.server),
            self.method.as_ref(),
            self.client.as_ref(),
            self.mechanism.as_ref(),
        ];
        let has = |name: &String| name.to_lowercase().contains(&word.to_lowercase());
        word.is_empty() || names.into_iter().flatten().any(has)
    }
}

/// Which rows are shown, and in which order.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) level: Level,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    /// Part of a name; empty: all rows.
    pub(super) filter: String,
    /// Only rows of this server.
    pub(super) server: Option<String>,
}

impl Default for View {
    fn default() -> Self {
        let (level, sort, filter) = (Level::Servers, Sort::Calls, String::new());
        Self { level, sort, is_reversed: false, filter, server: None }
    }
}

impl View {
    /// Returns the rows that it shows.
    pub(super) fn select<'a>(&self, rows: &'a Rows) -> Vec<&'a Row> {
        let all = match self.level {
            Level::Servers => &rows.servers,
            Level::Methods => &rows.methods,
            Level::Connections => &rows.connections,
        };
        let is_of = |row: &&Row| self.server.as_ref().is_none_or(|server| row.server == *server);
        let mut chosen: Vec<_> =
            all.iter().filter(is_of).filter(|row| row.matches(&self.filter)).collect();
        chosen.sort_by(|one, other| self.sort.compare(one, other));
        if self.is_reversed {
            chosen.reverse();
        }
        chosen
    }
}
