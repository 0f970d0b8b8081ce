//! Which system calls fail, by chance from the seed.
//!
//! **Invariants:** a call fails only as the kernel could let it fail; nothing fails while all
//! chances are zero.
//! **Not here:** who runs next (`simulation.rs`).

use rustix::io::Errno;

use crate::system_call::Call;

/// How often things go wrong: chances in a million for each system call that could.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A signal interrupts the call.
    pub interrupted: u32,
    /// A call that must not wait finds no room or nothing there.
    pub blocked: u32,
    /// A stream moves a part of the bytes only.
    pub partial: u32,
    /// The connection breaks.
    pub reset: u32,
    /// No memory, also for what is sent, or no watch of an epoll is left.
    pub no_memory: u32,
    /// No descriptor is left.
    pub no_descriptor: u32,
    /// A connect is refused, or a client has left the queue.
    pub refused: u32,
    /// A sleeper wakes up without a reason.
    pub spurious: u32,
    /// Time passes before the call.
    pub delay: u32,
}

/// How often each thing went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Injected {
    /// [`Faults::interrupted`].
    pub interrupted: u64,
    /// [`Faults::blocked`].
    pub blocked: u64,
    /// [`Faults::partial`].
    pub partial: u64,
    /// [`Faults::reset`].
    pub reset: u64,
    /// [`Faults::no_memory`].
    pub no_memory: u64,
    /// [`Faults::no_descriptor`].
    pub no_descriptor: u64,
    /// [`Faults::refused`].
    pub refused: u64,
    /// [`Faults::spurious`].
    pub spurious: u64,
    /// [`Faults::delay`].
    pub delay: u64,
    /// Bytes of packets and words of memory that a hostile process has changed.
    pub mangled: u64,
}

impl Injected {
    /// All counts, in the order of the fields.
    #[must_use]
    pub fn counts(&self) -> [u64; 10] {
        let Self { interrupted, blocked, partial, reset, no_memory, .. } = *self;
        let Self { no_descriptor, refused, spurious, delay, mangled, .. } = *self;
        [
            interrupted,
            blocked,
            partial,
            reset,
            no_memory,
            no_descriptor,
            refused,
            spurious,
            delay,
            mangled,
        ]
    }
}

/// What a call does instead of its work.
#[derive(Debug)]
pub(super) enum Fault {
    Fails(Errno),
    /// The connection is shut down before the call.
    Breaks,
}

/// Chances, counts, and the numbers that decide.
pub(super) struct Dice {
    pub(super) random: fastrand::Rng,
    pub(super) faults: Faults,
    pub(super) injected: Injected,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, faults: Faults::default(), injected: Injected::default() }
    }

    /// Returns whether something with this chance happens. No number is drawn for what cannot.
    pub(super) fn happens(&mut self, chance: u32) -> bool {
        chance > 0 && self.random.u32(0..1_000_000) < chance
    }

    /// Decides whether a call fails. One that may wait is never blocked.
    pub(super) fn fault(&mut self, call: Call, may_wait: bool) -> Option<Fault> {
        let faults = self.faults;
        let waits = !matches!(call, Call::Descriptor | Call::Watch | Call::Memory | Call::Connect);
        if waits && self.happens(faults.interrupted) {
            self.injected.interrupted += 1;
            return Some(Fault::Fails(Errno::INTR));
        }
        let errno = match call {
            Call::Send | Call::Ring | Call::SendPacket | Call::Receive | Call::ReceivePacket => {
                if !may_wait && call != Call::Ring && self.happens(faults.blocked) {
                    self.injected.blocked += 1;
                    return Some(Fault::Fails(Errno::AGAIN));
                }
                let sends = !matches!(call, Call::Receive | Call::ReceivePacket);
                if sends && self.happens(faults.no_memory) {
                    self.injected.no_memory += 1;
                    return Some(Fault::Fails(Errno::NOBUFS));
                }
                if self.happens(faults.reset) {
                    self.injected.reset += 1;
                    return Some(Fault::Breaks);
                }
                return None;
            }
            Call::Wait => return None,
            Call::Accept if self.happens(faults.refused) => {
                self.injected.refused += 1;
                Errno::CONNABORTED
            }
            Call::Connect if self.happens(faults.refused) => {
                self.injected.refused += 1;
                Errno::CONNREFUSED
            }
            Call::Watch | Call::Memory if self.happens(faults.no_memory) => {
                self.injected.no_memory += 1;
                if call == Call::Watch { Errno::NOSPC } else { Errno::NOMEM }
            }
            Call::Accept | Call::Connect | Call::Descriptor | Call::Memory
                if self.happens(faults.no_descriptor) =>
            {
                self.injected.no_descriptor += 1;
                Errno::MFILE
            }
            _ => return None,
        };
        Some(Fault::Fails(errno))
    }
}
