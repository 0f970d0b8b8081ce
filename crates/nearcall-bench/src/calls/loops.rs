//! The server that threads call: one service behind some event loops of one process.
//!
//! **Invariants:** each loop counts the calls that it serves in a word of its own, so that counting
//! costs no loop the cache line of another.
//! **Not here:** the threads (`many.rs`), the service of one loop (`service.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use nearcall::stream::ItemReceiver;
use nearcall::{Context, Server, Status};

use crate::calls::generated::{Argument, Bench, BenchDispatcher};
use crate::calls::meet::{REPORT, server_address};
use crate::calls::rest::allow_descriptors;
use crate::exchange::Failure;
use crate::exchange::count::{Counts, EndReport};
use crate::floor::meeting::Meeting;
use crate::launch::LaunchRequest;
use crate::session::{self, GOODBYE, READY};

/// Serves until the client says that it is done.
pub(super) fn server(
    loops: u32,
    request: &LaunchRequest,
    meeting: &Meeting,
) -> Result<(), Failure> {
    allow_descriptors(request.conditions.connections());
    let service = Arc::new(CountingService::default());
    let builder = Server::builder()
        .threads(usize::try_from(loops).unwrap_or(usize::MAX))
        .register(BenchDispatcher::shared(Arc::clone(&service)))
        .listen(&server_address(request));
    let running = builder.start().map_err(Failure::other)?;
    meeting.say(READY)?;
    loop {
        match meeting.hear()?.as_str() {
            GOODBYE => break,
            REPORT => meeting.say(&serde_json::to_string(&service.report()?)?)?,
            // A cell: empty calls, as all of them.
            _ => {
                session::misbehave(request.fault)?;
                meeting.say(READY)?;
            }
        }
    }
    running.stop().map_err(Failure::other)
}

/// Counts calls, and does no work. One of it in a process.
#[derive(Default)]
struct CountingService {
    /// A word for each thread that has served a call.
    counts: Mutex<Vec<Arc<Word>>>,
    marks: Mutex<Marks>,
}

/// What a thread has served, alone in its lines of cache.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU64);

#[derive(Default)]
struct Marks {
    before: Option<(Counts, u64)>,
    report: Option<EndReport>,
}

thread_local! {
    static SERVED: std::cell::OnceCell<Arc<Word>> = const { std::cell::OnceCell::new() };
}

impl CountingService {
    #[inline]
    fn count(&self) {
        SERVED.with(|served| {
            let Word(word) = &**served.get_or_init(|| self.new_word());
            word.store(word.load(Relaxed) + 1, Relaxed);
        });
    }

    #[cold]
    fn new_word(&self) -> Arc<Word> {
        let word = Arc::<Word>::default();
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&word));
        word
    }

    /// Returns the calls of all loops. No call is under way at a mark.
    fn served(&self) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|word| word.0.load(Relaxed)).sum()
    }

    fn take_mark(&self) -> Result<(), Failure> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        match marks.before.take() {
            None => marks.before = Some((Counts::before()?, self.served())),
            Some((before, served)) => {
                marks.report = Some(before.report(0, self.served() - served)?);
            }
        }
        Ok(())
    }

    /// What was counted between the two marks.
    fn report(&self) -> Result<EndReport, Failure> {
        let report = self.marks.lock().unwrap_or_else(PoisonError::into_inner).report.take();
        report.ok_or_else(|| Failure::other("the server was given no two marks"))
    }
}

impl Bench for CountingService {
    #[inline]
    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.count();
        Ok(())
    }

    fn take(&self, _context: &Context<'_>, _request: &Argument) -> Result<(), Status> {
        Err(not_for_threads())
    }

    fn pass(&self, _context: &Context<'_>, _request: &Argument) -> Result<(), Status> {
        Err(not_for_threads())
    }

    fn upload(&self, _context: &Context<'_>, _items: ItemReceiver<Argument>) -> Result<(), Status> {
        Err(not_for_threads())
    }

    fn note(&self, _context: &Context<'_>, _request: &Argument) {}

    fn mark(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.take_mark().map_err(|failure| Status::internal(failure.text))
    }
}

fn not_for_threads() -> Status {
    Status::unimplemented("threads make empty calls only")
}
