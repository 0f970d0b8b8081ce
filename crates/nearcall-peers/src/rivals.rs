//! The rows, one file for each library: how both ends are set up, and how a call is made.
//!
//! Each file has a `serve` that answers until its process is killed, a client that implements
//! [`Client`](crate::measure::Client), and the row itself, whose text lies in `about/`.
//!
//! **Invariants:** a row's name is unique, and its text says how it was configured.

mod bare;
mod boost;
mod capnp;
mod iceoryx2;
mod nearcall;
mod shmipc;
mod tarpc;
mod tonic;
mod ttrpc;
mod zbus;
mod zenoh;
mod zeromq;

use crate::rival::Rival;
use crate::service::Service;

/// All rows, in the order of the tables: ours, the bare floor, then the rivals.
pub(crate) fn all() -> Vec<Rival> {
    let mut all = nearcall::rows();
    all.push(bare::ROW);
    all.extend([iceoryx2::POLLING, iceoryx2::EVENTS, shmipc::ROW]);
    all.extend([boost::ROW, ttrpc::ROW, tarpc::ROW, capnp::ROW]);
    all.extend([zbus::ROW, tonic::ROW, zeromq::ROW, zenoh::ROW]);
    all
}

/// What raw messages ask for: the last byte of a request, where the library has no methods.
pub(crate) mod ask {
    /// Read it, answer with nothing.
    pub(crate) const TAKE: u8 = 0;
    /// Read it, give it back.
    pub(crate) const ECHO: u8 = 1;
    /// Answer with the number of messages that came, eight bytes.
    pub(crate) const RECEIVED: u8 = 2;
    /// Read it, send no reply.
    pub(crate) const NOTE: u8 = 3;
}

/// What a raw request is answered with.
pub(crate) enum Answer<'a> {
    /// An empty reply.
    Empty,
    /// These bytes of the request.
    Echo(&'a [u8]),
    /// The number of messages.
    Received([u8; 8]),
    /// No reply is sent.
    None,
}

/// Serves one raw request: the payload, and one byte that says what is asked for.
#[inline]
pub(crate) fn answer<'a>(service: &mut Service, request: &'a [u8]) -> Answer<'a> {
    let Some((&what, payload)) = request.split_last() else {
        crate::service::give_up("a request without its last byte");
    };
    if what == ask::RECEIVED {
        return Answer::Received(service.received().to_le_bytes());
    }
    service.take(payload);
    match what {
        ask::TAKE => Answer::Empty,
        ask::ECHO => Answer::Echo(payload),
        _ => Answer::None,
    }
}

/// The byte for a call.
pub(crate) fn call_byte(echo: bool) -> u8 {
    if echo { ask::ECHO } else { ask::TAKE }
}

/// The runtime of both ends of async libraries: one thread, as each end has one connection.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Calls under way at once where they stand in for one-way calls.
pub(crate) const PIPELINED_CALLS: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_row_says_how_it_is_configured() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|rival| rival.name).collect();
        assert_eq!(names.len(), all.len());
        for rival in &all {
            assert!(rival.about.len() > 80, "{}: {}", rival.name, rival.about);
            assert!(!rival.version.contains("unknown"), "{}: {}", rival.name, rival.version);
        }
    }
}
