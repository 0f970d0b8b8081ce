//! The servers that `list` shows and `stop` ends.
//!
//! A server that is to end is this test program itself, in a process of its own.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::control::{DescribeRequest, ServerCaller};
use nearcall::{CallOptions, Client, EventLoop, RunningServer, Server};
use nearcall_os::process::Child;
use serde_json::Value;

use crate::program::{Ended, Folder};

const ADDRESS: &str = "NEARCALL_TEST_ADDRESS";

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server of another process; nothing when the harness runs it.
#[test]
fn entry() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.listen(&address).unwrap();
    server.run_until_signal(&event_loop).unwrap();
}

/// A runtime directory of its own, and the program in it.
struct Names(Folder);

impl Names {
    fn new() -> Self {
        let names = Self(Folder::new());
        fs::DirBuilder::new().mode(0o700).create(names.directory()).unwrap();
        names
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("runtime")
    }

    fn address(&self, name: &str) -> String {
        format!("unix:{}/{name}", self.directory().display())
    }

    /// A server of this process.
    fn serve(&self, name: &str) -> RunningServer {
        Server::builder().listen(&self.address(name)).start().unwrap()
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
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
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["servers::entry", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ADDRESS, names.address("thermostat"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Child::spawn(&mut command).unwrap();
    Client::new().hunt(&names.address("thermostat"), PATIENCE).unwrap();
    let ended = names.run(&["stop", "thermostat", "--timeout", "30s"]);
    let expected = format!("thermostat: process {} has ended\n", process.pid());
    assert_eq!((ended.code, ended.stdout), (Some(0), expected), "{}", ended.stderr);
    assert!(process.wait(Some(PATIENCE)).unwrap().is_some_and(|status| status.success()));
    let ended = names.run(&["stop", "thermostat"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no server listens at thermostat"), "{ended:?}");
}

#[test]
fn a_process_that_does_not_end_is_reported() {
    let names = Names::new();
    // It does not wait for anything, so it ends in a way of its own.
    let server = names.serve("thermostat");
    let ended = names.run(&["stop", "thermostat"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let signal = format!("end it by a signal to process {}", std::process::id());
    assert!(ended.stderr.contains(&signal), "{ended:?}");
    // This process does more when its server has ended.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.run_until_signal());
        let client = Client::new();
        let caller = ServerCaller::new(&client, &names.address("thermostat")).unwrap();
        let options = CallOptions::new().deadline(PATIENCE);
        caller.describe_with(&DescribeRequest::default(), &options).unwrap();
        let ended = loop {
            let ended = names.run(&["stop", "thermostat", "--timeout", "300ms"]);
            // It may not wait yet.
            if !ended.stderr.contains(&signal) {
                break ended;
            }
        };
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("has not ended within 300ms"), "{ended:?}");
        waiting.join().unwrap().unwrap();
    });
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
