//! The state before the peer has greeted.
//!
//! **Invariants:** nothing but a greeting is sent or taken.
//! **Not here:** the greeting's bytes (`hello.rs`).

use super::State;
use super::event::Peer;
use super::open::Open;
use super::session::Session;
use crate::error::ProtocolError;
use crate::frame::{Head, VERSION, VERSION_MAX};
use crate::hello::{Hello, InstanceId};
use crate::limits::{Limits, Switching};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    instance: InstanceId,
    limits: Limits,
    /// Our greeting has been given to the driver.
    is_sent: bool,
    /// The connection shall end as soon as it is open.
    drains: bool,
}

impl Greeting {
    pub(super) fn new(instance: InstanceId, limits: Limits) -> Self {
        Self { instance, limits, is_sent: false, drains: false }
    }

    pub(super) fn drain(self) -> Self {
        Self { drains: true, ..self }
    }

    pub(super) fn has_transmit(&self) -> bool {
        !self.is_sent
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Head> {
        (!core::mem::replace(&mut self.is_sent, true)).then(|| self.hello().encode())
    }

    /// Takes the peer's greeting; gives the state that follows.
    pub(super) fn handle_message<T: Default>(
        &self,
        head: &[u8],
        message_bytes: usize,
    ) -> Result<(State<T>, Peer), ProtocolError> {
        let hello = Hello::decode(head, message_bytes)?;
        let Hello { version_min, version_max, .. } = hello;
        // The newest that both speak, if there is one.
        let version = self.version_max().min(u8::try_from(version_max).unwrap_or(u8::MAX));
        if version < VERSION || u16::from(version) < version_min {
            return Err(ProtocolError::NoCommonVersion { version_min, version_max });
        }
        let peer = Peer {
            instance: hello.instance,
            version,
            message_bytes_max: hello.message_bytes_max.min(self.limits.message_bytes_max),
            metadata_bytes_max: hello.metadata_bytes_max.min(self.limits.metadata_bytes_max),
            calls_out_max: hello.calls_in_max.min(self.limits.calls_out_max),
            stream_window_bytes: hello.stream_window_bytes,
        };
        let greeting = (!self.is_sent).then(|| self.hello().encode());
        let open = Open { session: Session::new(peer, self.limits, greeting) };
        let state =
            if self.drains { State::Draining(open.drain(false)) } else { State::Open(open) };
        Ok((state, peer))
    }

    fn version_max(&self) -> u8 {
        match self.limits.switching {
            Switching::Never => VERSION,
            Switching::Client | Switching::Server => VERSION_MAX,
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            version_min: VERSION.into(),
            version_max: self.version_max().into(),
            message_bytes_max: self.limits.message_bytes_max,
            metadata_bytes_max: self.limits.metadata_bytes_max,
            calls_in_max: self.limits.calls_in_max,
            stream_window_bytes: self.limits.stream_window_bytes,
            instance: self.instance,
        }
    }
}
