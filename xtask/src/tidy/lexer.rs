//! Separates code, comments and the contents of literals of a Rust file.
//!
//! Invariants: each output has as many lines as the input, so that a place in one is the same place
//! in the other. Not here: the rules that use it (`source.rs`, `modules.rs`, `words.rs`).

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{LineColumn, Span, TokenStream, TokenTree};

/// What a character of a Rust file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    /// Also what is between tokens.
    Comment,
    /// The inside of a string or character literal; its quotes are code.
    Literal,
}

/// A Rust file whose characters are sorted into code, comments and literals.
#[derive(Debug)]
pub(crate) struct Lexed {
    chars: Vec<char>,
    kinds: Vec<Kind>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Lexed {
    /// Sorts the characters of `text`. What is no Rust has no code; the compiler reports it.
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let breaks = chars.iter().enumerate().filter(|(_, char)| **char == '\n');
        let lines = [0].into_iter().chain(breaks.map(|(at, _)| at + 1)).collect();
        let mut lexed = Self { kinds: vec![Kind::Comment; chars.len()], chars, lines };
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
        let is_inside = |start: &usize| *start > 0 && self.kinds[start - 1] == Kind::Literal;
        self.lines.iter().map(is_inside).collect()
    }

    fn blanked(&self, blank: char, keep: impl Fn(Kind) -> bool) -> String {
        let shown = |(&char, &kind): (&char, &Kind)| match char {
            _ if char.is_whitespace() || keep(kind) => char,
            _ => blank,
        };
        self.chars.iter().zip(&self.kinds).map(shown).collect()
    }

    fn mark_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            let range = self.range(token.span());
            match (token, &self.chars[range.clone()]) {
                // A comment of documentation is the tokens of an attribute to the compiler.
                (_, ['/', '/' | '*', ..]) => {}
                (TokenTree::Group(group), _) => {
                    for delimiter in [group.span_open(), group.span_close()] {
                        let range = self.range(delimiter);
                        self.kinds[range].fill(Kind::Code);
                    }
                    self.mark_all(group.stream());
                }
                (TokenTree::Literal(_), _) => self.mark_literal(range),
                (TokenTree::Ident(_) | TokenTree::Punct(_), _) => {
                    self.kinds[range].fill(Kind::Code);
                }
            }
        }
    }

    /// Marks the quotes of a literal, with what is in front of the first, as code.
    fn mark_literal(&mut self, range: Range<usize>) {
        self.kinds[range.clone()].fill(Kind::Code);
        let literal = &self.chars[range.clone()];
        let open = literal.iter().position(|char| matches!(char, '"' | '\''));
        let close = open.and_then(|open| literal.iter().rposition(|char| *char == literal[open]));
        if let (Some(open), Some(close)) = (open, close) {
            self.kinds[range.start + open + 1..range.start + close].fill(Kind::Literal);
        }
    }

    fn range(&self, span: Span) -> Range<usize> {
        let index = |place: LineColumn| self.lines[place.line - 1] + place.column;
        index(span.start())..index(span.end())
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
