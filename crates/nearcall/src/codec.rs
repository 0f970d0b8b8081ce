//! The seam to the library that turns messages into bytes and back.
//!
//! Always true: everything else in this crate and all generated code name messages by what stands
//! here, so that another library can take prost's place.
//! Not here: frames and metadata.

pub use prost::Message;

use crate::status::Status;

/// Length of `message` in bytes.
#[inline]
pub(crate) fn encoded_bytes(message: &impl Message) -> usize {
    message.encoded_len()
}

/// Writes `message` into the first bytes of `into`, which has room for all of it.
#[inline]
pub(crate) fn encode_into(message: &impl Message, mut into: &mut [u8]) -> Result<(), Status> {
    let encoded = message.encode(&mut into);
    encoded.map_err(|error| Status::internal(format!("cannot encode the message: {error}")))
}

/// Reads a message that a peer sent. Copies what the message owns.
#[inline]
pub(crate) fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| bad_bytes(&error))
}

#[cold]
fn bad_bytes(error: &prost::DecodeError) -> Status {
    // The text of a deep nesting names every level.
    let mut text = error.to_string();
    if let Some((cut, _)) = text.char_indices().nth(ERROR_CHARS_MAX) {
        text.truncate(cut);
        text.push_str("...");
    }
    Status::internal(format!("the message cannot be decoded: {text}"))
}

/// What is kept of the library's error text, in characters: two lines of a terminal.
const ERROR_CHARS_MAX: usize = 160;
