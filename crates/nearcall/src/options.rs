//! How the calls of a caller are made: their deadline, and what travels beside their messages.
//!
//! **Invariants:** deadlines are absolute here; what is left of one travels.
//! **Not here:** the bounds of connections (`limits.rs`).

use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::interface::Method;
use crate::metadata::{BadMetadata, Entries};
use crate::reconnect::ReconnectPolicy;

/// The options of the calls of a caller, which [`with`](crate::client::ObjectRef::with) sets. The
/// default has the deadline of the method, if its `.proto` gives one, or else that of the client
/// ([`ClientBuilder`](crate::client::ClientBuilder)).
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
/// let late = thermostat.with(options).watch(&WatchRequest {}).unwrap_err();
/// assert_eq!(late.code(), Code::DeadlineExceeded);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    limit: Limit,
    reconnect: Option<ReconnectPolicy>,
    wait_for_ready: Option<bool>,
    no_wait: bool,
    metadata: Entries,
}

/// Those of a caller without options.
pub(crate) const DEFAULT_OPTIONS: &CallOptions = &CallOptions::new();

/// A call that is to be made: its method, its options, and when it ends by itself.
#[derive(Clone, Copy)]
pub(crate) struct CallSpec<'a> {
    pub(crate) method: &'static Method,
    pub(crate) options: &'a CallOptions,
    pub(crate) deadline: Deadline,
}

#[derive(Debug, Clone, Copy, Default)]
enum Limit {
    #[default]
    Method,
    None,
    After(Duration),
    At(Deadline),
}

impl CallOptions {
    /// The default.
    #[inline]
    pub const fn new() -> Self {
        Self {
            limit: Limit::Method,
            reconnect: None,
            wait_for_ready: None,
            no_wait: false,
            metadata: Entries::new(),
        }
    }

    /// A call ends with `DEADLINE_EXCEEDED` this long after it was made, at the latest: each call
    /// of the caller has a deadline of its own.
    #[must_use]
    pub fn deadline(mut self, timeout: Duration) -> Self {
        self.limit = Limit::After(timeout);
        self
    }

    /// The calls end with `DEADLINE_EXCEEDED` at this moment, at the latest.
    #[must_use]
    pub fn deadline_at(mut self, moment: Instant) -> Self {
        self.limit = Limit::At(Deadline::at(moment));
        self
    }

    /// The call has no deadline of its own, whatever the method and the client have: it waits for
    /// as long as the server lives.
    #[must_use]
    pub fn no_deadline(mut self) -> Self {
        self.limit = Limit::None;
        self
    }

    /// Sets what the call does if there is no connection, instead of the client's policy.
    #[must_use]
    pub fn reconnect(mut self, policy: ReconnectPolicy) -> Self {
        self.reconnect = Some(policy);
        self
    }

    /// Sets whether the call waits until a server listens, within its deadline, if there is no
    /// connection. `false`: it ends with `UNAVAILABLE` at once. Goes before the reconnect policy of
    /// the call and of the client.
    ///
    /// While it waits the thread sleeps, as in [`Client::hunt`](crate::Client::hunt), and a loop
    /// goes on serving. A call that has found no server by its deadline ends with
    /// `DEADLINE_EXCEEDED`, and one without a deadline waits for as long as it takes. With
    /// [`no_wait`](Self::no_wait) it does not wait for this either.
    #[must_use]
    pub fn wait_for_ready(mut self, waits: bool) -> Self {
        self.wait_for_ready = Some(waits);
        self
    }

    /// A request is sent at once or not at all: it ends with `RESOURCE_EXHAUSTED` where it would
    /// wait for room in the channel, for the end of another call
    /// ([`Limits::calls_max`](crate::Limits::calls_max)) or for memory to lend. It connects if
    /// there is no connection, and tries that once with [`ReconnectPolicy::Wait`] as well. A call
    /// that was sent is waited for until its deadline.
    ///
    /// Without a loop a message longer than the room of the channel
    /// ([`Limits::room_bytes`](crate::Limits)) finds none: send it without this option.
    #[must_use]
    pub fn no_wait(mut self) -> Self {
        self.no_wait = true;
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

    /// Sends an entry with bytes for its value: such as [`metadata`](Self::metadata) takes, or any
    /// if the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn metadata_bin(mut self, key: &str, value: &[u8]) -> Result<Self, BadMetadata> {
        self.metadata.add(key, value)?;
        Ok(self)
    }

    pub(crate) fn entries(&self) -> &Entries {
        &self.metadata
    }

    /// Returns the same with this deadline and these metadata.
    pub(crate) fn with(&self, deadline: Deadline, metadata: Entries) -> Self {
        Self { limit: Limit::At(deadline), metadata, ..self.clone() }
    }

    /// Returns the same for a call that is made for another one.
    pub(crate) fn without_metadata(&self) -> Self {
        Self { metadata: Entries::new(), ..self.clone() }
    }

    /// Returns whether the call waits until a server can be reached.
    pub(crate) fn waits_for_ready(&self) -> bool {
        self.wait_for_ready == Some(true) && !self.no_wait
    }

    /// Returns whether a request may wait until it is sent.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        !self.no_wait
    }

    #[inline]
    pub(crate) fn metadata_bytes(&self) -> &[u8] {
        self.metadata.as_bytes()
    }

    pub(crate) fn reconnect_policy(&self, default: ReconnectPolicy) -> ReconnectPolicy {
        match (self.wait_for_ready, self.reconnect.unwrap_or(default)) {
            (_, policy) if self.no_wait => policy.without_patience(),
            (Some(true), _) => ReconnectPolicy::Wait(Duration::MAX),
            (Some(false), policy) => policy.without_patience(),
            (_, policy) => policy,
        }
    }

    /// Returns until when a loan may be waited for: by these options, the client or the handler
    /// that asks.
    pub(crate) fn deadline_for_loan(
        &self,
        default: Option<Duration>,
        inherited: Deadline,
    ) -> Deadline {
        self.deadline_or(default).min(inherited)
    }

    /// Returns when the call of `method` ends: by these options, the method, the client or the
    /// handler that makes it. Reads the clock only for a span of time.
    #[inline]
    pub(crate) fn deadline_for(
        &self,
        method: &Method,
        default: Option<Duration>,
        inherited: Deadline,
    ) -> Deadline {
        self.deadline_or(method.deadline.or(default)).min(inherited)
    }

    /// Returns the deadline of these options, or the default that belongs to their place.
    #[inline(always)]
    fn deadline_or(&self, default: Option<Duration>) -> Deadline {
        let timeout = match self.limit {
            Limit::Method => default,
            Limit::None => None,
            Limit::After(timeout) => Some(timeout),
            Limit::At(deadline) => return deadline,
        };
        timeout.map_or(Deadline::NEVER, Deadline::after)
    }
}
