//! What a mechanism provides to become a channel: it moves fragments.
//!
//! Most mechanisms have a largest unit: a ring, a packet, the buffer of a pipe. A [`Transport`]
//! moves fragments of at most that size; `channel.rs` makes whole messages of them.
//!
//! **Invariants:** fragments arrive in their order, each header before its bytes. At most one
//! fragment is reserved and at most one is being read.
//! **Not here:** which fragments belong together (`channel.rs`), what headers mean (`fragment.rs`).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::region::SharedBytes;

use crate::error::{ReceiveError, SendError};
use crate::fragment::FragmentHeader;
use crate::wait::{Deadline, Interest, Readiness, WakeCounts};

/// Moves fragments in both directions.
pub(crate) trait Transport: Send {
    /// Returns the bytes of room for messages on their way out, as the kernel or the memory really
    /// has them: it may be more or less than was asked for.
    fn room_bytes(&self) -> std::io::Result<usize>;

    /// Returns the length of the longest fragment that can be reserved, in bytes.
    fn fragment_bytes_max(&self) -> usize;

    /// Returns whether all fragments of a message can be reserved and published now without
    /// waiting.
    fn has_room_for(&mut self, message_bytes: usize) -> bool;

    /// Waits until there is room for a fragment of `fragment_bytes`, and reserves it.
    ///
    /// Fails with `Full` while a part of an earlier fragment is still in this process.
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError>;

    /// Returns the bytes of the reserved fragment, to be written.
    fn room(&mut self) -> &mut [u8];

    /// Sends the reserved fragment.
    ///
    /// Unless `deadline` is `Never`, a part may stay in this process until
    /// [`drain`](Transport::drain).
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError>;

    /// Gives the reserved fragment back unsent.
    fn unreserve(&mut self);

    /// Moves what published fragments still have in this process to the other end. `Full`: some of
    /// it is still here.
    fn drain(&mut self, _until: Deadline) -> Result<(), SendError> {
        Ok(())
    }

    /// Returns how many bytes of published fragments are still in this process.
    fn unsent_bytes(&self) -> usize {
        0
    }

    /// Waits for the next fragment and returns its header. The previous fragment is finished.
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError>;

    /// Polls up to `spins` times whether [`next`](Transport::next) may return something. Cheaper
    /// than a call of it that returns `Empty`.
    #[inline]
    fn poll_ready(&mut self, _spins: u32) -> bool {
        true
    }

    /// Returns whether all `fragment_bytes` of the current fragment can be read without waiting.
    fn is_whole(&mut self, fragment_bytes: usize) -> bool;

    /// Returns the next bytes of the current fragment where they lie: at least one, at most what is
    /// left of the fragment. Called only while something is left.
    fn bytes(&mut self, deadline: Deadline) -> Result<SharedBytes<'_>, ReceiveError>;

    /// Marks the first `bytes` of the last [`bytes`](Transport::bytes) as read.
    fn consume(&mut self, bytes: usize);

    /// Copies the next bytes of the current fragment, which has at least as many left.
    fn read(&mut self, into: &mut [u8], deadline: Deadline) -> Result<(), ReceiveError> {
        let mut copied = 0;
        while copied < into.len() {
            let here = self.bytes(deadline)?;
            let bytes = here.len().min(into.len() - copied);
            here.slice(0..bytes).copy_to(&mut into[copied..copied + bytes]);
            self.consume(bytes);
            copied += bytes;
        }
        Ok(())
    }

    /// Copies some of the next bytes of the current fragment, at least one, and returns how many.
    /// The fragment has at least `into.len()` bytes left.
    fn read_some(&mut self, into: &mut [u8], deadline: Deadline) -> Result<usize, ReceiveError> {
        let here = self.bytes(deadline)?;
        let bytes = here.len().min(into.len());
        here.slice(0..bytes).copy_to(&mut into[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }

    /// Ends the current fragment, read or not. Does not wait.
    fn finish(&mut self);

    /// Sets whether waits may be interrupted: amid a message they must not.
    fn set_interruptible(&mut self, _interruptible: bool) {}

    /// Makes the drop return at once and discard what the other end has not read.
    fn discard_unsent(&mut self) {}

    /// Returns how often the ends have woken each other.
    fn wakes(&self) -> WakeCounts {
        WakeCounts::default()
    }

    /// Returns the descriptor that an event loop waits on, if the mechanism has one.
    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>>;

    /// Returns the socket whose hang-up the other end takes for our death, beside the control line.
    fn socket(&self) -> Option<&Arc<OwnedFd>> {
        None
    }

    /// Announces a sleep on [`readiness`](Transport::readiness). False: do not sleep, try again
    /// first.
    fn arm(&mut self, _interest: Interest) -> bool {
        true
    }

    /// Has sending leave an announced sleep as it is.
    fn stay_armed(&mut self) {}

    /// Takes an announced sleep back.
    fn disarm(&mut self) {}

    /// The descriptor is watched edge-triggered from now on, if the transport can bear that.
    fn watch_edges(&mut self) {}

    /// Such a watch has reported the descriptor, or any watch that it has hung up.
    fn note_report(&mut self, _has_hung_up: bool) {}
}
