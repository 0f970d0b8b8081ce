//! `switch` has the clients of a server move, and `explain` says why they are where they are.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::control::{DescribeRequest, ServerCaller, SwitchReport};
use nearcall::server::RunningServer;
use nearcall::{Client, Limits, Server};
use nearcall_results::visible::is_hidden;
use serde_json::Value;

use crate::program::{Ended, Folder};

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in a runtime directory of its own, and a client that calls it until it is dropped.
struct Scene {
    folder: Folder,
    server: RunningServer,
    stop: Arc<AtomicBool>,
    calling: Option<JoinHandle<()>>,
    /// Each mechanism of the client, once the server has its note of it.
    reported: Receiver<String>,
}

impl Scene {
    fn start() -> Self {
        let folder = Folder::new();
        let directory = folder.path().join("runtime");
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let at = format!("unix:{}/thermostat", directory.display());
        let limits = Limits { switches_per_minute_max: 100, ..Limits::default() };
        let listening = format!("{at}?allow=shm,unix-stream,pipe");
        let server =
            Server::builder().threads(2).limits(limits).listen(&listening).start().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (tell, reported) = mpsc::channel();
        let calling = thread::spawn(move || {
            let client = Client::new();
            let caller = ServerCaller::new(&client, &at).unwrap();
            let mut mechanism = client.connections().first().map(|it| it.mechanism);
            let mut told = None;
            while !stopped.load(Ordering::Relaxed) {
                caller.describe(&DescribeRequest::default()).unwrap();
                // A note has no reply; the server takes it before the next call.
                if told != mechanism {
                    tell.send(mechanism.map_or_else(String::new, |it| it.to_string())).unwrap();
                    told = mechanism;
                }
                let now = client.connections().first().map(|it| it.mechanism);
                if now != mechanism {
                    let note =
                        "asked, and \u{1b}[2J gladly\u{9b}\u{202e}\u{200b}\u{2028}".to_owned();
                    let report = SwitchReport { cause: String::new(), note };
                    caller.report_switch(&report).unwrap();
                    mechanism = now;
                }
            }
        });
        let scene = Self { folder, server, stop, calling: Some(calling), reported };
        scene.wait_until_reported("shm");
        scene
    }

    /// Waits until the server has the note of the client that it uses `mechanism` now.
    #[track_caller]
    fn wait_until_reported(&self, mechanism: &str) {
        while self.reported.recv_timeout(PATIENCE).unwrap() != mechanism {}
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("runtime")
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
        let (runtime, data) = (self.directory(), self.folder.path().join("data"));
        let variables = [("NEARCALL_RUNTIME_DIR", &*runtime), ("XDG_DATA_HOME", &*data)];
        self.folder.run_with(words, &variables.map(|(name, path)| (name, path)))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(calling) = self.calling.take() {
            let _ = calling.join();
        }
        let _ = self.server.stop();
    }
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn clients_move_and_the_server_explains_why() {
    let scene = Scene::start();
    let ended = scene.run(&["switch", "thermostat", "unix-stream"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.ends_with("\n1 of 1 connections use unix-stream.\n"), "{ended:?}");
    scene.wait_until_reported("unix-stream");
    // By the process of the server, and of the client, which are this one.
    let pid = std::process::id().to_string();
    let ended = scene.run(&["switch", &pid, "pipe", "--client", &pid, "--json"]);
    let document = json(&ended);
    assert_eq!((ended.code, &document["schema"]), (Some(0), &"nearcall.switch/1".into()));
    let row = &document["connections"][0];
    assert_eq!((&row["before"], &row["after"]), (&"unix-stream".into(), &"pipe".into()));
    assert_eq!(row["why"], Value::Null);
    scene.wait_until_reported("pipe");
    let ended = scene.run(&["explain", "thermostat", "--watch", "100ms"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    // Lines break by the width of the numbers before the note.
    let text: Vec<&str> = ended.stdout.split_whitespace().collect();
    let text = text.join(" ");
    for part in [
        "Connection 1: the client with process id",
        "uses pipe, the server waits by poll",
        "ago from unix-stream to pipe (the server was asked to): asked, and \\u{1b}[2J \
         gladly\\u{9b}\\u{202e}\\u{200b}\\u{2028}",
        "ago from shm to unix-stream (the server was asked to)",
        "from the client",
        "there is no stored run of this machine",
        "to measure it: nearcall advise --size",
        "has 1 connection.",
    ] {
        assert!(text.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(!ended.stdout.chars().any(|c| c != '\n' && is_hidden(c)), "{ended:?}");
    // Long enough that the client has its turn on a busy machine.
    let ended = scene.run(&["explain", &pid, "--watch", "1s", "--json"]);
    assert!(!ended.stdout.chars().any(|c| c != '\n' && is_hidden(c)), "{ended:?}");
    let document = json(&ended);
    assert_eq!(document["schema"], "nearcall.explain/1");
    let row = &document["connections"][0];
    assert_eq!(
        (&row["mechanism"], &row["switches"][1]["cause"]),
        (&"pipe".into(), &"asked".into())
    );
    let note = row["switches"][1]["note"].as_str().unwrap();
    // The server keeps a note as one line that prints, so the value is that of the text.
    assert!(note.ends_with("gladly\\u{9b}\\u{202e}\\u{200b}\\u{2028}"), "{note:?}");
    assert_eq!(row["traffic"]["is_current"], true);
    assert!(row["traffic"]["from_client"]["messages"].as_u64().unwrap() > 0, "{row}");
    assert!(row["alternatives"]["command"].as_str().unwrap().starts_with("nearcall advise"));
}

#[test]
fn what_stays_is_listed_with_the_reason() {
    let scene = Scene::start();
    let ended = scene.run(&["switch", "thermostat", "unix-seqpacket"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("does not offer"), "{ended:?}");
    assert!(ended.stderr.contains("1 of 1 connections do not use unix-seqpacket"), "{ended:?}");
    for (words, code, why) in [
        (&["switch", "thermostat", "pip"][..], 2, "did you mean `pipe`"),
        (&["switch", "thermostat", "shm", "--connection", "77"], 1, "no connection 77"),
        (&["switch", "thermostat", "shm", "--client", "1"], 1, "process 1 has no connection"),
        (&["switch", "2147483647", "shm"], 1, "no server of process 2147483647 listens by name"),
        (&["explain", "2147483647"], 1, "no server of process 2147483647 listens by name"),
        (&["switch", "kitchen", "shm"], 1, "no server listens at kitchen"),
        (&["explain", "kitchen"], 1, "no server listens at kitchen"),
        (&["explain", "thermostat", "--run", "none.json"], 1, "none.json"),
    ] {
        let ended = scene.run(words);
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
}
