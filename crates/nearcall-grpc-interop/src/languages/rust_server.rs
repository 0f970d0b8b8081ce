//! The server in Rust: the test service of gRPC, and notes.
//!
//! **Not here:** the test service itself (`nearcall_service.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nearcall::{CallContext, Server, Status};

use super::PATIENCE;
use super::notes::{CountReply, Note, NotesAsync, NotesAsyncDispatcher, SleepRequest};
use crate::nearcall_service;

#[derive(Clone, Default)]
struct Notes(Arc<AtomicU32>);

impl NotesAsync for Notes {
    async fn leave(&self, _: CallContext, _: Note) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    async fn keep(&self, _: CallContext, _: Note) -> Result<CountReply, Status> {
        Ok(CountReply { notes: self.0.fetch_add(1, Ordering::Relaxed) + 1 })
    }

    async fn count(&self, _: CallContext, (): ()) -> Result<CountReply, Status> {
        Ok(CountReply { notes: self.0.load(Ordering::Relaxed) })
    }

    async fn sleep(&self, _: CallContext, request: SleepRequest) -> Result<(), Status> {
        tokio::time::sleep(Duration::from_millis(request.milliseconds.into())).await;
        Ok(())
    }
}

/// Serves at `address` until the input of this process ends, and lets calls under way end.
///
/// # Errors
///
/// Nothing can listen there, or calls under way do not end.
pub(super) async fn run(address: &str) -> anyhow::Result<()> {
    let tasks = tokio::runtime::Handle::current();
    let notes = NotesAsyncDispatcher::new(Notes::default()).spawn_on(move |task| {
        tasks.spawn(task);
    });
    let server = Server::builder().register(nearcall_service::dispatcher()).register(notes);
    let server = server.listen(address).start();
    let server = server.with_context(|| format!("cannot listen at {address}"))?;
    super::print(&format!("ready {}", server.address()))?;
    tokio::task::spawn_blocking(move || {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
        ensure!(server.drain(PATIENCE), "calls have not ended");
        Ok(server.stop()?)
    })
    .await?
}
