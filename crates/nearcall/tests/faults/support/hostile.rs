//! A peer without manners: its control line by hand, and its messages by hand over a channel that
//! was opened as it should be.
//!
//! It uses the sockets and channels as tools; nothing here asks nearcall whether what it sends is
//! right.

use nearcall::Mechanism;
use nearcall_channel::Endpoint;

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
