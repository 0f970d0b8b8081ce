//! What the processes run whose memory is measured, and the one that allocates.
//!
//! Orders come as the first line of standard input, questions as the lines after it; each is
//! answered by one line on standard output. At the end of its input a process ends.

use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;

use nearcall::event_loop::Interest;
use nearcall::{Client, Event, EventLoop, Limits, Server};
use nearcall_channel::Deadline;
use nearcall_host::library::{self, LibraryConfig};
use nearcall_os::{pipe, process};
use serde::{Deserialize, Serialize};

use super::allocator;
use crate::calls::generated::{BenchCaller, BenchDispatcher};
use crate::calls::service::FakeService;
use crate::floor::meeting::MEET_TIMEOUT;

/// What a process is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Orders {
    /// One event loop with a server at each of these addresses.
    Serve { addresses: Vec<String>, connections_max: u32 },
    /// Clients of the server at this address; the first calls, the others are idle.
    Connect { address: String, connections_max: u32 },
    /// Calls the servers at these addresses and says when it is done.
    Call { addresses: Vec<String> },
    /// These libraries, each at its address, in one process as `nearcall host` has them.
    Libraries(Vec<LibraryConfig>),
    /// Allocates until a limit says no.
    Allocate(allocator::Limit),
}

/// What a process is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Question {
    /// Have so many idle connections.
    Idle(u32),
    /// How many connections are there?
    Count,
}

/// What a process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// It is as ordered.
    Ready,
    /// So many connections; and why not more, if more were asked for.
    Connections(u32, Option<String>),
    /// Of an allocation.
    Allocated(allocator::Allocated),
    /// Nothing more comes.
    Failed(String),
}

impl Said {
    /// As it is written.
    fn to_text(&self) -> String {
        let json = serde_json::to_string(self).expect("it has no map");
        // The line break in front separates it from what a test harness prints.
        format!("\n{LINE_MARK}{json}\n")
    }

    /// Reads a line of output; `None` if it is not one of ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (_, json) = text.split_once(LINE_MARK)?;
        serde_json::from_str(json).ok()
    }
}

/// Is what the first line of standard input orders, until that ends.
///
/// # Errors
///
/// One sentence on why it gave up; the same went to standard output.
pub fn run() -> Result<(), String> {
    let outcome = obey();
    if let Err(reason) = &outcome {
        // Who asked may be gone already.
        let _ = say(&Said::Failed(reason.clone()));
    }
    outcome
}

fn obey() -> Result<(), String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(text)?;
    match serde_json::from_str(&line).map_err(text)? {
        Orders::Serve { addresses, connections_max } => serve(&addresses, connections_max),
        Orders::Connect { address, connections_max } => connect(&address, connections_max),
        Orders::Call { addresses } => call(&addresses),
        Orders::Libraries(libraries) => library::run_group(&libraries).map_err(text),
        Orders::Allocate(limit) => {
            say(&Said::Allocated(allocator::allocate(&limit)?))?;
            until_told()
        }
    }
}

fn serve(addresses: &[String], connections_max: u32) -> Result<(), String> {
    allow_descriptors(connections_max);
    let connections = usize::try_from(connections_max).map_err(text)?;
    let limits = Limits {
        connections_max: connections,
        connections_per_uid_max: connections,
        ..Limits::default()
    };
    let event_loop = EventLoop::new().map_err(text)?;
    let mut servers = Vec::new();
    for address in addresses {
        let server = Server::with_limits(&event_loop, limits);
        server.register(BenchDispatcher::new(FakeService::new())).map_err(text)?;
        server.listen(&format!("{address}?allow=all")).map_err(text)?;
        servers.push(server);
    }
    event_loop.add_descriptor(io::stdin().as_fd(), Interest::Readable).map_err(text)?;
    say(&Said::Ready)?;
    let mut buffer = [0; QUESTION_BYTES_MAX];
    loop {
        let event = event_loop.next(Deadline::NEVER).map_err(text)?;
        if !matches!(event, Some(Event::Descriptor(..))) {
            continue;
        }
        // One question comes after the answer to the one before, so it comes whole.
        let bytes = pipe::read(io::stdin(), &mut buffer).map_err(text)?;
        if bytes == 0 {
            return Ok(());
        }
        match serde_json::from_slice(&buffer[..bytes]).map_err(text)? {
            Question::Count => {
                let count = servers.iter().map(|server| server.connections().len()).sum::<usize>();
                say(&Said::Connections(u32::try_from(count).unwrap_or(u32::MAX), None))?;
            }
            Question::Idle(_) => return Err("a server makes no connections".to_owned()),
        }
    }
}

fn connect(address: &str, connections_max: u32) -> Result<(), String> {
    allow_descriptors(connections_max);
    let calling = Client::new();
    call_over(&calling, address)?;
    say(&Said::Ready)?;
    let mut idle = Vec::new();
    for line in io::stdin().lock().lines() {
        let wanted = match serde_json::from_str(&line.map_err(text)?).map_err(text)? {
            Question::Idle(wanted) => wanted,
            Question::Count => u32::try_from(idle.len()).unwrap_or(u32::MAX),
        };
        let mut failed = None;
        while failed.is_none() && u32::try_from(idle.len()).is_ok_and(|count| count < wanted) {
            let client = Client::new();
            match client.hunt(address, MEET_TIMEOUT) {
                Ok(()) => idle.push(client),
                Err(status) => failed = Some(status.to_string()),
            }
        }
        let count = u32::try_from(idle.len()).unwrap_or(u32::MAX);
        say(&Said::Connections(count, failed))?;
    }
    Ok(())
}

fn call(addresses: &[String]) -> Result<(), String> {
    let clients = addresses.iter().map(|address| {
        let client = Client::new();
        call_over(&client, address).map(|()| client)
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    // Connected until it is told to end.
    say(&Said::Ready)?;
    until_told()?;
    drop(clients);
    Ok(())
}

/// Calls that make the memory of both ends what it is in use.
fn call_over(client: &Client, address: &str) -> Result<(), String> {
    client.hunt(address, MEET_TIMEOUT).map_err(text)?;
    let caller = BenchCaller::new(client, address).map_err(text)?;
    for _ in 0..CALLS {
        caller.nothing(&()).map_err(text)?;
    }
    Ok(())
}

/// Waits until standard input ends.
fn until_told() -> Result<(), String> {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop).map_err(text)
}

/// Room for so many connections. What is not allowed shows when they are made.
fn allow_descriptors(connections: u32) {
    let wanted = DESCRIPTORS_BESIDE + DESCRIPTORS_PER_CONNECTION * u64::from(connections);
    let _ = process::raise_descriptor_limit(wanted);
}

fn say(said: &Said) -> Result<(), String> {
    let mut out = io::stdout().lock();
    out.write_all(said.to_text().as_bytes()).and_then(|()| out.flush()).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// What our lines begin with.
const LINE_MARK: &str = "nearcall-memory ";

/// Before memory is read.
const CALLS: u32 = 100;

/// A question has some tens of bytes.
const QUESTION_BYTES_MAX: usize = 1_024;

/// What a process has open beside connections.
const DESCRIPTORS_BESIDE: u64 = 256;

/// More than any mechanism has at one end.
const DESCRIPTORS_PER_CONNECTION: u64 = 16;
