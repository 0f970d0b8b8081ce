//! Names and texts that others chose, made harmless for their readers.
//!
//! A server chooses the names that it replies with, a run file comes from anywhere. On a terminal,
//! in a log and on a page a control character moves the cursor, and a character without a width or
//! of another direction hides or turns what stands around it.
//! **Invariants:** what these functions return has no control character (Cc), no format character
//! (Cf, which direction and zero width are) and no line or paragraph separator; the text of JSON
//! has the same values as before.
//! **Not here:** how long a text may be (`report/lines.rs`), escaping for HTML and Markdown.
//!
//! **Invariant:** no name or text that others have chosen reaches a terminal, JSON, Markdown or a
//! page with a hidden character (`visible.rs`). *Checked by*
//! `what_is_hidden_is_escaped_in_lines_and_in_json`, `names_of_strangers_stay_text`.

use std::fmt::Write;

/// Returns whether a character is not seen, or changes how those around it are: a control or
/// format character, a separator of lines, or one that XML may not have.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    let is_listed = |&(first, last): &(u32, u32)| (first..=last).contains(&u32::from(c));
    c.is_control() || (!c.is_ascii() && HIDDEN.iter().any(is_listed))
}

/// Returns the text in one line that a terminal shows as it is: control and invisible characters
/// are escaped.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

/// Returns the text with hidden characters escaped, but for line breaks and the escape sequences
/// that [`Style::paint`](crate::report::lines::Style::paint) makes, which are left if `has_color`.
#[must_use]
pub fn printable_lines(text: &str, has_color: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\u{1b}' if has_color => color_length(rest),
            _ => None,
        };
        let (head, tail) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length.is_some() || c == '\n' || !is_hidden(c) {
            true => out.push_str(head),
            false => out.extend(c.escape_unicode()),
        }
        rest = tail;
    }
    out
}

/// Returns the length of the colour that `text` begins with.
fn color_length(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("\u{1b}[")?;
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0 && digits[count..].starts_with('m')).then_some(count + 3)
}

/// Returns a JSON document with hidden characters as `\uXXXX`, which gives the same values. Line
/// breaks and tabs between the values stay: within texts JSON has none.
#[must_use]
pub fn printable_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        if matches!(c, '\n' | '\r' | '\t') || !is_hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Memory takes what is written.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// The characters of the categories Cf, Zl and Zp of Unicode 16, the plane of tags and variation
/// selectors, which are not seen either, and what XML may not have; first and last.
const HIDDEN: [(u32, u32); 20] = [
    (0x00ad, 0x00ad),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x180e, 0x180e),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0xfeff, 0xfeff),
    (0xfff9, 0xfffb),
    (0xfffe, 0xffff),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each kind one: controls of both ranges, of direction, of no width, separators, tags.
    const HIDDEN_ONES: [char; 13] = [
        '\u{1b}',
        '\u{7f}',
        '\u{9b}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200f}',
        '\u{202e}',
        '\u{2028}',
        '\u{2029}',
        '\u{2066}',
        '\u{feff}',
        '\u{e0041}',
    ];

    #[test]
    fn what_is_hidden_is_escaped_in_lines_and_in_json() {
        for c in HIDDEN_ONES {
            let text = format!("a{c}b");
            let code = u32::from(c);
            assert!(is_hidden(c), "{code:x}");
            assert_eq!(printable(&text), format!("a\\u{{{code:x}}}b"));
            assert_eq!(printable_lines(&text, true), format!("a\\u{{{code:x}}}b"));
            let json = printable_json(&serde_json::to_string(&text).unwrap());
            assert!(json.is_ascii(), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
        let plain = "Küche “–” ½ 厨 \u{1f525} e\u{301} \"'\\";
        assert!(!plain.chars().any(is_hidden));
        assert_eq!(printable_lines(plain, false), plain);
        let json = serde_json::to_string_pretty(&[plain, "\t\n"]).unwrap();
        assert_eq!(printable_json(&json), json);
    }

    #[test]
    fn whatever_is_hidden_is_no_printable_character_of_the_standard_library() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|&c| is_hidden(c)) {
            assert!(c.escape_debug().count() > 1, "{:x}", u32::from(c));
        }
    }

    #[test]
    fn of_escape_sequences_only_colours_stay_and_only_where_there_are_some() {
        let text = "\u{1b}[31mred\u{1b}[0m\n\u{1b}[2J\u{1b}]0;x\u{7}\u{1b}[m\u{1b}";
        let expected = "\u{1b}[31mred\u{1b}[0m\n\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{1b}[m\\u{1b}";
        assert_eq!(printable_lines(text, true), expected);
        assert!(!printable_lines(text, false).contains('\u{1b}'));
    }
}
