//! prost for messages that may contain themselves: while the runtime measures one, its depth is
//! bounded.
//!
//! prost measures and encodes a message by recursion, so that a value that is nested deeply enough
//! overflows the stack of whoever sends it, and measures each level anew on the way. Generated code
//! of types that may contain themselves, directly or in other messages, names this module in the
//! place of prost. It is prost, but for the lengths of messages within messages: these count the
//! levels, and a value with too many has a length above every limit.
//! **Invariants:** the runtime measures a message before it encodes it, by `measure`; whoever
//! encodes outside the runtime gets what prost gives; types that cannot contain themselves go
//! through none of this.
//! **Not here:** which types those are (`nearcall-build`), the depth of what is received, which
//! prost bounds.

use std::any::Any;
use std::cell::Cell;

use ::prost_types::value::Kind;
use ::prost_types::{ListValue, Struct, Value};

// Everything, and what is defined here hides its namesake: the code of a later `prost-derive` may
// name any of it.
pub use ::prost::*;

use crate::limits::MESSAGE_DEPTH_MAX;

/// The length of a message that is nested too deeply: above that of every message that can be sent.
/// Twice that is still a length, on processors of 32 bits as well.
pub(crate) const TOO_DEEP_BYTES: usize = 1 << if usize::BITS < 64 { 30 } else { 48 };

thread_local! {
    static LEVELS: Cell<Levels> = const { Cell::new(Levels::Unbounded) };
}

/// The levels that a message may have below the one that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Levels {
    /// The runtime measures none.
    Unbounded,
    Left(usize),
    /// It has had too many, and the rest is not measured.
    Exceeded,
}

/// Sets the levels as they were before, when a measurement is over.
struct Measurement(Levels);

impl Drop for Measurement {
    fn drop(&mut self) {
        LEVELS.set(self.0);
    }
}

/// Returns the length of a message in bytes, or [`TOO_DEEP_BYTES`] and less than as much again.
#[inline]
pub(crate) fn measure<M: Message>(message: &M) -> usize {
    // A message within itself is in a box, a list or a map.
    if !std::mem::needs_drop::<M>() {
        return message.encoded_len();
    }
    let _measurement = Measurement(LEVELS.replace(Levels::Left(MESSAGE_DEPTH_MAX)));
    message.encoded_len()
}

/// Measures what is one level deeper.
fn below(bytes: impl FnOnce() -> usize) -> usize {
    match LEVELS.get() {
        Levels::Unbounded => bytes(),
        Levels::Exceeded => 0,
        Levels::Left(0) => exceed(),
        Levels::Left(left) => {
            LEVELS.set(Levels::Left(left - 1));
            let bytes = bytes();
            if LEVELS.get() != Levels::Exceeded {
                LEVELS.set(Levels::Left(left));
            }
            bytes
        }
    }
}

/// Ends a measurement: a sum of many such lengths would overflow.
#[cold]
fn exceed() -> usize {
    LEVELS.set(Levels::Exceeded);
    TOO_DEEP_BYTES
}

/// Measures a message that is one level deeper.
fn message_below<M: Message + 'static>(message: &M) -> usize {
    below(|| match LEVELS.get() {
        Levels::Left(left) if !is_well_known_within(message, left) => exceed(),
        _ => message.encoded_len(),
    })
}

/// Returns whether a message has at most so many levels below it, if it is of a type of
/// `prost-types` that may contain itself: their own code counts none.
fn is_well_known_within<M: Message + 'static>(message: &M, levels: usize) -> bool {
    let message: &dyn Any = message;
    if let Some(value) = message.downcast_ref::<Value>() {
        is_value_within(value, levels)
    } else if let Some(list) = message.downcast_ref::<ListValue>() {
        is_list_within(list, levels)
    } else if let Some(fields) = message.downcast_ref::<Struct>() {
        is_struct_within(fields, levels)
    } else {
        true
    }
}

fn is_value_within(value: &Value, levels: usize) -> bool {
    match &value.kind {
        Some(Kind::ListValue(list)) => levels > 0 && is_list_within(list, levels - 1),
        Some(Kind::StructValue(fields)) => levels > 0 && is_struct_within(fields, levels - 1),
        _ => true,
    }
}

fn is_list_within(list: &ListValue, levels: usize) -> bool {
    list.values.iter().all(|value| levels > 0 && is_value_within(value, levels - 1))
}

fn is_struct_within(fields: &Struct, levels: usize) -> bool {
    // The entry of a map is a level.
    fields.fields.values().all(|value| levels > 1 && is_value_within(value, levels - 2))
}

/// `prost::encoding`, but for the lengths of messages within messages.
pub mod encoding {
    pub use ::prost::encoding::*;

    /// Messages with their lengths before them.
    pub mod message {
        use ::prost::Message;
        pub use ::prost::encoding::message::*;
        use ::prost::encoding::{encoded_len_varint, key_len};

        use crate::bounded_prost::message_below;

        /// Returns the length of a field.
        pub fn encoded_len<M: Message + 'static>(tag: u32, message: &M) -> usize {
            let bytes = message_below(message);
            key_len(tag) + encoded_len_varint(bytes as u64) + bytes
        }

        /// Returns the length of a list.
        pub fn encoded_len_repeated<M: Message + 'static>(tag: u32, messages: &[M]) -> usize {
            messages.iter().map(|message| encoded_len(tag, message)).sum()
        }
    }

    /// Messages between two tags.
    pub mod group {
        use ::prost::Message;
        pub use ::prost::encoding::group::*;
        use ::prost::encoding::key_len;

        use crate::bounded_prost::message_below;

        /// Returns the length of a field.
        pub fn encoded_len<M: Message + 'static>(tag: u32, message: &M) -> usize {
            2 * key_len(tag) + message_below(message)
        }

        /// Returns the length of a list.
        pub fn encoded_len_repeated<M: Message + 'static>(tag: u32, messages: &[M]) -> usize {
            messages.iter().map(|message| encoded_len(tag, message)).sum()
        }
    }

    macro_rules! map {
        ($(#[doc = $doc:literal] $name:ident $map:ty;)+) => {
            $(#[doc = $doc]
            pub mod $name {
                use std::hash::Hash;

                pub use ::prost::encoding::$name::*;

                use crate::bounded_prost::below;

                /// Returns the length of a map, whose entries are messages.
                pub fn encoded_len<K, V, KL, VL>(
                    key_encoded_len: KL,
                    value_encoded_len: VL,
                    tag: u32,
                    values: &$map,
                ) -> usize
                where
                    K: Default + Eq + Hash + Ord,
                    V: Default + PartialEq,
                    KL: Fn(u32, &K) -> usize,
                    VL: Fn(u32, &V) -> usize,
                {
                    if values.is_empty() {
                        return 0;
                    }
                    below(|| {
                        ::prost::encoding::$name::encoded_len(
                            key_encoded_len,
                            value_encoded_len,
                            tag,
                            values,
                        )
                    })
                }
            })+
        };
    }

    map! {
        /// Maps that hash.
        hash_map std::collections::HashMap<K, V>;
        /// Maps that compare.
        btree_map std::collections::BTreeMap<K, V>;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    /// As generated code has it.
    #[derive(Clone, PartialEq, ::prost::Message)]
    #[prost(prost_path = "crate::bounded_prost")]
    struct Node {
        #[prost(message, optional, boxed, tag = "1")]
        inner: Option<Box<Node>>,
        #[prost(message, repeated, tag = "2")]
        list: Vec<Node>,
        #[prost(map = "string, message", tag = "3")]
        map: HashMap<String, Node>,
        #[prost(message, optional, tag = "4")]
        value: Option<Value>,
    }

    fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    fn list_of(inner: Value) -> Value {
        value(Kind::ListValue(ListValue { values: vec![inner] }))
    }

    fn struct_of(inner: Value) -> Value {
        let fields = BTreeMap::from([("key".to_owned(), inner)]);
        value(Kind::StructValue(Struct { fields }))
    }

    fn of_values(wrap: fn(Value) -> Value, count: usize) -> Node {
        let inner = (0..count).fold(value(Kind::BoolValue(true)), |inner, _| wrap(inner));
        Node { value: Some(inner), ..Node::default() }
    }

    fn of_nodes(wrap: fn(Node) -> Node, count: usize) -> Node {
        (0..count).fold(Node::default(), |inner, _| wrap(inner))
    }

    #[test]
    fn what_is_measured_can_be_decoded_and_what_cannot_is_above_every_limit() {
        let shapes: [fn(usize) -> Node; 5] = [
            |count| of_nodes(|it| Node { inner: Some(Box::new(it)), ..Node::default() }, count),
            |count| of_nodes(|it| Node { list: vec![it], ..Node::default() }, count),
            |count| {
                let wrap = |it| HashMap::from([("key".to_owned(), it)]);
                (0..count).fold(Node::default(), |it, _| Node { map: wrap(it), ..Node::default() })
            },
            |count| of_values(list_of, count),
            |count| of_values(struct_of, count),
        ];
        for (index, make) in shapes.into_iter().enumerate() {
            for count in 0..110 {
                let (node, bytes) = (make(count), measure(&make(count)));
                let encoded = node.encode_to_vec();
                let decoded = Node::decode(&encoded[..]);
                assert_eq!(decoded.is_ok(), bytes < TOO_DEEP_BYTES, "shape {index}, {count}");
                assert!(decoded.is_err() || encoded.len() == bytes, "shape {index}, {count}");
            }
        }
    }

    #[test]
    fn very_many_messages_that_are_too_deep_are_no_overflow_and_cost_little() {
        let deep = of_nodes(|it| Node { list: vec![it], ..Node::default() }, 101);
        let many = Node { list: vec![deep; 1000], ..Node::default() };
        let map = (0..3).map(|key| (key.to_string(), many.clone())).collect();
        let bytes = measure(&Node { map, ..many });
        assert!((TOO_DEEP_BYTES..2 * TOO_DEEP_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(LEVELS.get(), Levels::Unbounded);
    }
}
