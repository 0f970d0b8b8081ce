//! Two flags in one page, as ipc-bench's latency of shared memory: two round trips each time.
//!
//! The client raises its flag, waits until the server has lowered its own, lowers its flag again
//! and waits until the server has raised its own: four moves of a cache line where other methods
//! need two. No payload moves, whatever the size says, so nothing is there to be verified.
//! A stream of flags means nothing, so throughput is refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearcall_bench::custom::{Carrier, Cause, Failure, Meeting, Role};
use nearcall_os::region::LockRegion;

use crate::methods::counter_process::{CounterProcess, share};
use crate::run::Kind;

/// One end.
pub(super) struct Flags<'a> {
    region: Arc<LockRegion>,
    other: CounterProcess<'a>,
    role: Role,
}

impl<'a> Flags<'a> {
    pub(super) fn meet(meeting: &'a Meeting, role: Role, kind: Kind) -> Result<Self, Failure> {
        if kind == Kind::Throughput {
            let text = "two flags carry no stream of messages".to_owned();
            return Err(Failure { cause: Cause::Unsupported, text });
        }
        let region = share(meeting, role, REGION_BYTES, |region| {
            region.word32(OF_SERVER).store(1, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(Self { region, other: CounterProcess::of(meeting), role })
    }

    #[inline]
    fn set(&self, flag: usize, value: u32) {
        self.region.word32(flag).store(value, Ordering::Release);
    }

    #[inline]
    fn wait(&self, flag: usize, value: u32) -> Result<(), Failure> {
        let flag = self.region.word32(flag);
        self.other.spin_for(|| (flag.load(Ordering::Acquire) == value).then_some(()))
    }
}

impl Carrier for Flags<'_> {
    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        match self.role {
            Role::Client => {
                self.set(OF_CLIENT, 1);
                self.wait(OF_SERVER, 0)?;
                self.set(OF_CLIENT, 0);
            }
            Role::Server => self.set(OF_SERVER, 1),
        }
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        match self.role {
            Role::Client => self.wait(OF_SERVER, 1),
            Role::Server => {
                self.wait(OF_CLIENT, 1)?;
                self.set(OF_SERVER, 0);
                self.wait(OF_CLIENT, 0)
            }
        }
    }
}

/// What the server stores.
const OF_SERVER: usize = 0;

/// What the client stores, as far away as in ipc-bench.
const OF_CLIENT: usize = 512;

/// One page.
const REGION_BYTES: usize = 4 << 10;
