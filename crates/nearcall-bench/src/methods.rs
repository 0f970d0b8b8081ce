//! Mechanisms that only the studies used, rebuilt as the papers describe them.
//!
//! They are there to be measured and for nothing else: none of them is offered to programs. Both
//! ends meet as those of a floor do, and run the same measured loops.

use std::fmt;
use std::str::FromStr;

use nearcall_channel::WaitPolicy;

use crate::cell::CellSpec;
use crate::exchange::Failure;
use crate::exchange::client::{Job, Measured};
use crate::floor::meeting::Meeting;
use crate::launch::Role;
use crate::methods::buffered::Buffered;
use crate::methods::condvar::{AtOnce, ByBytes, Condvars};
use crate::methods::flag::Flags;
use crate::methods::mempipe::Mempipe;
use crate::methods::semaphore::Semaphores;
use crate::methods::shmem_pipe::ShmemPipe;
use crate::peer::Opened;

mod buffered;
mod condvar;
mod counter_process;
pub(crate) mod event_loop;
mod flag;
mod handover;
mod lines;
mod mempipe;
mod segment;
mod semaphore;
mod shmem_pipe;
mod signal_messages;
mod signals;
mod stream;

/// A mechanism of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// One anonymous pipe each way.
    Pipe,
    /// The same with room for 1 MiB in each.
    Pipe1M,
    /// A unix stream socket.
    Unix,
    /// TCP over the loopback, without Nagle's delay.
    Tcp,
    /// TCP over the loopback as the kernel opens it, with Nagle's delay.
    TcpNagle,
    /// One named pipe each way.
    Fifo,
    /// Two flags in shared memory; two round trips each time, no payload.
    Flag,
    /// A ring in shared memory whose reader sleeps on a futex.
    Mempipe,
    /// The same ring, and both ends spin.
    MempipeSpin,
    /// Payload in a shared heap; where it lies goes through one pipe, and back through another.
    ShmemPipe,
    /// Allocated signals with a header, by named pipes.
    SignalFifo,
    /// Allocated signals with a header, by a unix socket.
    SignalSocket,
    /// A bounded buffer with mutex and condition variable, filled byte by byte under the lock.
    CondvarBytes,
    /// The same, copied at once.
    CondvarMemcpy,
    /// One buffer between semaphores.
    Semaphore,
    /// Payload in a segment, allocated for each call; the handle in a call to an event loop.
    AllocLoop,
    /// The same; the handle as a named object, and signals tell of it.
    AllocSignal,
    /// The same; the handle through locked queues in shared memory.
    AllocQueue,
    /// The same; the handle through a socket that both ends block on.
    AllocSocket,
    /// The same, with poll before each receive.
    AllocPoll,
    /// No segment: the payload through the socket, with poll before each receive.
    SocketPoll,
    /// Allocating a message in the segment and freeing it, and nothing else.
    AllocAlone,
}

impl Method {
    /// All of them in the order above, each with its name in stored runs, which says that it is
    /// none of nearcall's.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::Pipe, "study-pipe"),
        (Self::Pipe1M, "study-pipe-1m"),
        (Self::Unix, "study-unix"),
        (Self::Tcp, "study-tcp"),
        (Self::TcpNagle, "study-tcp-nagle"),
        (Self::Fifo, "study-fifo"),
        (Self::Flag, "study-flag"),
        (Self::Mempipe, "study-mempipe"),
        (Self::MempipeSpin, "study-mempipe-spin"),
        (Self::ShmemPipe, "study-shmem-pipe"),
        (Self::SignalFifo, "study-signal-fifo"),
        (Self::SignalSocket, "study-signal-socket"),
        (Self::CondvarBytes, "study-condvar-bytes"),
        (Self::CondvarMemcpy, "study-condvar-memcpy"),
        (Self::Semaphore, "study-semaphore"),
        (Self::AllocLoop, "study-alloc-loop"),
        (Self::AllocSignal, "study-alloc-signal"),
        (Self::AllocQueue, "study-alloc-queue"),
        (Self::AllocSocket, "study-alloc-socket"),
        (Self::AllocPoll, "study-alloc-poll"),
        (Self::SocketPoll, "study-socket-poll"),
        (Self::AllocAlone, "study-alloc-alone"),
    ];

    /// Its name in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// How its ends wait, as it is stored.
    #[must_use]
    pub const fn wait(self) -> WaitPolicy {
        match self {
            Self::Flag | Self::MempipeSpin => WaitPolicy::Spin,
            Self::AllocPoll | Self::SocketPoll | Self::AllocLoop => WaitPolicy::Poll,
            _ => WaitPolicy::Block,
        }
    }

    /// Whether it stays within one process, so that there is no other end.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::AllocAlone)
    }

    /// Whether it only works while both ends hold a CPU.
    #[must_use]
    pub const fn needs_two_cpus(self) -> bool {
        matches!(self.wait(), WaitPolicy::Spin)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(_, known)| *known == name);
        found.map(|(method, _)| method).ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// A word that names no method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMethod(pub String);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown method {:?}", self.0)
    }
}

impl std::error::Error for UnknownMethod {}

/// Measures a method that stays within one process.
pub(crate) fn alone(method: Method, job: &Job) -> Result<Measured, Failure> {
    match method {
        Method::AllocAlone => segment::measure_allocation(job),
        _ => Err(Failure::other(format!("{method} has another end"))),
    }
}

/// Opens an end of `method`.
pub(crate) fn open<'a>(
    method: Method,
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
) -> Result<Box<dyn Opened + 'a>, Failure> {
    match method {
        Method::Pipe
        | Method::Pipe1M
        | Method::Unix
        | Method::Tcp
        | Method::TcpNagle
        | Method::Fifo => stream::open(method, meeting, role, cell),
        Method::SignalFifo => signal_messages::by_fifo(meeting, role, cell),
        Method::SignalSocket => signal_messages::by_socket(meeting, role, cell),
        Method::AllocSignal
        | Method::AllocQueue
        | Method::AllocSocket
        | Method::AllocPoll
        | Method::SocketPoll => handover::open(method, meeting, role, cell),
        Method::Flag => counter_process::open(Flags::meet(meeting, role, cell.kind)?, meeting, 0),
        Method::Mempipe => {
            let end = Mempipe::<true>::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, mempipe::BUFFER_BYTES)
        }
        Method::MempipeSpin => {
            let end = Mempipe::<false>::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, mempipe::BUFFER_BYTES)
        }
        Method::ShmemPipe => {
            let end = ShmemPipe::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, shmem_pipe::BUFFER_BYTES)
        }
        Method::CondvarBytes => {
            let end = Buffered::<Condvars<ByBytes>>::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, cell.message_bytes)
        }
        Method::CondvarMemcpy => {
            let end = Buffered::<Condvars<AtOnce>>::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, cell.message_bytes)
        }
        Method::Semaphore => {
            let end = Buffered::<Semaphores>::meet(meeting, role, cell.bytes())?;
            counter_process::open(end, meeting, cell.message_bytes)
        }
        // Not by two ends of this kind (`peer.rs`).
        Method::AllocLoop | Method::AllocAlone => {
            Err(Failure::other(format!("{method} has no ends that meet")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_parsed_back_to_its_method() {
        for (method, name) in Method::ALL {
            assert_eq!((method.name(), name.parse()), (name, Ok(method)));
            assert!(name.starts_with("study-"));
        }
    }
}
