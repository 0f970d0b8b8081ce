//! The page of memory that a worker and the runner share: a request there, counts back.
//!
//! It is the worker's standard input, so it reads its request as every other process of ours does.
//! The counts are words that each side reads and writes whole, without a system call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nearcall_os::region::{Backing, SharedRegion};

/// The page.
#[derive(Debug)]
pub(super) struct SharedState {
    region: SharedRegion,
}

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not there yet.
    Starting,
    /// At work.
    Up,
    /// It gave up, because of this.
    Failed(String),
}

/// What a worker has done up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) bytes: u64,
    pub(super) syncs: u64,
}

impl SharedState {
    /// Makes a page with `request`, and the descriptor that becomes the worker's standard input.
    pub(super) fn create(request: &str) -> io::Result<(Self, OwnedFd)> {
        if request.len() > ORDERS_BYTES_MAX {
            return Err(io::Error::other("the request does not fit"));
        }
        let (region, file) = SharedRegion::create("nearcall-load", BYTES, Backing::Reserved)
            .map_err(io::Error::other)?;
        region.write(0, request.as_bytes());
        Ok((Self { region }, file))
    }

    /// The worker's side.
    pub(super) fn open(file: impl AsFd) -> io::Result<Self> {
        let region = SharedRegion::open(file, BYTES..=BYTES).map_err(io::Error::other)?;
        Ok(Self { region })
    }

    pub(super) fn say_up(&self) {
        self.region.word64(STATE).store(UP, Release);
    }

    pub(super) fn say_failed(&self, reason: &str) {
        self.say(reason);
        self.region.word64(STATE).store(FAILED, Release);
    }

    /// Says why less will be done than was asked for; before [`say_up`](Self::say_up).
    pub(super) fn say(&self, reason: &str) {
        let shown = &reason.as_bytes()[..reason.len().min(BYTES - REASON)];
        self.region.write(REASON, shown);
    }

    /// What the worker said, if anything.
    pub(super) fn said(&self) -> Option<String> {
        let mut reason = [0; BYTES - REASON];
        self.region.read(REASON, &mut reason);
        let text = String::from_utf8_lossy(&reason);
        let text = text.trim_end_matches('\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn state(&self) -> State {
        // With the reason that was written before it.
        match self.region.word64(STATE).load(Acquire) {
            UP => State::Up,
            FAILED => State::Failed(self.said().unwrap_or_default()),
            _ => State::Starting,
        }
    }

    /// Adds to what the worker has done. Only the worker calls this.
    pub(super) fn add(&self, bytes: u64, syncs: u64) {
        self.region.word64(WRITTEN).fetch_add(bytes, Relaxed);
        self.region.word64(SYNCS).fetch_add(syncs, Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.region.word64(WRITTEN).load(Relaxed),
            syncs: self.region.word64(SYNCS).load(Relaxed),
        }
    }

    /// Has the worker of a duty cycle be busy for so long in each period from the next one on.
    pub(super) fn set_busy_ns(&self, busy_ns: u64) {
        self.region.word64(BUSY).store(busy_ns, Relaxed);
    }

    /// `None`: as in the request.
    pub(super) fn busy_ns(&self) -> Option<u64> {
        Some(self.region.word64(BUSY).load(Relaxed)).filter(|&busy_ns| busy_ns > 0)
    }
}

/// A page.
const BYTES: usize = 4096;

/// Where the words begin.
const ORDERS_BYTES_MAX: usize = 2048;

const STATE: usize = ORDERS_BYTES_MAX;
const BUSY: usize = STATE + 8;
const WRITTEN: usize = STATE + 16;
const SYNCS: usize = STATE + 24;

/// Where the reason of a failure is, as text up to the first zero.
const REASON: usize = STATE + 64;

const UP: u64 = 1;
const FAILED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_says_is_heard() {
        let (ours, file) = SharedState::create("{}").unwrap();
        let theirs = SharedState::open(file).unwrap();
        assert_eq!((ours.state(), theirs.busy_ns()), (State::Starting, None));
        theirs.say_up();
        theirs.add(5, 1);
        theirs.add(6, 0);
        ours.set_busy_ns(7);
        assert_eq!((ours.state(), theirs.busy_ns()), (State::Up, Some(7)));
        assert_eq!(ours.counts(), Counts { bytes: 11, syncs: 1 });
        assert_eq!(ours.said(), None);
        theirs.say("less");
        assert_eq!((ours.state(), ours.said()), (State::Up, Some("less".to_owned())));
        theirs.say_failed(&"x".repeat(BYTES));
        assert_eq!(ours.state(), State::Failed("x".repeat(BYTES - REASON)));
        assert!(SharedState::create(&"x".repeat(BYTES)).is_err());
    }
}
