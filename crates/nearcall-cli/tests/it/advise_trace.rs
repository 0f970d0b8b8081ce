//! What `nearcall advise` refuses as a recording, and what it stores for the runtime.
//!
//! **Not here:** recordings that it reads (`record.rs`).

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Ended, Folder};

/// A stored run of calls of several sizes.
fn run() -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    runs.join("epyc-2cpu-calls.json").display().to_string()
}

#[track_caller]
fn advise(folder: &Folder, words: &[&str]) -> Ended {
    let run = run();
    let words: Vec<&str> = ["advise"].iter().chain(words).copied().chain(["--run", &run]).collect();
    folder.run(&words)
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = Folder::new();
    fs::write(folder.path().join("log.txt"), "a log\nof something\n").unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--trace", "log.txt"], 1, "log.txt: this is no recording of nearcall"),
        (&["--trace", "-"], 1, "this is no recording of nearcall"),
        (&["--trace", "none.rec"], 1, "none.rec"),
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
    let ended = folder.run(&["advise", "--profile", "--time", "1s"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let text = fs::read_to_string(home.join("nearcall/tuning.conf")).unwrap();
    assert!(text.starts_with("nearcall.tuning/1\nmachine = "), "{text}");
    assert!(text.contains("\nwake_up_ns = ") && text.contains("\nspin_ns = "), "{text}");
    let ended = folder.run(&["advise", "--profile", "--time", "1s", "--json"]);
    assert!(text.contains("\ncost = shm two-cpus busy 64 "), "{text}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.tuning/1");
    assert!(document["costs"].as_array().unwrap().len() > 8, "{document}");
    assert!(document["path"].as_str().unwrap().ends_with("nearcall/tuning.conf"));
    let ended = advise(&folder, &["--profile"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("cannot be used with"), "{ended:?}");
}
