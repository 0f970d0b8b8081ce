//! ZeroMQ by libzmq, over its ipc transport.

use anyhow::Context;
use nearcall_bench::payload::Payload;
use zmq::Socket;

use crate::measure::{self, Client, at_once, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::{Answer, answer, ask, call_byte};
use crate::service::Service;

pub(crate) const ROW: Rival = Rival {
    name: "zeromq",
    version: concat!("libzmq ", env!("RIVAL_VERSION_ZEROMQ_SRC")),
    waiting: Waiting::Sleeping,
    rate: "messages of the same socket",
    about: include_str!("../../about/zeromq.txt"),
    missing: None,
    serve,
    ask: connect,
    clean: || (),
};

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::DEALER)?;
    socket.bind(&address(launch))?;
    Line::Listening.write()?;
    let mut service = Service::new(launch.seed);
    let mut request = zmq::Message::new();
    loop {
        socket.recv(&mut request, 0)?;
        match answer(&mut service, &request) {
            Answer::Empty => socket.send(zmq::Message::new(), 0)?,
            Answer::Echo(bytes) => socket.send(bytes, 0)?,
            Answer::Received(bytes) => socket.send(&bytes[..], 0)?,
            Answer::None => {}
        }
    }
}

fn address(launch: &LaunchRequest) -> String {
    format!("ipc://{}", launch.folder.join("zeromq").display())
}

fn connect(launch: &LaunchRequest) -> anyhow::Result<()> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::DEALER)?;
    socket.connect(&address(launch))?;
    at_once(measure::measure(Calls { socket, reply: zmq::Message::new() }, launch))
}

struct Calls {
    socket: Socket,
    reply: zmq::Message,
}

impl Calls {
    /// Hands a new buffer over, which the library sends as it is and frees.
    #[inline]
    fn send(&self, payload: &Payload, number: u64, what: u8) -> anyhow::Result<()> {
        let mut request = Vec::with_capacity(payload.message_bytes() + 1);
        payload.parts(number, |part| request.extend_from_slice(part));
        request.push(what);
        self.socket.send(request, 0).context("cannot send")
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.send(payload, number, call_byte(echo))?;
        self.socket.recv(&mut self.reply, 0)?;
        if echo { verify(payload, number, &self.reply) } else { Ok(()) }
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.send(payload, number, ask::NOTE)
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.send(&Payload::new(0, 0), 0, ask::RECEIVED)?;
        self.socket.recv(&mut self.reply, 0)?;
        let bytes = self.reply.first_chunk().context("not a number")?;
        Ok(u64::from_le_bytes(*bytes))
    }
}
