//! `nearcall bench memory`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::signal::{self, Signal};
use serde_json::Value;

use crate::program::Folder;

#[test]
fn memory_as_json_has_each_level_and_the_services() {
    let folder = Folder::new();
    let words = ["bench", "memory", "--quick", "--mechanism", "shm", "--out", "memory.json"];
    let ended = folder.run(&words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in ["Each idle connection takes", "shm, beside one", "no loader yet", "saves"] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
    let text = fs::read_to_string(folder.path().join("memory.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "nearcall.memory/1");
    assert_eq!(document["connections"][0]["levels"].as_array().unwrap().len(), 4);
    let set_ups = document["services"]["set_ups"].as_array().unwrap();
    let names: Vec<&str> = set_ups.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["two_processes", "one_process"]);
}

#[test]
fn too_few_descriptors_end_the_levels_with_the_reason() {
    let folder = Folder::new();
    let out = folder.path().join("memory.json");
    let mut command = Command::new("/bin/sh");
    let script =
        "ulimit -n 120; exec \"$0\" bench memory --quick --mechanism unix-stream --out \"$1\"";
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_nearcall")).arg(&out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(Duration::from_secs(60))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let document: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let connections = &document["connections"][0];
    let stopped = connections["stopped"].as_str().unwrap();
    assert!(stopped.starts_with("100 connections: after "), "{stopped}");
    assert_eq!(connections["levels"].as_array().unwrap().len(), 3);
}

#[test]
fn an_interruption_leaves_no_process_and_a_file_that_is_marked() {
    let folder = Folder::new();
    let mut command = folder.command(&["bench", "memory", "--out", "memory.json"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Child::spawn(&mut command).unwrap();
    let deadline = clock::now() + Duration::from_secs(20);
    let mut helpers = Vec::new();
    while helpers.is_empty() {
        assert!(clock::now() < deadline, "no process within 20 s");
        assert_eq!(child.wait(Some(Duration::from_millis(5))).unwrap(), None);
        helpers = helpers_of(child.pid());
    }
    signal::send_by_pidfd(child.pidfd(), Signal::INT).unwrap();
    let status = child.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(130));
    let text = fs::read_to_string(folder.path().join("memory.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["partial"], "interrupted");
    for helper in helpers {
        let exe = fs::read_link(format!("/proc/{helper}/exe"));
        let is_ours = exe.is_ok_and(|exe| exe.to_str() == Some(env!("CARGO_BIN_EXE_nearcall")));
        assert!(!is_ours, "process {helper} is left");
    }
}

/// The processes that `pid` has started.
fn helpers_of(pid: u32) -> Vec<u32> {
    let parent = |process: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| parent(process) == Some(pid)).collect()
}
