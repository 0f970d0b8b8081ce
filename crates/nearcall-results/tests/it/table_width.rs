//! Every table in terminals of 40 to 200 columns, with colour and without.
//!
//! The runs are those of `docs/runs`: they have the names and figures that people see.

use std::collections::BTreeMap;
use std::path::Path;

use nearcall_results::report::lines::Style;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::Run;

fn stored() -> Vec<(String, Run)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let json = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let runs: Vec<(String, Run)> =
        json.map(|path| (path.display().to_string(), Run::load(&path).unwrap())).collect();
    assert!(runs.len() >= 9, "{}", runs.len());
    runs
}

/// How often each word stands in a text.
fn words(text: &str) -> BTreeMap<&str, usize> {
    let mut words = BTreeMap::new();
    text.split_whitespace().for_each(|word| *words.entry(word).or_default() += 1);
    words
}

/// Without what colour adds.
fn strip(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('m').expect("a sequence ends");
        assert!(["[0", "[1", "[2", "[31", "[32"].contains(&code), "{code:?}");
        plain.push_str(rest);
    }
    plain
}

#[test]
fn every_terminal_shows_every_word_of_every_stored_run() {
    for (name, run) in stored() {
        let wide = details(&run, Style::PLAIN);
        let all = words(&wide);
        for width in widths() {
            let narrow = details(&run, Style::new(Some(width), false));
            let found = words(&narrow);
            for (word, &count) in &all {
                // Only a word that is longer than a line may be broken. Keys are repeated.
                let there = found.get(word).copied().unwrap_or_default();
                let is_long = word.chars().count() > width / 2;
                assert!(
                    there >= count || is_long,
                    "{name} at {width}: {word:?} {there} of {count}"
                );
            }
            // No part of a word that is not one of the words.
            for word in found.keys() {
                let is_part = all.keys().any(|whole| whole.contains(word));
                assert!(all.contains_key(word) || is_part, "{name} at {width}: {word:?}");
            }
        }
    }
}

#[test]
fn no_line_of_a_stored_run_is_wider_than_the_terminal() {
    for (name, run) in stored() {
        for width in widths() {
            let style = Style::new(Some(width), false);
            for text in [table(&run, style), details(&run, style)] {
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{name} at {width}: {line}");
                    assert_eq!(line.trim_end(), line, "{name}: blanks at the end");
                }
                assert!(!text.contains('…'), "{name} is cut at {width}");
            }
        }
    }
}

#[test]
fn the_figures_of_a_table_are_the_same_in_every_terminal() {
    for (name, run) in stored() {
        let narrow = table(&run, Style::new(Some(40), false));
        let (narrow, wide) = (words(&narrow), table(&run, Style::PLAIN));
        let wide = words(&wide);
        for word in narrow.keys() {
            // Part of one that is longer than a line of 40, or the word itself.
            let is_known = wide.keys().any(|whole| whole.contains(word));
            assert!(is_known, "{name}: {word:?} is only in the narrow table");
        }
    }
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    for (name, run) in stored() {
        for width in [Some(40), Some(80), Some(200), None] {
            let (plain, color) = (Style::new(width, false), Style::new(width, true));
            let found = table(&run, color);
            assert!(found.contains("\u{1b}[1m"), "{name}: no heading");
            assert_eq!(strip(&found), table(&run, plain), "{name}");
            assert_eq!(strip(&details(&run, color)), details(&run, plain), "{name}");
        }
    }
}

/// Widths that people have, and the least: every run is rendered at each.
fn widths() -> impl Iterator<Item = usize> {
    (40..=200).step_by(20)
}
