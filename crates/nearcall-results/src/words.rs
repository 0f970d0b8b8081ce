//! Stores a value by the word that it is printed and parsed with: `#[serde(with = "words")]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the word of `value`.
///
/// # Errors
///
/// The error of `to`.
pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Reads a word.
///
/// # Errors
///
/// The error of `from`, or why the word is none.
pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Gives an enum its words: `ALL` of its variants in this order, `name`, and `Display`.
macro_rules! words {
    ($type:ident: $($variant:ident => $word:literal),+ $(,)?) => {
        impl $type {
            /// All of them, in the order in which they are listed to users.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word for it on the command line and in stored documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use words;
