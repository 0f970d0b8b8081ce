//! What the two processes of a launch of calls run: both ends of the calls and of a bare channel.
//!
//! ```text
//! client                                server
//!   connects the bare channel   -->     accepts it, then listens for calls
//!                               <--     "ready"
//!   a cell                      -->     its payload
//!                               <--     "ready"
//!   the cell, over what it measures
//!   "report", after calls       -->
//!                               <--     the server's report
//! ```
//!
//! This goes over a line beside both, which is silent while a cell is measured; the server's loop
//! watches it as a descriptor of its user. Not here: routes within one process (`local.rs`).

use std::os::fd::AsFd;

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::{Client, EventLoop, Limits, Server};
use nearcall_channel::{Deadline, Listener, Mechanism};
use nearcall_os::clock;

use crate::bench_plan::Shape;
use crate::calls::awaiting::Awaiting;
use crate::calls::end::CallEnd;
use crate::calls::generated::BenchCaller;
use crate::calls::local::{SameLoop, ShortCircuit};
use crate::calls::loops;
use crate::calls::many;
use crate::calls::meet::{
    COUNT, REPORT, add_report, bare_address, bare_options, begin_cell, calls_address, connect_bare,
    expect_all, server_address,
};
use crate::calls::parts;
use crate::calls::rest::{IdleClients, allow_descriptors, expect_connections};
use crate::calls::route::Route;
use crate::calls::service::FakeService;
use crate::calls::switches;
use crate::cell::{CellSpec, Subject};
use crate::conditions::Traffic;
use crate::ends;
use crate::exchange::channel::ChannelEnd;
use crate::exchange::count::EndReport;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::{End, Failure, opened, server};
use crate::floor::alone;
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::launch::{LaunchRequest, WorkerMessage};
use crate::payload::Verifier;
use crate::session::{self, GOODBYE, READY, measure_all};

/// The end that asks.
pub(crate) fn client(route: Route, request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::connect(&request.meet_at)?;
    match (route, request.conditions.traffic) {
        (Route::Typed | Route::Bytes, _) => {
            let circuit = ShortCircuit::new(request, route == Route::Typed)?;
            measure_all(request, (None, Vec::new()), |job| circuit.measure(job))?;
        }
        (Route::SameLoop(mechanism), _) => {
            let mut same_loop = SameLoop::new(request, mechanism)?;
            measure_all(request, (None, Vec::new()), |job| same_loop.measure(job))?;
        }
        (Route::Blocking(mechanism), Traffic::Clients { clients, loops }) => {
            many::client(mechanism, clients, loops.is_some(), request, &meeting)?;
        }
        (Route::Looped(mechanism), Traffic::Switches) => {
            switches::client(mechanism, request, &meeting)?;
        }
        (Route::Blocking(mechanism) | Route::Looped(mechanism) | Route::Async(mechanism), _) => {
            remote(route, mechanism, request, &meeting)?;
        }
    }
    meeting.say(GOODBYE)
}

/// Measures parts of a call, in one process.
pub(crate) fn parts(request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::connect(&request.meet_at)?;
    measure_all(request, (None, Vec::new()), |job| match job.cell.subject {
        Subject::Part(part) => parts::measure(part, job),
        _ => Err(Failure::other("this is no part of a call")),
    })?;
    meeting.say(GOODBYE)
}

/// Waits until the other process is done.
pub(crate) fn stand_by(request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::accept(&request.meet_at, || session::write(&WorkerMessage::Ready))?;
    match meeting.hear()?.as_str() {
        GOODBYE => Ok(()),
        text => Err(Failure::other(format!("{text:?} is not for this end"))),
    }
}

/// The end that answers; on routes within one process it only waits.
pub(crate) fn server(route: Route, request: &LaunchRequest) -> Result<(), Failure> {
    if route.is_alone() {
        return stand_by(request);
    }
    let wait = route.server_wait(request.wait);
    let listener = Listener::bind(&bare_address(request))?;
    let meeting = Meeting::accept(&request.meet_at, || session::write(&WorkerMessage::Ready))?;
    let accepted = listener.accept(Deadline::after(MEET_TIMEOUT), &bare_options(wait));
    let bare = ChannelEnd::new(accepted?)?;
    if let Traffic::Clients { loops: Some(loops), .. } = request.conditions.traffic {
        return loops::server(loops, request, &meeting);
    }
    let event_loop = EventLoop::new()?;
    let limits = match request.conditions.traffic {
        Traffic::Switches => Limits { switches_per_minute_max: u32::MAX, ..Limits::default() },
        _ => Limits::default(),
    };
    let server = Server::with_limits(&event_loop, limits);
    allow_descriptors(request.conditions.connections());
    let service = FakeService::listen(&server, &server_address(request))?;
    event_loop.add_descriptor(meeting.as_fd(), Interest::Readable)?;
    meeting.say(READY)?;
    let (meeting, service) = (&meeting, &*service);
    let mut serving = Serving { request, meeting, service, server: &server, bare };
    // Everything that concerns us comes over the meeting; calls are served inside.
    loop {
        match event_loop.next(Deadline::NEVER)? {
            Some(Event::Descriptor(..)) if serving.obey()? => return Ok(()),
            _ => {}
        }
    }
}

struct Serving<'a> {
    request: &'a LaunchRequest,
    meeting: &'a Meeting,
    service: &'a FakeService,
    server: &'a Server,
    bare: ChannelEnd,
}

impl Serving<'_> {
    /// Does what the client says next. True: there is nothing more.
    fn obey(&mut self) -> Result<bool, Failure> {
        let text = self.meeting.hear()?;
        match text.as_str() {
            GOODBYE => return Ok(true),
            COUNT => {
                self.meeting.say(&self.server.connections().len().to_string())?;
                return Ok(false);
            }
            REPORT => {
                let report = self.service.report()?;
                self.meeting.say(&serde_json::to_string(&report)?)?;
                return Ok(false);
            }
            _ => {}
        }
        let &LaunchRequest { seed, fault, .. } = self.request;
        session::misbehave(fault)?;
        let cell: CellSpec = serde_json::from_str(&text)?;
        if let Subject::Bare(_) = cell.subject {
            self.meeting.say(READY)?;
            let report = server::serve(&mut self.bare, &cell, seed, fault)?;
            self.meeting.say(&serde_json::to_string(&report)?)?;
        } else {
            self.service.begin_with(cell.requests(seed));
            self.meeting.say(READY)?;
        }
        Ok(false)
    }
}

/// Calls to the other process, and the bare exchanges.
fn remote(
    route: Route,
    mechanism: Mechanism,
    request: &LaunchRequest,
    meeting: &Meeting,
) -> Result<(), Failure> {
    let endpoint = connect_bare(mechanism, request, meeting)?;
    let (sizes, buffer_bytes) = ends::sizes_of(&endpoint, &bare_options(request.wait))?;
    let mut bare = ChannelEnd::new(endpoint)?;
    let event_loop = EventLoop::new()?;
    let client = match route {
        Route::Looped(_) => Client::in_loop(&event_loop),
        _ => Client::new(),
    };
    let awaiting = matches!(route, Route::Async(_)).then(Awaiting::new).transpose()?;
    let address = calls_address(request, route);
    let begin_ns = clock::monotonic_ns();
    client.hunt(&address, MEET_TIMEOUT)?;
    let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let caller = BenchCaller::new(&client, &address).map_err(Failure::other)?;
    let connections = request.conditions.idle_connections;
    allow_descriptors(connections);
    let _idle = IdleClients::connect(connections, &address)?;
    if connections > 0 {
        expect_connections(meeting, connections + 1)?;
    }
    measure_all(request, (Some(set_up_ns), sizes), |job| {
        let cell = &job.cell;
        begin_cell(meeting, cell)?;
        if let Subject::Bare(_) = cell.subject {
            let measured = match cell.shape {
                Shape::Send => send_ns(&mut bare, job)?,
                _ => opened::ask(&mut bare, job, buffer_bytes)?,
            };
            let report: EndReport = serde_json::from_str(&meeting.hear()?)?;
            if cell.shape == Shape::Send {
                return Ok(measured);
            }
            expect_all(cell, measured.messages, report.received)?;
            return Ok(Measured { server: Some(report), ..measured });
        }
        let mut measured = match &awaiting {
            Some(awaiting) => {
                opened::ask(&mut awaiting.end(&client, &address, cell)?, job, buffer_bytes)?
            }
            None => opened::ask(&mut CallEnd::new(&caller, cell), job, buffer_bytes)?,
        };
        add_report(meeting, cell, &mut measured)?;
        Ok(measured)
    })
}

/// Times only the sending of bare exchanges, which otherwise happen as usual.
fn send_ns(bare: &mut ChannelEnd, job: &Job) -> Result<Measured, Failure> {
    let (requests, replies) = (job.payload(), job.cell.replies(job.seed));
    let (mut verifier, mut number) = (Verifier::new(&replies, 0), 0);
    let measured = alone::measure_timed(job, 1, || {
        let start = job.stamps.start();
        bare.send(&requests, number)?;
        let ns = job.stamps.since_ns(start);
        bare.receive(&mut verifier)?;
        number += 1;
        Ok(ns)
    })?;
    // The server counts between two marks; here nothing but the client's stamps matters.
    for _ in 0..2 {
        bare.send_mark(&requests, number)?;
        bare.receive_empty()?;
    }
    Ok(measured)
}
