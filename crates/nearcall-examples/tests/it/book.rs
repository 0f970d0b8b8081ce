//! The book against the program `nearcall`: its page of the command line is what the program
//! prints, and the options and commands on its pages exist.
//!
//! **Not here:** what commands do (`tutorial.rs`, and the tests of `nearcall-cli`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tutorial::{nearcall, words};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src");

fn run(words: &[String]) -> Output {
    Command::new(nearcall()).args(words).env("COLUMNS", "100").output().unwrap()
}

/// The help of a command and of those in it, each below a heading.
fn help_of(words: &[String], depth: usize) -> String {
    let all = [words, &["-h".to_owned()]].concat();
    let help = String::from_utf8(run(&all).stdout).unwrap();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let (heading, name) = ("#".repeat(depth), [&["nearcall".to_owned()], words].concat().join(" "));
    let text = format!("\n{heading} {name}\n\n```text\n{}\n```\n", lines.join("\n").trim());
    let list = lines.iter().skip_while(|line| **line != "Commands:").skip(1);
    let rows = list.take_while(|line| line.starts_with("  "));
    let names =
        rows.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split(' ').nth(2));
    names.filter(|name| *name != "help").fold(text, |text, name| {
        text + &help_of(&[words, &[name.to_owned()]].concat(), (depth + 1).min(3))
    })
}

/// To accept a change: `UPDATE_EXPECT=1 cargo test -p nearcall-examples --test it command_line`.
#[test]
fn the_page_of_the_command_line_is_the_help() {
    let text = format!(
        "# The command line\n\nWhat `nearcall COMMAND -h` says; `--help` says more. A test writes \
         this page and compares it.\n{}",
        help_of(&[], 2)
    );
    assert!(text.contains("\n### nearcall bench latency\n"), "the commands are not seen");
    let path = Path::new(BOOK).join("reference/command-line.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let differs = kept.lines().zip(text.lines()).find(|(kept, new)| kept != new);
    assert_eq!(differs, None, "UPDATE_EXPECT=1 writes {}", path.display());
    assert_eq!(kept.len(), text.len(), "UPDATE_EXPECT=1 writes {}", path.display());
}

/// Every page of the book.
fn pages() -> Vec<PathBuf> {
    let (mut directories, mut pages) = (vec![PathBuf::from(BOOK)], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The commands of the program in the fenced blocks of a page, without what is around them.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let blocks = text.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    let shell = blocks.filter(|(language, _)| ["sh", "console", "text"].contains(language));
    let lines = shell.flat_map(|(language, block)| {
        block.lines().filter_map(move |line| match language {
            "sh" => Some(line),
            _ => line.strip_prefix("$ "),
        })
    });
    let own = lines.filter_map(|line| {
        let own = line.strip_prefix("nearcall ");
        own.or_else(|| line.strip_prefix("cargo run --release -- "))
    });
    let own = own.map(|line| line.split(" #").next().unwrap_or_default());
    own.map(|line| words(line.trim().trim_end_matches(" &"))).collect()
}

/// The parser reads the words in front of `--help`, and refuses those that it does not know.
#[test]
fn every_command_of_the_book_can_be_read() {
    let mut number = 0;
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            let ended = run(&[&command[..], &["--help".to_owned()]].concat());
            let error = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{}: {command:?}: {error}", page.display());
            number += 1;
        }
    }
    assert!(number >= 40, "{number}");
    let unknown = run(&["list".into(), "--lsit".into(), "--help".into()]);
    assert!(!unknown.status.success(), "an unknown option is not seen");
}

#[test]
fn a_command_is_read_without_what_is_around_it() {
    let page = "a\n```console\n$ nearcall list &\nx\n```\n```sh\nnearcall top \\\n  a # b\n```\n";
    assert_eq!(commands(page), [vec!["list"], vec!["top", "a"]]);
    assert_eq!(words("call a B/C '{\"d\": 1}'"), ["call", "a", "B/C", "{\"d\": 1}"]);
}
