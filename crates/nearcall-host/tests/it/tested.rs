//! A host in a process of its own, with its file and its log in a directory of its own.
//!
//! **Invariants:** the host and all that it has started are gone when it is dropped.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::{CallOptions, Client, Status};
use nearcall_host::proto::{
    HostCaller, HostRestartRequest, HostStatusReply, HostStatusRequest, HostedService,
};
use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::signal::{Signal, send_by_pidfd};

use crate::home::ThermostatCaller;

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of its own for a host and its services.
pub(crate) struct Directory(nearcall_testkit::directory::Directory);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(nearcall_testkit::directory::Directory::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    /// Puts the paths into a text with `PROGRAM`, `LIBRARY` and `DIRECTORY`.
    fn with_paths(&self, text: &str) -> String {
        let text = text.replace("PROGRAM", &example("test_program").display().to_string());
        let text = text.replace("LIBRARY", &example("libtest_library.so").display().to_string());
        text.replace("DIRECTORY", &self.0.0.display().to_string())
    }

    /// Makes a script `DIRECTORY/script` with these lines.
    pub(crate) fn script(&self, lines: &str) {
        let path = self.path("script");
        fs::write(&path, self.with_paths(&format!("#!/bin/sh\n{lines}"))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Files of it that are no locks, and not those of the test.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0.0).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.into_string().unwrap());
        let own = ["services.toml", "log", "script"];
        names.filter(|name| !name.starts_with('.') && !own.contains(&name.as_str())).collect()
    }
}

/// What Cargo has built as an example of this crate.
pub(crate) fn example(name: &str) -> PathBuf {
    // .../deps/it-1234: the examples are beside `deps`.
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: `cargo test` builds it", path.display());
    path
}

pub(crate) struct TestedHost {
    pub(crate) directory: Directory,
    pub(crate) child: Child,
}

impl TestedHost {
    /// Starts a host with these services, whose `PROGRAM`, `LIBRARY` and `DIRECTORY` stand for the
    /// paths, and waits until it answers.
    #[track_caller]
    pub(crate) fn start(services: &str) -> Self {
        Self::start_by(services, |mut command| Child::spawn(&mut command).unwrap())
    }

    /// As [`start`](Self::start), by a start of its own.
    #[track_caller]
    pub(crate) fn start_by(services: &str, spawn: impl FnOnce(Command) -> Child) -> Self {
        let directory = Directory::new();
        write(&directory, services);
        let child = spawn(Self::command(&directory));
        Self::of(directory, child)
    }

    /// As [`start`](Self::start), in a directory that is there, with limits in words for `ulimit`.
    #[track_caller]
    pub(crate) fn start_in(directory: Directory, services: &str, limits: &str) -> Self {
        write(&directory, services);
        let child = Child::spawn(&mut Self::command_within(limits, &directory)).unwrap();
        Self::of(directory, child)
    }

    #[track_caller]
    fn of(directory: Directory, child: Child) -> Self {
        let host = Self { directory, child };
        Client::new().hunt(&host.address("host"), PATIENCE).unwrap();
        host
    }

    pub(crate) fn command(directory: &Directory) -> Command {
        Self::command_within("", directory)
    }

    pub(crate) fn command_within(limits: &str, directory: &Directory) -> Command {
        let program = example("test_program");
        let mut command = match limits {
            "" => Command::new(program),
            limits => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!(r#"ulimit {limits} && exec "$0" "$@""#)]).arg(program);
                shell
            }
        };
        command.arg("host").arg(directory.path("services.toml"));
        // Several hosts of one test write one log.
        let log = File::options().append(true).create(true).open(directory.path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.env_remove("NOTIFY_SOCKET");
        command
    }

    /// Waits until services have said so often that they run a method that never returns.
    #[track_caller]
    pub(crate) fn wait_until_blocked(&self, times: usize) {
        let is_blocked = || self.log().matches("] blocked").count() >= times;
        wait_until("the blocked method", is_blocked);
    }

    /// Writes other services into its file.
    pub(crate) fn write(&self, services: &str) {
        write(&self.directory, services);
    }

    /// The address of a service that is written as `unix:DIRECTORY/NAME`.
    pub(crate) fn address(&self, name: &str) -> String {
        format!("unix:{}", self.directory.path(name).display())
    }

    pub(crate) fn thermostat(&self, name: &str) -> ThermostatCaller {
        ThermostatCaller::new(&Client::new(), &self.address(name)).unwrap()
    }

    pub(crate) fn status(&self) -> HostStatusReply {
        let host = HostCaller::new(&Client::new(), &self.address("host")).unwrap();
        host.with(in_time()).status(&HostStatusRequest {}).unwrap()
    }

    pub(crate) fn service(&self, name: &str) -> HostedService {
        let services = self.status().services.into_iter();
        services.into_iter().find(|service| service.name == name).unwrap()
    }

    pub(crate) fn restart(&self, services: &[&str]) -> Result<String, Status> {
        let host = HostCaller::new(&Client::new(), &self.address("host")).unwrap();
        let services = services.iter().map(|name| (*name).to_owned()).collect();
        host.with(in_time()).restart(&HostRestartRequest { services }).map(|reply| reply.text)
    }

    /// Waits until what is known of a service is as expected.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        name: &str,
        is_so: impl Fn(&HostedService) -> bool,
    ) -> HostedService {
        let end = clock::now() + PATIENCE;
        loop {
            let service = self.service(name);
            if is_so(&service) {
                return service;
            }
            assert!(clock::now() < end, "{service:?}\n{}", self.log());
            clock::pause(Duration::from_millis(2));
        }
    }

    #[track_caller]
    pub(crate) fn wait_until_up(&self) {
        for service in self.status().services {
            self.wait_for(&service.name, |service| service.state == "up");
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path("log")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_by_pidfd(self.child.pidfd(), signal).unwrap();
    }

    /// Stops it as a service manager does. Returns its code.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let status = self.child.wait(Some(PATIENCE)).unwrap();
        status.unwrap_or_else(|| panic!("it does not end\n{}", self.log())).code()
    }
}

pub(crate) fn write(directory: &Directory, services: &str) {
    let text = format!("[host]\nlisten = \"unix:DIRECTORY/host\"\n{services}");
    fs::write(directory.path("services.toml"), directory.with_paths(&text)).unwrap();
}

/// The table of a service at `unix:DIRECTORY/NAME`.
pub(crate) fn process(name: &str, arguments: &[&str], rest: &str) -> String {
    service(name, "process", "PROGRAM", arguments, rest)
}

/// The same service as a library.
pub(crate) fn library(name: &str, arguments: &[&str], rest: &str) -> String {
    service(name, "library", "LIBRARY", arguments, rest)
}

fn service(name: &str, run: &str, file: &str, arguments: &[&str], rest: &str) -> String {
    format!(
        "[service.{name}]\nrun = \"{run}\"\nfile = \"{file}\"\narguments = {arguments:?}\n\
         listen = \"unix:DIRECTORY/{name}\"\nready-within = \"60s\"\n{rest}\n"
    )
}

/// Returns the options of a call that does not fail because the machine is busy: its interface
/// grants 250 ms.
pub(crate) fn in_time() -> CallOptions {
    CallOptions::new().deadline(PATIENCE)
}

/// A figure that the environment may enlarge.
pub(crate) fn figure(name: &str, small: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(small)
}

/// Whether a process has ended, or is about to be reaped.
pub(crate) fn has_ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !is_so() {
        assert!(clock::now() < end, "still not: {what}");
        clock::pause(Duration::from_millis(2));
    }
}
