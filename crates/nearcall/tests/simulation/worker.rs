//! A thread of a client: a random mix of what callers do, with an account of how each call ended.
//!
//! **Invariants:** a reply is the one to its request, whatever goes wrong; while things go wrong
//! every operation may fail, and afterwards none may.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall::{CallOptions, Client, Code, EventLoop, Status};
use nearcall_os::clock;

use crate::service::{is_whole, padding};
use crate::stress::{Job, StressCaller};

/// The instance of the asynchronous service.
pub(crate) const ASYNC: &str = "async";

/// What a worker knows of what it has sent.
#[derive(Debug, Default, Clone)]
pub(crate) struct Account {
    /// Calls with a reply.
    pub(crate) answered: BTreeSet<u64>,
    /// The highest number that it has used.
    pub(crate) last: u64,
    pub(crate) oneways: u64,
    pub(crate) items: u64,
    pub(crate) cancelled: u64,
    /// How often an operation ended so.
    pub(crate) failed: [u64; CODES],
    /// What must not happen.
    pub(crate) faults: Vec<String>,
    /// It has ended by itself.
    pub(crate) has_ended: bool,
}

/// The codes of a status.
pub(crate) const CODES: usize = 17;

/// What a worker and the test share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Nothing goes wrong any more: one call that succeeds, and the end.
    pub(crate) is_calm: AtomicBool,
    account: Mutex<Account>,
}

impl Shared {
    pub(crate) fn account(&self) -> Account {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut Account)) {
        note(&mut self.account.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A worker before its thread runs.
pub(crate) struct Worker {
    pub(crate) id: u64,
    pub(crate) seed: u64,
    pub(crate) address: String,
    /// Its calls wait in a loop.
    pub(crate) has_loop: bool,
    pub(crate) shared: Arc<Shared>,
}

/// The calls of a worker.
struct Mix {
    worker: Worker,
    random: fastrand::Rng,
    number: u64,
    sync_service: StressCaller,
    async_service: StressCaller,
}

impl Worker {
    /// Calls until all is calm, and then once more.
    pub(crate) fn run(self) {
        let event_loop = if self.has_loop { self.open_loop() } else { None };
        let client = match &event_loop {
            Some(event_loop) => Client::in_loop(event_loop),
            None => Client::new(),
        };
        let at =
            |instance: &str| StressCaller::new(&client, &format!("{}{instance}", self.address));
        // They connect at their first calls.
        let (sync_service, async_service) = (at("").unwrap(), at(&format!("#{ASYNC}")).unwrap());
        let shared = Arc::clone(&self.shared);
        let random = fastrand::Rng::with_seed(self.seed);
        let mut mix = Mix { worker: self, random, number: 0, sync_service, async_service };
        while !shared.is_calm.load(Ordering::Relaxed) {
            mix.operate();
        }
        mix.end();
        shared.note(|account| account.has_ended = true);
    }

    /// Opens a loop, as soon as there are descriptors for one.
    fn open_loop(&self) -> Option<EventLoop> {
        loop {
            match EventLoop::new() {
                Ok(event_loop) => return Some(event_loop),
                Err(_) => clock::pause(PAUSE),
            }
        }
    }
}

impl Mix {
    fn note(&self, note: impl FnOnce(&mut Account)) {
        self.worker.shared.note(note);
    }

    fn operate(&mut self) {
        match self.random.u8(0..12) {
            0..3 => self.ask(),
            3 => self.ask_in_time(),
            4..6 => self.start_some(),
            6 => self.tell_some(),
            7 => self.upload(),
            8 => self.download(),
            9 => self.chat(),
            _ => clock::pause(Duration::from_micros(self.random.u64(0..PAUSE_US_MAX))),
        }
    }

    fn job(&mut self) -> Job {
        self.number += 1;
        let number = self.number;
        self.note(|account| account.last = number);
        let worker = self.worker.id;
        let bytes = self.bytes();
        let work_us = if self.random.u8(0..8) == 0 { self.random.u32(0..WORK_US_MAX) } else { 0 };
        Job { worker, number, work_us, padding: padding(worker, number, bytes).into() }
    }

    fn bytes(&mut self) -> usize {
        let max = if self.random.u8(0..30) == 0 { LARGE_BYTES_MAX } else { BYTES_MAX };
        self.random.usize(0..max)
    }

    fn item(&mut self, number: u64) -> Job {
        let (worker, bytes) = (self.worker.id, self.bytes() / 4);
        Job { worker, number, work_us: 0, padding: padding(worker, number, bytes).into() }
    }

    fn caller(&mut self) -> StressCaller {
        let Self { sync_service, async_service, .. } = self;
        if self.random.bool() { sync_service.clone() } else { async_service.clone() }
    }

    /// Notes how a call ended.
    fn note_end(&self, job: &Job, answer: Result<Job, Status>) {
        match answer {
            Ok(reply) if reply == *job => self.note(|account| {
                account.answered.insert(job.number);
            }),
            Ok(_) => self.fault(format!("the reply to {} is another one's", job.number)),
            Err(status) => self.note_failure(&status),
        }
    }

    fn note_failure(&self, status: &Status) {
        self.note(|account| account.failed[usize::from(status.code().number())] += 1);
        let is_expected = matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled
        );
        if !is_expected {
            self.fault(format!("a call failed with {:?}: {status}", status.code()));
        }
        // A server that is gone, or no descriptor: what follows at once would fail as well.
        clock::pause(PAUSE);
    }

    fn fault(&self, text: String) {
        self.note(|account| account.faults.push(text));
    }

    fn ask(&mut self) {
        let (caller, job) = (self.caller(), self.job());
        self.note_end(&job, caller.ask(&job));
    }

    fn ask_in_time(&mut self) {
        let (caller, job) = (self.caller(), self.job());
        let timeout = Duration::from_micros(self.random.u64(0..DEADLINE_US_MAX));
        let options = CallOptions::new().deadline(timeout);
        self.note_end(&job, caller.with(options).ask(&job));
    }

    /// Starts calls, cancels some of them, and waits for the others in any order.
    fn start_some(&mut self) {
        let mut pending = Vec::new();
        for _ in 0..self.random.usize(1..=STARTED_MAX) {
            let (caller, job) = (self.caller(), self.job());
            let call = caller.start_ask(&job);
            pending.push((job, call));
        }
        self.random.shuffle(&mut pending);
        for (job, call) in pending {
            if self.random.u8(0..4) == 0 {
                drop(call);
                self.note(|account| account.cancelled += 1);
            } else {
                self.note_end(&job, call.wait());
            }
        }
    }

    fn tell_some(&mut self) {
        for _ in 0..self.random.u64(1..=MESSAGES_MAX) {
            let (caller, job) = (self.caller(), self.job());
            match caller.tell(&job) {
                Ok(()) => self.note(|account| account.oneways += 1),
                Err(status) => return self.note_failure(&status),
            }
        }
    }

    /// Sends a stream, and drops one in four before its end.
    fn upload(&mut self) {
        let count = self.random.u64(0..=ITEMS_MAX);
        let mut stream = match self.async_service.upload() {
            Ok(stream) => stream,
            Err(status) => return self.note_failure(&status),
        };
        for number in 0..count {
            if let Err(status) = stream.send(&self.item(number)) {
                return self.note_failure(&status);
            }
        }
        if self.random.u8(0..4) == 0 {
            return;
        }
        match stream.finish() {
            Ok(reply) if reply.number == count => self.note(|account| account.items += count),
            Ok(reply) => self.fault(format!("{} items of {count} were uploaded", reply.number)),
            Err(status) => self.note_failure(&status),
        }
    }

    /// Receives a stream, and drops one in four before its end.
    fn download(&mut self) {
        let (count, id) = (self.random.u64(0..=ITEMS_MAX), self.worker.id);
        let request = self.item(count);
        let mut stream = match self.async_service.download(&request) {
            Ok(stream) => stream,
            Err(status) => return self.note_failure(&status),
        };
        let leaves = self.random.u8(0..4) == 0;
        let mut received = 0;
        loop {
            match stream.recv() {
                Ok(Some(item))
                    if item.worker == id && item.number == received && is_whole(&item) =>
                {
                    received += 1;
                }
                Ok(Some(item)) => {
                    return self.fault(format!("item {} where {received} was due", item.number));
                }
                Ok(None) if received == count => break,
                Ok(None) => return self.fault(format!("{received} items of {count} came")),
                Err(status) => return self.note_failure(&status),
            }
            if leaves && received > count / 2 {
                break;
            }
        }
        self.note(|account| account.items += received);
    }

    /// Sends and receives in turn.
    fn chat(&mut self) {
        let count = self.random.u64(0..=ITEMS_MAX);
        let (mut requests, mut replies) = match self.async_service.chat() {
            Ok(streams) => streams,
            Err(status) => return self.note_failure(&status),
        };
        for number in 0..count {
            let item = self.item(number);
            if let Err(status) = requests.send(&item) {
                return self.note_failure(&status);
            }
            match replies.recv() {
                Ok(Some(reply)) if reply == item => {}
                Ok(reply) => {
                    let number = reply.map(|reply| reply.number);
                    return self.fault(format!("item {} came back as {number:?}", item.number));
                }
                Err(status) => return self.note_failure(&status),
            }
        }
        match requests.finish() {
            Ok(()) => self.note(|account| account.items += count),
            Err(status) => self.note_failure(&status),
        }
    }

    /// Calls until it succeeds, which must be soon.
    fn end(&mut self) {
        for _ in 0..LAST_CALLS_MAX {
            let job = self.job();
            match self.sync_service.ask(&job) {
                Ok(reply) if reply == job => {
                    return self.note(|account| {
                        account.answered.insert(job.number);
                    });
                }
                Ok(_) => return self.fault("the last reply is another one's".to_owned()),
                Err(status) => self.note_failure(&status),
            }
        }
        self.fault("no call succeeds although nothing goes wrong any more".to_owned());
    }
}

/// What a method works for, at most.
const WORK_US_MAX: u32 = 2_000;
/// Deadlines that are often too short.
const DEADLINE_US_MAX: u64 = 3_000;
/// A pause of a client that has nothing to do, at most.
const PAUSE_US_MAX: u64 = 5_000;
/// A pause after a failure: the restart of a server takes longer.
const PAUSE: Duration = Duration::from_millis(2);
/// Padding of most messages, and of one in thirty, at most.
const BYTES_MAX: usize = 300;
const LARGE_BYTES_MAX: usize = 200_000;
/// Calls that are started before one is waited for, at most.
const STARTED_MAX: usize = 12;
/// One-way messages in a row, at most.
const MESSAGES_MAX: u64 = 16;
/// Items of one stream, at most.
const ITEMS_MAX: u64 = 20;
/// What went wrong last may still end some calls: one for each connection that has broken.
const LAST_CALLS_MAX: u32 = 50;
