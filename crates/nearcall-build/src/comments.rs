//! Comments of a `.proto` file: rewritten for rustdoc, before prost turns them into docs, and plain
//! for other languages.
//!
//! # Invariants
//!
//! - No comment holds a link without a target, an HTML tag, a test that rustdoc would run, or a
//!   character that rustc refuses.
//! - Every message and every enum has a comment.
//!
//! The small numbers in paths are field numbers of descriptor.proto. Not here: web addresses,
//! around which prost puts angle brackets.

use std::collections::BTreeMap;
use std::iter;

use prost_reflect::FileDescriptor;
use prost_types::source_code_info::Location;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

/// Rewrites every comment of `file`, and gives messages and enums without one a short sentence.
pub(crate) fn prepare(file: &mut FileDescriptorProto) {
    let items = list_items(file);
    let info = file.source_code_info.get_or_insert_default();
    for location in &mut info.location {
        location.leading_detached_comments.clear();
        for comment in [&mut location.leading_comments, &mut location.trailing_comments] {
            *comment = comment.take().map(|text| escape(&text)).filter(|text| !text.is_empty());
        }
    }
    let known = iter::zip(info.location.iter().map(|location| location.path.clone()), 0..);
    let known: BTreeMap<Vec<i32>, usize> = known.collect();
    for (path, sentence) in items {
        match known.get(&path) {
            Some(&index) => {
                let location = &mut info.location[index];
                if location.leading_comments.is_none() && location.trailing_comments.is_none() {
                    location.leading_comments = sentence;
                }
            }
            // prost expects that every item has a location, or that none has.
            None => {
                let leading_comments = sentence;
                info.location.push(Location { path, leading_comments, ..Location::default() });
            }
        }
    }
}

/// Returns the comment above an item, or else behind it, by its descriptor path; empty if there is
/// none. Its lines have no character that ends them elsewhere, or moves what is shown.
pub(crate) fn plain(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let mut locations = info.into_iter().flat_map(|info| &info.location);
    let Some(location) = locations.find(|location| location.path == path) else {
        return String::new();
    };
    let leading = location.leading_comments().trim_end();
    let text = if leading.is_empty() { location.trailing_comments() } else { leading };
    plain_text(text)
}

fn plain_text(comment: &str) -> String {
    let lines = comment.trim_end().lines();
    let lines = lines.map(|line| line.chars().filter_map(sanitize).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// The items that prost looks up: descriptor path, and the comment for an item that has none.
type Items = Vec<(Vec<i32>, Option<String>)>;

fn list_items(file: &FileDescriptorProto) -> Items {
    let mut items = Items::new();
    let scope = match file.package() {
        "" => String::new(),
        package => format!("{package}."),
    };
    for (index, message) in (0..).zip(&file.message_type) {
        add_message(message, vec![4, index], &scope, &mut items);
    }
    for (index, enumeration) in (0..).zip(&file.enum_type) {
        add_enum(enumeration, vec![5, index], &scope, &mut items);
    }
    for (index, service) in (0..).zip(&file.service) {
        add_children(&[6, index], 2, service.method.len(), &mut items);
        items.push((vec![6, index], None));
    }
    items
}

fn add_message(message: &DescriptorProto, path: Vec<i32>, scope: &str, items: &mut Items) {
    let name = format!("{scope}{}", message.name());
    let scope = format!("{name}.");
    add_children(&path, 2, message.field.len(), items);
    add_children(&path, 8, message.oneof_decl.len(), items);
    for (index, nested) in (0..).zip(&message.nested_type) {
        add_message(nested, [&path[..], &[3, index]].concat(), &scope, items);
    }
    for (index, enumeration) in (0..).zip(&message.enum_type) {
        add_enum(enumeration, [&path[..], &[4, index]].concat(), &scope, items);
    }
    items.push((path, Some(format!(" The message `{name}`.\n"))));
}

fn add_enum(enumeration: &EnumDescriptorProto, path: Vec<i32>, scope: &str, items: &mut Items) {
    add_children(&path, 2, enumeration.value.len(), items);
    items.push((path, Some(format!(" The enum `{scope}{}`.\n", enumeration.name()))));
}

/// Adds `count` items without a comment, in the field `tag` of the descriptor of their parent.
fn add_children(parent: &[i32], tag: i32, count: usize, items: &mut Items) {
    items.extend((0..).take(count).map(|index| ([parent, &[tag, index]].concat(), None)));
}

/// Rewrites a comment for rustdoc. Lines keep the blank that usually follows `//`.
fn escape(comment: &str) -> String {
    let mut out = String::new();
    // `fenced`: in a fence of the `.proto` file. `indented`: in one that is put around an
    // indented block.
    let (mut fenced, mut indented, mut after_blank) = (false, false, true);
    for line in comment.lines() {
        let line: String = line.chars().filter_map(sanitize).collect();
        let line = line.trim_end();
        let text = line.trim_start();
        let columns = line.len() - text.len();
        if indented && columns <= INDENT_MAX && !text.is_empty() {
            out.push_str(" ```\n");
            indented = false;
        }
        if text.starts_with("```") || text.starts_with("~~~") {
            // rustdoc must not run it, whatever its language.
            fenced = !fenced;
            out.push_str(if fenced { " ```text" } else { " ```" });
        } else if fenced || indented {
            out.push_str(line);
        } else if text.is_empty() {
        } else if columns > INDENT_MAX && after_blank {
            indented = true;
            out.push_str(" ```text\n");
            out.push_str(line);
        } else {
            out.push_str(&" ".repeat(columns.min(INDENT_MAX)));
            out.push_str(&escape_line(text));
        }
        out.push('\n');
        after_blank = text.is_empty();
    }
    if fenced || indented {
        out.push_str(" ```\n");
    }
    out.truncate(out.trim_end().len());
    if out.is_empty() { out } else { out + "\n" }
}

/// Escapes everything outside code spans and web addresses.
fn escape_line(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let code = rest.strip_prefix('`').and_then(|rest| rest.find('`')).map(|end| end + 2);
        let address = rest.starts_with("http://") || rest.starts_with("https://");
        let end = match code {
            Some(end) => end,
            None if address => rest.find([' ', '>', ')', '[', ']']).unwrap_or(rest.len()),
            None => char.len_utf8(),
        };
        let (part, after) = rest.split_at(end);
        let in_brackets = after.starts_with("http://") || after.starts_with("https://");
        match part {
            // prost adds its own brackets around the address.
            "<" if in_brackets => {}
            ">" if ends_in_address(&out) => {}
            "<" | "[" | "]" => out.extend(["\\", part]),
            "\\" if after.starts_with(['[', ']', '<']) => {}
            part => out.push_str(part),
        }
        rest = after;
    }
    out
}

/// Returns whether the last word is a web address.
fn ends_in_address(out: &str) -> bool {
    let word = out.rsplit(' ').next().unwrap_or_default();
    word.contains("http://") || word.contains("https://")
}

/// Drops control and bidirectional formatting characters, which rustc refuses in comments, and by
/// which a comment of Python ends.
fn sanitize(char: char) -> Option<char> {
    match char {
        '\t' => Some(' '),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        char if char.is_control() => None,
        char => Some(char),
    }
}

/// Markdown reads a line with more blanks than this as code. The blank behind `//` counts.
const INDENT_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::{escape, plain_text};

    #[track_caller]
    fn check(comment: &str, expected: &str) {
        assert_eq!(escape(comment), expected);
    }

    #[test]
    fn plain_text_stays() {
        check(
            " Sets the target.\n\n Twice, *really*.\n",
            " Sets the target.\n\n Twice, *really*.\n",
        );
        check(" - one\n   and more\n - two\n", " - one\n   and more\n - two\n");
        check("\n \n", "");
    }

    #[test]
    fn links_and_tags_are_only_text() {
        check(" see [Foo] and [a](b)", " see \\[Foo\\] and \\[a\\](b)\n");
        check(" a Vec<u8>, \\[x\\]", " a Vec\\<u8>, \\[x\\]\n");
        check(" but `a[0]<b>` is code, a ` is not", " but `a[0]<b>` is code, a ` is not\n");
    }

    #[test]
    fn addresses_are_left_to_prost() {
        check(" <https://a.b/c> and (http://d)", " https://a.b/c and (http://d)\n");
    }

    #[test]
    fn code_is_never_a_test() {
        check(" ```\n x[0]\n ```\n y[0]", " ```text\n x[0]\n ```\n y\\[0\\]\n");
        check(" ```rust\n x", " ```text\n x\n ```\n");
        check(
            " so:\n\n     x[0]\n\n     y\n z",
            " so:\n\n ```text\n     x[0]\n\n     y\n ```\n z\n",
        );
        check(" far\n         right", " far\n    right\n");
    }

    #[test]
    fn characters_that_rustc_refuses_are_dropped() {
        check(" a\u{202e}b\rc\td", " abc d\n");
        assert_eq!(plain_text(" a\u{202e}b\rc\td\n\n e\n"), " abc d\n\n e");
    }
}
