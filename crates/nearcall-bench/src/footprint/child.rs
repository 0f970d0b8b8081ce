//! What the processes run whose memory is measured, and the one that allocates.
//!
//! Questions come as lines of standard input; each is answered by one message. At the end of its
//! input a process ends.

use std::io::{self, BufRead};
use std::os::fd::AsFd;

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::{Client, EventLoop, Limits, Server};
use nearcall_channel::Deadline;
use nearcall_os::pipe;

use super::allocator;
use crate::calls::rest::{allow_descriptors, call_over};
use crate::calls::service::FakeService;
use crate::exchange::Failure;
use crate::floor::meeting::MEET_TIMEOUT;
use crate::launch::{Question, WorkerMessage, WorkerRequest};
use crate::worker;

/// Is what `request` says until standard input ends.
pub(crate) fn run(request: WorkerRequest) -> Result<(), Failure> {
    match request {
        WorkerRequest::Serve { addresses, connections_max } => serve(&addresses, connections_max),
        WorkerRequest::Connect { address, connections_max } => connect(&address, connections_max),
        WorkerRequest::Call { addresses } => call(&addresses),
        WorkerRequest::Allocate(limit) => {
            let allocated = allocator::allocate(&limit).map_err(Failure::other)?;
            report(&WorkerMessage::Allocated(allocated))?;
            wait_for_end()
        }
        WorkerRequest::End(_) | WorkerRequest::Load(_) => {
            Err(Failure::other("no process whose memory is measured"))
        }
    }
}

fn serve(addresses: &[String], connections_max: u32) -> Result<(), Failure> {
    allow_descriptors(connections_max);
    let connections = usize::try_from(connections_max).map_err(Failure::other)?;
    let limits = Limits {
        connections_max: connections,
        connections_per_uid_max: connections,
        ..Limits::default()
    };
    let event_loop = EventLoop::new().map_err(Failure::other)?;
    let mut servers = Vec::new();
    for address in addresses {
        let server = Server::with_limits(&event_loop, limits);
        FakeService::listen(&server, &format!("{address}?allow=all"))?;
        servers.push(server);
    }
    event_loop.add_descriptor(io::stdin().as_fd(), Interest::Readable).map_err(Failure::other)?;
    report(&WorkerMessage::Ready)?;
    let mut buffer = [0; QUESTION_BYTES_MAX];
    loop {
        let event = event_loop.next(Deadline::NEVER).map_err(Failure::other)?;
        if !matches!(event, Some(Event::Descriptor(..))) {
            continue;
        }
        // One question comes after the answer to the one before, so it comes whole.
        let bytes = pipe::read(io::stdin(), &mut buffer).map_err(Failure::other)?;
        if bytes == 0 {
            return Ok(());
        }
        match serde_json::from_slice(&buffer[..bytes]).map_err(Failure::other)? {
            Question::Count => {
                let count = servers.iter().map(|server| server.connections().len()).sum::<usize>();
                report(&WorkerMessage::Connections(
                    u32::try_from(count).unwrap_or(u32::MAX),
                    None,
                ))?;
            }
            Question::Idle(_) => return Err(Failure::other("a server makes no connections")),
        }
    }
}

fn connect(address: &str, connections_max: u32) -> Result<(), Failure> {
    allow_descriptors(connections_max);
    let calling = Client::new();
    call_over(&calling, address)?;
    report(&WorkerMessage::Ready)?;
    let mut idle = Vec::new();
    for line in io::stdin().lock().lines() {
        let wanted =
            match serde_json::from_str(&line.map_err(Failure::other)?).map_err(Failure::other)? {
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
        report(&WorkerMessage::Connections(count, failed))?;
    }
    Ok(())
}

fn call(addresses: &[String]) -> Result<(), Failure> {
    let clients = addresses.iter().map(|address| {
        let client = Client::new();
        call_over(&client, address).map(|()| client)
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    // Connected until it is told to end.
    report(&WorkerMessage::Ready)?;
    wait_for_end()?;
    drop(clients);
    Ok(())
}

/// Waits until standard input ends.
fn wait_for_end() -> Result<(), Failure> {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop).map_err(Failure::other)
}

fn report(message: &WorkerMessage) -> Result<(), Failure> {
    Ok(worker::write_message(message)?)
}

/// A question has some tens of bytes.
const QUESTION_BYTES_MAX: usize = 1_024;
