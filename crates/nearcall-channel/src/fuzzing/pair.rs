//! Both ends of a connection in one thread, for fuzz targets and tests: opened as by the handshake,
//! without its packets.
//!
//! **Not here:** the handshake (`handshake.rs`).

use std::sync::Arc;

use nearcall_os::socket::{self, Kind};

use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::limits;
use crate::liveness::PeerLiveness;
use crate::mechanism::Mechanism;
use crate::settings::{Peer, PeerIdentity, Settings};
use crate::spin::SpinOptions;
use crate::wait::WaitPolicy;

/// Opens a mechanism between two ends in this thread: the server's and the client's. Both are of
/// this process, and neither waits by itself: use them with deadlines that have passed.
///
/// # Panics
///
/// If the kernel refuses something.
#[must_use]
pub fn pair(mechanism: Mechanism, buffer_bytes: u32) -> (Endpoint, Endpoint) {
    let (a, b) = socket::unix_pair(Kind::Seqpacket).expect("a pair of sockets");
    let (server, client) = (settings(a, buffer_bytes), settings(b, buffer_bytes));
    let offer = (mechanism.row().offer)(&server).expect("an offer");
    let accepted = (mechanism.row().accept)(&client, offer.parts).expect("what was offered fits");
    let channel = (offer.finish)(accepted.parts).expect("what was accepted fits");
    let end = |channel, settings: Settings| {
        let control = Arc::clone(&settings.control);
        Endpoint::new(channel, mechanism, settings, control)
    };
    (end(channel, server), end(accepted.channel, client))
}

fn settings(socket: std::os::fd::OwnedFd, buffer_bytes: u32) -> Settings {
    let credentials = socket::peer_credentials(&socket).expect("a unix socket");
    let (pid, uid, gid) = (credentials.pid, credentials.uid, credentials.gid);
    let pidfd = socket::peer_pidfd(&socket).ok().map(Arc::new);
    Settings {
        wait: WaitPolicy::Poll,
        spin: SpinOptions::default(),
        message_bytes_max: limits::MESSAGE_BYTES_MAX_DEFAULT,
        buffer_bytes,
        peer: Peer::Process(PeerIdentity { pid, uid, gid, pidfd }),
        liveness: Arc::new(PeerLiveness::default()),
        control: Arc::new(Control::new(socket)),
    }
}
