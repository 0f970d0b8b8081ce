//! Interceptors of clients and servers: what they see, in which order, and what they may do.
//!
//! **Invariants:** each test looks at the whole log, so that nothing is seen twice or not at all.
//! **Not here:** the order inside one chain (`interceptor.rs` of the runtime).

use nearcall::observe::{CallEnd, CallSide, InterceptedCall, Interceptor, Peer};
use nearcall::service::{Blocking, BlockingPool};

use crate::services::Futures;
use crate::stage::prelude::*;

mod answers;
mod futures;
mod streaming;

/// What interceptors and services note, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    /// Waits until so much was noted, and takes it: the end at a server comes after its reply.
    #[track_caller]
    fn expect(&self, expected: &[&str]) {
        wait_until("the log", || self.0.lock().unwrap().len() >= expected.len());
        let found = std::mem::take(&mut *self.0.lock().unwrap());
        assert_eq!(found, expected);
    }

    /// As [`expect`](Self::expect), where two processes or threads note.
    #[track_caller]
    fn expect_unordered(&self, expected: &[&str]) {
        wait_until("the log", || self.0.lock().unwrap().len() >= expected.len());
        let mut found = std::mem::take(&mut *self.0.lock().unwrap());
        let mut expected = expected.to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

/// Notes the start and the end of each call.
struct Notes(&'static str, Log);

impl Interceptor for Notes {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        let Self(name, log) = self;
        log.note(format!("{name}: {}", call.method().name));
        assert_eq!(call.interface().method(call.method().id), Some(call.method()));
        assert_eq!(call.peer().is_some(), call.side() == CallSide::Server);
        assert_eq!(call.address().is_some(), call.side() == CallSide::Client);
        call.keep(format!("{name} ended"));
        Ok(())
    }

    fn end(&self, call: &CallEnd<'_>) {
        let kept = call.kept::<String>().unwrap();
        self.1.note(format!("{kept}: {} {}", call.method().name, call.code().name()));
    }
}

/// Refuses all calls.
struct Refuses(Log);

impl Interceptor for Refuses {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        self.0.note("refused");
        call.add_metadata("tried", "yes").unwrap();
        let refusal = Status::unauthenticated("who are you?");
        Err(refusal.with_metadata("realm", "here").unwrap())
    }

    fn end(&self, _: &CallEnd<'_>) {
        self.0.note("the end of what was refused");
    }
}

/// A service that notes its calls.
fn noting(log: &Log) -> EchoDispatcher<Threaded> {
    let log = log.clone();
    Threaded::new(move |context, request| {
        log.note(format!("runs {}", context.method()));
        Ok(request.clone())
    })
}

fn client(log: &Log) -> Client {
    let (one, two) = (Notes("c1", log.clone()), Notes("c2", log.clone()));
    Client::builder().interceptor(one).interceptor(two).build()
}

/// A server in a thread of its own with two interceptors.
fn serve(log: &Log) -> Served {
    let log = log.clone();
    Served::with(Limits::default(), "", move |_, server: &Server, _| {
        server.add_interceptor(Notes("s1", log.clone()));
        server.register_as("n", noting(&log)).unwrap();
        // Also of objects that were registered before.
        server.add_interceptor(Notes("s2", log.clone()));
    })
}

const ORDER: [&str; 9] = [
    "c1: Say",
    "c2: Say",
    "s1: Say",
    "s2: Say",
    "runs Say",
    "s2 ended: Say OK",
    "s1 ended: Say OK",
    "c2 ended: Say OK",
    "c1 ended: Say OK",
];

#[timed]
fn starts_go_in_and_ends_come_out() {
    let log = Log::default();
    let served = serve(&log);
    for via in ["", "?via=pipe", "?via=unix-stream"] {
        let echo = EchoCaller::new(&client(&log), &served.via(&format!("{via}#n"))).unwrap();
        echo.say(&words(1)).unwrap();
        // At the server the end comes after the reply, so it may come after the client's.
        wait_until("the log", || log.0.lock().unwrap().len() == ORDER.len());
        let found = std::mem::take(&mut *log.0.lock().unwrap());
        for side in ['c', 's', 'r'] {
            let of_side = |text: &&str| text.starts_with(side);
            let found: Vec<_> = found.iter().map(String::as_str).filter(of_side).collect();
            let expected: Vec<_> = ORDER.into_iter().filter(of_side).collect();
            assert_eq!(found, expected, "{via}");
        }
        assert_eq!(found[..5], ORDER[..5], "{via}");
    }
}

/// A server and a client in one loop. The server has an interceptor.
fn in_one_loop_with(log: &Log, service: EchoDispatcher<Threaded>) -> (EventLoop, Server, Client) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(service).unwrap();
    server.add_interceptor(Notes("s", log.clone()));
    server.listen("inproc:here").unwrap();
    let client = Client::in_loop(&event_loop);
    (event_loop, server, client)
}

/// As [`in_one_loop_with`], and the client has an interceptor, too.
fn in_one_loop(log: &Log) -> (EventLoop, Server, Client) {
    let (event_loop, server, _) = in_one_loop_with(log, noting(log));
    let notes = Notes("c", log.clone());
    let client = Client::builder().in_loop(&event_loop).interceptor(notes).build();
    (event_loop, server, client)
}

#[test]
fn calls_of_the_same_thread_are_seen_as_well() {
    let log = Log::default();
    let (event_loop, _server, client) = in_one_loop(&log);
    let echo = EchoCaller::new(&client, "inproc:here").unwrap();
    assert_eq!(echo.say(&words(3)).unwrap().number, 3);
    let say = ["c: Say", "s: Say", "runs Say", "s ended: Say OK", "c ended: Say OK"];
    log.expect(&say);
    echo.fail(&Failure::default()).unwrap_err();
    log.expect(&["c: Fail", "s: Fail", "s ended: Fail NOT_FOUND", "c ended: Fail NOT_FOUND"]);
    echo.panic(&()).unwrap_err();
    log.expect(&["c: Panic", "s: Panic", "s ended: Panic UNKNOWN", "c ended: Panic UNKNOWN"]);
    echo.note(&words(1)).unwrap();
    log.expect(&["c: Note", "c ended: Note OK"]);
    event_loop.next(Deadline::NOW).unwrap();
    log.expect(&["s: Note", "runs Note", "s ended: Note OK"]);
    let started = object(&client, EchoCaller::INTERFACE, "inproc:here")
        .start::<_, Words>(method(EchoCaller::INTERFACE, "Say"), &words(1));
    log.expect(&say[..4]);
    started.wait().unwrap();
    log.expect(&say[4..]);
}

#[timed]
fn a_server_that_refuses_runs_no_method() {
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        let log = to_serve;
        server.register_as("n", noting(&log)).unwrap();
        server.add_interceptor(Notes("s1", log.clone()));
        server.add_interceptor(Refuses(log.clone()));
        server.add_interceptor(Notes("s3", log));
    });
    let echo = served.echo("#n");
    for _ in 0..2 {
        let status = echo.say(&words(1)).unwrap_err();
        assert_eq!(status, Status::unauthenticated("who are you?"));
        let metadata: Vec<_> = status.metadata().iter().collect();
        assert_eq!(metadata, [("tried", &b"yes"[..]), ("realm", b"here")]);
        log.expect(&["s1: Say", "refused", "s1 ended: Say UNAUTHENTICATED"]);
    }
    echo.note(&words(1)).unwrap();
    log.expect(&["s1: Note", "refused", "s1 ended: Note UNAUTHENTICATED"]);
}

#[timed]
fn a_client_that_refuses_sends_nothing() {
    let log = Log::default();
    let served = serve(&log);
    let client = Client::builder()
        .interceptor(Notes("c1", log.clone()))
        .interceptor(Refuses(log.clone()))
        .interceptor(Notes("c3", log.clone()))
        .build();
    let at = served.via("#n");
    let echo = EchoCaller::new(&client, &at).unwrap();
    assert_eq!(echo.say(&words(1)).unwrap_err().code(), Code::Unauthenticated);
    let seen = ["c1: Say", "refused", "c1 ended: Say UNAUTHENTICATED"];
    log.expect(&seen);
    let object = object(&client, EchoCaller::INTERFACE, &at);
    let [say, note] = ["Say", "Note"].map(|name| method(EchoCaller::INTERFACE, name));
    let started = object.start::<_, Words>(say, &words(1));
    assert_eq!(started.wait().unwrap_err().code(), Code::Unauthenticated);
    log.expect(&seen);
    assert!(
        object
            .with(CallOptions::new().no_wait())
            .start::<_, Words>(say, &words(1))
            .ensure_started()
            .is_err()
    );
    log.expect(&seen);
    for sent in [
        object.send(note, &words(1)),
        object.with(CallOptions::new().no_wait()).send(note, &words(1)),
    ] {
        assert_eq!(sent.unwrap_err().code(), Code::Unauthenticated);
    }
    let note = ["c1: Note", "refused", "c1 ended: Note UNAUTHENTICATED"];
    log.expect(&[note, note].concat());
}

#[timed]
fn a_call_that_is_given_up_ends_once() {
    let log = Log::default();
    let served = serve(&log);
    let client = Client::builder().interceptor(Notes("c", log.clone())).build();
    let object = object(&client, EchoCaller::INTERFACE, &served.via("#n"));
    let say = method(EchoCaller::INTERFACE, "Say");
    let started = object.start::<_, Words>(say, &words(1));
    drop(started);
    let ends = || {
        let log = log.0.lock().unwrap();
        log.iter().filter(|text| text.contains("ended")).cloned().collect::<Vec<_>>()
    };
    wait_until("the ends", || ends().len() == 3);
    assert!(ends().contains(&"c ended: Say CANCELLED".to_owned()), "{:?}", ends());
}

/// Serves `Say` in ways in which the answer comes later.
fn answers_later(server: &Server, log: &Log) {
    let to_threads = log.clone();
    let thread = Threaded::new(move |context, request| {
        let (log, request) = (to_threads.clone(), request.clone());
        context.answer_later(|responder| {
            thread::spawn(move || {
                log.note("answers");
                responder.finish(Ok(request));
            });
        })
    });
    let to_futures = log.clone();
    let future = Futures::new(move |_, request: Words| {
        let log = to_futures.clone();
        async move {
            log.note("answers");
            Ok(request)
        }
    });
    let to_pool = log.clone();
    let blocks = Threaded::new(move |_, request| {
        to_pool.note("answers");
        Ok(request.clone())
    });
    let pool = BlockingPool::builder().threads(2).build();
    server.register_as("thread", thread).unwrap();
    server.register_as("future", future).unwrap();
    server.register_as("pool", Blocking::new(blocks, &pool)).unwrap();
    server.add_interceptor(Notes("s", log.clone()));
}

#[timed]
fn the_end_of_a_call_that_is_answered_later_is_seen_then() {
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        answers_later(server, &to_serve);
    });
    let event_loop = EventLoop::new().unwrap();
    let here = Server::new(&event_loop);
    answers_later(&here, &log);
    here.listen("inproc:here").unwrap();
    let (alone, in_loop) = (Client::new(), Client::in_loop(&event_loop));
    for object in ["thread", "future", "pool"] {
        for (client, at) in [(&alone, served.address.as_str()), (&in_loop, "inproc:here")] {
            let echo = EchoCaller::new(client, &format!("{at}#{object}")).unwrap();
            assert_eq!(echo.say(&words(5)).unwrap().number, 5, "{object} at {at}");
            log.expect(&["s: Say", "answers", "s ended: Say OK"]);
        }
    }
}

#[timed]
fn a_responder_or_a_future_that_is_dropped_has_an_end() {
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        let drops = Threaded::new(|context, _| context.answer_later(drop));
        server.register_as("drops", drops).unwrap();
        let waits = Futures::new(|context, _| async move {
            context.cancelled().await;
            std::future::pending().await
        });
        server.register_as("waits", waits).unwrap();
        server.add_interceptor(Notes("s", to_serve));
    });
    let drops = served.echo("#drops");
    assert_eq!(drops.say(&words(1)).unwrap_err().code(), Code::Internal);
    log.expect(&["s: Say", "s ended: Say INTERNAL"]);
    let client = Client::new();
    let waits = object(&client, EchoCaller::INTERFACE, &served.via("#waits"));
    let say = method(EchoCaller::INTERFACE, "Say");
    let started = waits.start::<_, Words>(say, &words(1));
    log.expect(&["s: Say"]);
    started.cancel();
    log.expect(&["s ended: Say CANCELLED"]);
    let soon = CallOptions::new().deadline(Duration::from_millis(20));
    let late = waits.with(soon).start::<_, Words>(say, &words(1));
    assert_eq!(late.wait().unwrap_err().code(), Code::DeadlineExceeded);
    // The client's deadline passes first, and its cancellation may be quicker.
    wait_until("the log", || log.0.lock().unwrap().len() == 2);
    let end = log.0.lock().unwrap()[1].clone();
    let ends = ["s ended: Say DEADLINE_EXCEEDED", "s ended: Say CANCELLED"];
    assert!(ends.contains(&end.as_str()), "{end}");
}

/// Adds metadata to what is sent, and notes what it sees.
struct Adds(Log);

impl Interceptor for Adds {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        let seen: Vec<_> = call.metadata().iter().map(|(key, _)| key.to_owned()).collect();
        let has_deadline = call.deadline().is_some() && call.remaining().is_some();
        let peer = match call.peer() {
            Some(Peer::Process(identity)) => identity.pid == i32::try_from(std::process::id()).ok(),
            Some(_) => false,
            None => call.address().unwrap().to_string().contains("#n"),
        };
        self.0.note(format!("{:?} {seen:?} {has_deadline} {peer}", call.side()));
        call.add_metadata("added", "by it").unwrap();
        call.add_metadata_bin("more-bin", &[0, 255]).unwrap();
        assert!(call.add_metadata("Bad Key", "").is_err());
        Ok(())
    }

    fn end(&self, call: &CallEnd<'_>) {
        let (request, reply) = (call.request_bytes(), call.reply_bytes());
        assert!(call.duration() > Duration::ZERO && call.status().is_none());
        assert!(call.kept::<String>().is_none(), "it kept nothing");
        self.0.note(format!("{:?} {request} {reply}", call.side()));
    }
}

#[timed]
fn interceptors_see_and_add_metadata_at_both_ends() {
    let log = Log::default();
    let to_serve = log.clone();
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        server.add_interceptor(Adds(to_serve));
        let looks = Threaded::new(|context: &Context<'_>, request| {
            context.add_reply_metadata("from", "the method").unwrap();
            assert_eq!(context.metadata().get("added"), Some("by it"));
            Ok(request.clone())
        });
        server.register_as("n", looks).unwrap();
    });
    let client = Client::builder().interceptor(Adds(log.clone())).build();
    let object = object(&client, EchoCaller::INTERFACE, &served.via("#n"));
    let options = CallOptions::new().metadata("own", "yes").unwrap();
    let options = options.deadline(Duration::from_secs(60));
    let say = method(EchoCaller::INTERFACE, "Say");
    let started = object.with(options.clone()).start::<_, Words>(say, &words(300));
    let (result, metadata) = started.wait_with_metadata();
    assert_eq!(result.unwrap().number, 300);
    assert_eq!(metadata.get("added"), Some("by it"));
    assert_eq!(metadata.get_bin("more-bin"), Some(&[0, 255][..]));
    assert_eq!(metadata.get("from"), Some("the method"));
    assert_eq!(metadata.iter().count(), 3);
    wait_until("the log", || log.0.lock().unwrap().len() == 4);
    let mut log = std::mem::take(&mut *log.0.lock().unwrap());
    log[2..].sort();
    assert_eq!(
        log,
        [
            r#"Client ["own"] true true"#,
            r#"Server ["own", "added", "more-bin"] true true"#,
            "Client 3 3",
            "Server 3 3",
        ]
    );
}

#[test]
fn a_panic_of_an_interceptor_fails_its_call_only() {
    struct Panics;
    impl Interceptor for Panics {
        fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
            assert_ne!(call.metadata().get("panic"), Some("yes"), "asked for it");
            Ok(())
        }

        fn end(&self, _: &CallEnd<'_>) {
            panic!("asked for it");
        }
    }
    in_time(|| {
        let served = Served::with(Limits::default(), "", |_, server, _| {
            server.add_interceptor(Panics);
        });
        let seen = Client::builder().interceptor(Panics).build();
        let options = CallOptions::new().metadata("panic", "yes").unwrap();
        for client in [seen, Client::new()] {
            let echo = EchoCaller::new(&client, &served.address).unwrap();
            let outcome = echo.with(options.clone()).say(&words(1));
            expect_error(outcome, Code::Unknown, &["interceptor"]);
            assert_eq!(echo.say(&words(1)).unwrap().number, 1);
        }
    });
}

#[timed]
fn every_loop_of_a_server_has_its_interceptors() {
    let log = Log::default();
    let server = Server::builder()
        .threads(2)
        .interceptor(Notes("s1", log.clone()))
        .register(noting(&log))
        .interceptor(Refuses(log.clone()))
        .listen(&unique_address())
        .start()
        .unwrap();
    let address = server.address().to_string();
    // The loop with the fewest connections gets the next one.
    let clients = [Client::new(), Client::new()];
    for client in &clients {
        let echo = EchoCaller::new(client, &address).unwrap();
        assert_eq!(echo.say(&words(1)).unwrap_err().code(), Code::Unauthenticated);
        log.expect(&["s1: Say", "refused", "s1 ended: Say UNAUTHENTICATED"]);
    }
    server.stop().unwrap();
}

#[timed]
fn what_is_no_method_is_refused_as_ever() {
    let log = Log::default();
    let served = serve(&log);
    let lost = served.echo("#lost");
    let status = lost.say(&words(1)).unwrap_err();
    assert!(status.message().contains("no such object"), "{status}");
    log.expect(&[]);
    drop(Service::default());
}
