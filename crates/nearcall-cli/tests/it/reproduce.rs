//! `nearcall reproduce` from outside.

use nearcall_os::cpu;
use nearcall_results::run::Run;
use nearcall_studies::Study;
use nearcall_studies::claims::Verdict;

use crate::program::Folder;

#[test]
fn an_unknown_study_lists_those_that_there_are() {
    let ended = Folder::new().run(&["reproduce", "enae"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    for study in Study::ALL {
        assert!(ended.stderr.contains(study.name()), "{}", ended.stderr);
    }
}

#[test]
fn a_study_is_repeated_judged_and_shown_again() {
    let folder = Folder::new();
    let words = ["reproduce", "wisconsin-evaluation", "--quick", "--launches", "1", "--time", "2s"];
    let ended = folder.run(&[&words[..], &["--out", "study.json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let shown = folder.run(&["show", "study.json"]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
    assert!(shown.stdout.contains("10 claims: "), "{}", shown.stdout);
    let run = Run::load(&folder.path().join("study.json")).unwrap();
    assert_eq!((run.studies.len(), run.studies[0].verdicts.len()), (1, 10));
    let timers = &run.studies[0].tables[0].rows;
    assert!(timers.iter().any(|row| row.paper.is_some() && row.here_as_paper.is_some()));
    assert!(run.study_cells.iter().all(|cell| cell.study.is_some()));
}

#[test]
fn a_stored_run_is_judged_by_the_rules_of_today_and_kept_as_it_is() {
    let folder = Folder::new();
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runs/epyc-2cpu-studies.json");
    let shown = folder.run(&["show", run]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{}", shown.stderr);
    let counts = "70 claims: 13 confirmed, 20 refuted, 35 inconclusive, 2 skipped.";
    assert!(shown.stdout.contains(counts), "{}", shown.stdout);
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("; stored as REFUTED").count(), 9, "{}", shown.stdout);
    let page = folder.run(&["report", run, "--markdown", "page.md"]);
    assert_eq!(page.code, Some(0), "{page:?}");
    let kept = folder.run(&["show", "--json", run]);
    let verdicts = Run::parse(&kept.stdout).unwrap().studies;
    let verdicts = verdicts.iter().flat_map(|study| &study.verdicts);
    assert_eq!(verdicts.filter(|judged| judged.verdict == Verdict::Refuted).count(), 29);
}

#[test]
fn one_cpu_is_enough_and_what_needs_two_is_skipped_with_the_reason() {
    let folder = Folder::new();
    // The program inherits it.
    cpu::pin_current(cpu::allowed()[0]).unwrap();
    let words = ["reproduce", "enea", "--quick", "--launches", "1", "--time", "2s", "--out", "e"];
    let ended = folder.run(&words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let run = Run::load(&folder.path().join("e")).unwrap();
    assert!(run.skipped.iter().any(|skip| skip.reason == "only one CPU is allowed"));
    let verdicts = &run.studies[0].verdicts;
    let across = verdicts.iter().find(|judged| judged.id == "E07").unwrap();
    assert_eq!(across.verdict, Verdict::Skipped, "{across:?}");
    assert!(across.evidence.contains("there is one CPU"), "{across:?}");
    let same = verdicts.iter().find(|judged| judged.id == "E16").unwrap();
    assert_ne!(same.verdict, Verdict::Skipped, "{same:?}");
}

#[test]
fn what_was_measured_before_ctrl_c_is_kept_and_marked() {
    let folder = Folder::new();
    let words = ["reproduce", "short-comparison", "--quick", "--launches", "50", "--out", "s"];
    folder.interrupt(&words, |_, peers| !peers.is_empty());
    let run = Run::load(&folder.path().join("s")).unwrap();
    assert!(run.partial && run.studies[0].verdicts.len() == 7, "{:?}", run.partial_reason);
}
