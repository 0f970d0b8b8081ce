//! One buffer between two semaphores: one counts free buffers, the other full ones.
//!
//! One buffer each way, with room for one message, copied by memcpy. The papers say "UNIX
//! semaphores" and no more. These are POSIX semaphores without a name, in the shared memory itself:
//! one that nobody waits for costs no system call. System V's cost one for each operation, and they
//! stay in the system when the processes are killed before they remove them, which a benchmark must
//! not do.
//! Not here: memory and the other end's life (`partner.rs`).

use std::sync::Arc;

use nearcall_os::pshared::Semaphore;
use nearcall_os::region::LockRegion;

use crate::exchange::Failure;
use crate::floor::carrier::Carrier;
use crate::floor::meeting::Meeting;
use crate::launch::Role;
use crate::payload::{Payload, Verifier};
use crate::studies::methods::partner::{Partner, SLICE, share_two};

/// One end, with a buffer each way.
pub(super) struct Semaphores<'a> {
    partner: Partner<'a>,
    out: Buffer,
    back: Buffer,
    /// Private memory that is copied from and to.
    message: Vec<u8>,
}

/// One direction.
struct Buffer {
    region: Arc<LockRegion>,
    data_at: usize,
    free: Semaphore,
    full: Semaphore,
}

impl Buffer {
    fn init(region: &Arc<LockRegion>, at: usize) -> Result<(), Failure> {
        Semaphore::init(region, at + FREE, 1)?;
        Semaphore::init(region, at + FULL, 0)?;
        Ok(())
    }

    fn attach(region: &Arc<LockRegion>, at: usize) -> Self {
        Self {
            region: Arc::clone(region),
            data_at: at + DATA,
            free: Semaphore::attach(region, at + FREE),
            full: Semaphore::attach(region, at + FULL),
        }
    }

    #[inline]
    fn put(&self, partner: Partner<'_>, bytes: &[u8]) -> Result<(), Failure> {
        wait(partner, &self.free)?;
        self.region.write(self.data_at, bytes);
        Ok(self.full.post()?)
    }

    #[inline]
    fn take(&self, partner: Partner<'_>, into: &mut [u8]) -> Result<(), Failure> {
        wait(partner, &self.full)?;
        self.region.read(self.data_at, into);
        Ok(self.free.post()?)
    }
}

#[inline]
fn wait(partner: Partner<'_>, semaphore: &Semaphore) -> Result<(), Failure> {
    if semaphore.try_wait()? {
        return Ok(());
    }
    partner.wait_for(|| Ok(semaphore.wait_timeout(SLICE)?.then_some(())))
}

impl<'a> Semaphores<'a> {
    pub(super) fn meet(
        meeting: &'a Meeting,
        role: Role,
        message_bytes: usize,
    ) -> Result<Self, Failure> {
        let (region, out_at, back_at) =
            share_two(meeting, role, DATA + message_bytes, Buffer::init)?;
        Ok(Self {
            partner: Partner::of(meeting),
            out: Buffer::attach(&region, out_at),
            back: Buffer::attach(&region, back_at),
            // Written once, so that its pages are present.
            message: vec![1; message_bytes],
        })
    }
}

impl Carrier for Semaphores<'_> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        payload.fill(number, 0, &mut self.message);
        self.out.put(self.partner, &self.message)
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        self.back.take(self.partner, &mut self.message)?;
        Ok(verifier.whole(&self.message)?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.out.put(self.partner, &[])
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.back.take(self.partner, &mut [])
    }
}

/// Each in a pair of cache lines of its own.
const FREE: usize = 0;
const FULL: usize = 128;
const DATA: usize = 256;

const _: () = assert!(Semaphore::SIZE <= FULL);
