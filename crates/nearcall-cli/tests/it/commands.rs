//! What the commands print.

use std::fs::File;
use std::path::Path;

use nearcall_results::report::lines::Style;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{Cell, Kind, Machine, RttNs, Run, Settings};
use serde_json::Value;

use crate::program::{Ended, Folder};

#[track_caller]
fn json(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[track_caller]
fn text(ended: &Ended) -> &str {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.chars().all(|char| char == '\n' || !char.is_control()));
    let wide = ended.stdout.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "wider than 100 columns");
    &ended.stdout
}

#[test]
fn the_mechanisms_as_json_are_23_with_every_field() {
    let document = json(&Folder::new().run(&["mechanisms", "--json"]));
    assert_eq!(document["schema"], "nearcall.mechanisms/1");
    let rows = document["mechanisms"].as_array().unwrap();
    assert_eq!(rows.len(), 23);
    for row in rows {
        assert!(row["name"].is_string() && row["wake_up"].is_string(), "{row}");
        assert!(["kernel copies", "shared memory"].contains(&row["data_path"].as_str().unwrap()));
        assert!(!row["waits"].as_array().unwrap().is_empty(), "{row}");
        assert_eq!(row["capabilities"].as_object().unwrap().len(), 11, "{row}");
        assert_eq!(row["supported"].as_bool().unwrap(), row["reason"].is_null(), "{row}");
    }
}

#[test]
fn the_mechanisms_are_a_table_that_fits_the_terminal() {
    let folder = Folder::new();
    let ended = folder.run_in_columns(80, &["mechanisms"]);
    let wide = text(&ended).lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{}", ended.stdout);
    for row in json(&folder.run(&["mechanisms", "--json"]))["mechanisms"].as_array().unwrap() {
        let start = format!("\n  {} ", row["name"].as_str().unwrap());
        assert!(ended.stdout.contains(&start), "{row}");
    }
}

#[test]
fn the_doctor_gives_findings_with_reason() {
    let folder = Folder::new();
    let document = json(&folder.run(&["doctor", "--json"]));
    assert_eq!(document["schema"], "nearcall.doctor/1");
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.len() > 20);
    for finding in findings {
        for name in ["what", "concerns", "severity", "found", "why", "advice"] {
            assert!(finding[name].is_string(), "{name}: {finding}");
        }
    }
    let ended = folder.run(&["doctor"]);
    assert!(text(&ended).contains(&format!("\n{} checks: ", findings.len())));
}

fn stored() -> Run {
    let mut run = Run::new(Machine::default(), Settings::default(), 1_795_230_660);
    let mut cell = Cell::new(Kind::Latency, "pipe", 8);
    cell.rtt_ns = Some(RttNs { p50: Some(9_840.0), ..RttNs::default() });
    run.cells.push(cell);
    run
}

#[test]
fn a_stored_run_is_shown_again() {
    let (folder, run) = (Folder::new(), stored());
    run.save(&folder.path().join("run.json")).unwrap();
    assert_eq!(text(&folder.run(&["show", "run.json"])), table(&run, Style::PLAIN));
    assert_eq!(text(&folder.run(&["show", "--all", "run.json"])), details(&run, Style::PLAIN));
    let ended = folder.run(&["show", "run.json", "--json"]);
    assert_eq!(json(&ended)["schema"], "nearcall.run/1");
    assert_eq!(Run::parse(&ended.stdout).unwrap(), run);
}

#[test]
fn a_closed_pipe_ends_the_program_silently() {
    let folder = Folder::new();
    stored().save(&folder.path().join("run.json")).unwrap();
    for words in [
        &["mechanisms"][..],
        &["mechanisms", "--json"],
        &["doctor"],
        &["show", "run.json"],
        &["--help"],
        &["--version"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = folder.run_into(words, writer.into(), Path::new("/dev/null"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let folder = Folder::new();
    stored().save(&folder.path().join("run.json")).unwrap();
    for words in [
        &["mechanisms"][..],
        &["mechanisms", "--json"],
        &["show", "run.json"],
        &["show", "run.json", "--json"],
        &["report", "run.json", "-o", "-"],
        &["compare", "run.json", "run.json"],
        &["list", "--json"],
        &["--help"],
        &["-h"],
        &["bench", "--help"],
        &["help", "explain"],
        &["--version"],
    ] {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let ended = folder.run_into(words, full.into(), Path::new("/dev/null"));
        assert_eq!(ended.code, Some(1), "{words:?}: {ended:?}");
        let why = "error: cannot write to standard output: No space left on device";
        assert!(ended.stderr.contains(why), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn help_fits_the_terminal_shows_examples_and_hides_the_second_process() {
    let folder = Folder::new();
    // What each page holds is tested beside its definition.
    for words in [&["--help"][..], &["bench", "-h"], &["help", "bench", "libraries"]] {
        let ended = folder.run_in_columns(80, words);
        assert!(text(&ended).contains("Examples:\n  nearcall "), "{words:?}");
        let wide = ended.stdout.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{words:?}: wider than the terminal");
        assert!(!ended.stdout.contains("peer-process"), "{words:?}");
    }
    let version = folder.run(&["--version"]);
    assert!(text(&version).starts_with("nearcall 0."));
}

#[test]
fn only_color_always_writes_escape_sequences_to_a_file() {
    let folder = Folder::new();
    let is_coloured = |arguments: &[&str]| folder.run(arguments).stdout.contains('\u{1b}');
    for arguments in [
        &["--color=always", "help"][..],
        &["bench", "-h", "--color", "always"],
        &["mechanisms", "--color=always"],
    ] {
        assert!(is_coloured(arguments), "{arguments:?}");
    }
    for arguments in [
        &["--help"][..],
        &["--color=auto", "help"],
        &["mechanisms"],
        &["doctor", "--color", "never"],
    ] {
        assert!(!is_coloured(arguments), "{arguments:?}");
    }
}
