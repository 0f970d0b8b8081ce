//! The report of made-up runs: its first screen and Markdown compared with `tests/golden`, and
//! how the page is built.
//!
//! `UPDATE_EXPECT=1 cargo test -p nearcall-results` rewrites the expected texts; review the
//! difference.

use std::collections::HashSet;
use std::path::Path;

use nearcall_results::noise::Grade;
use nearcall_results::report::hosts::hosts;
use nearcall_results::report::markdown::markdown;
use nearcall_results::report::page::{PageFacts, page};
use nearcall_results::run::{Cell, Kind, Run};

use crate::page_reader::{Tag, tags};
use crate::table::{check_golden, empty, full, latency, made_up};

pub(crate) fn page_of(runs: &[Run]) -> String {
    let facts = PageFacts {
        version: "0.1.0".to_owned(),
        command: "nearcall report run.json -o report.html".to_owned(),
    };
    let hosts = hosts(runs).unwrap();
    let found = page(&hosts, &facts);
    assert_eq!(found, page(&hosts, &facts), "the same runs give the same page");
    found
}

/// A machine with measurements and studies.
fn rich() -> Vec<Run> {
    let mut same_cpu = latency("shm-futex", 0, "block", 7_300.0, None);
    same_cpu.shape = "call".to_owned();
    same_cpu.placement.class = "same_cpu".to_owned();
    let mut run = full();
    run.cells.push(same_cpu);
    vec![run, made_up("studies")]
}

fn other_machine() -> Run {
    let mut run = full();
    run.machine.id = "0badc0de0badc0de".to_owned();
    run.machine.cpu_model = "POWER11".to_owned();
    run.cells[1] = latency("shm-spin", 8, "spin", 96.4, None);
    run
}

/// What the first screen says, a line for each piece.
fn first_screen(tags: &[Tag]) -> String {
    let mut out = String::new();
    let told = ["kicker", "lead", "question", "figure", "trust", "words", "use", "definition"];
    for tag in tags {
        let told = tag.name == "p" && told.iter().any(|class| tag.has_class(class));
        if tag.name == "table" {
            break;
        }
        if told || matches!(tag.name.as_str(), "h1" | "dt" | "dd") {
            out.push_str(tag.text.trim());
            out.push('\n');
        }
    }
    out
}

/// What every page of ours keeps.
#[track_caller]
pub(crate) fn check_structure(page: &str) -> Vec<Tag> {
    let tags = tags(page);
    let mut ids = HashSet::new();
    for id in tags.iter().filter_map(|tag| tag.get("id")) {
        assert!(ids.insert(id), "id {id} twice");
    }
    for tag in &tags {
        let places = tag.get("href").and_then(|href| href.strip_prefix('#'));
        let named = tag.get("aria-labelledby").into_iter().flat_map(|ids| ids.split(' '));
        for id in places.into_iter().chain(named) {
            assert!(ids.contains(id), "{} points to {id}, which is not there", tag.name);
        }
        for (name, value) in &tag.attributes {
            let own = name == "xmlns" || value.starts_with("data:image/svg+xml,");
            assert!(own || !value.contains("://"), "{name}={value}");
            assert!(name != "src" && !name.starts_with("on"), "{name}={value}");
        }
    }
    check_headings(&tags);
    for (index, tag) in tags.iter().enumerate().filter(|(_, tag)| tag.name == "svg") {
        assert_eq!(tag.get("role"), Some("img"));
        assert_eq!((&*tags[index + 1].name, &*tags[index + 2].name), ("title", "desc"));
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    let body = &tags.iter().find(|tag| tag.name == "body").unwrap().text;
    assert!(!body.contains("NaN") && !body.contains(" inf"), "{body}");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
    tags
}

#[track_caller]
fn check_headings(tags: &[Tag]) {
    let mut before = 0;
    for tag in tags {
        let Some(level) = tag.name.strip_prefix('h').and_then(|level| level.parse::<u32>().ok())
        else {
            continue;
        };
        assert!(level <= before + 1, "h{level} after h{before}: {}", tag.text);
        assert!((level == 1) == (before == 0), "one h1 at the top");
        before = level;
    }
}

#[test]
fn the_first_screen_says_what_is_fast_and_what_to_use() {
    check_golden(&first_screen(&check_structure(&page_of(&rich()))), "report_first_screen.txt");
}

#[test]
fn the_short_form_is_markdown() {
    let runs = rich();
    check_golden(&markdown(&hosts(&runs).unwrap()), "report.md");
}

#[test]
fn every_page_is_well_built() {
    let mut partial = empty();
    partial.mark_partial("interrupted");
    let two = [full(), other_machine()];
    for runs in [&rich()[..], &two, &[partial], &[made_up("studies")]] {
        check_structure(&page_of(runs));
        assert!(!markdown(&hosts(runs).unwrap()).contains("NaN"));
    }
}

/// `UPDATE_EXPECT=1` writes the page to `docs/report.html`, which shows people what a report is.
#[test]
fn the_stored_runs_of_one_machine_give_one_machine_and_at_most_500_kilobytes() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files = ["runs", "rivals"].map(|folder| std::fs::read_dir(docs.join(folder)).unwrap());
    let mut paths: Vec<_> = files.into_iter().flatten().map(|file| file.unwrap().path()).collect();
    // The tour ran on an EPYC with other caches.
    let of_it = |name: &str| name.starts_with("epyc-") && name != "epyc-2cpu-tour.json";
    paths.retain(|path| of_it(path.file_name().unwrap().to_str().unwrap()));
    paths.sort();
    let runs: Vec<Run> = paths.iter().map(|path| Run::load(path).unwrap()).collect();
    let facts = PageFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: "nearcall report docs/rivals/*.json docs/runs/epyc-2cpu-[!t]*.json -o report.html"
            .to_owned(),
    };
    let page = page(&hosts(&runs).unwrap(), &facts);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(docs.join("report.html"), &page).unwrap();
    }
    check_structure(&page);
    // Kernels of several versions ran on it.
    assert!(page.contains("This machine") && !page.contains("Machine 2"));
    assert!(page.len() <= 500_000, "{} bytes", page.len());
}

#[test]
fn names_of_strangers_stay_text() {
    let mut run = full();
    let evil = "<script>alert(1)</script>\"'\u{1b}[31m\u{202e}";
    run.machine.cpu_model = evil.to_owned();
    run.machine.caches = vec![evil.to_owned()];
    run.warnings = vec![evil.to_owned()];
    run.tool.version = evil.to_owned();
    run.settings.arguments = vec![evil.to_owned()];
    run.timers[0].source = evil.to_owned();
    for cell in run.cells.iter_mut().chain(&mut run.floors) {
        cell.mechanism = format!("{evil}{}", cell.mechanism);
        cell.load = evil.to_owned();
    }
    run.skipped[0].reason = evil.to_owned();
    let mut study = made_up("studies");
    study.studies[0].title = evil.to_owned();
    study.studies[0].verdicts[0].evidence = evil.to_owned();
    study.studies[0].tables[0].rows[0].mechanism = evil.to_owned();
    let runs = [run, study];
    let page = page_of(&runs);
    let tags = check_structure(&page);
    assert!(tags.iter().all(|tag| tag.name != "script"));
    assert!(!page.contains("<script"));
    let short = markdown(&hosts(&runs).unwrap());
    assert!(!short.contains('<') && !short.contains('\u{1b}'), "{short}");
}

#[test]
fn figures_that_are_none_are_left_out() {
    let mut run = empty();
    let mut cell = latency("pipe", 8, "block", f64::NAN, Some(("floor-unix", f64::INFINITY)));
    cell.cpu_ns_per_message.client = Some(f64::NAN);
    run.cells = vec![cell, Cell::new(Kind::Throughput, "tcp", 8)];
    run.cells[1].messages_per_s = Some(f64::INFINITY);
    check_structure(&page_of(&[run]));
}

#[test]
fn a_cell_with_disturbed_tails_is_an_answer_by_its_interval() {
    let mut run = empty();
    run.cells = vec![latency("pipe", 8, "block", 900.0, None)];
    run.cells[0].grade = Some(Grade::D);
    let found = first_screen(&tags(&page_of(&[run])));
    assert!(found.contains("over pipe") && found.contains("tails: grade D"), "{found}");
}

#[test]
fn machines_stand_beside_each_other_and_are_never_averaged() {
    let page = page_of(&[full(), other_machine()]);
    let tags = tags(&page);
    let table = tags.iter().find(|tag| tag.get("id") == Some("side-by-side-rtt")).unwrap();
    assert!(table.text.contains("148 ns") && table.text.contains("96.4 ns"), "{}", table.text);
    // The mean of both.
    assert!(!page.contains("122 ns"));
}

#[test]
fn what_answers_nothing_has_no_card_and_no_empty_part() {
    let page = page_of(&[made_up("studies")]);
    let tags = check_structure(&page);
    let heads: Vec<&str> =
        tags.iter().filter(|tag| tag.name == "h3").map(|tag| tag.text.trim()).collect();
    assert_eq!(heads, ["All runs"]);
    assert!(tags.iter().all(|tag| !tag.has_class("card") && tag.name != "figure"));
    assert!(page.contains("confirmed"), "its claims are there");
}

#[test]
fn two_hundred_runs_stay_one_page() {
    let runs: Vec<Run> =
        (0..200).map(|at| Run { started_unix_s: 1_795_000_000 + at, ..full() }).collect();
    let page = page(&hosts(&runs).unwrap(), &PageFacts::default());
    let tags = check_structure(&page);
    assert_eq!(tags.iter().filter(|tag| tag.has_class("run")).count(), 60);
    assert!(page.contains("140 earlier runs") && page.len() < 1_500_000, "{}", page.len());
}

#[test]
fn two_machines_under_one_name_stay_two() {
    let mut other = full();
    other.machine.memory_bytes = Some(1 << 30);
    let page = page_of(&[full(), other]);
    assert!(page.contains("IPC on 2 machines") && page.contains("Machines side by side"));
}
