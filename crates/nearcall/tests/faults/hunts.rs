//! Clients that wait for servers where they cannot watch a directory, or where it is not there yet.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use nearcall::server::ListenOptions;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::namespaces;
use crate::support::prelude::*;
use nearcall_testkit::directory::Directory;

use crate::served::{LoopThread, Served};

pub(crate) const ROLES: &[Role] = &[("hunter", hunt)];

/// Waits for one server after the other, and reports the lines of its log.
fn hunt(addresses: &str) {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let client = Client::new();
        for address in addresses.split(',') {
            // Before the server is started, so that it is waited for in any case.
            client.hunt(address, Duration::from_millis(200)).unwrap_err();
            report("hunting");
            let outcome = client.hunt(address, PATIENCE);
            report(&format!("found {outcome:?}"));
        }
    });
    let lines = lines.0.lock().unwrap();
    report(&format!("lines {} {}", lines.len(), lines.join(" | ")));
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "nearcall"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Has a client wait for each of these, which begin to listen when it waits. Returns its log.
fn log_of(mut hunter: Process, addresses: &[String]) -> String {
    for address in addresses {
        hunter.hear("hunting");
        let served = Served::at(address);
        assert_eq!(hunter.hear("found"), "Ok(())");
        drop(served);
    }
    let lines = hunter.hear("lines");
    hunter.finish();
    lines
}

#[timed]
fn a_client_that_can_watch_no_directory_asks_again_and_reports_it_once() {
    for (file, limit) in [
        ("max_inotify_instances", "max_user_instances"),
        ("max_inotify_watches", "max_user_watches"),
    ] {
        let place = Directory::with_mode(0o700);
        let addresses = ["one", "two", "three"].map(|name| place.address(name));
        let setup = format!("echo 0 > /proc/sys/user/{file}");
        let flags = ["--user", "--map-root-user"];
        let started = namespaces::start("hunts", &flags, &setup, "hunter", &addresses.join(","));
        let Some(hunter) = started else { return };
        let log = log_of(hunter, &addresses);
        assert!(log.starts_with("1 ") && log.contains(limit), "{log}");
        assert!(log.contains(&addresses[0]), "{log}");
    }
}

#[timed]
fn only_where_there_is_no_directory_to_watch_that_is_reported() {
    let place = Directory::with_mode(0o700);
    let addresses = ["one", "two"].map(|name| place.address(name));
    let hunter = Process::start("hunter", &addresses.join(","));
    assert_eq!(log_of(hunter, &addresses), "0");
    let addresses = [unique_address(), unique_address()];
    let log = log_of(Process::start("hunter", &addresses.join(",")), &addresses);
    assert!(log.starts_with("1 ") && log.contains(&addresses[0]), "{log}");
    assert!(log.contains("socket without a file"), "{log}");
}

#[timed]
fn a_directory_that_may_not_be_read_is_asked_in_again() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("hunts in a directory of another user", "only root can become one");
    };
    let place = Directory::with_mode(0o700);
    fs::set_permissions(&place.0, Permissions::from_mode(0o711)).unwrap();
    let address = place.address("one");
    let mut command = command("hunter", &address, "");
    command.uid(uid);
    let mut hunter = Process::start_as("hunter", command);
    hunter.hear("hunting");
    let mode = ListenOptions::new().socket_mode(0o666);
    let (_thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        server.listen_with(&address, &mode).unwrap();
    });
    assert_eq!(hunter.hear("found"), "Ok(())");
    let log = hunter.hear("lines");
    assert!(log.starts_with("1 ") && log.contains("cannot watch"), "{log}");
    hunter.finish();
}

#[timed]
fn a_client_makes_the_runtime_directory_that_it_waits_in() {
    let place = Directory::with_mode(0o700);
    for (runtime, is_made) in [("runtime", true), ("missing/runtime", false)] {
        let runtime = place.0.join(runtime);
        let start = |role| {
            let mut command = command(role, "thermostat", "");
            command.env("NEARCALL_RUNTIME_DIR", &runtime);
            Process::start_as(role, command)
        };
        let mut hunter = start("hunter");
        hunter.hear("hunting");
        assert_eq!(runtime.exists(), is_made);
        if !is_made {
            fs::create_dir(runtime.parent().unwrap()).unwrap();
        }
        let mut server = start("server");
        assert_eq!(hunter.hear("found"), "Ok(())");
        let lines = hunter.hear("lines");
        assert!(lines.starts_with(if is_made { "0" } else { "1" }), "{lines}");
        hunter.finish();
        server.kill();
    }
}
