//! Calls that are open: how far they are, and until when.
//!
//! Both ends have a table of slots, indexed by the number from the id: no search, no hashing, and
//! the size of the table is the bound.
//! **Invariants:** generations of a slot only grow, and a slot whose generations are used up is
//! never used again. As messages keep their order, each end recognizes every impossible id.
//! **Not here:** the ids (`call_id.rs`), messages (`protocol.rs`); the tables are in
//! `call_table/outgoing.rs` and `call_table/incoming.rs`, what they share in
//! `call_table/deadlines.rs` and `call_table/streams.rs`.
//!
//! **Invariant:** a call ends exactly once: by reply, error, deadline, cancellation, or with its
//! connection. *Checked by* `every_call_ends_exactly_once`, a simulation of two connections with
//! random calls, delays, drains and deaths.
//!
//! **Invariant:** pending work is bounded by the slots of the tables, which allocate only when more
//! calls are open at once than ever before. *Checked by*
//! `a_flood_of_calls_while_nothing_can_be_sent`, `a_flood_of_pings`.

mod deadlines;
mod incoming;
mod outgoing;
mod streams;

pub(crate) use incoming::Incoming;
pub(crate) use outgoing::{Answer, Outgoing};
pub(crate) use streams::{Stream, StreamSetup};
pub use streams::{grant_bytes, item_cost};

/// What the id of an item, a half-close or a credit is to the table of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The call is open.
    Open,
    /// This end has ended the call, and the peer may not know that yet.
    Crossing,
    /// The peer has ended the call: no correct peer sends more for it.
    Ended,
    /// There was never such a call.
    Unknown,
}
