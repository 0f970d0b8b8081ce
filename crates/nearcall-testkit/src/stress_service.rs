//! Both forms of the service that the stress test and the simulation call, for all that keep books
//! of what comes.
//!
//! **Not here:** the books, and what must not come.

use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
use nearcall::{CallContext, Context, Status};

use crate::stress::{Job, Stress, StressAsync};

/// Keeps books of what a service gets. Its methods run in the order of messages, or as futures.
pub trait Bookkeeper: Send + Sync + 'static {
    /// Notes a call, and works for it.
    fn call(&self, job: &Job, in_order: bool);

    /// Notes a one-way message.
    fn message(&self, job: &Job, in_order: bool);

    /// Notes an item, whose position must be `expected`.
    fn item(&self, item: &Job, expected: u64);

    /// Returns this item of a reply.
    fn reply_item(&self, request: &Job, number: u64) -> Job {
        Job { number, ..request.clone() }
    }
}

impl<B: Bookkeeper> Stress for B {
    fn ask(&self, _context: &Context<'_>, request: &Job) -> Result<Job, Status> {
        self.call(request, true);
        Ok(request.clone())
    }

    fn tell(&self, _context: &Context<'_>, request: &Job) {
        self.message(request, true);
    }

    fn upload(&self, _context: &Context<'_>, items: ItemReceiver<Job>) -> Result<Job, Status> {
        let mut count = 0;
        while let Some(item) = items.recv()? {
            self.item(&item, count);
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
        (0..request.number).try_for_each(|number| items.send(&self.reply_item(request, number)))
    }

    fn chat(
        &self,
        _context: &Context<'_>,
        items: ItemReceiver<Job>,
        replies: ItemSender<Job>,
    ) -> Result<(), Status> {
        let mut count = 0;
        while let Some(item) = items.recv()? {
            self.item(&item, count);
            count += 1;
            replies.send(&item)?;
        }
        Ok(())
    }
}

impl<B: Bookkeeper> StressAsync for B {
    async fn ask(&self, _context: CallContext, request: Job) -> Result<Job, Status> {
        self.call(&request, false);
        Ok(request)
    }

    async fn tell(&self, _context: CallContext, request: Job) {
        self.message(&request, false);
    }

    async fn upload(
        &self,
        _context: CallContext,
        mut items: AsyncItemReceiver<Job>,
    ) -> Result<Job, Status> {
        let mut count = 0;
        while let Some(item) = items.next().await {
            self.item(&item?, count);
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
            items.send(&self.reply_item(&request, number)).await?;
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
            self.item(&item, count);
            count += 1;
            replies.send(&item).await?;
        }
        Ok(())
    }
}
