//! What a process runs that a measurement starts: one end of a launch, a load, measured memory.
//!
//! Reads its request from standard input. An end pins itself, connects to the other process,
//! measures the cells and reports what it found. The program calls [`run`] for its hidden verb.
//! **Not here:** starting the processes (`runner/processes.rs`), the measured loops (`exchange/`).

use std::time::Duration;

use nearcall_channel::{
    Address, Deadline, Endpoint, Listener, Mechanism, MechanismSet, Options, connect,
};
use nearcall_os::{clock, cpu};

use crate::cell::{CellSpec, Subject};
use crate::custom::{CustomSubjects, NoSubjects};
use crate::exchange::channel::ChannelEnd;
use crate::exchange::client::{Job, Measured, Part};
use crate::exchange::count::EndReport;
pub(crate) use crate::exchange::opened::{Opened, ask, opened};
use crate::exchange::server;
use crate::exchange::stamps::Stamps;
use crate::exchange::starts;
use crate::exchange::{Cause, Failure};
use crate::floor::carrier::{self, Carrier};
use crate::floor::chunked::Chunks;
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::floor::ring::Words;
use crate::floor::stream::{Bytes, Pipes, Unix, UnixEpoll};
use crate::floor::word::{Eventfd, Futex, Spin};
use crate::floor::{Floor, alone};
use crate::launch::{Fault, Orders, Role, WorkerMessage, WorkerRequest};
use crate::locked;
use crate::run::{EffectiveSize, ROOM_BYTES};
use crate::scene::Traffic;
use crate::{calls, footprint, load, slices, worker};

/// Does what standard input requests; results go to standard output.
///
/// Returns when that is over. What went wrong is on standard output for the parent, and in the
/// error for the exit code.
///
/// # Errors
///
/// One sentence on why this process gave up.
pub fn run() -> Result<(), String> {
    run_with(&NoSubjects)
}

/// Does the same as [`run`] where cells may be of `custom` subjects.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(custom: &dyn CustomSubjects) -> Result<(), String> {
    let request = worker::read_request().map_err(Failure::from);
    let outcome = request.and_then(|request| obey(request, custom));
    let message = match &outcome {
        Ok(()) => WorkerMessage::Done,
        Err(failure) => WorkerMessage::Failed(failure.clone()),
    };
    // The parent may be gone already.
    let written = write(&message);
    outcome.and(written).map_err(|failure| failure.text)
}

fn obey(request: WorkerRequest, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    match request {
        WorkerRequest::End(orders) => play(&orders, custom),
        WorkerRequest::Load(work) => load::worker::run(work),
        request => footprint::child::run(request),
    }
}

fn play(orders: &Orders, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    if let Some(cpu) = orders.cpu {
        cpu::pin_current(cpu)?;
    }
    if orders.slices {
        return match orders.role {
            Role::Client => slices::client(orders),
            Role::Server => slices::server(orders),
        };
    }
    if let (Subject::Mechanism(mechanism), Traffic::Starts { connects }) =
        (orders.subject, orders.scene.traffic)
    {
        return match orders.role {
            Role::Client => starts::client(mechanism, connects, orders),
            Role::Server => starts::server(orders),
        };
    }
    match (orders.subject, orders.role) {
        (Subject::Mechanism(mechanism), Role::Client) => channel_client(mechanism, orders),
        (Subject::Mechanism(_), Role::Server) => channel_server(orders),
        (Subject::Floor(_) | Subject::Custom(_), Role::Client) => meeting_client(orders, custom),
        (Subject::Floor(_) | Subject::Custom(_), Role::Server) => meeting_server(orders, custom),
        (Subject::AtRest(mechanism), Role::Client) => calls::rest::client(mechanism, orders),
        (Subject::AtRest(_), Role::Server) => calls::rest::server(orders),
        (Subject::Part(_), Role::Client) => calls::peer::parts(orders),
        (Subject::Part(_), Role::Server) => calls::peer::stand_by(orders),
        (Subject::Call(route) | Subject::Bare(route), Role::Client) => {
            calls::peer::client(route, orders)
        }
        (Subject::Call(route) | Subject::Bare(route), Role::Server) => {
            calls::peer::server(route, orders)
        }
    }
}

pub(crate) fn write(message: &WorkerMessage) -> Result<(), Failure> {
    Ok(worker::write_message(message)?)
}

pub(crate) fn job(orders: &Orders, cell: CellSpec) -> Job {
    Job {
        cell,
        seed: orders.seed,
        budget_ns: orders.cell_budget_ns,
        part: Part::Whole,
        stamps: Stamps::new(orders.tsc),
        fault: orders.fault,
    }
}

/// What the client says once it is connected. Locks its memory.
pub(crate) fn connected(
    orders: &Orders,
    set_up_ns: Option<u64>,
    sizes: Vec<EffectiveSize>,
) -> WorkerMessage {
    connected_with(orders, set_up_ns, sizes, locked::lock_for(orders))
}

/// The same where memory was locked before; `memory` says how.
pub(crate) fn connected_with(
    orders: &Orders,
    set_up_ns: Option<u64>,
    sizes: Vec<EffectiveSize>,
    memory: String,
) -> WorkerMessage {
    let timer = match Stamps::new(orders.tsc) {
        Stamps::Tsc(_) => "tsc",
        Stamps::Clock => "monotonic",
        #[cfg(test)]
        Stamps::Scripted => "scripted",
    };
    WorkerMessage::Connected { set_up_ns, sizes, timer: timer.to_owned(), memory }
}

/// Makes the fault that the server was told to make when a cell begins.
pub(crate) fn misbehave(fault: Fault) -> Result<(), Failure> {
    match fault {
        Fault::Die => Err(Failure::other("told to go away")),
        Fault::Hang => {
            clock::pause(HANG);
            Ok(())
        }
        Fault::None | Fault::Corrupt | Fault::SlowStart | Fault::Stall { .. } => Ok(()),
    }
}

fn channel_client(mechanism: Mechanism, orders: &Orders) -> Result<(), Failure> {
    let cell = &orders.cells[0];
    let Connection { mut end, set_up_ns, sizes, buffer_bytes } =
        Connection::open(mechanism, cell, &orders.meet_at)?;
    write(&connected(orders, Some(set_up_ns), sizes))?;
    for &cell in &orders.cells {
        end.say(&serde_json::to_string(&cell)?)?;
        end.hear()?;
        let job = job(orders, cell);
        let mut measured = ask(&mut end, &job, buffer_bytes)?;
        add_server(&mut measured, &end.hear()?)?;
        write(&WorkerMessage::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    end.say(GOODBYE)
}

/// A client's end of a mechanism, and what is told of it.
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
        let room_bytes = endpoint.room_bytes()?;
        let sizes = effective_sizes(&endpoint, &options, room_bytes);
        let buffer_bytes = room_bytes.max(endpoint.buffer_bytes()) as u64;
        Ok(Self { end: ChannelEnd::new(endpoint)?, set_up_ns, sizes, buffer_bytes })
    }
}

/// What both ends ask of the channel.
fn options(cell: &CellSpec) -> Options {
    let mut options = Options { wait: Some(cell.wait), ..Options::offering(MechanismSet::ALL) };
    if cell.scene.buffer_bytes > 0 {
        options.buffer_bytes = cell.scene.buffer_bytes;
    }
    options
}

/// Sizes as asked for and as read back.
pub(crate) fn effective_sizes(
    endpoint: &Endpoint,
    options: &Options,
    room_bytes: usize,
) -> Vec<EffectiveSize> {
    let size = |name: &str, requested: u32, effective: usize| EffectiveSize {
        name: name.to_owned(),
        requested: Some(requested.into()),
        effective: effective as u64,
    };
    vec![
        // What the kernel's object really has, in its own way of counting.
        size(ROOM_BYTES, options.buffer_bytes, room_bytes),
        size("message_bytes_max", options.message_bytes_max, endpoint.message_bytes_max()),
    ]
}

/// Adds the server's report. It must have had every message that the client counts: one that is
/// lost between the last of them and the mark would shorten the time.
pub(crate) fn add_server(measured: &mut Measured, report: &str) -> Result<(), Failure> {
    let report: EndReport = serde_json::from_str(report)?;
    if report.received != measured.messages {
        let (sent, received) = (measured.messages, report.received);
        return Err(Failure {
            cause: Cause::Corrupt,
            text: format!("{sent} messages were sent and {received} received"),
        });
    }
    measured.server = Some(report);
    Ok(())
}

/// Waits for the client's end of a mechanism, as `cell` wants it.
pub(crate) fn accept(listener: &Listener, cell: &CellSpec) -> Result<ChannelEnd, Failure> {
    ChannelEnd::new(listener.accept(Deadline::after(MEET_TIMEOUT), &options(cell))?)
}

fn channel_server(orders: &Orders) -> Result<(), Failure> {
    let listener = Listener::bind(&Address::Abstract(orders.meet_at.clone()))?;
    write(&WorkerMessage::Ready)?;
    let mut end = accept(&listener, &orders.cells[0])?;
    locked::lock_for(orders);
    loop {
        let text = end.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        misbehave(orders.fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        end.say(READY)?;
        let report = server::serve(&mut end, &cell, orders.seed, orders.fault)?;
        end.say(&serde_json::to_string(&report)?)?;
    }
}

fn meeting_client(orders: &Orders, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    let meeting = Meeting::connect(&orders.meet_at)?;
    write(&connected(orders, None, Vec::new()))?;
    for &cell in &orders.cells {
        let job = job(orders, cell);
        let within_this = match cell.subject {
            Subject::Custom(name) => custom.alone(name.as_str(), &job),
            _ => alone(&job),
        };
        let measured = match within_this {
            Some(measured) => measured?,
            None => {
                meeting.say(&serde_json::to_string(&cell)?)?;
                let mut measured = open_any(&meeting, Role::Client, &cell, custom)?.ask(&job)?;
                add_server(&mut measured, &meeting.hear()?)?;
                measured
            }
        };
        write(&WorkerMessage::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    meeting.say(GOODBYE)
}

fn meeting_server(orders: &Orders, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    let meeting = Meeting::accept(&orders.meet_at, || write(&WorkerMessage::Ready))?;
    locked::lock_for(orders);
    loop {
        let text = meeting.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        misbehave(orders.fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        let report = open_any(&meeting, Role::Server, &cell, custom)?.serve(&cell, orders)?;
        meeting.say(&serde_json::to_string(&report)?)?;
    }
}

/// Opens the end of a floor or of a custom subject.
fn open_any<'a>(
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
    custom: &dyn CustomSubjects,
) -> Result<Box<dyn Opened + 'a>, Failure> {
    match cell.subject {
        Subject::Custom(name) => custom.open(name.as_str(), meeting, role, cell),
        _ => open(meeting, role, cell),
    }
}

/// Measures a floor that stays within one process; `None` if this does not.
pub(crate) fn alone(job: &Job) -> Option<Result<Measured, Failure>> {
    match job.cell.subject {
        Subject::Floor(Floor::Call) => Some(alone::call(job)),
        Subject::Floor(Floor::Memcpy) => Some(alone::memcpy(job)),
        _ => None,
    }
}

/// Opens the end of a floor.
pub(crate) fn open<'a>(
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
) -> Result<Box<dyn Opened + 'a>, Failure> {
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

fn open_floor<'a>(
    carrier: impl Carrier + 'a,
    meeting: &Meeting,
) -> Result<Box<dyn Opened + 'a>, Failure> {
    carrier::open(carrier, meeting, FLOOR_BUFFER_BYTES)
}

/// The client has no more cells.
pub(crate) const GOODBYE: &str = "goodbye";

/// The server has made its payload.
pub(crate) const READY: &str = "ready";

/// At least what any floor holds: a ring of 16 chunks, a socket's two buffers.
const FLOOR_BUFFER_BYTES: u64 = 512 << 10;

/// Longer than any watchdog waits.
const HANG: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_fails_the_run() {
        let mut measured = Measured { messages: 7, ..Measured::default() };
        let report = |received| {
            serde_json::to_string(&EndReport { received, ..EndReport::default() }).unwrap()
        };
        let failure = add_server(&mut measured, &report(6)).unwrap_err();
        assert_eq!(failure.cause, Cause::Corrupt);
        assert!(measured.server.is_none());
        add_server(&mut measured, &report(7)).unwrap();
        assert!(measured.server.is_some());
    }
}
