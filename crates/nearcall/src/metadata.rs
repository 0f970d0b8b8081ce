//! Metadata: short keys with values that travel beside the message, such as a `traceparent`.
//!
//! ```text
//! for each entry: key_bytes: u8 | key | value_bytes: u16, little endian | value
//! ```
//!
//! Keys are lower-case ASCII letters, digits and `-_.`; a key that ends in `-bin` has bytes for its
//! value, any other printable ASCII.
//! **Invariants** of [`Entries`]: each entry was judged when it was added. [`Metadata`] from a peer
//! judges each entry as it is read and ends at the first bad one.
//! **Not here:** the limit on all of them together (`limits`), which the wire protocol keeps.

use std::fmt;

/// Longest key, in bytes: its length travels in one.
const KEY_BYTES_MAX: usize = u8::MAX as usize;

/// Why an entry was refused.
///
/// What [`ReplyMetadata`] and [`CallOptions::metadata`](crate::CallOptions::metadata) refuse, and
/// how.
#[derive(Clone, PartialEq, Eq)]
pub struct BadMetadata(String);

impl fmt::Display for BadMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), BadMetadata>`.
impl fmt::Debug for BadMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BadMetadata {}

/// Metadata to be sent, as they travel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<u8>);

impl Entries {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns entries that came from a peer, as they travel. A bad one ends the list when it is
    /// read.
    pub(crate) fn from_peer(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the entries of others in front of these.
    pub(crate) fn prepend(&mut self, mut others: Self) {
        others.append(&self.0);
        *self = others;
    }

    /// Adds the entries of others behind these.
    pub(crate) fn append(&mut self, others: &[u8]) {
        self.0.extend_from_slice(others);
    }

    /// Adds an entry in the place of those with its key.
    pub(crate) fn set(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        let mut others = Self::new();
        for (other, value) in Metadata::new(&self.0).iter().filter(|(other, _)| *other != key) {
            others.push(other, value)?;
        }
        others.add(key, value)?;
        *self = others;
        Ok(())
    }

    pub(crate) fn add(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        let bad = |why: &str| Err(BadMetadata(format!("metadata key `{key}`: {why}")));
        if !is_key(key.as_bytes()) {
            return bad("a key has 1 to 255 lower-case letters, digits and `-_.`");
        }
        if key == RESERVED_KEY {
            return bad("the runtime uses it");
        }
        if !is_value(key.as_bytes(), value) {
            return bad("a value is printable ASCII, unless the key ends in `-bin`");
        }
        self.push(key, value)
    }

    /// Adds an entry that was judged before.
    fn push(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        let bad = |why: &str| Err(BadMetadata(format!("metadata key `{key}`: {why}")));
        let Ok(value_bytes) = u16::try_from(value.len()) else {
            return bad("a value has at most 65535 bytes");
        };
        let key_bytes = u8::try_from(key.len()).unwrap_or(u8::MAX);
        self.0.push(key_bytes);
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(&value_bytes.to_le_bytes());
        self.0.extend_from_slice(value);
        Ok(())
    }
}

/// The key of what a server lacks that has failed a call: see `status.rs`. No service sends it.
pub(crate) const RESERVED_KEY: &str = "nc-lack";

/// The headers of a call, until they are sent.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    entries: Option<Entries>,
    /// They were sent, or are about to be.
    is_closed: bool,
}

impl Headers {
    pub(crate) fn add(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        if self.is_closed {
            let why = "the headers of this call were sent before; add it to the reply";
            return Err(BadMetadata(format!("metadata key `{key}`: {why}")));
        }
        self.entries.get_or_insert_default().add(key, value)
    }

    /// Adds those of the same call that were added elsewhere.
    pub(crate) fn merge(&mut self, others: Self) {
        self.is_closed |= others.is_closed;
        if let Some(others) = others.entries {
            self.entries.get_or_insert_default().append(others.as_bytes());
        }
    }

    /// Takes no more entries.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Has them be sent, even if there are none. False: they were sent before.
    pub(crate) fn send(&mut self) -> bool {
        let sends = !std::mem::replace(&mut self.is_closed, true);
        if sends {
            self.entries.get_or_insert_default();
        }
        sends
    }

    /// Returns whether no more entries are taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns whether there is something to send.
    pub(crate) fn wait(&self) -> bool {
        self.entries.is_some()
    }

    /// Takes what is to be sent, and no more entries.
    pub(crate) fn take(&mut self) -> Option<Entries> {
        self.is_closed = true;
        self.entries.take()
    }
}

fn is_key(key: &[u8]) -> bool {
    let plain = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(c);
    !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.iter().all(plain)
}

fn is_value(key: &[u8], value: &[u8]) -> bool {
    key.ends_with(b"-bin") || value.iter().all(|c| (b' '..=b'~').contains(c))
}

/// What a service sent beside its reply, owned by the caller.
///
/// Returned by [`PendingCall::wait_with_metadata`](crate::client::PendingCall::wait_with_metadata).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ReplyMetadata {
    pub(crate) trailers: Entries,
    pub(crate) headers: Entries,
}

impl ReplyMetadata {
    pub(crate) fn new(trailers: Entries) -> Self {
        Self { trailers, headers: Entries::new() }
    }

    /// Headers alone: they are the entries, and the headers as well.
    pub(crate) fn of_headers(headers: Entries) -> Self {
        Self { trailers: headers.clone(), headers }
    }

    pub(crate) fn with_headers(self, headers: Option<&Entries>) -> Self {
        Self { headers: headers.cloned().unwrap_or_default(), ..self }
    }

    /// Returns the headers: what the service sent before its reply and its items
    /// ([`Context::add_header`](crate::Context::add_header)). They are not among the other entries.
    /// Those of a server that cannot send them so, such as an older one, are: they come first. What
    /// [`ReplyStream::headers`](crate::stream::ReplyStream::headers) returns has them as both.
    pub fn headers(&self) -> Metadata<'_> {
        Metadata::new(self.headers.as_bytes())
    }

    /// Returns the value of the first entry with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries().get(key)
    }

    /// Returns the bytes of the first entry with this key.
    pub fn get_bin(&self, key: &str) -> Option<&[u8]> {
        self.entries().get_bin(key)
    }

    /// Returns all entries, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries().iter()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    fn entries(&self) -> Metadata<'_> {
        Metadata::new(self.trailers.as_bytes())
    }
}

impl fmt::Debug for ReplyMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The metadata of a call that came in, or of an error. Reading copies nothing.
///
/// See [`Context::metadata`](crate::Context::metadata) and
/// [`Status::metadata`](crate::Status::metadata).
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a>(&'a [u8]);

impl<'a> Metadata<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The value of the first entry with this key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        let value = self.iter().find(|(name, _)| *name == key)?.1;
        std::str::from_utf8(value).ok()
    }

    /// The bytes of the first entry with this key.
    pub fn get_bin(&self, key: &str) -> Option<&'a [u8]> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All entries, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (entry, later) = next_entry(rest)?;
            rest = later;
            Some(entry)
        })
    }
}

type Entry<'a> = (&'a str, &'a [u8]);

fn next_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (key_bytes, rest) = bytes.split_first()?;
    let (key, rest) = rest.split_at_checked(usize::from(*key_bytes))?;
    let (value_bytes, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*value_bytes)))?;
    let sound = is_key(key) && is_value(key, value);
    let key = std::str::from_utf8(key).ok().filter(|_| sound)?;
    Some(((key, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let mut entries = Entries::default();
        entries.add("traceparent", b"00-ab-cd-01").unwrap();
        entries.add("token-bin", &[0, 255, 7]).unwrap();
        let metadata = Metadata::new(entries.as_bytes());
        assert_eq!(metadata.get("traceparent"), Some("00-ab-cd-01"));
        assert_eq!(metadata.get_bin("token-bin"), Some(&[0, 255, 7][..]));
        assert_eq!(metadata.get("other"), None);
        assert_eq!(metadata.iter().count(), 2);
    }

    #[test]
    fn bad_entries_are_refused_with_the_reason() {
        let mut entries = Entries::default();
        for (key, value) in
            [("", &b""[..]), ("Upper", b""), ("a b", b""), ("a", b"\n"), (RESERVED_KEY, b"")]
        {
            let error = entries.add(key, value).unwrap_err();
            assert!(error.to_string().contains(&format!("`{key}`")), "{error}");
        }
        assert!(entries.add("a", &vec![b'a'; 65_536]).is_err());
        assert_eq!(entries, Entries::default());
    }

    #[test]
    fn hostile_bytes_end_the_list() {
        for bytes in [&[9, b'a'][..], &[1, b'a', 5, 0, b'x'], &[0, 0, 0], &[1, b'A', 0, 0], &[1]] {
            assert_eq!(Metadata::new(bytes).iter().count(), 0, "{bytes:?}");
        }
    }
}
