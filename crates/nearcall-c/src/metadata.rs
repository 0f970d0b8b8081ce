//! What goes beside messages.
//!
//! **Invariants:** a value is bytes; whether they have to be text, the runtime judges by the key.
//! **Not here:** which entries are allowed (`nearcall::client::BadMetadata`), reading those of a
//! reply (`results.rs`).

use nearcall::Status;
use nearcall::client::{BadMetadata, ReplyMetadata};

/// What a service has sent beside its reply. Release it by `nearcall_metadata_free`. For any
/// thread.
pub struct nearcall_metadata(pub(crate) ReplyMetadata);

#[cold]
pub(crate) fn bad_entry(error: BadMetadata) -> Status {
    Status::invalid_argument(error.to_string())
}

pub(crate) fn give(metadata: ReplyMetadata) -> *mut nearcall_metadata {
    Box::into_raw(Box::new(nearcall_metadata(metadata)))
}
