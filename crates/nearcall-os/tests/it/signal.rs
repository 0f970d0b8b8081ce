//! Signals between threads and from Ctrl-C.

use std::os::unix::process::ExitStatusExt;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::{pid, tid};
use nearcall_os::signal::{self, Interrupt, Signal, SignalSet};

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
