//! The calls of one recorded connection, sent again in their order, each at its time.
//!
//! What the caller did then is done again, and where it got something, that is waited for: so calls
//! overlap as they did, and one that takes longer now delays what followed it.
//! **Invariants:** whatever the events are, a call that was not begun has no further ones.
//! **Not here:** which connection has which calls (`replay.rs`).

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use nearcall::client::ReconnectPolicy;
use nearcall::control::recorded_event::What;
use nearcall::control::{RecordedBody, RecordedEvent, RecordedRequest};
use nearcall::dynamic::DynamicCaller;
use nearcall::{Client, Code, Status};
use nearcall_os::clock;
use prost_reflect::MethodDescriptor;

use crate::compare::{Difference, compare};
use crate::descriptors::{Descriptors, is_idempotent};
use crate::open_call::{OpenCall, Outcome};
use crate::options::{ReplayOptions, Speed};
use crate::report::{CallDifference, Tally};

/// What all connections of a replay share.
pub(crate) struct Shared<'a> {
    pub(crate) address: &'a str,
    pub(crate) options: &'a ReplayOptions,
    pub(crate) descriptors: &'a Descriptors,
    /// When the first event is due, by the monotonic clock.
    pub(crate) started_ns: u64,
    /// The time of that event.
    pub(crate) first_ns: u64,
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// Plays the events of one connection.
pub(crate) struct Player<'a> {
    shared: &'a Shared<'a>,
    client: Client,
    /// By the names of objects.
    callers: HashMap<String, DynamicCaller>,
    playing: HashMap<u64, Playing<'a>>,
    tally: Tally,
}

struct Playing<'a> {
    call: OpenCall,
    method: String,
    descriptor: Option<&'a MethodDescriptor>,
    recorded_ns: u64,
    started_ns: u64,
    items: usize,
    fields: Vec<Difference>,
    /// It is to be compared, and nothing of it is cut.
    is_compared: bool,
}

impl Playing<'_> {
    fn differs(&mut self, path: &str, recorded: String, now: String) {
        if self.fields.len() < FIELDS_MAX {
            self.fields.push(Difference { path: path.to_owned(), recorded, now });
        }
    }

    /// Compares a message of the service.
    fn compare(&mut self, path: &str, recorded: &RecordedBody, now: &Bytes) {
        self.is_compared &= recorded.cut_from_bytes == 0;
        if self.is_compared && recorded.data != *now {
            let left = FIELDS_MAX.saturating_sub(self.fields.len());
            match self.descriptor {
                Some(method) => {
                    let output = method.output();
                    self.fields.extend(compare(&recorded.data, now, &output, path, left));
                }
                None => {
                    let text = |data: &Bytes| format!("{} bytes", data.len());
                    self.differs(path, text(&recorded.data), text(now));
                }
            }
        }
    }
}

impl<'a> Player<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        let client = Client::builder().reconnect(ReconnectPolicy::Never).build();
        let (callers, playing) = (HashMap::new(), HashMap::new());
        Self { shared, client, callers, playing, tally: Tally::default() }
    }

    /// Plays all events, and gives up the calls that have no end.
    pub(crate) fn play(mut self, events: impl IntoIterator<Item = RecordedEvent>) -> Tally {
        for event in events {
            if !self.tally.was_stopped {
                self.event(event);
            }
        }
        self.tally.report.not_compared += self.playing.len() as u64;
        self.tally
    }

    fn event(&mut self, event: RecordedEvent) {
        let RecordedEvent { time_ns, call, what } = event;
        match what {
            Some(What::Request(request)) => self.request(call, time_ns, &request),
            Some(What::RequestItem(item)) => self.request_item(call, time_ns, item),
            Some(What::HalfClose(_)) => {
                if self.wait_until(time_ns)
                    && let Some(playing) = self.playing.get_mut(&call)
                {
                    playing.call.half_close();
                }
            }
            Some(What::ReplyItem(item)) => self.reply_item(call, &item),
            Some(What::Result(result)) => {
                let body = result.body.unwrap_or_default();
                self.end(call, time_ns, Ok(&body));
            }
            Some(What::Failure(failure)) => {
                let code = u16::try_from(failure.code).ok().and_then(Code::from_number);
                self.end(call, time_ns, Err(code.unwrap_or(Code::Unknown)));
            }
            Some(What::Cancel(_)) => {
                // Dropping it cancels it.
                if self.wait_until(time_ns) && self.playing.remove(&call).is_some() {
                    self.tally.report.not_compared += 1;
                }
            }
            Some(What::Headers(_) | What::Dropped(_)) | None => {}
        }
    }

    fn request(&mut self, call: u64, time_ns: u64, request: &RecordedRequest) {
        let interface = request.object.split('@').next().unwrap_or_default();
        let descriptor = self.shared.descriptors.method(interface, &request.method);
        let is_idempotent = descriptor.is_some_and(is_idempotent);
        let report = &mut self.tally.report;
        if request.body.as_ref().is_some_and(|body| body.cut_from_bytes > 0) {
            report.cut += 1;
            return;
        }
        if self.shared.options.only_idempotent && !is_idempotent {
            report.left_out += 1;
            return;
        }
        if !self.wait_until(time_ns) {
            return;
        }
        self.tally.report.not_idempotent += u64::from(!is_idempotent);
        let method = format!("{interface}/{}", request.method);
        self.tally.methods.entry(method.clone()).or_default().calls += 1;
        let timeout = request.timeout_ns.map_or(self.shared.options.timeout, Duration::from_nanos);
        let started_ns = clock::monotonic_ns();
        let started = match self.caller(&request.object) {
            Ok(caller) => OpenCall::start(caller, request, timeout),
            Err(status) => OpenCall::Ended(Err(status)),
        };
        if request.is_oneway {
            self.tally.report.not_compared += 1;
            if matches!(started, OpenCall::Ended(Err(_))) {
                self.tally.methods.entry(method).or_default().failed += 1;
            }
            return;
        }
        let playing = Playing {
            call: started,
            method,
            descriptor,
            recorded_ns: time_ns,
            started_ns,
            items: 0,
            fields: Vec::new(),
            is_compared: self.shared.options.compare,
        };
        self.playing.insert(call, playing);
    }

    fn caller(&mut self, object: &str) -> Result<&DynamicCaller, Status> {
        if !self.callers.contains_key(object) {
            let (interface, instance) = object.split_once('@').unwrap_or((object, ""));
            let address = match instance {
                "" => self.shared.address.to_owned(),
                instance => format!("{}#{instance}", self.shared.address),
            };
            let caller = DynamicCaller::new(&self.client, &address, interface)?;
            self.callers.insert(object.to_owned(), caller);
        }
        Ok(&self.callers[object])
    }

    fn request_item(&mut self, call: u64, time_ns: u64, item: RecordedBody) {
        if item.cut_from_bytes > 0 && self.playing.remove(&call).is_some() {
            self.tally.report.cut += 1;
            self.tally.report.not_compared += 1;
        }
        if self.wait_until(time_ns)
            && let Some(playing) = self.playing.get_mut(&call)
        {
            playing.call.send(item.data);
        }
    }

    fn reply_item(&mut self, call: u64, recorded: &RecordedBody) {
        let Some(playing) = self.playing.get_mut(&call) else { return };
        let path = format!("items[{}]", playing.items);
        playing.items += 1;
        match playing.call.next_item() {
            Some(now) => playing.compare(&path, recorded, &now),
            None => playing.differs(&path, "an item".to_owned(), "absent".to_owned()),
        }
    }

    /// Waits for the end of a call, and compares it with the recorded one.
    fn end(&mut self, call: u64, time_ns: u64, recorded: Result<&RecordedBody, Code>) {
        let Some(mut playing) = self.playing.remove(&call) else { return };
        let ended = std::mem::replace(&mut playing.call, OpenCall::Ended(Ok(None))).finish();
        let ended_ns = clock::monotonic_ns();
        let outcome: Outcome = ended.unwrap_or_else(|_item| {
            let path = format!("items[{}]", playing.items);
            playing.differs(&path, "absent".to_owned(), "an item".to_owned());
            Ok(None)
        });
        match (recorded, &outcome) {
            (Ok(recorded), Ok(Some(now))) => playing.compare("reply", recorded, now),
            (Err(recorded), Err(status)) if recorded == status.code() => {}
            (Ok(_), Ok(None)) => {}
            (recorded, now) => {
                let recorded = recorded.map_or_else(|code| code.to_string(), |_| "OK".to_owned());
                let now = now.as_ref().map_or_else(shown, |_| "OK".to_owned());
                playing.differs("status", recorded, now);
            }
        }
        let Playing { method, recorded_ns, started_ns, fields, is_compared, .. } = playing;
        let of_method = self.tally.methods.entry(method.clone()).or_default();
        of_method.failed += u64::from(outcome.is_err());
        let (then_ns, now_ns) = (time_ns.checked_sub(recorded_ns), ended_ns - started_ns);
        of_method.latencies.count(then_ns, now_ns);
        let at_ns = recorded_ns.saturating_sub(self.shared.first_ns);
        self.tally.intervals.count(at_ns, then_ns, now_ns);
        if !is_compared {
            self.tally.report.not_compared += 1;
        } else if fields.is_empty() {
            of_method.equal += 1;
        } else {
            of_method.different += 1;
            let at_s = at_ns as f64 / 1e9;
            self.tally.note_difference(CallDifference { call, method, at_s, fields });
        }
    }

    /// Waits until something is due that has happened then. False: the replay is to stop.
    fn wait_until(&mut self, time_ns: u64) -> bool {
        self.tally.was_stopped |= (self.shared.is_stopped)();
        let Speed::Times(speed) = self.shared.options.speed else {
            return !self.tally.was_stopped;
        };
        let after_s = time_ns.saturating_sub(self.shared.first_ns) as f64 / 1e9 / speed;
        let after = Duration::try_from_secs_f64(after_s).unwrap_or(Duration::MAX);
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.shared.started_ns.saturating_add(after_ns);
        self.tally.was_stopped |= !clock::pause_unless(due_ns, self.shared.is_stopped);
        let late_ns = clock::monotonic_ns().saturating_sub(due_ns);
        self.tally.latest_ns = self.tally.latest_ns.max(late_ns);
        !self.tally.was_stopped
    }
}

fn shown(status: &Status) -> String {
    let message: String = status.message().chars().take(MESSAGE_CHARS_MAX).collect();
    format!("{}: {message}", status.code())
}

/// Fields that are shown of a call that differs.
const FIELDS_MAX: usize = 10;

/// Characters that are shown of a status.
const MESSAGE_CHARS_MAX: usize = 120;
