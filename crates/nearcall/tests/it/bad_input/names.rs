//! Callers and servers that do not know the same interfaces, objects and methods.

use nearcall::client::ObjectRef;
use nearcall::server::RegisterError;
use nearcall::service::{Idempotency, Interface, Method, MethodKind};

use super::expect;
use crate::observed::Observed;
use crate::stage::prelude::*;

/// From a later version of the file: `Shout` is new.
static SHOUT: Method = method(0xdead_beef, "Shout", MethodKind::Unary);
static WHISPER: Method = method(0xdead_bee5, "Whisper", MethodKind::Oneway);
static NEWER: Interface = Interface::new("echo.v1.Echo", &[&SHOUT, &WHISPER], &[]);
static NEXT: Interface = Interface::new("echo.v2.Echo", &[&SHOUT], &[]);

const fn method(id: u32, name: &'static str, kind: MethodKind) -> Method {
    Method { id, name, kind, deadline: None, idempotency: Idempotency::Unknown }
}

#[test]
fn a_method_that_the_server_does_not_have_is_unimplemented() {
    Observed::beside_a_good_client(|server| {
        let client = Client::new();
        let newer = ObjectRef::new(&client, &NEWER, &server.address).unwrap();
        let words = ["echo.v1.Echo", "no method", "0xdeadbeef", &server.address];
        let outcome = newer.call(&SHOUT, &(), |(): &(), _, _| Ok(()));
        expect(outcome, Code::Unimplemented, &words);
        expect(newer.start::<_, ()>(&SHOUT, &()).wait(), Code::Unimplemented, &words);
        // A one-way message has no reply, and the connection lives.
        newer.send(&WHISPER, &()).unwrap();
        let echo = EchoCaller::new(&client, &server.address).unwrap();
        echo.nothing(&()).unwrap();
    });
}

#[test]
fn another_version_of_an_interface_gets_a_list_of_what_there_is() {
    Observed::beside_a_good_client(|server| {
        let next = ObjectRef::new(&Client::new(), &NEXT, &server.address).unwrap();
        let outcome = next.call(&SHOUT, &(), |(): &(), _, _| Ok(()));
        let words = ["echo.v2.Echo", &server.address, "this server has echo.v1.Echo"];
        expect(outcome, Code::Unimplemented, &words);
    });
}

#[test]
fn a_call_of_an_unregistered_instance_gets_a_list_of_what_there_is() {
    Observed::beside_a_good_client(|server| {
        let address = format!("{}#absent", server.address);
        let absent = EchoCaller::new(&Client::new(), &address).unwrap();
        let words = ["echo.v1.Echo@absent", "this server has echo.v1.Echo"];
        expect(absent.nothing(&()), Code::Unimplemented, &words);
    });
}

#[test]
fn the_short_circuit_reports_the_same() {
    let (event_loop, _server, _) =
        serve_here("inproc:names", EchoDispatcher::new(Service::default()));
    let client = Client::in_loop(&event_loop);
    let absent = EchoCaller::new(&client, "inproc:names#absent").unwrap();
    let words = ["echo.v1.Echo@absent", "inproc:names", "this server has echo.v1.Echo"];
    expect(absent.nothing(&()), Code::Unimplemented, &words);
    expect(absent.start_nothing(&()).wait(), Code::Unimplemented, &words);
    let newer = ObjectRef::new(&client, &NEWER, "inproc:names").unwrap();
    let outcome = newer.call(&SHOUT, &(), |(): &(), _, _| Ok(()));
    expect(outcome, Code::Unimplemented, &["no method", "0xdeadbeef"]);
    let elsewhere = EchoCaller::new(&client, "inproc:elsewhere").unwrap();
    expect(elsewhere.nothing(&()), Code::Unavailable, &["inproc:elsewhere"]);
}

#[test]
fn two_objects_with_one_name_are_a_mistake() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(EchoDispatcher::new(Service::default())).unwrap();
    let twice = server.register(EchoDispatcher::new(Service::default())).unwrap_err();
    assert_eq!(twice, RegisterError::NameTaken("echo.v1.Echo".into()));
    assert!(twice.to_string().contains("`echo.v1.Echo`"), "{twice}");
    server.register_as("kitchen", EchoDispatcher::new(Service::default())).unwrap();
    let twice = server.register_as("kitchen", EchoDispatcher::new(Service::default()));
    assert_eq!(twice.unwrap_err(), RegisterError::NameTaken("echo.v1.Echo@kitchen".into()));
    assert!(server.unregister("echo.v1.Echo@kitchen"));
    server.register_as("kitchen", EchoDispatcher::new(Service::default())).unwrap();
}
