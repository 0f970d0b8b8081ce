//! `nearcall compare`: what it prints, how it ends, and what it refuses.

use std::fs;

use nearcall_results::noise::Grade;
use nearcall_results::run::{Cell, Definition, Kind, Machine, RttNs, Run, Settings};
use serde_json::Value;

use crate::program::{Ended, Folder};

/// A run with one cell of each size, whose launches lie around these times.
fn run(started_unix_s: u64, times_ns: &[f64]) -> Run {
    let machine = Machine { id: "one".to_owned(), ..Machine::default() };
    let mut run = Run::new(machine, Settings::default(), started_unix_s);
    for (&ns, size) in times_ns.iter().zip(1..) {
        let mut cell = Cell::new(Kind::Latency, "pipe", size);
        cell.rtt_ns = Some(RttNs { p50: Some(ns), ..RttNs::default() });
        cell.launch_medians_ns = [1.0, 1.004, 0.997, 1.002, 0.998].map(|part| part * ns).to_vec();
        cell.launches = 5;
        run.cells.push(cell);
    }
    run
}

fn save(folder: &Folder, name: &str, run: &Run) {
    run.save(&folder.path().join(name)).unwrap();
}

/// `a.json`, and `b.json` where one cell of three takes 10 % longer.
fn folder() -> Folder {
    let folder = Folder::new();
    save(&folder, "a.json", &run(1_795_230_660, &[100.0, 200.0, 300.0]));
    save(&folder, "b.json", &run(1_795_234_260, &[100.0, 220.0, 300.0]));
    folder
}

#[track_caller]
fn ends(ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.stderr.contains(says), "no {says:?} in {}", ended.stderr);
    assert!(ended.stderr.lines().count() <= 1, "{}", ended.stderr);
}

#[test]
fn a_comparison_is_done_also_where_something_differs() {
    let folder = folder();
    let ended = folder.run(&["compare", "a.json", "b.json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.contains("1 of 3 cells is slower, none is faster"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Not shown: 2 no difference"), "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100));
    let all = folder.run(&["compare", "a.json", "b.json", "--all"]);
    assert!(all.stdout.contains("No difference (2)"), "{}", all.stdout);
    let text = folder.run(&["compare", "a.json", "b.json", "--markdown"]).stdout;
    assert!(text.contains("| slower | pipe echo 2 B block"), "{text}");
}

#[test]
fn a_comparison_as_json_is_one_document() {
    let folder = folder();
    let ended = folder.run(&["compare", "a.json", "b.json", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.compare/1");
    assert_eq!(document["overall"], "slower");
    let cell = &document["cells"][0];
    assert_eq!(
        (cell["verdict"].as_str(), cell["worse"].as_str()),
        (Some("slower"), Some("higher"))
    );
    assert!((cell["ratio"].as_f64().unwrap() - 1.1).abs() < 1e-6, "{cell}");
    assert!(cell["p_corrected"].as_f64().unwrap() < 0.05);
}

#[test]
fn fail_if_slower_ends_with_1_and_names_the_cells() {
    let folder = folder();
    let gate = |words: &[&str]| {
        let words = [&["compare", "a.json", "b.json", "--fail-if-slower"], words].concat();
        folder.run(&words)
    };
    ends(&gate(&["5%"]), 1, "1 cell is slower by 5 % or more: pipe echo 2 B block");
    ends(&gate(&["10%"]), 1, "1 cell is slower by 10 % or more");
    ends(&gate(&["11%"]), 0, "");
    ends(&gate(&["1%", "--json"]), 1, "slower by 1 % or more");
    // What became faster never fails.
    ends(&folder.run(&["compare", "b.json", "a.json", "--fail-if-slower", "5%"]), 0, "");
}

#[test]
fn a_gate_that_sees_nothing_does_not_pass() {
    let folder = folder();
    let good = || run(1_795_234_260, &[100.0, 200.0, 300.0]);
    let gate = |name: &str, after: &Run, says: &str| {
        save(&folder, name, after);
        ends(&folder.run(&["compare", "a.json", name, "--fail-if-slower", "5%"]), 1, says);
    };
    let mut partial = good();
    partial.mark_partial("interrupted");
    gate("partial.json", &partial, "the second run was cut short");
    let mut lacking = good();
    lacking.cells.remove(0);
    gate("lacking.json", &lacking, "lacks a cell of the first, which it may have failed");
    let mut noisy = good();
    noisy.cells[..2].iter_mut().for_each(|cell| cell.grade = Some(Grade::D));
    gate("noisy.json", &noisy, "only 1 of 3 cells have a verdict");
    let mut wide = good();
    for cell in &mut wide.cells {
        cell.launch_medians_ns.iter_mut().zip([1.0, 1.3, 0.8, 0.7, 1.2]).for_each(|(ns, f)| {
            *ns *= f;
        });
    }
    gate("wide.json", &wide, "the gate cannot see 5 %");
    let mut debug = good();
    debug.tool.profile = "another".to_owned();
    gate("debug.json", &debug, "measure both alike");
    // Its copy in a data set has another text.
    let mut first = run(1_795_230_660, &[100.0, 200.0, 300.0]);
    first.machine.state.host_name = "unknown".to_owned();
    first.settings.arguments = vec!["/srv/a.json".to_owned()];
    save(&folder, "a.json", &first);
    first.settings.arguments = vec!["a.json".to_owned()];
    gate("copy.json", &first, "both files hold the same run");
    save(&folder, "good.json", &good());
    ends(&folder.run(&["compare", "a.json", "good.json", "--fail-if-slower", "5%"]), 0, "");
}

#[test]
fn wrong_words_end_with_2() {
    let folder = folder();
    for (words, says) in [
        (&["--fail-if-slower", "0%"][..], "the smallest is 0.1%"),
        (&["--fail-if-slower", "-5%"], "below zero"),
        (&["--fail-if-slower", "0.05"], "give a percentage such as 3%"),
        (&["--min-effect", "much"], "give a percentage such as 3%"),
        (&["--min-effect", "1000%"], "the largest is 900%"),
        (&["--fail-if-slower", "2%", "--min-effect", "3%"], "would never fail"),
        (&["--json", "--markdown"], "cannot be used with"),
    ] {
        let ended = folder.run(&[&["compare", "a.json", "b.json"], words].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(says), "{words:?}: {}", ended.stderr);
    }
    let ended = folder.run(&["compare", "a.json"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("AFTER.json"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_compared_ends_with_1_and_the_reason() {
    let folder = folder();
    let first = run(1_795_230_660, &[100.0]);
    let mut halved = first.clone();
    halved.cells[0].definition = Definition::RttHalf;
    save(&folder, "halved.json", &halved);
    let mut untouched = first.clone();
    untouched.settings.touch = "none".to_owned();
    save(&folder, "untouched.json", &untouched);
    save(&folder, "nothing.json", &run(1, &[]));
    let text = fs::read_to_string(folder.path().join("b.json")).unwrap();
    fs::write(folder.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    let newer = text.replace("nearcall.run/1", "nearcall.run/2");
    fs::write(folder.path().join("newer.json"), newer).unwrap();
    for (file, says) in [
        ("halved.json", "timed as rtt in the first run and as rtt_half in the second"),
        ("untouched.json", "payload touched \"full\" in the first run and \"none\""),
        ("nothing.json", "the second run has no cells"),
        ("cut.json", "error: cut.json: cut off"),
        ("newer.json", "error: newer.json: nearcall.run/2 is newer than this program reads"),
        ("absent.json", "error: absent.json: cannot read"),
    ] {
        let ended = folder.run(&["compare", "a.json", file]);
        assert_eq!(ended.stdout, "", "{file}");
        ends(&ended, 1, says);
    }
}

#[test]
fn too_noisy_a_machine_ends_with_1_and_says_so() {
    let folder = folder();
    let mut noisy = run(1_795_234_260, &[100.0, 200.0, 300.0]);
    noisy.cells.iter_mut().for_each(|cell| cell.grade = Some(Grade::D));
    save(&folder, "noisy.json", &noisy);
    let ended = folder.run(&["compare", "a.json", "noisy.json"]);
    ends(&ended, 1, "error: Nothing can be said: 3 grade D in the second run");
    assert!(ended.stdout.contains("Nothing can be said"), "{}", ended.stdout);
    let mut once = run(1_795_234_260, &[100.0, 200.0, 300.0]);
    once.cells.iter_mut().for_each(|cell| cell.launch_medians_ns.truncate(1));
    save(&folder, "once.json", &once);
    ends(&folder.run(&["compare", "a.json", "once.json"]), 1, "fewer than two launches");
}

#[test]
fn the_same_run_twice_and_two_machines_are_told() {
    let folder = folder();
    let ended = folder.run(&["compare", "a.json", "a.json", "--fail-if-slower", "1%"]);
    ends(&ended, 1, "both files hold the same run");
    assert!(ended.stdout.contains("both files hold the same run"), "{}", ended.stdout);
    let ended = folder.run(&["compare", "a.json", "a.json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut other = run(1_795_234_260, &[200.0, 400.0, 600.0]);
    other.machine.id = "two".to_owned();
    other.machine.kernel = "Linux 7.0".to_owned();
    save(&folder, "other.json", &other);
    let ended = folder.run(&["compare", "a.json", "other.json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("kernel: unknown → Linux 7.0"), "{}", ended.stdout);
    assert!(ended.stdout.contains("on the second machine"), "{}", ended.stdout);
    let ended = folder.run(&["compare", "a.json", "other.json", "--fail-if-slower", "5%"]);
    ends(&ended, 1, "the runs are of two machines");
}
