//! Sleeping until the other end has something, without a lost wake-up and without needless ones.
//!
//! ```text
//! the waiter                               the waker
//!   takes a epoch
//!   sleep = number, reason and way           publishes a frame, or room
//!   fence                                    fence
//!   looks once more: there is nothing        reads the other's sleep word: asleep, not yet rung
//!   sleeps, unless rung since the epoch     rings, in the way that the word asks for
//!   sleep = 0
//! ```
//!
//! Both sides write, fence, then read what the other wrote: at least one of them sees the other
//! (Dekker), so either the waiter finds what it waits for or the other rings. Each end writes only
//! its own memory file. The number in the sleep word keeps an end from ringing twice for one sleep.
//! So the one ring must end the sleep, however early it comes. That is why the epoch is taken
//! first: an end can be rung for a message that it has already read. If the epoch covered that
//! ring, it would not end the sleep, and the next message would not ring again.
//! An end that sleeps for room is rung when half of the ring is free, or when the reader itself
//! goes to sleep: a wake-up for each freed frame would cost more than the frame.
//!
//! **Invariants:** after `Waiter::begin` and until `Waiter::end`, the end that publishes will ring.
//! **Not here:** the ring (`ring.rs`), the doorbells' kernel objects (the files below `doorbell/`).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::region::{OwnRegion, PeerRegion};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::limits::UNREAD_RINGS_MAX;
use crate::settings::Settings;
use crate::shm::layout::SLEEP;
use crate::shm::layout::sleep_word::{EDGE, FOR_MESSAGE, FOR_ROOM, NEXT_SLEEP, ON_DESCRIPTOR};
use crate::sync::{Ordering, Own, Peer, fence};
use crate::wait::Deadline;
use crate::wait::Interest;

pub(crate) mod fd;
pub(crate) mod futex;
pub(crate) mod futex_or_fd;
pub(crate) mod semaphore;
pub(crate) mod signal;
pub(crate) mod spin;

/// Both memory files of a connection, as one end sees them.
pub(crate) struct Memory {
    /// Ours: only we write it.
    pub(crate) own: OwnRegion,
    /// The other end's: only it writes it.
    pub(crate) peer: PeerRegion,
}

/// The kernel object that ends a sleep.
pub(crate) trait Doorbell: Send {
    /// `true` if an end ever sleeps. Otherwise no end reads sleep words.
    const SLEEPS: bool = true;

    /// Whether the channel takes only what it needs. Memory: as far into the ring as messages go.
    /// The watcher: from the first sleep on that the descriptor's hang-up does not end. Fences:
    /// none for an end whose flags state that it only spins.
    const LAZY_COMMIT: bool = false;

    /// `true` if the descriptor holds rings that are not taken back, and reports each further one.
    const KEEPS_RINGS: bool = false;

    /// Returns the place where this end sleeps when it sleeps in here, not in an event loop.
    fn sleeps_on(&self) -> SleepOn {
        SleepOn::Futex
    }

    /// Called by the thread that is about to sleep, before it announces its sleep.
    #[inline]
    fn prepare(&self, _memory: &Memory) {}

    /// Taken before the sleep is announced, given to `sleep`: rings in between end it at once.
    /// A load with acquire, so that it cannot see a ring for a sleep that is announced after it.
    fn epoch(&self, _memory: &Memory) -> u32 {
        0
    }

    /// Sleeps until the other end rings, something else happens, or the time is over.
    fn sleep(&self, memory: &Memory, epoch: u32, deadline: Deadline) -> io::Result<()>;

    /// Works like `sleep`, on the descriptor, for a doorbell that has both.
    fn sleep_on_descriptor(&self, _deadline: Deadline) -> io::Result<()> {
        Ok(())
    }

    /// Wakes the other end. Never blocks, whatever the other end does.
    fn ring(&self, memory: &Memory) -> io::Result<()>;

    /// Works like `ring`, for an end that has announced where it sleeps.
    #[inline]
    fn ring_for(&self, memory: &Memory, _sleeper: SleepOn) -> io::Result<()> {
        self.ring(memory)
    }

    /// Returns what an event loop can wait on instead of `sleep`.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the socket whose hang-up the other end takes for our death.
    fn socket(&self) -> Option<&Arc<OwnedFd>> {
        None
    }

    /// Takes back rings that ended a wait on `descriptor`. Does not wait.
    fn clear(&self) {}

    /// Wakes this end from `sleep`, for the thread that watches the other end's life.
    fn local_wake(&self, memory: &Memory) -> Box<dyn Fn() + Send>;
}

/// The parts that two doorbells need to meet: made by the server, completed by the client.
pub(crate) trait Meet: Doorbell + Sized + 'static {
    /// The server's doorbell, and what the client needs for its own.
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError>;
    /// The client's doorbell.
    fn accept(settings: &Settings, parts: ChannelFds) -> Result<Self, OpenError>;
}

/// The place where an end sleeps, as far as it has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SleepOn {
    /// In its call, on whatever the doorbell has for that.
    Futex,
    /// On the descriptor.
    Descriptor,
    /// On the descriptor, in which it leaves rings unread: a ring without room does not wake it.
    DescriptorEdge,
}

/// Announces this end's sleeps.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    number: u32,
    /// The purpose and the place of the announced sleep; zero while awake.
    announced: u32,
    /// Sleeps announced since rings were taken back, where they are left in the descriptor: each
    /// brings one at most.
    unread_rings: Option<u32>,
    /// Sleeps in a call of this end that are over.
    sleeps: u64,
}

impl Waiter {
    /// From now on the other end rings when there is something. Look once more before sleeping.
    ///
    /// A sleep that is announced already goes on for its reason as well: an event loop may wait
    /// for a message and for room at once. Both are on the same thing.
    #[inline]
    pub(crate) fn begin(&mut self, own: &impl Own, interest: Interest, on: SleepOn) {
        self.number = self.number.wrapping_add(NEXT_SLEEP);
        let reason = reason(interest);
        let place = match (on, &mut self.unread_rings) {
            (SleepOn::Futex, _) => 0,
            (SleepOn::Descriptor, None) => ON_DESCRIPTOR,
            (SleepOn::Descriptor | SleepOn::DescriptorEdge, rings) => {
                *rings = rings.map(|rings| rings + 1);
                ON_DESCRIPTOR | EDGE
            }
        };
        self.announced |= reason | place;
        own.store32(SLEEP, self.number | self.announced, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Awake again.
    #[inline]
    pub(crate) fn end(&mut self, own: &impl Own) {
        if self.is_announced() {
            self.announced = 0;
            own.store32(SLEEP, 0, Ordering::Relaxed);
        }
    }

    /// Awake again after a sleep in a call of this end.
    pub(crate) fn end_slept(&mut self, own: &impl Own) {
        self.end(own);
        self.sleeps += 1;
    }

    /// Returns how often this end has slept in a call.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps
    }

    /// Returns whether a sleep is announced.
    #[inline]
    pub(crate) fn is_announced(&self) -> bool {
        self.announced != 0
    }

    /// From now on the rings of sleeps on the descriptor are left there, a few at a time.
    pub(crate) fn leave_rings(&mut self) {
        self.unread_rings.get_or_insert(0);
    }

    #[inline]
    pub(crate) fn leaves_rings(&self) -> bool {
        self.unread_rings.is_some()
    }

    /// Returns whether rings are to be taken back before this sleep.
    #[inline]
    pub(crate) fn has_left_many_rings(&self) -> bool {
        self.unread_rings > Some(UNREAD_RINGS_MAX)
    }

    #[inline]
    pub(crate) fn note_rings_taken(&mut self) {
        self.unread_rings = self.unread_rings.map(|_| 0);
    }

    /// Returns whether a sleep on the descriptor is announced, for this reason at least.
    #[inline]
    pub(crate) fn is_announced_on_descriptor(&self, interest: Interest) -> bool {
        let wanted = reason(interest) | ON_DESCRIPTOR;
        self.announced & wanted == wanted
    }
}

/// Returns the reason of a sleep, as the other end reads it.
fn reason(interest: Interest) -> u32 {
    match interest {
        Interest::Receive => FOR_MESSAGE,
        Interest::Send => FOR_ROOM,
    }
}

/// Decides when to ring for the other end.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// The sleep for which we rang last.
    rung: u32,
    /// How often we rang.
    rings: u64,
}

impl Waker {
    /// Returns how often this end has rung for the other one.
    pub(crate) fn rings(&self) -> u64 {
        self.rings
    }

    /// Returns where to ring after publishing a frame, if the other end sleeps for it.
    #[inline]
    pub(crate) fn target_for_message(&mut self, peer: &impl Peer) -> Option<SleepOn> {
        fence(Ordering::SeqCst);
        self.target(peer, FOR_MESSAGE)
    }

    /// Returns where to ring after freeing enough room, if the other end sleeps for it.
    #[inline]
    pub(crate) fn target_for_room(&mut self, peer: &impl Peer) -> Option<SleepOn> {
        fence(Ordering::SeqCst);
        self.target(peer, FOR_ROOM)
    }

    #[inline]
    fn target(&mut self, peer: &impl Peer, reason: u32) -> Option<SleepOn> {
        // One load, compared with our own note. A peer that lies costs itself a wake-up.
        let sleep = peer.load32(SLEEP, Ordering::Relaxed);
        if sleep & reason == 0 || sleep == self.rung {
            return None;
        }
        self.rung = sleep;
        self.rings += 1;
        Some(match (sleep & ON_DESCRIPTOR, sleep & EDGE) {
            (0, _) => SleepOn::Futex,
            (_, 0) => SleepOn::Descriptor,
            _ => SleepOn::DescriptorEdge,
        })
    }
}
