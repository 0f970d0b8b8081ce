//! A stream socket over io_uring.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::uring::{self, Direction, StreamRing};
use nearcall_os::{eventfd, socket};

use crate::partner::{self, PATIENCE, SHORT};

#[test]
fn bytes_pass_both_ways() {
    let Some((mut ring, other)) = ring() else { return };
    ring.send_buffer().unwrap()[..5].copy_from_slice(b"hello");
    ring.queue_send(0..5);
    assert!(ring.send_buffer().is_none(), "the kernel has the buffer");
    assert!(ring.wait(Direction::Send, PATIENCE).unwrap());
    assert_eq!(ring.take(Direction::Send).unwrap(), Some(5));
    let mut buffer = [0; 8];
    assert_eq!(socket::recv(&other, &mut buffer).unwrap(), 5);
    socket::send(&other, b"back").unwrap();
    ring.queue_receive(0..100, false);
    assert!(ring.receive_buffer().is_none());
    assert!(ring.wait(Direction::Receive, PATIENCE).unwrap());
    assert_eq!(ring.take(Direction::Receive).unwrap(), Some(4));
    assert_eq!(&ring.receive_buffer().unwrap()[..4], b"back");
}

#[test]
fn a_receive_that_is_not_done_in_time_stays_under_way() {
    let Some((mut ring, other)) = ring() else { return };
    ring.queue_receive(0..100, false);
    assert!(!ring.wait(Direction::Receive, SHORT).unwrap());
    assert!(!ring.wait(Direction::Receive, Some(Duration::ZERO)).unwrap());
    assert_eq!(ring.take(Direction::Receive).unwrap(), None);
    socket::send(&other, b"late").unwrap();
    assert!(ring.wait(Direction::Receive, None).unwrap());
    assert_eq!(ring.take(Direction::Receive).unwrap(), Some(4));
}

#[test]
fn a_large_send_is_whole_while_the_other_end_reads() {
    let Some((mut ring, other)) = ring() else { return };
    let total = ring.send_buffer().unwrap().len();
    ring.queue_send(0..total);
    ring.queue_receive(0..1, true);
    assert!(!ring.wait(Direction::Send, SHORT).unwrap(), "the socket cannot hold all of it");
    let reader = std::thread::spawn(move || {
        let (mut read, mut buffer) = (0, vec![0; 65_536]);
        while read < total {
            read += socket::recv(&other, &mut buffer).unwrap();
        }
        socket::send(&other, b"!").unwrap();
        other
    });
    assert!(ring.wait(Direction::Send, PATIENCE).unwrap());
    assert_eq!(ring.take(Direction::Send).unwrap(), Some(total));
    assert!(ring.wait(Direction::Receive, PATIENCE).unwrap());
    reader.join().unwrap();
}

#[test]
fn a_closed_end_ends_a_receive_and_breaks_a_send() {
    let Some((mut ring, other)) = ring() else { return };
    ring.queue_receive(0..100, true);
    ring.submit().unwrap();
    drop(other);
    assert!(ring.wait(Direction::Receive, PATIENCE).unwrap());
    assert_eq!(ring.take(Direction::Receive).unwrap(), Some(0));
    ring.queue_send(0..5);
    assert!(ring.wait(Direction::Send, PATIENCE).unwrap());
    let error = ring.take(Direction::Send).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_drop_cancels_what_is_under_way() {
    for submitted in [false, true] {
        let Some((mut ring, other)) = ring() else { return };
        let total = ring.send_buffer().unwrap().len();
        ring.queue_receive(0..100, false);
        ring.queue_send(0..total);
        if submitted {
            ring.submit().unwrap();
        }
        drop(ring);
        drop(other);
    }
}

#[test]
fn a_registered_eventfd_makes_the_ring_pollable() {
    let Some((mut ring, other)) = ring() else { return };
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    ring.register_eventfd(&bell).unwrap();
    ring.queue_receive(0..100, false);
    ring.submit().unwrap();
    assert!(poll_one(&bell, Interest::Readable, SHORT).unwrap().is_none());
    assert!(!ring.is_done(Direction::Receive));
    socket::send(&other, b"ring").unwrap();
    assert!(poll_one(&bell, Interest::Readable, PATIENCE).unwrap().is_some());
    assert!(ring.is_done(Direction::Receive));
    assert_eq!(ring.take(Direction::Receive).unwrap(), Some(4));
}

/// A ring and the other end of its socket; `None`, with the reason printed, where there is none.
fn ring() -> Option<(StreamRing, OwnedFd)> {
    if let Err(refusal) = uring::probe() {
        partner::send(&format!("skipped: {refusal}\n"));
        return None;
    }
    let (here, there) = socket::unix_pair(socket::Kind::Stream).unwrap();
    Some((StreamRing::create(here, 4 << 20, 4096).unwrap(), there))
}
