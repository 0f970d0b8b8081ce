//! Descriptors that travel with a message.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nearcall_os::descriptor::{
    duplicate, is_nonblocking, open_list, open_nonblocking, receive_with_fds, send_with_fds,
    set_nonblocking, try_receive_with_fds, try_send_with_fds,
};
use nearcall_os::{pipe, socket};

use crate::partner;

#[test]
fn descriptors_arrive_in_order_and_close_on_exec() {
    let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    let channel = pipe::create().unwrap();
    let fds = [channel.read.as_fd(), channel.write.as_fd()];
    assert_eq!(send_with_fds(&here, b"two", &fds).unwrap(), 3);
    let mut buffer = [0; 16];
    let received = receive_with_fds(&there, &mut buffer, 2).unwrap();
    assert_eq!((received.bytes, received.fds.len(), received.truncated), (3, 2, false));
    pipe::write(&received.fds[1], b"x").unwrap();
    assert_eq!(pipe::read(&channel.read, &mut buffer).unwrap(), 1);
    for fd in &received.fds {
        assert!(close_on_exec(fd.as_fd()));
    }
    assert!(close_on_exec(duplicate(&received.fds[0]).unwrap().as_fd()));
}

#[test]
fn surplus_descriptors_are_closed_and_reported() {
    for (sent, wanted) in [(1, 0), (2, 1), (3, 1), (4, 3), (32, 5)] {
        let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
        let pipe::Pipe { read, write: mark } = pipe::create().unwrap();
        let fds = vec![mark.as_fd(); sent];
        send_with_fds(&here, b"many", &fds).unwrap();
        drop(mark);
        let mut buffer = [0; 16];
        let received = receive_with_fds(&there, &mut buffer, wanted).unwrap();
        assert!(received.truncated, "{sent} sent, {wanted} wanted");
        assert_eq!(received.fds.len(), wanted);
        drop(received);
        // The end of the pipe is seen only when every copy of its writing end is closed.
        partner::wait_closed(&read);
        assert_eq!(pipe::try_read(&read, &mut buffer).unwrap(), Some(0));
    }
}

#[test]
fn a_message_longer_than_the_buffer_is_reported() {
    let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    send_with_fds(&here, b"long", &[]).unwrap();
    let received = receive_with_fds(&there, &mut [0; 2], 0).unwrap();
    assert_eq!((received.bytes, received.truncated), (2, true));
}

#[test]
fn a_closed_end_gives_zero_bytes_and_a_send_gives_an_error() {
    let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    drop(here);
    partner::wait_closed(&there);
    assert_eq!(receive_with_fds(&there, &mut [0; 2], 1).unwrap().bytes, 0);
    let error = send_with_fds(&there, b"x", &[]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn the_try_forms_do_not_wait() {
    let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    assert!(try_receive_with_fds(&there, &mut [0; 2], 1).unwrap().is_none());
    let block = [0; 4096];
    while try_send_with_fds(&here, &block, &[]).unwrap().is_some() {}
    let too_many = vec![here.as_fd(); 33];
    assert!(try_send_with_fds(&here, b"x", &too_many).is_err());
    assert!(!is_nonblocking(&here).unwrap());
    set_nonblocking(&here, true).unwrap();
    assert!(is_nonblocking(&here).unwrap());
}

#[test]
fn open_descriptors_are_listed_with_what_they_are() {
    let channel = pipe::create().unwrap();
    let list = open_list().unwrap();
    let read = list.iter().find(|(fd, _)| *fd == channel.read.as_raw_fd()).unwrap();
    assert!(read.1.starts_with("pipe:"), "{read:?}");
}

fn close_on_exec(fd: BorrowedFd<'_>) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i64::from_str_radix(flags.trim(), 8).unwrap() & 0o2_000_000 != 0
}

#[test]
fn a_named_pipe_without_a_writer_is_opened_at_once() {
    let path = std::env::temp_dir().join(format!("nearcall-pipe-{}", std::process::id()));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let opened = open_nonblocking(&path);
    std::fs::remove_file(&path).unwrap();
    let opened = opened.unwrap();
    assert!(close_on_exec(opened.as_fd()) && is_nonblocking(&opened).unwrap());
    assert!(open_nonblocking(&path).is_err());
}
