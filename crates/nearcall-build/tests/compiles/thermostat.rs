//! Calls through the golden file of the thermostat.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use prost::Message;
use prost_reflect::{DescriptorPool, Kind, Value};

use crate::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatCaller,
    ThermostatDispatcher, WatchReply, WatchRequest,
};
use crate::runtime::register;
use crate::{CallOptions, Client, Context, Idempotency, MethodKind, Responder, Status};

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
        Err(Status(context.text))
    }
}

#[track_caller]
fn check(bytes_only: bool) {
    let dispatcher = ThermostatDispatcher::new(Room::default());
    let room = Arc::clone(dispatcher.service());
    register(dispatcher);
    let caller = ThermostatCaller::new(&Client { bytes_only }, "here").unwrap();
    let set = |celsius| caller.set_target(&SetTargetRequest { celsius }).unwrap().celsius_before;
    assert_eq!([set(20.0), set(21.5)], [0.0, 20.0]);
    caller.note(&NoteRequest { text: "hello".to_owned() }).unwrap();
    caller
        .with(CallOptions::new().no_wait())
        .note(&NoteRequest { text: "again".to_owned() })
        .unwrap();
    assert_eq!(*room.notes.borrow(), ["hello", "again"]);
    assert_eq!(caller.watch(&WatchRequest {}).unwrap().celsius, 21.5);
    assert_eq!(caller.start_watch(&WatchRequest {}).0.unwrap().celsius, 21.5);
    let options = CallOptions { text: "not today" };
    assert_eq!(caller.with(options.clone()).reset(&()), Err(Status("not today")));
    assert_eq!(caller.with(options.clone()).start_reset(&()).0, Err(Status("not today")));
}

#[test]
fn a_service_of_the_same_thread_is_called_straight() {
    check(false);
}

#[test]
fn any_other_service_is_called_through_bytes() {
    check(true);
}

#[test]
fn an_unknown_method_is_refused() {
    static OTHER: crate::Method = crate::Method {
        id: 1,
        name: "Other",
        kind: MethodKind::Unary,
        deadline: None,
        idempotency: Idempotency::Unknown,
    };
    register(ThermostatDispatcher::new(Room::default()));
    let interface = ThermostatCaller::INTERFACE;
    let object = crate::ObjectRef::new(&Client::default(), interface, "here").unwrap();
    let answer: Result<(), Status> = object.call(&OTHER, &(), |(): &(), _, _| Ok(()));
    assert_eq!(answer, Err(Status("unknown method")));
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
    let set = prost_types::FileDescriptorSet::decode(set).unwrap();
    let names: Vec<&str> = set.file.iter().map(|file| file.name()).collect();
    let expected = ["google/protobuf/empty.proto", "nearcall/options.proto", "thermostat.proto"];
    assert_eq!(names, expected);
    assert!(set.file.iter().all(|file| file.source_code_info.is_none()));
}
