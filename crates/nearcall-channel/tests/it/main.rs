//! What channels promise, tried over every mechanism of the table and between real processes.
//!
//! **Invariants:** a case runs in two processes of its own, everything started has a deadline and
//! is killed by its number, and a mechanism that is not to be had here passes and says why.
//! **Not here:** parsing, judging of fragments and the like, which are tested beside the code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// Gives `$then` each mechanism, with the name of its tests.
macro_rules! for_each_mechanism {
    ($then:ident) => {
        $then! {
            shm Shm,
            pipe Pipe,
            fifo Fifo,
            unix_stream UnixStream,
            unix_seqpacket UnixSeqpacket,
            unix_dgram UnixDgram,
            tcp Tcp,
            udp Udp,
            posix_mq PosixMq,
            sysv_mq SysvMq,
            vmsplice Vmsplice,
            cma Cma,
            uring Uring,
            shm_spin ShmSpin,
            shm_futex ShmFutex,
            shm_eventfd ShmEventfd,
            shm_unix ShmUnix,
            shm_pipe ShmPipe,
            shm_signal ShmSignal,
            shm_posix_mq ShmPosixMq,
            shm_semaphore ShmSemaphore,
            shm_condvar ShmCondvar,
            shm_mq ShmMq,
        }
    };
}
use for_each_mechanism;

mod conformance;
mod document;
#[path = "../../../nearcall-wire/tests/it/golden.rs"]
mod golden;
mod handshake;
mod hostile_region;
mod interrupt;
mod killed_peer;
mod listener;
mod meeting;
mod remote;
mod shm_mixed;
mod support;
mod switch;
mod tuning;
