//! Text in lines of the width of a page.
//!
//! Not here: tables, whose lines are cut off instead (`table/grid.rs`).

/// Adds `text` to `out` in lines of at most [`COLUMNS`]: `label` before the first, blanks of the
/// same width before the others.
pub fn wrap(out: &mut String, label: &str, text: &str) {
    let width = label.chars().count();
    let (mut line, mut used) = (label.to_owned(), width);
    for word in text.split_whitespace() {
        let columns = word.chars().count();
        if used > width && used + 1 + columns > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            (line, used) = (" ".repeat(width), width);
        }
        if used > width {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += columns;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Whether a character turns the direction of writing or has no width, so that text of a stranger
/// could hide something.
#[must_use]
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
    )
}

/// The width of tables, in characters.
pub const COLUMNS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_below_its_start() {
        let mut out = String::new();
        wrap(&mut out, "  µ ", &"word ".repeat(25));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  µ word") && lines[1].starts_with("    word"));
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn no_text_leaves_the_label() {
        let mut out = String::new();
        wrap(&mut out, "label ", "");
        assert_eq!(out, "label\n");
    }
}
