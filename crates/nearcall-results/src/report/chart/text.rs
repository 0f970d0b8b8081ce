//! Text in a drawing: made harmless, and as wide as it will be.
//!
//! Names come from untrusted files.
//!
//! **Invariants:** what leaves [`clean`] may stand in XML (after escaping, which maud does) and is
//! not longer than a chart can bear. There is no font here: widths are estimates for a common
//! sans-serif of 12 units.

pub use crate::report::lines::clean_to;

/// A name without control characters and characters that turn the direction of writing.
#[must_use]
pub fn clean(text: &str) -> String {
    clean_to(text, NAME_CHARS_MAX)
}

/// Units that `text` takes.
#[must_use]
pub fn width(text: &str) -> f64 {
    text.chars().map(char_width).sum::<f64>()
}

/// Shortens `text` to `units`, marked by an ellipsis.
#[must_use]
pub fn fit(text: &str, units: f64) -> String {
    if width(text) <= units {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut taken = char_width('…');
    for c in text.chars() {
        taken += char_width(c);
        if taken > units {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 3.8,
        'f' | 't' | 'r' | ' ' | '-' | '(' | ')' | '/' => 5.0,
        'm' | 'w' | 'M' | 'W' | '%' => 11.0,
        'A'..='Z' => 8.6,
        c if c.is_ascii() => 7.4,
        'µ' | '–' | '×' | '·' => 7.6,
        // Ideographs and the like.
        _ => 12.0,
    }
}

/// Longer than any name of ours.
const NAME_CHARS_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(clean("a\u{1b}b\u{202e}c\u{ffff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(clean(&"x".repeat(1_000)).chars().count(), NAME_CHARS_MAX);
    }

    #[test]
    fn text_is_shortened_to_its_room() {
        assert_eq!(fit("pipe", 100.0), "pipe");
        assert!(width(&fit("unix-seqpacket", 50.0)) <= 50.0);
    }
}
