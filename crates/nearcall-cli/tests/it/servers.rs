//! The servers that `list` shows and `stop` ends.
//!
//! A server that is to end is this test program itself, in a process of its own.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::control::{DescribeRequest, ServerCaller};
use nearcall::server::{RunningServer, TerminationSignals};
use nearcall::{Client, EventLoop, Server};
use nearcall_os::process::{self, Child};
use nearcall_os::signal::Signal;
use serde_json::Value;

use crate::bench::children;
use crate::program::{Ended, Folder};

const ADDRESS: &str = "NEARCALL_TEST_ADDRESS";

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the other process does: `waits` for a signal, has `started` a server and waits for nothing,
/// or `stays` when its server has ended.
const MODE: &str = "NEARCALL_TEST_MODE";

/// The server of another process; nothing when the harness runs it.
#[test]
fn entry() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let mode = std::env::var(MODE).unwrap_or_default();
    if mode == "started" {
        let _server = Server::builder().listen(&address).start().unwrap();
        stay();
    }
    let _termination = TerminationSignals::install().unwrap();
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.listen(&address).unwrap();
    server.run_until_signal(&event_loop).unwrap();
    if mode == "stays" {
        stay();
    }
}

/// Has the process end by a signal only.
fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

/// A runtime directory of its own, and the program in it.
pub(crate) struct Names(pub(crate) Folder);

impl Names {
    pub(crate) fn new() -> Self {
        let names = Self(Folder::new());
        fs::DirBuilder::new().mode(0o700).create(names.directory()).unwrap();
        names
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.0.path().join("runtime")
    }

    pub(crate) fn address(&self, name: &str) -> String {
        format!("unix:{}/{name}", self.directory().display())
    }

    /// A server of this process.
    pub(crate) fn serve(&self, name: &str) -> RunningServer {
        Server::builder().listen(&self.address(name)).start().unwrap()
    }

    /// A server of a process of its own, started by `before`, such as nothing or `unshare`.
    fn spawn(&self, name: &str, mode: &str, before: &[&str]) -> Child {
        let test = std::env::current_exe().unwrap();
        let (program, words) = before.split_first().unwrap_or((&"env", &[]));
        let mut command = Command::new(program);
        command.args(words).arg(test);
        command.args(["servers::entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ADDRESS, self.address(name)).env(MODE, mode);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = Child::spawn(&mut command).unwrap();
        Client::new().hunt(&self.address(name), PATIENCE).unwrap();
        process
    }

    /// Where the program runs.
    pub(crate) fn folder(&self) -> &Folder {
        &self.0
    }

    /// The files of the runtime directory.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.directory()).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        self.0.run_with(words, &[("NEARCALL_RUNTIME_DIR", &self.directory())])
    }
}

#[test]
fn servers_are_rows_of_a_table_or_of_json() {
    let names = Names::new();
    let server = names.serve("thermostat");
    let client = Client::new();
    let caller = ServerCaller::new(&client, &names.address("thermostat")).unwrap();
    caller.describe(&DescribeRequest::default()).unwrap();
    // What was killed has left its socket behind.
    let killed = names.serve("killed");
    let socket = names.directory().join("killed");
    fs::rename(&socket, names.directory().join("gone")).unwrap();
    killed.stop().unwrap();
    let ended = names.run(&["list"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let row = ended.stdout.lines().find(|line| line.contains("thermostat")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    let pid = std::process::id().to_string();
    assert_eq!((words[0], words[3], words[5], words[6]), ("thermostat", &*pid, "shm", "1"));
    assert_eq!(words.last(), Some(&"serving"));
    assert!(ended.stdout.contains("  gone  stale: the server was killed"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("\n1 of 2 names have a server that answers.\n"));
    let ended = names.run(&["list", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.list/1");
    assert_eq!(document["directory"], names.directory().display().to_string());
    let [gone, thermostat] = &document["names"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&gone["problem"]["kind"], &gone["server"]), (&"stale".into(), &Value::Null));
    assert_eq!(thermostat["problem"], Value::Null);
    let described = &thermostat["server"];
    assert_eq!(described["pid"], std::process::id());
    assert_eq!(
        (&described["health"], &described["objects"]),
        (&"serving".into(), &Value::Array(vec![]))
    );
    let shm = described["mechanisms"].as_array().unwrap();
    let shm = shm.iter().find(|mechanism| mechanism["name"] == "shm").unwrap();
    assert_eq!((&shm["offered"], &shm["connections"]), (&true.into(), &1.into()));
    server.stop().unwrap();
}

#[test]
fn no_servers_are_no_failure_and_a_directory_that_is_not_safe_is_one() {
    let names = Names::new();
    let ended = names.run(&["list"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{ended:?}");
    assert!(ended.stderr.starts_with("no server of this user listens by name in "), "{ended:?}");
    fs::set_permissions(names.directory(), fs::Permissions::from_mode(0o777)).unwrap();
    for words in [&["list"][..], &["list", "--json"], &["stop", "thermostat"]] {
        let ended = names.run(words);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.contains("its mode is 0777, not 0700"), "{ended:?}");
        assert!(ended.stderr.contains("set NEARCALL_RUNTIME_DIR"), "{ended:?}");
    }
    fs::remove_dir(names.directory()).unwrap();
    let ended = names.run(&["list", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("is not there"), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["names"], Value::Array(vec![]));
}

#[test]
fn a_server_is_stopped_and_its_process_waited_for() {
    let names = Names::new();
    let mut process = names.spawn("thermostat", "waits", &[]);
    let ended = names.run(&["stop", "thermostat", "--timeout", "30s"]);
    let expected = format!("thermostat: process {} has ended\n", process.pid());
    assert_eq!((ended.code, ended.stdout), (Some(0), expected), "{}", ended.stderr);
    assert!(process.wait(Some(PATIENCE)).unwrap().is_some_and(|status| status.success()));
    let ended = names.run(&["stop", "thermostat"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no server listens at thermostat"), "{ended:?}");
    assert!(!ended.stderr.contains("hunt"), "no program waits: {ended:?}");
}

#[test]
fn a_server_whose_program_waits_for_nothing_is_ended_by_a_signal() {
    let names = Names::new();
    let mut process = names.spawn("thermostat", "started", &[]);
    let ended = names.run(&["stop", "thermostat", "--timeout", "30s"]);
    let socket = names.directory().join("thermostat");
    let expected = format!(
        "thermostat: process {} has ended; {}, which it has left, is removed\n",
        process.pid(),
        socket.display()
    );
    assert_eq!((ended.code, ended.stdout), (Some(0), expected), "{}", ended.stderr);
    let status = process.wait(Some(PATIENCE)).unwrap().unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(names.files(), [""; 0]);
}

#[test]
fn what_a_killed_server_has_left_is_listed_and_removed() {
    let names = Names::new();
    let mut process = names.spawn("thermostat", "waits", &[]);
    process.kill().unwrap();
    let ended = names.run(&["list"]);
    assert!(ended.stdout.contains("`nearcall stop` removes what it has left"), "{ended:?}");
    let ended = names.run(&["stop", "thermostat"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("its server was killed before"), "{ended:?}");
    assert_eq!(names.files(), [""; 0]);
    assert_eq!(names.run(&["stop", "thermostat"]).code, Some(1));
    // What is no socket is nobody's to remove.
    fs::write(names.directory().join("thermostat"), "").unwrap();
    let ended = names.run(&["stop", "thermostat"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(names.files(), ["thermostat"]);
}

#[test]
fn a_process_that_does_not_end_is_reported() {
    let names = Names::new();
    let process = names.spawn("thermostat", "stays", &[]);
    // It may not wait for the call yet, and is ended by a signal then, which it catches as well.
    let ended = names.run(&["stop", "thermostat", "--timeout", "300ms"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = format!("and process {} has not ended within 300ms", process.pid());
    assert!(ended.stderr.contains(&why), "{ended:?}");
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn the_process_of_a_server_is_the_one_that_the_kernel_reports() {
    let names = Names::new();
    let user: &[&str] = if process::user_id() == 0 { &[] } else { &["--user", "--map-root-user"] };
    let before = [&["unshare"], user, &["--pid", "--fork", "--kill-child"]].concat();
    let works = Command::new("unshare").args(&before[1..]).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: `unshare --pid` does not work here");
        return;
    }
    let mut unshare = names.spawn("thermostat", "waits", &before);
    // Its number is 1 there, which is another process here.
    let inside = children(unshare.pid())[0].to_string();
    let ended = names.run(&["list"]);
    let row = ended.stdout.lines().find(|line| line.contains("thermostat")).unwrap();
    assert_eq!(row.split_whitespace().nth(3), Some(&*format!("{inside}*")), "{row}");
    assert!(ended.stdout.contains("* in another PID namespace"), "{ended:?}");
    let document: Value = serde_json::from_str(&names.run(&["list", "--json"]).stdout).unwrap();
    let server = &document["names"][0]["server"];
    assert_eq!((server["pid"].to_string(), &server["own_pid"]), (inside.clone(), &1.into()));
    let ended = names.run(&["explain", &inside, "--watch", "1ms"]);
    assert!(ended.stdout.contains(&format!("(process {inside}) has 0 connections")), "{ended:?}");
    let ended = names.run(&["explain", "1"]);
    assert!(ended.stderr.contains("no server of process 1 listens by name"), "{ended:?}");
    let ended = names.run(&["stop", "thermostat", "--timeout", "30s"]);
    let expected = format!("thermostat: process {inside} (1 in its own PID namespace) has ended\n");
    assert_eq!((ended.code, ended.stdout), (Some(0), expected), "{}", ended.stderr);
    assert!(unshare.wait(Some(PATIENCE)).unwrap().is_some());
}

#[test]
fn what_is_no_name_is_refused_with_the_reason() {
    let names = Names::new();
    for (name, why) in [
        ("kitchen/heater", "a path starts with `unix:`"),
        (&*"n".repeat(65), "a name has at most 64 bytes"),
        (".hidden", "a name does not start with a dot"),
        ("", "it is empty"),
        ("thermostat?via=shm-futx", "did you mean `shm-futex`"),
    ] {
        let ended = names.run(&["stop", name]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
    let ended = names.run(&["stop", "thermostat", "--timeout", "soon"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("is not a duration"), "{ended:?}");
}
