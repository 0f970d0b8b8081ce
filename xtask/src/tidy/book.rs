//! Rules for the book (`docs/book`): its pages are listed, its links lead to a page and a heading
//! of it, the files that it names exist, and its Rust code is compiled.
//!
//! **Not here:** commands, which tests of `nearcall-cli` and `nearcall-examples` run or read; links
//! to other sites.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{links, prose, resolve};

/// Where the pages are, in the repository.
pub const BOOK: &str = "docs/book/src/";
/// The table of contents.
const SUMMARY: &str = "docs/book/src/SUMMARY.md";
/// Directories whose files pages name by their paths in the repository.
const DIRECTORIES: [&str; 3] = ["docs/", "crates/", "xtask/"];

/// Problems of `pages` (path in the repository, text). `exists` says whether the repository has a
/// file or directory, and `is_compiled` whether the documentation tests of a crate have a page.
#[must_use]
pub fn problems(
    pages: &BTreeMap<String, String>,
    exists: &dyn Fn(&str) -> bool,
    is_compiled: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut problems = unlisted(pages);
    for (path, text) in pages {
        let is_program = |block: &&str| block.starts_with("// src/bin/");
        if !is_compiled(path) && rust_blocks(text).any(|block| !is_program(&&*block)) {
            problems
                .push(format!("{path}: its Rust code is not compiled; name the page in a crate"));
        }
        for (number, line) in prose(text) {
            let found = links(line).filter_map(|link| dead(path, link, pages));
            problems.extend(found.map(|problem| format!("{path}:{number}: {problem}")));
            let spans = line.split('`').skip(1).step_by(2).filter(|span| is_path(span));
            let missing = spans.filter(|span| !exists(span.trim_end_matches('/')));
            problems.extend(missing.map(|span| format!("{path}:{number}: there is no {span}")));
        }
    }
    problems
}

/// Pages that the table of contents does not have, or has twice.
fn unlisted(pages: &BTreeMap<String, String>) -> Vec<String> {
    let summary = pages.get(SUMMARY).map(String::as_str).unwrap_or_default();
    let mut listed: Vec<&str> = summary.lines().flat_map(links).collect();
    let all = listed.len();
    listed.sort_unstable();
    listed.dedup();
    let others = pages.keys().filter(|path| *path != SUMMARY);
    let missing = others.filter(|path| !listed.contains(&&path[BOOK.len()..]));
    let missing = missing.map(|path| format!("{path}: add it to {SUMMARY}"));
    let twice = (listed.len() < all).then(|| format!("{SUMMARY}: a page is listed twice"));
    missing.chain(twice).collect()
}

/// Blocks of Rust.
fn rust_blocks(text: &str) -> impl Iterator<Item = String> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n')).filter_map(|(language, block)| {
        let is_rust = language == "rust" || language.starts_with("rust,");
        is_rust.then(|| block.to_owned())
    })
}

/// Why a link leads nowhere.
fn dead(path: &str, link: &str, pages: &BTreeMap<String, String>) -> Option<String> {
    if link.starts_with("https://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    let Some(text) = pages.get(&page) else {
        return Some(format!("no page of the book is at `{link}`; name a file by its path"));
    };
    let has_anchor = anchor.is_empty() || headings(text).contains(anchor);
    (!has_anchor).then(|| format!("no heading is at `{link}`"))
}

/// The anchors that mdBook gives to the headings of a page.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    let titles = lines.map(|line| line.trim_start_matches('#').trim());
    let id = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    titles.map(id).collect()
}

/// Whether a piece of code names a file of the repository.
fn is_path(span: &str) -> bool {
    DIRECTORIES.iter().any(|start| span.starts_with(start))
        && !span.contains([' ', '*', '{', '<'])
        && span.chars().all(|c| !c.is_ascii_uppercase() || span.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let summary = "[A](guides/a.md)\n[B](b.md)\n";
        let pages = [(SUMMARY, summary), ("docs/book/src/b.md", "# B\n\n## What, `why`?\n")];
        let pages = pages.into_iter().chain([("docs/book/src/guides/a.md", text)]);
        let pages = pages.map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        let found = problems(&pages, &|path| path == "docs/runs", &|_| false);
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn links_lead_to_pages_and_headings_of_the_book() {
        check("[b](../b.md) [b](../b.md#what-why) [x](https://a.b)\n# C d\n[c](#c-d)", &[]);
        check("[b](b.md)", &["guides/a.md:1: no page of the book is at `b.md`"]);
        check("[r](../../../../README.md)", &["name a file by its path"]);
        check("[b](../b.md#whatever)", &["no heading is at `../b.md#whatever`"]);
        check("```text\n[b](b.md)\n```", &[]);
    }

    #[test]
    fn files_that_are_named_exist() {
        check("`docs/runs` `docs/runs/` `docs/runs/*.json` `a/b`", &[]);
        check("a\n`docs/run.json`", &["a.md:2: there is no docs/run.json"]);
    }

    #[test]
    fn rust_is_compiled() {
        check("a\n```rust,no_run\nfn a() {}\n```\n", &["is not compiled"]);
        check("a\n```rust,no_run\n// src/bin/a.rs\nfn a() {}\n```\n", &[]);
    }

    #[test]
    fn pages_are_listed_once() {
        let page = |path: &str, text: &str| (format!("{BOOK}{path}"), text.to_owned());
        let pages = [page("SUMMARY.md", "[A](a.md) [A](a.md)"), page("a.md", ""), page("b.md", "")];
        let found = problems(&pages.into(), &|_| true, &|_| true);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/book/src/b.md: add it"), "{found:?}");
    }
}
