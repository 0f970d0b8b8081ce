//! Opens the ends of mechanisms and floors, and measures floors that have no other end.

use nearcall_channel::{
    Address, Deadline, Endpoint, Listener, Mechanism, MechanismSet, Options, connect,
};
use nearcall_os::clock;

use crate::cell::{CellSpec, Subject};
use crate::exchange::Failure;
use crate::exchange::channel::ChannelEnd;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::opened::OpenedEnd;
use crate::floor::carrier::{self, Carrier};
use crate::floor::chunked::Chunks;
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::floor::ring::Words;
use crate::floor::stream::{Bytes, Pipes, Unix, UnixEpoll};
use crate::floor::word::{Eventfd, Futex, Spin};
use crate::floor::{Floor, alone};
use crate::launch::Role;
use crate::run::{EffectiveSize, ROOM_BYTES};

/// A client's end of a mechanism, and what is reported of it.
pub(crate) struct Connection {
    pub(crate) end: ChannelEnd,
    pub(crate) set_up_ns: u64,
    pub(crate) sizes: Vec<EffectiveSize>,
    pub(crate) buffer_bytes: u64,
}

impl Connection {
    /// Connects to the server that listens at `meet_at`, as `cell` wants it.
    pub(crate) fn open(
        mechanism: Mechanism,
        cell: &CellSpec,
        meet_at: &str,
    ) -> Result<Self, Failure> {
        let options = options(cell);
        let begin_ns = clock::monotonic_ns();
        let endpoint = connect(&Address::Abstract(meet_at.to_owned()), mechanism, &options)?;
        let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
        let (sizes, buffer_bytes) = sizes_of(&endpoint, &options)?;
        Ok(Self { end: ChannelEnd::new(endpoint)?, set_up_ns, sizes, buffer_bytes })
    }
}

/// What both ends ask of the channel.
fn options(cell: &CellSpec) -> Options {
    let mut options = Options { wait: Some(cell.wait), ..Options::offering(MechanismSet::ALL) };
    if cell.conditions.buffer_bytes > 0 {
        options.buffer_bytes = cell.conditions.buffer_bytes;
    }
    options
}

/// Sizes as asked for and as read back, and what the channel holds.
pub(crate) fn sizes_of(
    endpoint: &Endpoint,
    options: &Options,
) -> Result<(Vec<EffectiveSize>, u64), Failure> {
    let room_bytes = endpoint.room_bytes()?;
    let size = |name: &str, requested: u32, effective: usize| EffectiveSize {
        name: name.to_owned(),
        requested: Some(requested.into()),
        effective: effective as u64,
    };
    let sizes = vec![
        // What the kernel's object really has, in its own way of counting.
        size(ROOM_BYTES, options.buffer_bytes, room_bytes),
        size("message_bytes_max", options.message_bytes_max, endpoint.message_bytes_max()),
    ];
    Ok((sizes, room_bytes.max(endpoint.buffer_bytes()) as u64))
}

/// Waits for the client's end of a mechanism, as `cell` wants it.
pub(crate) fn accept(listener: &Listener, cell: &CellSpec) -> Result<ChannelEnd, Failure> {
    ChannelEnd::new(listener.accept(Deadline::after(MEET_TIMEOUT), &options(cell))?)
}

/// Measures a floor that stays within one process; `None` if this does not.
pub(crate) fn measure_alone(job: &Job) -> Option<Result<Measured, Failure>> {
    match job.cell.subject {
        Subject::Floor(Floor::Call) => Some(alone::call(job)),
        Subject::Floor(Floor::Memcpy) => Some(alone::memcpy(job)),
        _ => None,
    }
}

/// Opens the end of a floor.
pub(crate) fn open<'a>(meeting: &'a Meeting, role: Role, cell: &CellSpec) -> OpenedEnd<'a> {
    let bytes = cell.bytes();
    let Subject::Floor(floor) = cell.subject else {
        return Err(Failure::other(format!("{} is no floor", cell.subject)));
    };
    match floor {
        Floor::Spin => open_floor(Spin::meet(meeting)?, meeting),
        Floor::Futex => open_floor(Futex::meet(meeting)?, meeting),
        Floor::Eventfd => open_floor(Eventfd::meet(meeting, role)?, meeting),
        Floor::Unix => open_floor(Bytes::new(Unix::meet(meeting, role)?, bytes), meeting),
        Floor::UnixEpoll => open_floor(Bytes::new(UnixEpoll::meet(meeting, role)?, bytes), meeting),
        Floor::Pipe => open_floor(Bytes::new(Pipes::meet(meeting, role)?, bytes), meeting),
        Floor::ChunkedCopy => open_floor(Chunks::meet(meeting, bytes)?, meeting),
        Floor::Ring => open_floor(Words::meet(meeting)?, meeting),
        Floor::Memcpy | Floor::Call => Err(Failure::other("this floor has no other end")),
    }
}

fn open_floor<'a>(carrier: impl Carrier + 'a, meeting: &Meeting) -> OpenedEnd<'a> {
    carrier::open(carrier, meeting, FLOOR_BUFFER_BYTES)
}

/// At least what any floor holds: a ring of 16 chunks, a socket's two buffers.
const FLOOR_BUFFER_BYTES: u64 = 512 << 10;
