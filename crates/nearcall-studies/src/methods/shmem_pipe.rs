//! ipc-bench's `shmem_pipe`: payload in a shared arena, and pipes that say where it lies.
//!
//! The sender takes an extent of its arena, makes the message there and writes the extent's place,
//! 8 bytes, into one pipe. The receiver reads as many of them as have come, reads each message
//! where it lies, and collects the extents, neighbours merged. It writes them back into a second
//! pipe only when more than an eighth of the arena waits for that. An arena each way.
//!
//! Otherwise than in ipc-bench, extents are whole cache lines, and a message larger than the arena
//! goes in pieces of equal size. No wait can dead-lock: all extents of a cell have one size and are
//! given back in order, so the arena never breaks into parts too small, and a batch that goes back
//! has few extents, of which the pipe holds thousands.
//! **Invariants:** an extent that came through a pipe is judged before it is used. Who waits is
//! woken by the end of the pipe when the other process dies.
//! **Not here:** which parts are free (`shmem_pipe/arena.rs`).

use std::os::fd::{AsFd, OwnedFd};

use nearcall_bench::custom::{Carrier, Failure, Meeting, Role};
use nearcall_bench::payload::{Payload, Verifier};
use nearcall_os::pipe;
use nearcall_os::region::TrustedRegion;

use crate::methods::counter_process::{gone, share_in_place};
use crate::methods::shmem_pipe::arena::{Extent, Free};

mod arena;

/// One end.
pub(super) struct ShmemPipe {
    out: Sending,
    back: Receiving,
    sizes: Sizes,
}

/// How a message is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    message_bytes: usize,
    /// All of the message if it fits the arena.
    piece_bytes: usize,
    /// What each piece takes.
    extent_bytes: u32,
}

/// The arena that this end writes.
struct Sending {
    arena: TrustedRegion,
    free: Free,
    /// Takes places of messages.
    places: OwnedFd,
    /// Gives places that can be used again.
    given_back: OwnedFd,
    buffer: Vec<u8>,
}

/// The arena that this end reads.
struct Receiving {
    arena: TrustedRegion,
    /// Gives places of messages.
    places: OwnedFd,
    /// Takes places that can be used again.
    given_back: OwnedFd,
    /// Places that were read and not yet used, from `used` to `filled`.
    buffer: Vec<u8>,
    used: usize,
    filled: usize,
    /// What waits to be given back.
    pending: Vec<Extent>,
    pending_bytes: u32,
    outgoing: Vec<u8>,
}

impl Sizes {
    fn of(message_bytes: usize) -> Self {
        let arena_bytes = ARENA_BYTES as usize;
        let pieces = match message_bytes.next_multiple_of(LINE_BYTES) <= arena_bytes {
            true => 1,
            false => message_bytes.div_ceil(arena_bytes / 4),
        };
        let piece_bytes = message_bytes.div_ceil(pieces);
        let extent_bytes = piece_bytes.next_multiple_of(LINE_BYTES);
        // At most the arena, which is itself such a number.
        let extent_bytes = u32::try_from(extent_bytes).unwrap_or(ARENA_BYTES);
        Self { message_bytes, piece_bytes, extent_bytes }
    }

    /// The pieces of a message: where each begins and what it has.
    #[inline]
    fn pieces(self) -> impl Iterator<Item = (usize, usize)> {
        let starts = (0..self.message_bytes).step_by(self.piece_bytes.max(1));
        starts.map(move |start| (start, self.piece_bytes.min(self.message_bytes - start)))
    }
}

impl Sending {
    /// Takes an extent, and waits until one was given back if there is none.
    #[inline]
    fn take(&mut self) -> Result<Extent, Failure> {
        loop {
            if let Some(extent) = self.free.take() {
                return Ok(extent);
            }
            let filled = read(&self.given_back, &mut self.buffer)?;
            for extent in extents(&self.buffer[..filled]) {
                self.free.give_back(extent).map_err(Failure::other)?;
            }
        }
    }

    #[inline]
    fn tell(&self, extent: Extent) -> Result<(), Failure> {
        write(&self.places, &extent.encode())
    }
}

impl Receiving {
    /// Waits for the place of the next message, which must be an extent of `bytes`.
    #[inline]
    fn next(&mut self, bytes: u32) -> Result<Extent, Failure> {
        if self.used == self.filled {
            self.filled = read(&self.places, &mut self.buffer)?;
            self.used = 0;
        }
        let next = extents(&self.buffer[self.used..self.filled]).next();
        self.used += Extent::BYTES;
        match next {
            Some(extent) if extent.bytes == bytes && extent.end() <= ARENA_BYTES.into() => {
                Ok(extent)
            }
            _ => Err(Failure::other("the other end wrote a place that is none")),
        }
    }

    #[inline]
    fn give_back(&mut self, extent: Extent) -> Result<(), Failure> {
        match self.pending.last_mut() {
            Some(last) if last.end() == u64::from(extent.start) => last.bytes += extent.bytes,
            _ => self.pending.push(extent),
        }
        self.pending_bytes += extent.bytes;
        let is_full = self.pending.len() == self.pending.capacity();
        if self.pending_bytes <= ARENA_BYTES / PENDING_SHARE && !is_full {
            return Ok(());
        }
        self.outgoing.clear();
        for extent in self.pending.drain(..) {
            self.outgoing.extend_from_slice(&extent.encode());
        }
        self.pending_bytes = 0;
        write(&self.given_back, &self.outgoing)
    }
}

impl ShmemPipe {
    pub(super) fn meet(
        meeting: &Meeting,
        role: Role,
        message_bytes: usize,
    ) -> Result<Self, Failure> {
        let sizes = Sizes::of(message_bytes);
        let to_server = share_in_place(meeting, role, ARENA_BYTES as usize)?;
        let to_client = share_in_place(meeting, role, ARENA_BYTES as usize)?;
        let [places_out, given_back_out, places_back, given_back_back] = pipes(meeting, role)?;
        let (out, back) = match role {
            Role::Client => (to_server, to_client),
            Role::Server => (to_client, to_server),
        };
        let out = Sending {
            arena: out,
            free: Free::all(ARENA_BYTES, sizes.extent_bytes),
            places: places_out,
            given_back: given_back_out,
            buffer: vec![0; BUFFER_PLACES * Extent::BYTES],
        };
        let back = Receiving {
            arena: back,
            places: places_back,
            given_back: given_back_back,
            buffer: vec![0; BUFFER_PLACES * Extent::BYTES],
            used: 0,
            filled: 0,
            pending: Vec::with_capacity(BUFFER_PLACES),
            pending_bytes: 0,
            outgoing: Vec::with_capacity(BUFFER_PLACES * Extent::BYTES),
        };
        Ok(Self { out, back, sizes })
    }
}

/// This end's halves of four pipes: places of its messages to write, places given back to read,
/// places of the other's messages to read, places given back to write.
fn pipes(meeting: &Meeting, role: Role) -> Result<[OwnedFd; 4], Failure> {
    if role == Role::Client {
        return Ok(meeting.hear_with::<4>()?.1);
    }
    let (places_out, given_back_out) = (pipe::create()?, pipe::create()?);
    let (places_back, given_back_back) = (pipe::create()?, pipe::create()?);
    let theirs =
        [&places_back.write, &given_back_back.read, &places_out.read, &given_back_out.write];
    meeting.say_with("pipes", &theirs.map(AsFd::as_fd))?;
    Ok([places_out.write, given_back_out.read, places_back.read, given_back_back.write])
}

impl Carrier for ShmemPipe {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        for (start, bytes) in self.sizes.pieces() {
            let extent = self.out.take()?;
            let place = extent.start as usize;
            payload.fill(number, start, self.out.arena.slice_mut(place..place + bytes));
            self.out.tell(extent)?;
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        for (_, bytes) in self.sizes.pieces() {
            let extent = self.back.next(self.sizes.extent_bytes)?;
            let place = extent.start as usize;
            verifier.piece(self.back.arena.slice(place..place + bytes));
            self.back.give_back(extent)?;
        }
        Ok(verifier.end()?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.out.tell(Extent::default())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.back.next(0)?;
        Ok(())
    }
}

/// The extents that stand in `bytes`. Writers of pipes keep them whole.
#[inline]
fn extents(bytes: &[u8]) -> impl Iterator<Item = Extent> {
    bytes.as_chunks().0.iter().map(|&extent| Extent::decode(extent))
}

/// Waits for places and reads as many as there are.
#[inline]
fn read(from: &OwnedFd, into: &mut [u8]) -> Result<usize, Failure> {
    match pipe::read(from, into)? {
        0 => Err(gone()),
        bytes if bytes.is_multiple_of(Extent::BYTES) => Ok(bytes),
        _ => Err(Failure::other("the other end wrote part of a place")),
    }
}

/// Writes places, which are few enough for a pipe to take them whole.
#[inline]
fn write(into: &OwnedFd, places: &[u8]) -> Result<(), Failure> {
    match pipe::write(into, places)? == places.len() {
        true => Ok(()),
        false => Err(Failure::other("a pipe took part of a place")),
    }
}

/// What is on its way at most.
pub(super) const BUFFER_BYTES: u64 = ARENA_BYTES as u64;

/// As in ipc-bench without settings of its user.
const ARENA_BYTES: u32 = 2 << 20;

/// More than the arena divided by this is given back.
const PENDING_SHARE: u32 = 8;

/// Places that are read, collected or written at once: what a pipe takes whole.
const BUFFER_PLACES: usize = pipe::ATOMIC_BYTES_MAX / Extent::BYTES;

/// Messages share no cache line.
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_piece_or_several_of_one_size() {
        let arena = ARENA_BYTES as usize;
        for message_bytes in [1, 63, 64, 65, 4_095, 1 << 20, arena - 1, arena] {
            let sizes = Sizes::of(message_bytes);
            assert_eq!(sizes.pieces().collect::<Vec<_>>(), [(0, message_bytes)]);
            assert_eq!(sizes.extent_bytes as usize, message_bytes.next_multiple_of(64));
        }
        for message_bytes in [arena + 1, 3 << 20, (3 << 20) + 1, 4 << 20] {
            let sizes = Sizes::of(message_bytes);
            let pieces: Vec<_> = sizes.pieces().collect();
            assert_eq!(pieces.iter().map(|(_, bytes)| bytes).sum::<usize>(), message_bytes);
            assert!(pieces.iter().all(|(_, bytes)| *bytes <= sizes.extent_bytes as usize));
            // Two at least fit, so that one is read while the next is written.
            assert!(sizes.extent_bytes <= ARENA_BYTES / 2);
        }
    }
}
