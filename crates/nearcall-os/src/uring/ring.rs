//! The ring, on processors for which the crate `io-uring` has the kernel's tables.
//!
//! **Invariants:** no buffer is freed while an operation on it is under way; the drop cancels and
//! waits.
//! **Not here:** processors without (`no_ring.rs`).
#![allow(unsafe_code, reason = "pushing an entry promises that its buffer lives")]

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::{Direction, Refusal};
use crate::deadline::Deadline;
use crate::pages::Pages;

/// A socket with its ring and one buffer for each direction.
#[derive(Debug)]
pub struct StreamRing {
    /// `None` only after a drop that could not make the kernel stop.
    inner: Option<Inner>,
}

struct Inner {
    // The order matters: the ring is closed before the buffers are freed.
    ring: IoUring,
    send: Side,
    receive: Side,
    socket: OwnedFd,
}

#[derive(Debug)]
struct Side {
    buffer: Pages,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The kernel does not use the buffer.
    Idle,
    /// The kernel uses the buffer, or will from the next submission on.
    UnderWay,
    /// The operation is done: bytes or a negative errno, not taken yet.
    Done(i32),
}

/// Checks whether a [`StreamRing`] can be created here, by creating a ring and closing it.
///
/// # Errors
///
/// [`Refusal`] names the reason.
pub fn probe() -> Result<(), Refusal> {
    make_ring().map(drop)
}

impl StreamRing {
    /// A ring over `socket` with buffers of at least the given sizes.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn create(
        socket: OwnedFd,
        send_bytes: usize,
        receive_bytes: usize,
    ) -> Result<Self, Refusal> {
        let ring = make_ring()?;
        let side = |bytes| {
            let buffer = Pages::create(bytes).map_err(Refusal::Os)?;
            Ok(Side { buffer, state: State::Idle })
        };
        let (send, receive) = (side(send_bytes)?, side(receive_bytes)?);
        Ok(Self { inner: Some(Inner { ring, send, receive, socket }) })
    }

    /// The bytes to send; `None` while a send is under way.
    pub fn send_buffer(&mut self) -> Option<&mut [u8]> {
        let side = &mut self.inner_mut().send;
        (side.state != State::UnderWay).then_some(&mut *side.buffer)
    }

    /// The received bytes; `None` while a receive is under way.
    #[must_use]
    pub fn receive_buffer(&self) -> Option<&[u8]> {
        let side = &self.inner().receive;
        (side.state != State::UnderWay).then_some(&*side.buffer)
    }

    /// The receive buffer, for moving the rest to the front; `None` while a receive is under way.
    pub fn receive_buffer_mut(&mut self) -> Option<&mut [u8]> {
        let side = &mut self.inner_mut().receive;
        (side.state != State::UnderWay).then_some(&mut *side.buffer)
    }

    /// Queues a send of these bytes of the send buffer. The kernel sends all of them before it is
    /// done, unless the connection breaks. No system call.
    ///
    /// # Panics
    ///
    /// When a send is under way, its outcome was not taken, or the range is outside or empty.
    pub fn queue_send(&mut self, range: Range<usize>) {
        let inner = self.inner_mut();
        let (start, length) = inner.send.begin(range);
        let entry = opcode::Send::new(types::Fd(inner.socket.as_raw_fd()), start, length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(SEND_TAG);
        inner.push(&entry);
    }

    /// Queues a receive into this part of the receive buffer. It is done as soon as some bytes have
    /// come, or all of them when `all` is set. No system call.
    ///
    /// # Panics
    ///
    /// When a receive is under way, its outcome was not taken, or the range is outside or empty.
    pub fn queue_receive(&mut self, range: Range<usize>, all: bool) {
        let inner = self.inner_mut();
        let (start, length) = inner.receive.begin(range);
        let flags = if all { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Recv::new(types::Fd(inner.socket.as_raw_fd()), start, length)
            .flags(flags)
            .build()
            .user_data(RECEIVE_TAG);
        inner.push(&entry);
    }

    /// Submits what is queued and does not wait. At most one system call.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn submit(&mut self) -> io::Result<()> {
        self.inner_mut().submit()
    }

    /// Submits what is queued and waits until `direction` is done; false when not in time. One
    /// system call, unless the other direction completes meanwhile.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    ///
    /// # Panics
    ///
    /// When nothing was queued in that direction.
    pub fn wait(
        &mut self,
        direction: Direction,
        deadline: impl Into<Deadline>,
    ) -> io::Result<bool> {
        let deadline = deadline.into();
        let inner = self.inner_mut();
        loop {
            inner.collect();
            match inner.side(direction).state {
                // The other direction may still be queued: it must not wait for the next call.
                State::Done(_) => return inner.submit().map(|()| true),
                State::Idle => panic!("nothing is under way to wait for"),
                State::UnderWay => {}
            }
            let remaining = deadline.remaining();
            let over = remaining.is_some_and(|remaining| remaining.is_zero());
            match inner.enter(if over { 0 } else { 1 }, remaining) {
                Ok(()) if over => {
                    inner.collect();
                    return Ok(inner.side(direction).state != State::UnderWay);
                }
                Ok(()) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::ETIME) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Returns whether `direction` is done. Call [`StreamRing::submit`] first: this does not
    /// submit.
    ///
    /// Costs a system call only when the kernel has work for this thread, such as the copy of what
    /// has come.
    pub fn is_done(&mut self, direction: Direction) -> bool {
        let inner = self.inner_mut();
        inner.collect();
        if inner.side(direction).state == State::UnderWay && inner.ring.submission().taskrun() {
            // Any system call does the work on its way out. One that fails changes nothing, and one
            // that also submits what is queued does no harm.
            let _ = inner.enter(0, None);
            inner.collect();
        }
        matches!(inner.side(direction).state, State::Done(_))
    }

    /// Returns whether `direction` is under way (queued or submitted).
    #[must_use]
    pub fn is_under_way(&self, direction: Direction) -> bool {
        let inner = self.inner();
        match direction {
            Direction::Send => inner.send.state == State::UnderWay,
            Direction::Receive => inner.receive.state == State::UnderWay,
        }
    }

    /// Takes the outcome of `direction`: how many bytes, zero for a receive at the end of the
    /// stream; `None` when it is not done. The buffer can then be used again.
    ///
    /// # Errors
    ///
    /// That of the operation: EPIPE or ECONNRESET when the other end is gone.
    pub fn take(&mut self, direction: Direction) -> io::Result<Option<usize>> {
        let inner = self.inner_mut();
        inner.collect();
        let side = inner.side(direction);
        let State::Done(result) = side.state else { return Ok(None) };
        side.state = State::Idle;
        match usize::try_from(result) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }

    /// Has the kernel add one to `eventfd` for every completion, so that the ring can be polled.
    /// Receives must be submitted before the poll.
    ///
    /// # Errors
    ///
    /// EBUSY when one is registered.
    pub fn register_eventfd(&self, eventfd: impl AsFd) -> io::Result<()> {
        self.inner().ring.submitter().register_eventfd(eventfd.as_fd().as_raw_fd())
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.inner().socket.as_fd()
    }

    fn inner(&self) -> &Inner {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("only the drop takes it"))
    }

    fn inner_mut(&mut self) -> &mut Inner {
        self.inner.as_mut().unwrap_or_else(|| unreachable!("only the drop takes it"))
    }
}

impl Drop for StreamRing {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        if inner.stop().is_err() {
            // The kernel may still write to the buffers: leaking them is the lesser evil.
            std::mem::forget(inner);
        }
    }
}

impl Side {
    /// Marks the buffer as the kernel's; where the range starts and how long it is.
    fn begin(&mut self, range: Range<usize>) -> (*mut u8, u32) {
        assert!(self.state == State::Idle, "one operation at a time and its outcome taken");
        let part = &mut self.buffer[range];
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        assert!(length > 0, "zero bytes would look like the end of the stream");
        self.state = State::UnderWay;
        (part.as_mut_ptr(), length)
    }
}

impl Inner {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Send => &mut self.send,
            Direction::Receive => &mut self.receive,
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry points into a buffer of this value whose state is `UnderWay`: nothing
        // touches it before its completion, and the drop waits for that or leaks it. The socket is
        // closed after the ring.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "at most four entries are queued and the ring has {ENTRIES}");
    }

    /// Notes the completions that are there. No system call.
    fn collect(&mut self) {
        for completion in self.ring.completion() {
            let side = match completion.user_data() {
                SEND_TAG => &mut self.send,
                RECEIVE_TAG => &mut self.receive,
                // The answer to a cancellation: what counts is the end of the operation itself.
                _ => continue,
            };
            side.state = State::Done(completion.result());
        }
    }

    /// Submits what is queued; no system call when nothing is.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    outcome?;
                }
            }
        }
        self.collect();
        Ok(())
    }

    /// One `io_uring_enter`: submits, and waits for `want` completions, at most for `timeout`.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        match timeout {
            Some(timeout) if want > 0 => {
                let time = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(want, &arguments).map(drop)
            }
            _ => self.ring.submit_and_wait(want).map(drop),
        }
    }

    /// Cancels what is under way and waits until the kernel has let go of both buffers.
    fn stop(&mut self) -> io::Result<()> {
        self.collect();
        for (state, tag) in [(self.send.state, SEND_TAG), (self.receive.state, RECEIVE_TAG)] {
            if state == State::UnderWay {
                self.push(&opcode::AsyncCancel::new(tag).build().user_data(CANCEL_TAG));
            }
        }
        while [self.send.state, self.receive.state].contains(&State::UnderWay) {
            match self.enter(1, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => self.collect(),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("socket", &self.socket)
            .field("send", &self.send.state)
            .field("receive", &self.receive.state)
            .finish_non_exhaustive()
    }
}

fn make_ring() -> Result<IoUring, Refusal> {
    // Without an interrupt of the waiting thread, which costs more than the message itself on a
    // virtual machine; the flag shows a spinning thread that there is work. Linux 5.19 can do that.
    let quiet =
        IoUring::builder().dontfork().setup_coop_taskrun().setup_taskrun_flag().build(ENTRIES);
    let ring = match quiet {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().dontfork().build(ENTRIES)
        }
        outcome => outcome,
    };
    let ring = ring.map_err(refusal)?;
    if !ring.params().is_feature_ext_arg() {
        return Err(Refusal::Lacks("waiting with a timeout (Linux 5.11)"));
    }
    if !ring.params().is_feature_nodrop() {
        return Err(Refusal::Lacks("a completion queue that drops nothing (Linux 5.5)"));
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(refusal)?;
    let needed = [
        (opcode::Send::CODE, "send"),
        (opcode::Recv::CODE, "receive"),
        (opcode::AsyncCancel::CODE, "cancel"),
    ];
    match needed.iter().find(|(code, _)| !probe.is_supported(*code)) {
        Some((_, name)) => Err(Refusal::Lacks(name)),
        None => Ok(ring),
    }
}

fn refusal(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Refusal::Missing,
        Some(libc::EPERM | libc::EACCES) => {
            let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            match text.ok().and_then(|text| text.trim().parse().ok()) {
                Some(value @ 1..) => Refusal::Disabled(value),
                _ => Refusal::Forbidden,
            }
        }
        _ => Refusal::Os(error),
    }
}

/// Two operations and two cancellations are the most that can be queued; a power of two above it.
const ENTRIES: u32 = 8;
const SEND_TAG: u64 = 1;
const RECEIVE_TAG: u64 = 2;
const CANCEL_TAG: u64 = 3;
