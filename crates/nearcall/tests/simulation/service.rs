//! The service, and what it has served, by worker.
//!
//! **Invariants:** no number of a worker is served twice; what comes with a number is what its
//! worker sent with it; the positions of items have no gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
use nearcall::{CallContext, Context, Status};
use nearcall_os::clock;

use crate::stress::{Job, Stress, StressAsync};

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

    fn check_item(&self, item: &Job, expected: u64) {
        let Job { worker, number, .. } = *item;
        if number != expected || !is_whole(item) {
            self.fault(worker, format!("item {number} of {expected}"));
        }
    }
}

impl Stress for Ledger {
    fn ask(&self, _context: &Context<'_>, request: &Job) -> Result<Job, Status> {
        self.count(request);
        clock::pause(Duration::from_micros(request.work_us.into()));
        Ok(request.clone())
    }

    fn tell(&self, _context: &Context<'_>, request: &Job) {
        self.count(request);
    }

    fn upload(&self, _: &Context<'_>, _: ItemReceiver<Job>) -> Result<Job, Status> {
        Err(Status::unimplemented("streams are the asynchronous service's"))
    }

    fn download(&self, _: &Context<'_>, _: &Job, _: ItemSender<Job>) -> Result<(), Status> {
        Err(Status::unimplemented("streams are the asynchronous service's"))
    }

    fn chat(
        &self,
        _: &Context<'_>,
        _: ItemReceiver<Job>,
        _: ItemSender<Job>,
    ) -> Result<(), Status> {
        Err(Status::unimplemented("streams are the asynchronous service's"))
    }
}

impl StressAsync for Ledger {
    async fn ask(&self, _context: CallContext, request: Job) -> Result<Job, Status> {
        self.count(&request);
        Ok(request)
    }

    async fn tell(&self, _context: CallContext, request: Job) {
        self.count(&request);
    }

    async fn upload(
        &self,
        _context: CallContext,
        mut items: AsyncItemReceiver<Job>,
    ) -> Result<Job, Status> {
        let mut count = 0;
        while let Some(item) = items.next().await {
            self.check_item(&item?, count);
            count += 1;
        }
        Ok(Job { number: count, ..Job::default() })
    }

    async fn download(
        &self,
        _context: CallContext,
        request: Job,
        mut items: AsyncItemSender<Job>,
    ) -> Result<(), Status> {
        let bytes = request.padding.len();
        for number in 0..request.number {
            let padding = padding(request.worker, number, bytes).into();
            items.send(&Job { number, padding, ..request }).await?;
        }
        Ok(())
    }

    async fn chat(
        &self,
        _context: CallContext,
        mut items: AsyncItemReceiver<Job>,
        mut replies: AsyncItemSender<Job>,
    ) -> Result<(), Status> {
        let mut count = 0;
        while let Some(item) = items.next().await {
            let item = item?;
            self.check_item(&item, count);
            count += 1;
            replies.send(&item).await?;
        }
        Ok(())
    }
}
