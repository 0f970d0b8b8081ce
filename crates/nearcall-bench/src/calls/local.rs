//! Calls within one process: by the short circuits, and over a mechanism within one loop.
//!
//! The other process of the launch only waits. Not here: calls to another process (`peer.rs`).

use std::hint::black_box;
use std::sync::Arc;

use nearcall::{Client, EventLoop, Server};
use nearcall_channel::{Address, Deadline, Listener, Mechanism, connect};

use crate::calls::end::{BothEnds, CallEnd, rewrite};
use crate::calls::generated::BenchCaller;
use crate::calls::meet::{bare_options, calls_address, expect_all, server_address};
use crate::calls::route::Route;
use crate::calls::service::FakeService;
use crate::calls::{generated, generated_again};
use crate::cell::Subject;
use crate::exchange::Failure;
use crate::exchange::channel::ChannelEnd;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::opened;
use crate::floor::alone;
use crate::floor::meeting::MEET_TIMEOUT;
use crate::launch::LaunchRequest;

/// A server and a client in one loop.
struct OneLoop {
    service: Arc<FakeService>,
    client: Client,
    address: String,
    // The rest only has to live.
    _server: Server,
    _event_loop: EventLoop,
}

impl OneLoop {
    fn new(listen_at: &str, address: String, short: bool) -> Result<Self, Failure> {
        let event_loop = EventLoop::new()?;
        let server = Server::new(&event_loop);
        let service = FakeService::listen(&server, listen_at)?;
        let client = Client::in_loop(&event_loop);
        let client = if short { client } else { client.without_short_circuit() };
        Ok(Self { service, client, address, _server: server, _event_loop: event_loop })
    }
}

/// Measures calls to an object of the same thread, of the same build or of another.
pub(super) struct ShortCircuit {
    one_loop: OneLoop,
    typed: bool,
}

impl ShortCircuit {
    pub(super) fn new(request: &LaunchRequest, typed: bool) -> Result<Self, Failure> {
        let at = format!("inproc:{}", request.meet_at);
        Ok(Self { one_loop: OneLoop::new(&at, at.clone(), true)?, typed })
    }

    pub(super) fn measure(&self, job: &Job) -> Result<Measured, Failure> {
        let (client, address) = (&self.one_loop.client, &self.one_loop.address);
        // Of the build of the service, or of another with the same text.
        macro_rules! by {
            ($build:ident) => {{
                let caller = $build::BenchCaller::new(client, address).map_err(Failure::other)?;
                let mut argument = $build::Argument { data: vec![0; job.cell.bytes()].into() };
                let nothing = || Ok(black_box(&caller).nothing(&())?);
                let take = |fill: &dyn Fn(&mut [u8])| {
                    rewrite(&mut argument.data, fill);
                    Ok(black_box(&caller).take(&argument)?)
                };
                self.batches(job, nothing, take)
            }};
        }
        if self.typed { by!(generated) } else { by!(generated_again) }
    }

    fn batches(
        &self,
        job: &Job,
        nothing: impl Fn() -> Result<(), Failure>,
        mut take: impl FnMut(&dyn Fn(&mut [u8])) -> Result<(), Failure>,
    ) -> Result<Measured, Failure> {
        let service = &self.one_loop.service;
        service.begin(job.seed, job.cell.bytes());
        if job.cell.message_bytes == 0 {
            let batch = || (0..CALLS_PER_SAMPLE).try_for_each(|_| nothing());
            return alone::measure(job, CALLS_PER_SAMPLE, batch);
        }
        let (payload, mut number) = (job.payload(), 0);
        let batch_bytes = if job.cell.conditions.exchanges > 0 { FEW_BYTES } else { BATCH_BYTES };
        let calls = (batch_bytes / job.cell.message_bytes).clamp(1, CALLS_PER_SAMPLE);
        let batch = || {
            (0..calls).try_for_each(|_| {
                take(&|data| payload.fill(number, 0, data))?;
                number += 1;
                Ok(())
            })
        };
        alone::measure(job, calls, batch)
    }
}

/// Measures calls from a loop to itself, and the bare exchange of a thread with itself.
pub(super) struct SameLoop {
    one_loop: OneLoop,
    caller: BenchCaller,
    bare: Option<[ChannelEnd; 2]>,
}

impl SameLoop {
    pub(super) fn new(request: &LaunchRequest, mechanism: Mechanism) -> Result<Self, Failure> {
        let listen_at = server_address(request);
        let address = calls_address(request, Route::SameLoop(mechanism));
        let one_loop = OneLoop::new(&listen_at, address, false)?;
        let caller = BenchCaller::new(&one_loop.client, &one_loop.address);
        let caller = caller.map_err(Failure::other)?;
        let bare = Some(both_ends(request, mechanism)?);
        Ok(Self { one_loop, caller, bare })
    }

    pub(super) fn measure(&mut self, job: &Job) -> Result<Measured, Failure> {
        if let Subject::Bare(_) = job.cell.subject {
            return self.measure_bare(job);
        }
        self.one_loop.service.begin(job.seed, job.cell.bytes());
        let measured = opened::ask(&mut CallEnd::new(&self.caller, &job.cell), job, 0)?;
        let received = self.one_loop.service.report()?.received;
        expect_all(&job.cell, measured.messages, received)?;
        Ok(measured)
    }

    fn measure_bare(&mut self, job: &Job) -> Result<Measured, Failure> {
        let (requests, replies) = (job.payload(), job.cell.replies(job.seed));
        let ends = self.bare.take().ok_or_else(|| Failure::other("the bare channel failed"))?;
        let mut both = BothEnds::new(ends, &requests, &replies);
        let measured = opened::ask(&mut both, job, 0)?;
        self.bare = Some(both.into_ends());
        Ok(measured)
    }
}

/// A channel of this thread with itself. The meeting needs two threads, for a moment.
fn both_ends(request: &LaunchRequest, mechanism: Mechanism) -> Result<[ChannelEnd; 2], Failure> {
    let address = Address::Abstract(format!("{}-both", request.meet_at));
    let listener = Listener::bind(&address)?;
    let options = bare_options(request.wait);
    let (client, server) = std::thread::scope(|scope| {
        let server = scope.spawn(|| listener.accept(Deadline::after(MEET_TIMEOUT), &options));
        let client = connect(&address, mechanism, &options);
        (client, server.join())
    });
    let server = server.map_err(|_| Failure::other("the meeting failed"))?;
    Ok([ChannelEnd::new(client?)?, ChannelEnd::new(server?)?])
}

/// A short circuit takes some ten nanoseconds: a thousand are far above ten steps of any clock.
const CALLS_PER_SAMPLE: u64 = 1_000;

/// A sample of calls with arguments moves about this much.
const BATCH_BYTES: u64 = 256 << 10;

/// Where the calls are counted, so that one of a few kilobytes still is far above the clock's steps
/// and larger ones are timed one by one.
const FEW_BYTES: u64 = 16 << 10;
