//! A recording of a server under way: what is chosen, its bounds, and the events that wait to be
//! sent.
//!
//! **Invariants:** adding an event never waits for whoever takes them, and memory is bounded; what
//! is left out is counted where it was left out.
//! **Not here:** what a connection adds (`connection/recording.rs`), sending it
//! (`servers/record_service.rs`).
//!
//! **Invariant:** no call waits for a recording of its server (`Record` of the built-in service):
//! what its loops add waits in bounded memory for a thread that sends it, and what does not fit is
//! counted in the stream. A message of a connection that is not recorded costs one look at a flag
//! and no allocation. *Checked by* `tests/it/recording.rs`, `tests/allocation.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall_os::clock;

use crate::control::recorded_event::What;
use crate::control::{RecordRequest, RecordedDrop, RecordedEvent};
use crate::limits::{
    RECORDED_BODY_BYTES_MAX, RECORDED_BYTES_PER_S_DEFAULT, RECORDED_EVENT_BYTES,
    RECORDED_MEMORY_BYTES_DEFAULT, RECORDED_MEMORY_BYTES_MAX,
};
use crate::status::Status;

/// Shared by the loops of a server and the thread that sends what they add.
pub(crate) struct Recording {
    request: RecordRequest,
    bytes_per_s_max: u64,
    memory_bytes_max: u64,
    /// Bytes of a message that are kept.
    pub(crate) body_bytes_max: usize,
    started_ns: u64,
    last_call: AtomicU64,
    is_over: AtomicBool,
    /// Held for a push, or to take all that waits.
    waiting: Mutex<Waiting>,
}

struct Waiting {
    events: Vec<RecordedEvent>,
    bytes: u64,
    /// Bytes of events that wait in connections for their calls to begin.
    early_bytes: u64,
    /// Bytes that may still be added at `allowed_at_ns`.
    allowed_bytes: u64,
    allowed_at_ns: u64,
    dropped: RecordedDrop,
}

impl Recording {
    /// Begins a recording.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: a bound is above its limit.
    pub(crate) fn new(request: &RecordRequest) -> Result<Arc<Self>, Status> {
        let or = |asked: u64, usual: u64| if asked == 0 { usual } else { asked };
        let memory_bytes_max = or(request.memory_bytes_max, RECORDED_MEMORY_BYTES_DEFAULT);
        let body_bytes_max = or(request.body_bytes_max.into(), RECORDED_BODY_BYTES_MAX as u64);
        let bytes_per_s_max = or(request.bytes_per_s_max, RECORDED_BYTES_PER_S_DEFAULT);
        for (name, asked, limit) in [
            ("memory_bytes_max", memory_bytes_max, RECORDED_MEMORY_BYTES_MAX),
            ("body_bytes_max", body_bytes_max, RECORDED_BODY_BYTES_MAX as u64),
        ] {
            if asked > limit {
                let text = format!("`{name}` is {asked}, above the limit of {limit} bytes");
                return Err(Status::invalid_argument(text));
            }
        }
        let started_ns = clock::monotonic_ns();
        let waiting = Waiting {
            events: Vec::new(),
            bytes: 0,
            early_bytes: 0,
            allowed_bytes: bytes_per_s_max,
            allowed_at_ns: started_ns,
            dropped: RecordedDrop::default(),
        };
        Ok(Arc::new(Self {
            request: request.clone(),
            bytes_per_s_max,
            memory_bytes_max,
            body_bytes_max: usize::try_from(body_bytes_max).unwrap_or(usize::MAX),
            started_ns,
            last_call: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            waiting: Mutex::new(waiting),
        }))
    }

    /// Returns whether calls over the connection of this number are chosen.
    pub(crate) fn chooses_connection(&self, number: u64) -> bool {
        self.request.connections.is_empty() || self.request.connections.contains(&number)
    }

    /// Returns whether calls of a method are chosen.
    pub(crate) fn chooses(&self, interface: &str, method: &str) -> bool {
        let RecordRequest { interfaces, methods, .. } = &self.request;
        let is_it = |chosen: &String| match chosen.split_once('/') {
            Some((of, name)) => of == interface && name == method,
            None => chosen == method,
        };
        (interfaces.is_empty() || interfaces.iter().any(|chosen| chosen == interface))
            && (methods.is_empty() || methods.iter().any(is_it))
    }

    /// Returns the number of the next call.
    pub(crate) fn next_call(&self) -> u64 {
        self.last_call.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the time since it began, in nanoseconds.
    pub(crate) fn time_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.started_ns)
    }

    /// Adds an event. False: it does not fit, which is counted.
    pub(crate) fn push(&self, event: RecordedEvent) -> bool {
        let (is_call, body_bytes) =
            (matches!(event.what, Some(What::Request(_))), bytes_of(&event));
        let event_bytes = body_bytes + RECORDED_EVENT_BYTES;
        let mut waiting = self.lock();
        // No earlier than any event before, whichever thread adds it.
        let now_ns = clock::monotonic_ns();
        let passed_ns = now_ns.saturating_sub(waiting.allowed_at_ns);
        let earned = u128::from(passed_ns) * u128::from(self.bytes_per_s_max) / NS_PER_S;
        if earned > 0 {
            let earned = u64::try_from(earned).unwrap_or(u64::MAX);
            let allowed = waiting.allowed_bytes.saturating_add(earned);
            (waiting.allowed_bytes, waiting.allowed_at_ns) =
                (allowed.min(self.bytes_per_s_max), now_ns);
        }
        if waiting.allowed_bytes < event_bytes || !self.has_room(&waiting, event_bytes) {
            let dropped = &mut waiting.dropped;
            *(if is_call { &mut dropped.calls } else { &mut dropped.events }) += 1;
            dropped.bytes += body_bytes;
            return false;
        }
        waiting.note_dropped(event.time_ns);
        waiting.allowed_bytes -= event_bytes;
        waiting.bytes += event_bytes;
        waiting.events.push(event);
        true
    }

    /// Keeps an event of a call that has not begun, in `early`. One that does not fit is counted.
    pub(crate) fn keep(self: &Arc<Self>, early: &mut Early, event: RecordedEvent) {
        let body_bytes = bytes_of(&event);
        let event_bytes = body_bytes + RECORDED_EVENT_BYTES;
        let mut waiting = self.lock();
        if !self.has_room(&waiting, event_bytes) {
            waiting.dropped.events += 1;
            waiting.dropped.bytes += body_bytes;
            return;
        }
        waiting.early_bytes += event_bytes;
        early.events.push(event);
        early.kept.get_or_insert_with(|| (Arc::clone(self), 0)).1 += event_bytes;
    }

    /// Returns whether an event of so many bytes may be added to what waits.
    fn has_room(&self, waiting: &Waiting, event_bytes: u64) -> bool {
        let waits = waiting.bytes + waiting.early_bytes;
        !self.is_over.load(Ordering::Relaxed) && waits + event_bytes <= self.memory_bytes_max
    }

    /// Counts events that were taken and could not be sent.
    pub(crate) fn note_unsent(&self, events: &[RecordedEvent]) {
        let mut waiting = self.lock();
        for event in events {
            waiting.dropped.events += 1;
            waiting.dropped.bytes += bytes_of(event);
        }
    }

    /// Takes all events that wait.
    pub(crate) fn take(&self) -> Vec<RecordedEvent> {
        let mut waiting = self.lock();
        waiting.note_dropped(self.time_ns());
        waiting.bytes = 0;
        std::mem::take(&mut waiting.events)
    }

    /// Takes no more events.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events of one call that wait until it begins, in the memory of their recording.
#[derive(Default)]
pub(crate) struct Early {
    events: Vec<RecordedEvent>,
    /// The recording whose memory they are in, and how many bytes of it.
    kept: Option<(Arc<Recording>, u64)>,
}

impl Early {
    /// Returns the events, which are in the memory no more.
    pub(crate) fn take(mut self) -> Vec<RecordedEvent> {
        std::mem::take(&mut self.events)
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if let Some((recording, bytes)) = self.kept.take() {
            recording.lock().early_bytes -= bytes;
        }
    }
}

impl Waiting {
    /// Adds an event for what was left out since the last one.
    fn note_dropped(&mut self, time_ns: u64) {
        if self.dropped != RecordedDrop::default() {
            let what = Some(What::Dropped(std::mem::take(&mut self.dropped)));
            self.events.push(RecordedEvent { time_ns, call: 0, what });
        }
    }
}

/// Returns the length of the message that an event has, in bytes.
pub(crate) fn bytes_of(event: &RecordedEvent) -> u64 {
    let body = match &event.what {
        Some(What::Request(request)) => request.body.as_ref(),
        Some(What::Result(result)) => result.body.as_ref(),
        Some(What::RequestItem(body) | What::ReplyItem(body)) => Some(body),
        _ => None,
    };
    body.map_or(0, |body| body.data.len() as u64)
}

const NS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::control::{RecordedBody, RecordedRequest};

    fn item(bytes: usize) -> RecordedEvent {
        let data = Bytes::from(vec![7; bytes]);
        let body = RecordedBody { data, cut_from_bytes: 0 };
        RecordedEvent { time_ns: 1, call: 1, what: Some(What::ReplyItem(body)) }
    }

    #[test]
    fn what_does_not_fit_is_counted_where_it_was_left_out() {
        let memory_bytes_max = 2 * (RECORDED_EVENT_BYTES + 100);
        let request = RecordRequest { memory_bytes_max, ..RecordRequest::default() };
        let recording = Recording::new(&request).unwrap();
        let call = What::Request(RecordedRequest::default());
        assert!(recording.push(item(100)) && recording.push(item(100)));
        assert!(!recording.push(item(50)));
        assert!(!recording.push(RecordedEvent { time_ns: 2, call: 2, what: Some(call) }));
        let mut taken = recording.take();
        let dropped = RecordedDrop { calls: 1, events: 1, bytes: 50 };
        assert_eq!(taken.pop().unwrap().what, Some(What::Dropped(dropped)));
        assert_eq!(taken.len(), 2);
        assert!(recording.push(item(100)));
        assert_eq!(recording.take().len(), 1);
    }

    #[test]
    fn what_waits_for_its_call_is_within_the_memory() {
        let memory_bytes_max = 3 * (RECORDED_EVENT_BYTES + 100);
        let request = RecordRequest { memory_bytes_max, ..RecordRequest::default() };
        let recording = Recording::new(&request).unwrap();
        let (mut first, mut second) = (Early::default(), Early::default());
        recording.keep(&mut first, item(100));
        recording.keep(&mut second, item(100));
        assert!(recording.push(item(100)));
        recording.keep(&mut first, item(100));
        assert!(!recording.push(item(0)));
        // What is sent leaves room, and what is kept none.
        assert_eq!(recording.take().len(), 2);
        assert!(recording.push(item(100)) && !recording.push(item(100)));
        assert_eq!(first.take().len(), 1);
        assert!(recording.push(item(100)) && !recording.push(item(100)));
        drop(second);
        assert!(recording.push(item(100)) && !recording.push(item(100)));
    }

    #[test]
    fn no_more_than_the_rate_allows_is_added() {
        let event_bytes = RECORDED_EVENT_BYTES + 1000;
        let bytes_per_s_max = 3 * event_bytes;
        let request = RecordRequest { bytes_per_s_max, ..RecordRequest::default() };
        let recording = Recording::new(&request).unwrap();
        let added = (0..100).filter(|_| recording.push(item(1000))).count();
        // A second of it at once; a slow machine earns some more meanwhile.
        assert!((3..50).contains(&added), "{added}");
    }

    #[test]
    fn bounds_above_their_limits_are_refused() {
        let memory_bytes_max = RECORDED_MEMORY_BYTES_MAX + 1;
        let request = RecordRequest { memory_bytes_max, ..RecordRequest::default() };
        let refused = Recording::new(&request).err().unwrap();
        assert!(refused.message().contains("`memory_bytes_max`"), "{refused}");
    }

    #[test]
    fn methods_are_chosen_with_or_without_their_interface() {
        let methods = vec!["a.B/C".to_owned(), "D".to_owned()];
        let request = RecordRequest { methods, ..RecordRequest::default() };
        let recording = Recording::new(&request).unwrap();
        assert!(recording.chooses("a.B", "C") && recording.chooses("x.Y", "D"));
        assert!(!recording.chooses("x.Y", "C") && !recording.chooses("a.B", "E"));
        assert!(recording.chooses_connection(7));
    }
}
