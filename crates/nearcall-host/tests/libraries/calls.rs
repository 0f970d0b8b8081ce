//! Calls to services in libraries, from other processes and from each other.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::control::{ServerCaller, StopRequest};
use nearcall::{CallOptions, Code};
use nearcall_os::Deadline;
use nearcall_os::poll::{Interest, poll_one};

use crate::group::{Group, PATIENCE, service, soon, unique};
use crate::home::{NoteRequest, SetTargetRequest, ThermostatCaller, WatchRequest};

const LATER: f64 = -4.0;
const FORGET: f64 = -5.0;
const HOLD: f64 = -6.0;
const REFUSE: f64 = -7.0;

fn set(thermostat: &ThermostatCaller, celsius: f64) -> Result<f64, nearcall::Status> {
    let options = CallOptions::new().deadline(PATIENCE);
    let reply = thermostat.with(options).set_target(&SetTargetRequest { celsius });
    reply.map(|reply| reply.celsius_before)
}

fn notes(thermostat: &ThermostatCaller) -> u64 {
    let status = thermostat.reset(&()).unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, "as asked"));
    status.metadata().get("notes").unwrap().parse().unwrap()
}

#[test]
fn a_library_answers_as_a_program_does() {
    let plain = service(&["plain"]);
    let group = Group::start(std::slice::from_ref(&plain));
    let thermostat = group.caller(&plain);
    assert_eq!(set(&thermostat, 20.0).unwrap(), 0.0);
    assert_eq!(set(&thermostat, 21.0).unwrap(), 20.0);
    // Its caller by the kernel.
    let user = thermostat.watch(&WatchRequest {}).unwrap().celsius;
    assert_eq!(user, f64::from(nearcall_os::process::user_id()));
    // Metadata both ways.
    let options = CallOptions::new().metadata("echo", "hello").unwrap().deadline(PATIENCE);
    let call = thermostat.with(options).start_set_target(&SetTargetRequest { celsius: 1.0 });
    let (result, metadata) = call.wait_with_metadata();
    assert_eq!((result.unwrap().celsius_before, metadata.get("echoed")), (21.0, Some("hello")));
    // One-way messages, an error with metadata, an answer from another thread.
    assert_eq!(notes(&thermostat), 0);
    thermostat.note(&NoteRequest::default()).unwrap();
    assert_eq!(notes(&thermostat), 1);
    assert_eq!(set(&thermostat, LATER).unwrap(), LATER);
    let status = set(&thermostat, FORGET).unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
}

#[test]
fn a_method_or_an_object_that_is_missing_is_named() {
    let two = service(&["two"]);
    let group = Group::start(std::slice::from_ref(&two));
    let status = set(&group.caller(&two), 1.0).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("home.v1.Thermostat@attic"), "{status}");
    for instance in ["hall", "attic"] {
        let address = format!("{}#{instance}", two.listen);
        let thermostat = ThermostatCaller::new(&group.client, &address).unwrap();
        assert_eq!(set(&thermostat, 20.0).unwrap(), 0.0);
    }
}

#[test]
fn libraries_of_one_group_call_each_other() {
    for kind in ["plain", "nonblocking"] {
        check_calls_within_a_group(kind);
    }
}

#[track_caller]
fn check_calls_within_a_group(kind: &str) {
    let plain = service(&[kind]);
    let relay = service(&["relay", &plain.listen]);
    let ask = service(&["ask", &plain.listen]);
    let group = Group::start(&[plain.clone(), relay.clone(), ask.clone()]);
    // Who calls: the kernel has no word in a call of a function, and there are only such calls of
    // services that have promised not to wait.
    let user = f64::from(nearcall_os::process::user_id());
    let expected = if kind == "nonblocking" { -1.0 } else { user };
    assert_eq!(set(&group.caller(&ask), 20.0).unwrap(), expected);
    // A started call must not run while its caller goes on.
    assert_eq!(group.caller(&relay).watch(&WatchRequest {}).unwrap().celsius, user);
    let (near, far) = (group.caller(&relay), group.caller(&plain));
    assert_eq!(set(&near, 20.0).unwrap(), 0.0);
    assert_eq!(set(&far, 21.0).unwrap(), 20.0);
    // A panic, an answer that comes later, an error with metadata: as from elsewhere.
    assert_eq!(set(&near, -1.0).unwrap_err().code(), Code::Unknown);
    assert_eq!(set(&near, LATER).unwrap(), LATER);
    assert_eq!(set(&near, FORGET).unwrap_err().code(), Code::Internal);
    near.note(&NoteRequest::default()).unwrap();
    // It went over a connection, so it may come later than the next call.
    let deadline = Deadline::after(PATIENCE);
    while notes(&near) != 1 {
        assert!(!deadline.has_passed(), "the message is lost");
    }
    assert_eq!(notes(&far), 1);
}

#[test]
fn a_library_reaches_services_elsewhere_by_a_connection() {
    let plain = service(&["plain"]);
    let elsewhere = Group::start(std::slice::from_ref(&plain));
    let relay = service(&["relay", &plain.listen]);
    let group = Group::start(std::slice::from_ref(&relay));
    let thermostat = group.caller(&relay);
    assert_eq!(set(&thermostat, 20.0).unwrap(), 0.0);
    let user = thermostat.watch(&WatchRequest {}).unwrap().celsius;
    assert_eq!(user, f64::from(nearcall_os::process::user_id()));
    assert_ne!(group.pid(), elsewhere.pid());
}

#[test]
fn futures_of_a_library_run_and_end_with_their_callers() {
    let service = service(&["async"]);
    let group = Group::start(std::slice::from_ref(&service));
    let thermostat = group.caller(&service);
    assert_eq!(set(&thermostat, 1.0).unwrap(), 0.0);
    // By a deadline, and by a caller who does not wait any more.
    let status = thermostat.with(soon()).watch(&WatchRequest {}).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let watching = thermostat.start_watch(&WatchRequest {});
    // Calls of one connection begin in their order.
    set(&thermostat, 1.0).unwrap();
    watching.cancel();
    let deadline = Deadline::after(PATIENCE);
    while set(&thermostat, 1.0).unwrap() != 2.0 {
        let ended = set(&thermostat, 1.0).unwrap();
        assert!(!deadline.has_passed(), "only {ended} futures have ended with their callers");
    }
}

/// Where methods that hold their call connect, and wait until they may go on.
struct Holder {
    path: PathBuf,
    listener: UnixListener,
}

impl Holder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(unique("hold"));
        let listener = UnixListener::bind(&path).unwrap();
        Self { path, listener }
    }

    fn options(&self) -> CallOptions {
        let path = self.path.to_str().unwrap();
        CallOptions::new().metadata("hold", path).unwrap().deadline(PATIENCE)
    }

    /// Waits until a method holds its call. It goes on when it gets a byte.
    fn wait(&self) -> UnixStream {
        let ready = poll_one(&self.listener, Interest::Readable, Deadline::after(PATIENCE));
        assert!(ready.unwrap().is_some(), "no method holds its call");
        self.listener.accept().unwrap().0
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_group_that_is_stopped_ends_its_calls_first() {
    let mut plain = service(&["plain"]);
    plain.stop_within = PATIENCE;
    let mut group = Group::start(std::slice::from_ref(&plain));
    let thermostat = group.caller(&plain);
    let holder = Holder::new();
    let request = SetTargetRequest { celsius: HOLD };
    let held = thermostat.with(holder.options()).start_set_target(&request);
    let mut release = holder.wait();
    group.terminate();
    // It takes no more calls, and has not ended.
    let once = CallOptions::new().deadline(PATIENCE).reconnect(ReconnectPolicy::Never);
    let deadline = Deadline::after(PATIENCE);
    while thermostat.with(once.clone()).set_target(&SetTargetRequest { celsius: 20.0 }).is_ok() {
        assert!(!deadline.has_passed(), "it does not take the signal");
    }
    assert!(!held.is_done());
    release.write_all(&[1]).unwrap();
    assert_eq!(held.wait().unwrap().celsius_before, HOLD);
    assert!(group.wait().success());
    let status = set(&thermostat, 20.0).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let hunted = group.client.hunt(&plain.listen, Duration::from_millis(1));
    assert!(hunted.is_err(), "a socket answers");
}

#[test]
fn a_library_that_is_asked_to_stop_names_the_host() {
    let plain = service(&["plain"]);
    let group = Group::start(std::slice::from_ref(&plain));
    let server = ServerCaller::new(&group.client, &plain.listen).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let status = server.with(options).stop(&StopRequest {}).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("out of the host's file"), "{status}");
}

#[test]
fn events_of_tracing_in_a_library_are_in_the_log_of_its_host() {
    let mut plain = service(&["plain"]);
    plain.name = "kitchen".into();
    let mut group = Group::start(std::slice::from_ref(&plain));
    set(&group.caller(&plain), REFUSE).unwrap();
    let log = group.wait_for_stderr("refused:");
    assert!(log.contains("service `kitchen`: warning: nearcall: refused:"), "{log}");
}
