//! The contribution rules, checked on this repository. Run by `cargo test -p xtask`.
//!
//! Only reads: what git knows of, and new files that it does not ignore. The rules themselves, with
//! tests that show them fail, are in `xtask/src/tidy/`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory;
use xtask::chore::Chore;
use xtask::repository::Repository;
use xtask::tidy::{api, book, circles, document, invariants, manifest, modules, source, words};

/// How a machine is measured.
const BENCH: &str = "docs/book/src/guides/bench.md";

/// What checks each rule of measuring.
const MEASURING: &str = "docs/book/src/guides/measuring.md";

/// What is promised, and which test proves it.
const SECURITY: &str = "SECURITY.md";

/// How long a document may be that is read from top to bottom, in lines.
const LINES_MAX: &[(&str, usize)] = &[("README.md", 160), ("ARCHITECTURE.md", 300)];

/// What can be set.
const OPTIONS: &str = "docs/book/src/reference/options.md";

/// What happens at each bound.
const BACKPRESSURE: &str = "docs/book/src/guides/limits.md";

#[test]
fn every_rust_file_keeps_the_rules() {
    let files = rust_files();
    assert!(files.contains_key("xtask/tests/tidy.rs"), "tidy does not see its own file");
    report(files.iter().flat_map(|(path, text)| source::problems(path, text)));
}

/// A change of what programs can name is seen in the file. To accept it:
/// `UPDATE_EXPECT=1 cargo test -p xtask --test tidy the_public_interface`.
#[test]
fn the_public_interface_is_the_one_that_is_listed() {
    let api::PublicInterface { lines: list, unlinked } = api::list(&rust_files()).unwrap();
    let path = repository().root().join("crates/nearcall/api.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let lines = list.iter().map(|line| format!("{line}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let kept = read("crates/nearcall/api.txt");
    let (kept, list): (BTreeSet<&str>, BTreeSet<&str>) =
        (kept.lines().collect(), list.iter().map(String::as_str).collect());
    let gone = kept.difference(&list).map(|line| format!("gone: {line}"));
    let new = list.difference(&kept).map(|line| format!("new: {line}"));
    let unlinked = unlinked.iter().map(|path| format!("{path}: docs without example or link"));
    report(gone.chain(new).chain(unlinked));
}

#[test]
fn every_rust_file_is_used() {
    report(modules::unused(&rust_files()));
}

#[test]
fn no_two_files_use_each_other_in_a_circle() {
    report(circles::problems(&rust_files()));
}

#[test]
fn no_retired_word_is_used() {
    let texts = repository().texts().unwrap();
    report(texts.iter().flat_map(|(path, text)| words::problems(path, text)));
}

#[test]
fn crates_depend_one_way_and_share_lints() {
    let mut problems = Vec::new();
    for name in crates() {
        problems.extend(manifest::problems(&name, &read(&format!("crates/{name}/Cargo.toml"))));
    }
    problems.extend(manifest::problems("xtask", &read("xtask/Cargo.toml")));
    report(problems);
}

#[test]
fn the_map_names_every_crate_and_directory() {
    let tracked = repository().git_paths(&["--cached"]).unwrap();
    let directories = tracked.iter().filter_map(|path| path.split_once('/'));
    let directories: BTreeSet<String> =
        directories.map(|(directory, _)| format!("{directory}/")).collect();
    let parts: Vec<String> = directories.into_iter().chain(crates()).collect();
    report(document::unnamed_parts(&read("ARCHITECTURE.md"), &parts));
}

#[test]
fn every_invariant_has_a_check_that_exists() {
    let texts = repository().texts().unwrap();
    assert!(invariants::collect(&texts).len() > 50, "tidy does not see the invariants");
    let is_chore = |chore: &str| Chore::command().find_subcommand(chore).is_some();
    report(invariants::problems(&texts, &is_chore));
}

#[test]
fn the_map_and_the_readme_are_short() {
    for (name, lines_max) in LINES_MAX {
        report(document::length(name, &read(name), *lines_max));
    }
}

#[test]
fn every_crate_says_for_whom_it_is() {
    for name in crates() {
        let path = format!("crates/{name}/README.md");
        report(document::length(&path, &read(&path), 40));
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let texts = repository().texts().unwrap();
    let exists = |path: &str| repository().root().join(path).exists();
    let documents = texts.iter().filter(|(path, _)| path.ends_with(".md"));
    report(documents.flat_map(|(path, text)| document::dead_links(path, text, &exists)));
}

#[test]
fn documents_show_commands_that_exist() {
    let table = read("crates/nearcall-cli/src/commands.rs");
    let known = document::Commands {
        is_chore: &|chore| Chore::command().find_subcommand(chore).is_some(),
        is_verb: &|verb| has_verb(&table, verb),
        is_file: &|path| repository().root().join(path).is_file(),
    };
    for name in ["README.md", "CONTRIBUTING.md", BENCH, MEASURING] {
        report(document::unknown_commands(name, &read(name), &known));
    }
}

#[test]
fn the_book_leads_to_what_there_is() {
    let mut pages = repository().texts().unwrap();
    pages.retain(|path, _| path.starts_with(book::BOOK) && path.ends_with(".md"));
    let files = rust_files();
    let exists = |path: &str| repository().root().join(path).exists();
    let is_compiled = |page: &str| {
        let line = format!("\"../../../{page}\"");
        files.iter().any(|(path, text)| path.starts_with("crates/") && text.contains(&line))
    };
    report(book::problems(&pages, &exists, &is_compiled));
}

#[test]
fn every_rule_of_measuring_has_checks_that_exist() {
    let text = read(MEASURING);
    report(document::unknown_tests(MEASURING, &text, &rust_files()));
    let rules = (1..=20).map(|rule| format!("R{rule}"));
    report(document::missing_rows(MEASURING, &text, rules));
}

#[test]
fn every_case_of_a_fault_has_tests_that_exist() {
    let text = read(SECURITY);
    report(document::unknown_tests(SECURITY, &text, &rust_files()));
    report(document::missing_rows(SECURITY, &text, (1..=30).map(|case| format!("R{case:02}"))));
}

#[test]
fn every_bound_of_the_table_and_its_forms_exist() {
    for page in [BACKPRESSURE, OPTIONS] {
        report(document::unknown_names(page, &read(page), &rust_files()));
    }
}

#[test]
fn the_changelog_has_a_place_for_the_next_change() {
    report(document::changelog(&read("CHANGELOG.md")));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let texts = repository().texts().unwrap();
    report(texts.iter().flat_map(|(path, text)| document::machine_paths(path, text)));
}

#[track_caller]
fn report(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "{} to mend:\n{}\n", problems.len(), problems.join("\n"));
}

/// Whether the program's table of verbs has a row for the verb.
fn has_verb(table: &str, verb: &str) -> bool {
    table.contains(&format!("verb(\"{verb}\", "))
}

fn crates() -> Vec<String> {
    let names = files().into_iter().filter_map(|path| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some(name.to_owned())
    });
    names.filter(|name| !name.contains('/')).collect()
}

fn rust_files() -> BTreeMap<String, String> {
    repository().rust_files().unwrap()
}

fn files() -> Vec<String> {
    repository().files().unwrap()
}

fn read(path: &str) -> String {
    let text = repository().read(path);
    text.unwrap_or_else(|error| panic!("{error}; the repository needs this file"))
}

fn repository() -> Repository {
    Repository::open().unwrap()
}
