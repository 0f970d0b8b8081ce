//! The service: counts what comes, and notes what must not come.
//!
//! **Invariants:** no number of a worker comes twice; those that the synchronous service serves
//! rise; the positions of items have no gaps.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_testkit::stress_service::Bookkeeper;

use crate::books::Books;
use crate::stress::Job;

/// Shared by all loops, as a synchronous and as an asynchronous service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    workers: Mutex<HashMap<u64, Worker>>,
    faults: Mutex<Vec<String>>,
}

#[derive(Debug, Default)]
struct Worker {
    books: Books,
    /// The numbers of its calls and one-way messages.
    numbers: HashSet<u64>,
    /// The highest that was served in order.
    last: u64,
}

impl Service {
    /// Returns what a worker has sent, and forgets it.
    pub(crate) fn take(&self, worker: u64) -> Books {
        self.workers().remove(&worker).unwrap_or_default().books
    }

    /// Returns what was lost, doubled or out of order, and forgets the workers that were killed.
    pub(crate) fn take_faults(&self) -> Vec<String> {
        self.workers().clear();
        std::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<u64, Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, text: String) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Counts a call or a one-way message. Its number must be new, and where methods run in the
    /// order of messages above the one before.
    fn count(&self, job: &Job, in_order: bool, what: impl FnOnce(&mut Books)) {
        let Job { worker: id, number, .. } = *job;
        let mut workers = self.workers();
        let worker = workers.entry(id).or_default();
        what(&mut worker.books);
        if !worker.numbers.insert(number) {
            self.fault(format!("worker {id:x}: {number} twice"));
        }
        if in_order && std::mem::replace(&mut worker.last, number) >= number {
            self.fault(format!("worker {id:x}: {number} out of order"));
        }
    }
}

impl Bookkeeper for Service {
    fn call(&self, job: &Job, in_order: bool) {
        self.count(job, in_order, |books| books.calls += 1);
        let end = clock::now() + Duration::from_micros(job.work_us.into());
        while clock::now() < end {
            std::hint::spin_loop();
        }
    }

    fn message(&self, job: &Job, in_order: bool) {
        self.count(job, in_order, |books| books.messages += 1);
    }

    fn item(&self, item: &Job, expected: u64) {
        self.workers().entry(item.worker).or_default().books.items += 1;
        if item.number != expected {
            let Job { worker, number, .. } = item;
            self.fault(format!("worker {worker:x}: item {number} where {expected} was due"));
        }
    }
}
