//! Messages that may be nested without an end: those that contain themselves, and those that
//! contain such a message.
//!
//! Their code names `nearcall::bounded_prost` in the place of prost, by which the runtime bounds
//! the depth of what it sends. The code of all others is as prost has it.
//!
//! # Invariants
//!
//! - No attribute of this file's own is left in the text.
//!
//! **Not here:** the bound (`bounded_prost.rs` of `nearcall`).

use std::collections::HashSet;

use prost_build::Config;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use syn::parse::Parser;
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, MetaNameValue};

/// Marks the types in the text of prost, with the name of the message: prost marks the types that
/// are declared in it as well, so that the longest name counts.
const NESTS: &str = "nearcall_nests";

/// Marks the messages that are declared in one with that mark, and have none themselves.
const DOES_NOT_NEST: &str = "nearcall_does_not_nest";

/// Has prost mark the messages of the pool that may be nested without an end.
pub(crate) fn mark(pool: &DescriptorPool, config: &mut Config) {
    let mut bounded = HashSet::new();
    loop {
        let before = bounded.len();
        for message in pool.all_messages() {
            if contained(&message).all(|inner| bounded.contains(inner.full_name())) {
                bounded.insert(message.full_name().to_owned());
            }
        }
        if bounded.len() == before {
            break;
        }
    }
    for message in pool.all_messages() {
        let nests = |message: &MessageDescriptor| !bounded.contains(message.full_name());
        let outer = std::iter::successors(message.parent_message(), |it| it.parent_message());
        let name = message.full_name();
        let mark = match nests(&message) {
            true => NESTS,
            false if outer.into_iter().any(|outer| nests(&outer)) => DOES_NOT_NEST,
            false => continue,
        };
        config.type_attribute(format!(".{name}"), format!("#[{mark} = \"{name}\"]"));
    }
}

/// Returns the messages in the fields of a message; those of a map are in its entries.
fn contained(message: &MessageDescriptor) -> impl Iterator<Item = MessageDescriptor> {
    let kinds: Vec<_> = message.fields().map(|field| field.kind()).collect();
    kinds.into_iter().filter_map(|kind| kind.as_message().cloned())
}

/// Has the types that are marked name the bounded prost, and takes the marks out.
pub(crate) fn apply(items: &mut [Item]) {
    for item in items {
        let attributes = match item {
            Item::Struct(item) => &mut item.attrs,
            Item::Enum(item) => &mut item.attrs,
            Item::Mod(item) => {
                apply(item.content.as_mut().map_or(&mut [], |(_, items)| items));
                continue;
            }
            _ => continue,
        };
        let longest = attributes.iter().filter_map(read_mark).max();
        attributes.retain(|attribute| read_mark(attribute).is_none());
        if let Some((_, true)) = longest {
            name_bounded_prost(attributes);
        }
    }
}

/// Returns the length of the name in a mark, and whether that message nests.
fn read_mark(attribute: &Attribute) -> Option<(usize, bool)> {
    let nests = attribute.path().is_ident(NESTS);
    if !nests && !attribute.path().is_ident(DOES_NOT_NEST) {
        return None;
    }
    let Meta::NameValue(MetaNameValue { value, .. }) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) = value else { return None };
    Some((name.value().len(), nests))
}

fn name_bounded_prost(attributes: &mut [Attribute]) {
    let bounded = "#[prost(prost_path = \"::nearcall::bounded_prost\")]";
    for attribute in attributes.iter_mut().filter(|one| one.path().is_ident("prost")) {
        let parsed = Attribute::parse_outer.parse_str(bounded);
        *attribute = parsed.expect("an attribute that parses").remove(0);
    }
}
