//! The kind of caller and its mechanism: the rows of a run of calls.
//!
//! **Invariants:** a route is printed and parsed by one word, `CALLER:MECHANISM` or `CALLER`. The
//! server is in an event loop on every route.
//!
//! **Not here:** which routes are measured (`nearcall-bench`).

use std::fmt;
use std::str::FromStr;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::words::words;

/// The way of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// To another process, from a client without a loop, which blocks.
    Blocking(Mechanism),
    /// To another process, from a client in an event loop.
    Looped(Mechanism),
    /// To another process, from futures in a tokio runtime of one thread.
    Async(Mechanism),
    /// To a server of the same loop, over the mechanism all the same.
    SameLoop(Mechanism),
    /// To a server of the same loop, directly.
    Typed,
    /// To a server of the same loop whose types are of another build: through bytes.
    Bytes,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// As [`Route::Blocking`].
    Blocking,
    /// As [`Route::Looped`].
    Loop,
    /// As [`Route::Async`].
    Async,
    /// As [`Route::SameLoop`].
    SameLoop,
    /// As [`Route::Typed`].
    Typed,
    /// As [`Route::Bytes`].
    Bytes,
}

words! { Caller:
    Blocking => "blocking",
    Loop => "loop",
    Async => "async",
    SameLoop => "same-loop",
    Typed => "typed",
    Bytes => "bytes",
}

impl Caller {
    /// Its route over `mechanism`; a short circuit needs none.
    #[must_use]
    pub const fn route(self, mechanism: Mechanism) -> Route {
        match self {
            Self::Blocking => Route::Blocking(mechanism),
            Self::Loop => Route::Looped(mechanism),
            Self::Async => Route::Async(mechanism),
            Self::SameLoop => Route::SameLoop(mechanism),
            Self::Typed => Route::Typed,
            Self::Bytes => Route::Bytes,
        }
    }

    /// Whether it is called directly, over no mechanism.
    #[must_use]
    pub const fn is_short_circuit(self) -> bool {
        matches!(self, Self::Typed | Self::Bytes)
    }
}

impl FromStr for Caller {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|caller| caller.name() == word);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("unknown caller {word:?}; use {all}")
        })
    }
}

impl Route {
    /// Who calls.
    #[must_use]
    pub const fn caller(self) -> Caller {
        match self {
            Self::Blocking(_) => Caller::Blocking,
            Self::Looped(_) => Caller::Loop,
            Self::Async(_) => Caller::Async,
            Self::SameLoop(_) => Caller::SameLoop,
            Self::Typed => Caller::Typed,
            Self::Bytes => Caller::Bytes,
        }
    }

    /// What moves the messages; `None` for a short circuit.
    #[must_use]
    pub const fn mechanism(self) -> Option<Mechanism> {
        match self {
            Self::Blocking(mechanism)
            | Self::Looped(mechanism)
            | Self::Async(mechanism)
            | Self::SameLoop(mechanism) => Some(mechanism),
            Self::Typed | Self::Bytes => None,
        }
    }

    /// The mechanism's name in stored runs, or what stands in its place.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.mechanism().map_or("short-circuit", Mechanism::name)
    }

    /// Whether one process has both ends.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::SameLoop(_) | Self::Typed | Self::Bytes)
    }

    /// How the server waits for a client that waits by `client`: its loop spins or adapts if the
    /// client does, polls what can be polled, and sleeps in the mechanism's receive otherwise.
    #[must_use]
    pub fn server_wait(self, client: WaitPolicy) -> WaitPolicy {
        let waits = self.mechanism().map(Mechanism::waits).unwrap_or_default();
        match client {
            WaitPolicy::Spin => WaitPolicy::Spin,
            WaitPolicy::Adaptive if waits.contains(&WaitPolicy::Adaptive) => client,
            _ if waits.contains(&WaitPolicy::Poll) => WaitPolicy::Poll,
            _ => WaitPolicy::Block,
        }
    }

    /// How a client on this route waits by default: it adapts, or sleeps, or
    /// does the only thing that there is.
    #[must_use]
    pub fn usual_wait(self) -> WaitPolicy {
        let waits = self.mechanism().map(Mechanism::waits).unwrap_or_default();
        let liked: &[WaitPolicy] = match self {
            Self::Blocking(_) => &[WaitPolicy::Adaptive, WaitPolicy::Block],
            Self::Looped(_) | Self::Async(_) => {
                &[WaitPolicy::Adaptive, WaitPolicy::Poll, WaitPolicy::Block]
            }
            _ => &[WaitPolicy::Poll, WaitPolicy::Block],
        };
        let found = liked.iter().copied().find(|wait| waits.contains(wait));
        found.unwrap_or(WaitPolicy::Spin)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mechanism() {
            Some(mechanism) => write!(f, "{}:{mechanism}", self.caller()),
            None => self.caller().fmt(f),
        }
    }
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((caller, mechanism)) => {
                let mechanism: Mechanism = mechanism.parse().map_err(|error| format!("{error}"))?;
                Ok(caller.parse::<Caller>()?.route(mechanism))
            }
            None if text == Caller::Typed.name() => Ok(Self::Typed),
            None if text == Caller::Bytes.name() => Ok(Self::Bytes),
            None => Err(format!("no route {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_parsed_back_from_its_word() {
        for caller in Caller::ALL {
            let route = caller.route(Mechanism::ShmFutex);
            assert_eq!(route.to_string().parse(), Ok(route));
        }
        assert!("loop".parse::<Route>().is_err());
        assert!("sleeping:pipe".parse::<Route>().unwrap_err().contains("same-loop"));
    }

    #[test]
    fn ends_wait_as_the_runtime_has_them_wait() {
        use WaitPolicy::{Adaptive, Block, Poll, Spin};
        let check = |route: Route, expected: (WaitPolicy, WaitPolicy)| {
            let client = route.usual_wait();
            assert_eq!((client, route.server_wait(client)), expected, "{route}");
        };
        check(Route::Blocking(Mechanism::Shm), (Adaptive, Adaptive));
        check(Route::Looped(Mechanism::Shm), (Adaptive, Adaptive));
        assert_eq!(Route::Blocking(Mechanism::Shm).server_wait(Block), Poll);
        check(Route::Blocking(Mechanism::Pipe), (Block, Poll));
        check(Route::Looped(Mechanism::Pipe), (Poll, Poll));
        check(Route::Blocking(Mechanism::ShmFutex), (Block, Block));
        check(Route::Looped(Mechanism::SysvMq), (Block, Block));
        check(Route::Looped(Mechanism::ShmSpin), (Spin, Spin));
        assert_eq!(Route::Blocking(Mechanism::Pipe).server_wait(Spin), Spin);
    }
}
