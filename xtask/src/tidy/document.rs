//! Rules for the documents: the map is complete, commands and tests exist, and no path belongs to
//! one machine.
//!
//! Not here: spelling, which a reader sees, and links to other sites.

use std::collections::BTreeMap;

/// Top-level directories and crates that ARCHITECTURE.md does not name.
#[must_use]
pub fn unnamed_parts(architecture: &str, parts: &[String]) -> Vec<String> {
    let named = |part: &str| {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        architecture.match_indices(part).any(|(start, _)| ends(&architecture[start + part.len()..]))
    };
    let missing = parts.iter().filter(|part| !named(part));
    missing
        .map(|part| {
            format!("ARCHITECTURE.md: does not name `{part}`; say in one line what it is for")
        })
        .collect()
}

/// A changelog without a place for the next change.
#[must_use]
pub fn changelog(text: &str) -> Vec<String> {
    if text.lines().any(|line| line == "## [Unreleased]") {
        return Vec::new();
    }
    vec!["CHANGELOG.md: add a section `## [Unreleased]`; users read there what changed".to_owned()]
}

/// A document of more than `lines_max` lines.
#[must_use]
pub fn length(name: &str, text: &str, lines_max: usize) -> Option<String> {
    let lines = text.lines().count();
    (lines > lines_max).then(|| {
        format!("{name}: {lines} lines, {lines_max} are allowed; move what few readers need")
    })
}

/// Links of the document at `path` to files that do not exist, by paths within the repository.
#[must_use]
pub fn dead_links(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in prose(text) {
        for link in links(line) {
            let link = link.split(['#', ' ']).next().unwrap_or_default();
            if !link.is_empty() && !link.contains(':') && !exists(&resolve(path, link)) {
                problems.push(format!("{path}:{number}: no file at `{link}`"));
            }
        }
    }
    problems
}

/// Lines outside of fenced blocks, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of links in a line.
pub(super) fn links(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split("](").skip(1);
    parts.map(|part| part.split_once(')').map_or(part, |(link, _)| link))
}

/// Returns the path in the repository of what a document at `path` links to.
pub(super) fn resolve(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What the commands of a document may name.
pub struct Commands<'a> {
    /// Whether `cargo xtask` has this verb.
    pub is_chore: &'a dyn Fn(&str) -> bool,
    /// Whether the program `nearcall` has this verb.
    pub is_verb: &'a dyn Fn(&str) -> bool,
    /// Whether the repository has a file at this path.
    pub is_file: &'a dyn Fn(&str) -> bool,
}

/// Commands in the fenced `sh` blocks of the document `name` that do not exist.
#[must_use]
pub fn unknown_commands(name: &str, text: &str, known: &Commands<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut in_shell = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_shell = !in_shell && matches!(language, "sh" | "bash" | "console");
            continue;
        }
        let command = line.split('#').next().unwrap_or_default().trim();
        let command = command.strip_prefix("$ ").unwrap_or(command);
        if in_shell && !command.is_empty() && !exists(command, known) {
            problems.push(format!(
                "{name}:{}: `{command}` does not exist; correct it, or teach \
                 xtask/src/tidy/document.rs what it is",
                index + 1
            ));
        }
    }
    problems
}

fn exists(command: &str, known: &Commands<'_>) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["git", "clone", ..] | ["cd", _] => true,
        ["bash", path] => (known.is_file)(path),
        ["cargo", "build" | "test" | "clippy" | "fmt" | "doc", ..] => true,
        ["cargo", "install", "--path", path] => (known.is_file)(&format!("{path}/Cargo.toml")),
        ["cargo", "xtask", chore, ..] => (known.is_chore)(chore),
        ["cargo", "run", "--example", name, ..] => {
            (known.is_file)(&format!("crates/nearcall-examples/examples/{name}.rs"))
        }
        ["cargo", "run", rest @ ..] => {
            let mut program = rest.iter().skip_while(|word| **word != "--").skip(1);
            program.next().is_some_and(|verb| (known.is_verb)(verb))
        }
        [program, verb, ..] if program.ends_with("nearcall") => (known.is_verb)(verb),
        _ => false,
    }
}

/// Tests that `text` names, such as `module::test`, and that no file of `files` (path, text) has.
///
/// The file's path has the first part of the name, its text the function of the last part.
#[must_use]
pub fn unknown_tests(name: &str, text: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')));
    let unknown = words.filter(|test| {
        let Some((module, _)) = test.split_once("::") else { return false };
        let function = format!("fn {}(", test.rsplit("::").next().unwrap_or_default());
        let parts = |path: &str| path.split(['/', '.']).any(|part| part == module);
        !files.iter().any(|(path, text)| parts(path) && text.contains(&function))
    });
    unknown.map(|test| format!("{name}: no test {test}; name one that there is")).collect()
}

/// Those of `rows`, such as `R1`, that begin no row of a table of `text`.
#[must_use]
pub fn missing_rows(name: &str, text: &str, rows: impl IntoIterator<Item = String>) -> Vec<String> {
    let has_row = |row: &str| text.lines().any(|line| line.starts_with(&format!("| {row} ")));
    let missing = rows.into_iter().filter(|row| !has_row(row));
    missing.map(|row| format!("{name}: {row} has no row")).collect()
}

/// Names in the table of `text` that no source of `files` (path, text) defines: constants such as
/// `NESTING_MAX`, and functions, fields and variants of types such as `Limits::calls_max`. Each has
/// to be in a file that defines or implements its type.
#[must_use]
pub fn unknown_names(name: &str, text: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let sources = || {
        let sources = files.iter().filter(|(path, _)| path.contains("/src/"));
        sources.map(|(_, text)| text.as_str())
    };
    let is_defined = |word: &str| match word.split_once("::") {
        Some((of, part)) => sources().any(|text| {
            let is_type = [format!("struct {of} "), format!("struct {of}<"), format!("impl {of} ")]
                .into_iter()
                .chain([format!("> {of}<"), format!("impl {of}<")])
                .any(|words| text.contains(&words));
            let parts = [format!("fn {part}("), format!("fn {part}<"), format!("pub {part}: ")];
            let is_enum = text.contains(&format!("enum {of} "));
            is_type && parts.iter().any(|part| text.contains(part))
                || is_enum && text.lines().any(|line| line.trim() == format!("{part},"))
        }),
        None => sources().any(|text| text.contains(&format!("const {word}: "))),
    };
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let words = words.filter(|word| {
        let is_code = word.starts_with("RESOURCE_") || word.starts_with("DEADLINE_");
        !is_code && (word.contains("::") || word.chars().all(|c| c.is_uppercase() || c == '_'))
    });
    let unknown = words.filter(|word| !is_defined(word));
    unknown.map(|word| format!("{name}: nothing is named {word}; correct the table")).collect()
}

/// Absolute paths of the machine on which the file was written.
#[must_use]
pub fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for directory in ["home", "root", "work", "Users"] {
            if names_directory(line, directory) {
                problems.push(format!(
                    "{path}:{}: a path below the directory `{directory}` of one machine; write it \
                     relative to the repository, or use a temporary directory",
                    index + 1
                ));
            }
        }
    }
    problems
}

/// Whether `line` has `/directory/` or `/directory` as the start of an absolute path.
fn names_directory(line: &str, directory: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '}' | '~');
    let path = format!("/{directory}");
    line.match_indices(&path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let mut after = line[start + path.len()..].chars();
        let starts = !before.is_some_and(is_path);
        let next = after.next();
        let ends = match next {
            Some('/') => after.next().is_some_and(|c| is_path(c) || c == '{'),
            next => directory == "root" && !next.is_some_and(is_path),
        };
        starts && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_names_every_part() {
        let parts = ["nearcall".to_owned(), "nearcall-os".to_owned(), "fuzz".to_owned()];
        assert_eq!(unnamed_parts("`nearcall`, `nearcall-os`, `fuzz/`", &parts), [""; 0]);
        let problems = unnamed_parts("`nearcall-os` and `nearcall-osx`", &parts);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("does not name `nearcall`;"), "{problems:?}");
        assert!(problems[1].contains("does not name `fuzz`;"), "{problems:?}");
    }

    #[test]
    fn the_changelog_has_a_place_for_the_next_change() {
        assert_eq!(changelog("# Changelog\n\n## [Unreleased]\n"), [""; 0]);
        assert_eq!(changelog("# Changelog\n\n## [0.1.0]\n").len(), 1);
    }

    #[test]
    fn long_documents_are_reported() {
        assert_eq!(length("README.md", "a\nb\n", 2), None);
        assert!(length("README.md", "a\nb\nc\n", 2).is_some());
    }

    #[test]
    fn links_that_lead_nowhere_are_reported() {
        let exists = |path: &str| ["docs/a.md", "README.md"].contains(&path);
        let text = "[a](a.md#top) [r](../README.md) [w](https://x.y)\n```\n[c](c.md)\n```\n";
        assert_eq!(dead_links("docs/b.md", text, &exists), [""; 0]);
        let problems = dead_links("docs/b.md", "x\n[c](c.md \"title\")", &exists);
        assert_eq!(problems, ["docs/b.md:2: no file at `c.md`"]);
    }

    #[track_caller]
    fn check_command(command: &str, expected: bool) {
        let known = Commands {
            is_chore: &|chore| chore == "ci",
            is_verb: &|verb| verb == "bench",
            is_file: &|path| {
                [".ci/run", "crates/nearcall-examples/examples/one.rs"].contains(&path)
            },
        };
        let text = format!("cargo nonsense\n```sh\n{command}\n```\n```text\ncargo nonsense\n```\n");
        assert_eq!(unknown_commands("README.md", &text, &known).is_empty(), expected, "{command}");
    }

    #[test]
    fn commands_of_a_document_exist() {
        for command in [
            "cargo test",
            "$ cargo run --release -- bench --quick   # about a minute",
            "cargo xtask ci --quick",
            "./target/release/nearcall bench",
            "bash .ci/run",
            "cargo run --example one -- serve",
            "# only a remark",
        ] {
            check_command(command, true);
        }
        for command in [
            "cargo run --release -- bensch",
            "cargo run --release",
            "cargo run --example two",
            "cargo xtask cj",
            "nearcall call",
            "bash .ci/walk",
            "make",
        ] {
            check_command(command, false);
        }
    }

    #[test]
    fn tests_of_a_document_exist() {
        let file = |path: &str, test: &str| (path.to_owned(), format!("    fn {test}() {{\n"));
        let files =
            BTreeMap::from([file("crates/a/src/timers.rs", "one"), file("a/it/load.rs", "two")]);
        let text = "`timers::tests::one` and `load::two`, `--load` of `nearcall bench`";
        assert_eq!(unknown_tests("a.md", text, &files), [""; 0]);
        for wrong in ["timers::tests::on", "load::one", "tim::one", "timers::tests::fn"] {
            let found = unknown_tests("a.md", &format!("by `{wrong}` only"), &files);
            assert_eq!(found, [format!("a.md: no test {wrong}; name one that there is")]);
        }
    }

    #[test]
    fn names_of_a_table_exist() {
        let text = "pub struct Limits {\n    pub calls_max: u16,\n}\n\
                    pub const NESTING_MAX: u32 = 32;\n\
                    impl Caller {\n    pub fn send<Q>(&self) {}\n}\n\
                    pub enum WhenFull {\n    Refuse,\n}\n";
        let files = BTreeMap::from([("crates/a/src/lib.rs".to_owned(), text.to_owned())]);
        let good = "`lost::words`\n| `Limits::calls_max` | `NESTING_MAX`: `RESOURCE_EXHAUSTED` | \
                    `Caller::send` as `note`, `WhenFull::Refuse` |";
        assert_eq!(unknown_names("a.md", good, &files), [""; 0]);
        for wrong in
            ["Limits::calls", "NESTING", "Caller::sent", "Limit::calls_max", "WhenFull::Wait"]
        {
            let found = unknown_names("a.md", &format!("| by `{wrong}` |"), &files);
            assert_eq!(found, [format!("a.md: nothing is named {wrong}; correct the table")]);
        }
    }

    #[test]
    fn every_rule_has_a_row() {
        let wanted = || ["R1".to_owned(), "R2".to_owned()];
        let rows = "| R1 clocks | x |\n| R2 cycle counter | x |\n";
        assert_eq!(missing_rows("a.md", rows, wanted()), [""; 0]);
        let found = missing_rows("a.md", &rows.replace("| R1 ", "| R10 "), wanted());
        assert_eq!(found, ["a.md: R1 has no row"]);
    }

    #[test]
    fn paths_of_one_machine_are_reported() {
        let bad = ["\"/{}/me/x\"", "see /{}/main.", "(/{}/a)", "path=/{}/a"];
        for directory in ["home", "root", "work"] {
            for line in bad.map(|line| line.replace("{}", directory)) {
                assert_eq!(machine_paths("a.rs", &line).len(), 1, "{line}");
            }
        }
        assert_eq!(machine_paths("a.rs", &["\"", "root\""].join("/")).len(), 1);
        for line in [
            concat!("crates/wo", "rk/a"),
            "https://a.org/home/a",
            "its work/rest",
            "~/home/a",
            "/roots",
        ] {
            assert_eq!(machine_paths("a.rs", line), [""; 0], "{line}");
        }
    }
}
