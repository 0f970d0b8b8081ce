//! nng (nanomsg's successor), over its ipc transport.

use ::nng::options::{Options, RecvBufferSize, RecvMaxSize, SendBufferSize};
use ::nng::{Message, Protocol, Socket};
use anyhow::{Context, anyhow};
use nearcall_bench::payload::Payload;

use crate::launch::{Line, Orders};
use crate::measure::{self, Client, at_once, verify};
use crate::rival::{Rival, Waiting};
use crate::rivals::{Answer, answer, ask, call_byte};
use crate::service::Service;

pub(crate) const ROW: Rival = Rival {
    name: "nng",
    version: concat!("nng-sys ", env!("RIVAL_VERSION_NNG_SYS")),
    waiting: Waiting::Sleeping,
    rate: "messages of the same socket",
    about: include_str!("../../about/nng.txt"),
    missing: None,
    serve,
    ask: connect,
    clean: || (),
};

fn socket() -> anyhow::Result<Socket> {
    let socket = Socket::new(Protocol::Pair0)?;
    socket.set_opt::<RecvMaxSize>(0)?;
    socket.set_opt::<SendBufferSize>(BUFFER_MESSAGES)?;
    socket.set_opt::<RecvBufferSize>(BUFFER_MESSAGES)?;
    Ok(socket)
}

fn address(orders: &Orders) -> String {
    format!("ipc://{}", orders.folder.join("nng").display())
}

fn serve(orders: &Orders) -> anyhow::Result<()> {
    let socket = socket()?;
    socket.listen(&address(orders))?;
    Line::Listening.write()?;
    let mut service = Service::new(orders.seed);
    loop {
        let mut request = socket.recv()?;
        let bytes = match answer(&mut service, &request) {
            Answer::Empty => 0,
            Answer::Echo(bytes) => bytes.len(),
            Answer::Received(count) => {
                send(&socket, Message::from(&count[..]))?;
                continue;
            }
            Answer::None => continue,
        };
        // The request's own buffer goes back.
        request.truncate(bytes);
        send(&socket, request)?;
    }
}

fn send(socket: &Socket, message: Message) -> anyhow::Result<()> {
    socket.send(message).map_err(|(_, error)| anyhow!("cannot send: {error}"))
}

fn connect(orders: &Orders) -> anyhow::Result<()> {
    let socket = socket()?;
    socket.dial(&address(orders))?;
    at_once(measure::measure(Calls { socket, spare: None }, orders))
}

struct Calls {
    socket: Socket,
    /// The last reply, whose buffer the next request takes.
    spare: Option<Message>,
}

impl Calls {
    #[inline]
    fn request(&mut self, payload: &Payload, number: u64, what: u8) -> anyhow::Result<()> {
        let mut request = self.spare.take().unwrap_or_default();
        request.clear();
        payload.parts(number, |part| request.push_back(part));
        request.push_back(&[what]);
        send(&self.socket, request)
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.request(payload, number, call_byte(echo))?;
        let reply = self.socket.recv()?;
        if echo {
            verify(payload, number, &reply)?;
        }
        self.spare = Some(reply);
        Ok(())
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.request(payload, number, ask::NOTE)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.request(&Payload::new(0, 0), 0, ask::RECEIVED)?;
        let reply = self.socket.recv()?;
        Ok(u64::from_le_bytes(*reply.first_chunk().context("not a number")?))
    }
}

/// Messages that wait in the library, so that a sender does not wait for each.
const BUFFER_MESSAGES: i32 = 1024;
