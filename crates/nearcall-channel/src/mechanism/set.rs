//! A set of mechanisms: those that a server opens for its clients.
//!
//! **Invariants:** a printed set parses back to the same set.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Mechanism, Offered, UnknownMechanism, table};
use crate::error::debug_as_display;

/// The mechanisms that a server opens for its clients.
///
/// ```
/// use nearcall_channel::{Mechanism, MechanismSet};
///
/// let offered = MechanismSet::from(Mechanism::Shm).with(Mechanism::UnixStream);
/// assert!(!offered.contains(Mechanism::Tcp));
/// assert_eq!("shm,unix-stream".parse(), Ok(offered));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MechanismSet {
    /// Bit n is row n of the table.
    rows: u32,
}

const _: () = assert!(table::ROWS.len() <= u32::BITS as usize);

impl MechanismSet {
    /// What a server offers unless it names mechanisms:
    /// those of [`Mechanism::offered_by_default`].
    pub const BY_DEFAULT: Self = {
        let (mut rows, mut index) = (0, 0);
        while index < table::ROWS.len() {
            if matches!(table::ROWS[index].offered, Offered::ByDefault) {
                rows |= 1 << index;
            }
            index += 1;
        }
        Self { rows }
    };

    /// Every mechanism: for servers whose clients are all trusted, and for measuring.
    pub const ALL: Self = Self { rows: u32::MAX >> (u32::BITS as usize - table::ROWS.len()) };

    /// The empty set.
    pub const NONE: Self = Self { rows: 0 };

    /// Returns this set and `mechanism`.
    #[must_use]
    pub fn with(self, mechanism: Mechanism) -> Self {
        let index = table::ROWS.iter().position(|row| row.mechanism == mechanism);
        Self { rows: self.rows | index.map_or(0, |index| 1 << index) }
    }

    /// Returns whether the set has `mechanism`.
    pub fn contains(self, mechanism: Mechanism) -> bool {
        self == self.with(mechanism)
    }

    /// Returns whether the set has no mechanism.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the mechanisms of the set, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::all().filter(move |mechanism| self.contains(*mechanism))
    }
}

impl Default for MechanismSet {
    fn default() -> Self {
        Self::BY_DEFAULT
    }
}

impl FromIterator<Mechanism> for MechanismSet {
    fn from_iter<T: IntoIterator<Item = Mechanism>>(mechanisms: T) -> Self {
        mechanisms.into_iter().fold(Self::NONE, Self::with)
    }
}

impl From<Mechanism> for MechanismSet {
    fn from(mechanism: Mechanism) -> Self {
        Self::NONE.with(mechanism)
    }
}

/// Text that is no set of mechanisms.
#[derive(Error, Clone, PartialEq, Eq)]
pub enum BadMechanismSet {
    /// There is no mechanism in it.
    #[error("no mechanism is named: name some, as `shm,unix-stream`, or `all`")]
    Empty,
    /// A word of it is no mechanism.
    #[error("{0}")]
    Unknown(UnknownMechanism),
}

debug_as_display!(MechanismSet, BadMechanismSet);

impl FromStr for MechanismSet {
    type Err = BadMechanismSet;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err(BadMechanismSet::Empty),
            "all" => Ok(Self::ALL),
            _ => {
                text.split(',').map(|word| word.parse().map_err(BadMechanismSet::Unknown)).collect()
            }
        }
    }
}

/// Prints the names with commas between them, as [`FromStr`] takes them.
impl fmt::Display for MechanismSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let names: Vec<_> = self.iter().map(Mechanism::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_set_parses_back() {
        let sets = [MechanismSet::BY_DEFAULT, MechanismSet::ALL, Mechanism::Cma.into()];
        for set in sets {
            assert_eq!(set.to_string().parse(), Ok(set), "{set}");
        }
        assert_eq!(MechanismSet::ALL.iter().count(), Mechanism::all().len());
        let set: MechanismSet = "cma,shm-spin".parse().unwrap();
        assert_eq!(set.to_string(), "cma,shm-spin");
        assert!(set.contains(Mechanism::ShmSpin) && !set.contains(Mechanism::Shm));
        assert!(!set.is_empty() && MechanismSet::NONE.is_empty());
    }

    #[test]
    fn a_bad_set_is_refused_with_the_reason() {
        let check = |text: &str, why: &str| {
            let error = text.parse::<MechanismSet>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        check("", "name some");
        check("shm,", "unknown mechanism ``");
        check("shm-futx", "did you mean `shm-futex`");
    }
}
