//! What `bench` does: a small run, the stored file, and Ctrl-C in the middle.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_results::run::Run;
use serde_json::Value;

use crate::program::Folder;

/// The smallest run that there is.
const SMALL: [&str; 10] = [
    "bench",
    "latency",
    "--mechanism",
    "shm-futex",
    "--size",
    "8",
    "--launches",
    "1",
    "--time",
    "2s",
];

#[test]
fn a_run_as_json_is_one_document_and_no_file() {
    let folder = Folder::new();
    let ended = folder.run(&[&SMALL[..], &["--json", "--seed", "7"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.run/1");
    assert_eq!(document["settings"]["seed"], 7);
    assert_eq!(document["settings"]["arguments"][1], "latency");
    assert!(document["tool"]["compiler"].as_str().unwrap().starts_with("rustc "));
    assert!(
        document["cells"].as_array().unwrap().iter().any(|one| one["mechanism"] == "shm-futex")
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(!folder.home().join(".local").exists());
}

#[test]
fn a_run_is_stored_in_the_data_directory_and_can_be_shown() {
    let folder = Folder::new();
    let ended = folder.run(&SMALL);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let stored = ended.stdout.lines().last().unwrap().strip_prefix("Run stored in ").unwrap();
    assert!(stored.starts_with(folder.home().join(".local/share/nearcall/runs").to_str().unwrap()));
    let shown = folder.run(&["show", stored]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
}

/// A small run of calls.
const CALLS: [&str; 10] = [
    "bench",
    "calls",
    "--mechanism",
    "shm-futex,unix-stream",
    "--size",
    "1KiB",
    "--launches",
    "2",
    "--time",
    "2s",
];

#[test]
fn calls_as_json_stand_beside_the_bare_channel() {
    let folder = Folder::new();
    let ended = folder.run(&[&CALLS[..], &["--json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.run/1");
    let cells = document["cells"].as_array().unwrap();
    let bare = document["bare"].as_array().unwrap();
    let repeated = |cell: &Value| cell["launches"].as_u64().unwrap() > 1;
    let callers = ["blocking", "loop", "async", "same-loop", "typed", "bytes"];
    for caller in callers {
        assert!(cells.iter().any(|cell| cell["call"]["caller"] == caller), "{caller}");
    }
    let remote = cells.iter().filter(|cell| cell["call"]["server_wait"] != "");
    for cell in remote {
        assert!(cell["call"]["ratio_to_bare"].as_f64().unwrap() > 0.0, "{cell}");
        assert!(cell["call"]["bare_ns"].as_f64().unwrap() > 0.0, "{cell}");
        // One launch has no interval, which is what is left where the time is over early.
        let has_interval = cell["call"]["ratio_to_bare_ci95"].is_array();
        assert!(!has_interval || repeated(cell), "{cell}");
        assert!(has_interval || !repeated(cell) || !bare.iter().all(repeated), "{cell}");
        assert!(["call", "one-way"].contains(&cell["shape"].as_str().unwrap()), "{cell}");
    }
    assert_eq!(bare.len(), cells.len() - 4);
    assert!(
        document["floors"].as_array().unwrap().iter().any(|one| one["mechanism"] == "floor-call")
    );
}

#[test]
fn calls_are_stored_and_can_be_shown() {
    let folder = Folder::new();
    let words = ["bench", "calls", "--client", "typed", "--launches", "1", "--time", "1s"];
    let ended = folder.run(&[&words[..], &["--out", "calls.json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let shown = folder.run(&["show", "calls.json"]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
    assert!(shown.stdout.contains("short circuit, typed"), "{}", shown.stdout);
    let all = folder.run(&["show", "--all", "calls.json"]);
    assert!(all.stdout.contains("Round trip, call"), "{}", all.stdout);
}

#[test]
fn a_breakdown_tells_what_the_parts_do_not_explain() {
    let folder = Folder::new();
    let words =
        ["bench", "calls", "--breakdown", "--mechanism", "shm-futex", "--client", "blocking"];
    let ended = folder.run(&[&words[..], &["--launches", "1", "--time", "1s"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in ["marshal", "protocol", "claim, commit, wake", "dispatch", "whole call", "rest"] {
        assert!(ended.stdout.lines().any(|text| text.trim_start().starts_with(line)), "{line}");
    }
}

/// Starts a run, signals its process group as a terminal does once `is_time` for its children, and
/// returns what it printed and stored.
fn interrupted(words: &[&str], is_time: impl Fn(&[u32]) -> bool) -> (String, Run) {
    let folder = Folder::new();
    let mut command = folder.command(&[words, &["--out", "run.json"]].concat());
    let stdout = folder.home().join("stdout");
    command.stdout(File::create(&stdout).unwrap()).stderr(File::create("/dev/null").unwrap());
    let mut child = Child::spawn(command.process_group(0)).unwrap();
    // Until its handler is there a signal would just end it; its first children come later.
    let deadline = clock::now() + Duration::from_secs(40);
    let mut peers = Vec::new();
    while !is_time(&peers) {
        assert!(clock::now() < deadline, "its children are {peers:?} after 40 s");
        assert_eq!(child.wait(Some(Duration::from_millis(20))).unwrap(), None);
        peers = children(child.pid());
    }
    let group = format!("kill -INT -{}", child.pid());
    let mut kill = Child::spawn(Command::new("sh").args(["-c", &group])).unwrap();
    assert!(kill.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends").success());
    let status = child.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(130));
    for peer in peers {
        let process = format!("/proc/{peer}/exe");
        let is_ours = fs::read_link(process)
            .is_ok_and(|exe| exe.to_str() == Some(env!("CARGO_BIN_EXE_nearcall")));
        assert!(!is_ours, "process {peer} is left");
    }
    let run = Run::load(&folder.path().join("run.json")).unwrap();
    assert!(run.partial && run.partial_reason.as_deref() == Some("interrupted"));
    (fs::read_to_string(stdout).unwrap(), run)
}

#[test]
fn ctrl_c_before_anything_is_measured_ends_the_children_and_is_told_once() {
    let words = ["bench", "--time", "60s", "--launches", "50"];
    let (printed, run) = interrupted(&words, |peers| !peers.is_empty());
    let told = ["PARTIAL", "Nothing was measured"].map(|text| printed.matches(text).count());
    assert_eq!(told, [1, usize::from(run.cells.len() + run.floors.len() == 0)], "{printed}");
}

/// All cells of a plain run share a launch, and this one would take half a minute.
#[test]
fn ctrl_c_within_a_launch_keeps_the_cells_that_have_been_measured() {
    let words = ["bench", "latency", "--mechanism", "pipe", "--size", "8", "--launches", "2"];
    // The first slices of both cells take fewer exchanges, each of which sleeps once; on a busy
    // machine not as many fit into the launch, but slices are as short.
    let begun = Cell::new(None);
    let is_time = |peers: &[u32]| {
        let Some(&peer) = peers.first() else { return false };
        let since = begun.get().unwrap_or_else(clock::now);
        begun.set(Some(since));
        let is_long = since.elapsed() >= Duration::from_secs(12) && sleeps(peer) > 0;
        is_long || peers.iter().any(|&peer| sleeps(peer) >= 100_000)
    };
    let (printed, run) = interrupted(&[&words[..], &["--time", "60s"]].concat(), is_time);
    let [cell] = &run.cells[..] else { panic!("{:?} {:?}", run.skipped, run.warnings) };
    assert_eq!((cell.mechanism.as_str(), cell.launches), ("pipe", 1));
    assert!(cell.rtt_ns.as_ref().unwrap().p50.unwrap() > 0.0);
    assert_eq!((run.floors.len(), run.skipped.len()), (1, 0), "{:?}", run.skipped);
    assert!(printed.contains("PARTIAL") && printed.contains("pipe"), "{printed}");
}

/// How often a process has waited for something.
fn sleeps(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The children of a process. Not every kernel lists them, so all processes are asked.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| parent(process) == Some(pid)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also blanks and parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[test]
fn budgets_are_stored_and_can_be_shown() {
    let folder = Folder::new();
    let words = ["bench", "budgets", "--quick", "--launches", "1", "--time", "1s"];
    let ended = folder.run(&[&words[..], &["--out", "budgets.json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let shown = folder.run(&["show", "budgets.json"]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
    assert!(shown.stdout.contains("short circuit, typed"), "{}", shown.stdout);
    let json = folder.run(&["show", "--json", "budgets.json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let budgets = document["budgets"].as_array().unwrap();
    let words = ["goal", "within", "short", "unmeasured"];
    for budget in budgets {
        assert!(words.contains(&budget["verdict"].as_str().unwrap()), "{budget}");
        assert!(budget["budget"].is_number() && budget["what"].is_string(), "{budget}");
    }
}

#[test]
fn one_cpu_is_enough_for_some_budgets() {
    let folder = Folder::new();
    let cpu = nearcall_os::cpu::allowed()[0];
    let pin = format!("{cpu},{cpu}");
    let words = ["bench", "budgets", "--quick", "--launches", "1", "--time", "1s", "--json"];
    let ended = folder.run(&[&words[..], &["--pin", &pin]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let reason = |row: &Value| row["reason"].as_str().map(str::to_owned);
    let rows = document["budgets"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert!(reason(row("spin")).unwrap().starts_with("needs two CPUs: "), "{rows:?}");
    assert!(row("one-cpu")["value"].as_f64().unwrap() > 0.0, "{rows:?}");
}

#[test]
fn waits_are_stored_and_can_be_shown() {
    let folder = Folder::new();
    let words = ["bench", "wait-policies", "--quick", "--wait", "block", "--launches", "1"];
    let ended = folder.run(&[&words[..], &["--time", "1s", "--out", "waits.json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let shown = folder.run(&["show", "waits.json"]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
    assert!(shown.stdout.contains("1000 calls per second"), "{}", shown.stdout);
}

#[test]
fn libraries_get_the_arguments_and_give_the_exit_code() {
    let folder = Folder::new();
    let script = folder.path().join("peers");
    fs::write(&script, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    let mut mode = fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&script, mode).unwrap();
    let stdout = folder.home().join("stdout");
    let mut command = folder.command(&["bench", "libraries", "--only", "x", "--help"]);
    command.env("NEARCALL_PEERS", &script).stdout(File::create(&stdout).unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(7));
    assert_eq!(fs::read_to_string(stdout).unwrap(), "--only x --help\n");
}

#[test]
fn a_pace_is_stored_and_can_be_shown() {
    let folder = Folder::new();
    let words = ["bench", "open-loop", "--rate", "1000", "--mechanism", "shm", "--launches", "1"];
    let more = ["--time", "1s", "--stall", "5ms", "--out", "pace.json"];
    let ended = folder.run(&[&words[..], &more].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let shown = folder.run(&["show", "pace.json"]);
    assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
    for text in ["closed loop: ", "open loop: 1000 per second", "self-test: the server sleeps"] {
        assert!(shown.stdout.contains(text), "{}", shown.stdout);
    }
    let json = folder.run(&["show", "--json", "pace.json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let cells = document["cells"].as_array().unwrap();
    let open = cells.iter().find(|cell| cell["pace"]["rate_per_s"] == 1_000).unwrap();
    assert_eq!(open["definition"], "from_intended");
    assert!(open["pace"]["service_ns"]["p50"].is_number(), "{open}");
}

#[test]
fn traffic_is_stored_and_can_be_shown() {
    let folder = Folder::new();
    let cases: [(&[&str], &str); 5] = [
        (&["threads", "--threads", "1,3", "--loops", "2"], "server of 2 loops"),
        (&["idle-gap", "--gap", "0,50us", "--mechanism", "pipe"], "after a gap of"),
        (&["burst", "--messages", "1,20", "--mechanism", "pipe"], "bursts of 20"),
        (&["clients", "--clients", "1,3", "--mechanism", "unix-stream"], "slowest"),
        (&["connect", "--mechanism", "pipe"], "of two new processes"),
    ];
    for (words, text) in cases {
        let more = ["--launches", "1", "--time", "1s", "--out", "traffic.json"];
        let ended = folder.run(&[&["bench"], words, &more].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        let shown = folder.run(&["show", "traffic.json"]);
        assert!(ended.stdout.starts_with(&shown.stdout), "{}", shown.stdout);
        assert!(shown.stdout.contains(text), "{}", shown.stdout);
        let all = folder.run(&["show", "--all", "traffic.json"]);
        assert_eq!(all.code, Some(0), "{all:?}");
    }
}

#[test]
fn clients_that_cannot_all_be_had_are_told() {
    let folder = Folder::new();
    let stdout = folder.home().join("stdout");
    let program = env!("CARGO_BIN_EXE_nearcall");
    let words =
        "bench clients --clients 2,200 --mechanism unix-stream --launches 1 --time 1s --json";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n 150; exec {program} {words}")]);
    command.current_dir(folder.path()).env("HOME", folder.home());
    command.stdout(File::create(&stdout).unwrap()).stderr(File::create("/dev/null").unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(Duration::from_secs(60))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let document: Value = serde_json::from_str(&fs::read_to_string(stdout).unwrap()).unwrap();
    assert_eq!(document["cells"][0]["clients"]["clients"], 2, "{document}");
    let reason = document["skipped"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("of 200 clients could call"), "{reason}");
    assert!(reason.contains("150 descriptors"), "{reason}");
}
