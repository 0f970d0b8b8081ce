//! Pipes, and FIFOs that lose their name before anybody opens them.
//!
//! Writing to a pipe nobody reads raises SIGPIPE, and pipes have no flag against it. A Rust program
//! ignores the signal and gets EPIPE; a C program that loads us must ignore it itself.
//! `None` means "not now"; zero bytes read is the end.
//! Not here: pages that travel without a copy (`vmsplice.rs`), waiting (`poll.rs`).

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkfifoat, open, openat, unlinkat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, retry_on_intr};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::deadline::Deadline;
use crate::descriptor::{not_now, set_nonblocking};
use crate::poll::{Interest, poll_one};

/// Bytes that a pipe takes in one piece, or not at all.
pub const ATOMIC_BYTES_MAX: usize = rustix::pipe::PIPE_BUF;

/// Both ends of a pipe, blocking and close-on-exec.
#[derive(Debug)]
pub struct Pipe {
    /// What is read comes from here.
    pub read: OwnedFd,
    /// What is written goes here.
    pub write: OwnedFd,
}

/// Which end of a FIFO to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The reading end.
    Read,
    /// The writing end.
    Write,
}

/// A new pipe. Its size is 64 KiB unless the user has too many pages in pipes.
///
/// # Errors
///
/// EMFILE when this process has no room for two descriptors.
pub fn create() -> io::Result<Pipe> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(Pipe { read, write })
}

/// How many bytes the pipe holds at most (in whole pages, each with one write or more).
///
/// # Errors
///
/// The kernel's, for what is no pipe.
pub fn size_bytes(pipe: impl AsFd) -> io::Result<usize> {
    Ok(fcntl_getpipe_size(pipe)?)
}

/// Asks for a size and says which one it became: rounded up to a power of two of pages.
///
/// # Errors
///
/// EPERM above /proc/sys/fs/pipe-max-size for a plain user, EBUSY when more is in it now.
pub fn set_size_bytes(pipe: impl AsFd, bytes: usize) -> io::Result<usize> {
    fcntl_setpipe_size(&pipe, bytes)?;
    size_bytes(pipe)
}

/// How many bytes wait in the pipe.
///
/// # Errors
///
/// The kernel's.
pub fn queued_bytes(pipe: impl AsFd) -> io::Result<usize> {
    let bytes = rustix::io::ioctl_fionread(pipe)?;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Reads and waits. Zero: all writers have closed.
///
/// # Errors
///
/// The kernel's.
pub fn read(pipe: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(&pipe, &mut *buffer))?)
}

/// Writes and waits while the pipe is full. May write less than all.
///
/// # Errors
///
/// EPIPE when nobody reads.
pub fn write(pipe: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::write(&pipe, bytes))?)
}

/// [`read`] that does not wait, on a blocking pipe too.
///
/// Where the kernel cannot do that (FIFOs), it asks first and then reads: the only reader of the
/// pipe does not wait then either.
///
/// # Errors
///
/// As [`read`].
pub fn read_now(pipe: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let outcome = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        preadv2(&pipe, &mut parts, u64::MAX, ReadWriteFlags::NOWAIT)
    });
    if outcome != Err(Errno::OPNOTSUPP) {
        return not_now(outcome.map_err(io::Error::from));
    }
    match poll_one(&pipe, Interest::Readable, Deadline::NOW)? {
        None => Ok(None),
        Some(_) => not_now(read(pipe, buffer)),
    }
}

/// [`write()`] that does not wait, on a blocking pipe too. May write less than all.
///
/// Where the kernel cannot do that (FIFOs), it asks first and writes at most
/// [`ATOMIC_BYTES_MAX`]: the only writer of the pipe does not wait then either.
///
/// # Errors
///
/// As [`write()`].
pub fn write_now(pipe: impl AsFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    let parts = [IoSlice::new(bytes)];
    let outcome = retry_on_intr(|| pwritev2(&pipe, &parts, u64::MAX, ReadWriteFlags::NOWAIT));
    if outcome != Err(Errno::OPNOTSUPP) {
        return not_now(outcome.map_err(io::Error::from));
    }
    match poll_one(&pipe, Interest::Writable, Deadline::NOW)? {
        None => Ok(None),
        Some(_) => not_now(write(pipe, &bytes[..bytes.len().min(ATOMIC_BYTES_MAX)])),
    }
}

/// Makes a FIFO in `directory`, takes hold of it and removes its name at once.
///
/// The descriptor (O_PATH) can be sent to another process; both then open their ends by
/// [`fifo_open`]. A kill between the two calls inside leaves a name behind; nothing else does.
///
/// # Errors
///
/// EACCES or EROFS when the directory cannot be written.
pub fn fifo_unnamed(directory: impl AsFd) -> io::Result<OwnedFd> {
    let name = crate::descriptor::random_name(".nearcall-fifo-")?;
    mkfifoat(&directory, &name, Mode::RUSR | Mode::WUSR)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&directory, &name, flags, Mode::empty());
    unlinkat(&directory, &name, AtFlags::empty())?;
    Ok(opened?)
}

/// Opens one end of the FIFO that `fifo` (O_PATH) stands for; a blocking descriptor. Never waits.
///
/// Open the reading end first. The open file is the caller's alone, so O_NONBLOCK may be set on it:
/// then [`read`] and [`write()`] try in one system call, where [`read_now`] and [`write_now`] need
/// three on a FIFO.
///
/// # Errors
///
/// ENXIO for the writing end while nobody has the reading end open. ENOENT without /proc.
pub fn fifo_open(fifo: BorrowedFd<'_>, end: End) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fifo.as_raw_fd());
    let access = match end {
        End::Read => OFlags::RDONLY,
        End::Write => OFlags::WRONLY,
    };
    // Without O_NONBLOCK the open itself would wait for the other end.
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| open(&path, flags, Mode::empty()))?;
    set_nonblocking(&opened, false)?;
    Ok(opened)
}
