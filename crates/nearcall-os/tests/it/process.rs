//! Child processes and pidfds.
#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use nearcall_os::process::{
    Child, ProcessEnd, ReportedEnd, kill_pidfd, pidfd_open, try_end_of, wait_pidfd,
};

use crate::partner::{PATIENCE, SHORT, read_until};

#[test]
fn an_ended_child_gives_its_status() {
    let mut child = Child::spawn(Command::new("true").stdin(Stdio::null())).unwrap();
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
fn a_group_is_killed_as_a_whole_until_its_leader_is_reaped() {
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 600 >&2 & echo $! && exec sleep 600"]).process_group(0);
    let mut child =
        Child::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))
            .unwrap();
    let mut output = child.pipes().stdout.take().unwrap();
    let second: i32 = read_until(&mut output, "\n").trim().parse().unwrap();
    let second = pidfd_open(second).unwrap();
    child.kill_group().unwrap();
    assert_eq!(child.wait(PATIENCE).unwrap().unwrap().signal(), Some(9));
    assert!(wait_pidfd(&second, PATIENCE).unwrap());
    // Its number may be that of another group by now.
    child.kill_group().unwrap();
    // One that leads no group is left alone.
    let mut child = endless();
    child.kill_group().unwrap();
    assert!(child.wait(SHORT).unwrap().is_none());
}

/// Of a child, as of any process whose parent is another one: before it was waited for and after.
#[test]
fn a_pidfd_gives_the_end_of_its_process_before_and_after_it_is_waited_for() {
    let exits = |code| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exit {code}")]).stdin(Stdio::null());
        Child::spawn(&mut command).unwrap()
    };
    for (mut child, end) in [(exits(3), ProcessEnd::Exited(3)), (endless(), ProcessEnd::Killed(9))]
    {
        if end == ProcessEnd::Killed(9) {
            kill_pidfd(child.pidfd()).unwrap();
        }
        assert!(wait_pidfd(child.pidfd(), PATIENCE).unwrap());
        let end = ReportedEnd::Known(end);
        match try_end_of(child.pidfd()).unwrap() {
            ReportedEnd::Never => {
                return eprintln!("SKIPPED: this kernel reports no end of a process (6.13)");
            }
            before => assert_eq!(before, end, "nothing has waited for it"),
        }
        child.wait(PATIENCE).unwrap().unwrap();
        match try_end_of(child.pidfd()).unwrap() {
            ReportedEnd::Never => {
                return eprintln!("SKIPPED: this kernel forgets a process at once (6.15)");
            }
            after => assert_eq!(after, end),
        }
    }
}

#[test]
fn a_pidfd_is_not_misled_by_another_process_with_the_same_number() {
    let mut first =
        Child::spawn(Command::new("sh").args(["-c", "exit 3"]).stdin(Stdio::null())).unwrap();
    first.wait(PATIENCE).unwrap().unwrap();
    let Some(_second) = (0..1000).find_map(|_| {
        // The kernel tries the next number first. Other processes may be quicker.
        std::fs::write("/proc/sys/kernel/ns_last_pid", (first.pid() - 1).to_string()).ok()?;
        let second = endless();
        (second.pid() == first.pid()).then_some(second)
    }) else {
        return eprintln!(
            "SKIPPED: the next number of a process cannot be chosen, which needs root"
        );
    };
    match try_end_of(first.pidfd()).unwrap() {
        ReportedEnd::Never => eprintln!("SKIPPED: this kernel forgets a process at once (6.15)"),
        end => assert_eq!(end, ReportedEnd::Known(ProcessEnd::Exited(3))),
    }
}

#[test]
fn an_impossible_process_number_is_refused() {
    assert!(pidfd_open(0).is_err() && pidfd_open(-5).is_err());
}

/// Starts a child that ends only when its input does; this process holds the other end.
fn endless() -> Child {
    Child::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap()
}
