//! Mechanisms that only the studies used, rebuilt as the papers describe them.
//!
//! They are there to be measured and for nothing else: none of them is offered to programs. Both
//! ends meet as those of a floor do, and run the same measured loops.

use std::fmt;

use nearcall_bench::custom::{
    Bytes, CustomName, CustomSubjects, Failure, Job, Measured, Meeting, OpenedEnd, Role, Unix, open,
};
use nearcall_channel::WaitPolicy;

use crate::cell::{CellSpec, Subject};
use crate::methods::condvar::{AtOnce, ByBytes, Condvars};
use crate::methods::flag::Flags;
use crate::methods::handover::handing_over;
use crate::methods::lines::{PolledUnix, QueueLine, StreamLine};
use crate::methods::mempipe::Mempipe;
use crate::methods::semaphore::Semaphores;
use crate::methods::shmem_pipe::ShmemPipe;
use crate::methods::signals::{CallerLine, ServerLine};

mod buffered;
mod condvar;
mod counter_process;
mod event_loop;
mod flag;
mod handover;
mod lines;
mod mempipe;
mod notice;
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

    /// Returns the method of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(method, _)| method)
    }

    /// Returns what the harness measures.
    #[must_use]
    pub const fn subject(self) -> Subject {
        Subject::Custom(CustomName::new(self.name()))
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

/// All methods, for the harness.
pub struct Methods;

impl CustomSubjects for Methods {
    fn alone(&self, name: &str, job: &Job) -> Option<Result<Measured, Failure>> {
        let is_alone = Method::find(name)? == Method::AllocAlone;
        is_alone.then(|| segment::measure_allocation(job))
    }

    fn open<'a>(
        &self,
        name: &str,
        meeting: &'a Meeting,
        role: Role,
        cell: &CellSpec,
    ) -> OpenedEnd<'a> {
        let Some(method) = Method::find(name) else {
            return Err(Failure::other(format!("no study has {name:?}")));
        };
        let bytes = cell.bytes();
        match method {
            Method::SignalFifo => signal_messages::by_fifo(meeting, role, cell),
            Method::SignalSocket => signal_messages::by_socket(meeting, role, cell),
            Method::AllocSignal if role == Role::Client => {
                handing_over(CallerLine::meet(meeting)?, meeting, role, bytes)
            }
            Method::AllocSignal => handing_over(ServerLine::meet(meeting)?, meeting, role, bytes),
            Method::AllocQueue => {
                handing_over(QueueLine::meet(meeting, role)?, meeting, role, bytes)
            }
            Method::AllocSocket => {
                handing_over(StreamLine(Unix::meet(meeting, role)?), meeting, role, bytes)
            }
            Method::AllocPoll => {
                handing_over(StreamLine(PolledUnix::meet(meeting, role)?), meeting, role, bytes)
            }
            Method::SocketPoll => {
                let polled = Bytes::new(PolledUnix::meet(meeting, role)?, bytes);
                open(polled, meeting, handover::BUFFER_BYTES)
            }
            Method::Flag => open(Flags::meet(meeting, role, cell.kind)?, meeting, 0),
            Method::Mempipe => {
                open(Mempipe::<true>::meet(meeting, role, bytes)?, meeting, mempipe::BUFFER_BYTES)
            }
            Method::MempipeSpin => {
                open(Mempipe::<false>::meet(meeting, role, bytes)?, meeting, mempipe::BUFFER_BYTES)
            }
            Method::ShmemPipe => {
                open(ShmemPipe::meet(meeting, role, bytes)?, meeting, shmem_pipe::BUFFER_BYTES)
            }
            Method::CondvarBytes => buffered::open_end::<Condvars<ByBytes>>(meeting, role, cell),
            Method::CondvarMemcpy => buffered::open_end::<Condvars<AtOnce>>(meeting, role, cell),
            Method::Semaphore => buffered::open_end::<Semaphores>(meeting, role, cell),
            Method::AllocLoop => event_loop::open_end(meeting, role, cell),
            Method::AllocAlone => Err(Failure::other(format!("{method} has no other end"))),
            _ => stream::open_end(method, meeting, role, cell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_back_to_its_method() {
        for (method, name) in Method::ALL {
            assert_eq!((method.name(), Method::find(name)), (name, Some(method)));
            assert!(name.starts_with("study-"));
        }
    }
}
