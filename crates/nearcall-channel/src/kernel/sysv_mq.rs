//! Two System V message queues, one for each direction.
//!
//! A queue is a number without a descriptor and without timeouts: nothing can be polled, and a
//! wait with a deadline tries again after pauses that grow to 1 ms, which is what a message may
//! then be late. Each end removes the queue from which it receives, and the other one once it is
//! empty or the other end is gone; so a survivor removes what a killed end left, and only two ends
//! killed at once leave queues behind.
//! When the other end dies the watcher puts an empty message into our receiving queue, behind what
//! was sent before (if the queue is full no receiver sleeps there), and removes the sending queue.
//! To interrupt a receive the watcher puts an empty message there, too; these are counted.
//!
//! **Invariants:** an empty message only ends a sleep; what counts is the life. A peer that lives
//! and sends one is broken. Both ends can read, write and remove both queues.
//! **Not here:** fragments (`packet.rs`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::poll::{self, poll_one};
use nearcall_os::process;
use nearcall_os::sysv::{self, MessageBuffer, OwnedQueue};

use crate::channel;
use crate::channel::Channel;
use crate::control::Control;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::fragment::HEADER_BYTES;
use crate::kernel::packet::{PacketSocket, PacketTransport, Received};
use crate::kernel::{Attempt, FdPair, WaitStrategy};
use crate::liveness::PeerLiveness;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::wait::{Deadline, Interest, Readiness};
use crate::watcher::{Cause, WatchGuard, watch};

/// One end.
struct SysvLine {
    queues: Queues,
    outgoing: MessageBuffer,
    incoming: MessageBuffer,
    /// The next pause of a wait with a deadline.
    pause: Duration,
    /// Empty messages that the watcher has put into our receiving queue to interrupt a receive.
    calls: Arc<AtomicU32>,
    liveness: Arc<PeerLiveness>,
    // Last, so that it ends after the queues were removed.
    _watch: WatchGuard,
}

/// The numbers of both queues, as one end sees them.
struct Queues {
    outward: i32,
    inward: i32,
    control: Arc<Control>,
}

impl Drop for Queues {
    fn drop(&mut self) {
        if !self.control.epoch().is_current() {
            return;
        }
        // No other process needs what is still in it.
        let _ = sysv::remove(self.inward);
        let is_empty = sysv::stat(self.outward).is_ok_and(|stat| stat.messages == 0);
        let interest = poll::Interest::HangUp;
        let is_gone = || poll_one(&*self.control, interest, Deadline::NOW);
        if is_empty || !matches!(is_gone(), Ok(None)) {
            let _ = sysv::remove(self.outward);
        }
    }
}

impl FdPair for SysvLine {
    fn wait_for(&mut self, _interest: Interest, deadline: Deadline) -> io::Result<bool> {
        clock::pause(deadline.remaining().map_or(self.pause, |left| left.min(self.pause)));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(false)
    }
}

impl PacketSocket for SysvLine {
    fn room_bytes(&self) -> io::Result<usize> {
        let bytes_max = sysv::stat(self.queues.outward)?.bytes_max;
        Ok(usize::try_from(bytes_max).unwrap_or(usize::MAX))
    }

    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.outgoing.body_mut()
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        self.incoming.body()
    }

    #[inline]
    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>> {
        let (queue, message) = (self.queues.outward, &mut self.outgoing);
        let sent = match how {
            Attempt::Blocking => sysv::send(queue, KIND, message, packet_bytes).map(|()| true),
            Attempt::NonBlocking => sysv::try_send(queue, KIND, message, packet_bytes),
        };
        let sent = sent.map_err(map_removed)?;
        if sent {
            self.pause = PAUSE_MIN;
        }
        Ok(sent.then_some(()))
    }

    #[inline]
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>> {
        let (queue, message) = (self.queues.inward, &mut self.incoming);
        loop {
            let received = match how {
                Attempt::Blocking => sysv::receive(queue, ANY_KIND, message).map(Some),
                Attempt::NonBlocking => sysv::try_receive(queue, ANY_KIND, message),
            };
            let Some(bytes) = received.map_err(map_removed)? else { return Ok(None) };
            self.pause = PAUSE_MIN;
            match bytes {
                0 if !take_call(&self.calls) => return Ok(Some(Received::WakeUp)),
                0 if how == Attempt::Blocking && self.liveness.is_interrupted() => return Ok(None),
                // It came too late for the sleep that it was for.
                0 => {}
                _ => return Ok(Some(Received::Packet(0..bytes))),
            }
        }
    }

    fn has_room(&mut self) -> io::Result<bool> {
        let stat = sysv::stat(self.queues.outward).map_err(map_removed)?;
        Ok(stat.bytes + self.outgoing.body().len() as u64 <= stat.bytes_max)
    }

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        None
    }
}

/// Takes note of an empty message. False: none that the watcher had put there to interrupt.
fn take_call(calls: &AtomicU32) -> bool {
    calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1)).is_ok()
}

/// A queue that was removed means that the other end is gone.
fn map_removed(error: io::Error) -> io::Error {
    match sysv::means_removed(&error) {
        true => io::ErrorKind::BrokenPipe.into(),
        false => error,
    }
}

/// Returns whether a pair of queues can be made now.
pub(crate) fn probe() -> Result<(), Unsupported> {
    create().and_then(|first| create().map(|second| drop((first, second))))
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let me = process::user_id();
    let them = user_id(settings)?;
    if me != them {
        return Err(Unsupported::OtherUser { own_uid: me, peer_uid: them }.into());
    }
    let (to_client, to_server) = (create()?, create()?);
    let bytes = [to_client.id(), to_server.id()].map(i32::to_le_bytes).concat();
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        let channel = channel(to_client.id(), to_server.id(), &settings)?;
        // From here on the channel removes them.
        std::mem::forget((to_client, to_server));
        Ok(channel)
    };
    Ok(Offer { parts: ChannelFds { bytes, descriptors: Vec::new() }, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let bytes = std::mem::take(&mut parts.bytes);
    parts.expect_nothing_more()?;
    let queues = bytes.split_first_chunk::<4>().and_then(|(first, rest)| {
        Some([i32::from_le_bytes(*first), i32::from_le_bytes(rest.try_into().ok()?)])
    });
    let Some([to_client, to_server]) = queues else {
        return Err(OpenError::bad_parts("no numbers of queues"));
    };
    if to_client == to_server {
        return Err(OpenError::bad_parts("one queue for both directions"));
    }
    let them = user_id(settings)?;
    for queue in [to_client, to_server] {
        let stat = sysv::stat(queue).map_err(|_| OpenError::bad_parts("no queue of ours"))?;
        // Someone else's queue, or one that others can use, was not made for us.
        if stat.owner_uid != them || stat.mode != 0o600 || stat.messages != 0 {
            return Err(OpenError::bad_parts("a queue that was not made for this"));
        }
    }
    let channel = channel(to_server, to_client, settings)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

/// Whose process the other end is.
fn user_id(settings: &Settings) -> Result<u32, OpenError> {
    let process = settings.peer.process();
    Ok(process.ok_or(Unsupported::OtherMachine)?.uid)
}

fn create() -> Result<OwnedQueue, Unsupported> {
    let queues_max = || sysv::limits().queues_max;
    OwnedQueue::create().map_err(|error| Unsupported::SysvQueue { queues_max: queues_max(), error })
}

fn channel(outward: i32, inward: i32, settings: &Settings) -> Result<Box<dyn Channel>, OpenError> {
    let queue_bytes = sysv::stat(outward).map_err(OpenError::doing("asking for a queue's size"))?;
    let message_bytes = sysv::limits().message_bytes_max.unwrap_or(MESSAGE_BYTES_MAX);
    // Two in a queue, so that one can be read while the next is written.
    let bytes = message_bytes.min(queue_bytes.bytes_max / 2).min(MESSAGE_BYTES_MAX);
    let bytes = usize::try_from(bytes).unwrap_or(0);
    if bytes <= HEADER_BYTES {
        return Err(Unsupported::SysvMessage { message_bytes: bytes }.into());
    }
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let wake = move |cause| {
        let mut empty = MessageBuffer::with_capacity(0);
        match cause {
            Cause::Gone => {
                let _ = sysv::try_send(inward, KIND, &mut empty, 0);
                let _ = sysv::remove(outward);
            }
            // One at a time. Before it is sent, since it may be received at once.
            Cause::Interrupted => {
                let first = counted.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
                if first.is_ok() && !matches!(sysv::try_send(inward, KIND, &mut empty, 0), Ok(true))
                {
                    // The queue is full, so no receiver sleeps there.
                    take_call(&counted);
                }
            }
        }
    };
    let guard = watch(settings, wake).map_err(OpenError::doing("watching the other end"))?;
    let line = SysvLine {
        queues: Queues { outward, inward, control: Arc::clone(&settings.control) },
        outgoing: MessageBuffer::with_capacity(bytes),
        // The limit may have been raised between the two looks at it.
        incoming: MessageBuffer::with_capacity(usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(0)),
        pause: PAUSE_MIN,
        calls,
        liveness: Arc::clone(&settings.liveness),
        _watch: guard,
    };
    let strategy =
        WaitStrategy { wait: settings.wait, liveness: Some(Arc::clone(&settings.liveness)) };
    let transport = PacketTransport::new(line, strategy);
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// The type of all our messages. Types could reorder; we want the order of sending.
const KIND: i32 = 1;

/// Receives messages of any type: the oldest.
const ANY_KIND: i32 = 0;

/// Longest message, in bytes: the default of kernel.msgmax, half of the default kernel.msgmnb.
const MESSAGE_BYTES_MAX: u64 = 8 << 10;

/// First pause of a wait with a deadline. Shorter than that the kernel's timers round up anyway.
const PAUSE_MIN: Duration = Duration::from_micros(50);

/// Longest pause of a wait with a deadline: what a message may be late.
const PAUSE_MAX: Duration = Duration::from_millis(1);
