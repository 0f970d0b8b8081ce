//! Child processes and pidfds.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nearcall_os::process::{Child, kill_pidfd, pidfd_open, wait_pidfd};

use crate::partner::{PATIENCE, SHORT};

#[test]
fn an_ended_child_gives_its_status() {
    let mut child = Child::spawn(Command::new("true").stdin(std::process::Stdio::null())).unwrap();
    assert!(child.wait(PATIENCE).unwrap().unwrap().success());
}

#[test]
fn a_killed_child_is_seen_by_its_pidfd() {
    let mut child = endless();
    let second = pidfd_open(i32::try_from(child.pid()).unwrap()).unwrap();
    assert!(!wait_pidfd(&second, SHORT).unwrap());
    assert!(child.wait(SHORT).unwrap().is_none());
    assert_eq!(child.kill().unwrap().signal(), Some(9));
    assert!(wait_pidfd(&second, PATIENCE).unwrap());
    kill_pidfd(&second).unwrap();
}

#[test]
fn a_dropped_child_is_dead_and_reaped() {
    let child = endless();
    let pid = i32::try_from(child.pid()).unwrap();
    let pidfd = pidfd_open(pid).unwrap();
    drop(child);
    assert!(wait_pidfd(&pidfd, SHORT).unwrap());
    let error = nearcall_os::signal::send_by_pidfd(&pidfd, nearcall_os::signal::Signal::CONT);
    assert_eq!(error.unwrap_err().raw_os_error(), Some(3), "still there, so not reaped");
}

#[test]
fn an_impossible_process_number_is_refused() {
    assert!(pidfd_open(0).is_err() && pidfd_open(-5).is_err());
}

/// Starts a child that ends only when its input does; this process holds the other end.
fn endless() -> Child {
    Child::spawn(Command::new("cat").stdin(std::process::Stdio::piped())).unwrap()
}
