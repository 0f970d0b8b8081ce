//! A group of twenty libraries, of which some misbehave: what becomes of the others.

use std::thread;

use nearcall::client::ReconnectPolicy;
use nearcall::{CallOptions, Code};
use nearcall_os::process::pidfd_open;
use nearcall_os::signal::{Signal, send_by_pidfd};

use crate::home::{SetTargetRequest, ThermostatCaller};
use crate::tested::{PATIENCE, TestedHost, has_ended, library, process, wait_until};

const PANIC: f64 = -1.0;
const ABORT: f64 = -2.0;
const BLOCK: f64 = -3.0;

fn set(caller: &ThermostatCaller, celsius: f64) -> Result<f64, nearcall::Status> {
    // Idempotent, but what ends one process must not be said to the next.
    let options = CallOptions::new().deadline(PATIENCE).reconnect(ReconnectPolicy::Never);
    let reply = caller.with(options).set_target(&SetTargetRequest { celsius })?;
    Ok(reply.celsius_before)
}

#[test]
fn of_twenty_libraries_one_panics_one_blocks_and_one_aborts() {
    let names: Vec<String> = (0..20).map(|number| format!("room{number}")).collect();
    let rest = "group = \"house\"\nrestart = \"always\"\nstop-within = \"1s\"";
    // The others are watched for longer than any machine is busy, so that none is reported.
    let watched = |number: usize| if number == 5 { "300ms" } else { "10m" };
    let table = |(number, name): (usize, &String)| {
        let rest = format!("{rest}\nwatchdog = \"{}\"", watched(number));
        library(name, &["plain"], &rest)
    };
    let mut services: String = names.iter().enumerate().map(table).collect();
    services.push_str(&process("outside", &["plain"], ""));
    let mut host = TestedHost::start(&services);
    host.wait_until_up();
    let callers: Vec<_> = names.iter().map(|name| host.thermostat(name)).collect();
    let outside = host.thermostat("outside");
    let all_go_on = |except: &[usize]| {
        for (number, caller) in callers.iter().enumerate() {
            if !except.contains(&number) {
                set(caller, 20.0).unwrap_or_else(|status| panic!("room{number}: {status}"));
            }
        }
        set(&outside, 20.0).unwrap();
    };
    all_go_on(&[]);
    let pid = host.service("room0").pid;
    assert!(names.iter().all(|name| host.service(name).pid == pid), "one process");

    // A panic ends its call, and nothing else.
    assert_eq!(set(&callers[3], PANIC).unwrap_err().code(), Code::Unknown);
    all_go_on(&[]);

    // A method that never returns keeps its own service; the host says so, and the others go on.
    let blocked = host.thermostat("room5");
    let blocked = thread::spawn(move || set(&blocked, BLOCK));
    host.wait_until_blocked(1);
    let service = host.wait_for("room5", |service| service.is_unresponsive);
    assert_eq!((service.state.as_str(), service.pid), ("up", pid));
    all_go_on(&[5]);
    wait_until("the line", || host.log().contains("room5 has not answered for 300ms"));
    assert!(!host.service("room6").is_unresponsive);

    // An abort takes all of its group, and only that: they are restarted together.
    let before = host.service("outside").pid;
    assert_eq!(set(&callers[7], ABORT).unwrap_err().code(), Code::Unavailable);
    assert_eq!(blocked.join().unwrap().unwrap_err().code(), Code::Unavailable);
    let restarted = host.wait_for("room7", |it| it.state == "up" && it.pid != pid);
    assert_eq!((restarted.restarts, host.service("outside").pid), (1, before));
    assert_eq!(restarted.last_end, "was killed by SIGABRT");
    let fresh = names.iter().map(|name| host.thermostat(name));
    for caller in fresh {
        assert_eq!(set(&caller, 20.0).unwrap(), 0.0, "it has begun anew");
    }
    // On a busy machine one that answers may be late at times.
    host.wait_for("room5", |service| !service.is_unresponsive);
    assert_eq!(host.stop(), Some(0), "{}", host.log());
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}

#[test]
fn a_process_of_its_own_that_does_not_answer_is_restarted() {
    // Long enough that a busy machine is not taken for a service that hangs.
    let watched = "watchdog = \"3s\"";
    let host = TestedHost::start(&process("room", &["plain"], watched));
    host.wait_until_up();
    let pid = host.service("room").pid;
    let status = set(&host.thermostat("room"), BLOCK).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let service = host.wait_for("room", |it| it.state == "up" && it.pid != pid);
    assert!(service.last_end.contains("did not answer for 3s"), "{service:?}");
    set(&host.thermostat("room"), 20.0).unwrap();
}

/// As a debugger, a lock that all libraries share, or a machine that swaps does it.
#[test]
fn a_group_that_hangs_as_a_whole_is_restarted() {
    let watched = "group = \"house\"\nwatchdog = \"2s\"";
    let names = ["room", "hall", "attic"];
    let others = library("cellar", &["plain"], "group = \"house\"");
    let services: String = names.map(|name| library(name, &["plain"], watched)).concat() + &others;
    let mut host = TestedHost::start(&services);
    host.wait_until_up();
    let pid = host.service("room").pid;
    let pidfd = pidfd_open(i32::try_from(pid).unwrap()).unwrap();
    send_by_pidfd(&pidfd, Signal::STOP).unwrap();
    for name in ["room", "cellar"] {
        let service = host.wait_for(name, |it| it.state == "up" && it.pid != pid);
        assert!(service.last_end.contains("did not answer for 2s"), "{service:?}");
        set(&host.thermostat(name), 20.0).unwrap();
    }
    assert!(has_ended(pid));
    assert_eq!(host.stop(), Some(0));
}
