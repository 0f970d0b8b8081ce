//! The service: counts what comes, and notes what must not come.
//!
//! **Invariants:** no number of a worker comes twice; those that the synchronous service serves
//! rise; the positions of items have no gaps.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
use nearcall::{CallContext, Context, Status};
use nearcall_os::clock;

use crate::books::Books;
use crate::stress::{Job, Stress, StressAsync};

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

    /// Counts an item, whose position must be `expected`.
    fn count_item(&self, item: &Job, expected: u64) {
        self.workers().entry(item.worker).or_default().books.items += 1;
        if item.number != expected {
            let Job { worker, number, .. } = item;
            self.fault(format!("worker {worker:x}: item {number} where {expected} was due"));
        }
    }

    fn call(&self, job: &Job, in_order: bool) {
        self.count(job, in_order, |books| books.calls += 1);
        let end = clock::now() + Duration::from_micros(job.work_us.into());
        while clock::now() < end {
            std::hint::spin_loop();
        }
    }
}

impl Stress for Service {
    fn ask(&self, _context: &Context<'_>, request: &Job) -> Result<Job, Status> {
        self.call(request, true);
        Ok(request.clone())
    }

    fn tell(&self, _context: &Context<'_>, request: &Job) {
        self.count(request, true, |books| books.messages += 1);
    }

    fn upload(&self, _context: &Context<'_>, items: ItemReceiver<Job>) -> Result<Job, Status> {
        let mut count = 0;
        while let Some(item) = items.recv()? {
            self.count_item(&item, count);
            count += 1;
        }
        Ok(Job { number: count, ..Job::default() })
    }

    fn download(
        &self,
        _context: &Context<'_>,
        request: &Job,
        items: ItemSender<Job>,
    ) -> Result<(), Status> {
        (0..request.number).try_for_each(|number| items.send(&Job { number, ..request.clone() }))
    }

    fn chat(
        &self,
        _context: &Context<'_>,
        items: ItemReceiver<Job>,
        replies: ItemSender<Job>,
    ) -> Result<(), Status> {
        let mut count = 0;
        while let Some(item) = items.recv()? {
            self.count_item(&item, count);
            count += 1;
            replies.send(&item)?;
        }
        Ok(())
    }
}

impl StressAsync for Service {
    async fn ask(&self, _context: CallContext, request: Job) -> Result<Job, Status> {
        self.call(&request, false);
        Ok(request)
    }

    async fn tell(&self, _context: CallContext, request: Job) {
        self.count(&request, false, |books| books.messages += 1);
    }

    async fn upload(
        &self,
        _context: CallContext,
        mut items: AsyncItemReceiver<Job>,
    ) -> Result<Job, Status> {
        let mut count = 0;
        while let Some(item) = items.next().await {
            self.count_item(&item?, count);
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
        for number in 0..request.number {
            items.send(&Job { number, ..request.clone() }).await?;
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
            self.count_item(&item, count);
            count += 1;
            replies.send(&item).await?;
        }
        Ok(())
    }
}
