//! Renders the docs of generated functions as doc lines.
//!
//! # Invariants
//!
//! - The docs of a struct or trait say once what holds for all its functions, such as their errors;
//!   a function whose result can be dropped says what dropping does.
//!
//! **Not here:** escaping comments of the `.proto` file (`comments.rs`).

use prost_build::Comments;

use crate::model::{Kind, Method};
use crate::options::Idempotency;

/// Renders the comment of the `.proto` file as doc lines; empty if there is none.
pub(crate) fn comment(comments: &Comments) -> String {
    let mut text = String::new();
    comments.append_with_indent(0, &mut text);
    text
}

/// Renders one paragraph as doc lines of at most [`COLUMNS`] columns. Code is not broken.
pub(crate) fn paragraph(text: &str) -> String {
    let mut out = String::new();
    let mut columns = COLUMNS;
    let mut is_code = false;
    let words = text.split(|char| {
        is_code ^= char == '`';
        char == ' ' && !is_code
    });
    for word in words {
        if columns + 1 + word.len() > COLUMNS {
            out.push_str(if out.is_empty() { "///" } else { "\n///" });
            columns = 0;
        }
        out.push(' ');
        out.push_str(word);
        columns += 1 + word.len();
    }
    out + "\n"
}

/// Joins paragraphs, each given as doc lines, and drops those that are empty.
pub(crate) fn join(paragraphs: &[&str]) -> String {
    let paragraphs = paragraphs.iter().filter(|text| !text.is_empty());
    paragraphs.copied().collect::<Vec<_>>().join("///\n")
}

/// Renders the section `# Errors`.
pub(crate) fn errors(text: &str) -> String {
    format!("/// # Errors\n///\n{}", paragraph(text))
}

/// Renders the sentences about the options of a method; empty without any.
pub(crate) fn options(method: &Method) -> String {
    let deadline = method.deadline_ms.map_or(String::new(), |ms| {
        paragraph(&format!("Default deadline: {ms} ms. The caller may set another one."))
    });
    let is_resent = method.kind == Kind::Unary && method.idempotency != Idempotency::Unknown;
    let idempotency = match is_resent {
        true => paragraph("Idempotent: a call whose connection ends may be sent again."),
        false => String::new(),
    };
    join(&[&deadline, &idempotency])
}

/// Describes what the service does for a method of this shape; empty for a unary one.
pub(crate) fn shape(kind: Kind) -> String {
    match kind {
        Kind::Unary => String::new(),
        Kind::Oneway => paragraph("One-way: there is no reply, and the caller does not wait."),
        Kind::ReplyStream => paragraph(
            "Replies with a stream: each item that is sent to `items` goes to the caller. The \
             stream ends with the returned result.",
        ),
        Kind::RequestStream => paragraph(
            "Takes a stream: `items` gives the requests of the caller in their order, and ends \
             when the caller has sent the last one.",
        ),
        Kind::BothStreams => paragraph(
            "Takes a stream and replies with one, each at its own pace. Both end with the \
             returned result.",
        ),
    }
}

/// The errors of the methods of a service.
pub(crate) const METHOD_ERRORS: &str = "The caller gets the status that a method returns.";

/// The columns of a doc line without its indent, so that it has at most 100 within an `impl`.
const COLUMNS: usize = 93;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_broken_between_words() {
        let text = paragraph(&["word"; 30].join(" "));
        assert!(
            text.lines().all(|line| line.len() <= 96 && line.starts_with("/// word")),
            "{text}"
        );
        assert_eq!(text.matches("word").count(), 30);
        let code = format!("{} `let x = 1;`", "word ".repeat(17));
        assert!(paragraph(&code).ends_with("\n/// `let x = 1;`\n"), "{code}");
        assert_eq!(join(&["/// a\n", "", "/// b\n"]), "/// a\n///\n/// b\n");
    }
}
