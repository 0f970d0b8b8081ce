//! The outcome of one step of a handshake.

use crate::endpoint::Endpoint;

/// What came of looking for the other end's next word.
pub(super) enum Step {
    /// It has not come, or not whole.
    Nothing,
    /// It was answered, and another one must follow.
    Moved,
    /// Both ends are open.
    Done(Box<Endpoint>),
}
