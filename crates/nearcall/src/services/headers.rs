//! Headers that a service adds to a call: those of one that streams are where its items are, all
//! others go with its answer.
//!
//! **Not here:** sending them (`connection/headers.rs`).

use crate::metadata::BadMetadata;
use crate::services::service_stream::ServiceStream;
use crate::tasks::cancellation::Cancellation;

/// Adds an entry to the headers of a call whose method has returned, or that is `async`.
pub(crate) fn add(
    stream: Option<&ServiceStream>,
    call: &Cancellation,
    key: &str,
    value: &[u8],
) -> Result<(), BadMetadata> {
    match stream {
        Some(stream) => stream.stream.outlet.add_header(key, value),
        None => call.extras.change(|extras| extras.headers.add(key, value)),
    }
}

/// Sends the headers of such a call.
pub(crate) fn send(stream: Option<&ServiceStream>, call: &Cancellation) {
    match stream {
        Some(stream) => stream.send_headers(),
        None => call.extras.change(|extras| extras.headers.close()),
    }
}
