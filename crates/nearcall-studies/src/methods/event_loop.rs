//! Payload in a segment, and its place as the argument of a call of nearcall's runtime.
//!
//! The client calls through a generated caller over a unix stream socket and blocks; the server has
//! nearcall's event loop and a generated dispatcher, and its service copies the argument out before
//! it replies. So the study's own set-up is measured on the real thing.
//! Not here: the segment (`segment.rs`), calls that carry their argument (`nearcall-bench`).

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::sync::Arc;

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::stream::ItemReceiver;
use nearcall::{Bytes, Client, Context, Deadline, EventLoop, Server, Status};
use nearcall_bench::calls::generated::{Argument, Bench, BenchCaller, BenchDispatcher};
use nearcall_bench::calls::service::FakeService;
use nearcall_bench::custom::{
    End, EndReport, Failure, Job, LaunchRequest, MEET_TIMEOUT, Measured, Meeting, Opened,
    OpenedEnd, Role, ask,
};
use nearcall_bench::payload::Payload;
use nearcall_os::{clock, process};

use crate::cell::CellSpec;
use crate::methods::notice::Notice;
use crate::methods::segment::Segment;

/// Opens the end that calls, or the one that serves.
pub(super) fn open_end<'a>(meeting: &'a Meeting, role: Role, cell: &CellSpec) -> OpenedEnd<'a> {
    match role {
        Role::Client => Ok(Box::new(CallerEnd::open(meeting, cell.bytes())?)),
        Role::Server => Ok(Box::new(ServerEnd::open(meeting, cell.bytes())?)),
    }
}

/// The client as the measured loops use it: to send is to call.
struct CallerEnd<'a> {
    meeting: &'a Meeting,
    caller: BenchCaller,
    _client: Client,
    segment: Segment,
    /// Private memory in which arguments are made.
    argument: Vec<u8>,
}

impl<'a> CallerEnd<'a> {
    fn open(meeting: &'a Meeting, bytes: usize) -> Result<Self, Failure> {
        let address = format!("{}?via=unix-stream", meeting.hear()?);
        let segment = Segment::meet(meeting, Role::Client, bytes)?;
        let client = Client::new();
        client.hunt(&address, MEET_TIMEOUT).map_err(Failure::other)?;
        let caller = BenchCaller::new(&client, &address).map_err(Failure::other)?;
        Ok(Self { meeting, caller, _client: client, segment, argument: vec![0; bytes] })
    }
}

impl Opened for CallerEnd<'_> {
    fn ask(&mut self, job: &Job) -> Result<Measured, Failure> {
        // A call has ended before the next one begins: nothing is buffered.
        let measured = ask(self, job, 0)?;
        self.meeting.say(REPORT)?;
        Ok(measured)
    }
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

/// The end that serves.
struct ServerEnd<'a> {
    meeting: &'a Meeting,
    event_loop: EventLoop,
    service: Arc<Service>,
    _server: Server,
}

impl<'a> ServerEnd<'a> {
    fn open(meeting: &'a Meeting, bytes: usize) -> Result<Self, Failure> {
        let (pid, ns) = (process::pid(), clock::monotonic_ns());
        let address = format!("unix:@nearcall-study-calls-{pid}-{ns:x}");
        let event_loop = EventLoop::new()?;
        let server = Server::new(&event_loop);
        server.listen(&address).map_err(Failure::other)?;
        meeting.say(&address)?;
        let segment = Segment::meet(meeting, Role::Server, bytes)?;
        let (reader, argument) = (FakeService::default(), RefCell::new(vec![0; bytes]));
        let dispatcher = BenchDispatcher::new(Service { reader, segment, argument });
        let service = Arc::clone(dispatcher.service());
        server.register(dispatcher).map_err(Failure::other)?;
        event_loop.add_descriptor(meeting.as_fd(), Interest::Readable)?;
        Ok(Self { meeting, event_loop, service, _server: server })
    }
}

impl Opened for ServerEnd<'_> {
    fn serve(&mut self, cell: &CellSpec, launch: &LaunchRequest) -> Result<EndReport, Failure> {
        self.service.reader.begin(launch.seed(), cell.bytes());
        loop {
            if let Some(Event::Descriptor(..)) = self.event_loop.next(Deadline::NEVER)? {
                return match self.meeting.hear()?.as_str() {
                    REPORT => self.service.reader.report(),
                    text => Err(Failure::other(format!("the client sent {text:?}"))),
                };
            }
        }
    }
}

/// What all calls go to.
struct Service {
    /// Judges arguments and counts them.
    reader: FakeService,
    segment: Segment,
    /// Private memory that arguments are copied to.
    argument: RefCell<Vec<u8>>,
}

impl Bench for Service {
    #[inline]
    fn take(&self, _context: &Context<'_>, request: &Argument) -> Result<(), Status> {
        let notice = <[u8; Notice::BYTES]>::try_from(&*request.data);
        let notice = notice.map_err(|_| Status::invalid_argument("this is no place"))?;
        let mut argument = self.argument.borrow_mut();
        let read = self.segment.read(Notice::from_bytes(notice).argument(), &mut argument);
        read.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.reader.read(&argument).map_err(Status::data_loss)
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

/// The client has measured and wants to know what the server has counted.
const REPORT: &str = "report";
