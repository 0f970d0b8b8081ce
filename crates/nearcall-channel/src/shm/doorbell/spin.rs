//! No doorbell: the waiter spins. The fastest answer, for a whole CPU.

use std::io;

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory};
use crate::wait::Deadline;

/// Sleeps never and rings never.
pub(crate) struct Spin;

impl Doorbell for Spin {
    const SLEEPS: bool = false;

    fn sleep(&self, _: &Memory, _: u32, _: Deadline) -> io::Result<()> {
        Ok(())
    }

    fn ring(&self, _: &Memory) -> io::Result<()> {
        Ok(())
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        Box::new(|| {})
    }
}

impl Meet for Spin {
    fn offer(_: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        Ok((Self, ChannelFds::default()))
    }

    fn accept(_: &Settings, parts: ChannelFds) -> Result<Self, OpenError> {
        parts.expect_nothing_more().map(|()| Self)
    }
}
