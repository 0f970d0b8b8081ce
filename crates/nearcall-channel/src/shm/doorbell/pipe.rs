//! Two pipes as doorbells, one to each end: a byte rings.
//!
//! Always true: a ring never waits, whatever the other end does to the flags it may share, because
//! the write itself says so (RWF_NOWAIT); a full pipe means that the bell is rung already. The end
//! of the pipe tells of the other end's death, without the watcher.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::descriptor;
use nearcall_os::pipe::{self, End};
use nearcall_os::poll::{Interest, poll_one};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::shm::Meet;
use crate::shm::doorbell::{Doorbell, Memory, RINGS_PER_READ};
use crate::wait::Deadline;
use crate::wait::WaitPolicy;

/// Reads the pipe to us, writes the pipe to the other end.
pub(crate) struct Pipe {
    ours: Arc<OwnedFd>,
    theirs: OwnedFd,
    wait: WaitPolicy,
    liveness: Arc<PeerLiveness>,
}

impl Pipe {
    fn new(ours: OwnedFd, theirs: OwnedFd, settings: &Settings) -> Self {
        let liveness = Arc::clone(&settings.liveness);
        Self { ours: Arc::new(ours), theirs, wait: settings.wait, liveness }
    }

    /// Judges what a read of the pipe gave: only rings leave the other end alive.
    #[inline]
    fn judge(&self, received: io::Result<Option<usize>>) {
        match received {
            Ok(Some(1..) | None) => {}
            // Only somebody who shares the pipe can make a blocking read do that.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(Some(0)) | Err(_) => self.liveness.set_gone(),
        }
    }
}

impl Doorbell for Pipe {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        if self.wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            self.judge(pipe::read(&self.ours, &mut [0; RINGS_PER_READ]).map(Some));
        } else if poll_one(&self.ours, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        pipe::write_now(&self.theirs, &[1]).map(drop)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ours.as_fd())
    }

    #[inline]
    fn clear(&self) {
        self.judge(pipe::read_now(&self.ours, &mut [0; RINGS_PER_READ]));
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let ours = Arc::clone(&self.ours);
        Box::new(move || {
            // For an end that hung up its control line and kept the pipe. We hold no writing end:
            // it would keep the pipe from ending. So one is opened for this moment only. Its open
            // file is ours alone, so O_NONBLOCK holds: the watcher must not wait if the peer fills
            // the pipe just now.
            if let Ok(end) = pipe::fifo_open(ours.as_fd(), End::Write)
                && descriptor::set_nonblocking(&end, true).is_ok()
            {
                let _ = pipe::write(&end, &[1]);
            }
        })
    }
}

impl Meet for Pipe {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let create = || pipe::create().map_err(OpenError::doing("making a pipe"));
        let (to_us, to_them) = (create()?, create()?);
        let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![to_them.read, to_us.write] };
        Ok((Self::new(to_us.read, to_them.write, settings), parts))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        // Everything but a pipe is refused here: opening or reading it could wait for ever.
        if pipe::size_bytes(&ours).is_err() || pipe::size_bytes(&theirs).is_err() {
            return Err(OpenError::bad_parts("the doorbell is no pipe"));
        }
        Ok(Self::new(ours, theirs, settings))
    }
}
