//! The way for fragments through memory that a mutex guards, whatever form it has there.
//!
//! **Invariants:** bytes are copied in and out under the lock, as the textbook has it, between the
//! memory and a buffer of this end's own; each operation takes effect by one store at its end.
//! **Not here:** the forms (`condvar.rs`, `queue.rs`), the lock and the waiting (`monitor.rs`).

use std::sync::Arc;

use nearcall_os::region::{Backing, LockRegion, SharedBytes, SharedRegion};

use crate::channel;
use crate::error::OpenError;
use crate::error::{ReceiveError, SendError, Violation};
use crate::fds::ChannelFds;
use crate::fragment::FragmentHeader;
use crate::liveness::PeerLiveness;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::shm::layout::Capacity;
use crate::shm::layout::monitor::MONITOR_BYTES;
use crate::shm::monitor::{Condition, Monitor, nudge, rescue};
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness};
use crate::watcher::{Cause, WatchGuard, watch};

/// One direction's memory, as one end sees it. All but `has_known_room` is called under the lock.
pub(crate) trait Buffer: Send + Sized + 'static {
    /// Bytes that it takes in the region.
    fn region_bytes(capacity: Capacity) -> usize;

    /// The buffer at `at`, a multiple of 128, in memory that was all zero or that the other end
    /// has initialised.
    fn new(region: &Arc<LockRegion>, at: usize, capacity: Capacity) -> Self;

    /// Makes an empty buffer of zeroed memory, before the other end attaches.
    fn init(&self) {}

    /// Bytes of fragments that it holds at most.
    fn room_bytes(&self) -> usize;

    /// The longest fragment.
    fn fragment_bytes_max(&self) -> usize;

    /// Returns whether all fragments of a message had room when last looked. Then they still have:
    /// the receiver only makes more.
    fn has_known_room(&self, message_bytes: usize) -> bool;

    /// Looks how much room there is.
    fn refresh(&mut self) -> Result<(), Violation>;

    /// Puts a fragment in, for which there was room.
    fn put(&mut self, header: FragmentHeader, bytes: &[u8]) -> Result<(), Violation>;

    /// Takes the oldest fragment out, if there is one; its bytes are at the start of `into`, which
    /// has room for the longest fragment.
    fn take(&mut self, into: &mut [u8]) -> Result<Option<FragmentHeader>, Violation>;
}

/// One end: a monitor and a buffer for each direction.
struct MonitorTransport<B> {
    sending: Monitor,
    outgoing: B,
    /// The reserved fragment, written by the user before it is put in.
    staged: Box<[u8]>,
    reserved_bytes: usize,
    receiving: Monitor,
    incoming: B,
    /// The current fragment, taken out, and where its unread rest begins and ends.
    taken: Box<[u8]>,
    unread: (usize, usize),
    liveness: Arc<PeerLiveness>,
    _watch: WatchGuard,
}

/// The server's end.
pub(crate) fn offer<B: Buffer>(settings: &Settings) -> Result<Offer, OpenError> {
    let places = Places::new::<B>(settings);
    let (region, fd) =
        SharedRegion::create("nearcall-monitor", places.region_bytes, Backing::Reserved)?;
    let region = Arc::new(region.for_locks(settings.trust_for_locks()?));
    for at in [places.to_client, places.to_server] {
        Monitor::init(&region, at, &settings.liveness)
            .map_err(OpenError::doing("making a mutex and condition variables"))?;
        B::new(&region, at + MONITOR_BYTES, places.capacity).init();
    }
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        let (sending, receiving) = (places.to_client, places.to_server);
        let transport =
            MonitorTransport::<B>::new(&region, sending, receiving, places.capacity, &settings)?;
        Ok(channel::over(transport, settings.message_bytes_max))
    };
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![fd] };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// The client's end.
pub(crate) fn accept<B: Buffer>(
    settings: &Settings,
    mut parts: ChannelFds,
) -> Result<Accepted, OpenError> {
    let [fd] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    let places = Places::new::<B>(settings);
    let region = SharedRegion::open(fd, places.region_bytes..=places.region_bytes)?;
    let region = region.for_locks(settings.trust_for_locks()?);
    let (sending, receiving) = (places.to_server, places.to_client);
    let transport = MonitorTransport::<B>::new(
        &Arc::new(region),
        sending,
        receiving,
        places.capacity,
        settings,
    )?;
    let channel = channel::over(transport, settings.message_bytes_max);
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

/// Where the two directions lie; both ends compute it from what they agreed on.
struct Places {
    capacity: Capacity,
    to_client: usize,
    to_server: usize,
    region_bytes: usize,
}

impl Places {
    fn new<B: Buffer>(settings: &Settings) -> Self {
        let capacity = Capacity::at_least(settings.buffer_bytes);
        let direction = (MONITOR_BYTES + B::region_bytes(capacity)).next_multiple_of(128);
        let region_bytes = (2 * direction).next_multiple_of(PAGE_BYTES);
        Self { capacity, to_client: 0, to_server: direction, region_bytes }
    }
}

/// The granularity of memory files.
const PAGE_BYTES: usize = 4096;

impl<B: Buffer> MonitorTransport<B> {
    fn new(
        region: &Arc<LockRegion>,
        sending: usize,
        receiving: usize,
        capacity: Capacity,
        settings: &Settings,
    ) -> Result<Self, OpenError> {
        // No page fault under the lock.
        region
            .prefault()
            .map_err(|error| OpenError::doing("touching shared memory")(error.into()))?;
        let outgoing = B::new(region, sending + MONITOR_BYTES, capacity);
        let incoming = B::new(region, receiving + MONITOR_BYTES, capacity);
        let own_buffer = || vec![0; outgoing.fragment_bytes_max()].into_boxed_slice();
        let (staged, taken) = (own_buffer(), own_buffer());
        let (rescue, nudge) =
            (rescue(region, [sending, receiving]), nudge(region, sending, receiving));
        let local_wake = move |cause| match cause {
            Cause::Gone => rescue(),
            Cause::Interrupted => nudge(),
        };
        let guard =
            watch(settings, local_wake).map_err(OpenError::doing("watching the other end"))?;
        Ok(Self {
            sending: Monitor::attach(region, sending, &settings.liveness),
            outgoing,
            staged,
            reserved_bytes: 0,
            receiving: Monitor::attach(region, receiving, &settings.liveness),
            incoming,
            taken,
            unread: (0, 0),
            liveness: Arc::clone(&settings.liveness),
            _watch: guard,
        })
    }

    /// Waits until a message has room. False: not by `deadline`, or the other end is gone.
    fn wait_for_room(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
    ) -> Result<bool, SendError> {
        let outgoing = &mut self.outgoing;
        let room = self.sending.enter(Condition::NotFull, None, deadline, || {
            outgoing.refresh()?;
            Ok(outgoing.has_known_room(message_bytes).then_some(()))
        });
        room.map(|room: Option<()>| room.is_some())
    }
}

impl<B: Buffer> Transport for MonitorTransport<B> {
    fn room_bytes(&self) -> std::io::Result<usize> {
        Ok(self.outgoing.room_bytes())
    }

    fn fragment_bytes_max(&self) -> usize {
        self.staged.len()
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        self.outgoing.has_known_room(message_bytes)
            || self.wait_for_room(message_bytes, Deadline::NOW).unwrap_or(false)
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if self.liveness.is_gone() {
            return Err(SendError::PeerGone);
        }
        if self.outgoing.has_known_room(fragment_bytes)
            || self.wait_for_room(fragment_bytes, deadline)?
        {
            self.reserved_bytes = fragment_bytes;
            return Ok(());
        }
        Err(if self.liveness.is_gone() { SendError::PeerGone } else { SendError::Full })
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.staged[..self.reserved_bytes]
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, _until: Deadline) -> Result<(), SendError> {
        let (outgoing, bytes) = (&mut self.outgoing, &self.staged[..self.reserved_bytes]);
        // There is room: only the lock is waited for, as long as its owner copies.
        let wakes = Some(Condition::NotEmpty);
        let put = self.sending.enter(Condition::NotFull, wakes, Deadline::NEVER, || {
            outgoing.put(header, bytes).map(Some)
        });
        self.reserved_bytes = 0;
        put.and_then(|put: Option<()>| put.ok_or(SendError::PeerGone))
    }

    fn unreserve(&mut self) {
        self.reserved_bytes = 0;
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        let (incoming, taken) = (&mut self.incoming, &mut self.taken);
        let mut take = |deadline| -> Result<Option<FragmentHeader>, ReceiveError> {
            let wakes = Some(Condition::NotFull);
            self.receiving.enter(Condition::NotEmpty, wakes, deadline, || incoming.take(taken))
        };
        let header = match take(deadline)? {
            Some(header) => header,
            None if !self.liveness.is_gone() => return Err(ReceiveError::Empty),
            // It may have put something in between our last look and its end.
            None => take(Deadline::NOW)?.ok_or(ReceiveError::PeerGone)?,
        };
        self.unread = (0, header.fragment_bytes as usize);
        Ok(header)
    }

    fn is_whole(&mut self, _fragment_bytes: usize) -> bool {
        true
    }

    #[inline]
    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        Ok(SharedBytes::from_slice(&self.taken[self.unread.0..self.unread.1]))
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.unread.0 = (self.unread.0 + bytes).min(self.unread.1);
    }

    #[inline]
    fn finish(&mut self) {
        self.unread = (0, 0);
    }

    fn set_interruptible(&mut self, interruptible: bool) {
        self.liveness.set_interruptible(interruptible);
    }

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        None
    }
}
