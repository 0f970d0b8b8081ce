//! A directory of runs: what comes in, what is recognised, what never meets, and the flat table.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use nearcall_results::dataset::rows::{COLUMNS, Line, csv};
use nearcall_results::dataset::{DataSet, Format, Outcome, export, place, run_id};
use nearcall_results::report::hosts::hosts;
use nearcall_results::run::{Cell, Kind, Run};

use crate::table::{check_golden, empty, latency, stored};

/// An empty directory; gone when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearcall-dataset-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn store(&self, name: &str, run: &Run) -> PathBuf {
        let path = self.join(name);
        run.save(&path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(machine: &str, started_unix_s: u64) -> Run {
    let mut run = empty();
    run.machine.id = machine.to_owned();
    run.machine.cpu_model = format!("Invented {machine}");
    run.machine.state.host_name = "alice-laptop".to_owned();
    run.settings.arguments = ["bench", "--out", "/srv/alice/a.json"].map(str::to_owned).to_vec();
    run.started_unix_s = started_unix_s;
    run.cells = vec![
        latency("pipe", 8, "block", 9_840.0, Some(("floor-unix", 0.91))),
        latency("shm-spin", 8, "spin", 148.2, None),
    ];
    run.floors = vec![latency("floor-futex", 8, "block", 9_120.0, None)];
    run
}

const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";

/// Every file of a data set, with its text.
fn tree(data: &DataSet) -> Vec<(String, String)> {
    let read = |place: String| {
        let text = fs::read_to_string(data.directory().join(&place)).unwrap();
        (place, text)
    };
    data.places().unwrap().into_iter().map(read).collect()
}

#[test]
fn a_run_lies_where_its_content_says_without_what_tells_about_people() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    let first = run(A, 1_795_230_660);
    let arrivals = data.add(&[folder.store("a.json", &first)], false).unwrap();
    assert_eq!((arrivals[0].outcome, &arrivals[0].place), (Outcome::Added, &place(&first)));
    let [(file, text)] = <[_; 1]>::try_from(tree(&data)).unwrap();
    assert!(file.starts_with("aaaaaaaaaaaaaaaa/2026-11-21-tour-"), "{file}");
    assert!(!text.contains("alice"), "{text}");
    let stored = Run::parse(&text).unwrap();
    assert_eq!(stored.machine.state.host_name, "unknown");
    assert_eq!(stored.settings.arguments, ["bench", "--out", "a.json"]);
    assert_eq!(
        (stored.cells, run_id(&first)),
        (first.cells.clone(), run_id(&Run::parse(&text).unwrap()))
    );
    // Nothing but the directory of the machine: no list that could go out of step.
    let names: Vec<_> = fs::read_dir(data.directory()).unwrap().collect();
    assert_eq!(names.len(), 1);

    let kept = DataSet::at(&folder.join("kept"));
    kept.add(&[folder.join("a.json")], true).unwrap();
    assert!(tree(&kept)[0].1.contains("alice-laptop"));
    assert!(!tree(&kept)[0].1.contains("/srv"));
}

#[test]
fn fields_of_later_versions_and_all_digits_stay() {
    let folder = Folder::new();
    let text = run(A, 5).to_json().replacen('{', "{\"later\":[1.10,2e3],", 1);
    fs::write(folder.join("a.json"), &text).unwrap();
    let data = DataSet::at(&folder.join("data"));
    data.add(&[folder.join("a.json")], false).unwrap();
    let (_, stored) = &tree(&data)[0];
    assert!(stored.contains("\"later\":[1.10,2e3],"), "{stored}");
}

#[test]
fn a_duplicate_is_recognised_and_a_changed_file_is_never_overwritten() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    let first = run(A, 5);
    let mut elsewhere = first.clone();
    elsewhere.machine.state.host_name = "unknown".to_owned();
    elsewhere.settings.arguments[2] = "a.json".to_owned();
    let pretty = serde_json::to_string_pretty(&first).unwrap();
    fs::write(folder.join("pretty.json"), pretty).unwrap();
    let files = [
        folder.store("a.json", &first),
        folder.store("b.json", &elsewhere),
        folder.join("pretty.json"),
    ];
    let outcomes: Vec<_> =
        data.add(&files, false).unwrap().into_iter().map(|arrival| arrival.outcome).collect();
    assert_eq!(outcomes, [Outcome::Added, Outcome::Duplicate, Outcome::Duplicate]);
    // Somebody changed a figure and left the name.
    let file = data.directory().join(place(&first));
    let text = fs::read_to_string(&file).unwrap().replace("9840.0", "9841.0");
    fs::write(&file, &text).unwrap();
    let error = data.add(&files[..1], false).unwrap_err().to_string();
    assert!(error.contains("was changed under its name"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn all_runs_come_in_or_none() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    let good = folder.store("good.json", &run(A, 5));
    let text = run(A, 6).to_json();
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    for (bad, message) in [
        (write("cut.json", &text[..text.len() / 2]), "cut.json: cut off"),
        (
            write("newer.json", &text.replace("run/1", "run/7")),
            "newer.json: nearcall.run/7 is newer",
        ),
        (write("no.json", "{}"), "no.json: not a nearcall run"),
        (write("id.json", &text.replace(A, "../../outside")), "id.json: its machine has no id"),
        (write("two.json", &text.replace("Invented", "Another")), "two.json: another machine has"),
        (folder.join("missing.json"), "missing.json: cannot read"),
    ] {
        let error = data.add(&[good.clone(), bad], false).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(data.places().unwrap(), [""; 0], "{message}");
    }
    assert!(!folder.join("data").exists());
}

#[test]
fn runs_of_two_machines_lie_apart_and_those_of_another_data_set_are_added() {
    let folder = Folder::new();
    let [ours, theirs] = ["ours", "theirs"].map(|name| DataSet::at(&folder.join(name)));
    let [a, b, c] = [(A, 1), (B, 2), (B, 3)]
        .map(|(id, start)| folder.store(&format!("{id}{start}.json"), &run(id, start)));
    ours.add(&[a, b.clone()], false).unwrap();
    theirs.add(&[b, c], false).unwrap();
    let files: Vec<PathBuf> =
        theirs.places().unwrap().iter().map(|place| theirs.directory().join(place)).collect();
    let outcomes = ours.add(&files, true).unwrap().into_iter().map(|arrival| arrival.outcome);
    let mut outcomes: Vec<_> = outcomes.collect();
    outcomes.sort_by_key(|outcome| *outcome == Outcome::Added);
    assert_eq!(outcomes, [Outcome::Duplicate, Outcome::Added]);
    assert_eq!(ours.places().unwrap().len(), 3);
    for (file, text) in tree(&ours) {
        let id = Run::parse(&text).unwrap().machine.id;
        assert!(file.starts_with(&format!("{id}/")), "{file}");
    }
}

#[test]
fn two_machines_under_one_id_never_share_a_directory() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    data.add(&[folder.store("first.json", &run(A, 5))], false).unwrap();
    let mut other = run(A, 6);
    other.machine.memory_bytes = Some(1);
    let error = data.add(&[folder.store("other.json", &other)], false).unwrap_err().to_string();
    assert!(error.contains(&format!("other.json: another machine has the id {A}")), "{error}");
    assert_eq!(data.places().unwrap().len(), 1);
    // What people shorten before they publish a run distinguishes no machines.
    let mut shortened = run(A, 7);
    shortened.machine.kernel_command_line = "quiet".to_owned();
    data.add(&[folder.store("shortened.json", &shortened)], false).unwrap();
    // Somebody copied the file there.
    other.save(&data.directory().join(place(&other))).unwrap();
    let error = export(&data, Format::Csv, &folder.join("cells.csv")).unwrap_err().to_string();
    assert!(error.contains(&format!("another machine has the id {A}")), "{error}");
    assert!(!folder.join("cells.csv").exists());
}

#[test]
fn a_run_in_the_directory_of_another_machine_is_found_and_a_link_not_followed() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    fs::create_dir_all(data.directory().join(B)).unwrap();
    let file = data.directory().join(B).join("x.json");
    run(A, 5).save(&file).unwrap();
    let csv = folder.join("cells.csv");
    let error = || export(&data, Format::Csv, &csv).unwrap_err().to_string();
    assert!(error().ends_with(&format!("x.json: is a run of the machine {A}")), "{}", error());
    fs::rename(&file, folder.join("x.json")).unwrap();
    std::os::unix::fs::symlink(folder.join("x.json"), &file).unwrap();
    assert!(error().contains("not a regular file"), "{}", error());
}

#[test]
fn the_csv_of_a_made_up_run_is_as_it_was() {
    let mut run = run(A, 1_795_230_660);
    let mut rate = Cell::new(Kind::Throughput, "pipe", 65_536);
    rate.messages_per_s = Some(1.5e5);
    rate.messages_per_s_ci95 = Some([1.4e5, 1.625e5]);
    rate.bytes_per_s = Some(1.5e5 * 65_536.0);
    rate.tags = vec!["few_launches".to_owned(), "migrated".to_owned()];
    run.cells.push(rate);
    let runs = [run];
    let found = csv(&hosts(&runs).unwrap());
    check_golden(&found, "flat.csv");
}

#[test]
fn json_lines_give_back_every_value() {
    let run = stored("runs/epyc-2cpu-tour.json");
    let mut rows = 0;
    for (key, cell) in run.keyed_cells() {
        let line = Line { run: &run, run_file: "m/tour.json", key: &key, cell };
        let mut text = Vec::new();
        line.write_json(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(row.len(), COLUMNS.len());
        for (column, value) in COLUMNS.iter().zip(line.values()) {
            assert_eq!(row[column.name], value, "{}", column.name);
        }
        rows += 1;
    }
    assert!(rows > 100, "{rows}");
}

#[test]
fn an_export_has_every_cell_of_every_run() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    let runs = [(A, 1), (A, 2), (B, 3)].map(|(id, start)| run(id, start));
    let files: Vec<_> =
        runs.iter().map(|run| folder.store(&format!("{}.json", run_id(run)), run)).collect();
    data.add(&files, false).unwrap();
    let [csv, lines] = ["cells.csv", "cells.jsonl"].map(|name| folder.join(name));
    fs::write(&csv, "old").unwrap();
    for (format, path) in [(Format::Csv, &csv), (Format::JsonLines, &lines)] {
        let done = export(&data, format, path).unwrap();
        assert_eq!((done.runs, done.rows), (3, 9));
    }
    let text = fs::read_to_string(&csv).unwrap();
    assert_eq!(text.lines().count(), 10);
    // The machine of each row is the directory of its file.
    for line in text.lines().skip(1) {
        let id = line.split(',').next().unwrap();
        assert!(line.contains(&format!(",{id}/")), "{line}");
    }
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), 9);

    fs::write(data.directory().join(A).join("cut.json"), "{").unwrap();
    let error = export(&data, Format::Csv, &csv).unwrap_err().to_string();
    assert!(error.contains("cut.json: cut off"), "{error}");
    assert_eq!(fs::read_to_string(&csv).unwrap(), text, "the file that was there is unchanged");
    let left: Vec<_> = fs::read_dir(folder.join(".")).unwrap().flatten().collect();
    assert!(left.iter().all(|e| !e.file_name().to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn the_document_names_every_column() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/data.md");
    let text = fs::read_to_string(document).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    for column in COLUMNS {
        let row = format!("| `{}` | {} | {} |", column.name, column.holds.name(), column.about);
        assert!(rows.contains(&row.as_str()), "reference/data.md lacks: {row}");
    }
}
