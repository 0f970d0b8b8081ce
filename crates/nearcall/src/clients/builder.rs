//! Makes a client with settings other than the defaults.
//!
//! **Not here:** what the settings mean to a call (`call.rs`, `options.rs`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, Settings};
use crate::auto::Weights;
use crate::event_loop::EventLoop;
use crate::interceptor::{Chain, Interceptor};
use crate::limits::Limits;
use crate::reconnect::ReconnectPolicy;

/// Makes a [`Client`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use nearcall::{Client, Limits};
/// use nearcall::client::ReconnectPolicy;
///
/// let client = Client::builder()
///     .limits(Limits { message_bytes_max: 16 << 20, ..Limits::default() })
///     .default_deadline(Duration::from_secs(2))
///     .reconnect(ReconnectPolicy::Wait(Duration::from_secs(1)))
///     .build();
/// # drop(client);
/// ```
#[must_use = "a builder makes nothing before `build`"]
#[derive(Clone)]
pub struct ClientBuilder<'a> {
    event_loop: Option<&'a EventLoop>,
    limits: Limits,
    default_deadline: Option<Duration>,
    reconnect: ReconnectPolicy,
    interceptors: Chain,
    follows_asks: bool,
    weights: Weights,
}

impl Default for ClientBuilder<'_> {
    fn default() -> Self {
        Self {
            event_loop: None,
            limits: Limits::default(),
            default_deadline: None,
            reconnect: ReconnectPolicy::default(),
            interceptors: Chain::default(),
            follows_asks: true,
            weights: Weights::default(),
        }
    }
}

impl<'a> ClientBuilder<'a> {
    /// Makes a client of this loop: see [`Client::in_loop`].
    pub fn in_loop(mut self, event_loop: &'a EventLoop) -> Self {
        self.event_loop = Some(event_loop);
        self
    }

    /// Sets the limits of each connection, and how many there may be.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the deadline of calls for which neither [`CallOptions`](crate::CallOptions) nor the
    /// `.proto` file gives one: they end with `DEADLINE_EXCEEDED` this long after they were made.
    /// Without it they wait for as long as the server lives. A call with a deadline reads the
    /// clock, some 30 ns.
    pub fn default_deadline(mut self, timeout: Duration) -> Self {
        self.default_deadline = Some(timeout);
        self
    }

    /// Sets what calls do that find no connection; [`CallOptions`](crate::CallOptions) of one call
    /// may say otherwise.
    pub fn reconnect(mut self, policy: ReconnectPolicy) -> Self {
        self.reconnect = policy;
        self
    }

    /// Has an interceptor see all calls of the client, after those that were added before.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors = self.interceptors.with(Arc::new(interceptor));
        self
    }

    /// Sets whether connections move to another mechanism when their server asks for it, as its
    /// administrator does by `nearcall switch`; they do by default. A client in a loop follows at
    /// once, one without a loop at its next call. Connections of async callers follow at once, but
    /// for those whose last call has found its reply without a wait, which do at their next call. A
    /// loop and async callers follow to what they can wait for. A server of another user
    /// than this one's or root is followed only to the mechanisms that servers offer by default,
    /// over which no end can hurt the other. What is not followed is declined, with the reason.
    pub fn follow_asks(mut self, follows: bool) -> Self {
        self.follows_asks = follows;
        self
    }

    /// Sets what connections with `via=auto` minimise: the time of a call and the CPU time of both
    /// ends for it, each with a weight; 0.7 and 0.3 by default. Only the ratio matters. Weights
    /// that are negative or no numbers count as 0, and two that are 0 as the default.
    pub fn automatic_weights(mut self, latency: f64, cpu: f64) -> Self {
        self.weights = Weights::of(latency, cpu);
        self
    }

    /// Makes the client. Nothing is connected yet.
    pub fn build(self) -> Client {
        let Self { event_loop, limits, default_deadline, reconnect, .. } = self;
        let Self { interceptors, follows_asks, weights, .. } = self;
        let settings =
            Settings { limits, default_deadline, reconnect, follows_asks, interceptors, weights };
        Client::build(settings, event_loop)
    }
}

impl fmt::Debug for ClientBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event_loop, limits, default_deadline, reconnect, .. } = self;
        let Self { interceptors, follows_asks, weights, .. } = self;
        f.debug_struct("ClientBuilder")
            .field("in_loop", &event_loop.is_some())
            .field("limits", limits)
            .field("default_deadline", default_deadline)
            .field("reconnect", reconnect)
            .field("interceptors", interceptors)
            .field("follow_asks", follows_asks)
            .field("weights", weights)
            .finish()
    }
}
