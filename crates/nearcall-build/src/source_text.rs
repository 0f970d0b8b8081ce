//! Prepares the text of a `.proto` file for the parser (protox-parse 0.10), and refuses what the
//! parser would report badly or could not survive.
//!
//! The parser reads no options behind a range of one number: `extensions 5 [...]`, as in the
//! descriptor.proto of protobuf since version 27. Such a range is written as `5 to 5`, which means
//! the same.
//!
//! # Invariants
//!
//! - Only tokens outside comments and strings are looked at, and no line break is added or removed.
//!   Columns move behind a changed range, on its line only.
//!
//! **Not here:** files and directories (`sources.rs`).

use std::borrow::Cow;
use std::iter;

use crate::error::{BuildError, Place};

/// Returns the text of the file `name` that the parser gets.
pub(crate) fn prepare<'a>(name: &str, text: &'a str) -> Result<Cow<'a, str>, BuildError> {
    // As protoc, which skips the mark at the start.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut depth: usize = 0;
    let mut range = Range::Outside;
    // The offsets behind single numbers that have options, each with the number.
    let mut singles: Vec<(usize, &str)> = Vec::new();
    for (index, (offset, token)) in tokens(text).enumerate() {
        if index == 0 && token == "edition" {
            return Err(BuildError::Edition { place: place(name, text, offset) });
        }
        match token {
            "{" | "[" | "(" | "<" => depth += 1,
            "}" | "]" | ")" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACKETS_MAX {
            let place = place(name, text, offset);
            return Err(BuildError::Nesting { place, limit: BRACKETS_MAX });
        }
        range = match (range, token) {
            (_, ";" | "{" | "}") => Range::StatementStart,
            (Range::StatementStart, "extensions") | (Range::Single(..), ",") => Range::NumberNext,
            (Range::Interval, ",") => Range::NumberNext,
            (Range::NumberNext, number) if number.starts_with(|c: char| c.is_ascii_digit()) => {
                Range::Single(offset + number.len(), number)
            }
            (Range::Single(..), "to") => Range::Interval,
            (Range::Single(end, number), "[") => {
                singles.push((end, number));
                Range::Outside
            }
            (Range::Interval, token) if token != "[" => Range::Interval,
            _ => Range::Outside,
        };
    }
    Ok(match singles.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(write_intervals(text, &singles)),
    })
}

/// The place in a statement `extensions 4, 5 to 9, 11 [...];`.
#[derive(Clone, Copy)]
enum Range<'a> {
    /// In another statement, or behind the ranges.
    Outside,
    /// Behind the end of a statement or block.
    StatementStart,
    /// A number must follow.
    NumberNext,
    /// Behind the first number of a range: its end, and its text.
    Single(usize, &'a str),
    /// Within or behind a range of two numbers.
    Interval,
}

fn write_intervals(text: &str, singles: &[(usize, &str)]) -> String {
    let mut out = String::with_capacity(text.len() + singles.len() * 16);
    let mut start = 0;
    for (end, number) in singles {
        out.push_str(&text[start..*end]);
        out.push_str(" to ");
        out.push_str(number);
        start = *end;
    }
    out + &text[start..]
}

/// Returns the tokens of the text with their offsets: names and numbers, strings, and single
/// characters.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    iter::from_fn(move || {
        loop {
            let rest = &text[at..];
            let first = rest.chars().next()?;
            let length = token_length(rest, first);
            let (offset, token) = (at, &rest[..length]);
            at += length;
            let is_comment = token.starts_with("//") || token.starts_with("/*");
            if !first.is_whitespace() && !is_comment {
                return Some((offset, token));
            }
        }
    })
}

/// Returns the length of the token, comment or white space at the start of `rest`.
fn token_length(rest: &str, first: char) -> usize {
    let up_to = |end: Option<usize>| end.unwrap_or(rest.len());
    if rest.starts_with("//") {
        up_to(rest.find('\n'))
    } else if let Some(comment) = rest.strip_prefix("/*") {
        up_to(comment.find("*/").map(|end| end + 4))
    } else if first == '"' || first == '\'' {
        let mut is_escaped = false;
        let ends = |char: char| {
            let ends = !is_escaped && (char == first || char == '\n');
            is_escaped = !is_escaped && char == '\\';
            ends
        };
        up_to(rest[1..].find(ends).map(|end| end + 2))
    } else if is_word(first) {
        up_to(rest.find(|char| !is_word(char)))
    } else {
        first.len_utf8()
    }
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Finds line and column of an offset.
fn place(name: &str, text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
    Place { file: name.to_owned(), at: Some((small(line), small(column))) }
}

/// How deep brackets of all kinds may be nested. Each level of an option's value is a call of the
/// parser, so that some thousands would overflow its stack; protoc refuses messages deeper than 32.
const BRACKETS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str) -> String {
        prepare("a.proto", text).unwrap().into_owned()
    }

    #[test]
    fn a_single_number_with_options_becomes_a_range() {
        for (text, expected) in [
            ("message M { extensions 5 [v = U]; }", "message M { extensions 5 to 5 [v = U]; }"),
            (
                "extensions/*1*/0x1F\n// [\n[a={b:1}];",
                "extensions/*1*/0x1F to 0x1F\n// [\n[a={b:1}];",
            ),
            (
                "m { extensions 4, 6 to 9, 11 [v=U]; }",
                "m { extensions 4, 6 to 9, 11 to 11 [v=U]; }",
            ),
            (
                "} extensions 1 [a=1]; extensions 2[b=2];",
                "} extensions 1 to 1 [a=1]; extensions 2 to 2[b=2];",
            ),
        ] {
            assert_eq!(
                prepared(&format!("option x = 1; {text}")),
                format!("option x = 1; {expected}")
            );
        }
    }

    #[test]
    fn other_text_stays() {
        for text in [
            "message M { extensions 5 to 9 [v = U]; extensions 7; extensions 8 to max; }",
            "message M { repeated extensions x = 5 [deprecated = true]; \
             extensions y = 5 [a = 1]; }",
            "// extensions 5 [\noption a = \"; extensions 5 [\\\" \"; \
             option b = '; extensions 6 [';",
            "/* ; extensions 5 [v = U]; */ message M { reserved 5, 6 to 7; }",
            "enum extensions { extensions = 5 [deprecated = true]; }",
            "message M { int32 f = 1 [(x) = { extensions: 5 }]; } \"unterminated",
            "/* unterminated",
            "",
        ] {
            assert!(
                matches!(prepare("a.proto", text), Ok(Cow::Borrowed(same)) if same == text),
                "{text}"
            );
        }
        assert_eq!(prepared("\u{feff}message M {}"), "message M {}");
    }

    #[test]
    fn editions_and_endless_nesting_are_refused_with_their_place() {
        let error = prepare("a.proto", "// é\n /* é */ edition = \"2023\";").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.proto:2:10: editions are not supported; use syntax = \"proto3\""
        );
        let text = format!("option a = {}\n{};", "{ b: [".repeat(100), "{");
        let error = prepare("a.proto", &text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.proto:2:1: brackets are nested deeper than 200 levels, the limit; flatten the value \
             or message"
        );
        assert!(prepare("a.proto", "message edition { string edition = 1; }").is_ok());
    }
}
