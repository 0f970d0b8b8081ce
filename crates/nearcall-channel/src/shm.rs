//! Channels through shared memory: one ring, one layout, many doorbells.
//!
//! **Invariants:** each end writes only its own memory file; whatever the other end wrote is loaded
//! once and judged; while neither end sleeps, no system call is made.
//! **Not here:** the bounded buffer (`shm/condvar.rs`), the queue under a mutex (`shm/queue.rs`).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::clock;
use nearcall_os::region::{OwnRegion, PeerRegion, SharedBytes};

use crate::channel;
use crate::error::{OpenError, ReceiveError, SendError, Violation};
use crate::fds::ChannelFds;
use crate::fragment::FragmentHeader;
use crate::limits::{
    BELL_CHECK_INTERVAL_NS, EMPTY_POLLS_PER_CHECK, FRAGMENT_BYTES, LANE_IDLE, LANE_SLOTS,
    RING_FRAGMENT_BYTES_MAX, SPINS_PER_LIFE_CHECK,
};
use crate::liveness::PeerLiveness;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory, SleepOn, Waiter, Waker};
use crate::shm::lane::Lanes;
use crate::shm::layout::lane::INDIRECT_BYTES;
use crate::shm::layout::{Capacity, FRAME_WORD_BYTES, Pages, SLEEP, fragment_range, frame_bytes};
use crate::shm::ring::{Consumer, Producer};
use crate::spin::Spinner;
use crate::sync::Ordering;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness, SpinYield, WaitPolicy, WakeCounts};
use crate::watcher::{WatchGuard, watch};

pub(crate) mod arena;
pub(crate) mod condvar;
pub(crate) mod doorbell;
pub(crate) mod lane;
pub(crate) mod layout;
pub(crate) mod monitor;
pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod segment_table;
pub(crate) mod segments;

/// One end: two rings and a doorbell.
struct ShmTransport<D> {
    memory: Memory,
    doorbell: D,
    producer: Producer,
    consumer: Consumer,
    waiter: Waiter,
    waker: Waker,
    /// `true` if the other end may ever sleep.
    rings: bool,
    /// The position of the reserved fragment, and its length.
    reserved: (usize, usize),
    /// The position of the unread rest of the current fragment, and its length.
    current: (usize, usize),
    /// For long fragments, if this connection has such.
    lanes: Option<Lanes>,
    /// The reserved fragment lies in our lane, and the current one in the other end's.
    reserved_in_lane: bool,
    current_in_lane: bool,
    /// Half of the ring: a sleeper for room is rung when so much has been freed.
    room_worth_ringing: u64,
    /// The position that we had read when we last rang for room.
    rung_at: u64,
    wait: WaitPolicy,
    /// Sending leaves an announced sleep announced.
    stays_armed: bool,
    spinner: Spinner,
    liveness: Arc<PeerLiveness>,
    /// For the watch, if it begins late.
    settings: Settings,
    watch: Option<WatchGuard>,
    /// Polls that found nothing and were not allowed to wait, and fragments sent through the lane.
    empty_polls: u32,
    /// When an end that is not watched over looked at its bell last.
    bell_looked_ns: u64,
}

/// Opens the server's end of the ring with doorbell `D`.
pub(crate) fn offer<D: Meet>(settings: &Settings) -> Result<Offer, OpenError> {
    let capacity = Capacity::at_least(settings.buffer_bytes);
    let (own, fd) = create::<D>(capacity, settings)?;
    let (doorbell, mut parts) = D::offer(settings)?;
    parts.descriptors.insert(0, fd);
    let settings = settings.clone();
    let finish = move |mut answer: ChannelFds| {
        let [fd] = answer.take_descriptors()?;
        answer.expect_nothing_more()?;
        let peer = layout::open(fd, capacity, pages::<D>())?;
        let transport = ShmTransport::new(Memory { own, peer }, doorbell, capacity, &settings)?;
        Ok(channel::over(transport, settings.message_bytes_max))
    };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end of the ring with doorbell `D`.
pub(crate) fn accept<D: Meet>(
    settings: &Settings,
    mut parts: ChannelFds,
) -> Result<Accepted, OpenError> {
    let capacity = Capacity::at_least(settings.buffer_bytes);
    if parts.descriptors.is_empty() {
        return Err(OpenError::bad_parts("no shared memory"));
    }
    let peer = layout::open(parts.descriptors.remove(0), capacity, pages::<D>())?;
    let (own, fd) = create::<D>(capacity, settings)?;
    let doorbell = D::accept(settings, parts)?;
    let transport = ShmTransport::new(Memory { own, peer }, doorbell, capacity, settings)?;
    let channel = channel::over(transport, settings.message_bytes_max);
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![fd] };
    Ok(Accepted { parts, channel })
}

fn create<D: Doorbell>(
    capacity: Capacity,
    settings: &Settings,
) -> Result<(OwnRegion, OwnedFd), OpenError> {
    layout::create(capacity, pages::<D>(), D::LAZY_COMMIT && settings.wait == WaitPolicy::Spin)
}

fn pages<D: Doorbell>() -> Pages {
    if D::LAZY_COMMIT { Pages::First } else { Pages::All }
}

impl<D: Doorbell> ShmTransport<D> {
    fn new(
        memory: Memory,
        doorbell: D,
        capacity: Capacity,
        settings: &Settings,
    ) -> Result<Self, OpenError> {
        let mut transport = Self {
            rings: !D::LAZY_COMMIT || !layout::never_sleeps(&memory.peer),
            memory,
            doorbell,
            producer: Producer::new(capacity, pages::<D>()),
            consumer: Consumer::new(capacity, pages::<D>()),
            waiter: Waiter::default(),
            waker: Waker::default(),
            reserved: (layout::FRAMES, 0),
            current: (0, 0),
            lanes: Lanes::new(capacity, settings).filter(|_| D::LAZY_COMMIT),
            reserved_in_lane: false,
            current_in_lane: false,
            room_worth_ringing: capacity.bytes() as u64 / 2,
            rung_at: 0,
            stays_armed: false,
            wait: settings.wait,
            spinner: Spinner::new(settings.spin),
            liveness: Arc::clone(&settings.liveness),
            settings: settings.clone(),
            watch: None,
            empty_polls: 0,
            bell_looked_ns: 0,
        };
        if !D::LAZY_COMMIT {
            transport.watch_over().map_err(OpenError::doing("watching the other end"))?;
        }
        Ok(transport)
    }

    /// From now on the death of the other end wakes this one.
    fn watch_over(&mut self) -> std::io::Result<()> {
        let local_wake = self.doorbell.local_wake(&self.memory);
        self.watch = Some(watch(&self.settings, move |_| local_wake())?);
        Ok(())
    }

    /// Waits until `ready` gives anything but zero, as the policy says. Zero: the deadline has
    /// passed, or the other end is gone and nothing more is to be had.
    #[inline(always)]
    fn wait_until(
        &mut self,
        interest: Interest,
        deadline: Deadline,
        ready: impl Fn(&mut Self) -> u64,
    ) -> u64 {
        if self.waiter.is_announced() {
            self.end_announced_sleep();
        }
        match ready(self) {
            0 if deadline != Deadline::NOW => self.wait_long(interest, deadline, ready),
            0 if D::LAZY_COMMIT => self.record_empty_poll(),
            word => word,
        }
    }

    /// Nothing there for a caller that does not wait: it may be one that spins, and never sleeps.
    #[inline]
    fn record_empty_poll(&mut self) -> u64 {
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls.is_multiple_of(EMPTY_POLLS_PER_CHECK) {
            self.check_other_end();
        }
        0
    }

    /// What an end that does not sleep has to look at now and then. Not while a sleep is announced.
    #[cold]
    fn check_other_end(&mut self) {
        // The other end may sleep for the room that we have made, and have nothing for us before.
        self.ring_for_room(0);
        if D::LAZY_COMMIT && self.watch.is_none() {
            // By the clock: an end that polls seldom, or for short times, must notice it as well.
            let now_ns = clock::monotonic_ns();
            if now_ns.saturating_sub(self.bell_looked_ns) >= BELL_CHECK_INTERVAL_NS {
                self.bell_looked_ns = now_ns;
                // Only the hang-up of the bell reports a death.
                self.doorbell.clear();
            }
        }
    }

    /// An event loop slept on our descriptor and has come back.
    #[cold]
    fn end_announced_sleep(&mut self) {
        self.waiter.end(&self.memory.own);
        if !self.waiter.leaves_rings() {
            self.doorbell.clear();
        }
    }

    fn take_rings(&mut self) {
        self.waiter.note_rings_taken();
        self.doorbell.clear();
    }

    #[inline(always)]
    fn wait_long(
        &mut self,
        interest: Interest,
        deadline: Deadline,
        ready: impl Fn(&mut Self) -> u64,
    ) -> u64 {
        match self.wait {
            WaitPolicy::Spin => self.spin_until(deadline, ready),
            WaitPolicy::Adaptive => self.spin_then_sleep_until(interest, deadline, ready),
            WaitPolicy::Block | WaitPolicy::Poll => self.sleep_until(interest, deadline, ready),
        }
    }

    #[inline(always)]
    fn spin_until(&mut self, deadline: Deadline, ready: impl Fn(&mut Self) -> u64) -> u64 {
        let mut spin_yield = SpinYield::default();
        loop {
            for _ in 0..SPINS_PER_LIFE_CHECK {
                std::hint::spin_loop();
                let word = ready(self);
                if word != 0 {
                    return word;
                }
            }
            if D::LAZY_COMMIT {
                self.check_other_end();
            }
            if self.liveness.is_gone() || deadline.has_passed() {
                return ready(self);
            }
            spin_yield.count();
        }
    }

    #[inline(always)]
    fn spin_then_sleep_until(
        &mut self,
        interest: Interest,
        deadline: Deadline,
        ready: impl Fn(&mut Self) -> u64,
    ) -> u64 {
        let mut plan = self.spinner.begin();
        while plan.should_spin(&mut self.spinner) {
            std::hint::spin_loop();
            let word = ready(self);
            if word != 0 {
                self.spinner.record_hit(plan);
                return word;
            }
            if plan.is_at_clock() {
                self.check_other_end();
                if self.liveness.is_gone() || deadline.has_passed() {
                    self.spinner.record_timeout(plan);
                    return ready(self);
                }
            }
        }
        let word = self.sleep_until(interest, deadline, ready);
        if word != 0 {
            self.spinner.record_wake(plan);
        }
        word
    }

    /// Chooses where to sleep: on the futex only if the watcher reports the other end's death
    /// there.
    fn sleeps_on(&mut self) -> SleepOn {
        let on = self.doorbell.sleeps_on();
        let unwatched = D::LAZY_COMMIT && on == SleepOn::Futex && self.watch.is_none();
        if unwatched && self.watch_over().is_err() { SleepOn::Descriptor } else { on }
    }

    #[inline(never)]
    fn sleep_until(
        &mut self,
        interest: Interest,
        deadline: Deadline,
        ready: impl Fn(&mut Self) -> u64,
    ) -> u64 {
        self.ring_for_room(0);
        let on = self.sleeps_on();
        if interest == Interest::Send
            && let Some(lanes) = &mut self.lanes
        {
            lanes.slots = LANE_SLOTS[1];
        }
        loop {
            self.maintain_lanes(interest);
            self.doorbell.prepare(&self.memory);
            // Before the announcement: a ring for this very sleep must not be in the epoch.
            let epoch = self.doorbell.epoch(&self.memory);
            self.waiter.begin(&self.memory.own, interest, on);
            let word = ready(self);
            if word != 0 {
                self.waiter.end(&self.memory.own);
                return word;
            }
            let sleep_end = match &self.lanes {
                Some(lanes) if lanes.out.is_held() || lanes.incoming.may_be_retired() => {
                    deadline.min(Deadline::after(LANE_IDLE))
                }
                _ => deadline,
            };
            let slept = self.liveness.sleep_while_alive(|| match on {
                SleepOn::Futex => self.doorbell.sleep(&self.memory, epoch, sleep_end),
                SleepOn::Descriptor | SleepOn::DescriptorEdge => {
                    self.doorbell.sleep_on_descriptor(sleep_end)
                }
            });
            self.waiter.end_slept(&self.memory.own);
            let word = ready(self);
            if word != 0 {
                return word;
            }
            // `None`: gone or interrupted, and the mark of the interruption may be gone again.
            if slept.is_none()
                || self.liveness.is_gone()
                || self.liveness.is_interrupted()
                || deadline.has_passed()
            {
                return ready(self);
            }
        }
    }

    /// Reserves after a look at the consumer, a wait, a pad or an early wrap.
    #[inline(never)]
    fn reserve_long(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if self.liveness.is_gone() {
            return Err(SendError::PeerGone);
        }
        let ready = |transport: &mut Self| {
            transport.producer.may_reserve(&transport.memory.peer, fragment_bytes).into()
        };
        if self.wait_until(Interest::Send, deadline, ready) == 0 {
            return Err(if self.liveness.is_gone() {
                SendError::PeerGone
            } else {
                SendError::Full
            });
        }
        if D::LAZY_COMMIT {
            // A sender that never receives gets here once per window.
            self.check_other_end();
        }
        let Memory { own, peer } = &self.memory;
        let place = self.producer.try_reserve(own, peer, fragment_bytes)?;
        self.reserved = (place.ok_or(SendError::Full)?, fragment_bytes);
        Ok(())
    }

    /// As `reserve_long`, for a fragment that goes through the lane. `None`: there is no lane.
    #[inline(never)]
    fn reserve_in_lane(
        &mut self,
        fragment_bytes: usize,
        deadline: Deadline,
    ) -> Option<Result<(), SendError>> {
        let lanes = self.lanes.as_mut()?;
        if self.liveness.is_gone() {
            return Some(Err(SendError::PeerGone));
        }
        if !lanes.out.open() {
            return None;
        }
        let is_reader_asleep = self.memory.peer.load32(SLEEP, Ordering::Relaxed) != 0;
        lanes.slots = LANE_SLOTS[usize::from(is_reader_asleep)];
        if is_reader_asleep {
            // All slots may be used, but one of the first is better if the other end has read it.
            let free_at = lanes.out.free_at(fragment_bytes, LANE_SLOTS[0]);
            let _ = self.producer.is_read_to(&self.memory.peer, free_at);
        }
        let ready = |transport: &mut Self| {
            let may = transport.producer.may_reserve(&transport.memory.peer, INDIRECT_BYTES)
                && transport.has_lane_room(fragment_bytes);
            u64::from(may)
        };
        let mut has_room = self.wait_until(Interest::Send, deadline, ready) != 0;
        if self.liveness.is_gone() {
            return Some(Err(SendError::PeerGone));
        }
        if !has_room && let Some(lanes) = &mut self.lanes {
            // No wait is left, or a long one: the reader rings for half of all slots.
            (lanes.wanted_bytes, lanes.slots) = (fragment_bytes, LANE_SLOTS[1]);
            has_room = ready(self) != 0;
        }
        if !has_room {
            return Some(Err(SendError::Full));
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.wanted_bytes = 0;
        }
        self.record_empty_poll();
        let Memory { own, peer } = &self.memory;
        let place = match self.producer.try_reserve(own, peer, INDIRECT_BYTES) {
            Ok(place) => place,
            Err(violation) => return Some(Err(violation.into())),
        };
        let Some(place) = place else { return Some(Err(SendError::Full)) };
        if let Some(lanes) = &mut self.lanes {
            lanes.out.take(fragment_bytes, self.producer.consumed());
        }
        self.reserved = (place, fragment_bytes);
        self.reserved_in_lane = true;
        Some(Ok(()))
    }

    /// Returns whether the next fragment has a slot in our lane, or the other end lies about it.
    /// Makes a larger lane if all slots are busy.
    fn has_lane_room(&mut self, fragment_bytes: usize) -> bool {
        let Some(lanes) = &mut self.lanes else { return true };
        let free_at = lanes.out.free_at(fragment_bytes, lanes.slots);
        self.producer.is_read_to(&self.memory.peer, free_at).unwrap_or(true)
            || lanes.slots > LANE_SLOTS[0] && lanes.out.grow()
    }

    /// Before a sleep.
    #[inline]
    fn maintain_lanes(&mut self, interest: Interest) {
        if let Some(lanes) = &mut self.lanes
            && lanes.are_held()
        {
            // An end that waits for room is about to use it.
            if interest == Interest::Receive && !self.reserved_in_lane {
                let _ = self.producer.is_read_to(&self.memory.peer, lanes.out.busy_until());
                lanes.out.maintain(self.producer.consumed());
            }
            if !self.current_in_lane {
                lanes.incoming.maintain();
            }
        }
    }

    /// Returns whether what an event loop waits for is there.
    #[inline]
    fn is_ready(&mut self, interest: Interest) -> bool {
        match interest {
            Interest::Receive => self.consumer.look(&self.memory.peer) != 0,
            // The largest frame: a waiter for less finds room even earlier.
            Interest::Send => {
                let frame = frame_bytes(self.producer.fragment_bytes_max());
                self.producer.has_room(&self.memory.peer, 2 * frame as u64).unwrap_or(true)
                    && match self.lanes.as_ref().map_or(0, |lanes| lanes.wanted_bytes) {
                        0 => true,
                        wanted_bytes => self.has_lane_room(wanted_bytes),
                    }
            }
        }
    }

    /// After reading: lets a sender that sleeps for room go on, once that is worth it.
    #[inline(always)]
    fn ring_for_room(&mut self, worth: u64) {
        let read = self.consumer.head();
        if D::SLEEPS && self.rings && read - self.rung_at >= worth.max(1) {
            self.rung_at = read;
            if let Some(waiter) = self.waker.target_for_room(&self.memory.peer) {
                // A bell that cannot be rung belongs to an end that is going away, or to one that
                // would sleep without end.
                if self.doorbell.ring_for(&self.memory, waiter).is_err() {
                    self.liveness.set_gone();
                }
            }
        }
    }
}

impl<D: Doorbell> ShmTransport<D> {
    #[inline(never)]
    fn publish_in_lane(&mut self, header: FragmentHeader) {
        self.reserved_in_lane = false;
        let Some(lanes) = &mut self.lanes else { return };
        let place = fragment_range(self.reserved.0, INDIRECT_BYTES);
        self.memory.own.slice_mut(place).copy_from_slice(&lanes.out.indirect_word().to_le_bytes());
        let busy_until = self.producer.publish_indirect(&self.memory.own, header);
        lanes.out.mark_used(header.fragment_bytes as usize, busy_until);
    }

    /// The frame at `place` says where the current fragment lies.
    #[inline(never)]
    fn find_in_lane(&mut self, place: usize, fragment_bytes: usize) -> Result<(), ReceiveError> {
        // One load: the other end may change it, and only this copy is judged.
        let word = self.memory.peer.load64(place + FRAME_WORD_BYTES, Ordering::Relaxed);
        let lanes = self.lanes.as_mut().ok_or(Violation::BadSegment)?;
        let range = lanes.incoming.find(word, fragment_bytes)?;
        self.current = (range.start, range.len());
        self.current_in_lane = true;
        Ok(())
    }

    /// Returns the memory of the current fragment.
    #[inline(always)]
    fn memory_of_current(&self) -> &PeerRegion {
        match &self.lanes {
            Some(lanes) if D::LAZY_COMMIT && self.current_in_lane => {
                lanes.incoming.region().unwrap_or(&self.memory.peer)
            }
            _ => &self.memory.peer,
        }
    }

    /// From which number of bytes read in the ring on the other end is to be rung for room.
    fn finish_in_lane(&mut self) -> u64 {
        self.current_in_lane = false;
        let Some(lanes) = &mut self.lanes else { return 0 };
        if lanes.incoming.is_worth_ringing() { 0 } else { self.room_worth_ringing }
    }
}

impl<D: Doorbell> Transport for ShmTransport<D> {
    fn room_bytes(&self) -> std::io::Result<usize> {
        Ok(self.producer.capacity_bytes())
    }

    fn fragment_bytes_max(&self) -> usize {
        self.producer.fragment_bytes_max()
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        if let Some(lanes) = &mut self.lanes
            && lanes.out.open()
        {
            let fragments = message_bytes.div_ceil(FRAGMENT_BYTES);
            // Notes, and a last fragment that is short enough for the ring.
            let frames =
                fragments * frame_bytes(INDIRECT_BYTES) + frame_bytes(RING_FRAGMENT_BYTES_MAX);
            let (producer, peer) = (&mut self.producer, &self.memory.peer);
            // Looks at the other end, if anything that it has to read may matter.
            let _ = producer.is_read_to(peer, lanes.out.busy_until());
            let consumed = producer.consumed();
            return producer.has_room(peer, 2 * frames as u64).unwrap_or(false)
                && (lanes.out.has_room_for(message_bytes, consumed)
                    || lanes.out.grow() && lanes.out.has_room_for(message_bytes, consumed));
        }
        self.producer.has_room_for(&self.memory.peer, message_bytes).unwrap_or(false)
    }

    #[inline(always)]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if D::LAZY_COMMIT
            && fragment_bytes > RING_FRAGMENT_BYTES_MAX
            && let Some(outcome) = self.reserve_in_lane(fragment_bytes, deadline)
        {
            return outcome;
        }
        match self.producer.reserve_plain(fragment_bytes) {
            Some(place)
                if !self.liveness.is_gone()
                    && (!self.waiter.is_announced() || self.stays_armed) =>
            {
                self.reserved = (place, fragment_bytes);
                Ok(())
            }
            _ => self.reserve_long(fragment_bytes, deadline),
        }
    }

    #[inline(always)]
    fn room(&mut self) -> &mut [u8] {
        let (place, fragment_bytes) = self.reserved;
        if D::LAZY_COMMIT
            && self.reserved_in_lane
            && let Some(lanes) = &mut self.lanes
        {
            return lanes.out.room(fragment_bytes);
        }
        self.memory.own.slice_mut(fragment_range(place, fragment_bytes))
    }

    #[inline(always)]
    fn publish(&mut self, header: FragmentHeader, _until: Deadline) -> Result<(), SendError> {
        match D::LAZY_COMMIT && self.reserved_in_lane {
            true => self.publish_in_lane(header),
            false => self.producer.publish(&self.memory.own, header),
        }
        if D::SLEEPS
            && self.rings
            && let Some(waiter) = self.waker.target_for_message(&self.memory.peer)
        {
            // The other end may have read the message all the same, so it was sent. An end that
            // cannot be woken is as good as gone, which the next wait finds.
            if self.doorbell.ring_for(&self.memory, waiter).is_err() {
                self.liveness.set_gone();
            }
        }
        Ok(())
    }

    fn wakes(&self) -> WakeCounts {
        WakeCounts { given: Some(self.waker.rings()), taken: self.waiter.sleeps() }
    }

    fn unreserve(&mut self) {
        // The word of the frame was never written, so nothing was published.
        match std::mem::take(&mut self.reserved_in_lane) {
            true => self.producer.forget(INDIRECT_BYTES),
            false => self.producer.forget(self.reserved.1),
        }
    }

    #[inline(always)]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        loop {
            let ready = |transport: &mut Self| transport.consumer.look(&transport.memory.peer);
            let word = self.wait_until(Interest::Receive, deadline, ready);
            if word == 0 {
                if !self.liveness.is_gone() {
                    return Err(ReceiveError::Empty);
                }
                // It may have published between our last look and its end.
                if self.consumer.look(&self.memory.peer) == 0 {
                    return Err(ReceiveError::PeerGone);
                }
                continue;
            }
            let Memory { own, peer } = &self.memory;
            if let Some((header, place)) = self.consumer.try_plain(word) {
                let fragment = fragment_range(place, header.fragment_bytes as usize);
                self.current = (fragment.start, fragment.len());
                return Ok(header);
            }
            // Nothing, although something was there: that was a pad before a frame to come.
            if let Some((header, place)) = self.consumer.try_next(own, peer)? {
                self.current = (fragment_range(place, 0).start, header.fragment_bytes as usize);
                if D::LAZY_COMMIT && self.consumer.is_indirect() {
                    self.find_in_lane(place, header.fragment_bytes as usize)?;
                }
                return Ok(header);
            }
        }
    }

    #[inline]
    fn poll_ready(&mut self, spins: u32) -> bool {
        if self.waiter.is_announced() {
            return true;
        }
        for look in 0..spins {
            if look > 0 {
                std::hint::spin_loop();
            }
            if self.consumer.look(&self.memory.peer) != 0 {
                return true;
            }
        }
        if D::LAZY_COMMIT {
            self.record_empty_poll();
        }
        self.liveness.is_gone()
    }

    #[inline(always)]
    fn is_whole(&mut self, _fragment_bytes: usize) -> bool {
        true
    }

    #[inline(always)]
    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        let (start, bytes) = self.current;
        Ok(self.memory_of_current().bytes(start..start + bytes))
    }

    #[inline(always)]
    fn read(&mut self, into: &mut [u8], _until: Deadline) -> Result<(), ReceiveError> {
        let start = self.current.0;
        let memory = self.memory_of_current();
        memory.bytes(start..start + into.len()).copy_to(into);
        self.consume(into.len());
        Ok(())
    }

    #[inline(always)]
    fn consume(&mut self, bytes: usize) {
        self.current.0 += bytes;
        self.current.1 -= bytes;
    }

    #[inline(always)]
    fn finish(&mut self) {
        self.consumer.finish(&self.memory.own);
        let worth = match D::LAZY_COMMIT && self.current_in_lane {
            true => self.finish_in_lane(),
            false => self.room_worth_ringing,
        };
        self.ring_for_room(worth);
    }

    fn stay_armed(&mut self) {
        self.stays_armed = true;
    }

    fn disarm(&mut self) {
        if self.waiter.is_announced() {
            self.end_announced_sleep();
        }
    }

    fn watch_edges(&mut self) {
        if D::KEEPS_RINGS {
            self.waiter.leave_rings();
        }
    }

    fn note_report(&mut self, has_hung_up: bool) {
        if D::KEEPS_RINGS && has_hung_up {
            self.liveness.set_gone();
        } else if self.waiter.leaves_rings() && !self.waiter.is_announced() {
            // For a sleep that was over by then, or for nothing: the end of no sleep takes it back.
            self.take_rings();
        }
    }

    fn set_interruptible(&mut self, interruptible: bool) {
        self.liveness.set_interruptible(interruptible);
    }

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        if D::LAZY_COMMIT && self.wait == WaitPolicy::Spin {
            return None;
        }
        let edge = self.waiter.leaves_rings();
        self.doorbell.descriptor().map(|fd| Readiness { fd, writable: false, edge })
    }

    fn socket(&self) -> Option<&Arc<OwnedFd>> {
        self.doorbell.socket()
    }

    fn arm(&mut self, interest: Interest) -> bool {
        if D::LAZY_COMMIT && self.wait == WaitPolicy::Spin {
            // The flags of our memory file state that we never sleep.
            return false;
        }
        if !self.waiter.is_announced() && self.is_ready(interest) {
            // Amid a stream: no sleep to announce, and no wake-up for the room of a few messages.
            return false;
        }
        if self.stays_armed
            && self.waiter.is_announced_on_descriptor(interest)
            && !self.is_ready(interest)
        {
            // Nothing was received since: what there was to do before that sleep is done.
            return true;
        }
        self.ring_for_room(0);
        self.maintain_lanes(interest);
        self.doorbell.prepare(&self.memory);
        let was_announced = self.waiter.is_announced();
        self.waiter.begin(&self.memory.own, interest, SleepOn::Descriptor);
        let mut is_ready = self.is_ready(interest);
        if self.waiter.has_left_many_rings() {
            self.take_rings();
            // One may have been for the other interest, which the caller then looks at again.
            is_ready = was_announced || self.is_ready(interest);
        }
        if is_ready || self.liveness.is_gone() {
            self.waiter.end(&self.memory.own);
        }
        self.waiter.is_announced()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
