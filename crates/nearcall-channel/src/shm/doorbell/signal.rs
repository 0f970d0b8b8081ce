//! A signal to the sleeping thread as doorbell.
//!
//! The sleeper publishes its thread's number in its own memory before it announces its sleep; the
//! other end sends SIGURG to that thread of the process that the kernel named at the meeting. A
//! false number reaches another thread of the process that published it, or no thread.
//!
//! **Invariants:** the signal is held back in each thread that ever slept here and stays so, hence
//! a ring before the sleep ends it at once. SIGURG is ignored by default: a ring that comes too
//! late, to a process that took over the number of a dead one, does nothing. The number means the
//! same to both only within one PID namespace, and sending needs permission: both are tried at the
//! opening. One thread, several channels: a signal for one makes the descriptors of all readable,
//! and taking it silences all. Whoever waits for several asks each of the thread's channels once
//! more where [`signals_taken`] has changed since it armed them.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process;
use nearcall_os::signal::{self, SignalSet};

use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory};
use crate::shm::layout::THREAD;
use crate::sync::{Ordering, Own, fence};
use crate::wait::{Deadline, WaitPolicy};

/// The signal that rings. Ignored by default, and programs that handle it expect false alarms.
const RING: signal::Signal = signal::Signal::URG;

/// Waits for the signal, sends it to the other end's sleeping thread.
pub(crate) struct Signal {
    set: SignalSet,
    peer_pid: i32,
    /// Our thread that slept last; zero before the first sleep.
    waiter: Arc<AtomicI32>,
    /// Under `Poll` only.
    descriptor: Option<OwnedFd>,
    wait: WaitPolicy,
}

impl Doorbell for Signal {
    #[inline]
    fn prepare(&self, memory: &Memory) {
        let thread = this_thread();
        if self.waiter.load(Ordering::Relaxed) != thread {
            // It fails for a set that is no set only, and ours is one.
            let _ = signal::block(&self.set);
            self.waiter.store(thread, Ordering::Relaxed);
            memory.own.store32(THREAD, thread.cast_unsigned(), Ordering::Relaxed);
            // With the fence in `ring`: who sees the sleep announced sees the thread, too.
            fence(Ordering::Release);
        }
    }

    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        match (&self.descriptor, self.wait) {
            (Some(descriptor), WaitPolicy::Poll) => {
                if poll_one(descriptor, Interest::Readable, deadline)?.is_some() {
                    self.clear();
                }
                Ok(())
            }
            _ => take(&self.set, deadline),
        }
    }

    #[inline]
    fn ring(&self, memory: &Memory) -> io::Result<()> {
        fence(Ordering::Acquire);
        let thread = memory.peer.load32(THREAD, Ordering::Relaxed).cast_signed();
        if thread > 0 {
            // It fails for a thread that has ended, and for a number that never was one.
            let _ = signal::send_to_thread(self.peer_pid, thread, RING);
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    fn clear(&self) {
        let _ = take(&self.set, Deadline::NOW);
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let waiter = Arc::clone(&self.waiter);
        let pid = process::pid();
        Box::new(move || {
            let thread = waiter.load(Ordering::Relaxed);
            if thread > 0 {
                let _ = signal::send_to_thread(pid, thread, RING);
            }
        })
    }
}

impl Meet for Signal {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let bell = Self::new(settings)?;
        let bytes = Introduction { own: process::pid(), other: bell.peer_pid }.encode();
        Ok((bell, ChannelFds { bytes, descriptors: Vec::new() }))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let introduction = Introduction::decode(&std::mem::take(&mut parts.bytes))?;
        parts.expect_nothing_more()?;
        let bell = Self::new(settings)?;
        introduction.agrees_with(bell.peer_pid)?;
        Ok(bell)
    }
}

impl Signal {
    fn new(settings: &Settings) -> Result<Self, OpenError> {
        let set = SignalSet::new(&[RING]);
        signal::block(&set).map_err(OpenError::doing("holding back a signal"))?;
        let Some(peer_pid) = settings.peer.pid() else {
            return Err(OpenError::Unsupported(Unsupported::PidNamespace));
        };
        // Its first thread has the number of the process. A process without one has just ended.
        match signal::send_to_thread(peer_pid, peer_pid, RING) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(OpenError::Unsupported(Unsupported::SignalPermission {
                    pid: peer_pid,
                }));
            }
            _ => {}
        }
        let descriptor = match settings.wait {
            WaitPolicy::Poll => {
                Some(signal::signalfd(&set).map_err(OpenError::doing("making a signalfd"))?)
            }
            WaitPolicy::Adaptive | WaitPolicy::Spin | WaitPolicy::Block => None,
        };
        let waiter = Arc::new(AtomicI32::new(0));
        Ok(Self { set, peer_pid, waiter, descriptor, wait: settings.wait })
    }
}

/// The names that the server gives the two processes, so that the client sees whether both mean the
/// same.
struct Introduction {
    own: i32,
    other: i32,
}

impl Introduction {
    fn encode(&self) -> Vec<u8> {
        [self.own.to_le_bytes(), self.other.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Result<Self, OpenError> {
        let (&own, rest) = bytes.split_first_chunk().ok_or_else(Self::garbled)?;
        let other = rest.try_into().map_err(|_| Self::garbled())?;
        Ok(Self { own: i32::from_le_bytes(own), other: i32::from_le_bytes(other) })
    }

    fn garbled() -> OpenError {
        OpenError::bad_parts("not two process numbers")
    }

    /// The client's judgement; `server` is what the kernel calls the server here.
    fn agrees_with(&self, server: i32) -> Result<(), OpenError> {
        let (socket_pid, own_pid) = match (self.own == server, self.other == process::pid()) {
            (true, true) => return Ok(()),
            (false, _) => (server, self.own),
            (true, false) => (self.other, process::pid()),
        };
        Err(OpenError::Unsupported(Unsupported::PidMismatch { socket_pid, own_pid }))
    }
}

thread_local!(static TAKEN: Cell<u64> = const { Cell::new(0) });

/// Returns how many rings of `shm-signal` this thread has taken, for whichever of its channels.
#[must_use]
pub fn signals_taken() -> u64 {
    TAKEN.get()
}

#[inline]
fn take(set: &SignalSet, deadline: Deadline) -> io::Result<()> {
    if signal::wait_for(set, deadline)?.is_some() {
        TAKEN.set(TAKEN.get().wrapping_add(1));
    }
    Ok(())
}

/// The number of this thread, asked for once: the kernel would be asked before each sleep.
#[inline]
fn this_thread() -> i32 {
    thread_local!(static NUMBER: Cell<i32> = const { Cell::new(0) });
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(process::tid());
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_name_the_processes_alike_agree() {
        let introduction = Introduction { own: 5, other: process::pid() };
        let introduction = Introduction::decode(&introduction.encode()).unwrap();
        assert!(introduction.agrees_with(5).is_ok());
        let error = introduction.agrees_with(6).unwrap_err().to_string();
        assert!(error.contains("names as 6 calls itself 5"), "{error}");
        let error = Introduction { own: 5, other: 1 }.agrees_with(5).unwrap_err().to_string();
        assert!(error.contains("names as 1 calls itself"), "{error}");
    }

    #[test]
    fn an_introduction_of_another_length_is_refused() {
        for bytes in [&[][..], &[0; 4], &[0; 7], &[0; 9]] {
            assert!(Introduction::decode(bytes).is_err());
        }
    }
}
