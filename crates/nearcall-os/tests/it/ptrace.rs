//! Watching system calls of a child: exact counts, threads included, and nothing left behind.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::Deadline;
use nearcall_os::process::{Child, kill_pidfd, wait_pidfd};
use nearcall_os::ptrace::{Errno, Event, Refusal, Step, Stepper, Tracer};
use nearcall_os::syscall_names::syscall_name;

use crate::partner::{self, PATIENCE, SHORT};

/// Asks so many times for the user, and as often again in a thread of its own.
fn work(role: &str) {
    let times: usize = role.parse().unwrap();
    partner::send("ready\n");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let ask = move || {
        for _ in 0..times {
            std::hint::black_box(nearcall_os::process::user_id());
        }
    };
    std::thread::spawn(ask).join().unwrap();
    ask();
}

/// `None` where ptrace is forbidden; anything else that goes wrong is a fault.
fn seize(child: &Child) -> Option<Tracer> {
    match Tracer::seize(child.pid()) {
        Ok(tracer) => Some(tracer),
        Err(refusal @ Refusal::Forbidden { .. }) => {
            partner::send(&format!("skipped: {refusal}\n"));
            None
        }
        Err(refusal) => panic!("{refusal}"),
    }
}

/// Calls by number and outcome of a child that was asked to make `times` twice over.
fn count(times: usize) -> Option<Vec<(u64, i64)>> {
    let test = "ptrace::system_calls_of_all_threads_are_counted";
    let mut child = partner::start(test, &times.to_string());
    let mut tracer = seize(&child)?;
    let guard = end_in_time(&child);
    drop(child.pipes().stdin.take());
    let _output = child.pipes().stdout.take();
    let mut calls = Vec::new();
    while let Some(event) = tracer.next_event().unwrap() {
        if let Event::Ended { number, outcome, .. } = event {
            calls.push((number, outcome));
        }
    }
    assert!(child.wait(PATIENCE).unwrap().expect("it has ended").success());
    assert!(guard.join().unwrap(), "it had to be killed");
    Some(calls)
}

#[test]
fn system_calls_of_all_threads_are_counted() {
    if let Some(role) = partner::role() {
        return work(&role);
    }
    let (Some(few), Some(many)) = (count(10), count(30)) else { return };
    let named = |calls: &[(u64, i64)]| {
        let of_name = |(number, _): &&(u64, i64)| syscall_name(*number) == Some("geteuid");
        calls.iter().filter(of_name).count()
    };
    assert_eq!(named(&many) - named(&few), 40, "20 more in each of two threads");
    let written = few.iter().find(|(number, _)| syscall_name(*number) == Some("write"));
    assert!(written.is_some_and(|(_, outcome)| *outcome > 0), "{few:?}");
}

#[test]
fn a_child_that_is_killed_ends_the_watch() {
    let mut command = Command::new("cat");
    let mut child = Child::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null())).unwrap();
    let Some(mut tracer) = seize(&child) else { return };
    let guard = end_in_time(&child);
    // Until it waits for its input, begun anew if it did so already.
    while let Some(event) = tracer.next_event().unwrap() {
        if let Event::Begun { number, arguments: [0, ..], .. } = event
            && syscall_name(number) == Some("read")
        {
            break;
        }
    }
    kill_pidfd(child.pidfd()).unwrap();
    while tracer.next_event().unwrap().is_some() {}
    assert!(child.wait(PATIENCE).unwrap().is_some());
    assert!(guard.join().unwrap(), "it was killed too late");
}

/// Kills the child if it does not end in time, since a tracer waits without end. True: it did.
fn end_in_time(child: &Child) -> std::thread::JoinHandle<bool> {
    let pidfd = child.pidfd().try_clone_to_owned().unwrap();
    std::thread::spawn(move || {
        let ended = wait_pidfd(&pidfd, PATIENCE).unwrap();
        kill_pidfd(&pidfd).unwrap();
        ended
    })
}

#[test]
fn a_process_that_is_gone_is_no_tracee() {
    let mut child = Child::spawn(&mut Command::new("true")).unwrap();
    child.wait(PATIENCE).unwrap();
    assert!(matches!(Tracer::seize(child.pid()), Err(Refusal::Os(_))));
}

#[test]
fn a_second_tracer_is_refused() {
    let mut command = Command::new("cat");
    let child = Child::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null())).unwrap();
    let Some(_first) = seize(&child) else { return };
    let second = Tracer::seize(child.pid()).unwrap_err();
    assert!(matches!(second, Refusal::Forbidden { .. }), "{second}");
    assert!(second.to_string().contains("ptrace"), "{second}");
    // Dropping it ends a stopped child as well.
    drop(child);
}

/// Asks the kernel for a descriptor twice, and prints how each went.
fn ask_twice() {
    partner::send("ready\n");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for _ in 0..2 {
        let outcome = nearcall_os::eventfd::create(nearcall_os::eventfd::Kind::Counter);
        partner::send(&format!("{}\n", outcome.err().map_or("ok".to_owned(), |e| e.to_string())));
    }
}

#[test]
fn one_call_of_a_process_is_made_to_fail() {
    if partner::role().is_some() {
        return ask_twice();
    }
    let mut child = partner::start("ptrace::one_call_of_a_process_is_made_to_fail", "ask");
    let Some(mut tracer) = seize(&child) else { return };
    let guard = end_in_time(&child);
    drop(child.pipes().stdin.take());
    let output = child.pipes().stdout.take().unwrap();
    assert!(tracer.fail_call(Errno::MFILE).is_err(), "no call has begun");
    let mut outcomes = Vec::new();
    while let Some(event) = tracer.next_event().unwrap() {
        let (Event::Begun { number, .. } | Event::Ended { number, .. }) = event;
        if syscall_name(number) != Some("eventfd2") {
            continue;
        }
        match event {
            Event::Ended { outcome, .. } => outcomes.push(outcome),
            Event::Begun { .. } if outcomes.is_empty() => tracer.fail_call(Errno::MFILE).unwrap(),
            Event::Begun { .. } => {}
        }
    }
    assert!(guard.join().unwrap(), "it had to be killed");
    let text = std::io::read_to_string(output).unwrap();
    assert_eq!(outcomes[0], -i64::from(Errno::MFILE.number()));
    assert!(outcomes[1] >= 0, "the second is executed: {outcomes:?}");
    assert!(text.contains(&Errno::MFILE.error().to_string()), "{text}");
    assert!(text.contains("\nok\n"), "{text}");
}

#[test]
fn a_thread_is_run_instruction_by_instruction_and_killed_in_between() {
    if partner::role().is_some() {
        partner::send(&format!("tid {}\n", nearcall_os::process::tid()));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        loop {
            std::hint::black_box(line.len());
        }
    }
    let test = "ptrace::a_thread_is_run_instruction_by_instruction_and_killed_in_between";
    let mut child = partner::start(test, "steps");
    let mut output = child.pipes().stdout.take().unwrap();
    partner::read_until(&mut output, "tid ");
    let tid = partner::read_until(&mut output, "\n").trim().parse().unwrap();
    let mut stepper = match Stepper::seize(child.pid(), tid) {
        Ok(stepper) => stepper,
        Err(refusal @ Refusal::Forbidden { .. }) => {
            return partner::send(&format!("skipped: {refusal}\n"));
        }
        Err(refusal) => panic!("{refusal}"),
    };
    // Up to the read of its input, or from where it was just before.
    let limit = Deadline::after(Duration::from_secs(20));
    while stepper.step(SHORT.unwrap()).unwrap() == Step::Done {
        assert!(!limit.has_passed(), "it does not wait for its input");
    }
    child.pipes().stdin.take().unwrap().write_all(b"go\n").unwrap();
    for _ in 0..1000 {
        assert_eq!(stepper.step(limit).unwrap(), Step::Done);
    }
    stepper.kill(child.pidfd()).unwrap();
    let status = child.wait(PATIENCE).unwrap().expect("it was killed");
    assert!(!status.success(), "{status}");
}
