//! Interceptors of both ends of calls that stream: they see the start and the end of the call.
//!
//! The interface is written by hand, so that the test needs no generated callers.

use nearcall::client::{AsyncObjectRef, ObjectRef};
use nearcall::service::{Dispatcher, Idempotency, Incoming, Interface, Method, MethodKind};
use nearcall::stream::{
    AsyncReplyStream, AsyncRequestStream, ItemReceiver, ItemSender, ReplyStream, RequestStream,
};

use super::{Log, Notes, Refuses};
use crate::stage::prelude::*;

pub(super) static COUNT: Method = method(1, "Count", MethodKind::ReplyStream);
static SUM: Method = method(2, "Sum", MethodKind::RequestStream);
static ECHO: Method = method(3, "Echo", MethodKind::BothStreams);
pub(super) static NUMBERS: Interface =
    Interface::new("tests.v1.Numbers", &[&COUNT, &SUM, &ECHO], &[]);

const fn method(id: u32, name: &'static str, kind: MethodKind) -> Method {
    Method { id, name, kind, deadline: None, idempotency: Idempotency::Unknown }
}

struct Numbers;

/// Sends the numbers below that of the request; fails if there are data.
pub(super) fn count(
    _: &Context<'_>,
    request: &Words,
    items: ItemSender<Words>,
) -> Result<(), Status> {
    for number in 0..request.number {
        items.send(&words(number))?;
    }
    match request.data.is_empty() {
        true => Ok(()),
        false => Err(Status::aborted("as asked")),
    }
}

fn sum(context: &Context<'_>, items: ItemReceiver<Words>) -> Result<Words, Status> {
    context.add_reply_metadata("served-by", "a method").unwrap();
    let mut sum = 0;
    while let Some(item) = items.recv()? {
        sum += item.number;
    }
    Ok(words(sum))
}

fn echo(
    _: &Context<'_>,
    items: ItemReceiver<Words>,
    replies: ItemSender<Words>,
) -> Result<(), Status> {
    while let Some(item) = items.recv()? {
        replies.send(&item)?;
    }
    Ok(())
}

impl Dispatcher for Numbers {
    fn interface(&self) -> &'static Interface {
        &NUMBERS
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        match incoming.method() {
            1 => incoming.reply_stream(count),
            2 => incoming.receive_stream(sum),
            _ => incoming.both_streams(echo),
        }
    }
}

/// A server and a client, each with an interceptor.
fn start(log: &Log) -> (Served, Client, ObjectRef) {
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", |_, server, _| {
        server.register(Numbers).unwrap();
        server.add_interceptor(Notes("s", to_serve));
    });
    let client = Client::builder().interceptor(Notes("c", log.clone())).build();
    let object = object(&client, &NUMBERS, &served.address);
    (served, client, object)
}

fn options() -> CallOptions {
    CallOptions::new()
}

#[timed]
fn streams_are_seen_from_their_start_to_their_end() {
    let log = Log::default();
    let (_served, _client, numbers) = start(&log);
    let mut items: ReplyStream<Words> =
        numbers.with(options()).open_reply_stream(&COUNT, &words(3)).unwrap();
    assert_eq!(items.by_ref().filter(|item| item.is_ok()).count(), 3);
    assert_eq!(items.recv().unwrap(), None, "the end is shown once");
    drop(items);
    log.expect_unordered(&["c: Count", "s: Count", "s ended: Count OK", "c ended: Count OK"]);
    let mut items: RequestStream<Words, Words> =
        numbers.with(options()).open_request_stream(&SUM).unwrap();
    items.send(&words(3)).unwrap();
    items.send(&words(4)).unwrap();
    assert_eq!(items.finish().unwrap().number, 7);
    log.expect_unordered(&["c: Sum", "s: Sum", "s ended: Sum OK", "c ended: Sum OK"]);
    let (mut items, mut replies): (RequestStream<Words, ()>, ReplyStream<Words>) =
        numbers.with(options()).open_both_streams(&ECHO).unwrap();
    items.send(&words(5)).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(words(5)));
    items.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
    log.expect_unordered(&["c: Echo", "s: Echo", "s ended: Echo OK", "c ended: Echo OK"]);
}

#[timed]
fn a_stream_that_fails_or_is_dropped_ends_once() {
    let log = Log::default();
    let (_served, _client, numbers) = start(&log);
    let request = Words { data: vec![1].into(), ..words(1) };
    let mut items: ReplyStream<Words> =
        numbers.with(options()).open_reply_stream(&COUNT, &request).unwrap();
    assert_eq!(items.recv().unwrap(), Some(words(0)));
    assert_eq!(items.recv().unwrap_err().code(), Code::Aborted);
    drop(items);
    let ends = ["s ended: Count ABORTED", "c ended: Count ABORTED"];
    log.expect_unordered(&[&["c: Count", "s: Count"], &ends[..]].concat());
    let (mut items, mut replies): (RequestStream<Words, ()>, ReplyStream<Words>) =
        numbers.with(options()).open_both_streams(&ECHO).unwrap();
    items.send(&words(5)).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(words(5)));
    drop((items, replies));
    let ends = ["s ended: Echo CANCELLED", "c ended: Echo CANCELLED"];
    log.expect_unordered(&[&["c: Echo", "s: Echo"], &ends[..]].concat());
}

#[timed]
fn a_stream_that_is_refused_is_not_opened() {
    let log = Log::default();
    let (served, ..) = start(&log);
    let client = Client::builder().interceptor(Refuses(log.clone())).build();
    let numbers = object(&client, &NUMBERS, &served.address);
    let refused = numbers.with(options()).open_reply_stream::<_, Words>(&COUNT, &words(1));
    assert_eq!(refused.map(drop).unwrap_err().code(), Code::Unauthenticated);
    let refused = numbers.with(options()).open_request_stream::<Words, Words>(&SUM);
    assert_eq!(refused.map(drop).unwrap_err().code(), Code::Unauthenticated);
    log.expect(&["refused", "refused"]);
}

#[timed]
fn streams_of_async_callers_are_seen_as_well() {
    let log = Log::default();
    let (served, client, _) = start(&log);
    let numbers = AsyncObjectRef::new(&client, &NUMBERS, &served.address).unwrap();
    let request = Words { data: vec![1].into(), ..words(1) };
    block_on(async {
        let opened = numbers.open_reply_stream(&COUNT, &words(2)).await;
        let mut items: AsyncReplyStream<Words> = opened.unwrap();
        while let Some(item) = items.next().await {
            item.unwrap();
        }
        drop(items);
        let ends = ["s ended: Count OK", "c ended: Count OK"];
        log.expect_unordered(&[&["c: Count", "s: Count"], &ends[..]].concat());
        let opened = numbers.open_reply_stream(&COUNT, &request).await;
        let mut items: AsyncReplyStream<Words> = opened.unwrap();
        items.next().await.unwrap().unwrap();
        assert_eq!(items.next().await.unwrap().unwrap_err().code(), Code::Aborted);
        drop(items);
        let ends = ["s ended: Count ABORTED", "c ended: Count ABORTED"];
        log.expect_unordered(&[&["c: Count", "s: Count"], &ends[..]].concat());
        let opened = numbers.open_request_stream(&SUM).await;
        let mut items: AsyncRequestStream<Words, Words> = opened.unwrap();
        items.send(&words(3)).await.unwrap();
        assert_eq!(items.finish().await.unwrap().number, 3);
        log.expect_unordered(&["c: Sum", "s: Sum", "s ended: Sum OK", "c ended: Sum OK"]);
        let opened = numbers.open_request_stream(&SUM).await;
        let items: AsyncRequestStream<Words, Words> = opened.unwrap();
        drop(items);
        let ends = ["s ended: Sum CANCELLED", "c ended: Sum CANCELLED"];
        log.expect_unordered(&[&["c: Sum", "s: Sum"], &ends[..]].concat());
    });
}
