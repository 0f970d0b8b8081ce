//! Payload in a segment, and its place as the argument of a call of nearcall's runtime.
//!
//! The client calls through a generated caller over a unix stream socket and blocks; the server has
//! nearcall's event loop and a generated dispatcher, and its service copies the argument out before
//! it replies. So the study's own set-up is measured on the real thing.
//! Not here: the segment (`segment.rs`), calls that carry their argument (`calls/peer.rs`).

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::sync::Arc;

use nearcall::event_loop::Interest;
use nearcall::{Bytes, Client, Context, Event, EventLoop, ItemReceiver, Server, Status};
use nearcall_channel::Deadline;
use nearcall_os::clock;

use crate::calls::generated::{Argument, Bench, BenchCaller, BenchDispatcher};
use crate::calls::service::FakeService;
use crate::cell::CellSpec;
use crate::exchange::{End, Failure};
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::launch::{Orders, Role, WorkerMessage};
use crate::methods::handover::Notice;
use crate::methods::segment::Segment;
use crate::payload::Payload;
use crate::peer::{self, GOODBYE, READY};

/// The end that calls.
pub(crate) fn client(orders: &Orders) -> Result<(), Failure> {
    let meeting = Meeting::connect(&orders.meet_at)?;
    if meeting.hear()? != READY {
        return Err(Failure::other("the server does not listen"));
    }
    let client = Client::new();
    let address = address(orders);
    let begin_ns = clock::monotonic_ns();
    client.hunt(&address, MEET_TIMEOUT)?;
    let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let caller = BenchCaller::new(&client, &address).map_err(Failure::other)?;
    peer::write(&peer::connected(orders, Some(set_up_ns), Vec::new()))?;
    for &cell in &orders.cells {
        meeting.say(&serde_json::to_string(&cell)?)?;
        let segment = Segment::meet(&meeting, Role::Client, cell.bytes())?;
        let argument = vec![0; cell.bytes()];
        let mut end = CallerEnd { caller: &caller, segment: &segment, argument };
        // A call has ended before the next one begins: nothing is buffered.
        let mut measured = peer::ask(&mut end, &peer::job(orders, cell), 0)?;
        meeting.say(REPORT)?;
        peer::add_server(&mut measured, &meeting.hear()?)?;
        peer::write(&WorkerMessage::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    meeting.say(GOODBYE)
}

/// The end that serves.
pub(crate) fn server(orders: &Orders) -> Result<(), Failure> {
    let meeting = Meeting::accept(&orders.meet_at, || peer::write(&WorkerMessage::Ready))?;
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let service = Service { reader: FakeService::new(), lent: RefCell::default() };
    let dispatcher = BenchDispatcher::new(service);
    let service = Arc::clone(dispatcher.service());
    server.register(dispatcher).map_err(Failure::other)?;
    server.listen(&format!("unix:@{}-calls", orders.meet_at)).map_err(Failure::other)?;
    event_loop.add_descriptor(meeting.as_fd(), Interest::Readable)?;
    meeting.say(READY)?;
    loop {
        match event_loop.next(Deadline::NEVER)? {
            Some(Event::Descriptor(..)) if obey(orders, &meeting, &service)? => return Ok(()),
            _ => {}
        }
    }
}

/// Does what the client says next. True: there is nothing more.
fn obey(orders: &Orders, meeting: &Meeting, service: &Service) -> Result<bool, Failure> {
    match meeting.hear()?.as_str() {
        GOODBYE => return Ok(true),
        REPORT => meeting.say(&serde_json::to_string(&service.reader.report()?)?)?,
        text => {
            peer::misbehave(orders.fault)?;
            let cell: CellSpec = serde_json::from_str(text)?;
            service.reader.begin(orders.seed, cell.bytes());
            let segment = Segment::meet(meeting, Role::Server, cell.bytes())?;
            let argument = vec![0; cell.bytes()];
            *service.lent.borrow_mut() = Some(Lent { segment, argument });
        }
    }
    Ok(false)
}

fn address(orders: &Orders) -> String {
    format!("unix:@{}-calls?via=unix-stream", orders.meet_at)
}

/// The client as the measured loops use it: to send is to call.
struct CallerEnd<'a> {
    caller: &'a BenchCaller,
    segment: &'a Segment,
    /// Private memory in which arguments are made.
    argument: Vec<u8>,
}

impl End for CallerEnd<'_> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        payload.fill(number, 0, &mut self.argument);
        let handle = self.segment.allocate(self.argument.len())?;
        self.segment.write(handle, &self.argument)?;
        let place = Bytes::copy_from_slice(&Notice::take(handle).to_bytes());
        self.caller.take(&Argument { data: place })?;
        Ok(self.segment.free(handle)?)
    }

    fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
        self.caller.mark(&())?;
        Ok(false)
    }
}

/// What all calls go to.
struct Service {
    /// Judges arguments and counts them.
    reader: FakeService,
    lent: RefCell<Option<Lent>>,
}

/// What a cell's arguments come from, and private memory that they are copied to.
struct Lent {
    segment: Segment,
    argument: Vec<u8>,
}

impl Bench for Service {
    #[inline]
    fn take(&self, _context: &Context<'_>, request: &Argument) -> Result<(), Status> {
        let mut lent = self.lent.borrow_mut();
        let lent = lent.as_mut().ok_or_else(|| Status::failed_precondition("no cell has begun"))?;
        let notice = <[u8; Notice::BYTES]>::try_from(&*request.data);
        let notice = notice.map_err(|_| Status::invalid_argument("this is no place"))?;
        let read = lent.segment.read(Notice::from_bytes(notice).argument(), &mut lent.argument);
        read.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.reader.read(&lent.argument).map_err(Status::data_loss)
    }

    fn mark(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.reader.take_mark().map_err(|failure| Status::internal(failure.text))
    }

    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Err(not_of_this_study())
    }

    fn pass(&self, _context: &Context<'_>, _request: &Argument) -> Result<(), Status> {
        Err(not_of_this_study())
    }

    fn note(&self, _context: &Context<'_>, _request: &Argument) {}

    fn upload(&self, _context: &Context<'_>, _items: ItemReceiver<Argument>) -> Result<(), Status> {
        Err(not_of_this_study())
    }
}

#[cold]
fn not_of_this_study() -> Status {
    Status::unimplemented("this server only reads arguments out of a segment")
}

/// The client wants to know what the server has counted.
const REPORT: &str = "report";
