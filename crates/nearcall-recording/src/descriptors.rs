//! The interfaces of a recording, by the descriptors in its header.
//!
//! **Not here:** those of the server that a recording is replayed to.

use std::collections::BTreeMap;

use nearcall::control::RecordingHeader;
use prost_reflect::{DescriptorPool, MethodDescriptor};

/// The methods of the interfaces of a recording.
#[derive(Debug, Default)]
pub struct Descriptors {
    methods: BTreeMap<(String, String), MethodDescriptor>,
}

impl Descriptors {
    /// Reads the descriptors of a header. An interface whose descriptors cannot be read has no
    /// methods.
    #[must_use]
    pub fn new(header: &RecordingHeader) -> Self {
        let mut methods = BTreeMap::new();
        for interface in &header.interfaces {
            // Those of `google.protobuf` are in none of the sets.
            let mut pool = DescriptorPool::global();
            if pool.decode_file_descriptor_set(&interface.descriptor_set[..]).is_err() {
                continue;
            }
            let service = pool.get_service_by_name(&interface.name);
            for method in service.iter().flat_map(|service| service.methods()) {
                methods.insert((interface.name.clone(), method.name().to_owned()), method);
            }
        }
        Self { methods }
    }

    /// Returns a method of an interface.
    #[must_use]
    pub fn method(&self, interface: &str, method: &str) -> Option<&MethodDescriptor> {
        self.methods.get(&(interface.to_owned(), method.to_owned()))
    }
}

/// Returns whether a method may be called twice, by its option `idempotency_level`.
pub(crate) fn is_idempotent(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.idempotency_level.unwrap_or_default() != 0)
}
