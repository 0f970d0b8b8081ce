//! An interface as generated code describes it: its name, its methods, its description.
//!
//! **Invariants:** an id is a stable hash of a name, so it is the same in every build.
//! **Not here:** making them from a `.proto` file (`nearcall-build`).

use std::time::Duration;

/// A method of an interface.
///
/// Listed by [`Interface::methods`].
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// Its number on the wire: FNV-1a of `package.Service/Method`, 32 bits.
    pub id: u32,
    /// Its name in the `.proto` file.
    pub name: &'static str,
    /// Its shape.
    pub kind: MethodKind,
    /// The deadline of a call that has no other, from the option `nearcall.deadline_ms`.
    pub deadline: Option<Duration>,
    /// Whether a call of it may be made again, from the option `idempotency_level`.
    pub idempotency: Idempotency,
}

impl Method {
    /// Creates the description of a method without options.
    pub const fn new(id: u32, name: &'static str, kind: MethodKind) -> Self {
        Self { id, name, kind, deadline: None, idempotency: Idempotency::Unknown }
    }

    /// Returns the number of a method on the wire, as [`id`](Self::id) has it.
    pub fn id_of(interface: &str, name: &str) -> u32 {
        let bytes = interface.bytes().chain(*b"/").chain(name.bytes());
        bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// Sets the deadline of a call that has no other, in ms.
    #[must_use]
    pub const fn with_deadline_ms(self, deadline: u64) -> Self {
        Self { deadline: Some(Duration::from_millis(deadline)), ..self }
    }

    /// Sets whether a call may be made again.
    #[must_use]
    pub const fn with_idempotency(self, idempotency: Idempotency) -> Self {
        Self { idempotency, ..self }
    }

    /// Returns whether a call of it may be made again although the first one may have run.
    pub fn is_idempotent(&self) -> bool {
        self.idempotency != Idempotency::Unknown
    }
}

/// Whether the second of two equal calls of a method changes anything.
///
/// Declared in `.proto` by `idempotency_level`. A
/// [`ReconnectPolicy`](crate::client::ReconnectPolicy) repeats a call that may have run only if its
/// method says that this is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idempotency {
    /// The `.proto` file does not say. A call that may have run is not made again.
    #[default]
    Unknown,
    /// No call of it changes anything: `NO_SIDE_EFFECTS`.
    NoSideEffects,
    /// The second of two equal calls changes nothing: `IDEMPOTENT`.
    Idempotent,
}

/// The shape of a method: how many messages each side sends.
///
/// See [`Method::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// One request, one reply.
    Unary,
    /// One request, and no reply: the option `nearcall.oneway`.
    Oneway,
    /// One request, a stream of replies.
    ReplyStream,
    /// A stream of requests, one reply.
    RequestStream,
    /// A stream of requests, and a stream of replies.
    BothStreams,
}

/// A `service` of a `.proto` file.
///
/// Generated code has one for each, such as `ThermostatCaller::INTERFACE`; a dispatcher's is
/// [`Dispatcher::interface`](crate::service::Dispatcher::interface).
#[derive(Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name with its package, such as `home.v1.Thermostat`.
    pub name: &'static str,
    /// All of its methods.
    pub methods: &'static [&'static Method],
    /// An encoded `google.protobuf.FileDescriptorSet`: the files of the package and their imports,
    /// without `google/protobuf/descriptor.proto`, which every reflection library has built in.
    pub descriptor_set: &'static [u8],
    /// Its messages are not decoded here, but passed on as bytes.
    pub(crate) is_encoded: bool,
}

impl Interface {
    /// Describes an interface. Generated code has the descriptions of the interfaces that a program
    /// was built with; those that it learns of when it runs, [`interface_from_descriptor_set`]
    /// makes.
    ///
    /// [`interface_from_descriptor_set`]: crate::dynamic::interface_from_descriptor_set
    pub const fn new(
        name: &'static str,
        methods: &'static [&'static Method],
        descriptor_set: &'static [u8],
    ) -> Self {
        Self { name, methods, descriptor_set, is_encoded: false }
    }

    /// Returns the same for messages that are passed on as bytes.
    pub(crate) const fn of_bytes(self) -> Self {
        Self { is_encoded: true, ..self }
    }

    /// Returns the method with this name.
    pub fn method_named(&self, name: &str) -> Option<&'static Method> {
        self.methods.iter().copied().find(|method| method.name == name)
    }

    /// The method with this number.
    pub fn method(&self, id: u32) -> Option<&'static Method> {
        self.methods.iter().copied().find(|method| method.id == id)
    }

    /// The name of an object with this interface: that of the interface, or `interface@instance`.
    pub(crate) fn object_name(&self, instance: Option<&str>) -> String {
        match instance {
            Some(instance) => format!("{}@{instance}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// The number of an object on the wire: FNV-1a of its name, 64 bits.
pub(crate) fn object_id(name: &str) -> u64 {
    fnv1a(name.as_bytes())
}

/// Returns FNV-1a of some bytes, 64 bits.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_published_hash() {
        assert_eq!(object_id(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(object_id("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(object_id("foobar"), 0x8594_4171_f739_67e8);
        // As generated code has them.
        assert_eq!(Method::id_of("home.v1.Thermostat", "SetTarget"), 0x8186_deca);
        assert_eq!(Method::id_of("home.v1.Thermostat", "Note"), 0x4737_ff79);
    }
}
