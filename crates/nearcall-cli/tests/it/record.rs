//! `record`, `replay` and `advise --trace` of what was recorded: a thermostat of this process.
//!
//! **Not here:** calls of other shapes, files that are damaged (`nearcall-recording`).

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearcall::{CallOptions, Client, Limits};
use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::signal::{self, Signal};
use nearcall_testkit::home::{
    NoteRequest, SetTargetRequest, ThermostatCaller, ThermostatDispatcher, WatchRequest,
};
use nearcall_testkit::support::{LoopThread, Room, unique_address};
use serde_json::Value;

use crate::program::{Ended, Folder};

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thermostat; a changed one measures in other degrees and gets no warmer than 25.
fn serve(is_changed: bool) -> (String, LoopThread) {
    serve_at(&unique_address(), is_changed)
}

fn serve_at(address: &str, is_changed: bool) -> (String, LoopThread) {
    let (address, at) = (address.to_owned(), address.to_owned());
    let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        let room = if is_changed { Room::new(1.8, 25.0) } else { Room::new(1.0, 30.0) };
        server.register(ThermostatDispatcher::new(room)).unwrap();
        server.listen(&at).unwrap();
    });
    (address, thread)
}

/// A caller of a client of its own, whose calls have no deadline of 250 ms.
fn caller(address: &str) -> ThermostatCaller {
    let caller = ThermostatCaller::new(&Client::new(), address).unwrap();
    caller.with(CallOptions::new().deadline(PATIENCE))
}

/// A `record` under way.
struct Recording {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Recording {
    /// Starts the program and waits until it records.
    fn start(folder: &Folder, words: &[&str]) -> Self {
        let [stdout, stderr] = ["out", "err"].map(|name| folder.home().join(name));
        let mut command = folder.command(&[&["record"], words].concat());
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let mut child = Child::spawn(&mut command).unwrap();
        let end = clock::now() + PATIENCE;
        while !fs::read_to_string(&stderr).unwrap().contains("recording into") {
            let ended = child.wait(Some(Duration::from_millis(5))).unwrap();
            let said = fs::read_to_string(&stderr).unwrap();
            assert!(ended.is_none() && clock::now() < end, "{ended:?}: {said}");
        }
        Self { child, stdout, stderr }
    }

    fn end_by(self, signal: Signal) -> Ended {
        signal::send_by_pidfd(self.child.pidfd(), signal).unwrap();
        self.wait()
    }

    fn wait(mut self) -> Ended {
        let status = self.child.wait(Some(PATIENCE)).unwrap().expect("it ends");
        Ended {
            code: status.code(),
            stdout: fs::read_to_string(&self.stdout).unwrap(),
            stderr: fs::read_to_string(&self.stderr).unwrap(),
        }
    }
}

/// Some calls of every kind, of one client.
fn call(address: &str) {
    let room = caller(address);
    room.reset(&()).unwrap();
    for celsius in [21.5, 28.0, 19.0] {
        room.set_target(&SetTargetRequest { celsius }).unwrap();
    }
    room.note(&NoteRequest { text: "\u{1b}[2J".into() }).unwrap();
    room.watch(&WatchRequest {}).unwrap();
}

/// Waits until so many calls are in the file, by the lengths of their records.
fn wait_for_bytes(file: &PathBuf, bytes: u64) {
    let end = clock::now() + PATIENCE;
    while fs::metadata(file).unwrap().len() < bytes {
        assert!(clock::now() < end);
        clock::pause(Duration::from_millis(5));
    }
}

fn recorded(folder: &Folder, address: &str) -> Value {
    let recording = Recording::start(folder, &[address, "-o", "room.rec", "--json"]);
    let file = folder.path().join("room.rec");
    let before = fs::metadata(&file).unwrap().len();
    call(address);
    wait_for_bytes(&file, before + 11 * 30);
    // What is under way is sent every 10 ms.
    clock::pause(Duration::from_millis(200));
    let ended = recording.end_by(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn what_is_recorded_is_replayed_and_compared() {
    let folder = Folder::new();
    let (address, _room) = serve(false);
    let document = recorded(&folder, &address);
    assert_eq!(document["schema"], "nearcall.record/1");
    assert_eq!((&document["calls"], &document["events"]), (&6.into(), &11.into()), "{document}");
    assert_eq!(document["dropped_calls"], 0);
    let length = fs::metadata(folder.path().join("room.rec")).unwrap().len();
    assert_eq!(document["file_bytes"], length);

    let (same, _room) = serve(false);
    for speed in ["1", "max"] {
        let words = ["replay", "room.rec", &same, "--compare", "--speed", speed];
        let ended = folder.run(&words);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        for text in [
            "6 calls over 1 connections",
            "5 equal, 0 different, 1 not compared",
            "2 calls of methods that are not declared idempotent were sent",
            "home.v1.Thermostat/SetTarget",
            "p99 recorded",
        ] {
            assert!(ended.stdout.contains(text), "no {text:?} in {}", ended.stdout);
        }
    }
    let ended = folder.run(&["replay", "room.rec", &same, "--only-idempotent"]);
    assert!(ended.stdout.contains("4 calls over 1 connections"), "{ended:?}");
    assert!(ended.stdout.contains("2 calls of methods that are not declared idempotent were left"));

    let (changed, _room) = serve(true);
    let ended = folder.run(&["replay", "room.rec", &changed, "--compare", "--speed", "max"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""), "{ended:?}");
    let warm = "status: OK -> OUT_OF_RANGE: too warm";
    for text in ["reply.celsius_before: 28.0 -> 38.7", warm, "reply.celsius: 19.0 -> 34.2"] {
        assert!(ended.stdout.contains(text), "no {text:?} in {}", ended.stdout);
    }
    let words = ["replay", "room.rec", &changed, "--compare", "--speed", "max", "--json"];
    let document: Value = serde_json::from_str(&folder.run(&words).stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.replay/1");
    assert!(document["different"] == 3, "{document}");
    let paths: Vec<_> =
        (0..3).map(|at| &document["differences"][at]["fields"][0]["path"]).collect();
    assert_eq!(paths, ["status", "reply.celsius_before", "reply.celsius"], "{document}");
    assert!(document["methods"][2]["now"]["p50_us"].as_f64().unwrap() > 0.0, "{document}");
}

#[test]
fn a_recording_becomes_an_advice() {
    let folder = Folder::new();
    let (address, _room) = serve(false);
    recorded(&folder, &address);
    let runs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let run = runs.join("epyc-2cpu-calls.json").display().to_string();
    let ended = folder.run(&["advise", "--trace", "room.rec", "--run", &run]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    for text in ["Recorded traffic\n  busiest: connection ", "6 messages in ", "5 of them", "Use "]
    {
        assert!(ended.stdout.contains(text), "no {text:?} in {}", ended.stdout);
    }
    let ended = folder.run(&["advise", "--trace", "room.rec", "--json", "--run", &run]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["recording"]["messages"], 6, "{document}");
}

#[test]
fn a_recording_ends_by_a_signal_a_time_or_with_its_server() {
    let folder = Folder::new();
    let (address, room) = serve(false);
    let recording = Recording::start(&folder, &[&address, "-o", "one.rec"]);
    let ended = recording.end_by(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("one.rec: 0 calls, 0 events, "), "{ended:?}");
    let recording = Recording::start(&folder, &[&address, "-o", "two.rec", "--duration", "100ms"]);
    assert_eq!(recording.wait().code, Some(0));
    let recording = Recording::start(&folder, &[&address, "-o", "three.rec"]);
    drop(room);
    let ended = recording.wait();
    assert!(ended.code == Some(1) && ended.stderr.contains("error: the server"), "{ended:?}");
    // Each of them can be read.
    let (address, _room) = serve(false);
    for file in ["one.rec", "two.rec", "three.rec"] {
        let ended = folder.run(&["replay", file, &address]);
        assert_eq!(ended.code, Some(0), "{file}: {ended:?}");
    }
}

#[test]
fn bounds_leave_calls_out_and_say_so() {
    let folder = Folder::new();
    let (address, _room) = serve(false);
    let recording = Recording::start(
        &folder,
        &[&address, "-o", "few.rec", "--max-rate", "500", "--method=Reset"],
    );
    let room = caller(&address);
    (0..200).for_each(|_| room.reset(&()).unwrap());
    room.watch(&WatchRequest {}).unwrap();
    clock::pause(Duration::from_millis(200));
    let ended = recording.end_by(Signal::INT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("left out by the server: "), "{ended:?}");
    let ended = folder.run(&["replay", "few.rec", &address]);
    assert!(ended.stdout.contains("calls are not in the recording: the server had left them out"));
    assert!(!ended.stdout.contains("Watch"), "{ended:?}");
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_refused_with_the_reason() {
    let folder = Folder::new();
    let (address, _room) = serve(false);
    recorded(&folder, &address);
    let whole = fs::read(folder.path().join("room.rec")).unwrap();
    let mut damaged = whole.clone();
    let at = whole.len() / 2 + whole.len() / 4;
    damaged[at] ^= 0xff;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("damaged.rec"), damaged).unwrap();
    fs::write(path("cut.rec"), &whole[..whole.len() - 9]).unwrap();
    fs::write(path("log.txt"), "a log\n").unwrap();
    fs::write(path("empty.rec"), "").unwrap();
    let nobody = unique_address();
    let cases: [(&[&str], i32, &str); 14] = [
        (&["replay", "log.txt", &address], 1, "log.txt: this is no recording of nearcall"),
        (&["replay", "empty.rec", &address], 1, "`nearcall record NAME -o FILE` makes one"),
        (&["replay", "none.rec", &address], 1, "none.rec: No such file"),
        (&["replay", "cut.rec", &address, "--speed=max"], 1, "the recording was cut off"),
        (&["replay", "room.rec", &nobody], 1, "no server listens at"),
        (&["replay", "room.rec", &address, "--speed", "0"], 2, "give a factor above 0"),
        (&["replay", "room.rec"], 2, "<NAME>"),
        (&["record", &nobody, "-o", "no.rec"], 1, "no server listens at"),
        (&["record", &address, "-o", "no.rec", "--interface", "a.B"], 1, "no interface `a.B`"),
        (&["record", &address, "-o", "/dev/full"], 1, "cannot write /dev/full"),
        (&["record", &address, "-o", "none/no.rec"], 1, "cannot write none/no.rec"),
        (&["record", &address, "-o", "no.rec", "--max-memory", "1GiB"], 1, "268435456 bytes"),
        (&["record", &address], 2, "--out <FILE>"),
        (&["advise", "--trace", "log.txt"], 1, "this is no recording of nearcall"),
    ];
    for (words, code, message) in cases {
        let ended = folder.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{words:?}: {}", ended.stderr);
    }
    assert!(!path("no.rec").exists(), "a refused recording leaves no file");
    let ended = folder.run(&["replay", "damaged.rec", &address, "--speed=max"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("damaged"), "{ended:?}");
}

fn catches_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
}

#[test]
fn a_replay_ends_by_a_signal_and_says_what_it_has_done() {
    let folder = Folder::new();
    let (address, _room) = serve(false);
    recorded(&folder, &address);
    let words = ["replay", "room.rec", &address, "--speed", "0.0001"];
    let mut command = folder.command(&words);
    let stdout = folder.home().join("slow");
    command.stdout(File::create(&stdout).unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let end = clock::now() + PATIENCE;
    while !catches_interrupts(child.pid()) {
        assert!(
            clock::now() < end && child.wait(Some(Duration::from_millis(5))).unwrap().is_none()
        );
    }
    assert_eq!(child.wait(Some(Duration::from_millis(300))).unwrap(), None, "it takes its time");
    signal::send_by_pidfd(child.pidfd(), Signal::INT).unwrap();
    let status = child.wait(Some(PATIENCE)).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(130));
    let text = fs::read_to_string(&stdout).unwrap();
    assert!(text.contains("not to its end: it was interrupted"), "{text}");
}

/// The commands of a part of `docs/book/src/guides/tools.md`, word by word.
fn documented(part: &str) -> Vec<Vec<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/guides/tools.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(&format!("## {part}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).filter_map(|it| it.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("nearcall "));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn the_documented_commands_do_what_is_said() {
    let folder = Folder::new();
    let directory = folder.path().join("runtime");
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    fs::copy(run.join("epyc-2cpu-calls.json"), folder.path().join("calls.json")).unwrap();
    let address = format!("unix:{}/thermostat", directory.display());
    let (_, _room) = serve_at(&address, false);
    let commands = documented("Record and replay");
    assert!(commands.len() >= 6, "{commands:?}");
    let run = |words: &Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        folder.run_with(&words, &[("NEARCALL_RUNTIME_DIR", &directory)])
    };
    let (recordings, others): (Vec<_>, Vec<_>) =
        commands.iter().partition(|words| words[0] == "record");
    let is_over = AtomicBool::new(false);
    let recorded: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                call(&address);
                clock::pause(Duration::from_millis(50));
            }
        });
        let ended = recordings.iter().map(|words| run(words)).collect();
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    for (words, ended) in recordings.iter().zip(&recorded) {
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        assert!(ended.stdout.contains("calls"), "{words:?}: {ended:?}");
    }
    for words in others {
        let ended = run(words);
        // The thermostat has been set since, so that some replies are others.
        let is_compared = words.iter().any(|word| word == "--compare");
        assert!(ended.code == Some(0) || is_compared && ended.code == Some(3), "{ended:?}");
        let is_told = ["home.v1.Thermostat/SetTarget", "Recorded traffic"];
        assert!(is_told.iter().any(|text| ended.stdout.contains(text)), "{words:?}: {ended:?}");
    }
}

/// 4,000 calls of four clients; `NEARCALL_RECORDED_CALLS` is for more.
#[test]
fn all_of_many_calls_are_recorded_and_equal_when_they_are_replayed() {
    const CLIENTS: u64 = 4;
    let calls = std::env::var("NEARCALL_RECORDED_CALLS").ok().and_then(|it| it.parse().ok());
    let calls = calls.unwrap_or(4_000_u64);
    let folder = Folder::new();
    let (address, _room) = serve(false);
    // Whatever the order of the clients is, the replies are the same, then and now.
    let set = |room: &ThermostatCaller| {
        room.set_target(&SetTargetRequest { celsius: 21.5 }).unwrap();
    };
    set(&caller(&address));
    let recording = Recording::start(&folder, &[&address, "-o", "many.rec", "--json"]);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let room = caller(&address);
                (0..calls / CLIENTS).for_each(|_| set(&room));
            });
        }
    });
    clock::pause(Duration::from_millis(500));
    let ended = recording.end_by(Signal::INT);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["calls"], calls, "{document}");
    assert_eq!((&document["events"], &document["dropped_calls"]), (&(2 * calls).into(), &0.into()));
    let words = ["replay", "many.rec", &address, "--speed", "max", "--compare", "--json"];
    let ended = folder.run(&words);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&document["calls"], &document["connections"]), (&calls.into(), &CLIENTS.into()));
    assert_eq!((&document["equal"], &document["different"]), (&calls.into(), &0.into()));
    assert_eq!(ended.code, Some(0), "{document}");
}
