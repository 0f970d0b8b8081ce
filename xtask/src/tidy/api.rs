//! The public interface of the crate `nearcall` as a list, one line for each item.
//!
//! **Invariants:** an item is listed under each path by which a program names it, with its
//! signature as it is written. What `#[doc(hidden)]` marks belongs to generated code, and is not
//! listed; nor is what `control` includes, a generated file that a golden keeps.
//! **Not here:** the file that keeps the list (`crates/nearcall/api.txt`), whose test is
//! `tests/tidy.rs`.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, Fields, ImplItem, Item, ItemEnum, ItemStruct, ItemTrait, ItemType, Lit, Meta,
    TraitItem, Type, UseTree, Visibility,
};

/// The root of the crate.
const ROOT: &str = "crates/nearcall/src/lib.rs";

/// Where types that it names may be defined: its own files first.
const SOURCES: [&str; 3] =
    ["crates/nearcall/src/", "crates/nearcall-channel/src/", "crates/nearcall-os/src/"];

/// What programs can name.
pub struct PublicInterface {
    /// Its lines, sorted.
    pub lines: BTreeSet<String>,
    /// The types and traits whose documentation neither shows an example nor links to what has one.
    pub unlinked: BTreeSet<String>,
}

/// Returns the public interface.
///
/// # Errors
///
/// A file that cannot be parsed, and why.
pub fn list(files: &BTreeMap<String, String>) -> Result<PublicInterface, String> {
    let mut parsed = Vec::new();
    for source in SOURCES {
        for (path, text) in files.iter().filter(|(path, _)| path.starts_with(source)) {
            let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
            parsed.push((path.as_str(), file.items));
        }
    }
    let found = PublicInterface { lines: BTreeSet::new(), unlinked: BTreeSet::new() };
    let mut api = Api { parsed: &parsed, found };
    let root = parsed.iter().find(|(path, _)| *path == ROOT);
    api.add_module("nearcall", &root.ok_or_else(|| format!("{ROOT} is missing"))?.1);
    Ok(api.found)
}

struct Api<'a> {
    parsed: &'a [(&'a str, Vec<Item>)],
    found: PublicInterface,
}

impl Api<'_> {
    fn add_module(&mut self, prefix: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Use(item) if is_listed(&item.vis, &item.attrs) => {
                    self.add_use(prefix, &item.tree, &[]);
                }
                Item::Mod(item) if is_listed(&item.vis, &item.attrs) => {
                    let name = item.ident.to_string();
                    let prefix = format!("{prefix}::{name}");
                    self.found.lines.insert(format!("mod {prefix}"));
                    match &item.content {
                        Some((_, items)) => self.add_module(&prefix, items),
                        None => {
                            let path = format!("{}{name}.rs", SOURCES[0]);
                            let file = self.parsed.iter().find(|(one, _)| *one == path);
                            if let Some((_, items)) = file {
                                self.add_module(&prefix, items);
                            }
                        }
                    }
                }
                Item::Macro(item) if is_exported(&item.attrs) => {
                    let name = item.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                    self.found.lines.insert(format!("macro nearcall::{name}!"));
                }
                item => self.add_item(prefix, item, SOURCES[0]),
            }
        }
    }

    /// Adds what a `pub use` names. `path`: the modules before it.
    fn add_use(&mut self, prefix: &str, tree: &UseTree, path: &[String]) {
        match tree {
            UseTree::Path(tree) => {
                let path = [path, &[tree.ident.to_string()]].concat();
                self.add_use(prefix, &tree.tree, &path);
            }
            UseTree::Group(tree) => {
                tree.items.iter().for_each(|tree| self.add_use(prefix, tree, path));
            }
            UseTree::Name(tree) => {
                let name = tree.ident.to_string();
                if !self.add_named(prefix, &name, path) {
                    let from = path.join("::");
                    self.found.lines.insert(format!("use {prefix}::{name} = {from}::{name}"));
                }
            }
            UseTree::Rename(_) | UseTree::Glob(_) => {
                self.found.lines.insert(format!("use {prefix}::{}", source_of(tree)));
            }
        }
    }

    /// Adds the item with this name that one of the files below `path` defines.
    fn add_named(&mut self, prefix: &str, name: &str, path: &[String]) -> bool {
        let module = path.iter().find(|part| !matches!(&***part, "crate" | "self" | "nearcall_os"));
        let Some(module) = module else { return false };
        let (source, module) = match &**module {
            "nearcall_channel" => (SOURCES[1], ""),
            "signal" => (SOURCES[2], "signal"),
            module => (SOURCES[0], module),
        };
        let start = format!("{source}{module}");
        let parsed = self.parsed;
        let files = parsed.iter().filter(|(path, _)| path.starts_with(&start));
        let found = files.flat_map(|(_, items)| items).find(|item| {
            name_of(item)
                .is_some_and(|(one, vis)| one == name && matches!(vis, Visibility::Public(_)))
        });
        let Some(item) = found else { return false };
        self.add_item(prefix, item, source);
        true
    }

    /// Adds an item and what it has. `source`: the crate that defines it.
    fn add_item(&mut self, prefix: &str, item: &Item, source: &str) {
        let Some((name, vis)) = name_of(item) else { return };
        if !matches!(vis, Visibility::Public(_)) {
            return;
        }
        let path = format!("{prefix}::{name}");
        if let Item::Struct(ItemStruct { attrs, .. })
        | Item::Enum(ItemEnum { attrs, .. })
        | Item::Trait(ItemTrait { attrs, .. })
        | Item::Type(ItemType { attrs, .. }) = item
            && !shows_how(attrs)
        {
            self.found.unlinked.insert(path.clone());
        }
        let mut add = |line: String| {
            self.found.lines.insert(line);
        };
        match item {
            Item::Fn(item) => return add(format!("{prefix}::{}", source_of(&item.sig))),
            Item::Const(item) => return add(format!("const {path}: {}", source_of(&item.ty))),
            Item::Type(item) => {
                let (generics, of) = (source_of(&item.generics), source_of(&item.ty));
                return add(format!("type {path}{generics} = {of}"));
            }
            Item::Struct(item) => {
                add(format!("struct {path}{}{}", source_of(&item.generics), marks(&item.attrs)));
                if let Fields::Named(fields) = &item.fields {
                    let public = |vis: &Visibility| matches!(vis, Visibility::Public(_));
                    for field in fields.named.iter().filter(|field| public(&field.vis)) {
                        let field_name = field.ident.as_ref().map(ToString::to_string);
                        let (of, field_name) =
                            (source_of(&field.ty), field_name.unwrap_or_default());
                        add(format!("field {path}::{field_name}: {of}"));
                    }
                }
            }
            Item::Enum(item) => {
                add(format!("enum {path}{}{}", source_of(&item.generics), marks(&item.attrs)));
                for variant in &item.variants {
                    let (name, fields) = (&variant.ident, source_of(&variant.fields));
                    add(format!("variant {path}::{name}{fields}"));
                }
            }
            Item::Trait(item) => {
                add(format!("trait {path}{}", source_of(&item.generics)));
                for one in &item.items {
                    if let TraitItem::Fn(one) = one {
                        add(format!("{path}::{}", source_of(&one.sig)));
                    }
                }
            }
            _ => return,
        }
        self.add_impls(&path, &name, source);
    }

    /// Adds the functions of a type, and the traits that it implements by hand.
    fn add_impls(&mut self, path: &str, name: &str, source: &str) {
        for (_, items) in self.parsed.iter().filter(|(path, _)| path.starts_with(source)) {
            for item in items {
                let Item::Impl(item) = item else { continue };
                let Type::Path(of) = &*item.self_ty else { continue };
                if of.path.segments.last().is_none_or(|segment| segment.ident != name) {
                    continue;
                }
                if let Some((_, implemented, _)) = &item.trait_ {
                    let of = source_of(&item.self_ty);
                    self.found
                        .lines
                        .insert(format!("impl {} for {path} ({of})", source_of(implemented)));
                    continue;
                }
                for one in &item.items {
                    match one {
                        ImplItem::Fn(one) if is_listed(&one.vis, &one.attrs) => {
                            self.found.lines.insert(format!("{path}::{}", source_of(&one.sig)));
                        }
                        ImplItem::Const(one) if is_listed(&one.vis, &one.attrs) => {
                            let of = source_of(&one.ty);
                            self.found.lines.insert(format!("const {path}::{}: {of}", one.ident));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

fn name_of(item: &Item) -> Option<(String, &Visibility)> {
    let (name, vis) = match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        _ => return None,
    };
    Some((name.to_string(), vis))
}

fn is_listed(vis: &Visibility, attributes: &[Attribute]) -> bool {
    matches!(vis, Visibility::Public(_)) && !is_hidden(attributes)
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| source_of(one).replace(' ', "").contains("doc(hidden)"))
}

fn is_exported(attributes: &[Attribute]) -> bool {
    !is_hidden(attributes) && attributes.iter().any(|one| one.path().is_ident("macro_export"))
}

/// Returns whether the documentation has an example or a link. An included text has one.
fn shows_how(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| match &one.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => {
                    ["```", "[`", "]("].iter().any(|mark| text.value().contains(mark))
                }
                _ => false,
            },
            _ => true,
        },
        _ => false,
    })
}

/// What a program may count on beside the fields: derived traits, and that there may be more.
fn marks(attributes: &[Attribute]) -> String {
    let marks = attributes
        .iter()
        .filter(|one| one.path().is_ident("derive") || one.path().is_ident("non_exhaustive"));
    marks.map(|one| format!(" {}", source_of(one))).collect()
}

/// Returns the text of a part of a file, in one line.
fn source_of(part: &impl Spanned) -> String {
    let text = part.span().source_text().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("///"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").replace("( ", "(").replace(", )", ")").replace(",)", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_can_name_is_listed() {
        let files = BTreeMap::from([
            (
                ROOT.to_owned(),
                "pub use thing::Thing; mod thing; #[doc(hidden)] pub mod secret {}\n\
                 pub mod group { pub use crate::thing::{make, Plain}; }"
                    .to_owned(),
            ),
            (
                "crates/nearcall/src/thing.rs".to_owned(),
                "/// Made by [`make`].\n\
                 #[non_exhaustive] pub struct Thing { pub size: u8, inner: u8 }\n\
                 impl Thing { pub fn grow(&mut self,\n by: u8,) {} fn hide(&self) {} }\n\
                 impl Drop for Thing { fn drop(&mut self) {} }\n\
                 pub fn make() -> Thing { todo!() }\n\
                 /// A thing.\npub enum Plain {}"
                    .to_owned(),
            ),
        ]);
        let expected = [
            "enum nearcall::group::Plain",
            "field nearcall::Thing::size: u8",
            "impl Drop for nearcall::Thing (Thing)",
            "mod nearcall::group",
            "nearcall::Thing::fn grow(&mut self, by: u8)",
            "nearcall::group::fn make() -> Thing",
            "struct nearcall::Thing #[non_exhaustive]",
        ];
        let found = list(&files).unwrap();
        assert_eq!(found.lines.iter().collect::<Vec<_>>(), expected);
        assert_eq!(found.unlinked.iter().collect::<Vec<_>>(), ["nearcall::group::Plain"]);
    }
}
