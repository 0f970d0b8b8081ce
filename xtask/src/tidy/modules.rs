//! Finds Rust files that no `mod` line reaches, so that nothing dead stays in the tree.
//!
//! A file is reached if it is the root of a target or if a reached file declares it. Inline modules
//! that contain `mod name;` are not followed into their own folder: we do not use them.
//! Not here: unused items within a file (rustc reports those).

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::Lexed;

/// Files among `files` (path and text) that no target uses.
#[must_use]
pub fn unused(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = files.keys().map(String::as_str).filter(|p| is_root(p)).collect();
    while let Some(path) = open.pop() {
        if !reached.insert(path) {
            continue;
        }
        let declared = files.get(path).map(|text| declared(path, text)).unwrap_or_default();
        for candidate in declared {
            open.extend(files.get_key_value(&candidate).map(|(path, _)| path.as_str()));
        }
    }
    let unused = files.keys().filter(|path| !reached.contains(path.as_str()));
    unused
        .map(|path| format!("{path}: nothing uses this file; add its `mod` line or delete it"))
        .collect()
}

/// Whether Cargo finds the file by itself (or, below `fuzz/`, by the list in its manifest).
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.rsplitn(4, '/').collect();
    let name = parts[0];
    let (parent, above) = (parts.get(1).copied(), parts.get(2).copied());
    match (above, parent) {
        (_, Some("src")) if name == "lib.rs" || name == "main.rs" => true,
        (_, Some("tests" | "examples" | "benches" | "fuzz_targets")) => true,
        (Some("src"), Some("bin")) => true,
        (Some("tests" | "examples" | "benches" | "bin"), Some(_)) => name == "main.rs",
        _ => name == "build.rs" && path.matches('/').count() == 2,
    }
}

/// The paths at which the modules that a file declares may lie.
fn declared(path: &str, text: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    let base = match is_root(path) || stem == "mod" {
        true => folder.to_owned(),
        false => format!("{folder}/{stem}"),
    };
    let code = Lexed::new(text).code();
    let mut paths = Vec::new();
    for (code_line, line) in code.lines().zip(text.lines()) {
        if let Some(module) = module_name(code_line) {
            paths.push(format!("{base}/{module}.rs"));
            paths.push(format!("{base}/{module}/mod.rs"));
        }
        if code_line.contains("#[path") {
            paths.extend(line.split('"').nth(1).map(|relative| joined(folder, relative)));
        }
    }
    paths
}

/// `relative` as seen from `folder`; each `../` at its start leads one folder up.
fn joined(folder: &str, relative: &str) -> String {
    match relative.strip_prefix("../") {
        Some(rest) => joined(folder.rsplit_once('/').map_or("", |(above, _)| above), rest),
        None => format!("{folder}/{relative}"),
    }
}

fn module_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("mod ")?;
    let is_start = before.is_empty() || before.ends_with([' ', ')', ']']);
    rest.split_once(';').filter(|_| is_start).map(|(name, _)| name.trim().trim_start_matches("r#"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which of the files (path and text) are reported.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        let paths: Vec<String> = unused(&files)
            .iter()
            .map(|problem| problem.split(':').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(paths, expected);
    }

    #[test]
    fn declared_files_are_used() {
        check(
            &[
                ("crates/a/src/lib.rs", "pub mod shm;\n#[cfg(test)]\nmod tests;"),
                ("crates/a/src/tests.rs", ""),
                ("crates/a/src/shm.rs", "pub(crate) mod ring;"),
                ("crates/a/src/shm/ring.rs", ""),
                ("crates/a/tests/it/main.rs", "mod pipe;"),
                ("crates/a/tests/it/pipe.rs", ""),
                ("crates/a/examples/echo.rs", ""),
                ("crates/a/build.rs", ""),
                ("fuzz/fuzz_targets/frame.rs", ""),
            ],
            &[],
        );
    }

    #[test]
    fn a_file_without_a_mod_line_is_reported() {
        check(
            &[
                ("crates/a/src/lib.rs", "// mod ring;\nlet a = \"mod ring;\";"),
                ("crates/a/src/ring.rs", "mod deep;"),
                ("crates/a/src/ring/deep.rs", ""),
            ],
            &["crates/a/src/ring.rs", "crates/a/src/ring/deep.rs"],
        );
    }

    #[test]
    fn a_path_attribute_is_followed() {
        check(
            &[
                ("crates/a/src/lib.rs", "#[path = \"other.rs\"]\nmod ring;"),
                ("crates/a/src/other.rs", ""),
                ("crates/a/tests/it/main.rs", "#[path = \"../golden/one.rs\"]\nmod one;"),
                ("crates/a/tests/golden/one.rs", ""),
            ],
            &[],
        );
    }
}
