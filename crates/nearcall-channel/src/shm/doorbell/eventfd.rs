//! Two eventfds as doorbells, one for each end.
//!
//! Always true: one read ends the sleep and takes the rings back; a ring that finds the end awake
//! costs its next sleep one look, no more.
//! Both ends share each eventfd, so a hostile peer can fill ours and make our ring wait, or take
//! our rings away (FAULTS.md, R21). Asking before each ring would cost a system call; this
//! mechanism exists to be measured, so it does not ask and claims no isolation.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{descriptor, eventfd};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::Meet;
use crate::shm::doorbell::{Doorbell, Memory};
use crate::wait::Deadline;
use crate::wait::WaitPolicy;

/// Reads our eventfd, adds to the other end's.
pub(crate) struct Eventfd {
    ours: Arc<OwnedFd>,
    theirs: OwnedFd,
    wait: WaitPolicy,
}

impl Doorbell for Eventfd {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        if self.wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            return eventfd::read(&self.ours).map(drop);
        }
        if poll_one(&self.ours, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        eventfd::add_one(&self.theirs)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ours.as_fd())
    }

    fn clear(&self) {
        // Nothing there, or the other end was faster: both mean silence.
        let _ = eventfd::read_now(&self.ours);
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let ours = Arc::clone(&self.ours);
        Box::new(move || {
            // Must not wait: the watcher serves other connections, too.
            let _ = eventfd::add_one_now(&ours);
        })
    }
}

impl Meet for Eventfd {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let create = || eventfd::create(eventfd::Kind::Counter);
        let copy = |fd: &OwnedFd| descriptor::duplicate(fd);
        let make = || {
            let (ours, theirs) = (create()?, create()?);
            let descriptors = vec![copy(&theirs)?, copy(&ours)?];
            let bell = Self { ours: Arc::new(ours), theirs, wait: settings.wait };
            Ok((bell, ChannelFds { bytes: Vec::new(), descriptors }))
        };
        make().map_err(OpenError::doing("making eventfds"))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        Ok(Self { ours: Arc::new(ours), theirs, wait: settings.wait })
    }
}
