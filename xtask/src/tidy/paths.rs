//! Reads from a Rust file which paths it names, and which names it imports.
//!
//! Works on the tokens that remain when comments and literals are blanked, so a path inside a macro
//! call counts as well. Items behind `#[cfg(test)]` are left out. This is no parser: it knows
//! attributes, `mod`, `use` trees and paths. Not here: which file a path leads to (`circles.rs`).

use super::lexer::Lexed;

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
    pub(super) fn read(text: &str) -> Self {
        let tokens = tokens(&Lexed::new(text).code());
        let mut reader =
            Reader { tokens, at: 0, depth: 0, inline: Vec::new(), names: Self::default() };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        let mut names = reader.names;
        let words: Vec<&String> = reader.tokens.iter().map(|(word, _)| word).collect();
        for import in &mut names.imports {
            let uses = words.iter().filter(|word| **word == &import.name).count();
            import.passed_on &= uses < 2;
        }
        names
    }
}

struct Reader {
    tokens: Vec<(String, usize)>,
    at: usize,
    depth: usize,
    /// The inline modules around, each with the depth of its braces.
    inline: Vec<(String, usize)>,
    names: Names,
}

impl Reader {
    fn step(&mut self) {
        match self.word(0) {
            "#" if self.is_test_only() => self.skip_item(),
            "mod" if self.word(2) == "{" => {
                self.inline.push((self.word(1).to_owned(), self.depth));
                self.at += 2;
            }
            "use" => {
                let is_public =
                    self.at > 0 && matches!(self.tokens[self.at - 1].0.as_str(), "pub" | ")");
                self.at += 1;
                self.use_tree(&[], is_public);
            }
            "{" => {
                self.depth += 1;
                self.at += 1;
            }
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                self.inline.pop_if(|(_, depth)| *depth == self.depth);
                self.at += 1;
            }
            word if is_name(word) => self.path(),
            _ => self.at += 1,
        }
    }

    /// Whether an attribute stands here that makes the next item part of tests only.
    fn is_test_only(&self) -> bool {
        let end = self.end_of_attribute(self.at);
        let words: Vec<&str> =
            self.tokens[self.at..end].iter().map(|(word, _)| word.as_str()).collect();
        let is_not = |at: usize| at >= 2 && words[at - 2] == "not";
        words.get(2) == Some(&"cfg")
            && words.iter().enumerate().any(|(at, word)| *word == "test" && !is_not(at))
    }

    /// Behind the `]` of the attribute that begins at `at`.
    fn end_of_attribute(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for (place, (word, _)) in self.tokens.iter().enumerate().skip(at) {
            match word.as_str() {
                "[" => depth += 1,
                "]" if depth == 1 => return place + 1,
                "]" => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Steps over attributes and the item behind them.
    fn skip_item(&mut self) {
        while self.word(0) == "#" {
            self.at = self.end_of_attribute(self.at);
        }
        let start = self.at;
        let mut depth = 0_usize;
        // The braces of a use tree do not end it.
        let mut behind = self.tokens[start..].iter().map(|(word, _)| word.as_str());
        let is_use = behind.find(|word| matches!(*word, "use" | "{" | ";")) == Some("use");
        while self.at < self.tokens.len() {
            let word = self.tokens[self.at].0.as_str();
            match word {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" if depth == 0 => return,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 && (word == ";" || (word == "}" && !is_use)) {
                break;
            }
        }
        let item = &self.tokens[start..self.at];
        let module = item.iter().position(|(word, _)| word == "mod");
        if let Some(module) = module.filter(|_| item.last().is_some_and(|(word, _)| word == ";")) {
            self.names.test_modules.push(item[module + 1].0.clone());
        }
    }

    /// Reads a use tree below `prefix`, up to the `;`, `,` or `}` that ends it.
    fn use_tree(&mut self, prefix: &[String], is_public: bool) {
        let (mut segments, line) = (prefix.to_vec(), self.line());
        loop {
            match self.word(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.word(0), "}" | "") {
                        self.use_tree(&segments, is_public);
                        self.at += usize::from(self.word(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                word if is_name(word) || word == "*" => {
                    segments.push(word.to_owned());
                    self.at += 1;
                    if self.word(0) != "::" {
                        break;
                    }
                }
                _ => return self.at += 1,
            }
        }
        let mut name = segments.last().cloned().unwrap_or_default();
        if name == "self" && segments.len() > 1 {
            segments.pop();
            name = segments.last().cloned().unwrap_or_default();
        }
        if name == "*" {
            segments.pop();
        }
        if self.word(0) == "as" {
            self.word(1).clone_into(&mut name);
            self.at += 2;
        }
        let path = Path { segments, line, inline: self.module() };
        self.names.imports.push(Import { name, path, passed_on: is_public });
    }

    /// Reads a path of more than one segment; a single name is covered by what imports it.
    fn path(&mut self) {
        let line = self.line();
        let is_method =
            self.at > 0 && matches!(self.tokens[self.at - 1].0.as_str(), "." | "::" | "'");
        let mut segments = vec![self.word(0).to_owned()];
        self.at += 1;
        while self.word(0) == "::" && is_name(self.word(1)) {
            segments.push(self.word(1).to_owned());
            self.at += 2;
        }
        if segments.len() > 1 && !is_method {
            self.names.paths.push(Path { segments, line, inline: self.module() });
        }
    }

    fn module(&self) -> Vec<String> {
        self.inline.iter().map(|(name, _)| name.clone()).collect()
    }

    fn word(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |(word, _)| word)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, line)| *line)
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|char: char| char.is_alphabetic() || char == '_')
}

/// Words, `::` and single other characters, each with its line.
fn tokens(code: &str) -> Vec<(String, usize)> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if is_word(first) => rest.find(|char| !is_word(char)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (word, behind) = rest.split_at(length);
            // `r#type` is the name `type`.
            match behind.strip_prefix('#').filter(|_| word == "r") {
                Some(name) => rest = name,
                None => {
                    tokens.push((word.to_owned(), index + 1));
                    rest = behind.trim_start();
                }
            }
        }
    }
    tokens
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
