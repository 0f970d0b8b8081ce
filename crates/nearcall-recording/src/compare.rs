//! Two messages of one type, field by field.
//!
//! **Invariants:** equal fields are no difference, in whatever order they were encoded; numbers are
//! compared exactly, bit by bit; the number of differences and the length of each are bounded.
//! **Not here:** which messages are compared (`player.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MapKey, MessageDescriptor, ReflectMessage, Value};
use serde::Serialize;

/// A field that two messages have differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The path to the field, such as `reply.items[3].name`.
    pub path: String,
    /// What was recorded; `absent` without it.
    pub recorded: String,
    /// What there is now; `absent` without it.
    pub now: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.path, self.recorded, self.now)
    }
}

/// Compares two encoded messages, and returns at most `max` differences, in the order of the
/// fields. `root` begins each path.
///
/// Fields that the descriptor does not have are compared by their numbers (`reply.#7`). A message
/// that cannot be decoded is one difference.
#[must_use]
pub fn compare(
    recorded: &Bytes,
    now: &Bytes,
    descriptor: &MessageDescriptor,
    root: &str,
    max: usize,
) -> Vec<Difference> {
    if recorded == now {
        return Vec::new();
    }
    let decode = |bytes: &Bytes| DynamicMessage::decode(descriptor.clone(), bytes.clone());
    let mut found = Found { differences: Vec::new(), max };
    match (decode(recorded), decode(now)) {
        (Ok(recorded), Ok(now)) => messages(root, &recorded, &now, &mut found),
        (recorded_as, now_as) => {
            let text = |is_read: bool, bytes: &Bytes| match is_read {
                true => format!("a {}", descriptor.full_name()),
                false => format!("{} bytes that are no {}", bytes.len(), descriptor.full_name()),
            };
            found.add(root, text(recorded_as.is_ok(), recorded), text(now_as.is_ok(), now));
        }
    }
    found.differences
}

struct Found {
    differences: Vec<Difference>,
    max: usize,
}

impl Found {
    fn add(&mut self, path: &str, recorded: String, now: String) {
        if !self.is_full() {
            self.differences.push(Difference { path: path.to_owned(), recorded, now });
        }
    }

    fn is_full(&self) -> bool {
        self.differences.len() >= self.max
    }
}

/// Compares messages. How deep they are is bounded by their decoder.
fn messages(path: &str, recorded: &DynamicMessage, now: &DynamicMessage, found: &mut Found) {
    for field in recorded.descriptor().fields() {
        let path = format!("{path}.{}", field.name());
        let [left, right] = [recorded, now].map(|message| {
            // A field without presence that is not there has its default.
            let is_there = message.has_field(&field) || !field.supports_presence();
            is_there.then(|| message.get_field(&field))
        });
        optional(&path, left.as_deref(), right.as_deref(), found);
        if found.is_full() {
            return;
        }
    }
    let [left, right] = [recorded, now].map(|message| {
        message.extensions().map(|(field, value)| (field.full_name().to_owned(), value)).collect()
    });
    keyed(left, right, |name, left, right| {
        optional(&format!("{path}.[{name}]"), left, right, found);
    });
    let [left, right] = [recorded, now].map(|message| {
        let mut fields = BTreeMap::<u32, Vec<String>>::new();
        for field in message.unknown_fields() {
            fields.entry(field.number()).or_default().push(field.to_string());
        }
        fields
    });
    keyed(left, right, |number, left, right| {
        if left != right {
            let text = |fields: Option<Vec<String>>| {
                fields.map_or_else(absent, |fields| shortened(&fields.join(", ")))
            };
            found.add(&format!("{path}.#{number}"), text(left), text(right));
        }
    });
}

/// Visits the keys of either map, in their order.
fn keyed<K: Ord + Clone, V>(
    mut left: BTreeMap<K, V>,
    mut right: BTreeMap<K, V>,
    mut visit: impl FnMut(K, Option<V>, Option<V>),
) {
    let keys: BTreeSet<K> = left.keys().chain(right.keys()).cloned().collect();
    for key in keys {
        let (of_left, of_right) = (left.remove(&key), right.remove(&key));
        visit(key, of_left, of_right);
    }
}

fn optional(path: &str, recorded: Option<&Value>, now: Option<&Value>, found: &mut Found) {
    match (recorded, now) {
        (Some(recorded), Some(now)) => values(path, recorded, now, found),
        (None, None) => {}
        (recorded, now) => {
            let text = |value: Option<&Value>| value.map_or_else(absent, shown);
            found.add(path, text(recorded), text(now));
        }
    }
}

fn values(path: &str, recorded: &Value, now: &Value, found: &mut Found) {
    match (recorded, now) {
        (Value::Message(recorded), Value::Message(now)) => messages(path, recorded, now, found),
        (Value::List(recorded), Value::List(now)) => {
            for index in 0..recorded.len().max(now.len()) {
                let path = format!("{path}[{index}]");
                optional(&path, recorded.get(index), now.get(index), found);
                if found.is_full() {
                    return;
                }
            }
        }
        (Value::Map(recorded), Value::Map(now)) => {
            keyed(recorded.iter().collect(), now.iter().collect(), |key, left, right| {
                optional(&format!("{path}[{}]", shown_key(key)), left, right, found);
            });
        }
        (recorded, now) if !is_same(recorded, now) => {
            found.add(path, shown(recorded), shown(now));
        }
        _ => {}
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::F64(one), Value::F64(other)) => one.to_bits() == other.to_bits(),
        (Value::F32(one), Value::F32(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

fn absent() -> String {
    "absent".to_owned()
}

fn shown_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => shortened(&format!("{key:?}")),
    }
}

fn shown(value: &Value) -> String {
    match value {
        // With as many digits as tell it from all others.
        Value::F64(value) => format!("{value:?}"),
        Value::F32(value) => format!("{value:?}"),
        Value::String(value) => shortened(&format!("{value:?}")),
        Value::List(values) => format!("a list of {}", values.len()),
        Value::Map(entries) => format!("a map of {}", entries.len()),
        Value::Message(message) => shortened(&format!("{{{message}}}")),
        value => shortened(&value.to_string()),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{start}... ({} bytes)", text.len())
}

/// Characters of a value that are shown: a line has both.
const SHOWN_CHARS_MAX: usize = 60;
