//! Recordings of the calls of a server: the file that has one ([`Reader`], [`Writer`]), replaying
//! it ([`replay`]), and comparing what a server replies now with what one replied then
//! ([`compare`]).
//!
//! A server records by itself: `Record` of `nearcall.v1.Server`
//! ([`ServerCaller::record`](nearcall::control::ServerCaller::record)).
//! `docs/book/src/reference/recording.md` describes the file.
//!
//! **Invariants:** no bytes of a file make a function panic or take memory beyond the longest
//! record; a file is read and replayed as a stream.
//! **Not here:** what is recorded and its bounds (`nearcall`), arguments and output
//! (`nearcall-cli`).
//!
//! # Inside
//!
//! `writer.rs` and `reader.rs` have the records, whose check (`checksum.rs`) finds damage where it
//! begins; `compare.rs` compares two messages of one type, field by field. `replay.rs` reads the
//! file as a stream and gives each connection its events, `player.rs` sends the calls of one
//! connection at their times and waits for what the caller had got, `open_call.rs` is a call of any
//! shape, `latency.rs` and `report.rs` what was found. It is a crate of its own for what the
//! runtime must not need: files, and a reflection library.
#![forbid(unsafe_code)]

mod checksum;
mod compare;
mod descriptors;
mod latency;
mod open_call;
mod options;
mod player;
mod reader;
mod replay;
mod report;
mod writer;

pub use self::compare::{Difference, compare};
pub use self::descriptors::Descriptors;
pub use self::latency::{IntervalReport, Percentiles};
pub use self::options::{ReplayOptions, Speed};
pub use self::reader::{FileEnd, ReadError, Reader};
pub use self::replay::{ReplayError, replay};
pub use self::report::{CallDifference, MethodReport, ReplayReport};
pub use self::writer::{Summary, Writer};

/// Any bytes are read to an end or an error. Called by `fuzz/`, and by a test with the corpus that
/// is committed there.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let _ = Descriptors::new(reader.header());
    while let Ok(Some(_)) = reader.next_event() {}
}
