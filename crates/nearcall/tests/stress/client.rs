//! A client process: threads that share one caller, some with a loop and a caller of their own,
//! each with a random mix of what callers do, and beside them tasks (`tasks.rs`). The connections
//! of the threads move between mechanisms all the while.
//!
//! **Invariants:** every reply is the one to its request; an operation without a deadline or a
//! cancellation succeeds; a thread that ends has an account of all that it sent.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nearcall::client::PendingCall;
use nearcall::{CallOptions, Client, Code, Deadline, EventLoop, Mechanism, Status};

use crate::books::Account;
use crate::mix::Mix;
use crate::stress::{Job, StressCaller};
use crate::tasks;

/// The instance of the asynchronous service.
pub(crate) const ASYNC: &str = "async";

const ADDRESS: &str = "NEARCALL_STRESS_ADDRESS";
const TIME_MS: &str = "NEARCALL_STRESS_TIME_MS";
const CLIENT_SEED: &str = "NEARCALL_STRESS_CLIENT_SEED";
const FIRST_WORKER: &str = "NEARCALL_STRESS_WORKER";

/// Threads that call at the same time.
const THREADS: usize = 4;
/// Operations of one thread, at most; another one takes its place.
pub(crate) const OPERATIONS_MAX: u32 = 200;
/// Calls that are started before one is waited for, at most.
pub(crate) const STARTED_MAX: usize = 32;
/// One-way messages in a row, at most.
pub(crate) const MESSAGES_MAX: u64 = 64;
/// Bytes of one loan, at most.
const LOAN_BYTES_MAX: usize = 256 << 10;
/// Items of one stream, at most.
pub(crate) const ITEMS_MAX: u64 = 100;
/// The first number of tasks, beside those of threads.
const FIRST_TASK: u64 = 1 << 31;
/// Threads of which one has a loop of its own.
const THREADS_PER_LOOP: u8 = 4;
/// Operations of which one begins with a switch, or has one while calls are under way.
const OPERATIONS_PER_SWITCH: u8 = 3;
/// Items of streams of which one has a switch before it.
const ITEMS_PER_SWITCH: u8 = 50;
/// What one switch may take on a busy machine.
const SWITCH_TIME_MAX: Duration = Duration::from_secs(30);

/// Gives a process its part by its environment.
pub(crate) fn describe(
    command: &mut Command,
    address: &str,
    time: Duration,
    seed: u64,
    first_worker: u64,
) {
    command
        .env(ADDRESS, address)
        .env(TIME_MS, time.as_millis().to_string())
        .env(CLIENT_SEED, seed.to_string())
        .env(FIRST_WORKER, first_worker.to_string());
}

/// Runs the client if this process was told to be one.
pub(crate) fn enter() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let until = Deadline::after(Duration::from_millis(number(TIME_MS)));
    let (mut random, mut worker) =
        (fastrand::Rng::with_seed(number(CLIENT_SEED)), number(FIRST_WORKER));
    let client = Client::new();
    let callers = Callers::new(&client, &address);
    // The harness has begun a line.
    println!();
    let (ended, ends) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let start = |random: &mut fastrand::Rng, worker: &mut u64| {
            *worker += 1;
            let mix = Mix::new(random.u64(..), *worker);
            let has_loop = random.u8(..THREADS_PER_LOOP) == 0;
            let (callers, ended, address) = (callers.clone(), ended.clone(), &address);
            scope.spawn(move || {
                // Also if it panics.
                let _ended = Ended(ended);
                let account = match has_loop.then(|| EventLoop::new().unwrap()) {
                    None => Worker { callers, mix }.run(until),
                    Some(event_loop) => {
                        let callers = Callers::new(&Client::in_loop(&event_loop), address);
                        Worker { callers, mix }.run(until)
                    }
                };
                println!("{}", account.line());
            });
        };
        let (client, address, seed) = (&client, &address, random.u64(..));
        scope.spawn(move || tasks::run(client, address, seed, worker + FIRST_TASK, until));
        (0..THREADS).for_each(|_| start(&mut random, &mut worker));
        while !until.has_passed() {
            ends.recv().unwrap();
            start(&mut random, &mut worker);
        }
    });
}

/// Reports the end of a thread when it is dropped.
struct Ended(mpsc::Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Callers of both forms of the service, over one connection of each thread; each has clones.
#[derive(Clone)]
struct Callers {
    client: Client,
    address: String,
    sync_service: StressCaller,
    async_service: StressCaller,
}

impl Callers {
    fn new(client: &Client, address: &str) -> Self {
        Self {
            client: client.clone(),
            address: address.to_owned(),
            sync_service: StressCaller::new(client, address).unwrap(),
            async_service: StressCaller::new(client, &format!("{address}#{ASYNC}")).unwrap(),
        }
    }
}

/// A thread.
struct Worker {
    callers: Callers,
    mix: Mix,
}

impl Worker {
    fn run(mut self, until: Deadline) -> Account {
        self.ask();
        for _ in 0..self.mix.random.u32(1..=OPERATIONS_MAX) {
            if until.has_passed() {
                break;
            }
            self.switch_once_in(OPERATIONS_PER_SWITCH);
            match self.mix.random.u8(0..10) {
                0..4 => self.ask(),
                4 => self.ask_in_time(),
                5 if self.mix.random.bool() => self.ask_with_loan(),
                5 => self.start_some(),
                6 => self.tell_some(),
                7 => self.upload(),
                8 => self.download(),
                _ => self.chat(),
            }
        }
        match self.mix.random.u8(0..4) {
            // The connection closes with the thread, whatever is under way.
            0 => {
                self.mix.account.unknown.calls += 1;
                let job = self.mix.job();
                drop(self.caller().start_ask(&job));
            }
            _ => self.ask(),
        }
        self.mix.end()
    }

    /// A caller of either form of the service. Both go over the same connection.
    fn caller(&mut self) -> StressCaller {
        let Callers { sync_service, async_service, .. } = &self.callers;
        if self.mix.random.bool() { sync_service.clone() } else { async_service.clone() }
    }

    /// Moves the connection to another mechanism, once in so many times.
    fn switch_once_in(&mut self, times: u8) {
        if self.mix.random.u8(..times) > 0 {
            return;
        }
        let all = mechanisms();
        let to = all[self.mix.random.usize(..all.len())];
        let Callers { client, address, .. } = &self.callers;
        client.switch(address, to.name(), SWITCH_TIME_MAX).unwrap_or_else(|e| panic!("{to}: {e}"));
        self.mix.account.switches += 1;
    }

    /// A call to the form of the service that keeps the order of all that came before.
    fn ask(&mut self) {
        let job = self.mix.job();
        assert_eq!(self.callers.sync_service.ask(&job).unwrap(), job);
        self.mix.confirm();
    }

    /// A call whose padding is lent: over shared memory it lies in a segment of its own.
    fn ask_with_loan(&mut self) {
        let caller = self.caller();
        let padding = caller.loan(self.mix.random.usize(1..=LOAN_BYTES_MAX)).unwrap();
        let job = Job { padding: padding.freeze(), ..self.mix.job() };
        assert_eq!(caller.ask(&job).unwrap(), job);
        self.mix.account.served.calls += 1;
    }

    fn ask_in_time(&mut self) {
        let (caller, job) = (self.caller(), self.mix.job());
        let options = CallOptions::new().deadline(self.mix.timeout());
        self.mix.note_answer(&job, caller.with(options).ask(&job), Code::DeadlineExceeded);
    }

    /// Starts calls, cancels some of them, and waits for the others in any order.
    fn start_some(&mut self) {
        let mut pending: Vec<(Job, PendingCall<Job>)> = Vec::new();
        for _ in 0..self.mix.random.usize(1..=STARTED_MAX) {
            let (caller, job) = (self.caller(), self.mix.job());
            let call = caller.start_ask(&job);
            pending.push((job, call));
        }
        self.switch_once_in(OPERATIONS_PER_SWITCH);
        self.mix.random.shuffle(&mut pending);
        for (job, call) in pending {
            if self.mix.random.u8(0..4) == 0 {
                drop(call);
                self.mix.account.unknown.calls += 1;
            } else {
                assert_eq!(call.wait().unwrap(), job);
                self.mix.account.served.calls += 1;
            }
        }
    }

    fn tell_some(&mut self) {
        for _ in 0..self.mix.random.u64(1..=MESSAGES_MAX) {
            let job = self.mix.job();
            if self.mix.random.bool() {
                self.callers.sync_service.tell(&job).unwrap();
            } else if let Err(status) =
                self.callers.sync_service.with(CallOptions::new().no_wait()).tell(&job)
            {
                expect(&status, Code::ResourceExhausted);
                continue;
            }
            self.mix.unconfirmed.messages += 1;
        }
    }

    /// Sends a stream, and drops one in four before its end.
    fn upload(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let mut stream = self.callers.async_service.upload().unwrap();
        for number in 0..count {
            self.switch_once_in(ITEMS_PER_SWITCH);
            stream.send(&self.mix.item(number)).unwrap();
        }
        if self.mix.random.u8(0..4) == 0 {
            self.mix.account.unknown.items += count;
            return;
        }
        assert_eq!(stream.finish().unwrap().number, count);
        self.mix.account.served.items += count;
    }

    /// Receives a stream, and drops one in four before its end.
    fn download(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let take = if self.mix.random.u8(0..4) == 0 { count / 2 } else { u64::MAX };
        let request = self.mix.item(count);
        let stream = self.callers.async_service.download(&request).unwrap();
        let mut received = 0;
        for item in stream.take(usize::try_from(take).unwrap()) {
            self.switch_once_in(ITEMS_PER_SWITCH);
            assert_eq!(item.unwrap().number, received);
            received += 1;
        }
        assert_eq!(received, count.min(take));
    }

    /// Sends and receives in turn.
    fn chat(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let (mut requests, mut replies) = self.callers.async_service.chat().unwrap();
        for number in 0..count {
            let item = self.mix.item(number);
            requests.send(&item).unwrap();
            self.switch_once_in(ITEMS_PER_SWITCH);
            assert_eq!(replies.recv().unwrap(), Some(item));
        }
        requests.finish().unwrap();
        assert_eq!(replies.recv().unwrap(), None);
        self.mix.account.served.items += count;
    }
}

/// Where connections move: to what a loop can wait for beside others. POSIX queues are left out: a
/// user can have a few only.
fn mechanisms() -> Vec<Mechanism> {
    let usable = |mechanism: &Mechanism| {
        let can = mechanism.capabilities();
        let is_local = *mechanism != Mechanism::Tcp && !mechanism.name().contains("posix-mq");
        is_local && can.pollable && !can.needs_spinning && mechanism.supported().is_ok()
    };
    Mechanism::all().filter(usable).collect()
}

#[track_caller]
pub(crate) fn expect(status: &Status, code: Code) {
    assert_eq!(status.code(), code, "{status}");
}
