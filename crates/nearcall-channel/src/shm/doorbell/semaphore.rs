//! Two POSIX semaphores in shared memory as doorbells, one for each end.
//!
//! **Invariants:** a ring is a system call only if the other end is in its wait already; a ring
//! that finds it awake costs its next sleep one look. Both ends write the semaphores, so a hostile
//! peer can break them: no isolation is claimed.

use std::io;
use std::sync::Arc;

use nearcall_os::pshared::Semaphore;
use nearcall_os::region::{Backing, SharedRegion};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory};
use crate::shm::layout::semaphores::{CLIENT, REGION_BYTES, SERVER};
use crate::wait::Deadline;

/// Waits on our semaphore, posts the other end's.
pub(crate) struct PosixSemaphore {
    ours: Arc<Semaphore>,
    theirs: Semaphore,
}

impl Doorbell for PosixSemaphore {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        match deadline {
            Deadline::NEVER => self.ours.wait(),
            deadline => self.ours.wait_timeout(deadline).map(drop),
        }
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        // It can only fail by being full, and then the bell is rung already.
        let _ = self.theirs.post();
        Ok(())
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let ours = Arc::clone(&self.ours);
        Box::new(move || {
            let _ = ours.post();
        })
    }
}

impl Meet for PosixSemaphore {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let (region, fd) =
            SharedRegion::create("nearcall-semaphores", REGION_BYTES, Backing::Reserved)?;
        let region = Arc::new(region.for_locks(settings.trust_for_locks()?));
        let init =
            |at| Semaphore::init(&region, at, 0).map_err(OpenError::doing("making a semaphore"));
        let bell = Self { ours: Arc::new(init(SERVER)?), theirs: init(CLIENT)? };
        Ok((bell, ChannelFds { bytes: Vec::new(), descriptors: vec![fd] }))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [fd] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        let region = SharedRegion::open(fd, REGION_BYTES..=REGION_BYTES)?;
        let region = Arc::new(region.for_locks(settings.trust_for_locks()?));
        let ours = Arc::new(Semaphore::attach(&region, CLIENT));
        Ok(Self { ours, theirs: Semaphore::attach(&region, SERVER) })
    }
}
