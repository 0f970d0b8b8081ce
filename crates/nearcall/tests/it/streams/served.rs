//! The service of the streams, in each way in which a service can stream.

use futures_util::{StreamExt, stream};
use nearcall::CallContext;
use nearcall::event_loop::Poster;
use nearcall::service::{Blocking, BlockingPool};
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};

use crate::stage::prelude::*;
use crate::support::LoopThread;

pub(crate) use nearcall_testkit::streams::{
    Item, Plan, Streams, StreamsAsync, StreamsAsyncCaller, StreamsAsyncDispatcher, StreamsCaller,
    StreamsDispatcher,
};

/// What is sent as number `number`.
pub(crate) fn item(number: u64, bytes: u32) -> Item {
    let first = number.to_le_bytes()[0];
    Item { number, data: vec![first; bytes as usize].into() }
}

/// Where the methods run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Loop,
    /// In a thread of their own, by `answer_later`.
    Thread,
    Pool,
    Async,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Loop, Self::Thread, Self::Pool, Self::Async];
    /// Those that do not hold the loop up while they wait.
    pub(crate) const BESIDE_THE_LOOP: [Self; 3] = [Self::Thread, Self::Pool, Self::Async];
}

/// Addresses of a server that is called from its own thread.
pub(crate) fn own_addresses() -> [String; 2] {
    [unique_address(), "inproc:streams".to_owned()]
}

/// What the service has done, over all calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) sent: Arc<AtomicU64>,
    /// The code of the last status that a send or a receive of the service failed with.
    pub(crate) failed: Arc<AtomicU64>,
    /// Sends and receives that have failed, and futures that were dropped.
    pub(crate) failures: Arc<AtomicU64>,
    /// Held by a test while `Sum` is not to read.
    pub(crate) reading: Arc<Mutex<()>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) counts: Counts,
    kind: Kind,
}

impl Service {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { counts: Counts::default(), kind }
    }

    fn note<T>(&self, result: Result<T, Status>) -> Result<T, Status> {
        if let Err(status) = &result {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            self.counts.failed.store(status.code().number().into(), Ordering::Release);
        }
        result
    }

    fn send_all(&self, plan: &Plan, items: &ItemSender<Item>) -> Result<(), Status> {
        for number in 0..plan.items {
            self.note(items.send(&item(number, plan.bytes)))?;
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
        }
        end_of(plan)
    }

    fn add_all(&self, items: &ItemReceiver<Item>) -> Result<Item, Status> {
        let mut sum = Item::default();
        loop {
            drop(self.counts.reading.lock().unwrap());
            match self.note(items.recv())? {
                Some(item) => sum.number += number_of(&item),
                None => return Ok(sum),
            }
        }
    }

    fn echo_all(
        &self,
        items: &ItemReceiver<Item>,
        replies: &ItemSender<Item>,
    ) -> Result<(), Status> {
        while let Some(item) = self.note(items.recv())? {
            number_of(&item);
            self.note(replies.send(&item))?;
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The code of a plan, and the number of an item, that have the service panic.
pub(crate) const PANIC: u32 = u32::MAX;

fn number_of(item: &Item) -> u64 {
    assert_ne!(item.number, PANIC.into(), "as planned");
    item.number
}

fn end_of(plan: &Plan) -> Result<(), Status> {
    assert_ne!(plan.code, PANIC, "as planned");
    match u16::try_from(plan.code).ok().and_then(Code::from_number) {
        None | Some(Code::Ok) => Ok(()),
        Some(code) => Err(Status::new(code, "as planned")),
    }
}

impl Streams for Service {
    fn count(
        &self,
        context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        context.add_reply_metadata("served-by", "count").unwrap();
        if self.kind != Kind::Thread {
            return self.send_all(plan, &items);
        }
        let (service, plan) = (self.clone(), *plan);
        context.answer_later(|responder| {
            thread::spawn(move || responder.finish(service.send_all(&plan, &items)));
        })
    }

    fn count_quickly(
        &self,
        context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        Streams::count(self, context, plan, items)
    }

    fn sum(&self, context: &Context<'_>, items: ItemReceiver<Item>) -> Result<Item, Status> {
        context.add_reply_metadata("served-by", "sum").unwrap();
        if self.kind != Kind::Thread {
            return self.add_all(&items);
        }
        let service = self.clone();
        context.answer_later(|responder| {
            thread::spawn(move || responder.finish(service.add_all(&items)));
        })
    }

    fn drain(&self, context: &Context<'_>, items: ItemReceiver<Item>) -> Result<(), Status> {
        Streams::sum(self, context, items).map(drop)
    }

    fn exchange(
        &self,
        context: &Context<'_>,
        items: ItemReceiver<Item>,
        replies: ItemSender<Item>,
    ) -> Result<(), Status> {
        context.add_reply_metadata("served-by", "exchange").unwrap();
        if self.kind != Kind::Thread {
            return self.echo_all(&items, &replies);
        }
        let service = self.clone();
        context.answer_later(|responder| {
            thread::spawn(move || responder.finish(service.echo_all(&items, &replies)));
        })
    }

    fn say(&self, _context: &Context<'_>, request: &Item) -> Result<Item, Status> {
        Ok(request.clone())
    }
}

impl StreamsAsync for Service {
    async fn count(
        &self,
        context: CallContext,
        plan: Plan,
        mut items: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        context.add_reply_metadata("served-by", "count").unwrap();
        let unfinished = Unfinished(&self.counts);
        for number in 0..plan.items {
            self.note(items.send(&item(number, plan.bytes)).await)?;
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
        }
        std::mem::forget(unfinished);
        end_of(&plan)
    }

    async fn count_quickly(
        &self,
        context: CallContext,
        plan: Plan,
        mut items: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        context.add_reply_metadata("served-by", "count").unwrap();
        // As another crate gives streams: the end of the call is that of the stream.
        let end = end_of(&plan).err().map(Err);
        let counted = stream::iter((0..plan.items).map(|number| Ok(item(number, plan.bytes))));
        items.send_all(counted.chain(stream::iter(end))).await
    }

    async fn sum(
        &self,
        context: CallContext,
        mut items: AsyncItemReceiver<Item>,
    ) -> Result<Item, Status> {
        context.add_reply_metadata("served-by", "sum").unwrap();
        let mut sum = Item::default();
        while let Some(item) = items.next().await {
            sum.number += number_of(&self.note(item)?);
        }
        Ok(sum)
    }

    async fn drain(
        &self,
        context: CallContext,
        items: AsyncItemReceiver<Item>,
    ) -> Result<(), Status> {
        StreamsAsync::sum(self, context, items).await.map(drop)
    }

    async fn exchange(
        &self,
        context: CallContext,
        mut items: AsyncItemReceiver<Item>,
        mut replies: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        context.add_reply_metadata("served-by", "exchange").unwrap();
        let unfinished = Unfinished(&self.counts);
        while let Some(item) = items.next().await {
            let item = item?;
            number_of(&item);
            self.note(replies.send(&item).await)?;
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
        }
        std::mem::forget(unfinished);
        Ok(())
    }

    async fn say(&self, _context: CallContext, request: Item) -> Result<Item, Status> {
        Ok(request)
    }
}

/// Notes that the future of a call was dropped, as it is when the call ends before it.
struct Unfinished<'a>(&'a Counts);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let code = u64::from(Code::Cancelled.number());
        let failed = &self.0.failed;
        if failed.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A server of the streams, in a thread of its own or in this one.
pub(crate) struct Served {
    pub(crate) address: String,
    pub(crate) counts: Counts,
    pub(crate) poster: Poster,
    _thread: Option<LoopThread>,
    /// In this thread.
    own: Option<(EventLoop, Server)>,
}

impl Served {
    pub(crate) fn start(kind: Kind) -> Self {
        Self::with(kind, Limits::default())
    }

    pub(crate) fn with(kind: Kind, limits: Limits) -> Self {
        let address = unique_address();
        let at = address.clone();
        let service = Service::new(kind);
        let counts = service.counts.clone();
        let (thread, poster) = LoopThread::serve(limits, move |event_loop, server| {
            register(server, service);
            server.listen(&everything(&at)).unwrap();
            event_loop.poster()
        });
        Self { address, counts, poster, _thread: Some(thread), own: None }
    }

    /// Serves in this thread, whose loop runs only while a call or a test waits.
    pub(crate) fn own(kind: Kind, address: &str) -> Self {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        let service = Service::new(kind);
        let counts = service.counts.clone();
        register(&server, service);
        let address = server.listen(&everything(address)).unwrap().to_string();
        let poster = event_loop.poster();
        Self { address, counts, poster, _thread: None, own: Some((event_loop, server)) }
    }

    /// Returns a client in the loop of a server in this thread.
    pub(crate) fn own_client(&self) -> Client {
        let (event_loop, _) = self.own.as_ref().expect("a server in this thread");
        Client::in_loop(event_loop)
    }

    /// Lets the server go on for so long.
    fn pause(&self, span: Duration) {
        match &self.own {
            None => clock::pause(span),
            Some((event_loop, _)) => {
                assert!(event_loop.next(Deadline::at(clock::now() + span)).unwrap().is_none());
            }
        }
    }

    /// Waits until a send or a receive of the service has failed, and returns the code.
    pub(crate) fn failure(&self) -> Code {
        loop {
            let code = self.counts.failed.load(Ordering::Acquire);
            if code != 0 {
                return Code::from_number(u16::try_from(code).unwrap()).unwrap();
            }
            self.pause(Duration::from_millis(1));
        }
    }

    /// Waits until the service sends no more items, and returns how many it has sent.
    pub(crate) fn settled(&self) -> u64 {
        loop {
            let before = self.counts.sent.load(Ordering::Relaxed);
            self.pause(Duration::from_millis(100));
            if self.counts.sent.load(Ordering::Relaxed) == before && before > 0 {
                return before;
            }
        }
    }

    pub(crate) fn caller(&self, client: &Client, parameters: &str) -> StreamsCaller {
        StreamsCaller::new(client, &format!("{}{parameters}", self.address)).unwrap()
    }
}

pub(crate) fn register(server: &Server, service: Service) {
    match service.kind {
        Kind::Loop | Kind::Thread => server.register(StreamsDispatcher::new(service)),
        Kind::Pool => {
            let pool = BlockingPool::builder().threads(8).build();
            server.register(Blocking::new(StreamsDispatcher::new(service), &pool))
        }
        Kind::Async => server.register(StreamsAsyncDispatcher::new(service)),
    }
    .unwrap();
}
