//! Threads for methods that block, and the calls that wait for one of them.
//!
//! **Invariants:** threads, waiting calls and their bytes are bounded; a thread is started when a
//! call finds none idle, and ends when it was idle for some seconds or the pool has closed; a call
//! that is refused or left in the queue gets the reason.
//! **Not here:** which methods come here (`blocking.rs`), what a thread does with a call
//! (`owned_call.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread;

use crate::limits::{
    BLOCKING_IDLE, BLOCKING_QUEUE_DEFAULT, BLOCKING_THREADS_DEFAULT, BLOCKING_WAITING_BYTES_MAX,
    BLOCKING_WAITING_MAX,
};
use crate::panics::contain;
use crate::service::dispatcher::Dispatcher;
use crate::service::owned_call::OwnedCall;
use crate::status::Status;

/// What a full [`BlockingPool`] does with one more call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Answers `RESOURCE_EXHAUSTED` at once, so that the caller can go elsewhere.
    #[default]
    Refuse,
    /// Lets it wait until its deadline; without one for as long as it takes. At most 4096 calls
    /// with 256 MiB of requests wait so; above it they are refused.
    WaitUntilDeadline,
}

/// A bounded number of threads that serve methods which block. Cheap to clone: all clones are the
/// same pool, and so are the dispatchers that it serves.
///
/// With its last clone the pool closes: calls that wait in it are answered `UNAVAILABLE`. Methods
/// that run are not waited for; their threads end after them, and their answers still count.
#[derive(Clone)]
pub struct BlockingPool {
    handle: Arc<Handle>,
}

/// Closes the pool with the last clone of its handle.
struct Handle {
    shared: Arc<Shared>,
}

/// Builds a [`BlockingPool`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct BlockingPoolBuilder {
    threads: usize,
    queue: usize,
    when_full: WhenFull,
    name: String,
}

/// Shared by a pool and its threads.
struct Shared {
    options: BlockingPoolBuilder,
    state: Mutex<State>,
    /// Signalled when a call is queued, and when the pool closes.
    changed: Condvar,
    /// Woken when a call in the queue has ended for its caller.
    has_ended: Arc<HasEnded>,
}

/// Whether a call in the queue has ended since the last look at them.
#[derive(Default)]
struct HasEnded(AtomicBool);

impl Wake for HasEnded {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    /// Bytes of the requests in the queue.
    queue_bytes: usize,
    /// Threads that wait for a call: the first calls of the queue are theirs.
    idle: usize,
    is_closed: bool,
}

struct Job {
    dispatcher: Arc<dyn Dispatcher + Send + Sync>,
    call: Box<OwnedCall>,
}

impl BlockingPool {
    /// Returns a builder of a pool of 8 threads, with a queue of 64 calls, that refuses calls when
    /// it is full.
    pub fn builder() -> BlockingPoolBuilder {
        BlockingPoolBuilder {
            threads: BLOCKING_THREADS_DEFAULT,
            queue: BLOCKING_QUEUE_DEFAULT,
            when_full: WhenFull::default(),
            name: "nearcall-block".to_owned(),
        }
    }

    /// Returns how many threads run now, at most as many as were asked for.
    pub fn threads(&self) -> usize {
        self.handle.shared.lock().threads
    }

    /// Returns how many calls wait for a thread.
    pub fn waiting(&self) -> usize {
        self.handle.shared.lock().queue.len()
    }

    /// Has a thread serve a call, or refuses it.
    pub(super) fn submit(&self, dispatcher: Arc<dyn Dispatcher + Send + Sync>, call: OwnedCall) {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        let job = Job { dispatcher, call: Box::new(call) };
        if state.idle > state.queue.len() {
            state.push(job);
            drop(state);
            shared.changed.notify_one();
        } else if state.threads < shared.options.threads {
            state.threads += 1;
            drop(state);
            shared.start_thread(job);
        } else {
            let (refused, given_up) = shared.queue(&mut state, job);
            drop(state);
            // Outside the lock: interceptors see the end of a call, and may look at the pool.
            drop(given_up);
            if let Some(job) = refused {
                job.call.refuse(&shared.full());
            }
        }
    }
}

impl BlockingPoolBuilder {
    /// Sets the largest number of threads: methods that run at the same time. Default: 8.
    ///
    /// # Panics
    ///
    /// It is zero: such a pool would serve nothing.
    pub fn threads(self, threads: usize) -> Self {
        assert!(threads > 0, "a blocking pool of 0 threads serves nothing; give it 1 at least");
        Self { threads, ..self }
    }

    /// Sets how many calls wait for a thread before the pool is full. Default: 64.
    pub fn queue(self, calls: usize) -> Self {
        Self { queue: calls, ..self }
    }

    /// Sets what a full pool does with one more call. Default: refuse it.
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Sets the name of the threads, as debuggers show it; the kernel keeps 15 bytes of it.
    /// Default: `nearcall-block`.
    ///
    /// # Panics
    ///
    /// It contains a zero byte.
    pub fn name(self, name: &str) -> Self {
        assert!(!name.contains('\0'), "the name of a thread has no zero byte");
        Self { name: name.to_owned(), ..self }
    }

    /// Builds the pool. It starts a thread when a call needs one.
    pub fn build(self) -> BlockingPool {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let has_ended = Arc::default();
        let shared = Arc::new(Shared { options: self, state, changed, has_ended });
        BlockingPool { handle: Arc::new(Handle { shared }) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call while all threads are busy, or returns it. Also returns the calls that have
    /// left the queue, since their callers wait no more.
    fn queue(&self, state: &mut State, job: Job) -> (Option<Job>, VecDeque<Job>) {
        let mut given_up = VecDeque::new();
        let max = self.waiting_max() + state.idle;
        let is_full = |state: &State| {
            state.queue.len() >= max
                || state.queue_bytes + job.call.request_bytes() > BLOCKING_WAITING_BYTES_MAX
        };
        let waker = Waker::from(Arc::clone(&self.has_ended));
        // Those whose callers have gone take no place.
        if is_full(state) && self.has_ended.0.swap(false, Ordering::AcqRel) {
            let queue = std::mem::take(&mut state.queue).into_iter();
            (given_up, state.queue) = queue.partition(|job| job.call.poll_cancelled(&waker));
            state.queue_bytes = state.queue.iter().map(|job| job.call.request_bytes()).sum();
        }
        if is_full(state) {
            return (Some(job), given_up);
        }
        match job.call.poll_cancelled(&waker) {
            true => given_up.push_back(job),
            false => state.push(job),
        }
        (None, given_up)
    }

    /// Returns how many calls may wait while all threads are busy.
    fn waiting_max(&self) -> usize {
        match self.options.when_full {
            WhenFull::Refuse => self.options.queue,
            WhenFull::WaitUntilDeadline => self.options.queue.max(BLOCKING_WAITING_MAX),
        }
    }

    #[cold]
    fn full(&self) -> Status {
        let (threads, waiting) = (self.options.threads, self.waiting_max());
        Status::resource_exhausted(format!(
            "the {threads} threads for methods that block are busy, and {waiting} calls or \
             {BLOCKING_WAITING_BYTES_MAX} bytes of requests wait, the limits; try again later"
        ))
    }

    fn start_thread(self: &Arc<Self>, job: Job) {
        let shared = Arc::clone(self);
        let first = Arc::new(Mutex::new(Some(job)));
        let given = Arc::clone(&first);
        let take =
            |job: &Mutex<Option<Job>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let named = thread::Builder::new().name(self.options.name.clone());
        let started = named.spawn(move || shared.run_thread(take(&given)));
        let Err(error) = started else { return };
        let mut state = self.lock();
        state.threads -= 1;
        // They came while this thread was counted, and no other one takes them.
        let left = if state.threads == 0 { state.take_queue() } else { VecDeque::new() };
        drop(state);
        let status = Status::resource_exhausted(format!(
            "no thread for a method that blocks could be started: {error}; raise the limit of \
             threads of this user or lower `BlockingPoolBuilder::threads`"
        ));
        for job in take(&first).into_iter().chain(left) {
            job.call.refuse(&status);
        }
    }

    fn run_thread(&self, first: Option<Job>) {
        let mut next = first;
        while let Some(Job { dispatcher, call }) = next.take().or_else(|| self.next_job()) {
            // A service whose end panics must not end a thread that the pool counts.
            contain(move || call.run(&*dispatcher));
        }
    }

    /// Returns the next call, or `None` for a thread that has to end.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.queue.is_empty() && !state.is_closed {
            state.idle += 1;
            let is_idle = |state: &mut State| state.queue.is_empty() && !state.is_closed;
            let waited = self.changed.wait_timeout_while(state, BLOCKING_IDLE, is_idle);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
        let job = state.pop();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }
}

impl State {
    fn push(&mut self, job: Job) {
        self.queue_bytes += job.call.request_bytes();
        self.queue.push_back(job);
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.queue.pop_front()?;
        self.queue_bytes -= job.call.request_bytes();
        Some(job)
    }

    fn take_queue(&mut self) -> VecDeque<Job> {
        self.queue_bytes = 0;
        std::mem::take(&mut self.queue)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let left = state.take_queue();
        drop(state);
        self.shared.changed.notify_all();
        let status = Status::unavailable("the pool of the methods that block was closed");
        for job in left {
            job.call.refuse(&status);
        }
    }
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockingPoolBuilder { threads, queue, when_full, .. } = &self.handle.shared.options;
        f.debug_struct("BlockingPool")
            .field("threads", threads)
            .field("queue", queue)
            .field("when_full", when_full)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::codec::Body;
    use crate::connection::Activity;
    use crate::deadline::Deadline;
    use crate::interface::Interface;
    use crate::metadata::Metadata;
    use crate::service::context::Context;
    use crate::service::dispatcher::Incoming;
    use crate::service::local_reply::{LocalCall, LocalReply};
    use crate::service::reply_sink::ReplySink;
    use crate::tasks::mailbox::Mailbox;

    static INTERFACE: Interface = Interface { name: "a.B", methods: &[], descriptor_set: &[] };

    struct Nothing;

    impl Dispatcher for Nothing {
        fn interface(&self) -> &'static Interface {
            &INTERFACE
        }

        fn dispatch(&self, _: Incoming<'_>) {}
    }

    /// A call, and what its caller holds.
    fn job() -> (Job, LocalReply) {
        let activity = Activity::new(&Arc::new(Mailbox::new().unwrap()));
        let of_call = LocalCall::default();
        let sink = ReplySink::local_bytes(&of_call, &activity);
        let context = Context::new(Deadline::NEVER, Metadata::new(&[]), &INTERFACE, 1, sink);
        let incoming = Incoming { method: 1, body: Body::copied(&[]), context };
        let call = Box::new(OwnedCall::new(incoming).unwrap());
        let reply = of_call.into_outcome().err().expect("it is answered later");
        (Job { dispatcher: Arc::new(Nothing), call }, reply)
    }

    /// Looking at thousands of calls takes longer than serving one.
    #[test]
    fn a_full_pool_looks_at_its_calls_only_when_one_has_ended() {
        let pool = BlockingPool::builder().queue(2).build();
        let shared = &pool.handle.shared;
        // Whether it finds a place, and how many have left the queue for that.
        let queue = |job| {
            let (refused, given_up) = shared.queue(&mut shared.lock(), job);
            (refused.is_none(), given_up.len())
        };
        let ((one, of_one), (two, of_two)) = (job(), job());
        assert_eq!([queue(one), queue(two)], [(true, 0); 2]);
        of_one.cancellation().forget_task();
        drop(of_one);
        let (three, _of_three) = job();
        assert_eq!(queue(three), (false, 0), "the pool has not heard of an end");
        drop(of_two);
        let (four, of_four) = job();
        assert_eq!(queue(four), (true, 2));
        let (ended, of_ended) = job();
        drop(of_ended);
        assert_eq!(queue(ended), (true, 1), "one that has ended takes no place");
        drop(of_four);
        let (five, _of_five) = job();
        assert_eq!((queue(five), pool.waiting()), ((true, 0), 2));
    }
}
