//! A server without calls: what it costs in memory, CPU time and wake-ups, seen from outside.
//!
//! The client process makes one connection that calls, then as many as the cell says that do not,
//! and reads the server's files in `/proc`; the server itself is not disturbed.
//! **Invariants:** each idle connection was greeted by the server, which is asked how many it has.

use std::os::fd::AsFd;
use std::time::Duration;

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::{Client, EventLoop, Server};
use nearcall_channel::{Deadline, Mechanism};
use nearcall_os::{clock, process};

use crate::calls::generated::BenchCaller;
use crate::calls::meet::{COUNT, calls_address, server_address};
use crate::calls::route::Route;
use crate::calls::service::FakeService;
use crate::exchange::Failure;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, Rest};
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::launch::{LaunchRequest, WorkerMessage};
use crate::memory;
use crate::session::{self, GOODBYE};
use crate::usage;

/// The server.
pub(crate) fn server(request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::accept(&request.meet_at, || session::write(&WorkerMessage::Ready))?;
    allow_descriptors(request.conditions.idle_connections);
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    FakeService::listen(&server, &server_address(request))?;
    event_loop.add_descriptor(meeting.as_fd(), Interest::Readable)?;
    meeting.say(&process::pid().to_string())?;
    loop {
        let Some(Event::Descriptor(..)) = event_loop.next(Deadline::NEVER)? else { continue };
        match meeting.hear()?.as_str() {
            GOODBYE => return Ok(()),
            COUNT => meeting.say(&server.connections().len().to_string())?,
            text => return Err(Failure::other(format!("{text:?} is not for this end"))),
        }
    }
}

/// The clients, and who watches.
pub(crate) fn client(mechanism: Mechanism, request: &LaunchRequest) -> Result<(), Failure> {
    let meeting = Meeting::connect(&request.meet_at)?;
    allow_descriptors(request.conditions.idle_connections);
    let server_pid: u32 = meeting.hear()?.parse().map_err(Failure::other)?;
    let address = calls_address(request, Route::Blocking(mechanism));
    session::measure_all(request, (None, Vec::new()), |job| {
        let rest = observe(&meeting, server_pid, &address, job)?;
        Ok(Measured { messages: CALLS, rest: Some(rest), ..Measured::default() })
    })?;
    meeting.say(GOODBYE)
}

fn observe(meeting: &Meeting, server_pid: u32, address: &str, job: &Job) -> Result<Rest, Failure> {
    let client = Client::new();
    call_over(&client, address)?;
    // The first reading maps what later ones find present.
    let both = || Both::read([server_pid, std::process::id()]);
    both();
    clock::pause(SETTLE);
    let (private_bytes, before) = (memory::private_bytes(server_pid), both());
    let connections = job.cell.conditions.idle_connections;
    let idle = IdleClients::connect(connections, address)?;
    expect_connections(meeting, connections + 1)?;
    clock::pause(SETTLE);
    let after = both();
    let per_connection = |before: Option<u64>, after: Option<u64>| {
        after?.saturating_sub(before?).checked_div(u64::from(connections))
    };
    clock::pause(SETTLE);
    let window =
        Duration::from_nanos(job.budget_ns).saturating_mul(4).clamp(OBSERVED_MIN, OBSERVED_MAX);
    let (usage, begin_ns) = (usage::of(server_pid), clock::monotonic_ns());
    clock::pause(window);
    let (later, end_ns) = (usage::of(server_pid), clock::monotonic_ns());
    drop(idle);
    Ok(Rest {
        observed_ns: end_ns.saturating_sub(begin_ns),
        usage: usage.zip(later).map(|(before, after)| after.since(before)),
        private_bytes,
        touched_bytes_per_connection: per_connection(before.all_bytes, after.all_bytes),
        shared_bytes_per_connection: per_connection(before.shared_bytes, after.shared_bytes),
    })
}

/// Calls that make the memory of both ends what it is in use.
pub(crate) fn call_over(client: &Client, address: &str) -> Result<(), Failure> {
    client.hunt(address, MEET_TIMEOUT)?;
    let caller = BenchCaller::new(client, address).map_err(Failure::other)?;
    for _ in 0..CALLS {
        caller.nothing(&())?;
    }
    Ok(())
}

/// Memory of two processes, what they share counted once.
struct Both {
    all_bytes: Option<u64>,
    shared_bytes: Option<u64>,
}

impl Both {
    fn read([one, other]: [u32; 2]) -> Self {
        let sum = |of: fn(u32) -> Option<u64>| Some(of(one)? + of(other)?);
        Self { all_bytes: sum(memory::pss_bytes), shared_bytes: sum(memory::shared_pss_bytes) }
    }
}

/// Clients that are connected and say nothing; gone when dropped.
pub(super) struct IdleClients {
    _clients: Vec<Client>,
}

impl IdleClients {
    pub(super) fn connect(count: u32, address: &str) -> Result<Self, Failure> {
        let connect = |_| {
            let client = Client::new();
            client.hunt(address, MEET_TIMEOUT)?;
            Ok(client)
        };
        let clients = (0..count).map(connect).collect::<Result<_, Failure>>()?;
        Ok(Self { _clients: clients })
    }
}

/// Asks the server whether all connections are there.
pub(super) fn expect_connections(meeting: &Meeting, expected: u32) -> Result<(), Failure> {
    meeting.say(COUNT)?;
    let found: u32 = meeting.hear()?.parse().map_err(Failure::other)?;
    if found == expected {
        return Ok(());
    }
    Err(Failure::other(format!("the server has {found} connections where {expected} were made")))
}

/// Room for so many connections. What is not allowed shows when they are made; how many
/// descriptors are is returned.
pub(crate) fn allow_descriptors(connections: u32) -> Option<u64> {
    let wanted = DESCRIPTORS_BESIDE + DESCRIPTORS_PER_CONNECTION * u64::from(connections);
    process::raise_descriptor_limit(wanted).ok()
}

/// Calls that make the server's memory what it is while it serves.
const CALLS: u64 = 100;

/// What a handshake leaves to do is done by then.
const SETTLE: Duration = Duration::from_millis(100);

/// Shorter, a timer that ticks once in a while would not be seen.
const OBSERVED_MIN: Duration = Duration::from_millis(500);

/// A longer time shows nothing more.
const OBSERVED_MAX: Duration = Duration::from_secs(2);

/// What a process has open beside connections.
const DESCRIPTORS_BESIDE: u64 = 256;

/// More than any mechanism has at one end.
const DESCRIPTORS_PER_CONNECTION: u64 = 16;
