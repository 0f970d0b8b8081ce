//! A good client in a process of its own, of the same or of another user, which measures its calls
//! and fails when one of them does.

use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use nearcall::{CallOptions, Client};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{clock, process};

use super::child::{Process, command, report};
use super::{PATIENCE, Role};
use crate::echo::{EchoCaller, Words};

pub(crate) const ROLES: &[Role] = &[
    ("good-client", |address| call_until_told(address, false)),
    ("tolerant-client", |address| call_until_told(address, true)),
    ("patient-client", connect_patiently),
];

/// Pause between two calls: a client that asks some thousand times a second.
const PAUSE: Duration = Duration::from_micros(200);

/// Which user a process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Same,
    /// Another one; see [`User::another`].
    Uid(u32),
}

impl User {
    /// A user without rights, which only root can become; `None` if this process is not root.
    pub(crate) fn another() -> Option<Self> {
        // Not 65534, which the kernel also says of users that it cannot name.
        (process::user_id() == 0).then_some(Self::Uid(65_533))
    }
}

/// How long calls took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latencies {
    pub(crate) calls: u64,
    /// Of those, calls that failed: only those of a tolerant client may.
    pub(crate) failed: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

/// A client that calls all the time.
#[derive(Debug)]
pub(crate) struct GoodClient {
    process: Process,
}

impl GoodClient {
    /// Starts it, and waits for its first answer. None of its calls may fail until
    /// [`GoodClient::finish`].
    pub(crate) fn start(address: &str, user: User) -> Self {
        Self::start_role("good-client", address, user)
    }

    /// Works like [`GoodClient::start`], but calls may fail, and are counted.
    pub(crate) fn start_tolerant(address: &str, user: User) -> Self {
        Self::start_role("tolerant-client", address, user)
    }

    /// Works like [`GoodClient::start`], but tries to connect until the server accepts it.
    pub(crate) fn start_patient(address: &str, user: User) -> Self {
        Self::start_role("patient-client", address, user)
    }

    fn start_role(role: &str, address: &str, user: User) -> Self {
        let mut command = command(role, address, "");
        if let User::Uid(uid) = user {
            command.uid(uid).gid(uid);
        }
        let mut process = Process::start_as(role, command);
        process.hear("calls");
        Self { process }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Measures the calls of a while.
    pub(crate) fn measure(&mut self, time: Duration) -> Latencies {
        self.measure_while(|| clock::pause(time)).1
    }

    /// Measures the calls that are made while `case` runs, and one that begins after it.
    #[track_caller]
    pub(crate) fn measure_while<T>(&mut self, case: impl FnOnce() -> T) -> (T, Latencies) {
        self.take();
        let outcome = case();
        (outcome, self.take())
    }

    /// The calls since the last time this was asked, with one that begins now.
    #[track_caller]
    fn take(&mut self) -> Latencies {
        self.process.tell("take");
        let text = self.process.hear("calls");
        let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
        let [calls, failed, p50, p99, max] = numbers[..] else { panic!("not five: {text}") };
        let [p50, p99, max] = [p50, p99, max].map(Duration::from_nanos);
        Latencies { calls, failed, p50, p99, max }
    }

    /// Ends it, and demands that no call has failed.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        self.process.tell("stop");
        self.process.finish();
    }
}

/// Calls until the parent says `stop` or goes.
fn call_until_told(address: &str, may_fail: bool) {
    call_with(&Client::new(), address, may_fail);
}

/// Works like [`call_until_told`], with a client that tries to connect until it is accepted.
fn connect_patiently(address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    call_with(&client, address, false);
}

fn call_with(client: &Client, address: &str, may_fail: bool) {
    let echo = EchoCaller::new(client, address).unwrap();
    let echo = echo.with(CallOptions::new().deadline(PATIENCE));
    let mut failed = 0;
    let say = |number: u64, failed: &mut u64| {
        let words = Words { number, ..Words::default() };
        let begun = clock::monotonic_ns();
        let reply = echo.say(&words);
        let took = clock::monotonic_ns() - begun;
        match reply {
            Err(_) if may_fail => *failed += 1,
            reply => assert_eq!(reply.expect("the good client must not notice").number, number),
        }
        took
    };
    let mut took = vec![say(0, &mut failed)];
    report(&summary(&mut took, &mut failed));
    for number in 1.. {
        clock::pause(PAUSE);
        let command = next_command();
        took.push(say(number, &mut failed));
        match command.as_deref() {
            None => {}
            Some("take") => report(&summary(&mut took, &mut failed)),
            Some(_) => return,
        }
    }
}

/// The next line of standard input if there is one; empty when the parent has gone.
fn next_command() -> Option<String> {
    let input = std::io::stdin();
    poll_one(&input, Interest::Readable, Duration::ZERO).unwrap()?;
    let mut line = String::new();
    input.lock().read_line(&mut line).unwrap();
    Some(line.trim().to_owned())
}

/// Reports calls and forgets them.
fn summary(took: &mut Vec<u64>, failed: &mut u64) -> String {
    took.sort_unstable();
    // The value below which so many thousandths are.
    let at = |thousandths: usize| took.get(took.len() * thousandths / 1000).copied().unwrap_or(0);
    let max = took.last().copied().unwrap_or(0);
    let failed = std::mem::take(failed);
    let text = format!("calls {} {failed} {} {} {max}", took.len(), at(500), at(990));
    took.clear();
    text
}
