//! `nearcall advise` for recorded traffic, and what it stores for the runtime.

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

const CALLS: &str = "7 0.1 sendto(3, \"x\"..., 64, 0, NULL, 0) = 64\n7 0.2 read(3, \"y\", 9) = 8\n";

#[test]
fn what_strace_saw_becomes_an_advice_with_its_reasons() {
    let folder = Folder::new();
    fs::write(folder.path().join("calls.txt"), CALLS.repeat(2) + "what\n").unwrap();
    let ended = advise(&folder, &["--trace", "calls.txt"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let stored = format!("Run stored in {}", run());
    for text in ["Recorded traffic\n  busiest: thread 7, which asks", "sent", "Use ", &stored] {
        assert!(ended.stdout.contains(text), "no {text:?} in {}", ended.stdout);
    }
    let ended = advise(&folder, &["--trace", "calls.txt", "--json", "--needs", "isolation"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.advice/1");
    assert!(document["address"].as_str().unwrap().starts_with("NAME?via="));
    assert_eq!(document["requirements"]["needs"][0], "isolation");
    assert_eq!(document["requirements"]["reply_bytes"], 8);
    let recording = &document["recording"];
    assert_eq!((&recording["messages"], &recording["answered"]), (&2.into(), &2.into()));
    assert_eq!(recording["first_garbage"]["line"], 5);
}

#[test]
fn what_is_no_recording_is_refused_with_its_first_line() {
    let folder = Folder::new();
    fs::write(folder.path().join("log.txt"), "a log\nof something\n").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("calls.txt"), CALLS).unwrap();
    let of_kind = "for calls of 64 B with replies of 8 B: nothing that fits was measured";
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--trace", "log.txt"], 1, "none of its 2 lines is from `strace -f -ttt`"),
        (&["--trace", "empty"], 1, "the recording has no messages"),
        (&["--trace", "-"], 1, "the recording has no messages"),
        (&["--trace", "none.txt"], 1, "none.txt"),
        (&["--trace", "calls.txt", "--load", "cpu"], 1, of_kind),
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
