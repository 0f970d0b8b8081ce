//! Many calls of one method, and how long they took.
//!
//! **Invariants:** with a rate a call has its time from when it was due, whether or not its thread
//! was free then; each call that was due is made and counted. Only calls that end with `OK` are in
//! the distribution of times; the others are counted by their codes.
//! **Not here:** measuring mechanisms, which `bench` does with pinned processes and a floor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nearcall::Status;
use nearcall::dynamic::{DynamicCaller, Encoded};
use nearcall::service::MethodKind;
use nearcall_os::clock;
use nearcall_os::signal::Interrupt;
use nearcall_results::histogram::Histogram;
use serde::Serialize;

use super::Call;
use crate::commands::End;
use crate::commands::asked_server;
use crate::output;

/// What became of calls.
struct Tally {
    times: Histogram,
    ended: BTreeMap<String, u64>,
}

impl Tally {
    fn new() -> Self {
        Self { times: Histogram::new(), ended: BTreeMap::new() }
    }
}

/// The schedule that threads share.
struct Schedule {
    next: AtomicU64,
    calls: u64,
    began_ns: u64,
    rate: Option<u32>,
    interrupt: Interrupt,
}

impl Schedule {
    /// Waits until the next call is due, and returns from when on its time counts. `None`: there is
    /// none.
    fn next(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.calls || self.interrupt.interrupted() {
            return None;
        }
        let Some(rate) = self.rate else { return Some(clock::monotonic_ns()) };
        let after_ns = u128::from(number) * NS_PER_S / u128::from(rate);
        let due_ns = self.began_ns + u64::try_from(after_ns).unwrap_or(u64::MAX >> 1);
        clock::pause_unless(due_ns, &|| self.interrupt.interrupted()).then_some(due_ns)
    }
}

impl Call<'_> {
    /// Makes many calls, and prints the times that they took.
    pub(super) fn repeat(mut self, calls: u64) -> anyhow::Result<End> {
        let caller = self.caller()?;
        let is_oneway = match self.kind(&caller)? {
            MethodKind::Unary => false,
            MethodKind::Oneway => true,
            _ => bail!("--repeat is for methods with one request and at most one reply"),
        };
        let request = self.one()?;
        let threads = self.args.threads.unwrap_or(1);
        let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
        let name = self.method.name().to_owned();
        let interface = self.method.parent_service().full_name().to_owned();
        let (address, options) = (self.asked.address.to_string(), self.options.clone());
        let schedule = Schedule {
            next: AtomicU64::new(0),
            calls,
            began_ns: clock::monotonic_ns(),
            rate: self.args.rate,
            interrupt,
        };
        let run = || -> Result<Tally, Status> {
            let client = asked_server::client();
            let caller = DynamicCaller::new(&client, &address, &interface)?.with(options.clone());
            Ok(each(&schedule, &caller, &name, &request, is_oneway))
        };
        let tallies: Vec<Result<Tally, Status>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let took_ns = clock::monotonic_ns() - schedule.began_ns;
        let mut all = Tally::new();
        for tally in tallies {
            let tally = tally.map_err(super::Failed)?;
            all.times.merge(&tally.times);
            for (code, count) in tally.ended {
                *all.ended.entry(code).or_default() += count;
            }
        }
        let summary = Summary::of(&all, Duration::from_nanos(took_ns), self.args.rate);
        match self.args.json.json {
            true => output::json(&summary)?,
            false => output::result(&summary.text())?,
        }
        Ok(if interrupt.interrupted() { End::Interrupted } else { End::Done })
    }
}

/// Makes the calls that are due, in this thread.
fn each(
    schedule: &Schedule,
    caller: &DynamicCaller,
    name: &str,
    request: &Encoded,
    is_oneway: bool,
) -> Tally {
    let mut tally = Tally::new();
    while let Some(from_ns) = schedule.next() {
        let ended = match is_oneway {
            true => caller.send(name, request),
            false => caller.call(name, request).map(drop),
        };
        let code = match ended {
            Ok(()) => {
                tally.times.record(clock::monotonic_ns().saturating_sub(from_ns));
                "OK".to_owned()
            }
            Err(status) => status.code().to_string(),
        };
        *tally.ended.entry(code).or_default() += 1;
    }
    tally
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary {
    schema: &'static str,
    calls: u64,
    took_s: f64,
    calls_per_s: f64,
    /// From when calls were due, not from when they were made.
    is_open_loop: bool,
    /// By the name of the code.
    ended: BTreeMap<String, u64>,
    times_us: Times,
}

/// Times of the calls that have ended with `OK`. Null: too few calls for that.
#[derive(Serialize)]
struct Times {
    min: Option<f64>,
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p99_9: Option<f64>,
    max: Option<f64>,
}

impl Summary {
    fn of(tally: &Tally, took: Duration, rate: Option<u32>) -> Self {
        let us = |ns: Option<f64>| ns.map(|ns| (ns / 10.0).round() / 100.0);
        let whole = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
        let (times, calls) = (&tally.times, tally.ended.values().sum());
        Self {
            schema: SCHEMA,
            calls,
            took_s: took.as_secs_f64(),
            calls_per_s: calls as f64 / took.as_secs_f64(),
            is_open_loop: rate.is_some(),
            ended: tally.ended.clone(),
            times_us: Times {
                min: whole(times.min_ns()),
                mean: us(times.mean_ns()),
                p50: us(times.median_ns()),
                p90: us(times.quantile_ns(0.9)),
                p99: us(times.quantile_ns(0.99)),
                p99_9: us(times.quantile_ns(0.999)),
                max: whole(times.max_ns()),
            },
        }
    }

    fn text(&self) -> String {
        let ended: Vec<_> = self.ended.iter().map(|(code, n)| format!("{n} {code}")).collect();
        let from = match self.is_open_loop {
            true => "from when each call was due",
            false => "from when each call was made",
        };
        let (calls, took, rate) = (self.calls, self.took_s, self.calls_per_s);
        let mut text = format!(
            "{calls} calls in {took:.2} s, {rate:.0} a second: {}\n\ntime in us, {from}\n",
            ended.join(", ")
        );
        let times = &self.times_us;
        for (name, time) in [
            ("min", times.min),
            ("mean", times.mean),
            ("p50", times.p50),
            ("p90", times.p90),
            ("p99", times.p99),
            ("p99.9", times.p99_9),
            ("max", times.max),
        ] {
            let time = time.map_or("-".to_owned(), |us| format!("{us:.1}"));
            text += &format!("  {name:<6}{time:>12}\n");
        }
        text
    }
}

const SCHEMA: &str = "nearcall.calls/1";

const NS_PER_S: u128 = 1_000_000_000;
