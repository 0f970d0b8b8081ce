//! Separates code, comments and the contents of literals of a Rust file.
//!
//! Invariants: the output has as many characters and lines as the input, so that a place in one is
//! the same place in the other. This is no parser: it knows just enough not to take a brace in a
//! string for a block. Not here: the rules that use it (`source.rs`, `modules.rs`).

/// What a character of a Rust file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    /// The inside of a string or character literal; its quotes are code.
    Literal,
}

/// A Rust file whose characters are sorted into code, comments and literals.
#[derive(Debug)]
pub(crate) struct Lexed {
    chars: Vec<char>,
    kinds: Vec<Kind>,
}

impl Lexed {
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut lexed = Self { kinds: vec![Kind::Code; chars.len()], chars };
        let mut at = 0;
        while at < lexed.chars.len() {
            at = lexed.mark(at);
        }
        lexed
    }

    /// The file with comments and the insides of literals blanked.
    pub(crate) fn code(&self) -> String {
        self.blanked(|kind| kind == Kind::Code)
    }

    /// The file with the insides of literals blanked, comments kept.
    pub(crate) fn code_and_comments(&self) -> String {
        self.blanked(|kind| kind != Kind::Literal)
    }

    /// The comments and the insides of literals; code is replaced by `;`, which ends a phrase.
    pub(crate) fn prose(&self) -> String {
        let pairs = self.chars.iter().zip(&self.kinds);
        let shown = |(&char, &kind)| match kind {
            Kind::Code if !char::is_whitespace(char) => ';',
            _ => char,
        };
        pairs.map(shown).collect()
    }

    /// For each line, whether it begins inside a literal that an earlier line opened.
    pub(crate) fn lines_inside_a_literal(&self) -> Vec<bool> {
        let mut lines = vec![false];
        for (place, &char) in self.chars.iter().enumerate() {
            if char == '\n' {
                lines.push(self.kinds[place] == Kind::Literal);
            }
        }
        lines
    }

    fn blanked(&self, keep: impl Fn(Kind) -> bool) -> String {
        let pairs = self.chars.iter().zip(&self.kinds);
        pairs.map(|(&char, &kind)| if char == '\n' || keep(kind) { char } else { ' ' }).collect()
    }

    /// Marks what begins at `at` and returns where the next thing begins.
    fn mark(&mut self, at: usize) -> usize {
        match self.chars[at] {
            '/' if self.peek(at + 1) == Some('/') => {
                let end = self.find(at, |_, char| char == '\n');
                self.fill(at, end, Kind::Comment)
            }
            '/' if self.peek(at + 1) == Some('*') => {
                let end = self.block_comment_end(at);
                self.fill(at, end, Kind::Comment)
            }
            'r' if !self.follows_a_word(at) && self.raw_hashes(at).is_some() => {
                self.raw_string(at, self.raw_hashes(at).unwrap_or(0))
            }
            '"' => self.quoted(at, '"'),
            '\'' if self.peek(at + 1) == Some('\\') || self.peek(at + 2) == Some('\'') => {
                self.quoted(at, '\'')
            }
            _ => at + 1,
        }
    }

    /// How many `#` stand between the `r` at `at` and a quote, if it opens a raw string.
    fn raw_hashes(&self, at: usize) -> Option<usize> {
        let hashes = self.chars[at + 1..].iter().take_while(|&&char| char == '#').count();
        (self.peek(at + 1 + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self, at: usize, hashes: usize) -> usize {
        let start = at + 1 + hashes + 1;
        let closes = |place: usize, char: char| {
            let after = self.chars[place + 1..].iter().take(hashes);
            char == '"' && after.filter(|&&char| char == '#').count() == hashes
        };
        let end = self.find(start, closes);
        self.fill(start, end, Kind::Literal) + 1 + hashes
    }

    fn quoted(&mut self, at: usize, quote: char) -> usize {
        let mut end = at + 1;
        while let Some(char) = self.peek(end) {
            if char == quote {
                break;
            }
            end += if char == '\\' { 2 } else { 1 };
        }
        self.fill(at + 1, end, Kind::Literal) + 1
    }

    fn block_comment_end(&self, at: usize) -> usize {
        let (mut depth, mut end) = (1, at + 2);
        while depth > 0 && end < self.chars.len() {
            match (self.chars[end], self.peek(end + 1)) {
                ('/', Some('*')) => (depth, end) = (depth + 1, end + 2),
                ('*', Some('/')) => (depth, end) = (depth - 1, end + 2),
                _ => end += 1,
            }
        }
        end
    }

    /// Whether the character at `at` continues a word; `br"` and `cr"` are prefixes, not words.
    fn follows_a_word(&self, at: usize) -> bool {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        let before = |back: usize| at.checked_sub(back).and_then(|place| self.peek(place));
        match before(1) {
            Some('b' | 'c') => before(2).is_some_and(is_word),
            char => char.is_some_and(is_word),
        }
    }

    fn peek(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn find(&self, from: usize, wanted: impl Fn(usize, char) -> bool) -> usize {
        let mut places = from..self.chars.len();
        places.find(|&place| wanted(place, self.chars[place])).unwrap_or(self.chars.len())
    }

    fn fill(&mut self, from: usize, to: usize, kind: Kind) -> usize {
        let to = to.min(self.chars.len());
        self.kinds[from.min(to)..to].fill(kind);
        to
    }
}

#[cfg(test)]
mod tests {
    use super::Lexed;

    #[track_caller]
    fn check(text: &str, code: &str) {
        assert_eq!(Lexed::new(text).code(), code);
    }

    #[test]
    fn comments_are_blanked() {
        check("a // {\nb", "a     \nb");
        check("a /* { /* */ } */ b", "a                 b");
    }

    #[test]
    fn insides_of_literals_are_blanked_and_quotes_stay() {
        check(r#"f("{\"}") }"#, r#"f("    ") }"#);
        check(r##"f(r#"{"}"#) }"##, r##"f(r#"   "#) }"##);
        check(r#"f(br"\") }"#, r#"f(br" ") }"#);
        check(r"'{' '\'' b'}' }", r"' ' '  ' b' ' }");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check("fn f<'a>(x: &'a str, r#type: T) {", "fn f<'a>(x: &'a str, r#type: T) {");
        check(r#"for"{""#, r#"for" ""#);
    }

    #[test]
    fn comments_can_be_kept() {
        let lexed = Lexed::new("f(\"// no\") // yes");
        assert_eq!(lexed.code_and_comments(), "f(\"     \") // yes");
    }

    #[test]
    fn prose_is_what_is_no_code() {
        assert_eq!(Lexed::new("f(\"no\") // a b").prose(), ";;;no;; // a b");
    }

    #[test]
    fn lines_of_a_long_literal_are_known() {
        let lexed = Lexed::new("a\nf(\"x\ny\nz\")\nb");
        assert_eq!(lexed.lines_inside_a_literal(), [false, false, true, true, false]);
    }

    #[test]
    fn unfinished_text_ends_quietly() {
        for text in ["\"", "'\\", "r#\"", "/*", "r", "'", "\"\\"] {
            assert_eq!(Lexed::new(text).code().len(), text.len(), "{text:?}");
        }
    }
}
