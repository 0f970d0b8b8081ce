//! Calls that the service ends before its caller has ended the items: with `OK` and with an error.

use std::future::poll_fn;
use std::task::Poll;

use nearcall::CallContext;
use nearcall::service::{Blocking, BlockingPool};
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};

use super::forms::{Caller, Replies, Requests, caller};
use super::served::{
    Item, Kind, Plan, Streams, StreamsAsync, StreamsAsyncCaller, StreamsAsyncDispatcher,
    StreamsCaller, StreamsDispatcher, item,
};
use crate::hunts::Form;
use crate::stage::prelude::*;
use crate::support::LoopThread;

/// Ends its calls when `Say` has come, without reading an item: with the code that their caller
/// has named.
#[derive(Clone, Default)]
struct Early(Arc<Mutex<Gate>>);

#[derive(Default)]
struct Gate {
    is_open: bool,
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

impl Early {
    /// Runs `end` when the gate is open.
    fn pass(&self, end: impl FnOnce() + Send + 'static) {
        let mut gate = self.0.lock().unwrap();
        if !gate.is_open {
            return gate.waiting.push(Box::new(end));
        }
        drop(gate);
        end();
    }

    fn set(&self, is_open: bool) {
        let mut gate = self.0.lock().unwrap();
        gate.is_open = is_open;
        let waiting = if is_open { std::mem::take(&mut gate.waiting) } else { Vec::new() };
        drop(gate);
        waiting.into_iter().for_each(|end| end());
    }

    fn end_later<R: nearcall::Message + Default + 'static>(
        &self,
        context: &Context<'_>,
        items: ItemReceiver<Item>,
        end: Result<R, Status>,
    ) -> Result<R, Status> {
        context.answer_later(|responder| {
            self.pass(move || {
                responder.finish(end);
                // Whoever kept it does not wait for what does not come any more.
                let end = std::iter::from_fn(|| items.recv().transpose()).find_map(Result::err);
                assert_eq!(end.unwrap().code(), Code::FailedPrecondition);
            });
        })
    }

    /// Waits until both calls of a case are here, which another connection may overtake.
    fn wait_for_calls(&self) {
        let deadline = Deadline::after(PATIENCE);
        let are_here = || {
            let gate = self.0.lock().unwrap();
            gate.is_open || gate.waiting.len() == 2
        };
        while !are_here() {
            assert!(!deadline.has_passed(), "the calls have not come");
            clock::pause(Duration::from_micros(100));
        }
    }

    async fn opened(&self) {
        poll_fn(|context| {
            if self.0.lock().unwrap().is_open {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            self.pass(move || waker.wake());
            Poll::Pending
        })
        .await;
    }
}

fn end_of(code: Option<&str>) -> Result<Item, Status> {
    match code {
        None => Ok(item(7, 1)),
        Some(text) => Err(Status::aborted(text)),
    }
}

impl Streams for Early {
    fn count(&self, _: &Context<'_>, _: &Plan, _: ItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn count_quickly(&self, _: &Context<'_>, _: &Plan, _: ItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn sum(&self, context: &Context<'_>, items: ItemReceiver<Item>) -> Result<Item, Status> {
        self.end_later(context, items, end_of(context.metadata().get("end")))
    }

    fn drain(&self, _: &Context<'_>, _: ItemReceiver<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn exchange(
        &self,
        context: &Context<'_>,
        items: ItemReceiver<Item>,
        _: ItemSender<Item>,
    ) -> Result<(), Status> {
        self.end_later(context, items, end_of(context.metadata().get("end")).map(drop))
    }

    fn say(&self, _: &Context<'_>, request: &Item) -> Result<Item, Status> {
        self.set(true);
        Ok(request.clone())
    }
}

impl StreamsAsync for Early {
    async fn count(&self, _: CallContext, _: Plan, _: AsyncItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    async fn count_quickly(
        &self,
        _: CallContext,
        _: Plan,
        _: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn sum(&self, context: CallContext, _: AsyncItemReceiver<Item>) -> Result<Item, Status> {
        self.opened().await;
        end_of(context.metadata().get("end"))
    }

    async fn drain(&self, _: CallContext, _: AsyncItemReceiver<Item>) -> Result<(), Status> {
        Ok(())
    }

    async fn exchange(
        &self,
        context: CallContext,
        _: AsyncItemReceiver<Item>,
        _: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        self.opened().await;
        end_of(context.metadata().get("end")).map(drop)
    }

    async fn say(&self, _: CallContext, request: Item) -> Result<Item, Status> {
        self.set(true);
        Ok(request)
    }
}

fn register(server: &Server, kind: Kind, service: Early) {
    match kind {
        Kind::Loop | Kind::Thread => server.register(StreamsDispatcher::new(service)),
        Kind::Pool => {
            let pool = BlockingPool::builder().threads(8).build();
            server.register(Blocking::new(StreamsDispatcher::new(service), &pool))
        }
        Kind::Async => server.register(StreamsAsyncDispatcher::new(service)),
    }
    .unwrap();
}

/// The requests of a call, with the replies if they are a stream.
enum Open {
    Sum(Requests<Item>),
    Exchange(Requests<()>, Replies),
}

impl Open {
    fn all(streams: &Caller) -> [Self; 2] {
        let (requests, replies) = streams.exchange().unwrap();
        [Self::Exchange(requests, replies), Self::Sum(streams.sum().unwrap())]
    }

    fn send(&mut self, item: &Item) -> Result<(), Status> {
        match self {
            Self::Sum(requests) => requests.send(item),
            Self::Exchange(requests, _) => requests.send(item),
        }
    }

    fn finish(self) -> Result<(), Status> {
        match self {
            Self::Sum(requests) => {
                assert_eq!(requests.finish()?, item(7, 1));
                Ok(())
            }
            Self::Exchange(requests, mut replies) => {
                requests.finish().unwrap();
                let end = replies.recv();
                assert_eq!(replies.recv().unwrap(), None, "the end comes once");
                end.map(|item| assert_eq!(item, None))
            }
        }
    }
}

const ENDS: [Option<&str>; 2] = [None, Some("enough")];

fn options(end: Option<&str>) -> CallOptions {
    let options = CallOptions::new().deadline(PATIENCE);
    end.map_or(options.clone(), |text| options.metadata("end", text).unwrap())
}

/// Sees that no item is taken any more, and how the call has ended.
fn check_ended(mut call: Open, end: Option<&str>, what: &str) {
    for _ in 0..2 {
        let status = call.send(&item(1, 1)).unwrap_err();
        match end {
            None => assert_eq!(status.code(), Code::FailedPrecondition, "{what}: {status}"),
            Some(text) => assert_eq!(status, Status::aborted(text), "{what}"),
        }
    }
    assert_eq!(call.finish().err(), end.map(Status::aborted), "{what}");
}

/// Runs a case with each kind of service, in each form, with both ends. There are places for few
/// calls, so that one which stays open is noticed.
fn everywhere(window: u32, case: impl Fn(&str, &(dyn Fn() + Sync), &Caller, Option<&str>, bool)) {
    let limits = Limits { calls_max: 2, stream_window_bytes: window, ..Limits::default() };
    let event_loop = EventLoop::new().unwrap();
    for kind in Kind::ALL {
        let (service, address) = (Early::default(), unique_address());
        let (of_server, at) = (service.clone(), address.clone());
        let (_thread, ()) = LoopThread::serve(limits, move |_, server| {
            register(server, kind, of_server);
            server.listen(&everything(&at)).unwrap();
        });
        let open_gate = || {
            let other = StreamsCaller::new(&Client::new(), &address).unwrap();
            service.wait_for_calls();
            other.say(&item(0, 0)).unwrap();
        };
        for via in ["?via=shm", "?via=unix-stream"] {
            for form in Form::ALL {
                for end in ENDS {
                    let streams = caller(form, &event_loop, &format!("{address}{via}"));
                    let what = format!("{kind:?}, {form:?}, {end:?}, {via}");
                    // In the thread of the loop, and received by the thread that sends.
                    let is_there_at_once = kind != Kind::Async && form != Form::Async;
                    for _ in 0..3 {
                        service.set(false);
                        let streams = streams.with(options(end));
                        case(&what, &open_gate, &streams, end, is_there_at_once);
                    }
                }
            }
        }
    }
}

#[timed]
fn a_call_that_has_ended_takes_no_items() {
    everywhere(1 << 20, |what, open_gate, streams, end, is_there_at_once| {
        let mut calls = Open::all(streams);
        for call in &mut calls {
            call.send(&item(1, 10)).unwrap();
        }
        open_gate();
        for mut call in calls {
            // The window is far from full.
            let mut sent = 0;
            while call.send(&item(1, 10)).is_ok() {
                sent += 1;
            }
            // Where a look is a system call, not every item has one.
            let most = if what.ends_with("shm") { 0 } else { 16 };
            assert!(!is_there_at_once || sent <= most, "{what}: {sent} items after the end");
            check_ended(call, end, what);
        }
    });
}

#[timed]
fn a_sender_that_waits_for_credit_learns_of_the_end() {
    everywhere(1000, |what, open_gate, streams, end, _| {
        for mut call in Open::all(streams) {
            thread::scope(|scope| {
                scope.spawn(|| {
                    // It waits by then.
                    clock::pause(Duration::from_millis(5));
                    open_gate();
                });
                while call.send(&item(1, 500)).is_ok() {}
            });
            check_ended(call, end, what);
        }
    });
}

/// Whichever of both takes it from the connection, the other finds it as well.
#[timed]
fn both_handles_of_a_call_learn_its_end_at_the_same_time() {
    let (service, address) = (Early::default(), unique_address());
    service.set(true);
    let at = address.clone();
    let (_thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        register(server, Kind::Async, service);
        server.listen(&at).unwrap();
    });
    let streams = StreamsAsyncCaller::new(&Client::new(), &address).unwrap();
    let streams = streams.with(options(Some("enough")));
    for _ in 0..2000 {
        let (mut requests, mut replies) = block_on(streams.exchange()).unwrap();
        let (of_requests, of_replies) = thread::scope(|scope| {
            let sender = scope.spawn(move || {
                block_on(async {
                    loop {
                        if let Err(status) = requests.send(&item(1, 1)).await {
                            break status;
                        }
                    }
                })
            });
            let end = block_on(replies.next()).unwrap().unwrap_err();
            (sender.join().unwrap(), end)
        });
        let expected = Status::aborted("enough");
        assert_eq!((of_requests, of_replies), (expected.clone(), expected));
    }
}
