//! nearcall itself, through its generated code: a server in its event loop, a blocking client.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::anyhow;
use nearcall::{Context, EventLoop, Server, Status};
use nearcall_bench::payload::Payload;
use nearcall_channel::{Mechanism, WaitPolicy};

use crate::launch::{Line, Orders};
use crate::measure::{self, Client, at_once, verify};
use crate::rival::{Rival, Waiting};
use crate::service::Service;

use generated::{Argument, Count, Peer, PeerCaller, PeerDispatcher};

/// Made by the build script from `proto/echo.proto`.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/peers.v1.rs"));
}

/// The rows that this version of nearcall has.
pub(crate) fn rows() -> Vec<Rival> {
    let row = |name, waiting| Rival {
        name,
        version: concat!("nearcall ", env!("CARGO_PKG_VERSION")),
        waiting,
        rate: "one-way calls",
        about: include_str!("../../about/nearcall.txt"),
        missing: None,
        serve,
        ask,
        clean: || (),
    };
    let mut rows =
        vec![row("nearcall-spin", Waiting::Polling), row("nearcall-block", Waiting::Sleeping)];
    if "adaptive".parse::<WaitPolicy>().is_ok() {
        rows.push(row("nearcall-adaptive", Waiting::Adaptive));
    }
    rows
}

/// The parameters of an address for this row. The default mechanism, or what came before it.
fn parameters(orders: &Orders) -> (&'static str, &'static str) {
    let has_shm = "shm".parse::<Mechanism>().is_ok();
    match (orders.rival.as_str(), has_shm) {
        ("nearcall-spin", true) => ("shm", "spin"),
        ("nearcall-spin", false) => ("shm-spin", "spin"),
        ("nearcall-adaptive", _) => ("shm", "adaptive"),
        (_, true) => ("shm", "block"),
        (_, false) => ("unix-stream", "block"),
    }
}

fn place(orders: &Orders) -> String {
    format!("unix:{}", orders.folder.join("nearcall").display())
}

fn serve(orders: &Orders) -> anyhow::Result<()> {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let service = RefCell::new(Service::new(orders.seed));
    server
        .register(PeerDispatcher::shared(Rc::new(Reader { service })))
        .map_err(|error| anyhow!("{error}"))?;
    // A server waits for all its connections in one place; asking for "block" means this too.
    let wait = match parameters(orders).1 {
        "block" => String::new(),
        wait => format!("?wait={wait}"),
    };
    server.listen(&format!("{}{wait}", place(orders))).map_err(|error| anyhow!("{error}"))?;
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

fn ask(orders: &Orders) -> anyhow::Result<()> {
    let (via, wait) = parameters(orders);
    let address = format!("{}?via={via}&wait={wait}", place(orders));
    let client = nearcall::Client::new();
    client.hunt(&address, CONNECT_TIMEOUT).map_err(|error| anyhow!("{error}"))?;
    let caller = PeerCaller::new(&client, &address).map_err(|error| anyhow!("{error}"))?;
    at_once(measure::measure(Calls { caller, argument: Argument::default() }, orders))
}

struct Calls {
    caller: PeerCaller,
    argument: Argument,
}

impl Calls {
    #[inline]
    fn fill(&mut self, payload: &Payload, number: u64) {
        self.argument.data.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.argument.data);
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if payload.message_bytes() == 0 {
            return Ok(self.caller.nothing(&())?);
        }
        self.fill(payload, number);
        if echo {
            return verify(payload, number, &self.caller.echo(&self.argument)?.data);
        }
        Ok(self.caller.take(&self.argument)?)
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.fill(payload, number);
        Ok(self.caller.note(&self.argument)?)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.caller.received(&())?.messages)
    }
}

/// The server listens already when the client starts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
