//! `nearcall data` from outside.

use std::fs;

use nearcall_results::run::{Cell, Kind, Machine, RttNs, Run, Settings};
use serde_json::Value;

use crate::program::Folder;

/// Stores a made-up run of a machine in the directory where the program runs.
fn store(folder: &Folder, name: &str, machine: &str, started_unix_s: u64) {
    let mut machine = Machine {
        id: machine.to_owned(),
        cpu_model: "Invented \u{1b}[31mDuo".to_owned(),
        cpus: Some(2),
        ..Machine::default()
    };
    machine.state.host_name = "alice-laptop".to_owned();
    let mut run = Run::new(machine, Settings::default(), started_unix_s);
    let mut cell = Cell::new(Kind::Latency, "pipe", 8);
    cell.rtt_ns = Some(RttNs { p50: Some(9_840.0), ..RttNs::default() });
    run.cells = vec![cell, Cell { wait: "poll".to_owned(), ..run_cell() }];
    run.save(&folder.path().join(name)).unwrap();
}

fn run_cell() -> Cell {
    Cell { rtt_ns: Some(RttNs::default()), ..Cell::new(Kind::Latency, "pipe", 8) }
}

const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";

#[track_caller]
fn json(folder: &Folder, words: &[&str]) -> Value {
    let ended = folder.run(&[words, &["--json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?} {ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn runs_are_added_and_exported() {
    let folder = Folder::new();
    store(&folder, "a.json", A, 1_795_230_660);
    store(&folder, "b.json", B, 1_795_330_660);
    let ended = folder.run(&["data", "add", "a.json", "a.json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.starts_with("added      aaaaaaaaaaaaaaaa/2026-11-21-tour-"), "{ended:?}");
    assert!(ended.stdout.contains("1 run added, 1 was there already: "), "{ended:?}");
    // Without --dir it lies in the data directory of the home.
    let data = folder.home().join(".local/share/nearcall/data").join(A);
    let file = fs::read_dir(data).unwrap().next().unwrap().unwrap().path();
    assert!(!fs::read_to_string(file).unwrap().contains("alice"));

    let kept = json(&folder, &["data", "add", "b.json", "--dir", "other", "--keep-host-name"]);
    assert_eq!((&kept["schema"], &kept["added"]), (&"nearcall.data-add/1".into(), &1.into()));
    let file = folder.path().join("other").join(kept["runs"][0]["file"].as_str().unwrap());
    assert!(fs::read_to_string(&file).unwrap().contains("alice"));

    let file = file.to_str().unwrap();
    let added = json(&folder, &["data", "add", file]);
    assert_eq!((&added["added"], &added["duplicates"]), (&1.into(), &0.into()));
    assert_eq!(json(&folder, &["data", "add", file])["duplicates"], 1);

    let words = ["data", "export", "--csv", "cells.csv", "--jsonl", "cells.jsonl"];
    let done = json(&folder, &words);
    assert_eq!((&done["runs"], &done["rows"]), (&2.into(), &4.into()));
    let csv = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    assert!(csv.starts_with("machine_id,cpu_model,") && csv.lines().count() == 5, "{csv}");
    let lines = fs::read_to_string(folder.path().join("cells.jsonl")).unwrap();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() == 4 && rows.iter().all(|row| row["mechanism"] == "pipe"), "{lines}");
    let piped = folder.run(&["data", "export", "--csv", "/dev/stdout"]);
    assert_eq!((piped.stdout, piped.code), (csv, Some(0)));
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_failure() {
    let folder = Folder::new();
    store(&folder, "a.json", A, 5);
    json(&folder, &["data", "add", "a.json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let words = ["data", "export", "--csv", "/dev/stdout"];
    let ended = folder.run_into(&words, writer.into(), &folder.path().join("none"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn names_of_files_reach_the_terminal_as_text() {
    let folder = Folder::new();
    store(&folder, "a.json", A, 5);
    json(&folder, &["data", "add", "a.json", "--dir", "data"]);
    let hostile = "x\u{1b}[2J\n\u{202e}.json";
    let text = fs::read_to_string(folder.path().join("a.json")).unwrap();
    let bad = text.replace("\"latency\"", "\"\\u001b[31m\"");
    let machine = folder.path().join("data").join(A);
    fs::write(machine.join(hostile), bad).unwrap();
    let ended = folder.run(&["data", "export", "--csv", "c.csv", "--dir", "data"]);
    let is_text = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
    assert!(ended.code == Some(1) && is_text(&ended.stderr), "{ended:?}");
    assert!(ended.stderr.contains(r"x\u{1b}[2J\n\u{202e}.json: not a valid run"), "{ended:?}");
    assert!(ended.stderr.contains(r"unknown variant `\u{1b}[31m`"), "{ended:?}");
}

#[test]
fn one_bad_run_keeps_all_of_a_command_out_and_is_named() {
    let folder = Folder::new();
    store(&folder, "a.json", A, 5);
    let text = fs::read_to_string(folder.path().join("a.json")).unwrap();
    fs::write(folder.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    fs::write(folder.path().join("newer.json"), text.replace("run/1", "run/2")).unwrap();
    for (name, message) in [
        ("cut.json", "cut.json: cut off: the file ends at line 1"),
        ("newer.json", "newer.json: nearcall.run/2 is newer than this program reads"),
        ("none.json", "none.json: cannot read"),
    ] {
        let ended = folder.run(&["data", "add", "a.json", name, "--dir", "data"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.contains(message) && ended.stderr.lines().count() == 1, "{ended:?}");
        assert!(!folder.path().join("data").exists());
    }
}

#[test]
fn a_damaged_data_set_gives_no_table_and_ends_with_1() {
    let folder = Folder::new();
    store(&folder, "a.json", A, 5);
    json(&folder, &["data", "add", "a.json", "--dir", "data"]);
    fs::write(folder.path().join("data").join(A).join("x.json"), "{").unwrap();
    fs::write(folder.path().join("data/README.md"), "ours").unwrap();
    let ended = folder.run(&["data", "export", "--csv", "c.csv", "--dir", "data"]);
    assert!(
        ended.code == Some(1) && ended.stderr.contains("aaaaaaaaaaaaaaaa/x.json: cut off"),
        "{ended:?}"
    );
    assert!(!folder.path().join("c.csv").exists());
}

#[test]
fn wrong_words_and_missing_folders_are_told_apart() {
    let folder = Folder::new();
    for (words, code, message) in [
        (&["data"][..], 2, "Usage: nearcall data"),
        (&["data", "ad"], 2, "'add'"),
        (&["data", "add"], 2, "<RUN.json>"),
        (&["data", "export"], 2, "--csv <FILE>"),
        (&["data", "export", "--parquet", "x"], 2, "use --csv FILE or --jsonl FILE"),
        (&["data", "export", "--csv", "x", "--dir", "none"], 1, "none: no such directory"),
    ] {
        let ended = folder.run(words);
        assert_eq!(ended.code, Some(code), "{words:?} {ended:?}");
        assert!(ended.stderr.contains(message), "{words:?} {ended:?}");
    }
}
