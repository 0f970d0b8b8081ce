//! Channels through objects of the kernel: bytes or packets that it copies from end to end.
//!
//! **Invariants:** under `Deadline::NOW` no call waits, whatever flags the other end may have set
//! on a file that both share; a wait ends when the other end is gone, because the object reports
//! it, or because the watcher (`liveness.rs`) marked the life and woke the sleeper. **Not here:**
//! what is a byte stream (`kernel/stream.rs`) and what keeps packets apart (`kernel/packet.rs`);
//! the objects themselves, one file each.

use std::io;

use crate::limits::SPINS_PER_LIFE_CHECK;
use crate::liveness::PeerLiveness;
use crate::wait::{Deadline, Interest, SpinYield, WaitPolicy};

pub(crate) mod cma;
pub(crate) mod fifo;
pub(crate) mod packet;
pub(crate) mod pipe;
pub(crate) mod posix_mq;
pub(crate) mod stream;
pub(crate) mod sysv_mq;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod unix;
pub(crate) mod uring;
pub(crate) mod vmsplice;

/// The way in which one system call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Never waits.
    NonBlocking,
    /// Waits in the call. May come back with nothing after a wake-up.
    Blocking,
}

/// A pair of kernel objects that can be waited for.
pub(crate) trait FdPair: Send {
    /// Waits until a try for `interest` may succeed or `deadline` has passed. True: it may.
    fn wait_for(&mut self, interest: Interest, deadline: Deadline) -> io::Result<bool>;
}

/// The waiting of an end: the policy, and the watcher that reports the death of the other end.
pub(crate) struct WaitStrategy {
    pub(crate) wait: WaitPolicy,
    /// Absent where the kernel object itself reports it.
    pub(crate) liveness: Option<std::sync::Arc<PeerLiveness>>,
}

impl WaitStrategy {
    /// Returns whether the other end is known to be gone.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.is_gone())
    }

    /// Returns whether a wait has to end as if its deadline had passed.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.is_interrupted())
    }

    /// Returns whether waits may be interrupted.
    #[inline]
    pub(crate) fn may_be_interrupted(&self) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.may_be_interrupted())
    }

    /// Sets whether waits may be interrupted.
    #[inline]
    pub(crate) fn set_interruptible(&self, interruptible: bool) {
        if let Some(liveness) = &self.liveness {
            liveness.set_interruptible(interruptible);
        }
    }

    /// Repeats `attempt` until it returns something, waiting by the policy and until `deadline`.
    ///
    /// `None`: not by the deadline. `BrokenPipe`: the other end is gone, and a last attempt after
    /// that was known gave nothing.
    #[inline]
    pub(crate) fn until_done<L: FdPair, T>(
        &self,
        line: &mut L,
        interest: Interest,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut L, Attempt) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        match (self.wait, deadline) {
            (_, Deadline::NOW) => match attempt(line, Attempt::NonBlocking)? {
                None if self.is_gone() => self.attempt_last(line, attempt),
                outcome => Ok(outcome),
            },
            // Nothing could call us out of a blocking send without an end of the connection.
            (WaitPolicy::Block, Deadline::NEVER)
                if interest == Interest::Receive || !self.may_be_interrupted() =>
            {
                if let Some(done) = self.block_once(line, &mut attempt)? {
                    return Ok(Some(done));
                }
                self.sleep(line, interest, deadline, attempt)
            }
            (WaitPolicy::Spin, _) => self.spin(line, deadline, attempt),
            (WaitPolicy::Block | WaitPolicy::Poll | WaitPolicy::Adaptive, _) => {
                // A sender usually finds room; a receiver usually has to wait.
                if interest == Interest::Send
                    && let Some(done) = attempt(line, Attempt::NonBlocking)?
                {
                    return Ok(Some(done));
                }
                self.sleep(line, interest, deadline, attempt)
            }
        }
    }

    /// Makes one blocking call, and registers it with the watcher where there is one.
    #[inline]
    fn block_once<L, T>(
        &self,
        line: &mut L,
        attempt: &mut impl FnMut(&mut L, Attempt) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        match &self.liveness {
            None => attempt(line, Attempt::Blocking),
            Some(liveness) => {
                liveness.sleep_while_alive(|| attempt(line, Attempt::Blocking)).unwrap_or(Ok(None))
            }
        }
    }

    fn spin<L, T>(
        &self,
        line: &mut L,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut L, Attempt) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let mut spin_yield = SpinYield::default();
        loop {
            for _ in 0..SPINS_PER_LIFE_CHECK {
                if let Some(done) = attempt(line, Attempt::NonBlocking)? {
                    return Ok(Some(done));
                }
                spin_yield.count();
            }
            if self.is_gone() {
                return self.attempt_last(line, attempt);
            }
            if deadline.has_passed() || self.is_interrupted() {
                return Ok(None);
            }
        }
    }

    fn sleep<L: FdPair, T>(
        &self,
        line: &mut L,
        interest: Interest,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut L, Attempt) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        loop {
            if self.is_gone() {
                return self.attempt_last(line, attempt);
            }
            match &self.liveness {
                None => line.wait_for(interest, deadline)?,
                Some(liveness) => liveness
                    .sleep_while_alive(|| line.wait_for(interest, deadline))
                    .unwrap_or(Ok(true))?,
            };
            if let Some(done) = attempt(line, Attempt::NonBlocking)? {
                return Ok(Some(done));
            }
            // Also when the line is ready: a peer that makes it so again and again must not hold us
            // here.
            if (deadline.has_passed() || self.is_interrupted()) && !self.is_gone() {
                return Ok(None);
            }
        }
    }

    /// What was sent before the other end went is still to be had.
    #[cold]
    fn attempt_last<L, T>(
        &self,
        line: &mut L,
        mut attempt: impl FnMut(&mut L, Attempt) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        match attempt(line, Attempt::NonBlocking)? {
            None => Err(io::ErrorKind::BrokenPipe.into()),
            done => Ok(done),
        }
    }
}

/// Makes "not now" an answer instead of an error.
#[inline]
pub(crate) fn nonblocking<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the kernel's poll interest.
pub(crate) fn poll_interest(interest: Interest) -> nearcall_os::poll::Interest {
    match interest {
        Interest::Receive => nearcall_os::poll::Interest::Readable,
        Interest::Send => nearcall_os::poll::Interest::Writable,
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
