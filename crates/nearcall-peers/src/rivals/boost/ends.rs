//! Both ends of Boost's message queues: one for requests, one for replies, one for notes.

use anyhow::Context;
use nearcall_bench::payload::Payload;

use crate::measure::{self, Client, at_once, verify};
use crate::request::{LaunchRequest, Line};
use crate::rivals::{Answer, answer, ask as what, call_byte};
use crate::service::Service;
use crate::shim::boost::Queue;

struct Queues {
    requests: Queue,
    replies: Queue,
    notes: Queue,
}

impl Queues {
    fn new(
        launch: &LaunchRequest,
        open: impl Fn(&str, usize, usize) -> anyhow::Result<Queue>,
    ) -> anyhow::Result<Self> {
        let queue =
            |end: &str, messages, bytes| open(&format!("{}-{end}", launch.name), messages, bytes);
        let bytes_max = room_bytes(launch);
        Ok(Self {
            requests: queue("requests", CALLS, bytes_max)?,
            replies: queue("replies", CALLS, bytes_max)?,
            notes: queue("notes", NOTES, NOTE_BYTES)?,
        })
    }
}

fn room_bytes(launch: &LaunchRequest) -> usize {
    launch.message_bytes_max.max(NOTE_BYTES) + 1
}

pub(super) fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    let queues = Queues::new(launch, Queue::create)?;
    Line::Listening.write()?;
    let mut service = Service::new(launch.seed);
    let mut room = vec![0; room_bytes(launch)];
    loop {
        let request = queues.requests.receive(&mut room)?;
        if request == [what::NOTE] {
            // From now on notes come, until an empty one.
            let mut note = [0; NOTE_BYTES];
            while let [_, ..] = queues.notes.receive(&mut note)? {
                service.take(&note);
            }
            continue;
        }
        match answer(&mut service, request) {
            Answer::Empty | Answer::None => queues.replies.send(&[])?,
            Answer::Echo(bytes) => queues.replies.send(bytes)?,
            Answer::Received(bytes) => queues.replies.send(&bytes)?,
        }
    }
}

pub(super) fn ask(launch: &LaunchRequest) -> anyhow::Result<()> {
    let queues = Queues::new(launch, |name, _, _| Queue::open(name))?;
    let buffer = vec![0; room_bytes(launch)];
    let calls = Calls { queues, request: buffer.clone(), reply: buffer, streaming: false };
    at_once(measure::measure(calls, launch))
}

struct Calls {
    queues: Queues,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// The server reads notes.
    streaming: bool,
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let bytes = payload.message_bytes();
        payload.fill(number, 0, &mut self.request[..bytes]);
        self.request[bytes] = call_byte(echo);
        self.queues.requests.send(&self.request[..=bytes])?;
        let reply = self.queues.replies.receive(&mut self.reply)?;
        if echo { verify(payload, number, reply) } else { Ok(()) }
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if !self.streaming {
            self.queues.requests.send(&[what::NOTE])?;
            self.streaming = true;
        }
        let mut note = [0; NOTE_BYTES];
        payload.fill(number, 0, &mut note);
        self.queues.notes.send(&note)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        self.streaming = false;
        self.queues.notes.send(&[])
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.queues.requests.send(&[what::RECEIVED])?;
        let reply = self.queues.replies.receive(&mut self.reply)?;
        Ok(u64::from_le_bytes(*reply.first_chunk().context("not a number")?))
    }
}

/// Places for requests, and for replies: there is one at a time.
const CALLS: usize = 2;

/// Places for notes.
const NOTES: usize = 1024;

/// The size of the rate's messages.
const NOTE_BYTES: usize = 8;
