//! The tasks of a client process: they share async callers, each with a random mix of what such
//! callers do, and drop futures wherever they are.
//!
//! **Invariants:** as those of threads (`client.rs`); a future that was never polled is not served.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use nearcall::{CallOptions, Client, Code, Deadline};
use tokio::task::JoinSet;

use crate::books::Account;
use crate::client::{ASYNC, ITEMS_MAX, MESSAGES_MAX, OPERATIONS_MAX, STARTED_MAX};
use crate::mix::Mix;
use crate::stress::StressAsyncCaller;

/// Tasks that call at the same time.
const TASKS: usize = 8;
/// Threads that run them.
const THREADS: usize = 2;
/// Polls after which a future is dropped, at most.
const POLLS_MAX: u32 = 3;

/// Runs tasks until the time is over, and prints their accounts.
pub(crate) fn run(client: &Client, address: &str, seed: u64, mut worker: u64, until: Deadline) {
    if address.ends_with("?wait=spin") {
        return; // The one wait policy that futures do not have.
    }
    let callers = Callers {
        sync_service: StressAsyncCaller::new(client, address).unwrap(),
        async_service: StressAsyncCaller::new(client, &format!("{address}#{ASYNC}")).unwrap(),
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(THREADS).build().unwrap().block_on(async {
        let mut tasks = JoinSet::new();
        let mut start = |tasks: &mut JoinSet<Account>| {
            worker += 1;
            let mix = Mix::new(random.u64(..), worker);
            tasks.spawn(Task { callers: callers.clone(), mix }.run(until));
        };
        (0..TASKS).for_each(|_| start(&mut tasks));
        while let Some(ended) = tasks.join_next().await {
            println!("{}", ended.unwrap().line());
            if !until.has_passed() {
                start(&mut tasks);
            }
        }
    });
}

/// Callers of both forms of the service; each task has clones.
#[derive(Clone)]
struct Callers {
    sync_service: StressAsyncCaller,
    async_service: StressAsyncCaller,
}

struct Task {
    callers: Callers,
    mix: Mix,
}

impl Task {
    async fn run(mut self, until: Deadline) -> Account {
        for _ in 0..self.mix.random.u32(1..=OPERATIONS_MAX) {
            if until.has_passed() {
                break;
            }
            match self.mix.random.u8(0..10) {
                0..3 => self.ask().await,
                3 => self.ask_in_time().await,
                4 => self.ask_and_give_up().await,
                5 => self.start_some().await,
                6 => self.tell_some().await,
                7 => self.upload().await,
                8 => self.download().await,
                _ => self.chat().await,
            }
        }
        self.ask().await;
        self.mix.end()
    }

    /// A call to the form of the service that keeps the order of all that came before.
    async fn ask(&mut self) {
        let job = self.mix.job();
        assert_eq!(self.callers.sync_service.ask(&job).await.unwrap(), job);
        self.mix.confirm();
    }

    async fn ask_in_time(&mut self) {
        let job = self.mix.job();
        let options = CallOptions::new().deadline(self.mix.timeout());
        let answer = self.callers.sync_service.with(options).ask(&job).await;
        self.mix.note_answer(&job, answer, Code::DeadlineExceeded);
    }

    /// Drops a call after some polls. Without any it is not made.
    async fn ask_and_give_up(&mut self) {
        let (job, polls) = (self.mix.job(), self.mix.random.u32(0..=POLLS_MAX));
        match poll_at_most(polls, self.callers.sync_service.ask(&job)).await {
            Some(reply) => {
                assert_eq!(reply.unwrap(), job);
                self.mix.confirm();
            }
            None if polls == 0 => {}
            None => self.mix.account.unknown.calls += 1,
        }
    }

    /// Has tasks make calls, aborts some of them at any point, and awaits the others in any order.
    async fn start_some(&mut self) {
        let mut started = Vec::new();
        for _ in 0..self.mix.random.usize(1..=STARTED_MAX) {
            let (caller, job) = (self.callers.async_service.clone(), self.mix.job());
            let sent = job.clone();
            started.push((job, tokio::spawn(async move { caller.ask(&sent).await })));
        }
        self.mix.random.shuffle(&mut started);
        for (job, task) in started {
            let is_aborted = self.mix.random.u8(0..4) == 0;
            if is_aborted {
                task.abort();
            }
            match task.await {
                Ok(answer) => {
                    assert_eq!(answer.unwrap(), job);
                    self.mix.account.served.calls += 1;
                }
                Err(error) => {
                    assert!(is_aborted && error.is_cancelled(), "{error}");
                    self.mix.account.unknown.calls += 1;
                }
            }
        }
    }

    async fn tell_some(&mut self) {
        for _ in 0..self.mix.random.u64(1..=MESSAGES_MAX) {
            let (job, polls) = (self.mix.job(), self.mix.random.u32(0..100));
            match poll_at_most(polls, self.callers.sync_service.tell(&job)).await {
                Some(sent) => {
                    sent.unwrap();
                    self.mix.unconfirmed.messages += 1;
                }
                None if polls == 0 => {}
                None => self.mix.account.unknown.messages += 1,
            }
        }
    }

    /// Sends a stream, and drops one in four before its end.
    async fn upload(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let mut stream = self.callers.async_service.upload().await.unwrap();
        for number in 0..count {
            stream.send(&self.mix.item(number)).await.unwrap();
        }
        if self.mix.random.u8(0..4) == 0 {
            self.mix.account.unknown.items += count;
            return;
        }
        assert_eq!(stream.finish().await.unwrap().number, count);
        self.mix.account.served.items += count;
    }

    /// Receives a stream, and drops one in four before its end.
    async fn download(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let take = if self.mix.random.u8(0..4) == 0 { count / 2 } else { u64::MAX };
        let request = self.mix.item(count);
        let mut stream = self.callers.async_service.download(&request).await.unwrap();
        let mut received = 0;
        while received < take
            && let Some(item) = stream.next().await
        {
            assert_eq!(item.unwrap().number, received);
            received += 1;
        }
        assert_eq!(received, count.min(take));
    }

    /// Sends and receives in turn, and drops one in four in between.
    async fn chat(&mut self) {
        let count = self.mix.random.u64(0..=ITEMS_MAX);
        let is_dropped = self.mix.random.u8(0..4) == 0;
        let (mut requests, mut replies) = self.callers.async_service.chat().await.unwrap();
        for number in 0..count {
            let item = self.mix.item(number);
            requests.send(&item).await.unwrap();
            if is_dropped && number == count / 2 {
                self.mix.account.served.items += number;
                self.mix.account.unknown.items += 1;
                return;
            }
            assert_eq!(replies.next().await.unwrap().unwrap(), item);
        }
        requests.finish().await.unwrap();
        assert!(replies.next().await.is_none());
        self.mix.account.served.items += count;
    }
}

/// Awaits a future for some polls, and drops it then.
async fn poll_at_most<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = future.as_mut().poll(context).map(Some);
        // Dropped at once, and not when it is woken next.
        if polled.is_pending() && left == 0 { Poll::Ready(None) } else { polled }
    })
    .await
}
