//! Messages as the bytes that they are: what tonic would marshal passes as it came.
//!
//! **Invariants:** a message is copied once, from or to the buffer of HTTP/2.
//! **Not here:** compression and the limits of lengths, which are tonic's.
//!
//! **Invariant:** a message is decompressed no further than its limit, and streams that have no
//! reader hold their windows only. *Checked by*
//! `a_message_is_decompressed_no_further_than_the_limit`, `streams_that_nobody_reads_keep_little`.

use bytes::{Buf, BufMut};
use nearcall::dynamic::Encoded;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A codec for both directions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Encoded;
    type Decode = Encoded;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, message: Encoded, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message.into_bytes());
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Encoded;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Encoded>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).into()))
    }
}
