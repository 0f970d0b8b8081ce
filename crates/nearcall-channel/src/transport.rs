//! A way for fragments: the little that a mechanism has to provide to become a channel.
//!
//! Most mechanisms have a largest unit: a ring, a packet, a pipe's buffer. A [`Transport`] moves
//! fragments of at most that size; [`FragmentChannel`](crate::fragments::FragmentChannel) makes whole messages
//! of them.
//! Always true: fragments arrive in their order, each header before its bytes. At most one fragment is
//! reserved and at most one is being read.
//! Not here: what belongs together (`fragments.rs`), what headers mean (`fragment.rs`).

use nearcall_os::region::SharedBytes;

use crate::channel::{Interest, Readiness};
use crate::error::{ReceiveError, SendError};
use crate::fragment::FragmentHeader;
use crate::wait::Deadline;

/// Moves fragments, both ways.
pub(crate) trait Transport: Send {
    /// How many bytes the kernel or the memory really has for messages on their way out, read back.
    fn room_bytes(&self) -> std::io::Result<usize>;

    /// The longest fragment that can be reserved, in bytes.
    fn fragment_bytes_max(&self) -> usize;

    /// Whether all fragments of a message could be reserved and published now without waiting.
    fn has_room_for(&mut self, message_bytes: usize) -> bool;

    /// Waits until there is room for a fragment of `fragment_bytes`, and reserves it.
    ///
    /// Fails with `Full` while a part of an earlier fragment is still in this process.
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError>;

    /// The bytes of the reserved fragment, to be written.
    fn room(&mut self) -> &mut [u8];

    /// Sends the reserved fragment.
    ///
    /// Unless `deadline` is `Never`, a part may stay in this process until
    /// [`drain`](Transport::drain).
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError>;

    /// Forgets the reserved fragment.
    fn unreserve(&mut self);

    /// Moves on what published fragments still have in this process. `Full`: some is still here.
    fn drain(&mut self, _until: Deadline) -> Result<(), SendError> {
        Ok(())
    }

    /// Waits for the next fragment. The one before is finished.
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError>;

    /// Looks so many times whether there may be a fragment for [`next`](Transport::next), or anything
    /// else that it would tell. Much cheaper than asking for it in vain.
    #[inline]
    fn poll_ready(&mut self, _spins: u32) -> bool {
        true
    }

    /// Whether all `fragment_bytes` of the current fragment can be read without waiting.
    fn is_whole(&mut self, fragment_bytes: usize) -> bool;

    /// The next bytes of the current fragment where they lie: at least one, at most what is left of
    /// the fragment. Only asked for while something is left.
    fn bytes(&mut self, deadline: Deadline) -> Result<SharedBytes<'_>, ReceiveError>;

    /// The first `bytes` of the last [`bytes`](Transport::bytes) are done with.
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

    /// Copies some of the next bytes of the current fragment, which has at least as many left as
    /// `into` takes: at least one. How many.
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

    /// Who is at the other end need not get what it has not read yet: closing will not wait for it.
    fn discard_unsent(&mut self) {}

    /// What an event loop waits on.
    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>>;

    /// Announces a sleep on it. False: ask again first.
    fn arm(&mut self, _interest: Interest) -> bool {
        true
    }
}
