//! What a short message costs by design: system calls, sleeps, copies. Declared here, counted by
//! `nearcall profile`, and compared in a test of `nearcall-bench`.
//!
//! Short means that it travels in one fragment and that there is room for it. Data only; what costs
//! nothing is not listed.

use super::Mechanism;
use crate::wait::WaitPolicy;

/// The costs of one exchange for an end: it sends one short message and receives one.
///
/// See [`Mechanism::costs`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// The system calls that it makes.
    pub calls: &'static [Calls],
    /// The most sleeps. Each sleep is one wake-up by the other end.
    pub sleeps_max: f64,
}

/// A system call and how often it is made for one exchange.
///
/// Listed by [`Costs::calls`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Calls {
    /// Its name in the kernel.
    pub name: &'static str,
    /// Fewer are not needed: a sleep that the other end made unnecessary is none.
    pub least: f64,
    /// More only when something is tried without result.
    pub most: f64,
}

/// The number of copies of the bytes of a short message on their way.
///
/// See [`Mechanism::copies`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copies {
    /// Copies by the kernel.
    pub kernel: u8,
    /// In user space by the mechanism itself, however it is used.
    pub inside: u8,
    /// In user space by [`Endpoint::send`](crate::Endpoint::send); none of a message that is
    /// written in place.
    pub send: u8,
    /// In user space into the caller's memory; none of a message that is read in place.
    pub receive: u8,
    /// Whether the results of system calls name the bytes that the kernel copies, so that they can
    /// be counted from outside.
    pub kernel_is_countable: bool,
}

impl Mechanism {
    /// Returns the costs of one exchange for each end with this wait policy. `None` where nothing
    /// is promised: an event loop decides itself how often it looks, and so does an end of a
    /// kernel object that spins.
    pub fn costs(self, wait: WaitPolicy) -> Option<Costs> {
        if !self.waits().contains(&wait) {
            return None;
        }
        let sleeps_max = match self {
            // The mutex may be taken when the sleeper wakes.
            Self::ShmCondvar | Self::ShmMq => 3.0,
            _ => 1.0,
        };
        match (self, wait) {
            // A yield for each 4,096 polls: of an end whose other end has no CPU at the time.
            (Self::Shm | Self::ShmSpin, WaitPolicy::Spin) => {
                Some(Costs { calls: const { &[at_most_once("sched_yield")] }, sleeps_max: 0.0 })
            }
            (_, WaitPolicy::Block | WaitPolicy::Adaptive) => {
                Some(Costs { calls: self.blocking_calls(), sleeps_max })
            }
            (_, WaitPolicy::Spin | WaitPolicy::Poll) => None,
        }
    }

    /// Returns the number of copies of the payload on its way from one end to the other.
    pub fn copies(self) -> Copies {
        let copies = |kernel, inside, receive| Copies {
            kernel,
            inside,
            send: 1,
            receive,
            kernel_is_countable: true,
        };
        match self {
            Self::Pipe
            | Self::Fifo
            | Self::UnixStream
            | Self::UnixSeqpacket
            | Self::UnixDgram
            | Self::Tcp
            | Self::Udp
            | Self::PosixMq
            | Self::SysvMq => copies(2, 0, 1),
            // The results lie in the completion queue.
            Self::Uring => Copies { kernel_is_countable: false, ..copies(2, 0, 1) },
            // The pipe refers to the sender's pages.
            Self::Vmsplice => copies(1, 0, 1),
            // From the sender's pages into the receiver's memory.
            Self::Cma => copies(1, 0, 0),
            // Into the memory under the lock, and out of it.
            Self::ShmCondvar | Self::ShmMq => copies(0, 2, 1),
            Self::Shm
            | Self::ShmSpin
            | Self::ShmFutex
            | Self::ShmEventfd
            | Self::ShmUnix
            | Self::ShmPipe
            | Self::ShmSignal
            | Self::ShmPosixMq
            | Self::ShmSemaphore => copies(0, 0, 1),
        }
    }

    fn blocking_calls(self) -> &'static [Calls] {
        match self {
            Self::Pipe | Self::Fifo => const { &[once("read"), once("write")] },
            Self::UnixStream | Self::UnixSeqpacket | Self::UnixDgram | Self::Tcp => {
                const { &[once("recvfrom"), once("sendto")] }
            }
            // An acknowledgement for each quarter of the window.
            Self::Udp => const { &[calls("recvfrom", 1.0, 1.25), calls("sendto", 1.0, 1.25)] },
            Self::PosixMq => const { &[once("mq_timedreceive"), once("mq_timedsend")] },
            Self::SysvMq => const { &[once("msgrcv"), once("msgsnd")] },
            Self::Vmsplice => const { &[once("read"), once("vmsplice")] },
            Self::Cma => {
                const {
                    &[
                        once("process_vm_readv"),
                        // After each copy the pidfd is asked whether it was the peer that was read.
                        once("ppoll"),
                        once("recvfrom"),
                        once("sendto"),
                    ]
                }
            }
            Self::Uring => const { &[calls("io_uring_enter", 2.0, 2.0)] },
            // It never blocks.
            Self::ShmSpin => &[],
            // One to sleep and one to wake the other.
            Self::Shm | Self::ShmFutex | Self::ShmSemaphore => {
                const { &[calls("futex", 0.0, 2.0)] }
            }
            Self::ShmEventfd => const { &[at_most_once("read"), at_most_once("write")] },
            Self::ShmUnix => const { &[at_most_once("recvfrom"), at_most_once("sendto")] },
            Self::ShmPipe => const { &[at_most_once("read"), at_most_once("pwritev2")] },
            Self::ShmSignal => const { &[at_most_once("rt_sigtimedwait"), at_most_once("tgkill")] },
            Self::ShmPosixMq => {
                const { &[at_most_once("mq_timedreceive"), at_most_once("mq_timedsend")] }
            }
            // Sleep and wake, and the same for a mutex that is taken.
            Self::ShmCondvar | Self::ShmMq => const { &[calls("futex", 0.0, 6.0)] },
        }
    }
}

const fn once(name: &'static str) -> Calls {
    calls(name, 1.0, 1.0)
}

const fn at_most_once(name: &'static str) -> Calls {
    calls(name, 0.0, 1.0)
}

const fn calls(name: &'static str, least: f64, most: f64) -> Calls {
    Calls { name, least, most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::DataPath;

    #[test]
    fn shared_memory_costs_the_kernel_no_copy_and_a_spinner_no_sleep() {
        for mechanism in Mechanism::all() {
            let shares = mechanism.data_path() == DataPath::SharedMemory;
            assert_eq!(mechanism.copies().kernel == 0, shares, "{mechanism}");
            let spinning = mechanism.costs(WaitPolicy::Spin);
            assert!(spinning.is_none_or(|costs| shares && costs.sleeps_max == 0.0), "{mechanism}");
            let blocks = mechanism.waits().contains(&WaitPolicy::Block);
            assert_eq!(mechanism.costs(WaitPolicy::Block).is_some(), blocks, "{mechanism}");
        }
    }
}
