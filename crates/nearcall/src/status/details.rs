//! The details of an error: messages that say more than its code, as gRPC carries them.
//!
//! They travel as one entry of its metadata, whose value is an encoded `google.rpc.Status`.
//! **Invariants:** bytes of a peer that are no such message give no details, and no error.
//! **Not here:** how metadata travel (`metadata.rs`).

use prost::{Message, Name};
use prost_types::Any;

use super::Status;
use crate::metadata::BadMetadata;

/// The key under which gRPC sends them.
const KEY: &str = "grpc-status-details-bin";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

impl Status {
    /// Sends messages with the error that say more than its code, behind those that it has. The
    /// caller reads them by [`details`](Self::details); callers of gRPC find them in the metadata
    /// `grpc-status-details-bin`, an encoded `google.rpc.Status`.
    ///
    /// ```
    /// use nearcall::Status;
    /// use nearcall::prost_types::{Any, Duration};
    ///
    /// let retry_in = Duration { seconds: 2, nanos: 0 };
    /// let busy = Status::unavailable("busy").with_details([Any::from_msg(&retry_in).unwrap()])?;
    /// assert_eq!(busy.details::<Duration>(), [retry_in]);
    /// # Ok::<(), Status>(())
    /// ```
    ///
    /// # Errors
    ///
    /// All details together are longer than metadata can be.
    pub fn with_details(
        mut self,
        details: impl IntoIterator<Item = Any>,
    ) -> Result<Self, BadMetadata> {
        let mut all = self.all_details();
        all.extend(details);
        let (code, message) = (self.code.number().into(), self.message.clone());
        let value = RpcStatus { code, message, details: all }.encode_to_vec();
        self.metadata.get_or_insert_default().trailers.set(KEY, &value)?;
        Ok(self)
    }

    /// Works like [`with_details`](Self::with_details), with one message of the type that
    /// `type_url` names, such as `type.googleapis.com/google.rpc.RetryInfo`.
    ///
    /// # Errors
    ///
    /// As [`with_details`](Self::with_details).
    pub fn with_detail_message(
        self,
        message: &impl Message,
        type_url: impl Into<String>,
    ) -> Result<Self, BadMetadata> {
        self.with_details([Any { type_url: type_url.into(), value: message.encode_to_vec() }])
    }

    /// Returns the details of this type, in their order. Those that cannot be decoded are left out.
    pub fn details<T: Message + Name + Default>(&self) -> Vec<T> {
        self.all_details().iter().filter_map(|detail| detail.to_msg().ok()).collect()
    }

    /// Returns the details as they travel: an encoded `google.rpc.Status`, which was not checked.
    pub fn details_bytes(&self) -> Option<&[u8]> {
        self.metadata().get_bin(KEY)
    }

    fn all_details(&self) -> Vec<Any> {
        let status = self.details_bytes().and_then(|bytes| RpcStatus::decode(bytes).ok());
        status.map_or_else(Vec::new, |status| status.details)
    }
}

#[cfg(test)]
mod tests {
    use prost_types::{Duration, Timestamp};

    use super::*;
    use crate::metadata::Metadata;
    use crate::status::Code;

    fn two_details() -> Status {
        let first = Any::from_msg(&Duration { seconds: 2, nanos: 0 }).unwrap();
        let status = Status::aborted("busy").with_details([first]).unwrap();
        let last = Timestamp { seconds: 7, nanos: 0 };
        status.with_detail_message(&last, Timestamp::type_url()).unwrap()
    }

    #[test]
    fn details_are_the_message_of_grpc() {
        let url = b"type.googleapis.com/google.protobuf.";
        let any = |name: &[u8], seconds: u8| {
            let url = [url, name].concat();
            let length = u8::try_from(url.len()).unwrap();
            [&[0x1a, length + 6, 0x0a, length], &url[..], &[0x12, 2, 0x08, seconds]].concat()
        };
        let expected = [&b"\x08\x0a\x12\x04busy"[..], &any(b"Duration", 2), &any(b"Timestamp", 7)];
        let status = two_details();
        assert_eq!(status.details_bytes(), Some(&expected.concat()[..]));
        assert_eq!(status.metadata().iter().count(), 1, "both are in one entry");
    }

    #[test]
    fn details_are_found_by_their_type() {
        let sent = two_details().with_metadata("room", "attic").unwrap();
        let status = Status::from_peer(Code::Aborted, sent.metadata().as_bytes(), b"busy");
        assert_eq!(status.details::<Duration>(), [Duration { seconds: 2, nanos: 0 }]);
        assert_eq!(status.details::<Timestamp>(), [Timestamp { seconds: 7, nanos: 0 }]);
        assert_eq!(status.details::<Any>(), []);
        assert_eq!(status.metadata().get("room"), Some("attic"));
        let plain = Status::aborted("");
        assert_eq!((plain.details_bytes(), plain.details::<Duration>()), (None, vec![]));
    }

    #[test]
    fn malformed_details_are_none() {
        let bad = Any { type_url: Duration::type_url(), value: vec![0xff] };
        let good = Any::from_msg(&Duration::default()).unwrap();
        let status = Status::aborted("").with_details([bad, good]).unwrap();
        assert_eq!(status.details::<Duration>(), [Duration::default()], "the bad one is left out");
        for bytes in [&b"\xff"[..], b"\x1a\x7f", b"\x12\x01\xff", b"\x1a\x02\x0a\x05", b""] {
            let status = Status::aborted("").with_metadata_bin(KEY, bytes).unwrap();
            let travels = status.metadata().as_bytes();
            assert_eq!(Metadata::new(travels).iter().count(), 1);
            let status = Status::from_peer(Code::Aborted, travels, b"");
            assert_eq!(status.details_bytes(), Some(bytes));
            assert_eq!(status.details::<Duration>(), [], "{bytes:?}");
        }
    }

    #[test]
    fn too_many_details_are_refused() {
        let long = Any { type_url: String::new(), value: vec![0; 65_536] };
        let error = Status::aborted("").with_details([long]).unwrap_err();
        assert!(error.to_string().contains(KEY), "{error}");
    }
}
