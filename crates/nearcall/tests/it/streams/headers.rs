//! Headers: what services send before the first item and the answer.

use nearcall::CallContext;
use nearcall::client::ReplyMetadata;
use nearcall::service::{Blocking, BlockingPool};
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};

use super::forms::{Caller, caller};
use super::served::{
    Item, Kind, Plan, Streams, StreamsAsync, StreamsAsyncDispatcher, StreamsCaller,
    StreamsDispatcher, item, own_addresses,
};
use crate::hunts::Form;
use crate::stage::prelude::*;
use crate::support::LoopThread;

/// Adds headers to each call, as the caller asks by its metadata:
///
/// - `first`: they go before the first item, which comes at once;
/// - `now`: they are sent before the service waits for an item of the caller;
/// - `none`: there are none.
#[derive(Clone, Copy)]
struct WithHeaders(Kind);

const RAW: &[u8] = &[0, 1, 255];

/// Does the same to the context of either kind of service.
macro_rules! add_headers {
    ($context:expr) => {{
        let context = &$context;
        context.add_reply_metadata("served-by", "trailers").unwrap();
        match context.metadata().get("mode") {
            Some("none") => {}
            mode => {
                context.add_header("served-by", "headers").unwrap();
                context.add_header_bin("raw-bin", RAW).unwrap();
                assert!(context.add_header("Wrong", "").is_err());
                if mode == Some("now") {
                    context.send_headers();
                    let late = context.add_header("late", "").unwrap_err();
                    assert!(late.to_string().contains("`late`"), "{late}");
                    context.send_headers();
                }
            }
        }
    }};
}

/// Sees that headers are refused once an item was sent.
macro_rules! check_late {
    ($context:expr) => {
        assert!($context.add_header("late", "").is_err())
    };
}

fn end_of(plan: &Plan) -> Result<(), Status> {
    match plan.code {
        0 => Ok(()),
        _ => Err(Status::aborted("as planned").with_metadata("why", "planned").unwrap()),
    }
}

impl Streams for WithHeaders {
    fn count(
        &self,
        context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        add_headers!(context);
        let plan = *plan;
        let send = move || {
            for number in 0..plan.items {
                items.send(&item(number, plan.bytes))?;
            }
            end_of(&plan)
        };
        if self.0 == Kind::Thread {
            return context.answer_later(|mut responder| {
                thread::spawn(move || {
                    let answer = send();
                    if plan.items > 0 {
                        check_late!(responder);
                    }
                    responder.finish(answer);
                });
            });
        }
        let answer = send();
        if plan.items > 0 {
            check_late!(context);
        }
        answer
    }

    fn count_quickly(&self, _: &Context<'_>, _: &Plan, _: ItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn sum(&self, context: &Context<'_>, _: ItemReceiver<Item>) -> Result<Item, Status> {
        add_headers!(context);
        Ok(item(7, 1))
    }

    fn drain(&self, _: &Context<'_>, _: ItemReceiver<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn exchange(
        &self,
        context: &Context<'_>,
        items: ItemReceiver<Item>,
        replies: ItemSender<Item>,
    ) -> Result<(), Status> {
        add_headers!(context);
        while let Some(item) = items.recv()? {
            replies.send(&item)?;
        }
        Ok(())
    }

    fn say(&self, context: &Context<'_>, request: &Item) -> Result<Item, Status> {
        add_headers!(context);
        if request.number == 0 { Err(Status::aborted("zero")) } else { Ok(request.clone()) }
    }
}

impl StreamsAsync for WithHeaders {
    async fn count(
        &self,
        context: CallContext,
        plan: Plan,
        mut items: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        add_headers!(context);
        for number in 0..plan.items {
            items.send(&item(number, plan.bytes)).await?;
            check_late!(context);
        }
        end_of(&plan)
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
        add_headers!(context);
        Ok(item(7, 1))
    }

    async fn drain(&self, _: CallContext, _: AsyncItemReceiver<Item>) -> Result<(), Status> {
        Ok(())
    }

    async fn exchange(
        &self,
        context: CallContext,
        mut items: AsyncItemReceiver<Item>,
        mut replies: AsyncItemSender<Item>,
    ) -> Result<(), Status> {
        add_headers!(context);
        while let Some(item) = items.next().await {
            replies.send(&item?).await?;
        }
        Ok(())
    }

    async fn say(&self, context: CallContext, request: Item) -> Result<Item, Status> {
        add_headers!(context);
        if request.number == 0 { Err(Status::aborted("zero")) } else { Ok(request) }
    }
}

fn register(server: &Server, kind: Kind) {
    let service = WithHeaders(kind);
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

type Entries = Vec<(String, Vec<u8>)>;

fn entries<'a>(all: impl Iterator<Item = (&'a str, &'a [u8])>) -> Entries {
    all.map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
}

fn added() -> Entries {
    vec![("served-by".into(), b"headers".to_vec()), ("raw-bin".into(), RAW.to_vec())]
}

fn trailers() -> Entries {
    vec![("served-by".into(), b"trailers".to_vec())]
}

/// Sees the headers beside the trailers of a call that has ended. Those of an old server are in
/// front of the trailers.
#[track_caller]
fn check_end(sent: &ReplyMetadata, mode: &str, is_old: bool, what: &str) {
    let headers = if mode == "none" { Vec::new() } else { added() };
    let (first, second) = if is_old { (Vec::new(), headers) } else { (headers, Vec::new()) };
    assert_eq!(entries(sent.headers().iter()), first, "{what}");
    let end = entries(sent.iter());
    assert!(end.starts_with(&[second, trailers()].concat()), "{what}: {end:?}");
}

fn with(streams: &Caller, mode: &str) -> Caller {
    let options = CallOptions::new().deadline(PATIENCE).metadata("mode", mode).unwrap();
    streams.with(options)
}

fn check(streams: &Caller, is_old: bool, what: &str) {
    for mode in ["first", "now", "none"] {
        let what = &format!("{what}, {mode}");
        let streams = &with(streams, mode);
        let expected = if mode == "none" || is_old { Vec::new() } else { added() };
        for (items, bytes, code) in
            [(0, 0, 0), (3, 10, 0), (3, 100_000, 0), (0, 0, 10), (3, 10, 10)]
        {
            let mut replies = streams.count(&Plan { items, bytes, code }).unwrap();
            assert_eq!(entries(replies.headers().iter()), expected, "{what}");
            assert_eq!(entries(replies.headers().headers().iter()), expected, "{what}");
            assert!(replies.metadata().is_empty(), "{what}: the end was not read");
            let mut received = 0;
            let end = loop {
                match replies.recv() {
                    Ok(Some(_)) => received += 1,
                    Ok(None) => break None,
                    Err(status) => break Some(status),
                }
                assert_eq!(entries(replies.headers().iter()), expected, "{what}");
            };
            assert_eq!((received, end.is_some()), (items, code != 0), "{what}");
            assert_eq!(entries(replies.headers().iter()), expected, "{what}");
            check_end(&replies.metadata(), mode, is_old, what);
            assert!(end.is_none_or(|status| status.metadata().get("why") == Some("planned")));
        }
        // Whoever does not ask reads its items all the same.
        let plan = Plan { items: 3, bytes: 10, code: 0 };
        assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 3, "{what}");
        let (sum, sent) = streams.sum().unwrap().finish_with_metadata();
        assert_eq!(sum.unwrap().number, 7, "{what}");
        check_end(&sent, mode, is_old, what);
        for number in [1, 0] {
            let (said, sent) = streams.say_with_metadata(&item(number, 1));
            assert_eq!(said.is_ok(), number == 1, "{what}");
            check_end(&sent, mode, is_old, what);
            assert_eq!(streams.say(&item(number, 1)).is_ok(), number == 1, "{what}");
        }
    }
    let (mut requests, mut replies) = with(streams, "now").exchange().unwrap();
    if !is_old {
        // The service waits for an item, and its headers are here.
        assert_eq!(entries(replies.headers().iter()), added(), "{what}");
    }
    requests.send(&item(1, 1)).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(item(1, 1)), "{what}");
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None, "{what}");
    check_end(&replies.metadata(), "now", is_old, what);
}

fn serve(kind: Kind, limits: Limits) -> (LoopThread, String) {
    let address = unique_address();
    let at = address.clone();
    let (thread, ()) = LoopThread::serve(limits, move |_, server| {
        register(server, kind);
        server.listen(&everything(&at)).unwrap();
    });
    (thread, address)
}

#[timed]
fn headers_come_before_the_items() {
    let event_loop = EventLoop::new().unwrap();
    for kind in Kind::ALL {
        let (_thread, address) = serve(kind, Limits::default());
        for via in ["", "?via=pipe"] {
            for form in Form::ALL {
                let streams = caller(form, &event_loop, &format!("{address}{via}"));
                check(&streams, false, &format!("{kind:?}, {form:?}, {via}"));
            }
        }
    }
}

#[timed]
fn headers_travel_within_a_loop() {
    // The others serve `Exchange` in the loop, which their caller holds up.
    for kind in [Kind::Pool, Kind::Async] {
        for address in own_addresses() {
            let event_loop = EventLoop::new().unwrap();
            let server = Server::new(&event_loop);
            register(&server, kind);
            let at = server.listen(&everything(&address)).unwrap().to_string();
            // Over its socket as well, where it has one.
            let mut clients = vec![Client::in_loop(&event_loop)];
            if !at.starts_with("inproc") {
                clients.push(Client::in_loop(&event_loop).without_short_circuit());
            }
            for client in clients {
                let streams = StreamsCaller::new(&client, &at).unwrap();
                check(&Caller::Blocking(streams), false, &format!("{kind:?} at {at}"));
            }
        }
    }
}

/// An end that does not switch greets with version 1 of the protocol.
#[timed]
fn a_peer_that_takes_no_headers_gets_them_with_the_end() {
    let event_loop = EventLoop::new().unwrap();
    let limits = Limits { switches_per_minute_max: 0, ..Limits::default() };
    for kind in Kind::ALL {
        let (_thread, address) = serve(kind, limits);
        for form in Form::ALL {
            let streams = caller(form, &event_loop, &address);
            check(&streams, true, &format!("{kind:?}, {form:?}"));
        }
    }
}
