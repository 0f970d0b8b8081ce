//! Two POSIX message queues without a name, one for each direction.
//!
//! A queue does not report that the other end is gone. Then the watcher puts an empty message into
//! our receiving queue, which wakes a sleeping receiver (if the queue is full no receiver sleeps
//! there), and takes one out of our sending queue, which wakes a sleeping sender.
//!
//! **Invariants:** an empty message only ends a sleep; what counts is the life. A peer that lives
//! and sends one is broken. O_NONBLOCK of the shared open file is never relied on. Both ends can
//! read and write both queues: a hostile peer can take back or forge what it likes.
//! **Not here:** fragments (`packet.rs`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::mqueue::{self, CreateError};
use nearcall_os::poll::poll_one;

use crate::channel;
use crate::channel::Channel;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::fragment::HEADER_BYTES;
use crate::kernel::packet::{PacketSocket, PacketTransport, Received};
use crate::kernel::{Attempt, FdPair, WaitStrategy, poll_interest};
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::wait::{Deadline, Interest, Readiness};
use crate::watcher::{WatchGuard, watch};

/// One end.
struct MqLine {
    outward: Arc<OwnedFd>,
    inward: Arc<OwnedFd>,
    outgoing: Box<[u8]>,
    incoming: Box<[u8]>,
    _watch: WatchGuard,
}

impl FdPair for MqLine {
    fn wait_for(&mut self, interest: Interest, deadline: Deadline) -> io::Result<bool> {
        let queue = match interest {
            Interest::Receive => &self.inward,
            Interest::Send => &self.outward,
        };
        Ok(poll_one(&**queue, poll_interest(interest), deadline)?.is_some())
    }
}

impl PacketSocket for MqLine {
    fn room_bytes(&self) -> io::Result<usize> {
        let queue = mqueue::attributes(&self.outward)?;
        Ok(queue.messages_max * queue.message_bytes_max)
    }

    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        &mut self.outgoing
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        &self.incoming
    }

    #[inline]
    fn send(&mut self, packet_bytes: usize, how: Attempt) -> io::Result<Option<()>> {
        let packet = &self.outgoing[..packet_bytes];
        Ok(mqueue::send_timeout(&*self.outward, packet, deadline(how))?.then_some(()))
    }

    #[inline]
    fn receive(&mut self, how: Attempt) -> io::Result<Option<Received>> {
        let bytes = mqueue::receive_timeout(&*self.inward, &mut self.incoming, deadline(how))?;
        Ok(bytes.map(|bytes| match bytes {
            0 => Received::WakeUp,
            _ => Received::Packet(0..bytes),
        }))
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        Some(match interest {
            Interest::Receive => Readiness::level(self.inward.as_fd(), false),
            Interest::Send => Readiness::level(self.outward.as_fd(), true),
        })
    }
}

fn deadline(how: Attempt) -> Deadline {
    match how {
        Attempt::NonBlocking => Deadline::NOW,
        Attempt::Blocking => Deadline::NEVER,
    }
}

/// Returns whether a pair of queues can be made now.
pub(crate) fn probe() -> Result<(), Unsupported> {
    let (messages, bytes) = queue_size(crate::limits::BUFFER_BYTES_DEFAULT);
    let make = || mqueue::create_unlinked(messages, bytes);
    make()
        .and_then(|first| make().map(|second| drop((first, second))))
        .map_err(Unsupported::PosixQueue)
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let (messages, bytes) = queue_size(settings.buffer_bytes);
    let make = || mqueue::create_unlinked(messages, bytes).map_err(queue_error);
    let (to_client, to_server) = (make()?, make()?);
    let keep = |queue: &OwnedFd| {
        nearcall_os::descriptor::duplicate(queue).map_err(OpenError::doing("keeping a queue"))
    };
    let (outward, inward) = (keep(&to_client)?, keep(&to_server)?);
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![to_client, to_server] };
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        channel(outward, inward, &settings)
    };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [to_client, to_server] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    let channel = channel(to_server, to_client, settings)?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

fn channel(
    outward: OwnedFd,
    inward: OwnedFd,
    settings: &Settings,
) -> Result<Box<dyn Channel>, OpenError> {
    let buffer = |queue: &OwnedFd| {
        let size = mqueue::attributes(queue).map_err(|_| OpenError::bad_parts("no queue"))?;
        match (HEADER_BYTES + 1..=MESSAGE_BYTES_CEILING).contains(&size.message_bytes_max) {
            true => Ok(vec![0; size.message_bytes_max].into_boxed_slice()),
            false => Err(OpenError::bad_parts("a queue for messages of an unexpected size")),
        }
    };
    let (outgoing, incoming) = (buffer(&outward)?, buffer(&inward)?);
    let (outward, inward) = (Arc::new(outward), Arc::new(inward));
    let (sending, receiving) = (Arc::clone(&outward), Arc::clone(&inward));
    let bytes = outgoing.len();
    let wake = move || {
        let _ = mqueue::try_send(&*receiving, &[]);
        let _ = mqueue::try_receive(&*sending, &mut vec![0; bytes]);
    };
    let guard =
        watch(settings, move |_| wake()).map_err(OpenError::doing("watching the other end"))?;
    let line = MqLine { outward, inward, outgoing, incoming, _watch: guard };
    let strategy =
        WaitStrategy { wait: settings.wait, liveness: Some(Arc::clone(&settings.liveness)) };
    let transport = PacketTransport::new(line, strategy);
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// Returns how many messages of how many bytes, within this machine's limits.
fn queue_size(buffer_bytes: u32) -> (usize, usize) {
    let limits = mqueue::limits();
    let number = |limit: Option<u64>, unknown| {
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(unknown)
    };
    let bytes = number(limits.message_bytes_max, MESSAGE_BYTES_MAX).min(MESSAGE_BYTES_MAX);
    let messages_max = number(limits.messages_max, MESSAGES_MAX).min(MESSAGES_MAX);
    let bytes = bytes.min((buffer_bytes as usize / 2).max(HEADER_BYTES + 1));
    ((buffer_bytes as usize / bytes.max(1)).clamp(1, messages_max.max(1)), bytes)
}

fn queue_error(error: CreateError) -> OpenError {
    match error {
        CreateError::Os(error) => OpenError::Os { doing: "making a queue", error },
        limit => OpenError::Unsupported(Unsupported::PosixQueue(limit)),
    }
}

/// Longest message of a queue that we make, in bytes: what fs.mqueue.msgsize_max is by default.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Most messages of a queue that we make. More than the default fs.mqueue.msg_max of 10 would
/// only eat up the user's RLIMIT_MSGQUEUE.
const MESSAGES_MAX: usize = 10;

/// Longest message of a queue that we accept from a server, in bytes: bounds our buffers.
const MESSAGE_BYTES_CEILING: usize = 64 << 10;
