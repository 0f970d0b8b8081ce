//! Two POSIX message queues of one byte as doorbells, one for each end.
//!
//! Always true: a ring never waits; a full queue means that the bell is rung already.
//! Both ends share each queue, so a hostile peer can take our rings away: no isolation is claimed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{descriptor, mqueue};

use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::Meet;
use crate::shm::doorbell::{Doorbell, Memory};
use crate::wait::Deadline;
use crate::wait::WaitPolicy;

/// Length of a queue's messages, in bytes: the shortest there is.
const RING_BYTES: usize = 1;

/// Messages that a queue holds: a second ring before the sleeper woke says nothing new.
const RINGS_MAX: usize = 1;

/// Receives from our queue, sends to the other end's.
pub(crate) struct PosixMq {
    ours: Arc<OwnedFd>,
    theirs: OwnedFd,
    wait: WaitPolicy,
}

/// Whether a queue can be made here and now; the text says which limit forbids it.
pub(crate) fn probe() -> Result<(), Unsupported> {
    create().map(drop).map_err(Unsupported::PosixQueue)
}

impl Doorbell for PosixMq {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        if self.wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            return mqueue::receive(&self.ours, &mut [0; RING_BYTES]).map(drop);
        }
        // The queue's own time-out counts on the wall clock, so poll comes first.
        if poll_one(&self.ours, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        mqueue::send_now(&self.theirs, &[1]).map(drop)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ours.as_fd())
    }

    fn clear(&self) {
        // Nothing there, or the other end was faster: both mean silence.
        let _ = mqueue::receive_now(&self.ours, &mut [0; RING_BYTES]);
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let ours = Arc::clone(&self.ours);
        Box::new(move || {
            let _ = mqueue::send_now(&ours, &[0]);
        })
    }
}

impl Meet for PosixMq {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let create = || create().map_err(|error| Unsupported::PosixQueue(error));
        let (ours, theirs) = (create()?, create()?);
        let copy = |fd: &OwnedFd| {
            descriptor::duplicate(fd).map_err(OpenError::doing("duplicating a queue's descriptor"))
        };
        let descriptors = vec![copy(&theirs)?, copy(&ours)?];
        let bell = Self { ours: Arc::new(ours), theirs, wait: settings.wait };
        Ok((bell, ChannelFds { bytes: Vec::new(), descriptors }))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        for queue in [&ours, &theirs] {
            // A queue of longer messages would make each of our receives fail.
            let fits = mqueue::attributes(queue)
                .is_ok_and(|attributes| attributes.message_bytes_max == RING_BYTES);
            if !fits {
                return Err(OpenError::bad_parts("the doorbell is no queue of one byte"));
            }
        }
        Ok(Self { ours: Arc::new(ours), theirs, wait: settings.wait })
    }
}

fn create() -> Result<OwnedFd, mqueue::CreateError> {
    mqueue::create_unlinked(RINGS_MAX, RING_BYTES)
}
