//! Names of subjects that the harness does not know, short enough to be copied with a cell.

use std::fmt;

use thiserror::Error;

/// The name of a subject that a [`CustomSubjects`](crate::custom::CustomSubjects) has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomName {
    /// Zero behind the name.
    bytes: [u8; NAME_BYTES_MAX],
}

impl CustomName {
    /// Copies `name`, which has 1 to 24 bytes, none of them zero.
    ///
    /// # Panics
    ///
    /// If the name is empty or longer, or has a zero.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        let name = name.as_bytes();
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX, "a name has 1 to 24 bytes");
        let mut at = 0;
        while at < name.len() {
            assert!(name[at] != 0, "a name has no zero");
            at += 1;
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.split_at_mut(name.len()).0.copy_from_slice(name);
        Self { bytes }
    }

    /// Returns the name as it stands in stored runs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES_MAX);
        // Made of text, whole.
        str::from_utf8(&self.bytes[..end]).unwrap_or_default()
    }
}

impl TryFrom<&str> for CustomName {
    type Error = NotAName;

    fn try_from(name: &str) -> Result<Self, NotAName> {
        match (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0') {
            true => Ok(Self::new(name)),
            false => Err(NotAName(name.to_owned())),
        }
    }
}

impl fmt::Debug for CustomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Text that cannot be the name of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} names no subject: a name has 1 to {NAME_BYTES_MAX} bytes, none of them zero")]
pub struct NotAName(String);

/// The longest of the studies has 21.
const NAME_BYTES_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_and_what_is_too_long_is_refused() {
        for name in ["x", "study-pipe", "123456789012345678901234"] {
            assert_eq!(CustomName::try_from(name).unwrap().as_str(), name);
        }
        for name in ["", "1234567890123456789012345", "a\0b"] {
            assert!(CustomName::try_from(name).is_err(), "{name:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a name has no zero")]
    fn a_zero_does_not_cut_a_name_short() {
        let _ = CustomName::new("a\0b");
    }
}
