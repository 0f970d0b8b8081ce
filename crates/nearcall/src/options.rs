//! What a caller asks of one call: until when, and what travels beside the message.
//!
//! Always true: deadlines are absolute here; what is left of one travels.
//! Not here: the bounds of connections (`limits.rs`).

use std::time::{Duration, Instant};

use nearcall_os::clock;
use nearcall_wire::Time;

use crate::interface::Method;
use crate::metadata::{BadMetadata, Entries};

/// How one call is made. The default has the deadline of the method, if its `.proto` gives one.
///
/// A call from within a handler never outlives the handler's own deadline.
///
/// # Examples
///
/// ```
#[doc = include_str!("../doc/room.txt")]
/// # let address = serve_elsewhere("options");
/// # let client = nearcall::Client::new();
/// use std::time::Duration;
///
/// use nearcall::{CallOptions, Code};
///
/// let options = CallOptions::new()
///     .deadline(Duration::from_millis(20))
///     .metadata("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?;
/// # let thermostat = ThermostatCaller::new(&client, &address)?;
/// // Answers when the temperature changes, which it does not.
/// let late = thermostat.watch_with(&WatchRequest {}, &options).unwrap_err();
/// assert_eq!(late.code(), Code::DeadlineExceeded);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    until: Until,
    metadata: Entries,
}

#[derive(Debug, Clone, Copy, Default)]
enum Until {
    #[default]
    Method,
    After(Duration),
    At(Time),
}

impl CallOptions {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The call ends with `DEADLINE_EXCEEDED` this long after it was made, at the latest.
    #[must_use]
    pub fn deadline(mut self, timeout: Duration) -> Self {
        self.until = Until::After(timeout);
        self
    }

    /// The call ends with `DEADLINE_EXCEEDED` at this moment, at the latest.
    #[must_use]
    pub fn deadline_at(mut self, moment: Instant) -> Self {
        self.until = Until::At(time_of(moment));
        self
    }

    /// Sends an entry with the call: a key of lower-case letters, digits and `-_.`, and printable
    /// ASCII.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn metadata(mut self, key: &str, value: &str) -> Result<Self, BadMetadata> {
        self.metadata.add(key, value.as_bytes())?;
        Ok(self)
    }

    /// Sends an entry with bytes for its value; the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn metadata_bin(mut self, key: &str, value: &[u8]) -> Result<Self, BadMetadata> {
        self.metadata.add(key, value)?;
        Ok(self)
    }

    pub(crate) fn metadata_bytes(&self) -> &[u8] {
        self.metadata.as_bytes()
    }

    /// When the call of `method` ends: by these options, the method or the handler it is made in.
    #[inline]
    pub(crate) fn until(&self, method: &Method, inherited: Time) -> Time {
        let own = match (self.until, method.deadline) {
            (Until::Method, None) => Time::NEVER,
            (Until::Method, Some(timeout)) | (Until::After(timeout), _) => after(timeout),
            (Until::At(time), _) => time,
        };
        own.min(inherited)
    }
}

/// Now, on the clock of all deadlines. About 30 ns.
pub(crate) fn now() -> Time {
    Time::from_ns(clock::monotonic_ns())
}

/// The time that lies `timeout` from now.
pub(crate) fn after(timeout: Duration) -> Time {
    let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    now().after(nearcall_wire::Timeout::from_ns(ns))
}

/// The same moment on the clock of all deadlines.
pub(crate) fn time_of(moment: Instant) -> Time {
    match moment.checked_duration_since(clock::now()) {
        Some(left) => after(left),
        None => now(),
    }
}

/// The same moment as the standard library has it; none if never.
pub(crate) fn instant_of(time: Time) -> Option<Instant> {
    if time == Time::NEVER {
        return None;
    }
    let left = Duration::from_nanos(now().until(time).as_ns());
    clock::now().checked_add(left)
}
