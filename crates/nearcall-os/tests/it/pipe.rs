//! Pipes and FIFOs.

use std::os::fd::AsFd;

use nearcall_os::pipe::{self, End};

use crate::partner;

#[test]
fn a_blocking_pipe_can_be_tried() {
    let pipe = pipe::create().unwrap();
    let mut buffer = [0; 4096];
    assert_eq!(pipe::try_read(&pipe.read, &mut buffer).unwrap(), None);
    let mut sent = 0;
    while let Some(bytes) = pipe::try_write(&pipe.write, &buffer).unwrap() {
        sent += bytes;
    }
    assert_eq!(sent, pipe::size_bytes(&pipe.read).unwrap());
    assert_eq!(pipe::queued_bytes(&pipe.read).unwrap(), sent);
    assert_eq!(pipe::try_read(&pipe.read, &mut buffer).unwrap(), Some(4096));
    assert!(!nearcall_os::descriptor::is_nonblocking(&pipe.read).unwrap());
}

#[test]
fn the_size_becomes_what_the_kernel_grants() {
    let pipe = pipe::create().unwrap();
    assert_eq!(pipe::set_size_bytes(&pipe.write, 5000).unwrap(), 8192);
    assert_eq!(pipe::size_bytes(&pipe.read).unwrap(), 8192);
}

#[test]
fn a_pipe_without_a_reader_is_an_error_and_no_signal() {
    let pipe = pipe::create().unwrap();
    drop(pipe.read);
    partner::wait_closed(&pipe.write);
    let error = pipe::write(&pipe.write, b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    let error = pipe::try_write(&pipe.write, b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_fifo_works_after_its_name_is_gone() {
    let path = std::env::temp_dir().join(format!("nearcall-os-fifo-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    let directory = std::fs::File::open(&path).unwrap();
    let fifo = pipe::create_unlinked_fifo(&directory);
    // Fails if a name is left.
    std::fs::remove_dir(&path).unwrap();
    let fifo = fifo.unwrap();
    let error = pipe::fifo_open(fifo.as_fd(), End::Write).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(6), "ENXIO expected: {error}");
    let read = pipe::fifo_open(fifo.as_fd(), End::Read).unwrap();
    let write = pipe::fifo_open(fifo.as_fd(), End::Write).unwrap();
    let mut buffer = [0; 8192];
    assert_eq!(pipe::try_read(&read, &mut buffer).unwrap(), None);
    let mut sent = 0;
    while let Some(bytes) = pipe::try_write(&write, &buffer).unwrap() {
        sent += bytes;
    }
    assert_eq!(sent, pipe::size_bytes(&read).unwrap());
    assert!(pipe::try_read(&read, &mut buffer).unwrap().unwrap() > 0);
    drop(write);
    while pipe::read(&read, &mut buffer).unwrap() > 0 {}
}
