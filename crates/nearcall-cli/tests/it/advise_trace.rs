//! `nearcall advise` for recorded traffic, and what it stores for the runtime.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Ended, Folder};

/// A stored run of calls of several sizes.
fn run() -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    runs.join("epyc-2cpu-calls.json").display().to_string()
}

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nearcall-results/tests/data/trace").join(name)
}

#[track_caller]
fn advise(folder: &Folder, words: &[&str]) -> Ended {
    let run = run();
    let words: Vec<&str> = ["advise"].iter().chain(words).copied().chain(["--run", &run]).collect();
    folder.run(&words)
}

#[test]
fn what_strace_saw_becomes_an_advice_with_its_reasons() {
    let folder = Folder::new();
    for name in ["echo-file.txt", "echo-terminal.txt"] {
        let file = recording(name).display().to_string();
        let ended = advise(&folder, &["--trace", &file]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        for text in
            ["Recorded traffic\n  14 messages in ", "Use ", "calls  one-way  share", "Why\n"]
        {
            assert!(ended.stdout.contains(text), "no {text:?} in {}", ended.stdout);
        }
        let stored = format!("Run stored in {}", run());
        assert!(ended.stdout.contains(&stored), "{}", ended.stdout);
    }
}

#[test]
fn the_document_has_the_advice_and_the_recording() {
    let folder = Folder::new();
    let table = "time_s,bytes,direction\n0.1,64,out\n0.2,8,in\n0.3,64,out\nwhat\n0.4,8,in\n";
    fs::write(folder.path().join("table.csv"), table).unwrap();
    let ended = advise(&folder, &["--trace", "table.csv", "--json", "--needs", "isolation"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.advice/1");
    assert!(document["address"].as_str().unwrap().starts_with("NAME?via="));
    assert_eq!(document["requirements"]["needs"][0], "isolation");
    let recording = &document["recording"];
    assert_eq!((&recording["messages"], &recording["answered"]), (&2.into(), &1.0.into()));
    assert_eq!(recording["garbage_lines"], 1);
    assert_eq!(recording["first_garbage"]["line"], 5);
    assert_eq!(document["requirements"]["reply_bytes"], 8);
}

#[test]
fn what_is_no_recording_is_refused_with_its_first_line() {
    let folder = Folder::new();
    fs::write(folder.path().join("log.txt"), "a log\nof something\n").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("calls.csv"), "0.1,64,out\n0.2,8,in\n").unwrap();
    let of_kind = "for calls of 64 B with replies of 8 B: nothing that fits was measured";
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--trace", "log.txt"], 1, "none of its 2 lines is `time_s,bytes`"),
        (&["--trace", "empty"], 1, "the recording has no messages"),
        (&["--trace", "-"], 1, "the recording has no messages"),
        (&["--trace", "none.txt"], 1, "none.txt"),
        (&["--trace", "calls.csv", "--load", "cpu"], 1, of_kind),
        (&["--trace", "log.txt", "--profile"], 2, "cannot be used with"),
        (&["--trace", "log.txt", "--rate", "9"], 2, "cannot be used with"),
    ];
    for (words, code, message) in cases {
        let ended = advise(&folder, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn the_file_for_the_runtime_is_stored_where_it_looks() {
    let folder = Folder::new();
    let home = folder.home().join(".config");
    let ended = folder.run(&["advise", "--profile"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let text = fs::read_to_string(home.join("nearcall/tuning.conf")).unwrap();
    assert!(text.starts_with("nearcall.tuning/1\nmachine = "), "{text}");
    assert!(text.contains("\nwake_up_ns = ") && text.contains("\nspin_ns = "), "{text}");
    let ended = folder.run(&["advise", "--profile", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.tuning/1");
    assert!(document["path"].as_str().unwrap().ends_with("nearcall/tuning.conf"));
}

#[test]
fn runs_of_another_machine_are_not_stored_for_this_one() {
    let folder = Folder::new();
    let text = fs::read_to_string(run()).unwrap();
    let id = "\"machine\":{\"id\":\"";
    assert!(text.contains(id));
    fs::write(folder.path().join("other.json"), text.replacen(id, &format!("{id}x"), 1)).unwrap();
    let ended = folder.run(&["advise", "--profile", "--run", "other.json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("the run is of another machine"), "{}", ended.stderr);
    let ended = folder.run(&["advise", "--profile", "--run", "other.json", "other.json"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!folder.home().join(".config/nearcall/tuning.conf").exists());
}
