//! What a process runs that a measurement starts: one end of a launch, a load, measured memory.
//!
//! Reads its request from standard input. An end pins itself, connects to the other process,
//! measures the cells and reports what it found. The program calls [`run`] for its hidden verb.
//! **Not here:** starting the processes (`runner/processes.rs`), the measured loops (`exchange/`).

use nearcall_channel::{Address, Listener, Mechanism};
use nearcall_os::cpu;

use crate::cell::{CellSpec, Subject};
use crate::conditions::Traffic;
use crate::custom::{CustomSubjects, NoSubjects};
use crate::ends::{self, Connection};
use crate::exchange::opened::{Opened, ask};
use crate::exchange::{Failure, server, starts};
use crate::floor::meeting::Meeting;
use crate::launch::{Orders, Role, WorkerMessage, WorkerRequest};
use crate::session::{GOODBYE, READY, add_server, measure_all, misbehave, write};
use crate::{calls, footprint, load, locked, slices, worker};

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
        (orders.subject, orders.conditions.traffic)
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

fn channel_client(mechanism: Mechanism, orders: &Orders) -> Result<(), Failure> {
    let Connection { mut end, set_up_ns, sizes, buffer_bytes } =
        Connection::open(mechanism, &orders.cells[0], &orders.meet_at)?;
    measure_all(orders, (Some(set_up_ns), sizes), |job| {
        end.say(&serde_json::to_string(&job.cell)?)?;
        end.hear()?;
        let mut measured = ask(&mut end, job, buffer_bytes)?;
        add_server(&mut measured, &end.hear()?)?;
        Ok(measured)
    })?;
    end.say(GOODBYE)
}

fn channel_server(orders: &Orders) -> Result<(), Failure> {
    let listener = Listener::bind(&Address::Abstract(orders.meet_at.clone()))?;
    write(&WorkerMessage::Ready)?;
    let mut end = ends::accept(&listener, &orders.cells[0])?;
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
    measure_all(orders, (None, Vec::new()), |job| {
        let alone = match job.cell.subject {
            Subject::Custom(name) => custom.alone(name.as_str(), job),
            _ => ends::measure_alone(job),
        };
        if let Some(measured) = alone {
            return measured;
        }
        meeting.say(&serde_json::to_string(&job.cell)?)?;
        let mut measured = open_any(&meeting, Role::Client, &job.cell, custom)?.ask(job)?;
        add_server(&mut measured, &meeting.hear()?)?;
        Ok(measured)
    })?;
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
        _ => ends::open(meeting, role, cell),
    }
}
