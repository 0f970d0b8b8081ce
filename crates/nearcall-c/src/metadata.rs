//! What goes beside messages.
//!
//! **Invariants:** an entry whose key ends in `-bin` has bytes for its value, any other text.
//! **Not here:** which entries are allowed (`nearcall::client::BadMetadata`), reading those of a
//! reply (`results.rs`).

use nearcall::Status;
use nearcall::client::{BadMetadata, ReplyMetadata};

/// What a service has sent beside its reply. Release it by `nearcall_metadata_free`. For any
/// thread.
pub struct nearcall_metadata(pub(crate) ReplyMetadata);

/// Looks an entry up by what its key says of its value.
pub(crate) fn kind_of<'a>(
    key: &str,
    text: impl FnOnce(&str) -> Option<&'a str>,
    bytes: impl FnOnce(&str) -> Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    if key.ends_with("-bin") { bytes(key) } else { text(key).map(str::as_bytes) }
}

/// Adds an entry by what its key says of its value.
pub(crate) fn add_entry(
    key: &str,
    value: &[u8],
    text: impl FnOnce(&str, &str) -> Result<(), BadMetadata>,
    bytes: impl FnOnce(&str, &[u8]) -> Result<(), BadMetadata>,
) -> Result<(), Status> {
    let added = match (key.ends_with("-bin"), std::str::from_utf8(value)) {
        (true, _) => bytes(key, value),
        (false, Ok(value)) => text(key, value),
        (false, Err(_)) => {
            let text = format!("the value of `{key}` is not text; end the key in `-bin`");
            return Err(Status::invalid_argument(text));
        }
    };
    added.map_err(|error| Status::invalid_argument(error.to_string()))
}

pub(crate) fn give(metadata: ReplyMetadata) -> *mut nearcall_metadata {
    Box::into_raw(Box::new(nearcall_metadata(metadata)))
}
