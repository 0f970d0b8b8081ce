//! One buffer between two semaphores: one counts free buffers, the other full ones.
//!
//! Copied by memcpy. The papers say "UNIX
//! semaphores" and no more. These are POSIX semaphores without a name, in the shared memory itself:
//! one without waiters costs no system call. System V's cost one for each operation, and they
//! stay in the system when the processes are killed before they remove them, which a benchmark must
//! not do.
//! Not here: the buffers and their memory (`buffered.rs`).

use std::sync::Arc;

use nearcall_bench::custom::Failure;
use nearcall_os::pshared::Semaphore;
use nearcall_os::region::LockRegion;

use crate::methods::buffered::Buffer;
use crate::methods::counter_process::{CounterProcess, SLICE};

/// One direction.
pub(super) struct Semaphores {
    region: Arc<LockRegion>,
    data_at: usize,
    free: Semaphore,
    full: Semaphore,
}

impl Buffer for Semaphores {
    const HEAD_BYTES: usize = DATA;

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
    fn put(&self, other: CounterProcess<'_>, bytes: &[u8]) -> Result<(), Failure> {
        wait(other, &self.free)?;
        self.region.write(self.data_at, bytes);
        Ok(self.full.post()?)
    }

    #[inline]
    fn take(&self, other: CounterProcess<'_>, into: &mut [u8]) -> Result<(), Failure> {
        wait(other, &self.full)?;
        self.region.read(self.data_at, into);
        Ok(self.free.post()?)
    }
}

#[inline]
fn wait(other: CounterProcess<'_>, semaphore: &Semaphore) -> Result<(), Failure> {
    if semaphore.try_wait()? {
        return Ok(());
    }
    other.wait_for(|| Ok(semaphore.wait_timeout(SLICE)?.then_some(())))
}

/// Each in a pair of cache lines of its own.
const FREE: usize = 0;
const FULL: usize = 128;
const DATA: usize = 256;

const _: () = assert!(Semaphore::SIZE <= FULL);
