//! Threads for methods that block, and the calls that wait for one of them.
//!
//! **Invariants:** threads, waiting calls and their bytes are bounded; a thread is started when a
//! call finds none idle, and ends when it was idle for some seconds or the pool has closed; a call
//! that is refused or left in the queue gets the reason.
//! **Not here:** which methods come here (`blocking.rs`), what a thread does with a call
//! (`owned_call.rs`), which call runs next and whose finds a place (`blocking/shares.rs`).

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
use crate::peer::User;
use crate::services::blocking::shares::{PoolLimits, Shares};
use crate::services::dispatcher::Dispatcher;
use crate::services::owned_call::OwnedCall;
use crate::status::Status;

/// What a full [`BlockingPool`] does with one more call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// Answers `RESOURCE_EXHAUSTED` at once, so that the caller can go elsewhere.
    #[default]
    Refuse,
    /// Lets it wait until its deadline; without one for as long as it takes. At most 4096 calls
    /// with 256 MiB of requests wait so; above it those of the user that has most are refused.
    WaitUntilDeadline,
}

/// A bounded number of threads that serve methods which block. Cheap to clone: all clones are the
/// same pool, and so are the dispatchers that it serves.
///
/// Users share it. Clients of another user than the program's run in at most half of the threads
/// that the others leave, rounded up; a thread that is free serves the user that has the fewest. In
/// a full queue a call takes the place of the newest call of the user that has most places, which
/// is refused. All clients from other machines count as one user.
///
/// With its last clone the pool closes: calls that wait in it are answered `UNAVAILABLE`. Methods
/// that run are not waited for; their threads end after them, and their answers still count.
///
/// See [`Blocking`](crate::service::Blocking) for an example.
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

struct State {
    shares: Shares<Job>,
    /// Calls for threads that are idle, which count as running.
    handed_over: VecDeque<(User, Job)>,
    threads: usize,
    /// Threads that wait for a call.
    idle: usize,
    is_closed: bool,
}

/// Calls that get no place, and those whose callers have gone.
#[derive(Default)]
struct Removed {
    refused: Vec<Job>,
    given_up: Vec<Job>,
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
        let state = self.handle.shared.lock();
        state.shares.waiting() + state.handed_over.len()
    }

    /// Has a thread serve a call, or refuses it.
    pub(super) fn submit(&self, dispatcher: Arc<dyn Dispatcher + Send + Sync>, call: OwnedCall) {
        let shared = &self.handle.shared;
        let user = call.peer().user();
        let mut state = shared.lock();
        let job = Job { dispatcher, call: Box::new(call) };
        let may_run = state.shares.may_run(user);
        if may_run && state.idle > state.handed_over.len() {
            state.shares.begin(user);
            state.handed_over.push_back((user, job));
            drop(state);
            shared.changed.notify_one();
        } else if may_run && state.threads < shared.options.threads {
            state.shares.begin(user);
            state.threads += 1;
            drop(state);
            shared.start_thread(user, job);
        } else {
            let removed = shared.queue(&mut state, user, job);
            drop(state);
            // Outside the lock: interceptors see the end of a call, and may look at the pool.
            drop(removed.given_up);
            for job in removed.refused {
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
        let shares = Shares::new(PoolLimits {
            threads: self.threads,
            waiting: self.waiting_max(),
            bytes: BLOCKING_WAITING_BYTES_MAX,
        });
        let handed_over = VecDeque::new();
        let state = State { shares, handed_over, threads: 0, idle: 0, is_closed: false };
        let (state, changed, has_ended) = (Mutex::new(state), Condvar::new(), Arc::default());
        let shared = Arc::new(Shared { options: self, state, changed, has_ended });
        BlockingPool { handle: Arc::new(Handle { shared }) }
    }

    /// Returns how many calls may wait for a thread.
    fn waiting_max(&self) -> usize {
        match self.when_full {
            WhenFull::Refuse => self.queue,
            WhenFull::WaitUntilDeadline => self.queue.max(BLOCKING_WAITING_MAX),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call that cannot run now. Returns the calls that get no place, of which this may be
    /// one, and those that have left the queue, since their callers wait no more.
    fn queue(&self, state: &mut State, user: User, job: Job) -> Removed {
        let mut removed = Removed::default();
        let (shares, bytes) = (&mut state.shares, job.call.request_bytes());
        let waker = Waker::from(Arc::clone(&self.has_ended));
        // Those whose callers have gone take no place.
        if shares.is_full_for(bytes) && self.has_ended.0.swap(false, Ordering::AcqRel) {
            removed.given_up = shares.take_if(|job| job.call.poll_cancelled(&waker));
        }
        while shares.is_full_for(bytes) {
            let Some(displaced) = shares.displace(user, bytes) else {
                removed.refused.push(job);
                return removed;
            };
            removed.refused.push(displaced);
        }
        match job.call.poll_cancelled(&waker) {
            true => removed.given_up.push(job),
            false => shares.push(user, bytes, job),
        }
        removed
    }

    #[cold]
    fn full(&self) -> Status {
        let (threads, waiting) = (self.options.threads, self.options.waiting_max());
        Status::resource_exhausted(format!(
            "the {threads} threads for methods that block are busy or kept for other users, and \
             {waiting} calls or {BLOCKING_WAITING_BYTES_MAX} bytes of requests wait, the limits, \
             of which no user keeps more than another that asks; try again later"
        ))
    }

    fn start_thread(self: &Arc<Self>, user: User, job: Job) {
        let shared = Arc::clone(self);
        let first = Arc::new(Mutex::new(Some(job)));
        let given = Arc::clone(&first);
        let take =
            |job: &Mutex<Option<Job>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let named = thread::Builder::new().name(self.options.name.clone());
        let started = named.spawn(move || shared.run_thread(user, take(&given)));
        let Err(error) = started else { return };
        let mut state = self.lock();
        state.threads -= 1;
        state.shares.end(user);
        // They came while this thread was counted, and no other one takes them.
        let left = if state.threads == 0 { state.take_all() } else { Vec::new() };
        drop(state);
        let status = Status::resource_exhausted(format!(
            "no thread for a method that blocks could be started: {error}; raise the limit of \
             threads of this user, or have the pool use fewer `threads`"
        ));
        for job in take(&first).into_iter().chain(left) {
            job.call.refuse(&status);
        }
    }

    fn run_thread(&self, user: User, first: Option<Job>) {
        let mut next = first.map(|job| (user, job));
        while let Some((user, Job { dispatcher, call })) = next {
            // A service whose end panics must not end a thread that the pool counts.
            contain(move || call.run(&*dispatcher));
            next = self.next_job(user);
        }
    }

    /// Returns the next call for a thread that has run one of this user, or `None` for a thread
    /// that has to end.
    fn next_job(&self, ended: User) -> Option<(User, Job)> {
        let mut state = self.lock();
        state.shares.end(ended);
        let mut next = if state.is_closed { None } else { state.shares.begin_next() };
        // The end of a call may leave room to more than one user.
        while state.idle > state.handed_over.len()
            && let Some(job) = state.shares.begin_next()
        {
            state.handed_over.push_back(job);
            self.changed.notify_one();
        }
        if next.is_none() && !state.is_closed {
            state.idle += 1;
            let is_idle = |state: &mut State| state.handed_over.is_empty() && !state.is_closed;
            let waited = self.changed.wait_timeout_while(state, BLOCKING_IDLE, is_idle);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            next = state.handed_over.pop_front();
        }
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }
}

impl State {
    /// Takes all calls that do not run yet.
    fn take_all(&mut self) -> Vec<Job> {
        let handed_over = std::mem::take(&mut self.handed_over).into_iter().map(|(_, job)| job);
        handed_over.chain(self.shares.take_if(|_| true)).collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let left = state.take_all();
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
    use crate::services::context::Context;
    use crate::services::dispatcher::Incoming;
    use crate::services::local_reply::{LocalCall, LocalReply};
    use crate::services::reply_sink::ReplySink;
    use crate::tasks::mailbox::Mailbox;

    static INTERFACE: Interface = Interface::new("a.B", &[], &[]);

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
            let Removed { refused, given_up } = shared.queue(&mut shared.lock(), User::Own, job);
            (refused.is_empty(), given_up.len())
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
