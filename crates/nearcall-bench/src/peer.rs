//! What each of the two processes of a launch runs.
//!
//! Reads its orders from standard input, pins itself, meets the other process, measures the cells
//! and writes what it found to standard output. The program calls [`run`] for its hidden verb.
//! Not here: starting the processes (`runner/processes.rs`), the measured loops (`exchange/`).

use std::io::{self, Read, Write};
use std::time::Duration;

use nearcall_channel::{
    Address, Deadline, Endpoint, Listener, Mechanism, MechanismSet, Options, connect,
};
use nearcall_os::{clock, cpu};

use crate::calls;
use crate::cell::{CellSpec, Subject};
use crate::exchange::bursts::bursts;
use crate::exchange::channel::ChannelEnd;
use crate::exchange::client::{self, Job, Measured};
use crate::exchange::count::EndReport;
use crate::exchange::exact;
use crate::exchange::gapped::gapped;
use crate::exchange::paced::paced;
use crate::exchange::server;
use crate::exchange::stamps::Stamps;
use crate::exchange::starts;
use crate::exchange::stream::throughput;
use crate::exchange::{Cause, End, Failure};
use crate::floor::carrier::{Carrier, FloorEnd};
use crate::floor::chunked::Chunks;
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::floor::ring::Words;
use crate::floor::stream::{Bytes, Pipes, Unix, UnixEpoll};
use crate::floor::word::{Eventfd, Futex, Spin};
use crate::floor::{Floor, alone};
use crate::launch::{Fault, Line, Orders, Role};
use crate::load;
use crate::locked;
use crate::methods::{self, Method};
use crate::run::{EffectiveSize, Kind, ROOM_BYTES};
use crate::scene::Traffic;

/// Plays one end of one launch: orders from standard input, results to standard output.
///
/// Returns when the launch is over. What went wrong is on standard output for the runner, and in
/// the error for the exit code.
///
/// # Errors
///
/// One sentence on why this end gave up.
pub fn run() -> Result<(), String> {
    let outcome = play();
    let line = match &outcome {
        Ok(()) => Line::Done,
        Err(failure) => Line::Failed(failure.clone()),
    };
    write(&line).map_err(|failure| failure.text)?;
    outcome.map_err(|failure| failure.text)
}

fn play() -> Result<(), Failure> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    if let Some(orders) = load::worker::Orders::parse(&text) {
        return load::worker::run(&orders);
    }
    let orders: Orders = serde_json::from_str(&text).map_err(Failure::other)?;
    if let Some(cpu) = orders.cpu {
        cpu::pin_current(cpu)?;
    }
    if let (Subject::Mechanism(mechanism), Traffic::Starts { connects }) =
        (orders.subject, orders.scene.traffic)
    {
        return match orders.role {
            Role::Client => starts::client(mechanism, connects, &orders),
            Role::Server => starts::server(&orders),
        };
    }
    match (orders.subject, orders.role) {
        (Subject::Mechanism(mechanism), Role::Client) => channel_client(mechanism, &orders),
        (Subject::Mechanism(_), Role::Server) => channel_server(&orders),
        (Subject::Study(Method::AllocLoop), Role::Client) => methods::event_loop::client(&orders),
        (Subject::Study(Method::AllocLoop), Role::Server) => methods::event_loop::server(&orders),
        (Subject::Floor(_) | Subject::Study(_), Role::Client) => meeting_client(&orders),
        (Subject::Floor(_) | Subject::Study(_), Role::Server) => meeting_server(&orders),
        (Subject::AtRest(mechanism), Role::Client) => calls::rest::client(mechanism, &orders),
        (Subject::AtRest(_), Role::Server) => calls::rest::server(&orders),
        (Subject::Part(_), Role::Client) => calls::peer::parts(&orders),
        (Subject::Part(_), Role::Server) => calls::peer::stand_by(&orders),
        (Subject::Call(route) | Subject::Bare(route), Role::Client) => {
            calls::peer::client(route, &orders)
        }
        (Subject::Call(route) | Subject::Bare(route), Role::Server) => {
            calls::peer::server(route, &orders)
        }
    }
}

pub(crate) fn write(line: &Line) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(line.to_text().as_bytes())?;
    Ok(out.flush()?)
}

pub(crate) fn job(orders: &Orders, cell: CellSpec) -> Job {
    Job {
        cell,
        seed: orders.seed,
        budget_ns: orders.cell_budget_ns,
        stamps: Stamps::new(orders.tsc),
        fault: orders.fault,
    }
}

/// What the client says once it is connected. Locks its memory.
pub(crate) fn connected(
    orders: &Orders,
    set_up_ns: Option<u64>,
    sizes: Vec<EffectiveSize>,
) -> Line {
    let timer = match Stamps::new(orders.tsc) {
        Stamps::Tsc(_) => "tsc",
        Stamps::Clock => "monotonic",
        #[cfg(test)]
        Stamps::Scripted => "scripted",
    };
    let memory = locked::lock_for(orders);
    Line::Connected { set_up_ns, sizes, timer: timer.to_owned(), memory }
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
    let address = Address::Abstract(orders.meet_at.clone());
    let options = options(orders);
    let begin_ns = clock::monotonic_ns();
    let endpoint = connect(&address, mechanism, &options)?;
    let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let room_bytes = endpoint.room_bytes()?;
    let sizes = effective_sizes(&endpoint, &options, room_bytes);
    let buffer_bytes = room_bytes.max(endpoint.buffer_bytes()) as u64;
    let mut end = ChannelEnd::new(endpoint)?;
    write(&connected(orders, Some(set_up_ns), sizes))?;
    for &cell in &orders.cells {
        end.say(&serde_json::to_string(&cell)?)?;
        end.hear()?;
        let job = job(orders, cell);
        let mut measured = ask(&mut end, &job, buffer_bytes)?;
        add_server(&mut measured, &end.hear()?)?;
        write(&Line::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    end.say(GOODBYE)
}

/// What both ends ask of the channel.
fn options(orders: &Orders) -> Options {
    let mut options = Options { wait: Some(orders.wait), ..Options::offering(MechanismSet::ALL) };
    if orders.scene.buffer_bytes > 0 {
        options.buffer_bytes = orders.scene.buffer_bytes;
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

fn channel_server(orders: &Orders) -> Result<(), Failure> {
    let listener = Listener::bind(&Address::Abstract(orders.meet_at.clone()))?;
    write(&Line::Listening)?;
    let options = options(orders);
    let mut end = ChannelEnd::new(listener.accept(Deadline::after(MEET_TIMEOUT), &options)?)?;
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

fn meeting_client(orders: &Orders) -> Result<(), Failure> {
    let meeting = Meeting::connect(&orders.meet_at)?;
    write(&connected(orders, None, Vec::new()))?;
    for &cell in &orders.cells {
        let job = job(orders, cell);
        let measured = match orders.subject {
            Subject::Floor(Floor::Call) => alone::call(&job)?,
            Subject::Floor(Floor::Memcpy) => alone::memcpy(&job)?,
            Subject::Study(method) if method.is_alone() => methods::alone(method, &job)?,
            _ => {
                meeting.say(&serde_json::to_string(&cell)?)?;
                let mut measured = visit(&meeting, Role::Client, &cell, &Client(job))?;
                add_server(&mut measured, &meeting.hear()?)?;
                measured
            }
        };
        write(&Line::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    meeting.say(GOODBYE)
}

fn meeting_server(orders: &Orders) -> Result<(), Failure> {
    let meeting = Meeting::accept(&orders.meet_at, || write(&Line::Listening))?;
    locked::lock_for(orders);
    loop {
        let text = meeting.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        misbehave(orders.fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        let serving = Server { cell, seed: orders.seed, fault: orders.fault };
        let report = visit(&meeting, Role::Server, &cell, &serving)?;
        meeting.say(&serde_json::to_string(&report)?)?;
    }
}

/// What an end does once it is there. A trait, because it is generic over the end.
pub(crate) trait Play {
    type Report;
    /// Runs this end's loop.
    fn play<E: End>(&self, end: &mut E, buffer_bytes: u64) -> Result<Self::Report, Failure>;
}

struct Client(Job);

struct Server {
    cell: CellSpec,
    seed: u64,
    fault: Fault,
}

impl Play for Client {
    type Report = Measured;

    fn play<E: End>(&self, end: &mut E, buffer_bytes: u64) -> Result<Measured, Failure> {
        ask(end, &self.0, buffer_bytes)
    }
}

impl Play for Server {
    type Report = EndReport;

    fn play<E: End>(&self, end: &mut E, _buffer_bytes: u64) -> Result<EndReport, Failure> {
        server::serve(end, &self.cell, self.seed, self.fault)
    }
}

/// The client's loop for the cell of this job.
pub(crate) fn ask<E: End>(end: &mut E, job: &Job, buffer_bytes: u64) -> Result<Measured, Failure> {
    match job.cell.scene.traffic {
        Traffic::Gap { ns } => return gapped(end, job, ns),
        Traffic::Burst { messages } => return bursts(end, job, messages),
        // These have ends of their own, which do not come here.
        Traffic::Steady | Traffic::Clients { .. } | Traffic::Starts { .. } => {}
    }
    match job.cell.kind {
        Kind::Latency if job.cell.scene.exchanges > 0 => exact::latency(end, job),
        Kind::Throughput if job.cell.scene.exchanges > 0 => exact::throughput(end, job),
        Kind::Latency if job.cell.scene.rate_per_s > 0 => paced(end, job),
        Kind::Latency => client::latency(end, job),
        Kind::Throughput => throughput(end, job, buffer_bytes),
    }
}

/// Opens the end of a floor or of a study's method and lets `player` use it.
fn visit<P: Play>(
    meeting: &Meeting,
    role: Role,
    cell: &CellSpec,
    player: &P,
) -> Result<P::Report, Failure> {
    let bytes = cell.bytes();
    let floor = match cell.subject {
        Subject::Floor(floor) => floor,
        Subject::Study(method) => return methods::visit(method, meeting, role, cell, player),
        _ => return Err(Failure::other("neither a floor nor of a study")),
    };
    match floor {
        Floor::Spin => play_floor(Spin::meet(meeting)?, meeting, player),
        Floor::Futex => play_floor(Futex::meet(meeting)?, meeting, player),
        Floor::Eventfd => play_floor(Eventfd::meet(meeting, role)?, meeting, player),
        Floor::Unix => play_floor(Bytes::new(Unix::meet(meeting, role)?, bytes), meeting, player),
        Floor::UnixEpoll => {
            play_floor(Bytes::new(UnixEpoll::meet(meeting, role)?, bytes), meeting, player)
        }
        Floor::Pipe => play_floor(Bytes::new(Pipes::meet(meeting, role)?, bytes), meeting, player),
        Floor::ChunkedCopy => play_floor(Chunks::meet(meeting, bytes)?, meeting, player),
        Floor::Ring => play_floor(Words::meet(meeting)?, meeting, player),
        Floor::Memcpy | Floor::Call => Err(Failure::other("this floor has no other end")),
    }
}

pub(crate) fn play_floor<C: Carrier, P: Play>(
    carrier: C,
    meeting: &Meeting,
    player: &P,
) -> Result<P::Report, Failure> {
    let mut end = FloorEnd::new(carrier, meeting)?;
    player.play(&mut end, FLOOR_BUFFER_BYTES)
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
