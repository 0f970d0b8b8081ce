//! Interceptors of a client whose calls are futures.

use std::pin::pin;
use std::task::{Context, Waker};

use super::{Adds, Log, Notes, Refuses, noting};
use crate::services::Futures;
use crate::stage::prelude::*;

/// A server without interceptors, and a client with two.
fn start(log: &Log) -> (Served, EchoAsyncCaller) {
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        server.register_as("n", noting(&to_serve)).unwrap();
        let waits = Futures::new(|context, _| async move {
            context.cancelled().await;
            std::future::pending().await
        });
        server.register_as("waits", waits).unwrap();
    });
    let echo = EchoAsyncCaller::new(&super::client(log), &served.via("#n")).unwrap();
    (served, echo)
}

#[timed]
fn futures_are_seen_from_their_first_poll_to_their_end() {
    let log = Log::default();
    let (_served, echo) = start(&log);
    let request = words(4);
    drop(echo.say(&request));
    log.expect(&[]);
    block_on(async {
        assert_eq!(echo.say(&request).await.unwrap().number, 4);
        let ends = ["c2 ended: Say OK", "c1 ended: Say OK"];
        log.expect(&[&["c1: Say", "c2: Say", "runs Say"], &ends[..]].concat());
        let failed = echo.fail(&Failure::default()).await;
        assert_eq!(failed.unwrap_err().code(), Code::NotFound);
        let ends = ["c2 ended: Fail NOT_FOUND", "c1 ended: Fail NOT_FOUND"];
        log.expect(&[&["c1: Fail", "c2: Fail"], &ends[..]].concat());
        echo.panic(&()).await.unwrap_err();
        let ends = ["c2 ended: Panic UNKNOWN", "c1 ended: Panic UNKNOWN"];
        log.expect(&[&["c1: Panic", "c2: Panic"], &ends[..]].concat());
    });
}

#[timed]
fn a_future_that_is_dropped_was_given_up() {
    let log = Log::default();
    let (served, _) = start(&log);
    let echo = EchoAsyncCaller::new(&super::client(&log), &served.via("#waits")).unwrap();
    // The first call connects, which takes more than a poll.
    let at_once = CallOptions::new().deadline(Duration::from_millis(1));
    expect_code(block_on(echo.with(at_once).say(&words(1))), Code::DeadlineExceeded);
    log.expect(&[
        "c1: Say",
        "c2: Say",
        "c2 ended: Say DEADLINE_EXCEEDED",
        "c1 ended: Say DEADLINE_EXCEEDED",
    ]);
    let request = words(1);
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut call = pin!(echo.say(&request));
        assert!(call.as_mut().poll(&mut context).is_pending());
        log.expect(&["c1: Say", "c2: Say"]);
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    log.expect(&["c2 ended: Say CANCELLED", "c1 ended: Say CANCELLED"]);
}

#[timed]
fn oneways_that_are_awaited_are_seen() {
    let log = Log::default();
    let (_served, echo) = start(&log);
    block_on(echo.note(&words(1))).unwrap();
    let mut found = ["c1: Note", "c2: Note", "c2 ended: Note OK", "c1 ended: Note OK"].to_vec();
    found.push("runs Note");
    log.expect_unordered(&found);
}

#[timed]
fn a_future_that_is_refused_sends_nothing() {
    let log = Log::default();
    let (served, _) = start(&log);
    let client = Client::builder()
        .interceptor(Notes("c1", log.clone()))
        .interceptor(Refuses(log.clone()))
        .build();
    let echo = EchoAsyncCaller::new(&client, &served.via("#n")).unwrap();
    expect_code(block_on(echo.say(&words(1))), Code::Unauthenticated);
    log.expect(&["c1: Say", "refused", "c1 ended: Say UNAUTHENTICATED"]);
    expect_code(block_on(echo.note(&words(1))), Code::Unauthenticated);
    log.expect(&["c1: Note", "refused", "c1 ended: Note UNAUTHENTICATED"]);
}

#[timed]
fn what_an_interceptor_adds_travels_with_a_future() {
    let log = Log::default();
    let served = Served::with(Limits::default(), "", |_, server, _| {
        let looks = Threaded::new(|context, request| {
            assert_eq!(context.metadata().get("own"), Some("yes"));
            assert_eq!(context.metadata().get("added"), Some("by it"));
            Ok(request.clone())
        });
        server.register_as("n", looks).unwrap();
    });
    let client = Client::builder().interceptor(Adds(log.clone())).build();
    let echo = EchoAsyncCaller::new(&client, &served.via("#n")).unwrap();
    let options = CallOptions::new().metadata("own", "yes").unwrap();
    assert_eq!(block_on(echo.with(options).say(&words(300))).unwrap().number, 300);
    log.expect(&[r#"Client ["own"] false true"#, "Client 3 3"]);
}
