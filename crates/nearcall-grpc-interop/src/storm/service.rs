//! The service of the storm.
//!
//! **Invariants:** a call is in the book before anything of it is read, and its end before its
//! reply is sent, so that a kill loses nothing that a client knows.
//! **Not here:** what must be in the book (`books.rs`).

use std::time::Duration;

use nearcall::stream::{AsyncItemReceiver, AsyncItemSender};
use nearcall::{CallContext, Status};

use super::books::Book;
use super::job::{ID, Job, StormAsync, Tally, item};

/// The service of one process.
pub(super) struct Service {
    /// Of all servers, the first one is 0.
    pub(super) server: u32,
    pub(super) book: Book,
}

/// A call that runs. Dropped before its end, it was cancelled.
struct Running<'a> {
    service: &'a Service,
    id: u64,
    tally: Tally,
    has_ended: bool,
}

impl Service {
    fn begin(&self, context: &CallContext) -> Result<Running<'_>, Status> {
        let id = context.metadata().get(ID).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| Status::invalid_argument("the call has no number"))?;
        self.note(&format!("begin {} {id}", self.server))?;
        Ok(Running { service: self, id, tally: Tally::default(), has_ended: false })
    }

    fn note(&self, line: &str) -> Result<(), Status> {
        self.book.note(line).map_err(|error| Status::internal(format!("no book: {error}")))
    }

    async fn unary(&self, context: &CallContext, request: Job) -> Result<Job, Status> {
        let mut running = self.begin(context)?;
        running.add(&request)?;
        let tally = running.end(request.work_ms).await?;
        Ok(Job { items: tally.items, sum: tally.sum, ..request })
    }
}

impl Running<'_> {
    fn add(&mut self, item: &Job) -> Result<(), Status> {
        self.tally.add(self.id, item)
    }

    async fn end(mut self, work_ms: u32) -> Result<Tally, Status> {
        if work_ms > 0 {
            tokio::time::sleep(Duration::from_millis(work_ms.into())).await;
        }
        let Tally { items, sum } = self.tally;
        self.has_ended = true;
        self.service.note(&format!("end {} {} {items} {sum}", self.service.server, self.id))?;
        Ok(self.tally)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // A book that cannot be written lacks the end, which the comparison reports.
            let _ = self.service.note(&format!("drop {} {}", self.service.server, self.id));
        }
    }
}

impl StormAsync for Service {
    async fn once(&self, context: CallContext, request: Job) -> Result<Job, Status> {
        self.unary(&context, request).await
    }

    async fn again(&self, context: CallContext, request: Job) -> Result<Job, Status> {
        self.unary(&context, request).await
    }

    async fn tell(&self, context: CallContext, request: Job) {
        // Whatever it returns, no client would know; the book has it.
        let _ = self.unary(&context, request).await;
    }

    async fn upload(
        &self,
        context: CallContext,
        mut requests: AsyncItemReceiver<Job>,
    ) -> Result<Job, Status> {
        let mut running = self.begin(&context)?;
        let mut work_ms = 0;
        while let Some(request) = requests.next().await {
            let request = request?;
            work_ms = request.work_ms;
            running.add(&request)?;
        }
        let (id, tally) = (running.id, running.end(work_ms).await?);
        Ok(Job { items: tally.items, sum: tally.sum, ..item(id, 0) })
    }

    async fn download(
        &self,
        context: CallContext,
        request: Job,
        mut replies: AsyncItemSender<Job>,
    ) -> Result<(), Status> {
        let mut running = self.begin(&context)?;
        for number in 0..request.items {
            let item = item(running.id, number);
            replies.send(&item).await?;
            running.add(&item)?;
        }
        running.end(request.work_ms).await.map(drop)
    }

    async fn chat(
        &self,
        context: CallContext,
        mut requests: AsyncItemReceiver<Job>,
        mut replies: AsyncItemSender<Job>,
    ) -> Result<(), Status> {
        let mut running = self.begin(&context)?;
        let mut work_ms = 0;
        while let Some(request) = requests.next().await {
            let request = request?;
            work_ms = request.work_ms;
            running.add(&request)?;
            replies.send(&request).await?;
        }
        running.end(work_ms).await.map(drop)
    }
}
