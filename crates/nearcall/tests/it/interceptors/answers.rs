//! Interceptors of a server see the end that the caller gets, whatever the service meant to send.

use nearcall::service::{
    Blocking, BlockingPool, Dispatcher, Incoming, Interface, Responder, TaskRunner,
};
use nearcall::stream::ReplyStream;

use super::streaming::{COUNT, NUMBERS, count};
use super::{Log, Notes, in_one_loop_with};
use crate::services::{Futures, Shelf, put, take_all};
use crate::stage::prelude::*;

const WAYS: [&str; 6] = ["now", "thread", "future", "elsewhere", "pool", "pool-later"];

/// Above the limit of the server of these tests.
const REPLY_BYTES: usize = 100_000;

/// The answer to 1 is too long, that to 2 has too much metadata.
fn answer(number: u64) -> Words {
    let data = if number == 1 { vec![0; REPLY_BYTES] } else { Vec::new() };
    Words { number, data: data.into() }
}

fn add_metadata(context: &Context<'_>, request: &Words) {
    if request.number == 2 {
        context.add_reply_metadata("long", &"x".repeat(9_000)).unwrap();
    }
}

/// Serves `Say` in all ways in which an answer can come.
fn register(server: &Server, log: &Log) {
    let now = Threaded::new(|context, request| {
        add_metadata(context, request);
        Ok(answer(request.number))
    });
    let later = |context: &Context<'_>, request: &Words| {
        add_metadata(context, request);
        let number = request.number;
        context.answer_later(|responder: Responder<Words>| {
            thread::spawn(move || responder.finish(Ok(answer(number))));
        })
    };
    let future = Futures::new(|context, request: Words| async move {
        if request.number == 2 {
            context.add_reply_metadata("long", &"x".repeat(9_000)).unwrap();
        }
        Ok(answer(request.number))
    });
    let elsewhere = TaskRunner::spawn_on(|task| {
        thread::spawn(|| block_on(task));
    });
    let pool = BlockingPool::builder().threads(1).build();
    server.register_as("now", now.clone()).unwrap();
    server.register_as("thread", Threaded::new(later)).unwrap();
    server.register_as("future", future.clone()).unwrap();
    server.register_as("elsewhere", future.on(&elsewhere)).unwrap();
    server.register_as("pool", Blocking::new(now, &pool)).unwrap();
    server.register_as("pool-later", Blocking::new(Threaded::new(later), &pool)).unwrap();
    server.add_interceptor(Notes("s", log.clone()));
}

#[timed]
fn an_answer_that_cannot_be_sent_ends_with_what_is_sent_in_its_place() {
    let log = Log::default();
    let to_serve = log.clone();
    let limits = Limits { message_bytes_max: 1 << 16, ..Limits::default() };
    let served = Served::with(limits, "", move |_, server, _| register(server, &to_serve));
    let client = Client::new();
    for way in WAYS {
        let echo = EchoCaller::new(&client, &served.via(&format!("#{way}"))).unwrap();
        for number in [1, 2] {
            let status = echo.say(&words(number)).unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{way}: {status}");
            log.expect(&["s: Say", "s ended: Say RESOURCE_EXHAUSTED"]);
        }
        assert_eq!(echo.say(&words(3)).unwrap().number, 3, "{way}");
        log.expect(&["s: Say", "s ended: Say OK"]);
    }
}

/// Notes when it has handed all its items over.
struct Counts(Log);

impl Dispatcher for Counts {
    fn interface(&self) -> &'static Interface {
        &NUMBERS
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        incoming.reply_stream(|context, request, items| {
            count(context, request, items)?;
            self.0.note("counted");
            Ok(())
        });
    }
}

/// An answer that waits behind the items of its stream has not been sent.
#[timed]
fn the_answer_of_a_stream_ends_it_when_its_items_have_left() {
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        let pool = BlockingPool::builder().threads(1).build();
        server.register(Blocking::new(Counts(to_serve.clone()), &pool)).unwrap();
        server.add_interceptor(Notes("s", to_serve));
    });
    // Room for a few of the items; the others wait at the server.
    let limits = Limits { stream_window_bytes: 1_000, ..Limits::default() };
    let client = Client::with_limits(None, limits);
    let numbers = object(&client, &NUMBERS, &served.address);
    let open = || -> ReplyStream<Words> { numbers.open_reply_stream(&COUNT, &words(500)).unwrap() };
    let given_up = open();
    log.expect(&["s: Count", "counted"]);
    drop(given_up);
    log.expect(&["s ended: Count CANCELLED"]);
    let mut items = open();
    log.expect(&["s: Count", "counted"]);
    assert_eq!(items.by_ref().map(Result::unwrap).count(), 500);
    log.expect(&["s ended: Count OK"]);
}

/// Keeps the responder of its call, and panics.
fn keeping_and_panicking(
    shelf: &Shelf<Responder<Words>>,
) -> impl Fn(&Context<'_>, &Words) -> Result<Words, Status> + Send + Sync + use<> {
    let shelf = Arc::clone(shelf);
    move |context, _| {
        let _ = context.answer_later(|responder| put(&shelf, responder));
        panic!("asked for it")
    }
}

/// Checks that the responder has learned of the panic, and that its answer goes nowhere.
fn check_responder(shelf: &Shelf<Responder<Words>>, log: &Log) {
    log.expect(&["s: Say", "s ended: Say UNKNOWN"]);
    let responder = take_all(shelf).pop().unwrap();
    wait_until("the end", || responder.is_cancelled());
    responder.finish(Ok(words(1)));
    log.expect(&[]);
}

#[timed]
fn a_panic_after_asking_for_a_responder_ends_the_call_for_all() {
    let (log, shelf) = (Log::default(), Shelf::default());
    let service = Threaded::new(keeping_and_panicking(&shelf));
    let (here, to_serve) = (service.clone(), log.clone());
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        let pool = BlockingPool::builder().threads(1).build();
        server.register_as("loop", service.clone()).unwrap();
        server.register_as("pool", Blocking::new(service, &pool)).unwrap();
        server.add_interceptor(Notes("s", to_serve));
    });
    let client = Client::new();
    for way in ["#loop", "#pool", "?via=unix-stream#loop"] {
        let echo = EchoCaller::new(&client, &served.via(way)).unwrap();
        assert_eq!(echo.say(&words(1)).unwrap_err().code(), Code::Unknown, "{way}");
        check_responder(&shelf, &log);
        echo.nothing(&()).unwrap();
        log.expect(&["s: Nothing", "s ended: Nothing OK"]);
    }
    let (_event_loop, _server, client) = in_one_loop_with(&log, here);
    let echo = EchoCaller::new(&client, "inproc:here").unwrap();
    assert_eq!(echo.say(&words(1)).unwrap_err().code(), Code::Unknown);
    check_responder(&shelf, &log);
}

/// Each method answers with the length of what the first interceptor has kept.
#[timed]
fn methods_read_what_an_interceptor_kept() {
    let kept = |text: Option<String>| words(text.map_or(0, |text| text.len() as u64));
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        server.add_interceptor(Notes("four", to_serve));
        let at_once = Threaded::new(move |context, _| {
            assert_eq!(context.kept::<u32>(), None);
            Ok(kept(context.kept()))
        });
        server.register_as("at-once", at_once).unwrap();
        let later = Futures::new(move |context, _| async move {
            let first = context.kept::<String>();
            assert_eq!((context.kept::<u32>(), context.kept()), (None, first.clone()));
            Ok(kept(first))
        });
        server.register_as("later", later).unwrap();
    });
    for (via, object) in [("", "at-once"), ("", "later"), ("?via=pipe", "later")] {
        let at = served.via(&format!("{via}#{object}"));
        let echo = EchoCaller::new(&Client::new(), &at).unwrap();
        let answer = echo.say(&words(0)).unwrap();
        assert_eq!(answer.number, "four ended".len() as u64, "{object} {via}");
        log.expect(&["four: Say", "four ended: Say OK"]);
    }
}
