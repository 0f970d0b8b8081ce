//! Calls by names and bytes: callers of services that generated code serves, and services of bytes
//! that generated callers call.
//!
//! **Not here:** what a descriptor set is read to (unit tests of `dynamic/description.rs`).

use nearcall::CallContext;
use nearcall::dynamic::{
    AsyncDynamicCaller, DynamicCaller, DynamicDispatcher, DynamicRequest, DynamicService, Encoded,
    interface_from_descriptor_set,
};
use nearcall::service::Interface;

use crate::stage::prelude::*;
use crate::streams::served::Served as ServedStreams;
use crate::streams::served::{Item, Kind, Plan, StreamsAsyncCaller, StreamsCaller, item};
use crate::streams::{Caller, exchange_all};
use crate::support::LoopThread;

const STREAMS: &Interface = StreamsCaller::INTERFACE;
const ECHO: &Interface = EchoCaller::INTERFACE;

fn described(interface: &Interface) -> &'static Interface {
    interface_from_descriptor_set(interface.descriptor_set, interface.name).unwrap()
}

/// Hands each call on to another server.
struct Relay(AsyncDynamicCaller);

impl DynamicService for Relay {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, Status> {
        let method = context.method();
        match request {
            DynamicRequest::Unary(request) => self.0.call(method, &request).await,
            DynamicRequest::ReplyStream(request, mut items) => {
                let mut replies = self.0.open_reply_stream(method, &request).await?;
                while let Some(reply) = replies.next().await {
                    items.send(&reply?).await?;
                }
                Ok(Encoded::default())
            }
            DynamicRequest::RequestStream(mut items) => {
                let mut requests = self.0.open_request_stream(method).await?;
                while let Some(item) = items.next().await {
                    requests.send(&item?).await?;
                }
                requests.finish().await
            }
            DynamicRequest::BothStreams(mut items, mut replies) => {
                let (mut requests, mut answers) = self.0.open_both_streams(method).await?;
                let there = async {
                    while let Some(item) = items.next().await {
                        requests.send(&item?).await?;
                    }
                    requests.finish().await
                };
                let back = async {
                    while let Some(answer) = answers.next().await {
                        replies.send(&answer?).await?;
                    }
                    Ok(())
                };
                futures_util::future::try_join(there, back).await.map(|_| Encoded::default())
            }
        }
    }
}

fn serve_bytes(interface: &Interface, service: impl DynamicService) -> (String, LoopThread) {
    let (address, interface) = (unique_address(), described(interface));
    let at = address.clone();
    let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        server.register(DynamicDispatcher::new(interface, service)).unwrap();
        server.listen(&everything(&at)).unwrap();
    });
    (address, thread)
}

#[timed]
fn a_relay_of_bytes_carries_every_shape() {
    let served = ServedStreams::start(Kind::Async);
    let far = AsyncDynamicCaller::new(&Client::new(), &served.address, STREAMS.name).unwrap();
    let (address, _thread) = serve_bytes(STREAMS, Relay(far));
    let client = Client::new();
    exchange_all(&Caller::Blocking(StreamsCaller::new(&client, &address).unwrap()));
    exchange_all(&Caller::Task(StreamsAsyncCaller::new(&client, &address).unwrap()));
}

#[timed]
fn a_caller_by_names_calls_every_shape() {
    let served = ServedStreams::start(Kind::Async);
    let streams = DynamicCaller::new(&Client::new(), &served.address, STREAMS.name).unwrap();
    let message = Encoded::new(&item(3, 100)).unwrap();
    assert_eq!(streams.call("Say", &message).unwrap(), message);
    assert_eq!(streams.start("Say", &message).wait().unwrap(), message);
    let plan = Encoded::new(&Plan { items: 5, bytes: 9, code: 0 }).unwrap();
    let replies: Vec<_> = streams.open_reply_stream("Count", &plan).unwrap().collect();
    assert_eq!(replies.len(), 5);
    assert_eq!(replies[4].clone().unwrap().decode::<Item>().unwrap(), item(4, 9));
    let mut requests = streams.open_request_stream("Sum").unwrap();
    requests.send(&message).unwrap();
    requests.send(&message).unwrap();
    assert_eq!(requests.finish().unwrap().decode::<Item>().unwrap().number, 6);
    let (mut requests, mut replies) = streams.open_both_streams("Exchange").unwrap();
    requests.send(&message).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(message));
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
}

#[timed]
fn a_method_that_a_thread_keeps_is_called_as_by_its_caller() {
    let served = ServedStreams::start(Kind::Loop);
    let client = Client::new();
    let streams = DynamicCaller::new(&client, &served.address, STREAMS.name).unwrap();
    assert!(streams.thread_method("Say").is_none(), "this thread has no connection yet");
    let message = Encoded::new(&item(3, 100)).unwrap();
    let long = Encoded::new(&item(4, 100_000)).unwrap();
    assert_eq!(streams.call("Say", &message).unwrap(), message);
    let say = streams.thread_method("Say").unwrap();
    assert_eq!(say.name(), "Say");
    for sent in [&message, &long, &message] {
        assert_eq!(say.call::<_, Encoded>(streams.object(), sent).unwrap(), *sent);
    }
    let too_long = Encoded::from(vec![0; Limits::default().message_bytes_max as usize + 1]);
    let refused = say.call::<_, Encoded>(streams.object(), &too_long).unwrap_err();
    assert_eq!(refused, streams.call("Say", &too_long).unwrap_err());
    assert!(streams.thread_method("Count").is_none(), "it has another shape");
    let hurried = streams.with(CallOptions::new().deadline(Duration::from_secs(9)));
    assert!(hurried.thread_method("Say").is_none(), "it has options");
    assert!(say.is_current());
    drop((hurried, streams, client));
    assert!(!say.is_current());
}

#[timed]
fn a_method_that_a_thread_keeps_ends_with_its_server() {
    let (address, thread) = serve_bytes(ECHO, Empty);
    let echo = DynamicCaller::new(&Client::new(), &address, ECHO.name).unwrap();
    echo.call("Say", &Encoded::default()).unwrap();
    let say = echo.thread_method("Say").unwrap();
    let call = || say.call::<_, Encoded>(echo.object(), &Encoded::default());
    assert_eq!(call(), Ok(Encoded::default()));
    drop(thread);
    expect_code(call(), Code::Unavailable);
    assert!(!say.is_current());
    let at = address.clone();
    let (_thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        server.register(DynamicDispatcher::new(described(ECHO), Empty)).unwrap();
        server.listen(&at).unwrap();
    });
    // As its caller, it finds the next server.
    assert_eq!(call(), Ok(Encoded::default()));
}

#[timed]
fn a_wrong_name_or_shape_is_named() {
    let served = ServedStreams::start(Kind::Loop);
    let client = Client::new();
    let streams = DynamicCaller::new(&client, &served.address, STREAMS.name).unwrap();
    let tasks = AsyncDynamicCaller::new(&client, &served.address, STREAMS.name).unwrap();
    for status in [
        streams.call("Sai", &Encoded::default()).unwrap_err(),
        block_on(tasks.call("Sai", &Encoded::default())).unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("no method `Sai`; it has Count"), "{status}");
    }
    let shape = streams.call("Count", &Encoded::default()).unwrap_err();
    assert!(shape.message().contains("replies with a stream"), "{shape}");
    let shape = streams.open_request_stream("Say").unwrap_err();
    assert!(shape.message().contains("call it without a stream"), "{shape}");
    let other = DynamicCaller::new(&client, &served.address, "tests.v1.Nothing").unwrap();
    let status = other.call("Say", &Encoded::default()).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("no object with tests.v1.Nothing"), "{status}");
    assert!(DynamicCaller::new(&client, "no address", STREAMS.name).is_err());
    assert!(DynamicCaller::new(&client, &served.address, "").is_err());
}

/// Never answers.
struct Silent;

impl DynamicService for Silent {
    async fn serve(&self, _: CallContext, _: DynamicRequest) -> Result<Encoded, Status> {
        std::future::pending().await
    }
}

#[timed]
fn a_deadline_comes_from_the_description_of_the_server() {
    let (address, _thread) = serve_bytes(ECHO, Silent);
    let echo = DynamicCaller::new(&Client::new(), &address, ECHO.name).unwrap();
    expect_code(echo.call("Quick", &Encoded::default()), Code::DeadlineExceeded);
    let tasks = AsyncDynamicCaller::new(&Client::new(), &address, ECHO.name).unwrap();
    expect_code(block_on(tasks.call("Quick", &Encoded::default())), Code::DeadlineExceeded);
}

/// Answers with nothing.
struct Empty;

impl DynamicService for Empty {
    async fn serve(&self, _: CallContext, _: DynamicRequest) -> Result<Encoded, Status> {
        Ok(Encoded::default())
    }
}

#[timed]
fn a_server_that_restarts_is_asked_again() {
    let address = unique_address();
    // The same files, and one more.
    let more = [ECHO.descriptor_set, b"\x0a\x07\x0a\x05a.b.c"].concat();
    let changed = interface_from_descriptor_set(&more, ECHO.name).unwrap();
    let serve = |interface| {
        let at = address.clone();
        let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
            server.register(DynamicDispatcher::new(interface, Empty)).unwrap();
            server.listen(&at).unwrap();
        });
        thread
    };
    let client = Client::new();
    let first = serve(described(ECHO));
    let echo = DynamicCaller::new(&client, &address, ECHO.name).unwrap();
    let tasks = AsyncDynamicCaller::new(&client, &address, ECHO.name).unwrap();
    let set = |interface: Result<&'static Interface, Status>| interface.unwrap().descriptor_set;
    for _ in 0..3 {
        assert_eq!(set(echo.interface()), ECHO.descriptor_set);
        assert_eq!(set(block_on(tasks.interface())), ECHO.descriptor_set);
    }
    drop(first);
    let _second = serve(changed);
    wait_until("the new description", || {
        // The first call may learn that the connection has ended.
        let _ = echo.call("Say", &Encoded::default());
        let _ = block_on(tasks.call("Say", &Encoded::default()));
        let asked = (set(echo.interface()), set(block_on(tasks.interface())));
        asked == (changed.descriptor_set, changed.descriptor_set)
    });
}

#[timed]
fn generated_callers_call_a_service_of_bytes() {
    let (address, _thread) = serve_bytes(ECHO, Empty);
    let client = Client::new();
    let echo = EchoCaller::new(&client, &address).unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), Words::default());
    let event_loop = EventLoop::new().unwrap();
    // A server of the same thread is called through bytes as well.
    let server = Server::new(&event_loop);
    server.register(DynamicDispatcher::new(described(ECHO), Empty)).unwrap();
    server.listen("inproc:dynamic").unwrap();
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, "inproc:dynamic").unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), Words::default());
    let echo = DynamicCaller::new(&client, "inproc:dynamic", ECHO.name).unwrap();
    assert_eq!(echo.call("Say", &Encoded::default()).unwrap(), Encoded::default());
}

#[timed]
fn an_object_that_has_an_instance_is_described_by_its_server() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        server.register_as("hall", EchoDispatcher::new(Service::default())).unwrap();
    });
    let (client, address) = (Client::new(), format!("{}#hall", served.address));
    let caller = DynamicCaller::new(&client, &address, ECHO.name).unwrap();
    caller.call("Nothing", &Encoded::default()).unwrap();
    let caller = AsyncDynamicCaller::new(&client, &address, ECHO.name).unwrap();
    block_on(caller.call("Nothing", &Encoded::default())).unwrap();
}
