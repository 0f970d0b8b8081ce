//! The program as it is started: it measures, says what it cannot do, and leaves nothing behind.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn peers(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearcall-peers")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn rows_are_measured_and_leave_nothing_behind() {
    let words = ["--only", "bare,nearcall-block,tarpc", "--quick", "--size", "0,64,64KiB"];
    let output = peers(&[&words[..], &["--launches", "1", "--pin", "none", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.run/1");
    let rows = document["libraries"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["failure"].is_null(), "{row}");
        assert!(row["idle_server"]["threads"].as_u64().unwrap() >= 1);
        let cells = document["library_cells"].as_array().unwrap().iter();
        let cells: Vec<_> = cells.filter(|cell| cell["mechanism"] == row["name"]).collect();
        // Three sizes, one echo, one rate.
        assert_eq!(cells.len(), 5, "{row}");
        let has_value = |cell: &&serde_json::Value| {
            cell["rtt_ns"]["p50"].is_f64() || cell["messages_per_s"].is_f64()
        };
        assert!(cells.iter().all(has_value), "{cells:?}");
    }
    for place in ["/tmp", "/dev/shm"] {
        let left = std::fs::read_dir(place).unwrap().flatten().map(|file| file.file_name());
        // Other runs may be under way; those of our own children are gone.
        let dead = |name: &str| {
            let pid = name.strip_prefix("nearcall-p")?.split_once('-')?.0.parse::<u32>().ok()?;
            (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(())
        };
        let left: Vec<_> = left.filter(|name| dead(&name.to_string_lossy()).is_some()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn every_row_tells_how_it_is_configured() {
    let output = peers(&["--about"]);
    let about = text(&output.stdout);
    for row in
        ["nearcall-adaptive", "iceoryx2-poll", "shmipc", "tonic", "ttrpc", "zenoh", "boost-mq"]
    {
        assert!(about.contains(row), "{row}");
    }
}

#[test]
fn bad_words_are_refused() {
    let output = peers(&["--only", "carrier-pigeon"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no row begins with"));
    assert_eq!(peers(&["--launches", "0"]).status.code(), Some(2));
}

#[test]
fn a_process_without_a_request_fails() {
    let output = peers(&["peer"]);
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("has no request"));
}
