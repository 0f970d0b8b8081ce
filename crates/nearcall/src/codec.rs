//! The seam to the library that turns messages into bytes and back.
//!
//! **Invariants:** everything else in this crate and all generated code name messages by what
//! stands here, so that another library can take prost's place.
//! **Not here:** frames and metadata, where marshalled bytes go (`nearcall_os::sink`).

use std::slice;
use std::sync::OnceLock;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType};

pub use prost::Message;

use crate::borrowed::{BorrowedBody, BorrowedSegments};
use crate::bounded_prost::{self, TOO_DEEP_BYTES};
use crate::limits::MESSAGE_DEPTH_MAX;
use crate::status::Status;

/// Length of `message` in bytes. Above every limit if it is nested too deeply.
#[inline]
pub(crate) fn encoded_bytes(message: &impl Message) -> usize {
    bounded_prost::measure(message)
}

/// Length of `message` in bytes for whoever only reports it; 0 if it is nested too deeply to be
/// sent.
pub(crate) fn reported_bytes(message: &impl Message) -> usize {
    Some(encoded_bytes(message)).filter(|bytes| !is_too_deep(*bytes)).unwrap_or_default()
}

/// Returns whether [`encoded_bytes`] has returned this of a message that is nested too deeply.
#[inline]
pub(crate) fn is_too_deep(encoded_bytes: usize) -> bool {
    (TOO_DEEP_BYTES..2 * TOO_DEEP_BYTES).contains(&encoded_bytes)
}

/// Returns the status of a message that is nested too deeply to be sent.
#[cold]
pub(crate) fn too_deep(what: &str) -> Status {
    Status::resource_exhausted(format!(
        "the {what} has more than {MESSAGE_DEPTH_MAX} levels of messages within messages, the \
         limit of the encoding; send a list whose elements name each other, or a stream"
    ))
}

/// Returns the length in bytes of `what`, such as a request.
///
/// # Errors
///
/// `RESOURCE_EXHAUSTED`: it is nested too deeply to be sent.
#[inline]
pub(crate) fn checked_bytes(message: &impl Message, what: &str) -> Result<usize, Status> {
    let message_bytes = encoded_bytes(message);
    match is_too_deep(message_bytes) {
        true => Err(too_deep(what)),
        false => Ok(message_bytes),
    }
}

/// Returns `message` as bytes.
///
/// # Errors
///
/// `RESOURCE_EXHAUSTED`: it is nested too deeply.
pub(crate) fn encode_vec(message: &impl Message) -> Result<Vec<u8>, Status> {
    Ok(encode_vec_of(message, checked_bytes(message, "message")?))
}

fn encode_vec_of(message: &impl Message, message_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message_bytes);
    message.encode_raw(&mut bytes);
    bytes
}

/// Writes `message` into the first bytes of `into`, which has room for all of it.
#[inline]
pub(crate) fn encode_into(message: &impl Message, mut into: &mut [u8]) -> Result<(), Status> {
    let encoded = message.encode(&mut into);
    encoded.map_err(|error| Status::internal(format!("cannot encode the message: {error}")))
}

/// Writes `message` where there is always room.
#[inline]
pub(crate) fn encode_all(message: &impl Message, into: &mut impl BufMut) {
    message.encode_raw(into);
}

/// The bytes of a message that a peer sent, as a codec reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a> {
    rest: &'a [u8],
    /// The buffer that they are part of, if long fields may become slices of it.
    whole: Option<&'a Bytes>,
    /// The bytes in memory of the peer; `rest` is all the others.
    borrowed: Option<&'a BorrowedSegments>,
}

impl<'a> Body<'a> {
    /// Bytes that a message copies what it owns from.
    #[inline]
    pub(crate) fn copied(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, whole: None, borrowed: None }
    }

    /// All of `whole` behind its first `start` bytes.
    pub(crate) fn sliced(whole: &'a Bytes, start: usize) -> Self {
        Self { rest: whole.get(start..).unwrap_or_default(), whole: Some(whole), borrowed: None }
    }

    /// The rest of a message, and its lent parts.
    pub(crate) fn borrowed(rest: &'a [u8], borrowed: &'a BorrowedSegments) -> Self {
        Self { rest, whole: None, borrowed: Some(borrowed) }
    }

    /// Returns the bytes of the message that lie in our memory, and the lent parts.
    pub(crate) fn parts(&self) -> (&'a [u8], Option<&'a BorrowedSegments>) {
        (self.rest, self.borrowed)
    }

    /// Returns the bytes of the message, if they lie together.
    #[inline]
    pub(crate) fn whole_bytes(&self) -> Option<&'a [u8]> {
        self.borrowed.is_none().then_some(self.rest)
    }

    /// Returns the length of the message, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rest.len() + self.borrowed.map_or(0, BorrowedSegments::parts_bytes)
    }
}

impl Buf for Body<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self.rest
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.rest.advance(count);
    }

    #[inline]
    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        match self.whole {
            Some(whole) if count >= SLICE_BYTES_MIN && count <= self.rest.len() => {
                let (field, rest) = self.rest.split_at(count);
                self.rest = rest;
                whole.slice_ref(field)
            }
            _ => {
                let (field, rest) = self.rest.split_at(count);
                self.rest = rest;
                Bytes::copy_from_slice(field)
            }
        }
    }
}

/// The bytes of a message, for a service in another thread.
pub(crate) enum OwnedBody {
    Copied(Vec<u8>),
    Shared(Bytes),
    Borrowed(Vec<u8>, Box<BorrowedSegments>),
}

impl Body<'_> {
    /// Returns the same to be kept. A long message is shared and what was lent is moved, not
    /// copied.
    pub(crate) fn to_owned(self) -> OwnedBody {
        match (self.whole, self.borrowed) {
            (_, Some(borrowed)) => {
                OwnedBody::Borrowed(self.rest.to_vec(), Box::new(borrowed.take()))
            }
            (Some(whole), None) => OwnedBody::Shared(whole.slice_ref(self.rest)),
            (None, None) => OwnedBody::Copied(self.rest.to_vec()),
        }
    }
}

impl OwnedBody {
    pub(crate) fn as_body(&self) -> Body<'_> {
        match self {
            Self::Copied(bytes) => Body::copied(bytes),
            Self::Shared(bytes) => Body::sliced(bytes, 0),
            Self::Borrowed(rest, borrowed) => Body::borrowed(rest, borrowed),
        }
    }
}

/// A message as bytes, of whatever type: it is marshalled before it is sent, and unmarshalled after
/// it was received, by code that knows the type.
///
/// ```
/// use nearcall::dynamic::Encoded;
///
/// let message = Encoded::new(&7_u32)?;
/// assert_eq!(message.bytes()[..], [0x08, 7]);
/// assert_eq!(message.decode::<u32>()?, 7);
/// # Ok::<(), nearcall::Status>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoded(Content);

#[derive(Debug, Clone)]
enum Content {
    Whole(Bytes),
    /// Two or more.
    Parts(Box<Parts>),
}

#[derive(Debug, Clone)]
struct Parts {
    parts: Vec<Bytes>,
    /// A copy of all of them, once something has asked for it.
    whole: OnceLock<Bytes>,
}

impl Encoded {
    /// Marshals a message.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: it is nested too deeply.
    pub fn new(message: &impl Message) -> Result<Self, Status> {
        encode_vec(message).map(Self::from)
    }

    /// Puts a message together from parts of it, which are not copied. One that is a
    /// [loan](crate::client::Loan) is passed by reference.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use nearcall::dynamic::Encoded;
    ///
    /// let parts = [b"\x08", b"\x07"].map(|part| Bytes::from_static(part));
    /// let message = Encoded::from_parts(parts.to_vec());
    /// assert_eq!(message.decode::<u32>()?, 7);
    /// # Ok::<(), nearcall::Status>(())
    /// ```
    pub fn from_parts(mut parts: Vec<Bytes>) -> Self {
        match parts.len() {
            0 | 1 => Self::from(parts.pop().unwrap_or_default()),
            _ => Self(Content::Parts(Box::new(Parts { parts, whole: OnceLock::new() }))),
        }
    }

    /// Returns the parts that the message lies in: those that it was made of, or the loans of a
    /// trusted peer and what is between them.
    pub fn parts(&self) -> &[Bytes] {
        match &self.0 {
            Content::Whole(bytes) => slice::from_ref(bytes),
            Content::Parts(parts) => &parts.parts,
        }
    }

    /// Unmarshals the message, of a type that the caller knows.
    ///
    /// # Errors
    ///
    /// `INTERNAL`: these are no bytes of such a message.
    pub fn decode<M: Message + Default>(&self) -> Result<M, Status> {
        decode(self.as_body())
    }

    /// Returns the bytes. Of a message in parts it is a copy, which is made once.
    pub fn bytes(&self) -> &Bytes {
        match &self.0 {
            Content::Whole(bytes) => bytes,
            Content::Parts(parts) => parts.whole.get_or_init(|| parts.parts.concat().into()),
        }
    }

    /// Returns the bytes, owned by the caller.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Content::Whole(bytes) => bytes,
            Content::Parts(parts) => {
                parts.whole.into_inner().unwrap_or_else(|| parts.parts.concat().into())
            }
        }
    }

    /// Marshals a message of which [`checked_bytes`] has returned the length.
    pub(crate) fn of_length(message: &impl Message, message_bytes: usize) -> Self {
        Self::from(encode_vec_of(message, message_bytes))
    }

    /// Returns the message, for a reader that copies long fields no more.
    pub(crate) fn as_body(&self) -> Body<'_> {
        Body::sliced(self.bytes(), 0)
    }
}

/// From bytes of a message that something else has marshalled.
impl<B: Into<Bytes>> From<B> for Encoded {
    fn from(bytes: B) -> Self {
        Self(Content::Whole(bytes.into()))
    }
}

impl Default for Encoded {
    fn default() -> Self {
        Self::from(Bytes::new())
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Encoded {}

impl Message for Encoded {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        match &self.0 {
            Content::Whole(bytes) if bytes.len() < SLICE_BYTES_MIN => buf.put_slice(bytes),
            // Handles, which may be passed by reference where they are of loans.
            Content::Whole(bytes) => buf.put(bytes.clone()),
            Content::Parts(parts) => parts.parts.iter().for_each(|part| buf.put(part.clone())),
        }
    }

    fn encoded_len(&self) -> usize {
        self.parts().iter().map(Bytes::len).sum()
    }

    fn merge(&mut self, mut buf: impl Buf) -> Result<(), DecodeError> {
        let all = buf.remaining();
        *self = match buf.chunk().len() {
            _ if all == 0 => Self::default(),
            whole if whole >= all => Self::from(buf.copy_to_bytes(all)),
            _ => {
                let mut parts = Vec::new();
                while buf.has_remaining() {
                    parts.push(buf.copy_to_bytes(buf.chunk().len()));
                }
                Self::from_parts(parts)
            }
        };
        Ok(())
    }

    /// Not called: [`merge`](Self::merge) takes all fields.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, context)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A message as bytes that are its owner's, to be sent from where they lie. Not received: what is
/// received is [`Encoded`].
///
/// ```
/// use nearcall::dynamic::{Encoded, EncodedSlice};
///
/// let owned = vec![0x08, 7];
/// assert_eq!(Encoded::new(&EncodedSlice::new(&owned))?.decode::<u32>()?, 7);
/// # Ok::<(), nearcall::Status>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct EncodedSlice<'a>(Place<'a>);

#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Bytes(&'a [u8]),
    /// In memory that is counted.
    Counted(&'a Encoded),
}

impl<'a> EncodedSlice<'a> {
    /// Takes the bytes of a message that something else has marshalled.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Place::Bytes(bytes))
    }
}

/// From a message that may lie in a loan, which is passed by reference.
impl<'a> From<&'a Encoded> for EncodedSlice<'a> {
    fn from(encoded: &'a Encoded) -> Self {
        Self(Place::Counted(encoded))
    }
}

impl Message for EncodedSlice<'_> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        match self.0 {
            Place::Bytes(bytes) => buf.put_slice(bytes),
            Place::Counted(encoded) => encoded.encode_raw(buf),
        }
    }

    fn encoded_len(&self) -> usize {
        match self.0 {
            Place::Bytes(bytes) => bytes.len(),
            Place::Counted(encoded) => encoded.encoded_len(),
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, context)
    }

    fn clear(&mut self) {
        *self = Self::new(&[]);
    }
}

/// A message of whatever type, for code that is compiled once and sends it.
#[derive(Clone, Copy)]
pub(crate) struct AnyMessage<'a>(&'a dyn Marshal);

impl<'a> AnyMessage<'a> {
    pub(crate) fn new(message: &'a impl Message) -> Self {
        Self(message)
    }
}

/// The part of a message that sending it takes.
trait Marshal: Send + Sync {
    fn marshal(&self, into: &mut dyn BufMut);
    fn marshalled_bytes(&self) -> usize;
}

impl<M: Message> Marshal for M {
    fn marshal(&self, mut into: &mut dyn BufMut) {
        self.encode_raw(&mut into);
    }

    fn marshalled_bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl Message for AnyMessage<'_> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.0.marshal(buf);
    }

    fn encoded_len(&self) -> usize {
        self.0.marshalled_bytes()
    }

    /// Not called: it is only sent.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, context)
    }

    /// Not called: it is only sent.
    fn clear(&mut self) {}
}

/// Reads a message that a peer sent. Copies what the message owns, but for long `bytes` fields of
/// a long message and for those that were lent.
#[inline]
pub(crate) fn decode<M: Message + Default>(body: Body<'_>) -> Result<M, Status> {
    match body.borrowed {
        None => M::decode(body).map_err(|error| bad_bytes(&error)),
        Some(borrowed) => decode_borrowed(BorrowedBody::new(body.rest, borrowed)),
    }
}

#[inline(never)]
fn decode_borrowed<M: Message + Default>(body: BorrowedBody<'_>) -> Result<M, Status> {
    M::decode(body).map_err(|error| bad_bytes(&error))
}

#[cold]
fn bad_bytes(error: &DecodeError) -> Status {
    Status::internal(format!("the message cannot be decoded: {}", shorten(error.to_string())))
}

/// Returns a text of the library without its middle if it is long: that of a deep nesting names
/// every level, and what is wrong at its end.
fn shorten(text: String) -> String {
    let count = text.chars().count();
    if count <= ERROR_CHARS_MAX {
        return text;
    }
    let (first, last) = (ERROR_CHARS_MAX / 2, count - ERROR_CHARS_MAX / 2);
    let part = |from, count| text.chars().skip(from).take(count).collect::<String>();
    format!("{}...{}", part(0, first), part(last, count))
}

/// A shorter field is copied even from a buffer that could be sliced, in bytes: a slice that is
/// kept keeps the whole buffer, and a copy of a page costs no more than counting its users.
pub(crate) const SLICE_BYTES_MIN: usize = 4 << 10;

/// Most characters that are kept of the library's error text: two lines of a terminal.
const ERROR_CHARS_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_text_keeps_its_end() {
        let short = "Node.inner: recursion limit reached".to_owned();
        assert_eq!(shorten(short.clone()), short);
        let long = shorten(format!("{}é limit reached", "Node.inner: ".repeat(100)));
        assert!(long.starts_with("Node.inner: Node"), "{long}");
        assert!(long.ends_with("Node.inner: é limit reached"), "{long}");
        assert!(long.contains("...") && long.chars().count() <= ERROR_CHARS_MAX + 3, "{long}");
    }

    #[test]
    fn a_message_in_parts_is_one() {
        let parts = [&b"ab"[..], b"", b"cde"].map(Bytes::from_static).to_vec();
        let message = Encoded::from_parts(parts);
        assert_eq!((message.encoded_len(), message.parts().len()), (5, 3));
        assert_eq!(message.encode_to_vec(), b"abcde");
        assert_eq!(message, Encoded::from(&b"abcde"[..]));
        assert_eq!(message.into_bytes(), &b"abcde"[..]);
    }

    #[test]
    fn what_is_lent_stays_where_it_lies() {
        let part = Bytes::from(vec![7; 100]);
        let mut lent = BorrowedSegments::default();
        lent.push(2, part.clone());
        let message: Encoded = decode(Body::borrowed(b"xyz", &lent)).unwrap();
        assert_eq!(message.parts()[1].as_ptr(), part.as_ptr());
        assert_eq!(message.bytes()[..], [&b"xy"[..], &part, b"z"].concat());
    }

    #[test]
    fn long_fields_are_slices_and_short_ones_are_copies() {
        let whole = Bytes::from(vec![7; 3 * SLICE_BYTES_MIN]);
        let mut body = Body::sliced(&whole, 10);
        let short = body.copy_to_bytes(SLICE_BYTES_MIN - 1);
        let long = body.copy_to_bytes(SLICE_BYTES_MIN);
        assert_eq!(long.as_ptr(), whole[10 + SLICE_BYTES_MIN - 1..].as_ptr());
        assert_eq!((short.len(), long.len()), (SLICE_BYTES_MIN - 1, SLICE_BYTES_MIN));
        assert_eq!(body.remaining(), SLICE_BYTES_MIN - 9);
        let mut body = Body::copied(&whole);
        assert_ne!(body.copy_to_bytes(SLICE_BYTES_MIN).as_ptr(), whole.as_ptr());
    }
}
