//! The names of generated items that no `.proto` file has, such as `start_scan` and `HomeCaller`.
//!
//! A shared interface cannot be renamed, so its names win. A derived name that is taken ends in
//! `_`, and so do the names of its group: `start_scan_` beside a method `StartScan`, `ScanCaller_`
//! and `ScanDispatcher_` beside a message `ScanCaller`.
//!
//! # Invariants
//!
//! - Names that are derived together are escaped together, so that they stay recognisable.
//! - The docs of an item with an escaped name say so.
//!
//! **Not here:** the order in which names are given (`clashes.rs`).

use std::collections::BTreeSet;
use std::fmt;

/// A name that is derived by a rule, and escaped if the interface takes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DerivedName {
    text: String,
    /// The name of the group that the interface takes, if one is taken.
    taken: Option<String>,
}

impl DerivedName {
    /// Renders a doc line that explains an escaped name; empty for any other.
    pub(crate) fn note(&self) -> String {
        match &self.taken {
            Some(taken) => {
                format!(
                    "/// Its name ends in `_` because the interface takes the name `{taken}`.\n"
                )
            }
            None => String::new(),
        }
    }
}

impl fmt::Display for DerivedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The types of a service, and the module of its methods' statics.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypeNames {
    pub(crate) caller: DerivedName,
    pub(crate) dispatcher: DerivedName,
    pub(crate) async_trait: DerivedName,
    pub(crate) async_caller: DerivedName,
    pub(crate) async_dispatcher: DerivedName,
    pub(crate) methods_module: DerivedName,
}

/// The functions of a caller that belong to no method.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallerNames {
    pub(crate) new: DerivedName,
    pub(crate) with: DerivedName,
    pub(crate) loan: DerivedName,
}

/// The functions of a method that are not named after it alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct MethodNames {
    /// The call that is waited for later; only unary methods have it.
    pub(crate) start: DerivedName,
}

/// Names that are taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taken(BTreeSet<String>);

impl Taken {
    pub(crate) fn insert(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    /// Takes the names of a group, all of them with as many `_` as the first free group needs.
    pub(crate) fn derive<const N: usize>(&mut self, plain: [String; N]) -> [DerivedName; N] {
        let taken = plain.iter().find(|name| self.0.contains(*name)).cloned();
        let mut names = plain;
        while names.iter().any(|name| self.0.contains(name)) {
            names = names.map(|name| name + "_");
        }
        self.0.extend(names.iter().cloned());
        names.map(|text| DerivedName { text, taken: taken.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_escaped_as_a_whole() {
        let mut taken = Taken::default();
        taken.insert("XCaller");
        let names = taken.derive(["XCaller".to_owned(), "XDispatcher".to_owned()]);
        assert_eq!(names.map(|name| name.to_string()), ["XCaller_", "XDispatcher_"]);
        let [again] = taken.derive(["XCaller".to_owned()]);
        assert_eq!(again.to_string(), "XCaller__");
        let [free] = taken.derive(["XDispatcher".to_owned()]);
        assert_eq!((free.to_string(), free.note()), ("XDispatcher".to_owned(), String::new()));
    }
}
