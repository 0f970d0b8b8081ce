//! What a server counts of the calls that it answers: by method, and by connection.
//!
//! **Invariants:** counting takes no lock, makes no system call and cannot fail; the clock is read
//! for one call in [`TIMED_ONE_IN`] of a method; a call that has begun is in flight until it ends
//! or its connection is dropped.
//! **Not here:** messages and their sizes (`traffic.rs`), who may see it (`servers/built_in.rs`),
//! calls within a thread, which come over no connection.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use nearcall_os::clock;
use nearcall_wire::IncomingCall;

use super::traffic::Traffic;
use crate::interface::Interface;
use crate::limits::TIMED_ONE_IN;
use crate::status::Code;

/// Calls that a server has begun to serve, since its object was registered or since the connection
/// was opened.
///
/// Stands in a [`ConnectionInfo`](crate::observe::ConnectionInfo).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounts {
    /// Calls and one-way messages.
    pub calls: u64,
    /// Calls that have not ended.
    pub in_flight: u64,
    /// Bytes of requests and of items from clients, headers included. Of a connection: of all of
    /// its messages.
    pub received_bytes: u64,
    /// Bytes of results and of items to clients, as `received_bytes`.
    pub sent_bytes: u64,
    /// Calls that ended with another status than `OK`, by its code.
    pub errors: Vec<(Code, u64)>,
    /// How long some of the calls took.
    pub times: CallTimes,
}

impl CallCounts {
    /// Returns the same with the bytes of a connection.
    pub(super) fn with_traffic(self, traffic: &Traffic) -> Self {
        let (received_bytes, sent_bytes) = (traffic.received.bytes, traffic.sent.bytes);
        Self { received_bytes, sent_bytes, ..self }
    }

    /// Adds what another loop has counted of the same.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.in_flight += other.in_flight;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        for &(code, count) in &other.errors {
            match self.errors.iter_mut().find(|(known, _)| *known == code) {
                Some((_, known)) => *known += count,
                None => self.errors.push((code, count)),
            }
        }
        self.times.add(&other.times);
    }
}

/// Times of calls, from the moment a server begins to serve one until its reply is handed to the
/// channel, in ns: a log-linear histogram.
///
/// Its buckets are those of an `hdrhistogram` with the lowest value 1 and one significant digit: 32
/// of 1 ns, then 16 for each power of two, from [`lowest_ns`](Self::lowest_ns) to that of the next
/// bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTimes {
    counts: Vec<u32>,
}

impl CallTimes {
    /// The longest time that has a bucket of its own, 68 s: what took longer counts as that.
    pub const NS_MAX: u64 = (1 << 36) - 1;

    /// Buckets of each power of two.
    const PART: u64 = 16;

    /// All buckets: 16 below the first power that has any, then 16 for each of 32.
    const BUCKETS: usize = 33 * 16;

    /// Returns the number of timed calls by bucket, up to the last that has any.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the shortest time of a bucket, in ns.
    pub fn lowest_ns(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        match bucket / Self::PART {
            0 => bucket,
            part => (Self::PART + bucket % Self::PART) << (part - 1),
        }
    }

    fn bucket_of(ns: u64) -> usize {
        let ns = ns.min(Self::NS_MAX);
        let part = u64::from((ns / Self::PART).checked_ilog2().map_or(0, |log| log + 1));
        let within = match part {
            0 => ns,
            part => (ns >> (part - 1)) - Self::PART,
        };
        // Below `BUCKETS`, by the bound above.
        usize::try_from(part * Self::PART + within).unwrap_or_default()
    }

    fn add(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }
}

/// What few calls add to: 2 KiB.
struct Rare {
    /// By the number of the code.
    errors: [Cell<u64>; Code::ALL.len()],
    /// By bucket.
    times: [Cell<u32>; CallTimes::BUCKETS],
}

/// Made by the first call, so that an idle server stays small and a busy one allocates nothing.
#[derive(Default)]
struct LazyRare(OnceCell<Box<Rare>>);

impl LazyRare {
    #[cold]
    fn make(&self) -> &Rare {
        self.0.get_or_init(|| {
            let errors = [const { Cell::new(0) }; Code::ALL.len()];
            Box::new(Rare { errors, times: [const { Cell::new(0) }; CallTimes::BUCKETS] })
        })
    }

    #[cold]
    fn count(&self, code: Code, took_ns: Option<u64>) {
        let rare = self.make();
        if code != Code::Ok {
            rare.errors[usize::from(code.number())].update(|count| count + 1);
        }
        if let Some(ns) = took_ns {
            rare.times[CallTimes::bucket_of(ns)].update(|count| count.saturating_add(1));
        }
    }

    fn read(&self) -> (Vec<(Code, u64)>, CallTimes) {
        let Some(rare) = self.0.get() else { return Default::default() };
        let errors = Code::ALL.iter().zip(&rare.errors);
        let errors = errors.map(|(code, count)| (*code, count.get())).filter(|(_, n)| *n > 0);
        let used = rare.times.iter().rposition(|count| count.get() > 0).map_or(0, |last| last + 1);
        let counts = rare.times[..used].iter().map(Cell::get).collect();
        (errors.collect(), CallTimes { counts })
    }
}

#[derive(Default)]
struct MethodCounters {
    calls: Cell<u64>,
    in_flight: Cell<u64>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    rare: LazyRare,
}

/// The counters of the methods of one object in one loop.
pub(crate) struct ObjectCounters {
    /// The numbers of the methods, in ascending order.
    ids: Box<[u32]>,
    /// As `ids`, and one more for all methods that the interface does not have.
    methods: Box<[MethodCounters]>,
    /// The method that was looked up last: most objects have one that is called again and again.
    last: Cell<usize>,
}

impl ObjectCounters {
    pub(crate) fn new(interface: &Interface) -> Rc<Self> {
        let mut ids: Vec<u32> = interface.methods.iter().map(|method| method.id).collect();
        ids.sort_unstable();
        let methods = (0..=ids.len()).map(|_| MethodCounters::default()).collect();
        Rc::new(Self { ids: ids.into(), methods, last: Cell::new(0) })
    }

    #[inline]
    fn index_of(&self, method: u32) -> usize {
        let last = self.last.get();
        if self.ids.get(last) == Some(&method) { last } else { self.find(method) }
    }

    fn find(&self, method: u32) -> usize {
        let index = self.ids.binary_search(&method).unwrap_or(self.ids.len());
        self.last.set(index);
        index
    }

    /// Returns what was counted of each method, with the number of the method; none: of all that
    /// the interface does not have.
    pub(crate) fn read(&self) -> impl Iterator<Item = (Option<u32>, CallCounts)> {
        self.methods.iter().enumerate().map(|(index, method)| {
            let (errors, times) = method.rare.read();
            let counts = CallCounts {
                calls: method.calls.get(),
                in_flight: method.in_flight.get(),
                received_bytes: method.received_bytes.get(),
                sent_bytes: method.sent_bytes.get(),
                errors,
                times,
            };
            (self.ids.get(index).copied(), counts)
        })
    }
}

/// A call that its method has not answered before it returned.
struct OpenCall {
    object: Rc<ObjectCounters>,
    method: usize,
    /// Zero: it is not timed.
    begun_ns: u64,
}

impl OpenCall {
    fn counters(&self) -> &MethodCounters {
        &self.object.methods[self.method]
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.counters().in_flight.update(|count| count - 1);
    }
}

/// The calls of the peer on one connection.
pub(crate) struct ServedCalls {
    calls: Cell<u64>,
    /// The slot of the call whose method runs; [`NO_SLOT`]: none does.
    serving: Cell<u32>,
    /// How that call has ended, if it has.
    ended: Cell<Ended>,
    /// The same of the calls around it, whose methods wait, the innermost last.
    around: RefCell<Vec<(u32, Ended)>>,
    /// Calls that go on after their methods have returned, by their slots.
    open: RefCell<Vec<Option<OpenCall>>>,
    /// Items of calls whose methods run.
    early: RefCell<Vec<(IncomingCall, ItemBytes)>>,
    has_early: Cell<bool>,
    rare: LazyRare,
}

/// Bytes of items of a call.
#[derive(Clone, Copy)]
struct ItemBytes {
    received: u64,
    sent: u64,
}

impl MethodCounters {
    /// Returns when a call that is timed begins. A one-way message is not: it has no end.
    #[cold]
    fn begin_timed(&self, call: Option<IncomingCall>) -> u64 {
        if call.is_none() {
            return 0;
        }
        self.rare.make();
        clock::monotonic_ns()
    }

    fn add_items(&self, items: ItemBytes) {
        self.received_bytes.update(|bytes| bytes + items.received);
        self.sent_bytes.update(|bytes| bytes + items.sent);
    }
}

/// No call has these slots: none is served, or one that has no end.
const NO_SLOT: u32 = u32::MAX;
const ONEWAY: u32 = u32::MAX - 1;

/// The status with which a call has ended in the lowest byte, and the bytes of the reply above; all
/// ones: it has not ended. One word, since it is written and read for each call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ended(u64);

impl Ended {
    const NOT: Self = Self(u64::MAX);

    #[inline]
    fn by(code: Code, message_bytes: usize) -> Self {
        Self((message_bytes as u64) << 8 | u64::from(code.number()))
    }

    fn code(self) -> Code {
        Code::from_number((self.0 & 0xff) as u16).unwrap_or(Code::Unknown)
    }

    #[inline]
    fn is_ok(self) -> bool {
        self.0 & 0xff == 0
    }

    #[inline]
    fn message_bytes(self) -> u64 {
        self.0 >> 8
    }
}

/// A call whose method runs.
#[must_use]
pub(crate) struct Begun<'a> {
    object: &'a Rc<ObjectCounters>,
    method: usize,
    counters: &'a MethodCounters,
    /// Zero: it is not timed.
    begun_ns: u64,
}

impl Default for ServedCalls {
    fn default() -> Self {
        Self {
            calls: Cell::new(0),
            serving: Cell::new(NO_SLOT),
            ended: Cell::new(Ended::NOT),
            around: RefCell::default(),
            open: RefCell::default(),
            early: RefCell::default(),
            has_early: Cell::new(false),
            rare: LazyRare::default(),
        }
    }
}

impl ServedCalls {
    /// Counts a call or one-way message of so many bytes that begins. It is settled when its method
    /// has returned.
    #[inline(always)]
    pub(crate) fn begin<'a>(
        &self,
        call: Option<IncomingCall>,
        object: &'a Rc<ObjectCounters>,
        method: u32,
        message_bytes: usize,
    ) -> Begun<'a> {
        if self.calls.get() == 0 {
            // With the first call, so that none later allocates.
            self.rare.make();
        }
        self.calls.update(|calls| calls + 1);
        let method = object.index_of(method);
        let counters = &object.methods[method];
        let calls = counters.calls.get();
        counters.calls.set(calls + 1);
        counters.received_bytes.update(|bytes| bytes + message_bytes as u64);
        let begun_ns = match calls.is_multiple_of(u64::from(TIMED_ONE_IN)) {
            true => counters.begin_timed(call),
            false => 0,
        };
        if self.serving.get() != NO_SLOT {
            self.begin_inside();
        }
        self.serving.set(call.map_or(ONEWAY, |call| call.slot().into()));
        Begun { object, method, counters, begun_ns }
    }

    /// Remembers the call whose method waits.
    #[cold]
    fn begin_inside(&self) {
        self.around.borrow_mut().push((self.serving.get(), self.ended.replace(Ended::NOT)));
    }

    /// Counts a call whose method has returned, unless it goes on. `is_over`: whether it has ended,
    /// asked only where that is not known here.
    #[inline(always)]
    pub(crate) fn settle(
        &self,
        call: Option<IncomingCall>,
        begun: &Begun<'_>,
        is_over: impl FnOnce(IncomingCall) -> bool,
    ) {
        let ended = self.ended.replace(Ended::NOT);
        self.serving.set(NO_SLOT);
        let is_plain = ended.is_ok() && begun.begun_ns == 0;
        if is_plain && !self.has_early.get() && self.around.borrow().is_empty() {
            begun.counters.sent_bytes.update(|bytes| bytes + ended.message_bytes());
        } else {
            self.settle_rarely(call, begun, ended, is_over);
        }
    }

    #[inline(never)]
    fn settle_rarely(
        &self,
        call: Option<IncomingCall>,
        begun: &Begun<'_>,
        ended: Ended,
        is_over: impl FnOnce(IncomingCall) -> bool,
    ) {
        if let Some((serving, ended)) = self.around.borrow_mut().pop() {
            self.serving.set(serving);
            self.ended.set(ended);
        }
        if let Some(call) = call {
            self.settle_items(call, begun.counters);
        }
        match (ended, call) {
            (Ended::NOT, Some(call)) if !is_over(call) => self.keep(call, begun),
            // Its end was noted while the method of another call ran inside of its own.
            (Ended::NOT, Some(_)) => self.count_rare(Code::Cancelled, 0, Some(begun.counters)),
            (Ended::NOT, None) => {}
            (ended, _) => {
                begun.counters.sent_bytes.update(|bytes| bytes + ended.message_bytes());
                if !ended.is_ok() || begun.begun_ns > 0 {
                    self.count_rare(ended.code(), begun.begun_ns, Some(begun.counters));
                }
            }
        }
    }

    /// Keeps a call that goes on.
    fn keep(&self, call: IncomingCall, begun: &Begun<'_>) {
        let &Begun { object, method, counters, begun_ns } = begun;
        counters.in_flight.update(|count| count + 1);
        let entry = Some(OpenCall { object: Rc::clone(object), method, begun_ns });
        let mut open = self.open.borrow_mut();
        let slot = usize::from(call.slot());
        match open.get_mut(slot) {
            Some(place) => *place = entry,
            None => {
                open.resize_with(slot, || None);
                open.push(entry);
            }
        }
    }

    /// Counts a call to an object that the server does not have.
    #[cold]
    pub(crate) fn begin_unknown(&self) {
        self.calls.update(|calls| calls + 1);
    }

    /// Counts the end of a call by a message of so many bytes.
    #[inline]
    pub(crate) fn end(&self, call: IncomingCall, code: Code, message_bytes: usize) {
        match self.serving.get() == u32::from(call.slot()) {
            true => self.ended.set(Ended::by(code, message_bytes)),
            false => self.end_open(call, code, message_bytes),
        }
    }

    /// Counts the end of a call whose method has returned, or that has had none.
    #[inline(never)]
    fn end_open(&self, call: IncomingCall, code: Code, message_bytes: usize) {
        let ended = self.open.borrow_mut().get_mut(usize::from(call.slot())).and_then(Option::take);
        let begun_ns = ended.as_ref().map_or(0, |ended| ended.begun_ns);
        let counters = ended.as_ref().map(OpenCall::counters);
        if let Some(counters) = counters {
            counters.sent_bytes.update(|bytes| bytes + message_bytes as u64);
        }
        if code != Code::Ok || begun_ns > 0 {
            self.count_rare(code, begun_ns, counters);
        }
    }

    #[cold]
    fn count_rare(&self, code: Code, begun_ns: u64, counters: Option<&MethodCounters>) {
        let now_ns = (begun_ns > 0).then(clock::monotonic_ns);
        let took_ns = now_ns.map(|now_ns| now_ns.saturating_sub(begun_ns));
        self.rare.count(code, took_ns);
        if let Some(counters) = counters {
            counters.rare.count(code, took_ns);
        }
    }

    /// Counts items of a call.
    #[cold]
    pub(crate) fn add_items(&self, call: IncomingCall, received_bytes: usize, sent_bytes: usize) {
        let items = ItemBytes { received: received_bytes as u64, sent: sent_bytes as u64 };
        if let Some(Some(open)) = self.open.borrow().get(usize::from(call.slot())) {
            return open.counters().add_items(items);
        }
        if self.serving.get() == u32::from(call.slot()) {
            self.has_early.set(true);
            self.early.borrow_mut().push((call, items));
        }
    }

    /// Counts the items of a call that came or left before its method has returned.
    #[cold]
    fn settle_items(&self, call: IncomingCall, counters: &MethodCounters) {
        self.early.borrow_mut().retain(|(of, items)| {
            if *of == call {
                counters.add_items(*items);
            }
            *of != call
        });
        self.has_early.set(!self.early.borrow().is_empty());
    }

    /// Returns what was counted, without bytes: those of a connection are its traffic.
    pub(crate) fn read(&self) -> CallCounts {
        let (errors, times) = self.rare.read();
        let in_flight = self.open.borrow().iter().flatten().count() as u64;
        let (received_bytes, sent_bytes) = (0, 0);
        CallCounts { calls: self.calls.get(), in_flight, received_bytes, sent_bytes, errors, times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..CallTimes::BUCKETS {
            let (lowest, next) = (CallTimes::lowest_ns(bucket), CallTimes::lowest_ns(bucket + 1));
            assert_eq!(CallTimes::bucket_of(lowest), bucket);
            assert_eq!(CallTimes::bucket_of(next - 1), bucket, "{next}");
            assert!(next - lowest <= lowest / 16 + 1, "{lowest} to {next}");
        }
        assert_eq!(CallTimes::lowest_ns(CallTimes::BUCKETS), CallTimes::NS_MAX + 1);
        assert_eq!(CallTimes::bucket_of(u64::MAX), CallTimes::BUCKETS - 1);
    }

    #[test]
    fn a_histogram_is_read_as_far_as_its_longest_time() {
        let rare = LazyRare::default();
        assert_eq!(rare.read(), Default::default());
        rare.count(Code::Ok, Some(3));
        rare.count(Code::Aborted, None);
        let (errors, mut times) = rare.read();
        assert_eq!((errors, times.counts()), (vec![(Code::Aborted, 1)], &[0, 0, 0, 1][..]));
        times.add(&CallTimes { counts: vec![0, 0, 0, 1, 0, 1] });
        assert_eq!(times.counts(), [0, 0, 0, 2, 0, 1]);
    }

    #[test]
    fn what_loops_have_counted_adds_up() {
        let counts = |calls, errors: &[(Code, u64)]| CallCounts {
            calls,
            errors: errors.to_vec(),
            ..CallCounts::default()
        };
        let mut sum = counts(2, &[(Code::Internal, 1)]);
        sum.add(&counts(3, &[(Code::Aborted, 1), (Code::Internal, 4)]));
        assert_eq!(sum, counts(5, &[(Code::Internal, 5), (Code::Aborted, 1)]));
    }
}
