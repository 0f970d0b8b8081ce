//! Calls through the golden file of the thermostat.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use prost::Message;
use prost_reflect::DescriptorPool;

use crate::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatCaller,
    ThermostatDispatcher, WatchReply, WatchRequest,
};
use crate::{CallOptions, Client, Context, Responder, Status};

#[derive(Default)]
struct Room {
    celsius: Cell<f64>,
    notes: RefCell<Vec<String>>,
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

    fn watch(&self, _: &Context<'_>, _: &WatchRequest, responder: Responder<WatchReply>) {
        responder.finish(Ok(WatchReply { celsius: self.celsius.get() }));
    }

    fn reset(&self, _: &Context<'_>, (): &()) -> Result<(), Status> {
        Err(Status("not today"))
    }
}

#[track_caller]
fn check(bytes_only: bool) {
    let (client, room) = (Client::default(), Rc::new(Room::default()));
    client.bytes_only.set(bytes_only);
    client.register(ThermostatDispatcher::shared(Rc::clone(&room)));
    let caller = ThermostatCaller::new(&client, "here").unwrap();
    let set = |celsius| caller.set_target(&SetTargetRequest { celsius }).unwrap().celsius_before;
    assert_eq!([set(20.0), set(21.5)], [0.0, 20.0]);
    caller.note(&NoteRequest { text: "hello".to_owned() }).unwrap();
    assert_eq!(*room.notes.borrow(), ["hello"]);
    assert_eq!(caller.watch(&WatchRequest {}).unwrap().celsius, 21.5);
    let started = caller.start_watch(&WatchRequest {}, &CallOptions::new());
    assert_eq!(started.0.unwrap().celsius, 21.5);
    assert_eq!(caller.reset(&()), Err(Status("not today")));
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
    static OTHER: crate::Method =
        crate::Method { id: 1, name: "Other", oneway: false, deadline: None };
    let client = Client::default();
    client.register(ThermostatDispatcher::new(Room::default()));
    let object = crate::ObjectRef::new(&client, ThermostatCaller::INTERFACE, "here").unwrap();
    let answer: Result<(), Status> = object.call(&OTHER, &(), &CallOptions::new());
    assert_eq!(answer, Err(Status("unknown method")));
}

#[test]
fn the_embedded_descriptors_are_complete_and_keep_options_and_comments() {
    let interface = ThermostatCaller::INTERFACE;
    let pool = DescriptorPool::decode(interface.descriptor_set).unwrap();
    let service = pool.get_service_by_name(interface.name).unwrap();
    let names: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
    assert_eq!(names, interface.methods.iter().map(|method| method.name).collect::<Vec<_>>());
    let note = service.methods().find(|method| method.name() == "Note").unwrap();
    let oneway = pool.get_extension_by_name("nearcall.oneway").unwrap();
    assert!(note.options().has_extension(&oneway));
    assert!(interface.methods[1].oneway && interface.methods[1].name == "Note");
    let proto = service.parent_file().file_descriptor_proto().clone();
    assert!(proto.encoded_len() > 0);
    let comments = proto.source_code_info.unwrap().location;
    assert!(comments.iter().all(|location| location.leading_comments.is_some()));
    assert!(comments.iter().any(|one| one.leading_comments() == " Keeps a room warm.\n"));
}
