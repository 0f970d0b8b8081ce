//! Statuses and metadata of one side as those of the other.
//!
//! **Invariants:** a code keeps its number; what the protocols keep for themselves is not passed
//! on; what one side allows and the other does not is left out.
//! **Not here:** deadlines, which travel as `grpc-timeout`.

use nearcall::{CallOptions, Code, Status};
use tonic::metadata::{AsciiMetadataKey, BinaryMetadataKey, KeyAndValueRef, MetadataMap};

/// The key of the encoded `google.rpc.Status` of an error, at both sides.
pub(crate) const DETAILS: &str = "grpc-status-details-bin";

/// Keys that HTTP and gRPC give a meaning.
const RESERVED: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "user-agent",
];

/// Returns whether programs may send metadata with this key across.
pub(crate) fn may_pass(key: &str) -> bool {
    !key.starts_with("grpc-") && !key.starts_with("nearcall-") && !RESERVED.contains(&key)
}

/// Returns the entries of a peer that may pass, with their bytes.
pub(crate) fn entries_of(metadata: &MetadataMap) -> impl Iterator<Item = (&str, Vec<u8>)> {
    metadata.iter().filter_map(|entry| {
        let (key, value) = match entry {
            KeyAndValueRef::Ascii(key, value) => (key.as_str(), value.as_bytes().to_vec()),
            KeyAndValueRef::Binary(key, value) => (key.as_str(), value.to_bytes().ok()?.to_vec()),
        };
        may_pass(key).then_some((key, value))
    })
}

/// Adds an entry to what is sent by gRPC, if that allows it.
pub(crate) fn add_entry(metadata: &mut MetadataMap, key: &str, value: &[u8]) {
    if !may_pass(key) {
        return;
    }
    if key.ends_with("-bin") {
        if let Ok(key) = key.parse::<BinaryMetadataKey>() {
            metadata.append_bin(key, tonic::metadata::MetadataValue::from_bytes(value));
        }
    } else if let (Ok(key), Ok(value)) = (key.parse::<AsciiMetadataKey>(), value.try_into()) {
        metadata.append(key, value);
    }
}

/// Returns entries of a service for gRPC.
pub(crate) fn metadata_of<'a>(entries: impl Iterator<Item = (&'a str, &'a [u8])>) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    entries.for_each(|(key, value)| add_entry(&mut metadata, key, value));
    metadata
}

/// Returns options that send an entry of a peer as well. One that cannot be sent is left out.
pub(crate) fn with_entry(options: CallOptions, key: &str, value: &[u8]) -> CallOptions {
    // As text as well: what a value may be, its key decides.
    options.clone().metadata_bin(key, value).unwrap_or(options)
}

/// Returns an error of a nearcall server as one of gRPC.
pub(crate) fn to_grpc(status: &Status) -> tonic::Status {
    let code = tonic::Code::from_i32(status.code().number().into());
    let metadata = metadata_of(status.metadata().iter());
    let details = status.metadata().get_bin(DETAILS).unwrap_or_default().to_vec();
    tonic::Status::with_details_and_metadata(code, status.message(), details.into(), metadata)
}

/// Returns an error of a gRPC peer as one of nearcall.
pub(crate) fn from_grpc(status: &tonic::Status) -> Status {
    let number = u16::try_from(status.code() as i32).ok();
    let code = number.and_then(Code::from_number).unwrap_or(Code::Unknown);
    let mut converted = Status::new(code, status.message());
    let mut add = |key: &str, value: &[u8]| {
        if let Ok(added) = converted.clone().with_metadata_bin(key, value) {
            converted = added;
        }
    };
    if !status.details().is_empty() {
        add(DETAILS, status.details());
    }
    entries_of(status.metadata()).for_each(|(key, value)| add(key, &value));
    converted
}
