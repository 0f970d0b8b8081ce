//! Interfaces from descriptor sets.
//!
//! **Invariants:** an interface lives as long as the process, as those of generated code do; equal
//! ones are one; what all of them take is bounded.
//! **Not here:** the types of messages: none is decoded here.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prost::Message as _;

use crate::interface::{Idempotency, Interface, Method, MethodKind, fnv1a};
use crate::limits::{
    DESCRIPTOR_SET_BYTES_MAX, DYNAMIC_INTERFACES_BYTES_MAX, DYNAMIC_INTERFACES_MAX,
    OBJECT_NAME_BYTES_MAX,
};
use crate::status::Status;

/// Those parts of a `google.protobuf.FileDescriptorSet` that say how to call a service, with the
/// options of `nearcall/options.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct FileSet {
    #[prost(message, repeated, tag = "1")]
    file: Vec<File>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    service: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<MethodParts>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MethodParts {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    options: Option<MethodOptions>,
    #[prost(bool, tag = "5")]
    client_streaming: bool,
    #[prost(bool, tag = "6")]
    server_streaming: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MethodOptions {
    #[prost(int32, tag = "34")]
    idempotency_level: i32,
    /// `nearcall.oneway`
    #[prost(bool, tag = "51001")]
    oneway: bool,
    /// `nearcall.deadline_ms`
    #[prost(uint32, optional, tag = "51002")]
    deadline_ms: Option<u32>,
}

/// The interfaces that were made, by the hashes of their names and descriptor sets.
#[derive(Default)]
struct Known {
    interfaces: HashMap<(u64, u64), Vec<&'static Interface>>,
    count: usize,
    bytes: usize,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Returns the interface of `service`, such as `home.v1.Thermostat`, from an encoded
/// `google.protobuf.FileDescriptorSet`. Its messages are passed on as bytes: use it with
/// [`Encoded`](crate::dynamic::Encoded).
///
/// It is never released; asked for the same again, it returns the same.
///
/// # Errors
///
/// `INVALID_ARGUMENT`: the bytes are no descriptor set, or it has no such service.
/// `RESOURCE_EXHAUSTED`: it has more than 1 MiB, or this process has more than 1,024 such
/// interfaces or 64 MiB of them.
pub fn interface_from_descriptor_set(
    descriptor_set: &[u8],
    service: &str,
) -> Result<&'static Interface, Status> {
    if descriptor_set.len() > DESCRIPTOR_SET_BYTES_MAX {
        return Err(Status::resource_exhausted(format!(
            "the descriptor set of {} has {} bytes, above the limit of {DESCRIPTOR_SET_BYTES_MAX} \
             bytes; leave files out that it does not import",
            service.escape_debug(),
            descriptor_set.len()
        )));
    }
    intern(service, descriptor_set, || methods_of(descriptor_set, service))
}

/// Returns an interface of which the name alone is known, for an object whose server is asked for
/// the rest.
pub(super) fn interface_named(service: &str) -> Result<&'static Interface, Status> {
    if service.is_empty() || service.len() > OBJECT_NAME_BYTES_MAX {
        return Err(Status::invalid_argument(format!(
            "an interface has a name of 1 to {OBJECT_NAME_BYTES_MAX} bytes, such as \
             `home.v1.Thermostat`"
        )));
    }
    intern(service, &[], || Ok(Vec::new()))
}

fn intern(
    service: &str,
    descriptor_set: &[u8],
    methods: impl FnOnce() -> Result<Vec<Method>, Status>,
) -> Result<&'static Interface, Status> {
    let hashes = (fnv1a(service.as_bytes()), fnv1a(descriptor_set));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let same = known.interfaces.get(&hashes).into_iter().flatten();
    let same = same.copied().find(|it| it.name == service && it.descriptor_set == descriptor_set);
    if let Some(interface) = same {
        return Ok(interface);
    }
    let methods = methods()?;
    let bytes = service.len() + descriptor_set.len();
    if known.count >= DYNAMIC_INTERFACES_MAX || known.bytes + bytes > DYNAMIC_INTERFACES_BYTES_MAX {
        return Err(Status::resource_exhausted(format!(
            "this process knows {} interfaces by their descriptions ({} bytes), and keeps at most \
             {DYNAMIC_INTERFACES_MAX} ({DYNAMIC_INTERFACES_BYTES_MAX} bytes); restart it",
            known.count, known.bytes
        )));
    }
    let leaked = |method| &*Box::leak(Box::new(method));
    let methods: Vec<&'static Method> = methods.into_iter().map(leaked).collect();
    let interface = Interface::new(
        Box::leak(service.to_owned().into_boxed_str()),
        Box::leak(methods.into_boxed_slice()),
        Box::leak(descriptor_set.to_owned().into_boxed_slice()),
    );
    let interface: &'static Interface = Box::leak(Box::new(interface.of_bytes()));
    known.interfaces.entry(hashes).or_default().push(interface);
    (known.count, known.bytes) = (known.count + 1, known.bytes + bytes);
    Ok(interface)
}

fn methods_of(descriptor_set: &[u8], service: &str) -> Result<Vec<Method>, Status> {
    let set = FileSet::decode(descriptor_set).map_err(|error| {
        Status::invalid_argument(format!("these bytes are no descriptor set: {error}"))
    })?;
    let found = set.file.iter().find_map(|file| {
        let name = match file.package.as_str() {
            "" => service,
            package => service.strip_prefix(package)?.strip_prefix('.')?,
        };
        file.service.iter().find(|it| it.name == name)
    });
    let Some(found) = found else {
        return Err(Status::invalid_argument(format!(
            "the descriptor set has no service {}",
            service.escape_debug()
        )));
    };
    let methods: Vec<Method> = found.method.iter().map(|it| method_of(service, it)).collect();
    for (index, method) in methods.iter().enumerate() {
        if let Some(other) = methods[..index].iter().find(|other| other.id == method.id) {
            return Err(Status::invalid_argument(format!(
                "the methods {} and {} of {service} have the same number; rename one",
                other.name, method.name
            )));
        }
    }
    Ok(methods)
}

fn method_of(service: &str, parts: &MethodParts) -> Method {
    let options = parts.options.clone().unwrap_or_default();
    let kind = match (parts.client_streaming, parts.server_streaming) {
        (false, false) if options.oneway => MethodKind::Oneway,
        (false, false) => MethodKind::Unary,
        (false, true) => MethodKind::ReplyStream,
        (true, false) => MethodKind::RequestStream,
        (true, true) => MethodKind::BothStreams,
    };
    let idempotency = match options.idempotency_level {
        1 => Idempotency::NoSideEffects,
        2 => Idempotency::Idempotent,
        _ => Idempotency::Unknown,
    };
    let deadline = options.deadline_ms.map(|ms| Duration::from_millis(ms.into()));
    let name = Box::leak(parts.name.clone().into_boxed_str());
    Method { id: Method::id_of(service, name), name, kind, deadline, idempotency }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ServerCaller;
    use crate::status::Code;

    const SERVER: &Interface = ServerCaller::INTERFACE;

    #[test]
    fn a_description_says_what_generated_code_says() {
        let made = interface_from_descriptor_set(SERVER.descriptor_set, SERVER.name).unwrap();
        assert_eq!((made.name, made.methods), (SERVER.name, SERVER.methods));
        let again = interface_from_descriptor_set(SERVER.descriptor_set, SERVER.name).unwrap();
        assert!(std::ptr::eq(made, again), "equal ones are one");
        assert_eq!(made.method_named("Describe").unwrap().id, made.methods[0].id);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        let refuse =
            |set: &[u8], service: &str| interface_from_descriptor_set(set, service).unwrap_err();
        for service in ["", "nearcall.v1", "nearcall.v1.Serve", "Server", "nearcall.v1.Server.x"] {
            let error = refuse(SERVER.descriptor_set, service);
            assert_eq!(error.code(), Code::InvalidArgument, "{service}");
            assert!(error.message().contains("has no service"), "{error}");
        }
        let cut = &SERVER.descriptor_set[..SERVER.descriptor_set.len() - 1];
        assert!(refuse(cut, SERVER.name).message().contains("no descriptor set"));
        let long = refuse(&vec![0; DESCRIPTOR_SET_BYTES_MAX + 1], "a.B");
        assert_eq!(long.code(), Code::ResourceExhausted, "{long}");
        assert!(interface_named("").is_err());
    }

    #[test]
    fn the_shapes_of_methods_come_from_the_description() {
        let method = |name: &str, client_streaming, server_streaming, options| MethodParts {
            name: name.into(),
            client_streaming,
            server_streaming,
            options,
        };
        let oneway = MethodOptions { oneway: true, ..MethodOptions::default() };
        let quick = MethodOptions { deadline_ms: Some(20), idempotency_level: 2, oneway: false };
        let service = Service {
            name: "B".into(),
            method: vec![
                method("One", false, false, Some(quick)),
                method("Tell", false, false, Some(oneway)),
                method("Many", false, true, None),
                method("Take", true, false, None),
                method("Both", true, true, None),
            ],
        };
        let file = File { package: String::new(), service: vec![service] };
        let set = FileSet { file: vec![file] }.encode_to_vec();
        let interface = interface_from_descriptor_set(&set, "B").unwrap();
        let kinds: Vec<_> = interface.methods.iter().map(|method| method.kind).collect();
        use MethodKind::{BothStreams, Oneway, ReplyStream, RequestStream, Unary};
        assert_eq!(kinds, [Unary, Oneway, ReplyStream, RequestStream, BothStreams]);
        let one = interface.methods[0];
        assert_eq!(one.deadline, Some(Duration::from_millis(20)));
        assert_eq!(one.idempotency, Idempotency::Idempotent);
    }
}
