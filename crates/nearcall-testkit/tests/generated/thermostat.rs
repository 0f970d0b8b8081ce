//! Calls through the golden file of the thermostat.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use nearcall::client::ObjectRef;
use nearcall::prost::Message;
use nearcall::service::{Method, MethodKind, Responder};
use nearcall::{CallOptions, Client, Code, Context, Status};
use prost_reflect::{DescriptorPool, Kind, Value};

use crate::InLoop;
use crate::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatCaller,
    ThermostatDispatcher, WatchReply, WatchRequest,
};

#[derive(Default)]
struct Room {
    celsius: Cell<f64>,
    notes: RefCell<Vec<String>>,
    watchers: RefCell<Vec<Responder<WatchReply>>>,
}

impl Thermostat for Room {
    fn set_target(
        &self,
        _: &Context<'_>,
        request: &SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        Ok(SetTargetReply { celsius_before: self.celsius.replace(request.celsius) })
    }

    fn note(&self, _: &Context<'_>, request: &NoteRequest) {
        self.notes.borrow_mut().push(request.text.clone());
    }

    fn watch(&self, context: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
        context.answer_later(|responder| {
            self.watchers.borrow_mut().push(responder);
            let celsius = self.celsius.get();
            self.watchers.take().into_iter().for_each(|one| one.finish(Ok(WatchReply { celsius })));
        })
    }

    fn reset(&self, context: &Context<'_>, (): &()) -> Result<(), Status> {
        Err(Status::unavailable(context.metadata().get("why").unwrap_or("no reason")))
    }
}

#[track_caller]
fn check(client: impl FnOnce(Client) -> Client) {
    let dispatcher = ThermostatDispatcher::new(Room::default());
    let room = Arc::clone(dispatcher.service());
    let here = InLoop::serve(dispatcher);
    let caller = ThermostatCaller::new(&client(here.client.clone()), &here.address).unwrap();
    let set = |celsius| caller.set_target(&SetTargetRequest { celsius }).unwrap().celsius_before;
    assert_eq!([set(20.0), set(21.5)], [0.0, 20.0]);
    assert_eq!(caller.watch(&WatchRequest {}).unwrap().celsius, 21.5);
    assert_eq!(caller.start_watch(&WatchRequest {}).wait().unwrap().celsius, 21.5);
    let note = |text: &str| NoteRequest { text: text.to_owned() };
    caller.note(&note("hello")).unwrap();
    caller.with(CallOptions::new().no_wait()).note(&note("again")).unwrap();
    while room.notes.borrow().len() < 2 {
        here.event_loop.turn().unwrap();
    }
    assert_eq!(*room.notes.borrow(), ["hello", "again"]);
    let refused = caller.reset(&()).unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "no reason"));
    let caller = caller.with(CallOptions::new().metadata("why", "not today").unwrap());
    for refused in [caller.reset(&()), caller.start_reset(&()).wait()] {
        assert_eq!(refused.unwrap_err().message(), "not today");
    }
}

#[test]
fn a_service_of_the_same_thread_is_called_straight() {
    check(|client| client);
}

#[test]
fn any_other_service_is_called_through_bytes() {
    check(Client::without_short_circuit);
}

#[test]
fn an_unknown_method_is_refused() {
    static OTHER: Method = Method::new(1, "Other", MethodKind::Unary);
    let here = InLoop::serve(ThermostatDispatcher::new(Room::default()));
    let object = ObjectRef::new(&here.client, ThermostatCaller::INTERFACE, &here.address).unwrap();
    let answer: Result<(), Status> = object.call(&OTHER, &(), |(): &(), _, _| Ok(()));
    assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
}

#[test]
fn reflection_finds_methods_messages_and_options_in_the_embedded_set() {
    let interface = ThermostatCaller::INTERFACE;
    // A program that reflects has the well-known files, descriptor.proto among them.
    let mut pool = DescriptorPool::global();
    pool.decode_file_descriptor_set(interface.descriptor_set).unwrap();
    let service = pool.get_service_by_name(interface.name).unwrap();
    let names: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
    assert_eq!(names, interface.methods.iter().map(|method| method.name).collect::<Vec<_>>());
    let input = service.methods().next().unwrap().input();
    assert_eq!(input.full_name(), "home.v1.SetTargetRequest");
    assert_eq!(input.get_field_by_name("celsius").unwrap().kind(), Kind::Double);
    let option = |method: &str, option: &str| {
        let method = service.methods().find(|one| one.name() == method).unwrap();
        let extension = pool.get_extension_by_name(option).unwrap();
        let options = method.options();
        options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
    };
    assert_eq!(option("Note", "nearcall.oneway"), Some(Value::Bool(true)));
    assert_eq!(option("SetTarget", "nearcall.deadline_ms"), Some(Value::U32(250)));
    assert_eq!(option("Reset", "nearcall.deadline_ms"), None);
}

#[test]
fn the_embedded_set_has_neither_the_built_in_file_nor_source_information() {
    let set = ThermostatCaller::INTERFACE.descriptor_set;
    let set = nearcall::prost_types::FileDescriptorSet::decode(set).unwrap();
    let names: Vec<&str> = set.file.iter().map(|file| file.name()).collect();
    let expected = ["google/protobuf/empty.proto", "nearcall/options.proto", "thermostat.proto"];
    assert_eq!(names, expected);
    assert!(set.file.iter().all(|file| file.source_code_info.is_none()));
}
