//! How much memory a message takes when it is decoded: judged before that, since an allocation that
//! fails ends the process.
//!
//! Two bytes of a message may become a struct of hundreds, so a bound of the encoded length is
//! none of the decoded size. A walk over the fields, by the shapes of their types, adds up what the
//! decoder would allocate beyond the bytes of the message itself. It allocates nothing, but for the
//! list of the parts of a message that was lent.
//! **Invariants:** what the decoder allocates is at most what was added up, but for the capacity
//! that a growing list reserves ahead (as much again, untouched); a message that breaks the rules
//! of the encoding is left to the decoder, which fails where the walk ends.
//! **Not here:** the shapes (`decoded_size/shapes.rs`), decoding (`codec.rs`).

mod shapes;
// Safe code only, and an hour of miri's time: they decode as much as a message may hold.
#[cfg(not(miri))]
#[cfg(test)]
mod tests;

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use self::shapes::{Content, Field, Shapes};
use crate::borrowed::BorrowedBody;
use crate::codec::{Body, SLICE_BYTES_MIN};
use crate::interface::Interface;
use crate::limits::JUDGED_BYTES_MIN;
use crate::status::Status;

/// What one allocation costs beyond what was asked for, in bytes: its header, rounding, and its
/// time, which is that of writing so much.
const ALLOCATION_BYTES: usize = 48;

/// Elements that a list makes room for at first, unless they are longer than [`WIDE_BYTES`].
const LIST_FIRST: usize = 4;
const WIDE_BYTES: usize = 1024;

/// What an entry of a map costs beside its key and value: mostly the time of hashing it, and of
/// hashing it again when the table grows.
const ENTRY_BYTES: usize = 144;

/// Most levels of messages within messages, as the decoder has it.
const DEPTH_MAX: u32 = 100;

/// Growth for each byte of a message whose interface has no description, as those written by hand:
/// what lists of small messages cost.
const UNDESCRIBED_GROWTH: usize = 16;

/// Capacity of a list for each of its elements, as it doubles.
const CAPACITY_PER_ELEMENT: usize = 2;

/// A short message whose bound is not above this, in bytes, is charged by it: walking over its
/// fields would cost more than it can hide.
const BOUND_BYTES_MAX: usize = 4 << 10;

/// The message of a method that is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The request, or an item of it.
    Request,
    /// The reply, or an item of it.
    Reply,
}

/// The type of a message, as the description of its interface has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageType {
    pub(crate) interface: &'static Interface,
    pub(crate) method: u32,
    pub(crate) part: Part,
}

/// What a walk over a message has found, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DecodedSize {
    /// What decoding it allocates beyond its own bytes.
    growth: usize,
    /// Those of its bytes that may become slices of the buffer that it lies in.
    sliced: usize,
}

/// Checks that a message takes at most `max` bytes beyond its own when it is decoded. Short ones
/// are not looked at: no type grows them to as much.
///
/// # Errors
///
/// `RESOURCE_EXHAUSTED`: it takes more.
#[inline]
pub(crate) fn check(
    body: &Body<'_>,
    message: MessageType,
    max: u32,
) -> Result<DecodedSize, Status> {
    match body.len() < JUDGED_BYTES_MIN {
        true => Ok(DecodedSize::default()),
        false => check_long(body, message, max),
    }
}

#[inline(never)]
fn check_long(body: &Body<'_>, message: MessageType, max: u32) -> Result<DecodedSize, Status> {
    judge(body, message, max as usize).ok_or_else(|| too_large(body.len(), max))
}

/// Returns the memory that a request takes while its call goes on after its turn: its fields, with
/// the capacity that growing lists reserve, and the buffer that fields are slices of, or that waits
/// to be decoded elsewhere. `checked` is what [`check`] has returned for it. A short one is walked
/// over unless it is small by any of its types.
pub(crate) fn retained_bytes(
    body: &Body<'_>,
    message: MessageType,
    checked: DecodedSize,
    keeps_buffer: bool,
) -> usize {
    let body_bytes = body.len();
    let DecodedSize { growth, sliced } = match body_bytes < JUDGED_BYTES_MIN {
        true => DecodedSize { growth: short_growth(body, message), sliced: 0 },
        false => checked,
    };
    let has_buffer = keeps_buffer || sliced > 0;
    let buffer_bytes = if has_buffer { body_bytes.next_power_of_two() } else { 0 };
    let growth = growth.saturating_mul(CAPACITY_PER_ELEMENT);
    growth.saturating_add(buffer_bytes + body_bytes.saturating_sub(sliced))
}

/// Returns a bound of what decoding a short message allocates.
fn short_growth(body: &Body<'_>, message: MessageType) -> usize {
    if message.interface.is_encoded {
        return 0;
    }
    let bound = body.len().saturating_mul(shapes::growth_max(message.interface));
    // The parts of one that was lent can be read once, and may have been.
    if bound <= BOUND_BYTES_MAX || body.parts().1.is_some() {
        return bound;
    }
    judge(body, message, usize::MAX).map_or(bound, |size| size.growth)
}

/// Returns what decoding a message allocates, unless that is more than `max` bytes.
fn judge(body: &Body<'_>, message: MessageType, max: usize) -> Option<DecodedSize> {
    if message.interface.is_encoded {
        return Some(DecodedSize { growth: 0, sliced: body.len() });
    }
    shapes::with(message.interface, |shapes| {
        let Some(index) = shapes.message(message.method, message.part) else {
            let growth = body.len().saturating_mul(UNDESCRIBED_GROWTH);
            return (growth <= max).then_some(DecodedSize { growth, sliced: body.len() });
        };
        let mut walk = Walk { shapes, budget: Budget { left: max }, sliced: 0 };
        let (mut rest, segments) = body.parts();
        let end = match segments {
            None => walk.message(&mut rest, End::Left(0), index, 0),
            Some(segments) => {
                let segments = segments.peek();
                walk.message(&mut BorrowedBody::new(rest, &segments), End::Left(0), index, 0)
            }
        };
        // What is malformed fails when it is decoded, at the same place.
        let fits = !matches!(end, Err(Stop::TooLarge));
        fits.then_some(DecodedSize { growth: max - walk.budget.left, sliced: walk.sliced })
    })
}

#[cold]
fn too_large(message_bytes: usize, max: u32) -> Status {
    Status::resource_exhausted(format!(
        "decoding the message of {message_bytes} bytes would take more than {max} bytes beyond \
         that, as it has very many small elements; send fewer of them, or a stream, or raise \
         the limit `decoded_bytes_max` of the end that receives it"
    ))
}

/// The bytes that may still be allocated.
struct Budget {
    left: usize,
}

/// Why a walk ends before the message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    TooLarge,
    Malformed,
}

/// Any error of the encoding: the decoder names it.
impl From<prost::DecodeError> for Stop {
    fn from(_: prost::DecodeError) -> Self {
        Self::Malformed
    }
}

impl Budget {
    #[inline]
    fn spend(&mut self, bytes: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes).ok_or(Stop::TooLarge)?;
        Ok(())
    }
}

/// Where a message ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Where so many bytes are left.
    Left(usize),
    /// At the tag that ends the group.
    Group,
}

/// A walk over a message.
struct Walk<'a> {
    shapes: &'a Shapes,
    budget: Budget,
    /// Bytes of long fields that may become slices.
    sliced: usize,
}

impl Walk<'_> {
    /// Goes over the fields of a message of this shape.
    fn message(
        &mut self,
        buf: &mut impl Buf,
        end: End,
        shape: usize,
        depth: u32,
    ) -> Result<(), Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::Malformed);
        }
        let shapes = self.shapes;
        let shape = shapes.shape(shape);
        // Like the decoder, which compares a length with what is left of the whole body, and only
        // notices afterwards that it has gone past the end of the message around it.
        let left = match end {
            End::Left(left) => left,
            End::Group => 0,
        };
        let mut lists = Lists::default();
        while buf.remaining() > left {
            let (number, wire) = decode_key(buf)?;
            match (shape.field(number), wire) {
                (_, WireType::EndGroup) if matches!(end, End::Group) => return Ok(()),
                (None, _) | (_, WireType::EndGroup) => {
                    skip_field(wire, number, buf, DecodeContext::default())?;
                }
                (Some(field), WireType::LengthDelimited) => {
                    let bytes = usize::try_from(decode_varint(buf)?).unwrap_or(usize::MAX);
                    let rest = buf.remaining().checked_sub(bytes).ok_or(Stop::Malformed)?;
                    self.delimited(buf, rest, field, &mut lists, depth)?;
                }
                (Some(field), WireType::StartGroup) => {
                    self.element(field, &mut lists)?;
                    match field.content {
                        Content::Message { shape, .. } => {
                            self.message(buf, End::Group, shape, depth + 1)?;
                        }
                        _ => return Err(Stop::Malformed),
                    }
                }
                (Some(field), _) => {
                    self.element(field, &mut lists)?;
                    skip_field(wire, number, buf, DecodeContext::default())?;
                }
            }
        }
        if buf.remaining() < left { Err(Stop::Malformed) } else { Ok(()) }
    }

    /// Goes over a field with a length, up to where `rest` bytes are left.
    fn delimited(
        &mut self,
        buf: &mut impl Buf,
        rest: usize,
        field: &Field,
        lists: &mut Lists,
        depth: u32,
    ) -> Result<(), Stop> {
        match field.content {
            Content::Text | Content::Bytes => {
                self.element(field, lists)?;
                let bytes = buf.remaining() - rest;
                if bytes > 0 {
                    self.budget.spend(ALLOCATION_BYTES)?;
                }
                if bytes >= SLICE_BYTES_MIN && matches!(field.content, Content::Bytes) {
                    self.sliced += bytes;
                }
                buf.advance(bytes);
                Ok(())
            }
            Content::Message { shape, boxed } => {
                self.element(field, lists)?;
                if boxed {
                    self.budget.spend(self.shapes.shape(shape).bytes + ALLOCATION_BYTES)?;
                }
                self.message(buf, End::Left(rest), shape, depth + 1)
            }
            Content::Map { entry } => {
                // A table is half empty when it has grown, and hashing costs time as well.
                self.budget.spend(ENTRY_BYTES + 2 * field.element_bytes)?;
                self.message(buf, End::Left(rest), entry, depth + 1)
            }
            Content::Number => {
                let bytes = buf.remaining() - rest;
                let more = (count_numbers(buf, rest) * field.element_bytes).saturating_sub(bytes);
                self.element(field, lists)?;
                self.budget.spend(more)
            }
            // As long in memory as in the message.
            Content::Fixed => {
                buf.advance(buf.remaining() - rest);
                self.element(field, lists)
            }
        }
    }

    /// Adds an element to a list. A field that is none costs nothing beyond its message.
    #[inline]
    fn element(&mut self, field: &Field, lists: &mut Lists) -> Result<(), Stop> {
        if field.element_bytes == 0 {
            return Ok(());
        }
        if lists.contains(field) {
            return self.budget.spend(field.element_bytes);
        }
        let first = if field.element_bytes <= WIDE_BYTES { LIST_FIRST } else { 1 };
        self.budget.spend(first * field.element_bytes + ALLOCATION_BYTES)
    }
}

/// The lists of a message that have an element.
#[derive(Default)]
struct Lists(u128);

impl Lists {
    /// Returns whether the list of a field has one, and notes that it has one now. Lists behind the
    /// first 128 fields are taken for new ones each time, which costs too much rather than too
    /// little.
    #[inline]
    fn contains(&mut self, field: &Field) -> bool {
        let bit = 1_u128.checked_shl(u32::try_from(field.index).unwrap_or(u32::MAX)).unwrap_or(0);
        let has_bit = self.0 & bit != 0;
        self.0 |= bit;
        has_bit
    }
}

/// Counts the numbers of a packed list up to where `rest` bytes are left, which it skips.
fn count_numbers(buf: &mut impl Buf, rest: usize) -> usize {
    let mut count = 0;
    while buf.remaining() > rest {
        let chunk = buf.chunk();
        let bytes = chunk.len().min(buf.remaining() - rest);
        count += chunk[..bytes].iter().filter(|byte| **byte < 0x80).count();
        buf.advance(bytes);
    }
    count
}
