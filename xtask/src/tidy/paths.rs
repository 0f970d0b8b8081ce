//! Reads from a Rust file which paths it names, and which names it imports.
//!
//! Works on tokens, so a path inside a macro call counts as well. Items behind `#[cfg(test)]` are
//! left out. Not here: which file a path leads to (`circles.rs`).

use std::collections::BTreeMap;
use std::str::FromStr;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::{ItemUse, UseTree, parse2};

/// A path in the source: its segments and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub segments: Vec<String>,
    pub line: usize,
    /// The module that names it: the file's own module, or an inline one below.
    pub inline: Vec<String>,
}

/// A name that `use` brings into a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The name in this module; `*` for everything that the path leads to.
    pub name: String,
    pub path: Path,
    /// Only passed on: `pub use`, and the code of the file does not mention the name.
    pub passed_on: bool,
}

/// What one file names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub imports: Vec<Import>,
    pub paths: Vec<Path>,
    /// Modules in files of their own that exist only in tests.
    pub test_modules: Vec<String>,
}

impl Names {
    /// Reads a file. What is no Rust names nothing; the compiler reports it.
    pub(super) fn read(text: &str) -> Self {
        let mut names = Self::default();
        let Ok(tokens) = TokenStream::from_str(text) else { return names };
        names.read_module(tokens.clone(), &[]);
        let mut counts = BTreeMap::new();
        count_words(tokens, &mut counts);
        for import in &mut names.imports {
            import.passed_on &= counts.get(&import.name).is_none_or(|uses| *uses < 2);
        }
        names
    }

    /// Reads what stands in the module `inline`, or in a part of it.
    fn read_module(&mut self, tokens: TokenStream, inline: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [TokenTree::Punct(mark), TokenTree::Group(attribute), ..]
                    if mark.as_char() == '#' && is_test_only(attribute.stream()) =>
                {
                    at += self.skip_item(&tokens[at..]);
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                    if word == "mod" =>
                {
                    self.read_module(body.stream(), &[inline, &[word_of(name)]].concat());
                    at += 3;
                }
                [TokenTree::Ident(word), ..] if word == "use" => {
                    let is_end = |token: &TokenTree| is_mark(token, ';');
                    let end = tokens[at..].iter().position(is_end).map_or(at, |end| at + end);
                    // Otherwise it is what a type captures, `use<'a>`.
                    if let Ok(item) = parse2::<ItemUse>(tokens[at..=end].iter().cloned().collect())
                    {
                        let is_public = at > 0 && is_visibility(&tokens[at - 1]);
                        // Behind a leading `::` is another crate.
                        if item.leading_colon.is_none() {
                            self.read_use(&item.tree, &[], inline, is_public);
                        }
                        at = end;
                    }
                    at += 1;
                }
                [TokenTree::Ident(first), rest @ ..] => {
                    let before =
                        |back: usize, mark| at >= back && is_mark(&tokens[at - back], mark);
                    let is_inner =
                        before(1, '.') || before(1, '\'') || (before(1, ':') && before(2, ':'));
                    let mut segments = vec![word_of(first)];
                    segments.extend(rest.chunks_exact(3).map_while(segment));
                    at += 3 * segments.len() - 2;
                    // A single name is covered by what imports it.
                    if segments.len() > 1 && !is_inner {
                        let (line, inline) = (first.span().start().line, inline.to_vec());
                        self.paths.push(Path { segments, line, inline });
                    }
                }
                [TokenTree::Group(group), ..] => {
                    self.read_module(group.stream(), inline);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Returns how many tokens the item that stands first has, with its attributes.
    fn skip_item(&mut self, tokens: &[TokenTree]) -> usize {
        let (mut is_use, mut module) = (false, None);
        for (at, token) in tokens.iter().enumerate() {
            match token {
                // The braces of a use tree do not end it.
                TokenTree::Ident(word) if word == "use" => is_use = true,
                TokenTree::Ident(word) if word == "mod" => module = tokens.get(at + 1),
                TokenTree::Group(body) if body.delimiter() == Delimiter::Brace && !is_use => {
                    return at + 1;
                }
                token if is_mark(token, ';') => {
                    self.test_modules.extend(module.map(ToString::to_string));
                    return at + 1;
                }
                _ => {}
            }
        }
        tokens.len()
    }

    /// Reads a use tree below `prefix`.
    fn read_use(&mut self, tree: &UseTree, prefix: &[String], inline: &[String], is_public: bool) {
        let mut add = |name: String, last: Option<&Ident>, line: usize| {
            let mut segments = prefix.to_vec();
            segments.extend(last.map(word_of).filter(|last| last != "self" || prefix.is_empty()));
            let name = if name == "self" { segments.last().cloned() } else { Some(name) };
            let path = Path { segments, line, inline: inline.to_vec() };
            let name = name.unwrap_or_default();
            self.imports.push(Import { name, path, passed_on: is_public });
        };
        match tree {
            UseTree::Path(part) => {
                let prefix = [prefix, &[word_of(&part.ident)]].concat();
                self.read_use(&part.tree, &prefix, inline, is_public);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.read_use(tree, prefix, inline, is_public));
            }
            UseTree::Name(it) => {
                add(word_of(&it.ident), Some(&it.ident), it.ident.span().start().line);
            }
            UseTree::Rename(it) => {
                add(word_of(&it.rename), Some(&it.ident), it.ident.span().start().line);
            }
            UseTree::Glob(it) => add("*".to_owned(), None, it.star_token.span.start().line),
        }
    }
}

/// The name behind `::`.
fn segment(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [one, other, TokenTree::Ident(name)] if is_mark(one, ':') && is_mark(other, ':') => {
            Some(word_of(name))
        }
        _ => None,
    }
}

/// Whether an attribute makes the next item part of tests only.
fn is_test_only(attribute: TokenStream) -> bool {
    let attribute: Vec<TokenTree> = attribute.into_iter().collect();
    match &attribute[..] {
        [TokenTree::Ident(word), TokenTree::Group(condition)] if word == "cfg" => {
            names_test(condition.stream())
        }
        _ => false,
    }
}

fn names_test(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|token| match token {
        TokenTree::Group(group) => !is_negated && names_test(group.stream()),
        TokenTree::Ident(word) => {
            is_negated = word == "not";
            word == "test"
        }
        _ => false,
    })
}

fn is_visibility(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word == "pub",
        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
        _ => false,
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// A name as its file is named: `r#type` is the name `type`.
fn word_of(name: &Ident) -> String {
    name.unraw().to_string()
}

fn count_words(tokens: TokenStream, counts: &mut BTreeMap<String, usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => count_words(group.stream(), counts),
            TokenTree::Ident(word) => *counts.entry(word_of(&word)).or_default() += 1,
            _ => {}
        }
    }
}
#[cfg(test)]
mod tests {
    use super::Names;

    /// The paths that a text names, imports first, each with its line.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let names = Names::read(text);
        let imports = names.imports.iter().map(|import| {
            let path = import.path.segments.join("::");
            format!("{}: {} = {path}", import.path.line, import.name)
        });
        let paths = names.paths.iter();
        let paths = paths.map(|path| format!("{}: {}", path.line, path.segments.join("::")));
        assert_eq!(imports.chain(paths).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn use_trees_are_unfolded() {
        check("use crate::a::B;", &["1: B = crate::a::B"]);
        check(
            "use super::{a::{self, B as C}, d::*};\nuse self::e;",
            &["1: a = super::a", "1: C = super::a::B", "1: * = super::d", "2: e = self::e"],
        );
        check("pub use ::a::*;\nuse b::c;", &["2: c = b::c"]);
    }

    #[test]
    fn paths_in_code_are_named_and_text_is_not() {
        check(
            "fn f() {\n    crate::a::b(\"crate::c::d\"); // crate::e::f\n    x.y::<Z>();\n}\n",
            &["2: crate::a::b"],
        );
        check("m!(super::a::B { c: d::e });", &["1: super::a::B", "1: d::e"]);
    }

    #[test]
    fn tests_are_left_out() {
        check(
            "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\nuse crate::b;",
            &["5: b = crate::b"],
        );
        check(
            "#[cfg(all(test, loom))]\n#[path = \"x\"]\nuse crate::{a, b};\nuse crate::c;",
            &["4: c = crate::c"],
        );
        check("#[cfg(not(test))]\nuse crate::a;", &["2: a = crate::a"]);
        assert_eq!(Names::read("#[cfg(test)]\npub(crate) mod tests;").test_modules, ["tests"]);
    }

    #[test]
    fn an_inline_module_is_known() {
        let names = Names::read("mod a {\n    use super::b;\n}\nuse c::d;");
        assert_eq!(names.imports[0].path.inline, ["a"]);
        assert_eq!(names.imports[1].path.inline, [""; 0]);
    }

    #[test]
    fn a_name_that_is_only_passed_on_is_told_apart() {
        let is_passed_on = |text: &str| Names::read(text).imports[0].passed_on;
        assert!(is_passed_on("pub(crate) use a::B;\n"));
        assert!(!is_passed_on("pub(crate) use a::B;\nfn f(b: B) {}\n"));
        assert!(!is_passed_on("use a::B;\n"));
    }
}
