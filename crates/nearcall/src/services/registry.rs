//! What one thread serves: its servers, their objects and where they listen.
//!
//! **Invariants:** an object's name is registered once in a server; the epoch changes whenever an
//! object, an address or a server comes or goes.
//! **Not here:** sockets and connections (`servers.rs`, `reactor/acceptor.rs`), running an object
//! (`dispatch.rs`).

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use nearcall_wire::InstanceId;

use crate::address::At;
use crate::connection::ServerId;
use crate::connection::call_counts::ObjectCounters;
use crate::interface::{Interface, object_id};
use crate::limits::OBJECT_NAMES_MAX;
use crate::services::dispatcher::Registered;
use crate::status::{Lack, Status};

/// The servers of one thread.
#[derive(Default)]
pub(crate) struct Registry {
    servers: RefCell<Vec<(ServerId, Weak<ObjectTable>)>>,
    last_id: Cell<u32>,
    epoch: Cell<u64>,
}

/// The objects of one server, and where callers of this thread find them.
pub(crate) struct ObjectTable {
    pub(crate) id: ServerId,
    instance: InstanceId,
    /// By number.
    objects: RefCell<Vec<Object>>,
    /// What the server answers itself, beside them.
    built_in: OnceCell<Object>,
    places: RefCell<Vec<At>>,
}

struct Object {
    number: u64,
    name: String,
    dispatcher: Rc<Registered>,
}

/// A name or number that a server has already.
pub(crate) enum Taken {
    Name,
    /// Another name, which has the same number.
    Number(String),
}

impl Registry {
    /// Adds a server without objects.
    pub(crate) fn add_server(&self, instance: InstanceId) -> Rc<ObjectTable> {
        let id = ServerId(self.last_id.get() + 1);
        self.last_id.set(id.0);
        let (objects, places) = (RefCell::default(), RefCell::default());
        let built_in = OnceCell::new();
        let table = Rc::new(ObjectTable { id, instance, objects, built_in, places });
        self.servers.borrow_mut().push((id, Rc::downgrade(&table)));
        table
    }

    /// Returns the objects of a server, if it exists.
    #[inline]
    pub(crate) fn server(&self, id: ServerId) -> Option<Rc<ObjectTable>> {
        let servers = self.servers.borrow();
        servers.iter().find(|(other, _)| *other == id)?.1.upgrade()
    }

    /// Counts changes of what this thread serves.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Notes that what this thread serves has changed.
    pub(crate) fn note_change(&self) {
        self.epoch.set(self.epoch.get() + 1);
        self.servers.borrow_mut().retain(|(_, server)| server.strong_count() > 0);
    }

    /// Returns the server of this thread that listens at this place.
    pub(crate) fn server_at(&self, at: &At) -> Option<Rc<ObjectTable>> {
        self.find(|server| server.places.borrow().contains(at))
    }

    /// Returns the server of this thread that greets with this instance id.
    pub(crate) fn server_with(&self, instance: InstanceId) -> Option<Rc<ObjectTable>> {
        self.find(|server| server.instance == instance)
    }

    fn find(&self, matches: impl Fn(&ObjectTable) -> bool) -> Option<Rc<ObjectTable>> {
        let servers = self.servers.borrow();
        servers.iter().filter_map(|(_, server)| server.upgrade()).find(|server| matches(server))
    }
}

impl ObjectTable {
    /// Adds an object under its name.
    pub(crate) fn add(&self, name: &str, dispatcher: Rc<Registered>) -> Result<(), Taken> {
        let number = object_id(name);
        let mut objects = self.objects.borrow_mut();
        match objects.binary_search_by_key(&number, |object| object.number) {
            Ok(index) if objects[index].name == name => Err(Taken::Name),
            Ok(index) => Err(Taken::Number(objects[index].name.clone())),
            Err(index) => {
                objects.insert(index, Object { number, name: name.to_owned(), dispatcher });
                Ok(())
            }
        }
    }

    /// Sets the object that the server answers itself. It is in no list of objects.
    pub(crate) fn set_built_in(&self, dispatcher: Registered) {
        let name = dispatcher.interface().name;
        let (number, name) = (object_id(name), name.to_owned());
        let _ = self.built_in.set(Object { number, name, dispatcher: Rc::new(dispatcher) });
    }

    /// Replaces the dispatchers of all objects.
    pub(crate) fn replace_all(&self, replace: impl Fn(Rc<Registered>) -> Rc<Registered>) {
        for object in &mut *self.objects.borrow_mut() {
            object.dispatcher = replace(Rc::clone(&object.dispatcher));
        }
    }

    /// Takes an object out. Drop it where nothing is borrowed: the end of a service may make calls.
    pub(crate) fn remove(&self, name: &str) -> Option<Rc<Registered>> {
        let mut objects = self.objects.borrow_mut();
        let index = objects.iter().position(|object| object.name == name)?;
        Some(objects.remove(index).dispatcher)
    }

    /// Takes all objects out, to be dropped where nothing is borrowed.
    pub(crate) fn remove_all(&self) -> Vec<Rc<Registered>> {
        self.objects.take().into_iter().map(|object| object.dispatcher).collect()
    }

    /// Returns the object with this number.
    #[inline]
    pub(crate) fn object(&self, number: u64) -> Option<Rc<Registered>> {
        let objects = self.objects.borrow();
        match objects.binary_search_by_key(&number, |object| object.number) {
            Ok(index) => Some(Rc::clone(&objects[index].dispatcher)),
            Err(_) => self.built_in(number),
        }
    }

    /// Returns the name of the object with this number, if a program has registered it.
    pub(crate) fn name_of(&self, number: u64) -> Option<String> {
        let objects = self.objects.borrow();
        let index = objects.binary_search_by_key(&number, |object| object.number).ok()?;
        Some(objects[index].name.clone())
    }

    /// Returns the interface of the object that the server answers itself.
    pub(crate) fn built_in_interface(&self) -> Option<&'static Interface> {
        self.built_in.get().map(|object| object.dispatcher.interface())
    }

    #[cold]
    fn built_in(&self, number: u64) -> Option<Rc<Registered>> {
        let object = self.built_in.get().filter(|object| object.number == number)?;
        Some(Rc::clone(&object.dispatcher))
    }

    /// Returns all objects and their interfaces, sorted by name.
    pub(crate) fn descriptions(&self) -> Vec<(String, &'static Interface)> {
        let objects = self.objects.borrow();
        let all = objects.iter().map(|it| (it.name.clone(), it.dispatcher.interface()));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Returns the names, interfaces and counters of all objects, also of the one that the server
    /// answers itself.
    pub(crate) fn counters(&self) -> Vec<(String, &'static Interface, Rc<ObjectCounters>)> {
        let objects = self.objects.borrow();
        let all = objects.iter().chain(self.built_in.get());
        all.map(|object| {
            let dispatcher = &object.dispatcher;
            (object.name.clone(), dispatcher.interface(), Rc::clone(dispatcher.counters()))
        })
        .collect()
    }

    /// Returns the names of all objects, sorted by number.
    pub(crate) fn names(&self) -> Vec<String> {
        self.objects.borrow().iter().map(|object| object.name.clone()).collect()
    }

    /// Returns the status of a call to an object that is not here.
    #[cold]
    pub(crate) fn no_such_object(&self) -> Status {
        let mut names = self.names();
        names.sort_unstable();
        names.truncate(OBJECT_NAMES_MAX);
        let has = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Status::unimplemented(format!("no such object; this server has {has}"))
            .with_lack(Lack::NoSuchObject)
    }

    /// Notes where callers of this thread find the objects.
    pub(crate) fn add_place(&self, at: At) {
        self.places.borrow_mut().push(at);
    }

    /// Forgets all places.
    pub(crate) fn clear_places(&self) {
        self.places.borrow_mut().clear();
    }
}
