//! What a process runs that a measurement starts: one end of a launch, a load, measured memory.
//!
//! Reads its request from standard input. An end pins itself, connects to the other process,
//! measures the cells and reports what it found. The program calls [`run`] for its hidden verb.
//! **Not here:** starting the processes (`runner/processes.rs`), the measured loops (`exchange/`).

use nearcall_channel::{Address, Listener, Mechanism, wake_up_cost};
use nearcall_os::cpu;

use crate::cell::{CellSpec, Subject};
use crate::conditions::Traffic;
use crate::custom::{CustomSubjects, NoSubjects};
use crate::ends::{self, Connection};
use crate::exchange::opened::{OpenedEnd, ask};
use crate::exchange::{Failure, server, starts};
use crate::floor::meeting::Meeting;
use crate::launch::{LaunchRequest, Role, WorkerMessage, WorkerRequest};
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
        WorkerRequest::End(launch) => play(&launch, custom),
        WorkerRequest::Load(work) => load::worker::run(work),
        request => footprint::child::run(request),
    }
}

fn play(launch: &LaunchRequest, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    if let Some(cpu) = launch.cpu {
        cpu::pin_current(cpu)?;
    }
    // An end that spins would have it measured by a thread beside what is measured here.
    let _ = wake_up_cost();
    if launch.slices {
        return match launch.role {
            Role::Client => slices::client(launch),
            Role::Server => slices::server(launch),
        };
    }
    if let (Subject::Mechanism(mechanism), Traffic::Starts { connects }) =
        (launch.subject, launch.conditions.traffic)
    {
        return match launch.role {
            Role::Client => starts::client(mechanism, connects, launch),
            Role::Server => starts::server(launch),
        };
    }
    match (launch.subject, launch.role) {
        (Subject::Mechanism(mechanism), Role::Client) => channel_client(mechanism, launch),
        (Subject::Mechanism(_), Role::Server) => channel_server(launch),
        (Subject::Floor(_) | Subject::Custom(_), Role::Client) => meeting_client(launch, custom),
        (Subject::Floor(_) | Subject::Custom(_), Role::Server) => meeting_server(launch, custom),
        (Subject::AtRest(mechanism), Role::Client) => calls::rest::client(mechanism, launch),
        (Subject::AtRest(_), Role::Server) => calls::rest::server(launch),
        (Subject::Part(_), Role::Client) => calls::peer::parts(launch),
        (Subject::Part(_), Role::Server) => calls::peer::stand_by(launch),
        (Subject::Call(route) | Subject::Bare(route), Role::Client) => {
            calls::peer::client(route, launch)
        }
        (Subject::Call(route) | Subject::Bare(route), Role::Server) => {
            calls::peer::server(route, launch)
        }
    }
}

fn channel_client(mechanism: Mechanism, launch: &LaunchRequest) -> Result<(), Failure> {
    let Connection { mut end, set_up_ns, sizes, buffer_bytes } =
        Connection::open(mechanism, &launch.cells[0], &launch.meet_at)?;
    measure_all(launch, (Some(set_up_ns), sizes), |job| {
        end.say(&serde_json::to_string(&job.cell)?)?;
        end.hear()?;
        let mut measured = ask(&mut end, job, buffer_bytes)?;
        add_server(&mut measured, &end.hear()?)?;
        Ok(measured)
    })?;
    end.say(GOODBYE)
}

fn channel_server(launch: &LaunchRequest) -> Result<(), Failure> {
    let listener = Listener::bind(&Address::Abstract(launch.meet_at.clone()))?;
    write(&WorkerMessage::Ready)?;
    let mut end = ends::accept(&listener, &launch.cells[0])?;
    locked::lock_for(launch);
    loop {
        let text = end.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        misbehave(launch.fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        end.say(READY)?;
        let report = server::serve(&mut end, &cell, launch.seed, launch.fault)?;
        end.say(&serde_json::to_string(&report)?)?;
    }
}

fn meeting_client(launch: &LaunchRequest, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    let meeting = Meeting::connect(&launch.meet_at)?;
    measure_all(launch, (None, Vec::new()), |job| {
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

fn meeting_server(launch: &LaunchRequest, custom: &dyn CustomSubjects) -> Result<(), Failure> {
    let meeting = Meeting::accept(&launch.meet_at, || write(&WorkerMessage::Ready))?;
    locked::lock_for(launch);
    loop {
        let text = meeting.hear()?;
        if text == GOODBYE {
            return Ok(());
        }
        misbehave(launch.fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        let report = open_any(&meeting, Role::Server, &cell, custom)?.serve(&cell, launch)?;
        meeting.say(&serde_json::to_string(&report)?)?;
    }
}

/// Opens the end of a floor or of a custom subject.
fn open_any<'a>(
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
    custom: &dyn CustomSubjects,
) -> OpenedEnd<'a> {
    match cell.subject {
        Subject::Custom(name) => custom.open(name.as_str(), meeting, role, cell),
        _ => ends::open(meeting, role, cell),
    }
}
