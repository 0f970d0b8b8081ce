//! Signals between threads and from Ctrl-C.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::{Child, pid, tid};
use nearcall_os::signal::{self, Interrupt, Signal, SignalSet, TerminationSignals};
use nearcall_os::socket;

use crate::partner::{self, PATIENCE, SHORT};

#[test]
fn a_blocked_signal_is_waited_for() {
    let set = SignalSet::new(&[Signal::USR1]);
    let before = signal::block(&set).unwrap();
    assert_eq!(signal::wait_for(&set, SHORT).unwrap(), None);
    signal::send_to_thread(pid(), tid(), Signal::USR1).unwrap();
    let info = signal::wait_for(&set, PATIENCE).unwrap().unwrap();
    assert_eq!((info.signal, info.sender_pid), (Signal::USR1.as_raw(), pid()));
    signal::set_mask(&before).unwrap();
}

#[test]
fn a_blocked_signal_is_read_from_a_descriptor() {
    let set = SignalSet::new(&[Signal::USR2]);
    signal::block(&set).unwrap();
    let fd = signal::signalfd(&set).unwrap();
    assert!(poll_one(&fd, Interest::Readable, SHORT).unwrap().is_none());
    signal::send_to_thread(pid(), tid(), Signal::USR2).unwrap();
    let info = signal::signalfd_read(&fd).unwrap();
    assert_eq!((info.signal, info.sender_pid), (Signal::USR2.as_raw(), pid()));
    let inside = signal::unblock(&set).unwrap();
    assert!(inside.contains(Signal::USR2) && !inside.contains(Signal::USR1));
}

#[test]
fn a_socket_that_becomes_ready_sends_a_signal_to_the_process_that_was_named() {
    let mut named = Child::spawn(Command::new("sleep").arg("1000")).unwrap();
    let (here, there) = socket::unix_pair(socket::Kind::Stream).unwrap();
    signal::send_when_ready(&here, named.pid().cast_signed()).unwrap();
    socket::send(&there, &[1]).unwrap();
    let status = named.wait(PATIENCE).unwrap().expect("it is ended by the signal");
    assert_eq!(status.signal(), Some(Signal::IO.as_raw()));
}

#[test]
fn the_first_interrupt_is_a_flag_and_the_second_kills() {
    if partner::role().is_some() {
        return wait_to_be_interrupted();
    }
    let mut child = partner::start(
        "signal::the_first_interrupt_is_a_flag_and_the_second_kills",
        "wait to be interrupted",
    );
    let mut output = child.pipes().stdout.take().unwrap();
    partner::read_until(&mut output, "installed");
    signal::send_by_pidfd(child.pidfd(), Signal::INT).unwrap();
    partner::read_until(&mut output, "interrupted");
    signal::send_by_pidfd(child.pidfd(), Signal::INT).unwrap();
    let status = child.wait(PATIENCE).unwrap().unwrap();
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
}

fn wait_to_be_interrupted() {
    let interrupt = Interrupt::install().unwrap();
    assert!(!interrupt.interrupted());
    partner::send("installed");
    poll_one(interrupt.fd(), Interest::Readable, PATIENCE).unwrap().unwrap();
    assert!(interrupt.interrupted());
    partner::send("interrupted");
    // Only the second signal ends this, or the parent, or the deadline.
    let pipe = nearcall_os::pipe::create().unwrap();
    poll_one(&pipe.read, Interest::Readable, PATIENCE).unwrap();
}

#[test]
fn the_first_request_to_end_is_reported_and_the_second_of_either_kind_kills() {
    if partner::role().is_some() {
        return wait_to_be_terminated();
    }
    for [first, second] in [[Signal::TERM, Signal::TERM], [Signal::INT, Signal::TERM]] {
        let mut child = partner::start(
            "signal::the_first_request_to_end_is_reported_and_the_second_of_either_kind_kills",
            "wait to be terminated",
        );
        let mut output = child.pipes().stdout.take().unwrap();
        for _ in 0..2 {
            partner::read_until(&mut output, "installed");
            signal::send_by_pidfd(child.pidfd(), first).unwrap();
            partner::read_until(&mut output, "terminated");
        }
        signal::send_by_pidfd(child.pidfd(), second).unwrap();
        let status = child.wait(PATIENCE).unwrap().unwrap();
        assert_eq!(status.signal(), Some(second.as_raw()));
    }
}

fn wait_to_be_terminated() {
    // What holds again when the first two are dropped.
    let before = Interrupt::install().unwrap();
    let both = [TerminationSignals::install().unwrap(), TerminationSignals::install().unwrap()];
    let is_readable = |fd, patience| poll_one(fd, Interest::Readable, patience).unwrap().is_some();
    assert!(!is_readable(both[0].fd(), SHORT));
    partner::send("installed");
    assert!(both.iter().all(|one| is_readable(one.fd(), PATIENCE)));
    drop(both);
    assert!(!before.interrupted());
    // A new one has its own first signal.
    let again = TerminationSignals::install().unwrap();
    assert!(!is_readable(again.fd(), SHORT));
    partner::send("terminated");
    partner::send("installed");
    assert!(is_readable(again.fd(), PATIENCE));
    partner::send("terminated");
    // Only the second signal ends this, or the parent, or the deadline.
    let pipe = nearcall_os::pipe::create().unwrap();
    poll_one(&pipe.read, Interest::Readable, PATIENCE).unwrap();
}
