//! The rows of the table of mechanisms. Data only.
//!
//! A new mechanism is a variant in `mechanism.rs`, a file in `kernel/` or `shm/`, and a row here. A
//! row states what differs from [`KERNEL`] or [`SHM`] and from [`CAPABLE`].
//!
//! **Invariants:** names are unique; each row states name, summary, wake-up and how it is opened. A
//! row that a server offers by default isolates, sleeps in an event loop, survives kills, reports a
//! death, takes nothing of a quota that the server shares with others, and has no open file of
//! which the other end changes the flags so that a call here waits.

use nearcall_os::pshared;

use super::{Capabilities, DataPath, Mechanism, Offered, Row};
use crate::error::Unsupported;
use crate::kernel::{cma, fifo, pipe, posix_mq, sysv_mq, tcp, udp, unix, uring, vmsplice};
use crate::shm::{self, doorbell};
use crate::wait::WaitPolicy::{Adaptive, Block, Poll, Spin};

fn always() -> Result<(), Unsupported> {
    Ok(())
}

/// For what runs locks or semaphores of the C library in shared memory.
fn shared_locks() -> Result<(), Unsupported> {
    pshared::probe().map_err(Unsupported::Missing)
}

/// The capabilities of a mechanism unless its row states otherwise.
const CAPABLE: Capabilities = Capabilities {
    pollable: true,
    needs_spinning: false,
    same_cpu_safe: true,
    descriptor_passing: true,
    survives_oversized: true,
    atomic_message_bytes_max: None,
    isolation: true,
    tells_of_death: true,
    delivers_after_death: true,
    kill_safe: true,
    vanishes_with_both: true,
};

/// A mechanism whose bytes the kernel copies.
const KERNEL: Row = Row {
    mechanism: Mechanism::Pipe,
    name: "",
    summary: "",
    data_path: DataPath::KernelCopies,
    wake_up: "",
    waits: &[Block, Spin, Poll],
    capabilities: CAPABLE,
    offered: Offered::WhenNamed("its row says nothing else"),
    descriptors: 0,
    probe: always,
    offer: pipe::offer,
    accept: pipe::accept,
};

/// A mechanism in memory that both processes map.
const SHM: Row = Row { data_path: DataPath::SharedMemory, waits: &[Block], ..KERNEL };

/// Why a mechanism of pipes is not offered to everybody.
const PIPE_QUOTA: &str = "its buffers count in the pages that all pipes of the server's user may \
                          have (/proc/sys/fs/pipe-user-pages-soft)";

/// Why a mechanism of the internet is not offered to everybody over a unix socket.
const PORTS: &str = "each connection takes ports of the machine, also for a minute after its end; \
                     a server at tcp:// takes the one port that it listens at";

/// Why a mechanism of POSIX queues is not offered to everybody.
const MQ_QUOTA: &str = "a few connections use up the queues that the server's user may have \
                        (RLIMIT_MSGQUEUE), and both ends share them";

/// Why `sysv-mq` is not offered to everybody.
const SYSV: &str = "every process of the server's user may read, fill and remove its queues, of \
                    which the machine has few";

/// Why `cma` is not offered to everybody.
const CMA: &str = "the server reads memory of the client, and such a read can be made to wait \
                   without end";

/// Why `uring` is not offered to everybody.
const URING: &str = "each connection takes rings of the kernel, which count as locked memory of \
                     the server's user on older kernels";

/// Why `shm-futex` is not offered to everybody.
const ONE_SLEEP: &str = "an event loop can sleep in one such connection only, and all others reach \
                         it by a detour";

/// Why `shm-eventfd` is not offered to everybody.
const SHARED_FILE: &str = "both ends share the eventfds: a client can make the server's writes to \
                           them wait without end";

/// Why a mechanism with a lock is not offered to everybody.
const LOCK: &str = "it runs a mutex of the C library in memory that the client writes: a hostile \
                    client can hold it without end, or have the server write to addresses of its \
                    choice";

/// In the order in which they are listed to users.
pub(super) static ROWS: &[Row] = &[
    Row {
        mechanism: Mechanism::Shm,
        offered: Offered::ByDefault,
        name: "shm",
        summary: "a ring in shared memory; the waiter spins while that pays, then sleeps",
        wake_up: "futex or unix socket",
        waits: &[Adaptive, Spin, Block, Poll],
        offer: shm::offer::<doorbell::futex_or_fd::FutexOrFdDoorbell>,
        accept: shm::accept::<doorbell::futex_or_fd::FutexOrFdDoorbell>,
        descriptors: 1,
        ..SHM
    },
    Row {
        mechanism: Mechanism::Pipe,
        offered: Offered::WhenNamed(PIPE_QUOTA),
        name: "pipe",
        summary: "two anonymous pipes, one for each direction",
        wake_up: "the pipe itself",
        offer: pipe::offer,
        accept: pipe::accept,
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Fifo,
        offered: Offered::WhenNamed(PIPE_QUOTA),
        name: "fifo",
        summary: "two named pipes; their names are removed before the first message",
        wake_up: "the named pipe itself",
        probe: fifo::probe,
        offer: fifo::offer,
        accept: fifo::accept,
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::UnixStream,
        offered: Offered::ByDefault,
        name: "unix-stream",
        summary: "a pair of unix stream sockets",
        wake_up: "the socket itself",
        offer: unix::offer_stream,
        accept: unix::accept_stream,
        descriptors: 1,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::UnixSeqpacket,
        offered: Offered::ByDefault,
        name: "unix-seqpacket",
        summary: "a pair of unix sockets that keep message boundaries",
        wake_up: "the socket itself",
        offer: unix::offer_seqpacket,
        accept: unix::accept_seqpacket,
        capabilities: Capabilities { atomic_message_bytes_max: Some(64 << 10), ..CAPABLE },
        descriptors: 1,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::UnixDgram,
        offered: Offered::ByDefault,
        name: "unix-dgram",
        summary: "a pair of unix datagram sockets",
        wake_up: "the socket itself",
        offer: unix::offer_dgram,
        accept: unix::accept_dgram,
        capabilities: Capabilities {
            atomic_message_bytes_max: Some(64 << 10),
            tells_of_death: false,
            ..CAPABLE
        },
        descriptors: 1,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Tcp,
        offered: Offered::WhenNamed(PORTS),
        name: "tcp",
        summary: "TCP over the loopback interface, without Nagle's delay",
        wake_up: "the socket itself",
        probe: tcp::probe,
        offer: tcp::offer,
        accept: tcp::accept,
        capabilities: Capabilities { delivers_after_death: false, ..CAPABLE },
        descriptors: 1,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Udp,
        offered: Offered::WhenNamed(PORTS),
        name: "udp",
        summary: "UDP over the loopback interface, with credits so that nothing is lost",
        wake_up: "the socket itself",
        probe: udp::probe,
        offer: udp::offer,
        accept: udp::accept,
        capabilities: Capabilities {
            atomic_message_bytes_max: Some(61_424),
            tells_of_death: false,
            ..CAPABLE
        },
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::PosixMq,
        offered: Offered::WhenNamed(MQ_QUOTA),
        name: "posix-mq",
        summary: "two POSIX message queues without a name",
        wake_up: "the queue itself",
        probe: posix_mq::probe,
        offer: posix_mq::offer,
        accept: posix_mq::accept,
        capabilities: Capabilities {
            atomic_message_bytes_max: Some(8_184),
            isolation: false,
            tells_of_death: false,
            ..CAPABLE
        },
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::SysvMq,
        offered: Offered::WhenNamed(SYSV),
        name: "sysv-mq",
        summary: "two System V message queues",
        wake_up: "the queue itself",
        waits: &[Block, Spin],
        probe: sysv_mq::probe,
        offer: sysv_mq::offer,
        accept: sysv_mq::accept,
        capabilities: Capabilities {
            pollable: false,
            atomic_message_bytes_max: Some(8_184),
            isolation: false,
            tells_of_death: false,
            vanishes_with_both: false,
            ..CAPABLE
        },
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Vmsplice,
        offered: Offered::WhenNamed(PIPE_QUOTA),
        name: "vmsplice",
        summary: "the sender's pages are spliced into a pipe; only the receiver copies",
        wake_up: "the pipe itself",
        probe: vmsplice::probe,
        offer: vmsplice::offer,
        accept: vmsplice::accept,
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Cma,
        offered: Offered::WhenNamed(CMA),
        name: "cma",
        summary: "the receiver reads the sender's memory (process_vm_readv)",
        wake_up: "a unix socket",
        probe: cma::probe,
        offer: cma::offer,
        accept: cma::accept,
        capabilities: Capabilities { delivers_after_death: false, ..CAPABLE },
        descriptors: 1,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::Uring,
        offered: Offered::WhenNamed(URING),
        name: "uring",
        summary: "a pair of unix stream sockets driven by io_uring",
        wake_up: "a completion",
        probe: uring::probe,
        offer: uring::offer,
        accept: uring::accept,
        descriptors: 2,
        ..KERNEL
    },
    Row {
        mechanism: Mechanism::ShmSpin,
        offered: Offered::WhenNamed("one idle client keeps a CPU of the server busy"),
        name: "shm-spin",
        summary: "a ring in shared memory; the waiter spins",
        wake_up: "none: the waiter spins",
        waits: &[Spin],
        offer: shm::offer::<doorbell::spin::Spin>,
        accept: shm::accept::<doorbell::spin::Spin>,
        capabilities: Capabilities {
            pollable: false,
            needs_spinning: true,
            same_cpu_safe: false,
            tells_of_death: false,
            ..CAPABLE
        },
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmFutex,
        offered: Offered::WhenNamed(ONE_SLEEP),
        name: "shm-futex",
        summary: "a ring in shared memory; the waiter sleeps on a futex",
        wake_up: "futex",
        offer: shm::offer::<doorbell::futex::Futex>,
        accept: shm::accept::<doorbell::futex::Futex>,
        capabilities: Capabilities { pollable: false, tells_of_death: false, ..CAPABLE },
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmEventfd,
        offered: Offered::WhenNamed(SHARED_FILE),
        name: "shm-eventfd",
        summary: "a ring in shared memory; the waiter sleeps on an eventfd",
        wake_up: "eventfd",
        waits: &[Block, Poll],
        offer: shm::offer::<doorbell::fd::FdDoorbell<doorbell::fd::Eventfd>>,
        accept: shm::accept::<doorbell::fd::FdDoorbell<doorbell::fd::Eventfd>>,
        capabilities: Capabilities { isolation: false, tells_of_death: false, ..CAPABLE },
        descriptors: 2,
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmUnix,
        offered: Offered::ByDefault,
        name: "shm-unix",
        summary: "a ring in shared memory; the waiter sleeps on a unix socket",
        wake_up: "a byte on a unix socket",
        waits: &[Block, Poll],
        offer: shm::offer::<doorbell::fd::FdDoorbell<doorbell::fd::Unix>>,
        accept: shm::accept::<doorbell::fd::FdDoorbell<doorbell::fd::Unix>>,
        descriptors: 1,
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmPipe,
        offered: Offered::WhenNamed(PIPE_QUOTA),
        name: "shm-pipe",
        summary: "a ring in shared memory; the waiter sleeps on a pipe",
        wake_up: "a byte in a pipe",
        waits: &[Block, Poll],
        offer: shm::offer::<doorbell::fd::FdDoorbell<doorbell::fd::Pipe>>,
        accept: shm::accept::<doorbell::fd::FdDoorbell<doorbell::fd::Pipe>>,
        descriptors: 2,
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmSignal,
        offered: Offered::WhenNamed(
            "it changes signal masks and takes a real-time signal of the whole process",
        ),
        name: "shm-signal",
        summary: "a ring in shared memory; the waiter sleeps until a signal",
        wake_up: "a signal to the sleeper",
        waits: &[Block, Poll],
        offer: shm::offer::<doorbell::signal::Signal>,
        accept: shm::accept::<doorbell::signal::Signal>,
        capabilities: Capabilities { tells_of_death: false, ..CAPABLE },
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmPosixMq,
        offered: Offered::WhenNamed(MQ_QUOTA),
        name: "shm-posix-mq",
        summary: "a ring in shared memory; the waiter sleeps on a POSIX queue",
        wake_up: "a byte in a POSIX queue",
        waits: &[Block, Poll],
        probe: doorbell::fd::probe_posix_mq,
        offer: shm::offer::<doorbell::fd::FdDoorbell<doorbell::fd::PosixMq>>,
        accept: shm::accept::<doorbell::fd::FdDoorbell<doorbell::fd::PosixMq>>,
        capabilities: Capabilities { isolation: false, tells_of_death: false, ..CAPABLE },
        descriptors: 2,
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmSemaphore,
        offered: Offered::WhenNamed(
            "it runs a semaphore of the C library in memory that the client writes",
        ),
        name: "shm-semaphore",
        summary: "a ring in shared memory; the waiter sleeps on a POSIX semaphore",
        wake_up: "POSIX semaphore",
        probe: shared_locks,
        offer: shm::offer::<doorbell::semaphore::PosixSemaphore>,
        accept: shm::accept::<doorbell::semaphore::PosixSemaphore>,
        capabilities: Capabilities {
            pollable: false,
            isolation: false,
            tells_of_death: false,
            ..CAPABLE
        },
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmCondvar,
        offered: Offered::WhenNamed(LOCK),
        name: "shm-condvar",
        summary: "a bounded buffer in shared memory under a mutex, with condition variables",
        wake_up: "condition variable",
        probe: shared_locks,
        offer: shm::monitor::transport::offer::<shm::condvar::BoundedBuffer>,
        accept: shm::monitor::transport::accept::<shm::condvar::BoundedBuffer>,
        capabilities: Capabilities {
            pollable: false,
            isolation: false,
            tells_of_death: false,
            kill_safe: false,
            ..CAPABLE
        },
        ..SHM
    },
    Row {
        mechanism: Mechanism::ShmMq,
        offered: Offered::WhenNamed(LOCK),
        name: "shm-mq",
        summary: "a queue of messages in shared memory under a mutex, the kind that Boost has",
        wake_up: "condition variable",
        probe: shared_locks,
        offer: shm::monitor::transport::offer::<shm::queue::SlotQueue>,
        accept: shm::monitor::transport::accept::<shm::queue::SlotQueue>,
        capabilities: Capabilities {
            pollable: false,
            atomic_message_bytes_max: Some(16 << 10),
            isolation: false,
            tells_of_death: false,
            kill_safe: false,
            ..CAPABLE
        },
        ..SHM
    },
];
