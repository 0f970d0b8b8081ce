//! A peer without manners: its control line by hand, and its messages by hand over a channel that
//! was opened as it should be.
//!
//! It uses the sockets and channels as tools; nothing here asks nearcall whether what it sends is
//! right.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nearcall::Mechanism;
use nearcall_channel::Endpoint;
use nearcall_os::descriptor::receive_with_fds;
use nearcall_os::poll::{Interest, poll_one};

use super::raw::RawLine;
use crate::raw_frames;

/// A connection to the control socket of a server at an abstract address, on which nothing was
/// said.
pub(crate) fn raw_line(address: &str, mechanism: Mechanism) -> RawLine {
    let name = address.strip_prefix("unix:@").expect("an abstract address");
    RawLine::connect(name, mechanism)
}

/// A channel to a server on which both have greeted.
pub(crate) fn greeted(address: &str, mechanism: Mechanism) -> Endpoint {
    raw_frames::greeted_at(&address.parse().unwrap(), mechanism)
}

/// What a server has sent next.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A packet with its descriptors. One that is dropped may be taken for the end of the client.
    Packet(Vec<u8>, Vec<OwnedFd>),
    Closed,
    /// Not in time.
    Nothing,
}

/// Waits for the next packet of a server.
pub(crate) fn answer(line: &RawLine, time: Duration) -> Answer {
    if poll_one(&line.socket, Interest::Readable, Some(time)).unwrap().is_none() {
        return Answer::Nothing;
    }
    let mut buffer = [0; 2048];
    let mut receive = || receive_with_fds(&line.socket, &mut buffer, 16);
    let received = match receive() {
        // A line that left something unread is reset once, before what was sent to it.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => receive(),
        received => received,
    };
    match received {
        Ok(received) if received.bytes > 0 => {
            Answer::Packet(buffer[..received.bytes].to_vec(), received.fds)
        }
        _ => Answer::Closed,
    }
}
