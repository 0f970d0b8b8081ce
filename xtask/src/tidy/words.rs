//! Words that are no longer used, with what stands in their place: a table, and how it is applied.
//!
//! A name counts in code, and in backticks in comments and documents; a phrase counts in comments,
//! string literals and documents, also across a line break. The tables are data: one row for each
//! word. Not here: how code and comments are told apart (`lexer.rs`).

use super::lexer::Lexed;

/// A retired word or phrase, and what to write instead. With a capital letter it is matched as it
/// stands, otherwise in any case.
type Row = (&'static str, &'static str);

/// Names that are no longer used in some crates. One with a capital letter or with `_` is a whole
/// identifier, another is a part of one: `nag` is found in `nag_peer`, `Nag` and `NAG_NS`.
const NAMES: &[(&[&str], &[Row])] = &[
    (
        &["nearcall", "nearcall-channel", "nearcall-wire", "nearcall-os", "nearcall-build"],
        &[
            ("folder", "directory or dir"),
            ("folders", "directories or dirs"),
            ("misdeed", "violation"),
            ("nameless", "unlinked"),
            ("purse", "balance"),
            ("stranger", "unknown_process or pending_client"),
            ("strangers", "unknown_processes or pending_clients"),
        ],
    ),
    (
        &["nearcall"],
        &[
            ("Arrival", "InboundCall"),
            ("Arrived", "RequestHead"),
            ("Core", "the part that is meant: the buffers, the nesting, the registry"),
            ("Inside", "NestingGuard"),
            ("LentBody", "BorrowedBody"),
            ("LentParts", "BorrowedSegments"),
            ("Met", "Handshaked"),
            ("Meetings", "PendingHandshakes"),
            ("NEAR", "INLINE"),
            ("NEAR_BYTES", "INLINE_BYTES"),
            ("Native", "FdlessConnection"),
            ("Near", "InlineBuf"),
            ("Opening", "OutboundMessage"),
            ("Reached", "Target"),
            ("RemoteObject", "ObjectRef"),
            ("Started", "PendingCall"),
            ("Took", "Received"),
            ("Watch", "ReadinessState"),
            ("Way", "Binding"),
            ("answer_by_itself", "reply_to_control"),
            ("attend", "start_handshake"),
            ("cut_off", "abort"),
            ("doze", "sleep_on_fdless"),
            ("is_wanted", "!is_cancelled"),
            ("misbehaved", "protocol_violation"),
            ("never_reads", "disconnect_slow_reader"),
            ("refuse_unknown", "unimplemented"),
            ("send_own", "send_control"),
            ("settle_host", "notify_host_loop"),
            ("take_far", "receive_large"),
            ("take_near", "receive_inline"),
            ("take_rare", "handle_slow_path"),
            ("ticket", "call id"),
            ("treat", "handle_event"),
            ("turn_away", "reject"),
            ("wants_room", "has_pending_writes"),
            ("welcome", "accept_client"),
            ("why_gone", "close_reason"),
        ],
    ),
    (
        &["nearcall-channel"],
        &[
            ("Assembly", "Reassembly"),
            ("ByteLine", "ByteStream"),
            ("Interrupter", "Interrupt"),
            ("Learner", "SpinBudget"),
            ("Life", "PeerLiveness"),
            ("PacketLine", "PacketSocket"),
            ("Ringer", "Waker"),
            ("Sleeper", "Waiter"),
            ("deaf", "not interruptible"),
            ("habits", "flags"),
            ("has_come", "poll_ready"),
            ("nag", "retry_wake"),
            ("piece", "fragment"),
            ("pieces", "fragments"),
            ("take_whole_only", "set_whole_messages_only"),
            ("thrifty", "lazy_commit"),
            ("ticket", "epoch"),
            ("turn_away", "reject"),
        ],
    ),
    (&["nearcall-wire"], &[("Gone", "Closed"), ("Revoked", "Cancelled")]),
];

/// Phrases that are no longer written where engineers read.
const PHRASES: &[Row] = &[
    ("Again if", "Revisit if"),
    ("Always true", "Invariants"),
    ("by and by", "over time"),
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

/// Where they are not looked for yet.
const UNREAD: &[&str] = &["crates/nearcall-results/"];
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
    let is_read = !UNREAD.iter().any(|start| path.starts_with(start));
    let is_text = is_rust || DOCUMENTS.iter().any(|end| path.ends_with(end));
    if !is_read || !is_text || path == SELF {
        return Vec::new();
    }
    let lexed = Lexed::new(if is_rust { text } else { "" });
    let prose = if is_rust { lexed.prose() } else { text.to_owned() };
    let mut found = phrases(&prose, PHRASES);
    if path != CHANGELOG {
        found.extend(phrases(&prose, COMMANDS));
        for rows in names_of(path) {
            found.extend(names(&lexed.code(), rows));
            found.extend(names(&in_backticks(&prose), rows));
        }
    }
    found.sort_unstable();
    found.dedup();
    let message = |(line, (word, instead)): (usize, Row)| {
        format!("{path}:{line}: `{word}` is retired; write: {instead}")
    };
    found.into_iter().map(message).collect()
}

/// The names that are retired in the file at `path`: those of its crate, in a document all.
fn names_of(path: &str) -> impl Iterator<Item = &'static [Row]> {
    let name = path.strip_prefix("crates/").and_then(|path| path.split('/').next());
    let applies = move |(crates, _): &&(&[&str], &[Row])| match name {
        Some(name) => crates.contains(&name),
        None => path.ends_with(".md"),
    };
    NAMES.iter().filter(applies).map(|(_, rows)| *rows)
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

/// The names of `rows` that `code` contains, each with its line.
fn names(code: &str, rows: &[Row]) -> Vec<(usize, Row)> {
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for name in line.split(|char| !is_name(char)).filter(|name| !name.is_empty()) {
            let parts = parts(name);
            let is_named = |row: &&Row| match row.0.starts_with(char::is_uppercase) {
                true => name == row.0,
                false => name == row.0 || parts.split('_').any(|part| part == row.0),
            };
            found.extend(rows.iter().filter(is_named).map(|row| (index + 1, *row)));
        }
    }
    found
}

/// A name in small letters, with `_` between its parts.
fn parts(name: &str) -> String {
    let mut parts = String::new();
    let mut before = '_';
    for char in name.chars() {
        if char.is_uppercase() && before.is_lowercase() {
            parts.push('_');
        }
        parts.extend(char.to_lowercase());
        before = char;
    }
    parts
}

/// A text in which only what stands in backticks is left, on the same lines.
fn in_backticks(prose: &str) -> String {
    let code = |line: &str| {
        let spans: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        spans.join(" ")
    };
    prose.lines().map(|line| code(line) + "\n").collect()
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
    fn retired_names_are_found_in_code() {
        check(
            CHANNEL,
            "fn nag_peer(m: Misdeed) {}\nconst PIECE_MAX: u8 = 1;\nuse x::{PieceWay, Life};\n",
            &[":1: `misdeed`", ":1: `nag`", ":2: `piece`", ":3: `Life`", ":3: `piece`"],
        );
        check(CHANNEL, "fn snag(pieced: Lifetime) {}\nfn it_has_come_now() {}\n", &[]);
        check(CHANNEL, "self.has_come()\n", &[":1: `has_come`"]);
        // Another crate, other names; and no phrase is a name.
        check("crates/nearcall-wire/src/lib.rs", "fn nag(nobody: Life) {}\n", &[]);
        check("crates/nearcall-bench/src/lib.rs", "// nobody\nfn nag() {}\n", &[":1: `nobody`"]);
    }

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
        check(CHANNEL, "// Tries again if it fails.\n", &[]);
    }

    #[test]
    fn documents_are_read_as_prose() {
        check(
            "README.md",
            "Again if `Took` is\nfor ever\n",
            &[":1: `Again if`", ":1: `Took`", ":2: `for ever`"],
        );
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
