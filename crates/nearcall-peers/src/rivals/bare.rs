//! No library: a unix stream socket, blocking reads and writes by hand.
//!
//! What is left of a row's time and memory above this one is the library's doing.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use nearcall_bench::payload::Payload;

use crate::measure::{Client, at_once, measure, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::{Answer, answer, ask, call_byte};
use crate::service::Service;

pub(crate) const ROW: Rival = Rival {
    name: "bare-unix",
    version: "none",
    waiting: Waiting::Sleeping,
    rate: "messages, 64 KiB per write",
    about: include_str!("../../about/bare.txt"),
    missing: None,
    serve,
    ask: connect,
    clean: || (),
};

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    let listener = UnixListener::bind(launch.folder.join("bare"))?;
    Line::Listening.write()?;
    let (mut stream, _) = listener.accept()?;
    let mut service = Service::new(launch.seed);
    // Read in large portions, as a stream of small messages comes in.
    let mut buffer = vec![0; READ_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::new();
    loop {
        while let Some(request) = frame(&buffer[start..end]) {
            let length = request.len();
            out.clear();
            out.extend([0; LENGTH_BYTES]);
            match answer(&mut service, request) {
                Answer::Empty => {}
                Answer::Echo(bytes) => out.extend(bytes),
                Answer::Received(bytes) => out.extend(bytes),
                Answer::None => out.clear(),
            }
            if let Some(reply_bytes) = out.len().checked_sub(LENGTH_BYTES) {
                out[..LENGTH_BYTES].copy_from_slice(&(reply_bytes as u64).to_le_bytes());
                stream.write_all(&out)?;
            }
            start += LENGTH_BYTES + length;
        }
        if start > 0 {
            buffer.copy_within(start..end, 0);
            (start, end) = (0, end - start);
        }
        let wanted = wanted(&buffer[..end]).max(READ_BYTES);
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        match stream.read(&mut buffer[end..])? {
            0 => return Ok(()),
            read => end += read,
        }
    }
}

/// How many bytes the message at the start of `bytes` needs, as far as that is known.
fn wanted(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(usize::MAX).saturating_add(LENGTH_BYTES)
}

/// The whole message at the start of `bytes`, without its length.
fn frame(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..LENGTH_BYTES)?;
    bytes.get(LENGTH_BYTES..wanted(bytes))
}

fn connect(launch: &LaunchRequest) -> anyhow::Result<()> {
    let stream = UnixStream::connect(launch.folder.join("bare"))?;
    let buffers = Vec::with_capacity(launch.message_bytes_max + 2 * LENGTH_BYTES);
    at_once(measure(Socket { stream, out: buffers.clone(), reply: buffers }, launch))
}

struct Socket {
    stream: UnixStream,
    out: Vec<u8>,
    reply: Vec<u8>,
}

impl Socket {
    /// Appends a request.
    #[inline]
    fn request(&mut self, payload: &Payload, number: u64, what: u8) {
        let bytes = payload.message_bytes();
        self.out.extend_from_slice(&(bytes as u64 + 1).to_le_bytes());
        let start = self.out.len();
        self.out.resize(start + bytes + 1, what);
        payload.fill(number, 0, &mut self.out[start..start + bytes]);
    }

    #[inline]
    fn send(&mut self) -> std::io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn read_reply(&mut self, expected: usize) -> anyhow::Result<()> {
        self.reply.resize(LENGTH_BYTES + expected, 0);
        self.stream.read_exact(&mut self.reply)?;
        anyhow::ensure!(wanted(&self.reply) == self.reply.len(), "a reply of another size");
        Ok(())
    }
}

impl Client for Socket {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.request(payload, number, call_byte(echo));
        self.send()?;
        let expected = if echo { payload.message_bytes() } else { 0 };
        self.read_reply(expected)?;
        if echo {
            verify(payload, number, &self.reply[LENGTH_BYTES..])?;
        }
        Ok(())
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.request(payload, number, ask::NOTE);
        if self.out.len() >= READ_BYTES {
            self.send()?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.send()?)
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.request(&Payload::new(0, 0), 0, ask::RECEIVED);
        self.send()?;
        self.read_reply(8)?;
        let bytes = self.reply.last_chunk().copied().unwrap_or_default();
        Ok(u64::from_le_bytes(bytes))
    }
}

/// In front of every message.
const LENGTH_BYTES: usize = 8;

/// What one read takes, and from when on small messages are written.
const READ_BYTES: usize = 64 << 10;
