//! Collects the invariants that the comments of Rust files state, and finds those without a check.
//!
//! An invariant is a paragraph of a comment that begins with `**Invariant:**`. Behind
//! `*Checked by*` it names, in backticks, what notices that it is broken: a test or another
//! function, a file or directory of tests (from the crate's directory or the repository's), a
//! command of `cargo xtask`, or a lint of the workspace. Not here: whether a check is any good.

use std::collections::BTreeMap;

/// What begins an invariant.
const MARK: &str = "**Invariant:**";
/// What comes before the names of its checks.
const CHECKED_BY: &str = "*Checked by*";
/// This file, which has to name the marks.
const SELF: &str = "xtask/src/tidy/invariants.rs";

/// One sentence that has to stay true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The file that states it.
    pub path: String,
    /// The line where it begins, from 1.
    pub line: usize,
    /// The paragraph in one line, without its mark.
    pub text: String,
}

/// Returns the invariants of all files (path, text), in the order of the files.
#[must_use]
pub fn collect(files: &BTreeMap<String, String>) -> Vec<Invariant> {
    let ours = files.iter().filter(|(path, _)| path.ends_with(".rs") && *path != SELF);
    ours.flat_map(|(path, text)| of_file(path, text)).collect()
}

/// Invariants that name no check, or one that does not exist in `files` (path, text).
#[must_use]
pub fn problems(files: &BTreeMap<String, String>, is_chore: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for Invariant { path, line, text } in collect(files) {
        let checks = text.split_once(CHECKED_BY).map_or("", |(_, checks)| checks);
        let names: Vec<&str> = checks.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!(
                "{path}:{line}: an invariant without a check; name the test behind `{CHECKED_BY}`"
            ));
        }
        let unknown = names.into_iter().filter(|name| !exists(name, &path, files, is_chore));
        problems.extend(unknown.map(|name| {
            format!("{path}:{line}: no check is named `{name}`; name one that exists")
        }));
    }
    problems
}

fn of_file(path: &str, text: &str) -> Vec<Invariant> {
    let mut found: Vec<Invariant> = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let prose = comment.map_or("", |text| text.trim_start_matches(['/', '!']).trim());
        match (prose.strip_prefix(MARK), found.last_mut()) {
            (Some(start), _) => {
                let text = start.trim().to_owned();
                found.push(Invariant { path: path.to_owned(), line: index + 1, text });
                is_inside = true;
            }
            (None, Some(last)) if is_inside && !prose.is_empty() => {
                last.text.push(' ');
                last.text.push_str(prose);
            }
            _ => is_inside = false,
        }
    }
    found
}

fn exists(
    name: &str,
    stated_in: &str,
    files: &BTreeMap<String, String>,
    is_chore: &dyn Fn(&str) -> bool,
) -> bool {
    if let Some(chore) = name.strip_prefix("cargo xtask ") {
        return is_chore(chore.split(' ').next().unwrap_or_default());
    }
    if name.contains(['/', '.']) {
        let directories = if stated_in.starts_with("crates/") { 2 } else { 1 };
        let of_crate: Vec<&str> = stated_in.split('/').take(directories).collect();
        let of_crate = format!("{}/{name}", of_crate.join("/"));
        let is_there = |path: &str| {
            let directory = format!("{path}/");
            files.contains_key(path) || files.keys().any(|file| file.starts_with(&directory))
        };
        return is_there(name) || is_there(&of_crate);
    }
    let is_lint = |text: &String| text.lines().any(|line| line.starts_with(&format!("{name} = ")));
    let functions = [format!("fn {name}("), format!("def {name}(")];
    files.get("Cargo.toml").is_some_and(is_lint)
        || files.iter().any(|(path, text)| {
            let is_code = path.ends_with(".rs") || path.ends_with(".py");
            is_code && functions.iter().any(|function| text.contains(function))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(stated: &str) -> BTreeMap<String, String> {
        let of = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        BTreeMap::from([
            of("crates/a/src/lib.rs", stated),
            of("crates/a/tests/it/calls.rs", "fn a_call_ends() {}\n"),
            of("crates/a/tests/test_a.py", "    def test_a(self):\n"),
            of("Cargo.toml", "[workspace.lints.clippy]\nprint_stdout = \"deny\"\n"),
        ])
    }

    #[track_caller]
    fn check(stated: &str, expected: &[&str]) {
        let problems = problems(&files(stated), &|chore| chore == "stress");
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problems:?}");
        }
    }

    #[test]
    fn an_invariant_is_collected_with_its_place() {
        let stated = "//! A crate.\n//!\n//! **Invariant:** calls\n//! end.\n//!\n//! More.\n";
        let [found] = &collect(&files(stated))[..] else { panic!("not one") };
        assert_eq!((found.line, found.text.as_str()), (3, "calls end."));
    }

    #[test]
    fn an_invariant_names_a_check_that_exists() {
        let head = "//! **Invariant:** it holds. *Checked\n//! by* ";
        for check_name in
            ["a_call_ends", "test_a", "tests/it", "tests/it/calls.rs", "cargo xtask stress"]
        {
            check(&format!("{head}`{check_name}`.\n"), &[]);
        }
        check(&format!("{head}`print_stdout`, `Cargo.toml`.\n"), &[]);
        check(&format!("{head}`no_call_ends`.\n"), &[":1: no check is named `no_call_ends`"]);
        check(&format!("{head}`tests/it/call`.\n"), &["`tests/it/call`"]);
        check(&format!("{head}`cargo xtask rest`.\n"), &["`cargo xtask rest`"]);
        check(&format!("{head}construction.\n"), &["without a check"]);
        check("// **Invariant:** it holds.\n", &["without a check"]);
    }
}
