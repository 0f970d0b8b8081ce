//! Services that cannot be started, do not serve, or end again and again; files that are wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nearcall::Code;
use nearcall::client::ReconnectPolicy;
use nearcall_os::process::Child;
use nearcall_os::signal::Signal;

use crate::home::SetTargetRequest;
use crate::tested::{PATIENCE, TestedHost, has_ended, in_time, library, process, wait_until};

#[test]
fn a_crash_loop_is_said_once_with_its_cause_and_the_last_lines() {
    let rest = "restart-limit = 4\nback-off-min = \"1ms\"\nback-off-max = \"5ms\"";
    let services = [process("room", &["abort"], rest), process("hall", &["plain"], "")].concat();
    let host = TestedHost::start(&services);
    let failed = host.wait_for("room", |service| service.state == "failed");
    assert_eq!((failed.failures, failed.restarts, failed.pid), (5, 4, 0));
    assert_eq!(failed.last_end, "was killed by SIGABRT");
    assert_eq!(failed.last_lines, ["the heating burns"]);
    host.wait_for("hall", |service| service.state == "up");
    let given_up = "room has ended 5 times in a row and is not started again";
    wait_until("the line", || host.log().contains(given_up));
    let log = host.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("room ends again and again: the last time it was killed by SIGABRT"), 1);
    assert_eq!(count("  | the heating burns"), 1, "{log}");
    assert_eq!(count(given_up), 1, "{log}");
    // Clients do not wait for what does not come.
    let status =
        host.thermostat("room").with(in_time()).set_target(&SetTargetRequest { celsius: 1.0 });
    assert_eq!(status.unwrap_err().code(), Code::Unavailable);
}

#[test]
fn the_status_of_a_large_group_that_crashes_fits_into_a_message() {
    let rest = "group = \"house\"\nrestart = \"never\"";
    let names: Vec<String> = (0..100).map(|number| format!("room{number}")).collect();
    let services: String = names.iter().map(|name| library(name, &["noisy"], rest)).collect();
    let host = TestedHost::start(&services);
    let first = host.wait_for("room0", |service| service.state == "failed");
    assert_eq!(first.last_end, "was killed by SIGABRT");
    let shown = "\u{fffd}".repeat(1024);
    assert!(first.last_lines.len() == 20 && first.last_lines.iter().all(|line| *line == shown));
    let last = host.service("room99");
    assert_eq!((last.last_end, last.last_lines.len()), (first.last_end, 0));
}

#[test]
fn a_service_that_never_becomes_ready_is_killed_and_what_needs_it_waits() {
    let silent = process("room", &["silent"], "restart = \"never\"");
    let silent = silent.replace("ready-within = \"60s\"", "ready-within = \"200ms\"");
    let needs = process("hall", &["plain"], "after = [\"room\"]");
    let mut host = TestedHost::start(&[silent, needs].concat());
    let failed = host.wait_for("room", |service| service.state == "failed");
    assert!(failed.last_end.contains("had not answered after 200ms that it serves"), "{failed:?}");
    assert_eq!((failed.restarts, host.service("hall").state.as_str()), (0, "waiting"));
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_program_that_cannot_run_here_and_a_restart_that_fails_leave_the_rest_alone() {
    let rest = "restart = \"never\"";
    let good = process("room", &["plain"], "");
    let mut host = TestedHost::start(&good);
    host.wait_until_up();
    let pid = host.service("room").pid;
    // No program of this machine, though it may be executed.
    let broken = host.directory.path("broken");
    fs::write(&broken, b"\x7fELF no program").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o700)).unwrap();
    let wrong = process("hall", &[], rest).replace("PROGRAM", "DIRECTORY/broken");
    host.write(&[good.clone(), wrong].concat());
    let status = host.restart(&["room"]).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let text = status.to_string();
    assert!(text.contains("hall could not be started: "), "{text}");
    assert!(text.contains("what ran before goes on"), "{text}");
    // A file with an error, and one that names a library of another machine.
    host.write(&good.replace("arguments", "argument"));
    let text = host.restart(&[]).unwrap_err().to_string();
    assert!(text.contains("services.toml:6:1: unknown field `argument`"), "{text}");
    let foreign = host.directory.path("foreign.so");
    let mut elf = fs::read(crate::tested::example("libtest_library.so")).unwrap();
    // The machine of an ELF file: 243 is RISC-V.
    elf[18..20].copy_from_slice(&243u16.to_le_bytes());
    fs::write(&foreign, elf).unwrap();
    let wrong = library("hall", &[], "").replace("LIBRARY", "DIRECTORY/foreign.so");
    host.write(&[good.clone(), wrong].concat());
    let text = host.restart(&[]).unwrap_err().to_string();
    assert!(text.contains("services.toml:12:8: service `hall`: "), "{text}");
    let absent = library("hall", &[], "").replace("LIBRARY", "DIRECTORY/absent.so");
    host.write(&[good.clone(), absent].concat());
    let text = host.restart(&[]).unwrap_err().to_string();
    assert!(text.contains("absent.so"), "{text}");
    // Whose file others can write decides about nothing here.
    let file = host.directory.path("services.toml");
    host.write(&good);
    for mode in [0o666, 0o620] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let text = host.restart(&[]).unwrap_err().to_string();
        let expected = format!("other users may write it (its mode is {mode:04o})");
        assert!(text.contains(&expected), "{text}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let text = host.restart(&["attic"]).unwrap_err().to_string();
    assert!(text.contains("there is no service `attic`"), "{text}");
    assert_eq!(host.service("room").pid, pid);
    host.thermostat("room").with(in_time()).set_target(&SetTargetRequest { celsius: 1.0 }).unwrap();
    fs::remove_file(broken).unwrap();
    fs::remove_file(foreign).unwrap();
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_file_that_is_a_named_pipe_does_not_keep_the_host() {
    let mut host = TestedHost::start(&process("room", &["plain"], ""));
    host.wait_until_up();
    let file = host.directory.path("services.toml");
    fs::remove_file(&file).unwrap();
    match Command::new("mkfifo").arg(&file).status() {
        Ok(status) => assert!(status.success()),
        Err(why) => return println!("SKIPPED: no `mkfifo` to make a named pipe with: {why}"),
    }
    let text = host.restart(&[]).unwrap_err().to_string();
    assert!(text.contains("services.toml: it is no file"), "{text}");
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_second_sigterm_ends_all_at_once() {
    let slow = "stop-within = \"10m\"";
    let services = [process("room", &["plain"], slow), process("hall", &["plain"], "")].concat();
    let mut host = TestedHost::start(&services);
    host.wait_until_up();
    let pids: Vec<u32> = host.status().services.iter().map(|service| service.pid).collect();
    // Its loop is blocked, so it does not end by SIGTERM.
    let caller = host.thermostat("room");
    let once = in_time().reconnect(ReconnectPolicy::Never);
    let request = SetTargetRequest { celsius: -3.0 };
    let blocked = std::thread::spawn(move || caller.with(once.clone()).set_target(&request));
    host.wait_until_blocked(1);
    host.signal(Signal::TERM);
    wait_until("the first end", || has_ended(pids[1]));
    assert!(!has_ended(pids[0]));
    host.signal(Signal::TERM);
    assert_eq!(host.wait(), Some(130), "{}", host.log());
    assert!(pids.iter().all(|pid| has_ended(*pid)));
    assert_eq!(blocked.join().unwrap().unwrap_err().code(), Code::Unavailable);
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}

#[test]
fn a_second_host_at_the_same_address_is_refused() {
    let host = TestedHost::start(&process("room", &["plain"], ""));
    let mut command = TestedHost::command(&host.directory);
    let mut second = Child::spawn(&mut command).unwrap();
    let status = second.wait(Some(PATIENCE)).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(1));
    assert!(host.log().contains("the host cannot be asked at its address"), "{}", host.log());
    host.wait_until_up();
}
