//! `nearcall advise`: from stored runs, from a fresh measurement, and refused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::program::Folder;

fn stored(name: &str) -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    runs.join(name).display().to_string()
}

#[track_caller]
fn advise(words: &[&str], file: &str) -> String {
    let folder = Folder::new();
    let file = stored(file);
    let words: Vec<&str> =
        ["advise"].into_iter().chain(words.iter().copied()).chain(["--run", &file]).collect();
    let ended = folder.run(&words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let wide = ended.stdout.lines().find(|line| line.chars().count() > 100);
    assert!(wide.is_none() || words.contains(&"--json"), "{wide:?}");
    ended.stdout
}

#[test]
fn the_first_line_is_the_answer_and_the_address() {
    let text = advise(&["--size", "1KiB"], "epyc-2cpu-calls.json");
    assert!(text.starts_with("Use shm-spin spin: NAME?via=shm-spin&wait=spin\n"), "{text}");
    for part in ["\nWhy\n", "\nRanking\n", "\nEvidence\n", "Judged by calls with an argument"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let text = advise(
        &["--size", "1KiB", "--needs", "no-spin,pollable,isolation"],
        "epyc-2cpu-calls.json",
    );
    assert!(text.contains(" poll: NAME?via=") && text.contains("\nExcluded"), "{text}");
}

#[test]
fn a_rate_is_judged_by_calls_at_that_rate() {
    let words = ["--size", "8", "--rate", "1000", "--optimise", "latency=0.5,cpu=0.5"];
    let text = advise(&words, "epyc-2cpu-waits.json");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("1000 per second, timed from when each was due"), "{text}");
}

#[test]
fn the_document_has_raw_figures() {
    let words = ["--size", "64KiB", "--needs", "multi-machine", "--json"];
    let document: Value = serde_json::from_str(&advise(&words, "epyc-2cpu-calls.json")).unwrap();
    assert_eq!(document["schema"], "nearcall.advice/1");
    assert_eq!(document["choice"]["mechanism"], "tcp");
    assert!(document["address"].as_str().unwrap().starts_with("tcp://HOST:PORT?wait="));
    assert!(document["ranking"][0]["latency_ns"]["value"].as_f64().unwrap() > 1_000.0);
    assert_eq!(document["requirements"]["needs"][0], "multi-machine");
}

#[test]
fn a_fresh_measurement_is_stored_and_named() {
    let folder = Folder::new();
    let ended = folder.run(&[
        "advise",
        "--size",
        "8",
        "--needs",
        "multi-machine",
        "--time",
        "3s",
        "--anyway",
        "--out",
        "run.json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("Use tcp "), "{}", ended.stdout);
    assert!(ended.stdout.contains("Run stored in run.json"), "{}", ended.stdout);
    // What was stored gives the same advice.
    let again =
        folder.run(&["advise", "--size", "8", "--needs", "multi-machine", "--run", "run.json"]);
    assert_eq!(again.stdout, ended.stdout);
}

/// Threads of this process that keep every CPU busy until it is dropped.
struct Burners(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Burners {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let burn = |stop: Arc<AtomicBool>| move || while !stop.load(Ordering::Relaxed) {};
        let cpus = nearcall_os::cpu::allowed().len();
        let threads = (0..cpus).map(|_| thread::spawn(burn(Arc::clone(&stop)))).collect();
        Self(stop, threads)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn beside_other_programs_it_refuses_at_once_or_ranks_with_a_warning() {
    let folder = Folder::new();
    let burners = Burners::start();
    let needs = ["advise", "--needs", "multi-machine", "--size", "8", "--time", "2s"];
    let refused = folder.run(&[&needs[..], &["--out", "no.json"]].concat());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("Other programs keep "), "{}", refused.stderr);
    assert!(refused.stderr.contains("--anyway"), "{}", refused.stderr);
    assert!(!folder.path().join("no.json").exists(), "it was measured");
    let ranked = folder.run(&[&needs[..], &["--anyway", "--out", "run.json"]].concat());
    drop(burners);
    assert_eq!(ranked.code, Some(0), "{ranked:?}");
    assert!(ranked.stderr.contains("Other programs keep "), "{}", ranked.stderr);
    let text = ranked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Confidence: low. ! Other programs keep "), "{text}");
    assert!(text.contains("Ranking"), "{text}");
}

#[test]
fn what_serves_one_client_is_advised_with_clients_1_only() {
    let ranked = |words: &[&str]| -> Vec<String> {
        let words = [&["--size", "8", "--needs", "no-spin", "--json"][..], words].concat();
        let text = advise(&words, "epyc-2cpu-tour.json");
        let document: Value = serde_json::from_str(&text).unwrap();
        let ranking = document["ranking"].as_array().unwrap();
        let name = |one: &Value| one["candidate"]["mechanism"].as_str().unwrap().to_owned();
        ranking.iter().map(name).collect()
    };
    let (one, any) = (ranked(&["--clients", "1"]), ranked(&[]));
    assert!(one.iter().any(|name| name == "shm-futex"), "{one:?}");
    assert!(!any.is_empty() && any.iter().all(|name| name != "shm-futex"), "{any:?}");
    assert_eq!(ranked(&["--clients", "3"]), any);
    // The run has them, and no number of clients makes them a choice.
    let measured_only = |name: &String| ["shm-condvar", "shm-mq"].contains(&name.as_str());
    assert!(!one.iter().chain(&any).any(measured_only), "{one:?} {any:?}");
}

#[test]
fn refusals_are_one_line_and_end_with_1() {
    let folder = Folder::new();
    let calls = stored("epyc-2cpu-calls.json");
    let tour = stored("epyc-2cpu-tour.json");
    let cases: &[(&[&str], &str)] = &[
        (
            &["--needs", "multi-machine,descriptor-passing", "--run", &calls],
            "no mechanism does both descriptor-passing and multi-machine: ",
        ),
        // Also without a run it is refused at once, and nothing is measured.
        (
            &["--needs", "shared-memory,multi-machine"],
            "no mechanism does both multi-machine and shared-memory: ",
        ),
        (&["--load", "cpu", "--run", &calls], "this would: nearcall advise --size 64 --load cpu"),
        (&["--optimise", "memory", "--run", &tour], "no memory per connection"),
        (
            &["--rate", "100000000", "--run", &calls],
            "nothing that was measured keeps 100 M/s; the fastest",
        ),
        (&["--run", "missing.json"], "missing.json"),
    ];
    for (words, message) in cases {
        let words: Vec<&str> = ["advise"].into_iter().chain(words.iter().copied()).collect();
        let ended = folder.run(&words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn wrong_words_end_with_2_and_say_what_would_be_right() {
    let folder = Folder::new();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--needs", "polable"],
            &["unknown need `polable`", "did you mean `pollable`", "no-spin"],
        ),
        (&["--size", "0"], &["size \"0\" is zero"]),
        (&["--size", "8,9"], &["give one size"]),
        (&["--size", "5MiB"], &["above the limit of 4 MiB"]),
        (&["--rate", "-1"], &["give messages per second above 0"]),
        (&["--rate", "2e9"], &["the highest is 1e9"]),
        (&["--optimise", "latency=0.7,cpu=0.7"], &["add up to 1.400"]),
        (&["--optimise", "speed"], &["unknown objective \"speed\"", "throughput"]),
        (&["--pattern", "shout"], &["call, one-way"]),
        (&["--pattern", "one-way", "--reply", "8"], &["a one-way message has no reply"]),
        (&["--placement", "far"], &["any, cross, same, none"]),
        (&["--load", "disk"], &["unknown load \"disk\""]),
        (&["--clients", "0"], &["--clients"]),
        (&["--run", "a.json", "--time", "9s"], &["cannot be used with"]),
    ];
    for (words, messages) in cases {
        let words: Vec<&str> = ["advise"].into_iter().chain(words.iter().copied()).collect();
        let ended = folder.run(&words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        for message in *messages {
            assert!(ended.stderr.contains(message), "{words:?}: {}", ended.stderr);
        }
    }
}
