//! The studies' pipes and sockets: raw bytes, one write for each message.
//!
//! No framing, since both ends know the size. A message is written by one call as far as the kernel
//! takes it, as the papers' programs do. Anonymous pipes and named ones differ in how they are made
//! and opened, not in how bytes move.
//! Not here: writing and reading (`floor/stream.rs`).

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use nearcall_bench::custom::{
    Bytes, Cause, Failure, Meeting, OpenedEnd, Pipes, Role, Stream, Unix, open,
};
use nearcall_os::pipe::{self, End, Pipe};
use nearcall_os::socket;

use crate::cell::CellSpec;
use crate::methods::Method;

/// Opens an end of `method`, which is one of those in this file.
pub(super) fn open_end<'a>(
    method: Method,
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
) -> OpenedEnd<'a> {
    let pipes = |make: fn() -> Result<Pipe, Failure>, buffer_bytes| {
        let pipes = Pipes::meet_over(meeting, role, make)?;
        open(whole(pipes, cell), meeting, buffer_bytes)
    };
    let sockets = |make: fn() -> Result<(OwnedFd, OwnedFd), Failure>, buffer_bytes| {
        let socket = Unix::meet_over(meeting, role, make)?;
        open(whole(socket, cell), meeting, buffer_bytes)
    };
    match method {
        Method::Pipe => pipes(|| Ok(pipe::create()?), PIPE_BYTES),
        Method::Pipe1M => pipes(large_pipe, LARGE_PIPE_BYTES as u64),
        Method::Fifo => pipes(named_pipe, PIPE_BYTES),
        Method::Unix => sockets(|| Ok(socket::unix_pair(socket::Kind::Stream)?), UNIX_BYTES),
        Method::Tcp => sockets(|| Ok(socket::tcp_pair()?), TCP_BYTES),
        Method::TcpNagle => sockets(nagle_pair, TCP_BYTES),
        _ => Err(Failure::other(format!("{method} is no stream"))),
    }
}

/// A connection over the loopback that holds small segments back until what was sent is confirmed.
fn nagle_pair() -> Result<(OwnedFd, OwnedFd), Failure> {
    let (here, there) = socket::tcp_pair()?;
    for end in [&here, &there] {
        socket::set_tcp_nodelay(end, false)?;
    }
    Ok((here, there))
}

fn whole<S: Stream>(stream: S, cell: &CellSpec) -> Bytes<S> {
    Bytes::in_parts(stream, cell.bytes(), cell.bytes())
}

/// A pipe with more room than usual, which the system may refuse.
fn large_pipe() -> Result<Pipe, Failure> {
    let pipe = pipe::create()?;
    let refused = |text: String| Failure { cause: Cause::Unsupported, text };
    let found = pipe::set_size_bytes(&pipe.write, LARGE_PIPE_BYTES)
        .map_err(|error| refused(format!("no pipe of 1 MiB: {error}")))?;
    match found >= LARGE_PIPE_BYTES {
        true => Ok(pipe),
        false => Err(refused(format!("a pipe of {found} bytes instead of 1 MiB"))),
    }
}

/// A named pipe. Its name is gone before it is opened, so nothing stays behind a killed process.
pub(super) fn named_pipe() -> Result<Pipe, Failure> {
    let directory = File::open(std::env::temp_dir())?;
    let fifo = pipe::create_unlinked_fifo(&directory)?;
    let open = |end| pipe::fifo_open(fifo.as_fd(), end);
    // The reading end first: the other cannot be opened without it.
    let read = open(End::Read)?;
    Ok(Pipe { read, write: open(End::Write)? })
}

/// What a pipe holds as the kernel makes it.
pub(super) const PIPE_BYTES: u64 = 64 << 10;

/// What one of the variants asks for: the most that a plain user gets by default.
const LARGE_PIPE_BYTES: usize = 1 << 20;

/// At least the two buffers of a unix socket.
pub(super) const UNIX_BYTES: u64 = 512 << 10;

/// About what the two buffers of a connection over the loopback grow to.
const TCP_BYTES: u64 = 4 << 20;
