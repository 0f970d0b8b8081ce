//! `nearcall timers`.

use std::fs;

use serde_json::Value;

use crate::program::Folder;

#[test]
fn the_clocks_as_json_have_every_figure_or_a_reason() {
    let folder = Folder::new();
    let ended = folder.run(&["timers", "--quick", "--json", "--out", "timers.json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(fs::read_to_string(folder.path().join("timers.json")).unwrap(), ended.stdout);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.timers/1");
    assert!(document["partial"].is_null());
    let clocks = document["clocks"].as_array().unwrap();
    let names: Vec<&str> = clocks.iter().map(|clock| clock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["clock_gettime", "gettimeofday", "tsc"]);
    for clock in clocks.iter().filter(|clock| clock["unusable"].is_null()) {
        assert!(clock["overhead"]["mean_ns"].as_f64().unwrap() > 0.0, "{clock}");
        assert!(clock["granularity_ns"].as_f64().unwrap() > 0.0, "{clock}");
    }
    let sleeps = document["sleeps"].as_array().unwrap();
    assert!(sleeps.iter().all(|sleep| sleep["wake_up_mean_us"].as_f64().unwrap() > 0.0));
    assert_eq!(document["agreement"].as_array().unwrap().len(), 4);
}

#[test]
fn the_clocks_as_a_table_stand_beside_the_studies() {
    let ended = Folder::new().run(&["timers", "--quick"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in ["study 002", "study 003", "clock_gettime", "gettimeofday"] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_measuring() {
    let ended = Folder::new().run(&["timers", "--out", "no/such/directory.json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let start = "error: cannot store in no/such/directory.json: ";
    assert!(ended.stderr.starts_with(start), "{ended:?}");
}

#[test]
fn an_interruption_leaves_findings_that_are_marked() {
    let folder = Folder::new();
    // Its handler is there once SIGINT is among the caught signals.
    let words = ["timers", "--json", "--out", "timers.json"];
    folder.interrupt(&words, |program, _| catches_interrupts(program));
    let text = fs::read_to_string(folder.path().join("timers.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["partial"], "interrupted");
}

fn catches_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal 2 is bit 1.
    caught.is_some_and(|mask| mask & 2 != 0)
}
