//! A group of libraries in a child process, and callers of its services.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nearcall::{CallOptions, Client};
use nearcall_host::library::LibraryConfig;
use nearcall_os::process::Child;
use nearcall_os::signal::Signal;

use crate::home::ThermostatCaller;

/// Nothing here takes this long, on whatever machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const GROUP: &str = "NEARCALL_TEST_GROUP";

/// Runs the group that the environment has, and ends the process.
pub(crate) fn enter() {
    let Ok(group) = std::env::var(GROUP) else { return };
    nearcall_host::run_worker(group.as_bytes())
}

/// The library that the tests load. Cargo builds it with them.
pub(crate) fn test_library() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let examples = deps.parent().unwrap().with_file_name("examples");
    let path = examples.join("libtest_library.so");
    assert!(path.is_file(), "{} is not built; run `cargo test`", path.display());
    path
}

/// Returns a name that no other test has.
pub(crate) fn unique(name: &str) -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("nearcall-libraries-{}-{number}-{name}", std::process::id())
}

/// Returns the settings of a service at an address of its own.
pub(crate) fn service(arguments: &[&str]) -> LibraryConfig {
    let name = arguments.first().copied().unwrap_or("plain").to_owned();
    LibraryConfig {
        listen: format!("unix:@{}", unique(&name)),
        name,
        file: test_library(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        interfaces: Vec::new(),
        watchdog: None,
        stop_within: Duration::from_secs(5),
    }
}

/// A group that runs.
pub(crate) struct Group {
    child: Child,
    pub(crate) client: Client,
}

impl Group {
    /// Starts a group, and waits until all of its services listen.
    pub(crate) fn start(services: &[LibraryConfig]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["entry", "--exact", "--nocapture", "--test-threads=1"])
            .env(GROUP, serde_json::to_string(services).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = Child::spawn(&mut command).unwrap();
        let client = Client::builder().default_deadline(PATIENCE).build();
        for service in services {
            client.hunt(&service.listen, PATIENCE).unwrap();
        }
        Self { child, client }
    }

    pub(crate) fn caller(&self, service: &LibraryConfig) -> ThermostatCaller {
        ThermostatCaller::new(&self.client, &service.listen).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Has the group end in an orderly way.
    pub(crate) fn terminate(&self) {
        nearcall_os::signal::send_by_pidfd(self.child.pidfd(), Signal::TERM).unwrap();
    }

    /// Reads what the group writes to stderr until `text` has come.
    pub(crate) fn wait_for_stderr(&mut self, text: &str) -> String {
        let stderr = self.child.pipes().stderr.as_mut().unwrap();
        let mut read = Vec::new();
        let deadline = nearcall_os::Deadline::after(PATIENCE);
        while !String::from_utf8_lossy(&read).contains(text) {
            use nearcall_os::poll::{Interest, poll_one};
            let ready = poll_one(&*stderr, Interest::Readable, deadline).unwrap();
            let so_far = String::from_utf8_lossy(&read).into_owned();
            assert!(ready.is_some(), "no `{text}` in time: {so_far}");
            let mut more = [0; 4096];
            let count = stderr.read(&mut more).unwrap();
            assert!(count > 0, "no `{text}` in {so_far}");
            read.extend_from_slice(&more[..count]);
        }
        String::from_utf8(read).unwrap()
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait(Some(PATIENCE)).unwrap().expect("the group does not end")
    }
}

/// Options with a deadline that passes soon.
pub(crate) fn soon() -> CallOptions {
    CallOptions::new().deadline(Duration::from_millis(200))
}
