//! Runs come back as they were written, and bad files are refused with a reason.

use super::*;
use crate::histogram::Histogram;
use crate::run::{Machine, RttNs, Settings, Skipped};
use crate::stats::estimate;

fn run() -> Run {
    let mut run = Run::new(Machine::default(), Settings::default(), 1_700_000_000);
    let mut times = Histogram::new();
    (0..2_000).for_each(|step| times.record(100 + step % 37));
    let mut cell = Cell::new(Kind::Latency, "pipe", 8);
    cell.rtt_ns = Some(RttNs::new(&times, estimate(&[115.0, 116.0], &[], 0.0).as_ref()));
    cell.histogram = Some(times.to_stored());
    run.cells.push(cell);
    let mut floor = Cell::new(Kind::Throughput, "floor-memcpy", 1 << 20);
    floor.messages_per_s = Some(12_345.678);
    run.floors.push(floor);
    run.skipped.push(Skipped {
        mechanism: "uring".to_owned(),
        reason: "the kernel has no io_uring".to_owned(),
        unsupported: true,
        shape: Some("echo".to_owned()),
        ..Skipped::default()
    });
    run
}

/// A directory of this test, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearcall-{name}-{}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let found = Run::parse(text).expect_err("the text is refused").to_string();
    assert!(found.contains(expected), "{found:?} does not say {expected:?}");
}

#[test]
fn a_saved_run_comes_back_and_replaces_the_old_one() {
    let scratch = Scratch::new("save");
    let path = scratch.0.join("run.json");
    fs::write(&path, "old").unwrap();
    check_writable(&path).unwrap();
    run().save(&path).unwrap();
    assert_eq!(Run::load(&path).unwrap(), run());
    assert_eq!(scratch.names(), ["run.json"]);
}

#[test]
fn a_link_stays_a_link_when_its_file_is_replaced() {
    let scratch = Scratch::new("link");
    let (path, link) = (scratch.0.join("run.json"), scratch.0.join("latest.json"));
    fs::write(&path, "old").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    run().save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Run::load(&path).unwrap(), run());
}

#[test]
fn a_path_that_cannot_be_written_is_known_before_and_leaves_nothing() {
    let scratch = Scratch::new("deny");
    let missing = scratch.0.join("missing/run.json");
    assert_eq!(check_writable(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(run().save(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(check_writable(&scratch.0).is_err() && run().save(&scratch.0).is_err());
    assert!(scratch.names().is_empty());
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    check_writable(Path::new("/dev/null")).unwrap();
    run().save(Path::new("/dev/null")).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_file_cut_off_anywhere_is_refused_and_named_so() {
    let text = run().to_json();
    for end in 1..text.len() {
        let found = Run::parse(&text[..end]).expect_err("half a run is refused");
        assert!(matches!(found, ParseError::CutOff { .. }), "{end}: {found}");
    }
    check_refused("", "cut off: the file ends at line 1 column 0");
}

#[test]
fn other_schemas_and_wrong_fields_are_refused_with_the_reason() {
    let text = run().to_json();
    let (engine, deep) = (text.replacen("\"machine\"", "\"engine\"", 1), "[".repeat(100_000));
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let newer = "nearcall.run/2 is newer than this program reads (nearcall.run/1): update nearcall";
    for (text, expected) in [
        (with("nearcall.run/1", "nearcall.run/2"), newer),
        ("{\"schema\":\"nearcall.run/99\",\"new\":[1]}".to_owned(), "is newer"),
        (with("nearcall.run/1", "nearcall.run/0"), "not a nearcall run"),
        (with("nearcall.run/1", "other.run/1"), "not a nearcall run"),
        ("{\"a\":1}".to_owned(), "not a nearcall run"),
        ("[1,2]".to_owned(), "not a nearcall run"),
        ("{\"schema\":7}".to_owned(), "not a nearcall run"),
        (with("\"count\":0", "\"count\":\"many\""), "expected u64 at line 1 col"),
        (engine, "missing field `machine`"),
        (with("\"kind\":\"latency\"", "\"kind\":\"l\""), "unknown variant `l`"),
        (with("\"rtt_ns\"", "\"rtt\""), "cells[0]: a latency cell without rtt_ns"),
        (
            with("\"significant_digits\":3", "\"significant_digits\":9"),
            "cells[0]: histogram has 9 significant digits",
        ),
        ("{\"schema\":\"nearcall.run/1\"} x".to_owned(), "trailing characters at line 1 column 29"),
        (deep, "recursion limit"),
        // A reader does not have to guess what a time means.
        (with("\"definition\"", "\"meaning\""), "missing field `definition`"),
        (with("\"definition\":\"rtt\"", "\"definition\":\"about\""), "unknown variant `about`"),
        // Text of a file reaches no terminal as a command.
        (with("\"latency\"", "\"\\u001b[2J\\n\\u202e\""), r"unknown variant `\u{1b}[2J\n\u{202e}`"),
    ] {
        check_refused(&text, expected);
    }
    assert_eq!(printable("it's \"ü\" \\ x"), "it's \"ü\" \\ x");
}

#[test]
fn cells_of_every_list_are_checked() {
    for list in ["bare", "parts", "study_cells", "library_cells"] {
        let mut bad = run();
        let cells = match list {
            "bare" => &mut bad.bare,
            "parts" => &mut bad.parts,
            "study_cells" => &mut bad.study_cells,
            _ => &mut bad.library_cells,
        };
        cells.push(Cell::new(Kind::Latency, "pipe", 8));
        check_refused(&bad.to_json(), &format!("{list}[0]: a latency cell without rtt_ns"));
    }
}

#[test]
fn a_stored_comparison_of_libraries_is_a_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rivals/epyc-2cpu.json");
    let run = Run::load(&path).unwrap();
    assert_eq!((run.libraries.len(), run.library_cells.len()), (19, 133));
    let tonic = run.libraries.iter().find(|library| library.name == "tonic").unwrap();
    assert_eq!((&*tonic.version, &*tonic.wait), ("tonic 0.14.9", "block"));
    assert_eq!(tonic.idle_server.map(|server| server.threads), Some(1));
    let beside = run.beside_nearcall();
    let of = |name: &str| {
        let place = run.library_cells.iter().position(|cell| cell.mechanism == name).unwrap();
        beside[place].unwrap()
    };
    assert_eq!(of("nearcall-block"), (1.0, false));
    assert!(of("tonic").0 > 1.0, "{:?}", of("tonic"));
    assert_eq!(Run::parse(&run.to_json()).unwrap(), run, "stored again it is a run");
}

#[test]
fn what_a_dead_process_left_behind_blocks_nobody() {
    let scratch = Scratch::new("stale");
    let path = scratch.0.join("run.json");
    let stale: Vec<PathBuf> = (0..60)
        .map(|number| format!("run.json.{}.{number}.part", process::id()))
        .chain([format!("run.json.{}.part", process::id())])
        .map(|name| scratch.0.join(name))
        .collect();
    stale.iter().for_each(|path| fs::write(path, "").unwrap());
    run().save(&path).unwrap();
    assert_eq!(Run::load(&path).unwrap(), run());
    assert_eq!(scratch.names().len(), stale.len() + 1);
}

#[test]
fn unknown_fields_are_left_alone() {
    let text = run().to_json().replacen("{\"schema\"", "{\"later\":{\"x\":[1]},\"schema\"", 1);
    assert_eq!(Run::parse(&text).unwrap(), run());
}

#[test]
fn random_damage_never_panics() {
    let text = run().to_json();
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = text.clone().into_bytes();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(32..127);
        }
        let _ = Run::parse(std::str::from_utf8(&bytes).unwrap());
    }
}

#[test]
fn fields_that_other_programs_rely_on_have_their_names() {
    let json: serde_json::Value = serde_json::from_str(&run().to_json()).unwrap();
    for name in ["schema", "machine", "settings", "timers", "floors", "cells", "skipped"] {
        assert!(json.get(name).is_some(), "{name}");
    }
    let cell = &json["cells"][0];
    let names = "kind mechanism shape message_bytes wait placement load definition launches count \
                 rtt_ns cpu_ns_per_message floor ratio_to_floor grade histogram";
    for name in names.split_whitespace() {
        assert!(cell.get(name).is_some(), "{name}");
    }
    for name in ["min", "p50", "p90", "p99", "p999", "p9999", "max", "mean", "p50_ci95"] {
        assert!(cell["rtt_ns"].get(name).is_some(), "rtt_ns.{name}");
    }
    assert_eq!(cell["rtt_ns"]["p999"], serde_json::Value::Null);
    assert_eq!(cell["definition"], "rtt");
    assert_eq!(json["floors"][0]["definition"], "one_way_throughput");
    assert!(cell["placement"].get("client_cpu").is_some());
    assert!(cell["cpu_ns_per_message"].get("server").is_some());
}

#[test]
fn committed_run_files_are_judged() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/run_file");
    let mut runs = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        runs += usize::from(Run::parse(&String::from_utf8_lossy(&bytes)).is_ok());
    }
    assert!(runs > 0, "no file of the corpus is a run");
}
