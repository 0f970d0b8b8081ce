//! What `nearcall report` writes, and what it refuses.

use std::fs;

use nearcall_results::run::{Cell, Definition, Kind, Machine, RttNs, Run, Settings, Skipped};
use serde_json::Value;

use crate::program::{Ended, Folder};

/// A run with one cell.
pub(crate) fn stored() -> Run {
    let mut run = Run::new(Machine::default(), Settings::default(), 1_795_230_660);
    for (name, p50) in [("pipe", 9_840.0), ("unix-stream", 8_760.0)] {
        let mut cell = Cell::new(Kind::Latency, name, 8);
        cell.placement.class = "same_llc".to_owned();
        let ci95 = Some([p50 * 0.98, p50 * 1.01]);
        cell.rtt_ns = Some(RttNs { p50: Some(p50), p50_ci95: ci95, ..RttNs::default() });
        run.cells.push(cell);
    }
    run
}

fn folder(runs: &[(&str, &Run)]) -> Folder {
    let folder = Folder::new();
    for (name, run) in runs {
        run.save(&folder.path().join(name)).unwrap();
    }
    folder
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

#[track_caller]
fn fails(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
}

#[test]
fn all_that_was_asked_for_is_written_and_listed() {
    let folder = folder(&[("run.json", &stored())]);
    let words = ["report", "run.json", "-o", "report.html", "--markdown", "report.md"];
    let ended = folder.run(&[&words[..], &["--csv", "cells.csv"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let written: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(written, ["report.html", "report.md", "cells.csv"]);
    assert!(read(&folder, "report.html").starts_with("<!DOCTYPE html>"));
    assert!(read(&folder, "report.md").contains("**8.76 µs** over unix-stream"));
    assert!(read(&folder, "cells.csv").lines().count() == 3);
}

#[test]
fn the_facts_as_json_have_raw_units() {
    let folder = folder(&[("run.json", &stored())]);
    let ended = folder.run(&["report", "run.json", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.report/1");
    let found = &document["machines"][0]["answers"][0]["found"];
    assert_eq!((&found["value"], &found["unit"]), (&8_760.0.into(), &"ns".into()));
    assert!(document["machines"][0]["answers"][0]["advice"].is_object());
    assert!(document["figures"].is_array(), "{document}");
}

#[test]
fn a_result_can_go_to_standard_output_but_only_one() {
    let folder = folder(&[("run.json", &stored())]);
    let ended = folder.run(&["report", "run.json", "--markdown", "-"]);
    assert!(ended.code == Some(0) && ended.stdout.starts_with("## IPC on"), "{ended:?}");
    let ended = folder.run(&["report", "run.json", "--markdown", "-", "--json"]);
    fails(&ended, 2, &["only one of"]);
}

#[test]
fn no_result_replaces_a_run_or_another_result() {
    let folder = folder(&[("run.json", &stored())]);
    std::os::unix::fs::symlink("run.json", folder.path().join("link.json")).unwrap();
    let before = read(&folder, "run.json");
    for words in [
        &["run.json", "-o", "run.json"][..],
        &["run.json", "-o", "./run.json"],
        &["run.json", "--csv", "link.json"],
        &["link.json", "--markdown", "run.json"],
        &["run.json", "-o", "a", "--markdown", "./a"],
    ] {
        let ended = folder.run(&[&["report"], words].concat());
        fails(&ended, 2, &["give another name"]);
    }
    assert_eq!(read(&folder, "run.json"), before);
    let ended = folder.run(&["report", "run.json", "-o", "/dev/null", "--csv", "/dev/null"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn the_command_of_a_page_can_be_given_to_a_shell() {
    let folder = folder(&[("my run.json", &stored())]);
    let ended = folder.run(&["report", "my run.json", "-o", "report.html"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(read(&folder, "report.html").contains("nearcall report 'my run.json' -o report.html"));
}

#[test]
fn the_facts_as_json_hold_what_the_page_warns_of() {
    let mut run = stored();
    run.mark_partial("interrupted");
    run.warnings = vec!["huge pages".to_owned()];
    run.skipped = vec![Skipped {
        mechanism: "vmsplice".to_owned(),
        reason: "not allowed".to_owned(),
        unsupported: true,
        kind: None,
        message_bytes: None,
        shape: None,
        wait: None,
    }];
    let folder = folder(&[("run.json", &run), ("again.json", &stored())]);
    let ended = folder.run(&["report", "run.json", "again.json", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let machine = &document["machines"][0];
    assert_eq!(machine["partial"][0]["reason"], "interrupted");
    assert_eq!(machine["warnings"][0], "huge pages");
    assert_eq!(machine["skipped"][0]["mechanism"], "vmsplice");
    assert_eq!(machine["superseded"], 2);
}

#[test]
fn words_that_ask_for_nothing_are_refused() {
    let folder = folder(&[("run.json", &stored())]);
    fails(&folder.run(&["report", "run.json"]), 2, &["nothing to write: give -o FILE"]);
    fails(&folder.run(&["report", "-o", "report.html"]), 2, &["RUN"]);
}

#[test]
fn a_file_that_is_no_run_is_named_and_nothing_is_written() {
    let folder = folder(&[("run.json", &stored())]);
    let whole = stored().to_json();
    let newer = whole.replacen("nearcall.run/1", "nearcall.run/2", 1);
    let files = [
        ("cut.json", &whole[..whole.len() / 2], "cut off"),
        ("newer.json", newer.as_str(), "update nearcall"),
        ("memory.json", r#"{"schema":"nearcall.memory/1"}"#, "a result of `nearcall bench memory`"),
        ("timers.json", r#"{"schema":"nearcall.timers/1"}"#, "a result of `nearcall timers`"),
        ("profile.json", r#"{"schema":"nearcall.profile/1"}"#, "a result of `nearcall profile`"),
        ("list.json", "[]", "not a nearcall run"),
    ];
    for (name, text, words) in files {
        fs::write(folder.path().join(name), text).unwrap();
        let ended = folder.run(&["report", "run.json", name, "-o", "report.html"]);
        fails(&ended, 1, &[name, words]);
    }
    fails(&folder.run(&["report", "none.json", "-o", "report.html"]), 1, &["none.json"]);
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn runs_of_different_definitions_are_refused_by_name() {
    let mut halved = stored();
    halved.cells[0].definition = Definition::RttHalf;
    let folder = folder(&[("a.json", &stored()), ("b.json", &halved)]);
    let ended = folder.run(&["report", "a.json", "b.json", "-o", "report.html"]);
    fails(&ended, 1, &["1 is a.json, 2 is b.json", "rtt_half", "cannot share a table"]);
}

#[test]
fn a_run_without_cells_gives_a_page_that_says_so() {
    let empty = Run::new(Machine::default(), Settings::default(), 0);
    let folder = folder(&[("run.json", &empty)]);
    let ended = folder.run(&["report", "run.json", "-o", "report.html"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(read(&folder, "report.html").contains("have no cells of their own"));
}
