//! The service, and what it has served, by worker.
//!
//! **Invariants:** no number of a worker is served twice; what comes with a number is what its
//! worker sent with it; the positions of items have no gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_testkit::stress_service::Bookkeeper;

use crate::stress::Job;

/// What was served, by all servers that there were.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    workers: Mutex<BTreeMap<u64, Served>>,
}

/// What was served of one worker.
#[derive(Debug, Default, Clone)]
pub(crate) struct Served {
    /// The numbers of its calls and one-way messages.
    pub(crate) numbers: BTreeSet<u64>,
    /// What must not happen.
    pub(crate) faults: Vec<String>,
}

/// Returns the padding of a job: no other job has the same.
pub(crate) fn padding(worker: u64, number: u64, bytes: usize) -> Vec<u8> {
    let pattern =
        (worker.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
    pattern.iter().copied().cycle().take(bytes).collect()
}

/// Returns whether nothing of a job is another one's.
pub(crate) fn is_whole(job: &Job) -> bool {
    job.padding == padding(job.worker, job.number, job.padding.len())
}

impl Ledger {
    pub(crate) fn of(&self, worker: u64) -> Served {
        self.lock().get(&worker).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Served>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, worker: u64, text: String) {
        self.lock().entry(worker).or_default().faults.push(text);
    }

    fn count(&self, job: &Job) {
        let Job { worker, number, .. } = *job;
        if !is_whole(job) {
            self.fault(worker, format!("{number} has bytes of another"));
        }
        if !self.lock().entry(worker).or_default().numbers.insert(number) {
            self.fault(worker, format!("{number} was served twice"));
        }
    }
}

impl Bookkeeper for Ledger {
    /// Only the synchronous service takes its time.
    fn call(&self, job: &Job, in_order: bool) {
        self.count(job);
        if in_order {
            clock::pause(Duration::from_micros(job.work_us.into()));
        }
    }

    fn message(&self, job: &Job, _in_order: bool) {
        self.count(job);
    }

    fn item(&self, item: &Job, expected: u64) {
        let Job { worker, number, .. } = *item;
        if number != expected || !is_whole(item) {
            self.fault(worker, format!("item {number} of {expected}"));
        }
    }

    fn reply_item(&self, request: &Job, number: u64) -> Job {
        let padding = padding(request.worker, number, request.padding.len()).into();
        Job { number, padding, ..*request }
    }
}
