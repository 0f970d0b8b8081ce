//! nearcall itself, through its generated code: a server in its event loop, a blocking client.
//!
//! Not here: the client of tasks (`nearcall/tasks.rs`).

mod tasks;

use std::cell::RefCell;
use std::time::Duration;

use anyhow::anyhow;
use nearcall::bytes::BytesMut;
use nearcall::{Bytes, Context, EventLoop, Server, Status};
use nearcall_bench::payload::Payload;
use nearcall_channel::WaitPolicy;

use crate::measure::{self, Client, at_once, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::service::Service;

use generated::{Argument, Count, Peer, PeerCaller, PeerDispatcher};

/// Made by the build script from `proto/echo.proto`.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/peers.v1.rs"));
}

/// The rows: no end trusts the other, which is the default, then both do.
pub(crate) fn rows() -> Vec<Rival> {
    let row = |name: &'static str, waiting| Rival {
        name,
        version: concat!("nearcall ", env!("CARGO_PKG_VERSION")),
        waiting,
        rate: "one-way calls",
        about: include_str!("../../about/nearcall.txt"),
        missing: None,
        serve,
        ask: if name.contains("-async") { tasks::ask } else { ask },
        clean: || (),
    };
    vec![
        row("nearcall-spin", Waiting::Polling),
        row("nearcall-spin-trusted", Waiting::Polling),
        row("nearcall-block", Waiting::Sleeping),
        row("nearcall-block-trusted", Waiting::Sleeping),
        row("nearcall-async-block", Waiting::Sleeping),
        row("nearcall-adaptive", Waiting::Adaptive),
        row("nearcall-async", Waiting::Adaptive),
    ]
}

fn is_trusted(launch: &LaunchRequest) -> bool {
    launch.rival.ends_with("-trusted")
}

/// How the client waits, and how the server, whose loop sleeps by polling all its descriptors.
fn waits(launch: &LaunchRequest) -> [WaitPolicy; 2] {
    match launch.rival.as_str() {
        rival if rival.contains("-spin") => [WaitPolicy::Spin; 2],
        // A future blocks no thread.
        "nearcall-async-block" => [WaitPolicy::Poll; 2],
        rival if rival.contains("-block") => [WaitPolicy::Block, WaitPolicy::Poll],
        _ => [WaitPolicy::Adaptive; 2],
    }
}

fn place(launch: &LaunchRequest) -> String {
    format!("unix:{}", launch.folder.join("nearcall").display())
}

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let service = RefCell::new(Service::new(launch.seed));
    server.register(PeerDispatcher::new(Reader { service })).map_err(|error| anyhow!("{error}"))?;
    let trust = if is_trusted(launch) { "same-user" } else { "no" };
    let address = format!("{}?wait={}&trust={trust}", place(launch), waits(launch)[1]);
    server.listen(&address).map_err(|error| anyhow!("{error}"))?;
    Line::Listening.write()?;
    Ok(event_loop.run()?)
}

struct Reader {
    service: RefCell<Service>,
}

impl Peer for Reader {
    #[inline]
    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.service.borrow_mut().take(&[]);
        Ok(())
    }

    #[inline]
    fn take(&self, _context: &Context<'_>, request: &Argument) -> Result<(), Status> {
        self.service.borrow_mut().take(&request.data);
        Ok(())
    }

    #[inline]
    fn echo(&self, _context: &Context<'_>, request: &Argument) -> Result<Argument, Status> {
        self.service.borrow_mut().take(&request.data);
        Ok(Argument { data: request.data.clone() })
    }

    #[inline]
    fn note(&self, _context: &Context<'_>, request: &Argument) {
        self.service.borrow_mut().take(&request.data);
    }

    fn received(&self, _context: &Context<'_>, _request: &()) -> Result<Count, Status> {
        Ok(Count { messages: self.service.borrow().received() })
    }
}

/// Where and how a client calls.
fn address(launch: &LaunchRequest) -> String {
    let trust = if is_trusted(launch) { "yes" } else { "no" };
    format!("{}?via=shm&wait={}&trust={trust}", place(launch), waits(launch)[0])
}

fn ask(launch: &LaunchRequest) -> anyhow::Result<()> {
    let (is_trusted, address) = (is_trusted(launch), address(launch));
    let client = nearcall::Client::new();
    client.hunt(&address, CONNECT_TIMEOUT).map_err(|error| anyhow!("{error}"))?;
    let caller = PeerCaller::new(&client, &address).map_err(|error| anyhow!("{error}"))?;
    at_once(measure::measure(Calls { caller, buffer: Bytes::new(), is_trusted }, launch))
}

struct Calls {
    caller: PeerCaller,
    /// Of the last request.
    buffer: Bytes,
    is_trusted: bool,
}

impl Calls {
    /// Message `number`: in a loan where that is passed by reference, else in the buffer of the
    /// request before, of which `buffer` keeps a handle.
    #[inline]
    fn argument(&mut self, payload: &Payload, number: u64) -> anyhow::Result<Argument> {
        let bytes = payload.message_bytes();
        if self.is_trusted && bytes >= LOAN_BYTES_MIN {
            let mut loan = self.caller.loan(bytes)?;
            payload.fill(number, 0, &mut loan);
            return Ok(Argument { data: loan.freeze() });
        }
        let own = std::mem::take(&mut self.buffer).try_into_mut();
        let mut own = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        own.resize(bytes, 0);
        payload.fill(number, 0, &mut own);
        self.buffer = own.freeze();
        Ok(Argument { data: self.buffer.clone() })
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if payload.message_bytes() == 0 {
            return Ok(self.caller.nothing(&())?);
        }
        let argument = self.argument(payload, number)?;
        if echo {
            return verify(payload, number, &self.caller.echo(&argument)?.data);
        }
        Ok(self.caller.take(&argument)?)
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let argument = self.argument(payload, number)?;
        Ok(self.caller.note(&argument)?)
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.caller.received(&())?.messages)
    }
}

/// The server listens already when the client starts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Below this, copying costs less than passing by reference.
const LOAN_BYTES_MIN: usize = 4 << 10;
