//! Libraries that panic, abort and block: what becomes of the others.

use std::os::unix::process::ExitStatusExt;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::{CallOptions, Code, Status};

use crate::group::{Group, PATIENCE, service, soon};
use crate::home::{SetTargetRequest, ThermostatCaller, WatchRequest};

const PANIC: f64 = -1.0;
const ABORT: f64 = -2.0;
const BLOCK: f64 = -3.0;

/// The services of the largest group here.
const SERVICES: usize = 20;

const SIGABRT: i32 = 6;

fn set(thermostat: &ThermostatCaller, celsius: f64, options: &CallOptions) -> Result<f64, Status> {
    let reply = thermostat.with(options.clone()).set_target(&SetTargetRequest { celsius });
    reply.map(|reply| reply.celsius_before)
}

fn answers(thermostat: &ThermostatCaller) -> bool {
    set(thermostat, 20.0, &CallOptions::new().deadline(PATIENCE)).is_ok()
}

/// A call that does not return, in a thread of its own.
type Blocked = JoinHandle<Result<f64, Status>>;

/// Makes a call that does not return.
fn block(thermostat: ThermostatCaller) -> Blocked {
    let options = CallOptions::new().deadline(PATIENCE).reconnect(ReconnectPolicy::Never);
    thread::spawn(move || set(&thermostat, BLOCK, &options))
}

/// Demands that the call has ended with its process.
fn expect_end(blocked: Blocked) {
    let status = blocked.join().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

#[test]
fn of_twenty_libraries_one_panics_one_blocks_one_aborts() {
    let mut services: Vec<_> = (0..SERVICES).map(|_| service(&["plain"])).collect();
    "stuck".clone_into(&mut services[1].name);
    services[1].watchdog = Some(Duration::from_millis(50));
    let another = service(&["plain"]);
    let mut group = Group::start(&services);
    let other_group = Group::start(std::slice::from_ref(&another));
    let callers: Vec<_> = services.iter().map(|service| group.caller(service)).collect();
    assert!(callers.iter().all(answers));

    // A panic ends its call; its service goes on.
    let status = set(&callers[0], PANIC, &CallOptions::new().deadline(PATIENCE)).unwrap_err();
    assert_eq!(status.code(), Code::Unknown, "{status}");
    assert!(callers.iter().all(answers));

    // A call that never returns keeps its service, and is said.
    let blocked = block(group.caller(&services[1]));
    let said = group.wait_for_stderr("nothing but the end of this process ends the call");
    let line = said.lines().find(|line| line.contains("has not returned")).unwrap();
    assert!(line.starts_with("service `stuck`: home.v1.Thermostat/SetTarget"), "{line}");
    assert!(line.contains("50ms") && line.contains("overdue calls: "), "{line}");
    let status = set(&callers[1], 20.0, &soon()).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let others = || callers.iter().enumerate().filter(|(index, _)| *index != 1);
    assert!(others().all(|(_, caller)| answers(caller)));

    // An abort takes its process, with the whole group, and no other.
    let status = set(&callers[2], ABORT, &CallOptions::new().deadline(PATIENCE)).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(group.wait().signal(), Some(SIGABRT));
    expect_end(blocked);
    for caller in &callers {
        let status = set(caller, 20.0, &CallOptions::new().deadline(PATIENCE)).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
    assert!(answers(&other_group.caller(&another)));
}

#[test]
fn a_library_that_calls_one_that_blocks_goes_on_after_its_deadline() {
    let plain = service(&["plain"]);
    let back = service(&["back", &plain.listen]);
    let group = Group::start(&[plain.clone(), back.clone()]);
    let caller = group.caller(&back);
    let status = set(&caller, BLOCK, &soon()).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    // Its own loop is free, whatever that of the other does.
    caller.with(CallOptions::new().deadline(PATIENCE)).watch(&WatchRequest {}).unwrap();
}

#[test]
fn a_library_serves_while_it_waits_for_one_that_blocks() {
    let plain = service(&["plain"]);
    let back = service(&["back", &plain.listen]);
    let mut group = Group::start(&[plain.clone(), back.clone()]);
    let caller = group.caller(&back);
    let caller = caller.with(CallOptions::new().deadline(PATIENCE));
    let blocked = caller.start_set_target(&SetTargetRequest { celsius: BLOCK });
    group.wait_for_stderr("blocked");
    caller.watch(&WatchRequest {}).unwrap();
    assert!(!blocked.is_done());
}

#[test]
fn a_group_with_a_method_that_blocks_ends_nevertheless() {
    let mut plain = service(&["plain"]);
    plain.stop_within = Duration::from_millis(50);
    let mut group = Group::start(std::slice::from_ref(&plain));
    let blocked = block(group.caller(&plain));
    group.wait_for_stderr("blocked");
    group.terminate();
    assert!(group.wait().success());
    expect_end(blocked);
}
