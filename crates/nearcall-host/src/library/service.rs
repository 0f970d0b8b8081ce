//! A service of a loaded library: its instance, checked, and the dispatchers of its objects.
//!
//! **Invariants:** what a library says of its interfaces was checked before any of them is called:
//! the numbers of the methods are those that callers compute, and none has a stream.
//! **Not here:** the file and the symbol (`nearcall_os::library`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nearcall::service::{Dispatcher, Idempotency, Incoming, Interface, Method, MethodKind};
use nearcall_os::library::{
    Instance, Library, LibraryFile, LoadError, MethodPart, ObjectPart, PendingReply, RequestPart,
};

use super::LibraryConfig;
use super::watchdog::{CallGuard, Watched};

/// A service of a library.
pub(super) struct Service {
    instance: Instance,
    objects: Vec<Object>,
    watched: Arc<Watched>,
}

/// An object of a service.
pub(super) struct Object {
    pub(super) interface: &'static Interface,
    /// Empty: the only one of its interface.
    pub(super) instance: String,
    /// Other threads than that of its loop may call it.
    pub(super) is_nonblocking: bool,
}

impl Object {
    /// Returns the name by which callers know it.
    pub(super) fn name(&self) -> String {
        match &*self.instance {
            "" => self.interface.name.to_owned(),
            instance => format!("{}@{instance}", self.interface.name),
        }
    }
}

impl Service {
    /// Loads a library and makes its service.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, with what it exports, or with the interfaces.
    pub(super) fn load(config: &LibraryConfig) -> Result<Self, LoadError> {
        let library = Library::load(LibraryFile::open(&config.file)?)?;
        let instance = library.create(&config.name, &config.arguments)?;
        let objects = read_objects(config, &instance)?;
        let watched = Arc::new(Watched {
            name: config.name.clone(),
            limit: config.watchdog,
            interfaces: objects.iter().map(|object| object.interface).collect(),
            overdue: AtomicU64::new(0),
        });
        Ok(Self { instance, objects, watched })
    }

    pub(super) fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Has the library serve a call of the object with this number.
    pub(super) fn dispatch(
        &self,
        object: u32,
        request: &RequestPart<'_>,
        reply: Box<dyn PendingReply>,
    ) {
        let _guard = CallGuard::enter(&self.watched, object, request.method);
        self.instance.dispatch(&RequestPart { object, ..*request }, reply);
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("name", &self.watched.name).finish_non_exhaustive()
    }
}

/// Brings calls to an object of a library.
#[derive(Debug, Clone)]
pub(super) struct LibraryDispatcher {
    service: Arc<Service>,
    index: usize,
}

impl LibraryDispatcher {
    pub(super) fn new(service: &Arc<Service>, index: usize) -> Self {
        Self { service: Arc::clone(service), index }
    }
}

impl Dispatcher for LibraryDispatcher {
    fn interface(&self) -> &'static Interface {
        self.service.objects[self.index].interface
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        let object = u32::try_from(self.index).unwrap_or(u32::MAX);
        incoming.forward(|request, call| self.service.dispatch(object, request, Box::new(call)));
    }
}

/// Reads the objects of an instance and checks them. Their descriptions are never released, as the
/// library is not.
fn read_objects(config: &LibraryConfig, instance: &Instance) -> Result<Vec<Object>, LoadError> {
    let error = |why: String, remedy: &'static str| LoadError::Service {
        file: config.file.clone(),
        why,
        remedy,
    };
    let parts = instance.objects()?;
    if parts.is_empty() {
        let why = "the service has no object".to_owned();
        return Err(error(why, "register one in the function given to `service_main!`"));
    }
    let found: BTreeSet<&str> = parts.iter().map(|part| part.interface).collect();
    for expected in &config.interfaces {
        if !found.contains(expected.as_str()) {
            let found = found.iter().copied().collect::<Vec<_>>().join(", ");
            let why = format!("the library has no interface {expected}; it has {found}");
            return Err(error(why, "install the library of that version, or change `interfaces`"));
        }
    }
    let mut objects = Vec::with_capacity(parts.len());
    for part in &parts {
        let check = |method: &MethodPart<'_>| check_method(part.interface, method);
        let methods: Result<Vec<_>, _> = part.methods.iter().map(check).collect();
        let methods = methods.map_err(|(why, remedy)| error(why, remedy))?;
        objects.push(Object {
            interface: Box::leak(Box::new(describe(part, methods))),
            instance: part.instance.to_owned(),
            is_nonblocking: part.is_nonblocking,
        });
    }
    Ok(objects)
}

/// Checks a method that a library describes.
fn check_method(
    interface: &str,
    method: &MethodPart<'_>,
) -> Result<&'static Method, (String, &'static str)> {
    let MethodPart { id, name, kind } = *method;
    let expected = Method::id_of(interface, name);
    if id != expected {
        let why = format!(
            "method {interface}/{name} has the number {id:#x}, and callers know it by {expected:#x}"
        );
        return Err((why, "generate the code of the library anew"));
    }
    let kind = match kind {
        0 => MethodKind::Unary,
        1 => MethodKind::Oneway,
        _ => {
            let why =
                format!("method {interface}/{name} has a stream, which a library cannot have");
            return Err((why, "run this service as a process: `run = \"process\"`"));
        }
    };
    let name = Box::leak(name.to_owned().into_boxed_str());
    // Only callers look at it.
    let idempotency = Idempotency::Unknown;
    Ok(Box::leak(Box::new(Method { id, name, kind, deadline: None, idempotency })))
}

fn describe(part: &ObjectPart<'_>, methods: Vec<&'static Method>) -> Interface {
    Interface::new(
        Box::leak(part.interface.to_owned().into_boxed_str()),
        Box::leak(methods.into_boxed_slice()),
        Box::leak(part.descriptor_set.to_owned().into_boxed_slice()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_does_not_fit_is_refused_with_the_remedy() {
        let check = |id, kind| {
            let method = MethodPart { id, kind, name: "SetTarget" };
            check_method("home.v1.Thermostat", &method).map(drop).unwrap_err()
        };
        let (why, remedy) = check(7, 0);
        assert!(
            why.contains("SetTarget has the number 0x7") && why.contains("0x8186deca"),
            "{why}"
        );
        assert!(remedy.contains("generate"), "{remedy}");
        let (why, remedy) = check(0x8186_deca, 2);
        assert!(why.contains("SetTarget has a stream"), "{why}");
        assert!(remedy.contains("run = \"process\""), "{remedy}");
    }
}
