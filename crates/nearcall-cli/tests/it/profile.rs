//! What `profile` does: a small one as text and as JSON, and Ctrl-C in the middle.

use std::fs;

use nearcall_bench::profile::result::Profile;

use crate::program::Folder;

#[test]
fn a_profile_tells_calls_copies_and_what_is_missing() {
    let folder = Folder::new();
    let ended = folder.run(&["profile", "shm-futex", "--size", "64", "--time", "1s", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let profile: Profile = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(profile.schema, "nearcall.profile/2");
    assert_eq!((profile.mechanism.as_str(), profile.message_bytes), ("shm-futex", 64));
    assert_eq!((profile.wait.as_str(), profile.shape.as_str()), ("block", "echo"));
    assert_eq!(profile.arguments[0], "profile");
    assert!(profile.used.client.cpu_ns.unwrap() > 0.0 && profile.exchanges > 0);
    assert!(profile.calls.is_some() || !profile.missing.is_empty(), "{:?}", profile.missing);
    assert_eq!(profile.stacks, None, "only if asked for");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_profile_as_text_fits_100_columns() {
    let folder = Folder::new();
    let ended = folder.run(&["profile", "pipe", "--time", "1s", "--shape", "sink"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.starts_with("pipe: sink of 1 KiB, both ends wait by block, "));
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in ["Per round trip", "Copies of the payload"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {}", ended.stdout);
    }
}

#[test]
fn an_interrupted_profile_ends_with_130_and_leaves_no_process() {
    let folder = Folder::new();
    let words = ["profile", "pipe", "--time", "1m"];
    assert_eq!(folder.interrupt(&words, |_, peers| peers.len() >= 2), "");
}
