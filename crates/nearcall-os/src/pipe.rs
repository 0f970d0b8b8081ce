//! Pipes, and FIFOs that are unlinked before they are opened.
//!
//! Writing to a pipe without a reader raises SIGPIPE, and pipes have no flag against it. A Rust
//! program ignores the signal and gets EPIPE; a C program that loads this library must ignore it.
//! `None` means that the call would block; zero bytes read is the end.
//! **Not here:** pages that travel without a copy (`vmsplice.rs`), waiting (`poll.rs`).

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkfifoat, open, openat, unlinkat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, retry_on_intr};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::deadline::Deadline;
use crate::descriptor::{self, none_if_blocked, set_nonblocking};
use crate::poll::{Interest, poll_one};
use crate::seam;

/// Bytes that a pipe takes in one piece, or not at all.
pub const ATOMIC_BYTES_MAX: usize = rustix::pipe::PIPE_BUF;

/// Both ends of a pipe, blocking and close-on-exec.
#[derive(Debug)]
pub struct Pipe {
    /// The reading end.
    pub read: OwnedFd,
    /// The writing end.
    pub write: OwnedFd,
}

/// An end of a FIFO.
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

/// Returns the capacity of the pipe in bytes (whole pages, each with one write or more).
///
/// # Errors
///
/// The error of the kernel, for what is no pipe.
pub fn size_bytes(pipe: impl AsFd) -> io::Result<usize> {
    Ok(fcntl_getpipe_size(pipe)?)
}

/// Sets the capacity in bytes, and returns the one that it became: rounded up to a power of two of
/// pages.
///
/// # Errors
///
/// EPERM above /proc/sys/fs/pipe-max-size for a plain user, EBUSY when more is in it now.
pub fn set_size_bytes(pipe: impl AsFd, bytes: usize) -> io::Result<usize> {
    fcntl_setpipe_size(&pipe, bytes)?;
    size_bytes(pipe)
}

/// Returns the number of bytes in the pipe.
///
/// # Errors
///
/// The error of the kernel.
pub fn queued_bytes(pipe: impl AsFd) -> io::Result<usize> {
    let bytes = rustix::io::ioctl_fionread(&pipe)?;
    if bytes > 0 {
        seam::note_queued(pipe.as_fd());
    }
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Reads and waits. Zero: all writers have closed.
///
/// # Errors
///
/// The error of the kernel.
pub fn read(pipe: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(&pipe, &mut *buffer))?)
}

/// Writes and waits while the pipe is full. May write less than all.
///
/// # Errors
///
/// EPIPE when the pipe has no reader.
pub fn write(pipe: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::write(&pipe, bytes))?)
}

/// [`read`] that does not wait, on a blocking pipe too.
///
/// Where the kernel has no such call (FIFOs; any pipe under qemu-user), it polls first and then
/// reads: the only reader of the pipe does not wait then either.
///
/// # Errors
///
/// As for [`read`].
pub fn try_read(pipe: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let outcome = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        preadv2(&pipe, &mut parts, u64::MAX, ReadWriteFlags::NOWAIT)
    });
    if !matches!(outcome, Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
        return none_if_blocked(outcome.map_err(io::Error::from));
    }
    match poll_one(&pipe, Interest::Readable, Deadline::NOW)? {
        None => Ok(None),
        Some(_) => none_if_blocked(read(pipe, buffer)),
    }
}

/// [`write()`] that does not wait, on a blocking pipe too. May write less than all.
///
/// Where the kernel has no such call (FIFOs; any pipe under qemu-user), it polls first and writes
/// at most [`ATOMIC_BYTES_MAX`]: the only writer of the pipe does not wait then either.
///
/// # Errors
///
/// As for [`write()`].
pub fn try_write(pipe: impl AsFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    let parts = [IoSlice::new(bytes)];
    let outcome = retry_on_intr(|| pwritev2(&pipe, &parts, u64::MAX, ReadWriteFlags::NOWAIT));
    if !matches!(outcome, Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
        return none_if_blocked(outcome.map_err(io::Error::from));
    }
    match poll_one(&pipe, Interest::Writable, Deadline::NOW)? {
        None => Ok(None),
        Some(_) => none_if_blocked(write(pipe, &bytes[..bytes.len().min(ATOMIC_BYTES_MAX)])),
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
pub fn create_unlinked_fifo(directory: impl AsFd) -> io::Result<OwnedFd> {
    let name = descriptor::random_name(".nearcall-fifo-")?;
    mkfifoat(&directory, &name, Mode::RUSR | Mode::WUSR)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&directory, &name, flags, Mode::empty());
    unlinkat(&directory, &name, AtFlags::empty())?;
    Ok(opened?)
}

/// Opens one end of the FIFO that `fifo` (O_PATH) stands for; a blocking descriptor. Never waits.
///
/// Open the reading end first. The open file is the caller's alone, so O_NONBLOCK may be set on it:
/// then [`read`] and [`write()`] try in one system call, where [`try_read`] and [`try_write`] need
/// three on a FIFO.
///
/// # Errors
///
/// As for [`descriptor::path`]. ENXIO for the writing end while the reading end is not open.
pub fn fifo_open(fifo: BorrowedFd<'_>, end: End) -> io::Result<OwnedFd> {
    let path = descriptor::path(fifo)?;
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
