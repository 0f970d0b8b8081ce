//! Words that are no longer used, with what stands in their place: a table, and how it is applied.
//!
//! A phrase counts in comments, string literals and documents, also across a line break. The tables
//! are data: one row for each phrase. Not here: how code and comments are told apart (`lexer.rs`).

use super::lexer::Lexed;

/// A retired word or phrase, and what to write instead. With a capital letter it is matched as it
/// stands, otherwise in any case.
type Row = (&'static str, &'static str);

/// Phrases that are no longer written where engineers read.
const PHRASES: &[Row] = &[
    ("Again if", "Revisit if"),
    ("Always true", "Invariants"),
    ("by and by", "over time"),
    ("dearer", "costs more"),
    ("folder", "directory"),
    ("folders", "directories"),
    ("for ever", "without end, or what ends it"),
    ("hears", "receives"),
    ("his own", "your own, or its own"),
    ("house rules", "contribution rules"),
    ("in vain", "without success"),
    ("makes no sense", "what is wrong with it: cannot be parsed, is above the limit"),
    ("misdeed", "violation"),
    ("misdeeds", "violations"),
    ("no waiting mends", "retrying cannot fix"),
    ("nobody", "what is absent: no client, no process, no reader"),
    ("one's own", "custom, or your own"),
    ("purse", "balance"),
    ("rules of the house", "contribution rules"),
    ("stranger", "unknown process"),
    ("strangers", "unknown processes"),
    ("tells", "reports, returns or shows"),
    ("who has", "with, or that has"),
    ("who wants", "to do something, as an infinitive"),
    ("whom", "what is meant: which process, which client"),
    ("wish", "requirement"),
    ("wishes", "requirements"),
];

/// Commands and options that have another name now.
const COMMANDS: &[Row] = &[
    ("bench gap", "bench idle-gap"),
    ("bench pace", "bench open-loop"),
    ("bench rivals", "bench libraries"),
    ("bench start", "bench connect"),
    ("bench waits", "bench wait-policies"),
    ("--any-buffer", "--allow-buffer-mismatch"),
    ("--awake", "--pm-qos"),
    ("--caller", "--client"),
    ("--sizes", "--size"),
    ("--touch", "--payload-access"),
    ("--via", "--mechanism"),
];

/// What has changed is told there with its old name, so only phrases are looked for.
const CHANGELOG: &str = "CHANGELOG.md";
/// This file, which has to name what it looks for.
const SELF: &str = "xtask/src/tidy/words.rs";
/// What is text that people read, beside Rust.
const DOCUMENTS: &[&str] = &[".md", ".toml", "/run", ".proto"];

/// Every retired word in the file at `path`: its line, and what to write instead.
#[must_use]
pub fn problems(path: &str, text: &str) -> Vec<String> {
    let is_rust = path.ends_with(".rs");
    let is_text = is_rust || DOCUMENTS.iter().any(|end| path.ends_with(end));
    if !is_text || path == SELF {
        return Vec::new();
    }
    let prose = if is_rust { Lexed::new(text).prose() } else { text.to_owned() };
    let mut found = phrases(&prose, PHRASES);
    if path != CHANGELOG {
        found.extend(phrases(&prose, COMMANDS));
    }
    found.sort_unstable();
    found.dedup();
    let message = |(line, (word, instead)): (usize, Row)| {
        format!("{path}:{line}: `{word}` is retired; write: {instead}")
    };
    found.into_iter().map(message).collect()
}

/// The phrases of `rows` that `prose` contains, also across line breaks, each with its line.
fn phrases(prose: &str, rows: &[Row]) -> Vec<(usize, Row)> {
    let words = words(prose);
    let is_at = |at: usize, phrase: &str| {
        let is_same = |part: &str, word: &str| match phrase.starts_with(char::is_uppercase) {
            true => part == word,
            false => part.eq_ignore_ascii_case(word),
        };
        let mut parts = phrase.split(' ').enumerate();
        parts
            .all(|(place, part)| words.get(at + place).is_some_and(|(_, word)| is_same(part, word)))
    };
    let initial = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    let mut found = Vec::new();
    for (at, (line, first)) in words.iter().enumerate() {
        let may_begin = rows.iter().filter(|row| initial(row.0) == initial(first));
        found.extend(may_begin.filter(|row| is_at(at, row.0)).map(|row| (*line, *row)));
    }
    found
}

/// The words of a text with their lines; what ends a phrase stands as an empty word.
fn words(prose: &str) -> Vec<(usize, &str)> {
    let is_word = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '\'');
    // Marks of comments and of lists stand between the words of a phrase that goes on.
    let is_space = |char: char| char.is_whitespace() || matches!(char, '/' | '!' | '*' | '#' | '>');
    let mut words = Vec::new();
    for (index, line) in prose.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|char| !is_word(char)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (word, behind) = rest.split_at(length);
            match first {
                _ if is_word(first) => words.push((index + 1, word)),
                _ if is_space(first) => {}
                _ => words.push((index + 1, "")),
            }
            rest = behind;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let problems = problems(path, text);
        let places = problems.iter().map(|problem| {
            let (place, _) = problem.split_once(" is retired; write: ").unwrap();
            place.strip_prefix(path).unwrap()
        });
        assert_eq!(places.collect::<Vec<_>>(), expected);
    }

    const CHANNEL: &str = "crates/nearcall-channel/src/shm.rs";

    #[test]
    fn retired_phrases_are_found_in_comments_and_texts() {
        check(
            CHANNEL,
            "/// Waits for\n    /// ever. Nobody knows.\n",
            &[":1: `for ever`", ":2: `nobody`"],
        );
        check(
            CHANNEL,
            "f(\"nobody listens\"); // Calls `Misdeed::new`.\n",
            &[":1: `misdeed`", ":1: `nobody`"],
        );
        check(CHANNEL, "// Waits for. Ever.\nf(\"bench\", \"rivals\");\n", &[]);
        check(CHANNEL, "fn tell(nobody: Purse) {}\n", &[]);
        check(CHANNEL, "// Tries again if it fails.\n", &[]);
    }

    #[test]
    fn documents_are_read_as_prose() {
        check("README.md", "Again if `it` is\nfor ever\n", &[":1: `Again if`", ":2: `for ever`"]);
        check(
            "docs/a.md",
            "nearcall bench rivals --sizes 8",
            &[":1: `--sizes`", ":1: `bench rivals`"],
        );
        check(
            "CHANGELOG.md",
            "`bench rivals`, now for ever `bench libraries`",
            &[":1: `for ever`"],
        );
        check("docs/runs/a.json", "nobody", &[]);
        check("crates/nearcall-cli/src/args.rs", "// --via", &[":1: `--via`"]);
    }

    #[test]
    fn a_finding_says_what_to_write() {
        let problems = problems("README.md", "in vain\n");
        assert_eq!(problems, ["README.md:1: `in vain` is retired; write: without success"]);
    }
}
