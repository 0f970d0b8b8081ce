//! The ring of ipc-bench's `mempipe`: messages in shared memory, each behind a header of flags.
//!
//! A record is a header of 64 bytes and the payload, rounded up to 64 bytes. The sender sets READY
//! in the header, the receiver clears it; who must wait sets WAITING there and sleeps, or spins in
//! the other variant. The payload is made and read where it lies.
//!
//! The sleeping variant defers, as ipc-bench does: each end holds back one change of a header until
//! two later ones are made, so that one exchange of memory and one look for sleepers serve three
//! records. Whoever begins to wait first lets go of what it holds back, so no wait can dead-lock.
//! Otherwise than ipc-bench, which hangs: any size works, and a message that does not fit the ring
//! goes in pieces.
//! **Invariants:** a header's flags are loaded once, judged, and the copy used.
//! **Not here:** where things lie in the ring (`mempipe/place.rs`).

use std::sync::atomic::{AtomicU32, Ordering};

use nearcall_bench::custom::{Carrier, Failure, Meeting, Role};
use nearcall_bench::payload::{Payload, Verifier};
use nearcall_os::futex;
use nearcall_os::region::TrustedRegion;

use crate::methods::counter_process::{CounterProcess, SLICE, share_in_place};
use crate::methods::mempipe::place::{
    HEADER_BYTES, RING_BYTES, offset, parts, piece_bytes, record_bytes, rounded,
};

mod place;

/// One end, with a ring each way. It sleeps on a futex, or spins.
pub(super) struct Mempipe<'a, const SLEEPS: bool> {
    other: CounterProcess<'a>,
    out: Ring<SLEEPS>,
    back: Ring<SLEEPS>,
    /// How far the other end has given records of ours back.
    given_back: u64,
    message_bytes: usize,
    piece_bytes: usize,
}

/// One direction, as one end sees it. Positions count bytes from the start and never wrap.
struct Ring<const SLEEPS: bool> {
    region: TrustedRegion,
    /// Where the next record begins.
    next: u64,
    deferred: Option<Deferred>,
}

/// A change of a header that is held back.
struct Deferred {
    at: usize,
    value: u32,
    /// Later changes until it is made.
    left: u32,
}

/// Which of the two rings.
#[derive(Clone, Copy)]
enum Way {
    Out,
    Back,
}

impl<const SLEEPS: bool> Ring<SLEEPS> {
    fn new(region: TrustedRegion) -> Self {
        Self { region, next: 0, deferred: None }
    }

    /// Sets a header, now or after two more.
    #[inline]
    fn set(&mut self, at: usize, value: u32) {
        match &mut self.deferred {
            _ if !SLEEPS => self.region.word32(at).store(value, Ordering::Release),
            None => self.deferred = Some(Deferred { at, value, left: DEFERRED_FOR }),
            Some(deferred) => {
                deferred.left -= 1;
                let is_over = deferred.left == 0;
                // No end sleeps here: the other end cannot come past the one that is held back.
                self.region.word32(at).store(value, Ordering::Release);
                if is_over {
                    self.let_go();
                }
            }
        }
    }

    #[inline]
    fn let_go(&mut self) {
        if let Some(Deferred { at, value, .. }) = self.deferred.take() {
            let header = self.region.word32(at);
            if header.swap(value, Ordering::AcqRel) & WAITING != 0 {
                futex::wake(header, 1);
            }
        }
    }
}

impl<'a, const SLEEPS: bool> Mempipe<'a, SLEEPS> {
    pub(super) fn meet(
        meeting: &'a Meeting,
        role: Role,
        message_bytes: usize,
    ) -> Result<Self, Failure> {
        let to_server = share_in_place(meeting, role, RING_BYTES)?;
        let to_client = share_in_place(meeting, role, RING_BYTES)?;
        let (out, back) = match role {
            Role::Client => (to_server, to_client),
            Role::Server => (to_client, to_server),
        };
        Ok(Self {
            other: CounterProcess::of(meeting),
            out: Ring::new(out),
            back: Ring::new(back),
            given_back: 0,
            message_bytes,
            piece_bytes: piece_bytes(message_bytes),
        })
    }

    /// Waits until the record at `position` is ready, or is not any more; says its rounded size.
    #[inline]
    fn wait(&mut self, way: Way, position: u64, is_ready: bool) -> Result<usize, Failure> {
        self.out.let_go();
        self.back.let_go();
        let ring = match way {
            Way::Out => &self.out,
            Way::Back => &self.back,
        };
        let header = ring.region.word32(offset(position));
        let look = |flags| ((flags & READY != 0) == is_ready).then_some((flags & !FLAGS) as usize);
        if !SLEEPS {
            return self.other.spin_for(|| look(header.load(Ordering::Acquire)));
        }
        self.other.wait_for(|| {
            loop {
                let flags = header.load(Ordering::Acquire);
                if let Some(size) = look(flags) {
                    return Ok(Some(size));
                }
                if sleep(header, flags) == futex::Wait::TimedOut {
                    return Ok(None);
                }
            }
        })
    }

    /// Waits until a record of `bytes` and the header behind it fit.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> Result<(), Failure> {
        let end = self.out.next + (record_bytes(bytes) + HEADER_BYTES) as u64;
        while end - self.given_back > RING_BYTES as u64 {
            let size = self.wait(Way::Out, self.given_back, false)?;
            if size > RING_BYTES || size != rounded(size) {
                return Err(nonsense());
            }
            self.given_back += record_bytes(size) as u64;
        }
        Ok(())
    }

    #[inline]
    fn publish(&mut self, bytes: usize) {
        let at = offset(self.out.next);
        self.out.next += record_bytes(bytes) as u64;
        // First the header of what comes next, where something old may stand.
        self.out.region.word32(offset(self.out.next)).store(0, Ordering::Relaxed);
        self.out.set(at, flags_of(bytes) | READY);
    }

    /// Waits for the next record, which has `bytes`; says where its header is.
    #[inline]
    fn take(&mut self, bytes: usize) -> Result<usize, Failure> {
        match self.wait(Way::Back, self.back.next, true)? == rounded(bytes) {
            true => Ok(offset(self.back.next)),
            false => Err(nonsense()),
        }
    }

    #[inline]
    fn give_back(&mut self, at: usize, bytes: usize) {
        self.back.set(at, flags_of(bytes));
        self.back.next += record_bytes(bytes) as u64;
    }
}

impl<const SLEEPS: bool> Carrier for Mempipe<'_, SLEEPS> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < self.message_bytes {
            let bytes = self.piece_bytes.min(self.message_bytes - sent);
            self.make_room(bytes)?;
            let [first, second] = parts(self.out.next, bytes);
            let middle = sent + first.len();
            payload.fill(number, sent, self.out.region.slice_mut(first));
            if !second.is_empty() {
                payload.fill(number, middle, self.out.region.slice_mut(second));
            }
            self.publish(bytes);
            sent += bytes;
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let mut received = 0;
        while received < self.message_bytes {
            let bytes = self.piece_bytes.min(self.message_bytes - received);
            let at = self.take(bytes)?;
            let [first, second] = parts(self.back.next, bytes);
            verifier.piece(self.back.region.slice(first));
            if !second.is_empty() {
                verifier.piece(self.back.region.slice(second));
            }
            self.give_back(at, bytes);
            received += bytes;
        }
        Ok(verifier.end()?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.make_room(0)?;
        self.publish(0);
        // It may be the last of all.
        self.out.let_go();
        self.back.let_go();
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        let at = self.take(0)?;
        self.give_back(at, 0);
        Ok(())
    }
}

/// Sleeps while `header` has these flags, and says so there first.
#[inline]
fn sleep(header: &AtomicU32, flags: u32) -> futex::Wait {
    let waiting = flags | WAITING;
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let is_told =
        flags == waiting || header.compare_exchange(flags, waiting, success, failure).is_ok();
    match is_told {
        true => futex::wait(header, waiting, Some(SLICE)),
        false => futex::Wait::Changed,
    }
}

/// A header's size, with no flag.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a record is smaller than the ring")]
fn flags_of(bytes: usize) -> u32 {
    rounded(bytes) as u32
}

#[cold]
fn nonsense() -> Failure {
    Failure::other("the other end wrote a size that is none")
}

/// What is on its way at most.
pub(super) const BUFFER_BYTES: u64 = RING_BYTES as u64;

/// The payload is there; cleared when it was read.
const READY: u32 = 1;

/// Somebody sleeps on the header. (ipc-bench ends a test by a flag 2, for which we have marks.)
const WAITING: u32 = 4;

/// The bits below any size.
const FLAGS: u32 = 63;

/// Changes that are made while one is held back.
const DEFERRED_FOR: u32 = 2;
