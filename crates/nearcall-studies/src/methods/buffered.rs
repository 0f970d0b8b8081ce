//! One buffer each way in shared memory, with room for one message.
//!
//! The papers do not say how much theirs held, and with less room than a message a buffer could not
//! be used as they describe. A message is made in private memory and copied in, and copied out to
//! private memory again. Not here: who may enter the buffer (`condvar.rs`, `semaphore.rs`).

use std::sync::Arc;

use nearcall_bench::custom::{Carrier, Failure, Meeting, OpenedEnd, Role, open};
use nearcall_bench::payload::{Payload, Verifier};
use nearcall_os::region::LockRegion;

use crate::cell::CellSpec;
use crate::methods::counter_process::{CounterProcess, share};

/// One direction.
pub(super) trait Buffer: Sized {
    /// Bytes of it before those of the message.
    const HEAD_BYTES: usize;
    /// Readies it at a place of the region, before the other end has that.
    fn init(region: &Arc<LockRegion>, at: usize) -> Result<(), Failure>;
    fn attach(region: &Arc<LockRegion>, at: usize) -> Self;
    /// Waits until it is empty, and fills it.
    fn put(&self, other: CounterProcess<'_>, bytes: &[u8]) -> Result<(), Failure>;
    /// Waits until it is full, and empties it.
    fn take(&self, other: CounterProcess<'_>, into: &mut [u8]) -> Result<(), Failure>;
}

/// One end, with a buffer each way.
struct Buffered<'a, B> {
    other: CounterProcess<'a>,
    out: B,
    back: B,
    /// Private memory that is copied from and to.
    message: Vec<u8>,
}

/// Opens an end of the buffers.
pub(super) fn open_end<'a, B: Buffer + 'a>(
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
) -> OpenedEnd<'a> {
    open(Buffered::<B>::meet(meeting, role, cell.bytes())?, meeting, cell.message_bytes)
}

impl<'a, B: Buffer> Buffered<'a, B> {
    fn meet(meeting: &'a Meeting, role: Role, message_bytes: usize) -> Result<Self, Failure> {
        let second_at = (B::HEAD_BYTES + message_bytes).next_multiple_of(PAGE_BYTES);
        let region = share(meeting, role, 2 * second_at, |region| {
            B::init(region, 0)?;
            B::init(region, second_at)
        })?;
        let (out_at, back_at) = match role {
            Role::Client => (0, second_at),
            Role::Server => (second_at, 0),
        };
        Ok(Self {
            other: CounterProcess::of(meeting),
            out: B::attach(&region, out_at),
            back: B::attach(&region, back_at),
            // Written once, so that its pages are present.
            message: vec![1; message_bytes],
        })
    }
}

impl<B: Buffer> Carrier for Buffered<'_, B> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        payload.fill(number, 0, &mut self.message);
        self.out.put(self.other, &self.message)
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        self.back.take(self.other, &mut self.message)?;
        Ok(verifier.whole(&self.message)?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.out.put(self.other, &[])
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.back.take(self.other, &mut [])
    }
}

/// Neither buffer shares a page with the other.
const PAGE_BYTES: usize = 4 << 10;
