//! What services send beside their replies and errors.
//!
//! **Not here:** what interceptors add (`interceptors.rs`).

use nearcall::client::{ObjectRef, ReplyMetadata};
use nearcall::service::{Blocking, BlockingPool};

use crate::services::Futures;
use crate::stage::prelude::*;

/// Adds metadata to each reply: of `number` bytes if that is not zero. Fails if there are data.
fn add(context: &Context<'_>, request: &Words) -> Result<Words, Status> {
    context.add_reply_metadata("served-by", "a method").unwrap();
    context.add_reply_metadata_bin("raw-bin", &[0, 1, 255]).unwrap();
    let wrong = context.add_reply_metadata("Wrong", "").unwrap_err();
    assert!(wrong.to_string().contains("`Wrong`"), "{wrong}");
    if request.number > 0 {
        let much = vec![7; usize::try_from(request.number).unwrap()];
        context.add_reply_metadata_bin("much-bin", &much).unwrap();
    }
    match &request.data[..] {
        b"fail" => Err(Status::aborted("as asked").with_metadata("why", "asked").unwrap()),
        _ => Ok(request.clone()),
    }
}

fn register(server: &Server) {
    let at_once = Threaded::new(add);
    let later = Threaded::new(|context, request| {
        let answer = add(context, request);
        context.answer_later(|mut responder| {
            thread::spawn(move || {
                responder.add_reply_metadata("later", "yes").unwrap();
                responder.add_reply_metadata_bin("later-bin", &[9]).unwrap();
                assert!(responder.add_reply_metadata("later bin", "").is_err());
                responder.finish(answer);
            });
        })
    });
    let future = Futures::new(|context, request: Words| async move {
        context.add_reply_metadata("served-by", "a method").unwrap();
        context.add_reply_metadata_bin("raw-bin", &[0, 1, 255]).unwrap();
        match &request.data[..] {
            b"fail" => Err(Status::aborted("as asked").with_metadata("why", "asked").unwrap()),
            _ => Ok(request),
        }
    });
    let pool = BlockingPool::builder().threads(1).build();
    server.register_as("now", at_once).unwrap();
    server.register_as("later", later).unwrap();
    server.register_as("future", future).unwrap();
    server.register_as("pool", Blocking::new(Threaded::new(add), &pool)).unwrap();
}

fn say(object: &ObjectRef, request: &Words) -> (Result<Words, Status>, ReplyMetadata) {
    let say = method(EchoCaller::INTERFACE, "Say");
    object.start(say, request).wait_with_metadata()
}

fn check(client: &Client, at: &str, service: &str) {
    let object = object(client, EchoCaller::INTERFACE, &format!("{at}#{service}"));
    for bytes in [0, 100, 20_000, 300_000] {
        let request = Words { data: vec![1; bytes].into(), ..words(0) };
        let (reply, metadata) = say(&object, &request);
        assert_eq!(reply.unwrap(), request, "{service} at {at}");
        assert_eq!(metadata.get("served-by"), Some("a method"), "{service} at {at}");
        assert_eq!(metadata.get_bin("raw-bin"), Some(&[0, 1, 255][..]));
        assert_eq!(metadata.get("later").is_some(), service == "later");
        assert!(!metadata.is_empty() && metadata.get("other").is_none());
    }
    let (failed, metadata) = say(&object, &Words { data: b"fail"[..].into(), ..words(0) });
    let status = failed.unwrap_err();
    assert_eq!(status, Status::aborted("as asked"));
    for found in [status.metadata().get("why"), metadata.get("why")] {
        assert_eq!(found, Some("asked"), "{service} at {at}");
    }
    assert_eq!(status.metadata().get("served-by"), Some("a method"), "{service} at {at}");
    let echo = EchoCaller::new(client, &format!("{at}#{service}")).unwrap();
    // Whoever does not ask gets the reply all the same.
    assert_eq!(echo.say(&words(0)).unwrap().number, 0);
    let status = echo.say(&Words { data: b"fail"[..].into(), ..words(0) }).unwrap_err();
    assert_eq!(status.metadata().get("served-by"), Some("a method"), "{service} at {at}");
}

#[timed]
fn metadata_travel_with_replies_and_errors_of_all_services() {
    let served = Served::with(Limits::default(), "", |_, server, _| register(server));
    let event_loop = EventLoop::new().unwrap();
    let here = Server::new(&event_loop);
    register(&here);
    here.listen("inproc:here").unwrap();
    let (alone, in_loop) = (Client::new(), Client::in_loop(&event_loop));
    for service in ["now", "later", "future", "pool"] {
        for via in ["", "?via=pipe", "?via=unix-seqpacket"] {
            check(&alone, &served.via(via), service);
            check(&in_loop, &served.via(via), service);
        }
        check(&in_loop, "inproc:here", service);
    }
}

#[timed]
fn metadata_travel_with_a_reply_that_was_loaned() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        let lends = Threaded::new(|context, _| {
            context.add_reply_metadata("served-by", "a method").unwrap();
            let mut loan = context.loan(70_000)?;
            assert!(loan.is_shared());
            loan.fill(7);
            Ok(Words { data: loan.freeze(), ..words(1) })
        });
        server.register_as("lends", lends).unwrap();
    });
    let client = Client::new();
    for via in ["?via=shm&trust=yes#lends", "?via=shm#lends"] {
        let object = object(&client, EchoCaller::INTERFACE, &served.via(via));
        let (reply, metadata) = say(&object, &words(0));
        assert_eq!(reply.unwrap().data, vec![7; 70_000], "{via}");
        assert_eq!(metadata.get("served-by"), Some("a method"), "{via}");
        assert_eq!(metadata.iter().count(), 1, "{via}");
    }
}

#[timed]
fn metadata_travel_to_tasks() {
    let served = Served::with(Limits::default(), "", |_, server, _| register(server));
    let client = Client::new();
    for via in ["", "?wait=poll", "?via=pipe"] {
        for service in ["now", "later"] {
            let at = format!("{}#{service}", served.via(via));
            let echo = EchoAsyncCaller::new(&client, &at).unwrap();
            for bytes in [0, 20_000, 300_000] {
                let request = Words { data: vec![1; bytes].into(), ..words(0) };
                let (reply, metadata) = block_on(echo.say(&request).with_metadata());
                assert_eq!(reply.unwrap(), request, "{at}");
                assert_eq!(metadata.get("served-by"), Some("a method"), "{at}");
                assert_eq!(metadata.get_bin("raw-bin"), Some(&[0, 1, 255][..]));
            }
            let request = Words { data: b"fail"[..].into(), ..words(0) };
            let (failed, metadata) = block_on(echo.say(&request).with_metadata());
            assert_eq!(failed.unwrap_err(), Status::aborted("as asked"));
            assert_eq!(metadata.get("why"), Some("asked"), "{at}");
        }
    }
}

#[timed]
fn a_reply_without_metadata_has_none() {
    let served = Served::start();
    let client = Client::new();
    let (reply, metadata) =
        say(&object(&client, EchoCaller::INTERFACE, &served.address), &words(3));
    assert_eq!((reply.unwrap().number, metadata.is_empty()), (3, true));
    assert_eq!(format!("{metadata:?}"), "{}");
}

#[timed]
fn too_many_metadata_fail_the_reply_and_name_the_limit() {
    let served = Served::with(Limits::default(), "", |_, server, _| register(server));
    let client = Client::new();
    let object = object(&client, EchoCaller::INTERFACE, &served.via("#now"));
    assert!(say(&object, &words(8000)).0.is_ok());
    let status = expect_code(say(&object, &words(9000)).0, Code::ResourceExhausted);
    for part in ["8192", "limit `metadata_bytes_max`"] {
        assert!(status.message().contains(part), "{status}");
    }
    // Of an error they are left out.
    let status = say(&object, &Words { data: b"fail"[..].into(), ..words(9000) }).0.unwrap_err();
    assert_eq!(status, Status::aborted("as asked"));
    assert_eq!(status.metadata().iter().count(), 0);
    assert!(say(&object, &words(0)).0.is_ok(), "the connection lives");
}

/// The details of an error arrive as they were given, from a service of any kind.
#[timed]
fn details_travel_with_errors() {
    use nearcall::prost_types::{Any, Duration as Span};
    let refuse = |again_in: u64| {
        let again_in = i64::try_from(again_in).unwrap();
        let again_in = Span { seconds: again_in, nanos: 0 };
        let busy = Status::unavailable("busy").with_metadata("room", "attic").unwrap();
        Err(busy.with_details([Any::from_msg(&again_in).unwrap()])?)
    };
    let register = move |server: &Server| {
        let now = Threaded::new(move |context, words: &Words| {
            context.add_reply_metadata("served-by", "a method").unwrap();
            refuse(words.number)
        });
        let future = Futures::new(move |_, words: Words| async move { refuse(words.number) });
        server.register_as("now", now).unwrap();
        server.register_as("future", future).unwrap();
    };
    let served = Served::with(Limits::default(), "", move |_, server, _| register(server));
    let event_loop = EventLoop::new().unwrap();
    let here = Server::new(&event_loop);
    register(&here);
    here.listen("inproc:here").unwrap();
    for service in ["now", "future"] {
        for (client, at) in [
            (Client::new(), served.via("")),
            (Client::in_loop(&event_loop), "inproc:here".to_owned()),
        ] {
            let at = format!("{at}#{service}");
            let status = EchoCaller::new(&client, &at).unwrap().say(&words(3)).unwrap_err();
            assert_eq!(status, Status::unavailable("busy"), "{at}");
            assert_eq!(status.details::<Span>(), [Span { seconds: 3, nanos: 0 }], "{at}");
            assert_eq!(status.metadata().get("room"), Some("attic"), "{at}");
        }
    }
}
