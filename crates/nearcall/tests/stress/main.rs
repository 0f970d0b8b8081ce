//! A random mix of calls, one-way messages, streams, cancellations, deadlines, switches to other
//! mechanisms, ends of threads and kills of clients, by threads with and without a loop and by
//! tasks, against a server of two loops, with books on both sides.
//!
//! `NEARCALL_STRESS_S` seconds, 2 by default, from the seed `NEARCALL_STRESS_SEED`, 1 by default;
//! `cargo xtask stress` runs it for minutes, `cargo xtask soak` for hours. `NEARCALL_STRESS_JSON`
//! names a file for the result. Clients are processes: this program itself.
//! **Invariants:** what a client knows to have arrived was served exactly once and in order; what
//! it does not know was served once at most; each round ends, and then the server has neither more
//! descriptors nor more threads nor more mappings than after one client of each way to connect.
//! **Not here:** the mix (`client.rs`, `tasks.rs`), the server (`service.rs`), the accounts
//! (`books.rs`), what the server holds (`soak.rs`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "processes report, and so does it")]

mod books;
mod client;
mod mix;
mod service;
mod soak;
mod tasks;

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::observe::RefusalKind;
use nearcall::server::RunningServer;
use nearcall::{Deadline, Limits, Server};
use nearcall_os::clock;
use nearcall_os::process::{self, Child};
use nearcall_testkit::stress;

use self::books::{Account, Books};
use self::service::Service;
use self::soak::Record;
use self::stress::{StressAsyncDispatcher, StressDispatcher};

const SECONDS: &str = "NEARCALL_STRESS_S";
const SEED: &str = "NEARCALL_STRESS_SEED";
const JSON: &str = "NEARCALL_STRESS_JSON";
/// The loops of the server.
const LOOPS: usize = 2;
/// Client processes of one round; each has some threads.
const CLIENTS: usize = 3;
/// How long clients work in one round before they end by themselves.
const ROUND: Duration = Duration::from_millis(500);
/// How long a client works that is only there to connect.
const WARM_UP: Duration = Duration::from_millis(50);
/// What a round may take on a busy machine. Longer, something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The ways in which clients connect, one by chance.
const VIA: [&str; 6] =
    ["", "?wait=block", "?wait=spin", "?via=unix-stream", "?via=pipe", "?via=shm-eventfd"];

/// Where a client process begins; nothing when the harness runs it.
#[test]
fn client_entry() {
    client::enter();
}

#[test]
fn both_sides_agree_whatever_clients_do() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (seconds, seed) = (number(SECONDS, 2), number(SEED, 1));
    eprintln!("stress: {seconds} s from seed {seed} ({SEED}={seed} repeats the mix)");
    let time = Duration::from_secs(seconds);
    let mut stress = Stress::start(seed);
    stress.warm_up();
    let (until, mut record) = (Deadline::after(time), Record::new(time));
    while !until.has_passed() {
        stress.round();
        record.note_quiet_point(&stress, Deadline::after(PATIENCE));
    }
    println!("{}", record.table(&stress));
    if let Ok(path) = std::env::var(JSON) {
        std::fs::write(&path, record.json(&stress)).unwrap_or_else(|error| {
            panic!("cannot write the result to {path}: {error}");
        });
    }
    let Stress { server, .. } = stress;
    // A client may be killed in its handshake; nothing else is refused to correct clients.
    let mut refusals = server.refusals();
    refusals.retain(|refusal| refusal.kind != RefusalKind::HandshakeFailed);
    assert_eq!(refusals, [], "seed {seed}");
    server.stop().unwrap();
}

/// The server, and what all rounds have done.
struct Stress {
    seed: u64,
    random: fastrand::Rng,
    service: Arc<Service>,
    server: RunningServer,
    address: String,
    rounds: u64,
    kills: u64,
    /// Processes that were started.
    clients: u64,
    total: Books,
    /// Of survivors.
    switches: u64,
}

impl Stress {
    fn start(seed: u64) -> Self {
        let service = Arc::new(Service::default());
        let address = format!("unix:@nearcall-stress-{}", process::pid());
        let server = Server::builder()
            .threads(LOOPS)
            .limits(Limits { switches_per_minute_max: u32::MAX, ..Limits::default() })
            .register(StressDispatcher::shared(Arc::clone(&service)))
            .register_as(client::ASYNC, StressAsyncDispatcher::shared(Arc::clone(&service)))
            .listen(&format!("{address}?allow=all"))
            .start()
            .unwrap();
        let random = fastrand::Rng::with_seed(seed);
        let (rounds, kills, clients, total, switches) = (0, 0, 0, Books::default(), 0);
        Self { seed, random, service, server, address, rounds, kills, clients, total, switches }
    }

    /// Lets a client of each way to connect work, so that what a process keeps of a mechanism, such
    /// as a thread that watches peers, is there.
    fn warm_up(&mut self) {
        let deadline = Deadline::after(PATIENCE);
        for via in VIA {
            let client = self.client(via, WARM_UP);
            self.compare(client.finish(deadline, self.seed));
        }
        self.wait_until_all_are_gone(deadline);
    }

    /// Lets some clients work, kills some of them, and compares the books of the others.
    fn round(&mut self) {
        self.rounds += 1;
        let deadline = Deadline::after(ROUND + PATIENCE);
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let via = VIA[self.random.usize(0..VIA.len())];
            clients.push(self.client(via, ROUND));
        }
        let victims = self.random.usize(0..CLIENTS);
        for victim in &mut clients[..victims] {
            clock::pause(ROUND.mul_f64(self.random.f64() / victims as f64));
            victim.child.kill().unwrap();
            self.kills += 1;
        }
        for survivor in clients.drain(victims..) {
            self.compare(survivor.finish(deadline, self.seed));
        }
        drop(clients);
        self.wait_until_all_are_gone(deadline);
        let faults = self.service.take_faults();
        assert!(faults.is_empty(), "seed {}, round {}: {faults:?}", self.seed, self.rounds);
    }

    fn client(&mut self, via: &str, time: Duration) -> ClientProcess {
        self.clients += 1;
        let address = format!("{}{via}", self.address);
        ClientProcess::start(&address, time, self.random.u64(..), self.clients << 32)
    }

    fn compare(&mut self, accounts: Vec<Account>) {
        assert!(!accounts.is_empty(), "seed {}: a client did nothing", self.seed);
        for account in accounts {
            let served = self.service.take(account.worker);
            let (seed, round) = (self.seed, self.rounds);
            assert!(
                account.agrees_with(&served),
                "seed {seed}, round {round}: {account:?} {served:?}"
            );
            self.total += served;
            self.switches += account.switches;
        }
    }

    fn wait_until_all_are_gone(&self, deadline: Deadline) {
        while self.server.connection_counts().iter().sum::<usize>() > 0 {
            assert!(!deadline.has_passed(), "seed {}: connections are left", self.seed);
            clock::pause(Duration::from_millis(1));
        }
    }
}

/// A process with some threads that call.
struct ClientProcess {
    child: Child,
    output: Option<JoinHandle<String>>,
}

impl ClientProcess {
    fn start(address: &str, time: Duration, seed: u64, first_worker: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["client_entry", "--exact", "--nocapture", "--test-threads=1"]);
        client::describe(&mut command, address, time, seed, first_worker);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Child::spawn(&mut command).unwrap();
        let mut stdout = child.pipes().stdout.take().unwrap();
        let read = move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        };
        Self { child, output: Some(thread::spawn(read)) }
    }

    /// Waits for its end, and returns the accounts of its threads.
    fn finish(mut self, deadline: Deadline, seed: u64) -> Vec<Account> {
        let status = self.child.wait(deadline).unwrap();
        assert!(status.is_some(), "seed {seed}: a client does not end");
        let text = self.output.take().unwrap().join().unwrap();
        assert!(status.unwrap().success(), "seed {seed}: a client failed:\n{text}");
        text.lines().filter_map(Account::parse).collect()
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        if let Some(output) = self.output.take() {
            let _ = output.join();
        }
    }
}
