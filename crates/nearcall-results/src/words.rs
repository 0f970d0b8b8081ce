//! Stores a value by the word that it is printed and parsed with: `#[serde(with = "words")]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the word of `value`.
///
/// # Errors
///
/// What `to` says.
pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Reads a word.
///
/// # Errors
///
/// What `from` says, or why the word is none.
pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
