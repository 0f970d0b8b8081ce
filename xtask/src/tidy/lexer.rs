//! Separates code, comments and the contents of literals of a Rust file.
//!
//! Invariants: each output has as many lines as the input, so that a place in one is the same place
//! in the other. Not here: the rules that use it (`source.rs`, `modules.rs`, `words.rs`).

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

/// What a character of a Rust file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    /// Also what is between tokens.
    Comment,
    /// The inside of a string or character literal; its quotes are code.
    Literal,
}

/// A Rust file whose bytes are sorted into code, comments and literals.
#[derive(Debug)]
pub(crate) struct Lexed<'a> {
    text: &'a str,
    kinds: Vec<Kind>,
}

impl<'a> Lexed<'a> {
    /// Sorts the bytes of `text`. What is no Rust has no code; the compiler reports it.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut lexed = Self { text, kinds: vec![Kind::Comment; text.len()] };
        // Behind a first line for the shell.
        if let Ok(tokens) = TokenStream::from_str(text) {
            lexed.mark_all(tokens);
        }
        proc_macro2::extra::invalidate_current_thread_spans();
        lexed
    }

    /// The file with comments and the insides of literals blanked.
    pub(crate) fn code(&self) -> String {
        self.blanked(' ', |kind| kind == Kind::Code)
    }

    /// The comments and the insides of literals; code is replaced by `;`, which ends a phrase.
    pub(crate) fn prose(&self) -> String {
        self.blanked(';', |kind| kind != Kind::Code)
    }

    /// For each line, whether it begins inside a literal that an earlier line opened.
    pub(crate) fn lines_inside_a_literal(&self) -> Vec<bool> {
        let breaks = self.text.match_indices('\n').map(|(at, _)| self.kinds[at] == Kind::Literal);
        [false].into_iter().chain(breaks).collect()
    }

    fn blanked(&self, blank: char, keep: impl Fn(Kind) -> bool) -> String {
        let shown = |(at, char): (usize, char)| match char {
            _ if char.is_whitespace() || keep(self.kinds[at]) => char,
            _ => blank,
        };
        self.text.char_indices().map(shown).collect()
    }

    fn mark_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            let range = token.span().byte_range();
            let is_comment =
                ["//", "/*"].iter().any(|open| self.text[range.clone()].starts_with(open));
            match token {
                // A comment of documentation is the tokens of an attribute to the compiler.
                _ if is_comment => {}
                TokenTree::Group(group) => {
                    self.fill(group.span_open().byte_range(), Kind::Code);
                    self.fill(group.span_close().byte_range(), Kind::Code);
                    self.mark_all(group.stream());
                }
                TokenTree::Literal(_) => self.mark_literal(range),
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.fill(range, Kind::Code),
            }
        }
    }

    /// Marks the quotes of a literal, with what is in front of the first, as code.
    fn mark_literal(&mut self, range: Range<usize>) {
        self.fill(range.clone(), Kind::Code);
        let literal = &self.text[range.clone()];
        if let Some((start, quote)) =
            literal.char_indices().find(|(_, char)| matches!(char, '"' | '\''))
            && let Some(end) = literal.rfind(quote)
        {
            self.fill(range.start + start + 1..range.start + end, Kind::Literal);
        }
    }

    fn fill(&mut self, range: Range<usize>, kind: Kind) {
        self.kinds[range].fill(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::Lexed;

    #[test]
    fn comments_and_insides_of_literals_are_no_code() {
        for (text, code) in [
            ("a // {\nb", "a     \nb"),
            ("a /* { /* */ } */ b", "a                 b"),
            ("/// {\nfn f() {}", "     \nfn f() {}"),
            ("//! {\n\n/** } */ struct A;", "     \n\n         struct A;"),
            (r#"f("{\"}")"#, r#"f("    ")"#),
            (r##"f(r#"{"}"#)"##, r##"f(r#"   "#)"##),
            (r#"f(br"\")"#, r#"f(br" ")"#),
            (r"'{' '\'' b'}' {}", r"' ' '  ' b' ' {}"),
            ("fn f<'a>(x: &'a str, r#type: T) {}", "fn f<'a>(x: &'a str, r#type: T) {}"),
            ("/ 1 / 0x2a", "/ 1 / 0x2a"),
        ] {
            assert_eq!(Lexed::new(text).code(), code);
        }
    }

    #[test]
    fn prose_is_what_is_no_code() {
        assert_eq!(Lexed::new("f(\"no\") // a b").prose(), ";;;no;; // a b");
        assert_eq!(Lexed::new("/// a b\nf('c')").prose(), "/// a b\n;;;c;;");
    }

    #[test]
    fn lines_of_a_long_literal_are_known() {
        let lexed = Lexed::new("a\nf(\"x\ny\nz\")\nb");
        assert_eq!(lexed.lines_inside_a_literal(), [false, false, true, true, false]);
    }

    #[test]
    fn what_is_no_rust_has_no_code() {
        assert_eq!(Lexed::new("f(\"").code(), "   ");
    }
}
