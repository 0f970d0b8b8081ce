//! The Rust names in use: in a module, a struct, an enum or a trait.
//!
//! # Invariants
//!
//! - A name has one owner, but modules may be shared.
//! - A clash names both owners and their places.
//!
//! **Not here:** which names there are (`clashes.rs`, `type_names.rs`).

use std::collections::BTreeMap;

use crate::error::{BuildError, Place};

/// The names in each Rust module, by its path from the root of the generated modules.
pub(crate) type Modules = BTreeMap<Vec<String>, Names>;

/// The Rust names in use in one module, struct, enum or trait, each with its owner.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, Owner>);

/// What a name belongs to.
struct Owner {
    /// A description, such as ``method `New` ``.
    what: String,
    place: Place,
    is_module: bool,
}

impl Names {
    /// Returns the names in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Claims the name of an item.
    pub(crate) fn claim(
        &mut self,
        name: String,
        what: String,
        place: &Place,
    ) -> Result<(), BuildError> {
        self.claim_as(name, Owner { what, place: place.clone(), is_module: false })
    }

    /// Claims the name of a module, which a message and packages may share.
    pub(crate) fn claim_module(
        &mut self,
        name: String,
        what: String,
        place: &Place,
    ) -> Result<(), BuildError> {
        self.claim_as(name, Owner { what, place: place.clone(), is_module: true })
    }

    fn claim_as(&mut self, name: String, owner: Owner) -> Result<(), BuildError> {
        let Owner { what, place, is_module } = owner;
        if name.is_empty() {
            return Err(BuildError::NoRustName { place, what });
        }
        match self.0.get(&name) {
            Some(first) if !(first.is_module && is_module) => Err(BuildError::NameClash {
                place,
                first: first.what.clone(),
                first_place: Box::new(first.place.clone()),
                second: what,
                name,
            }),
            Some(_) => Ok(()),
            None => {
                self.0.insert(name, Owner { what, place, is_module });
                Ok(())
            }
        }
    }
}
