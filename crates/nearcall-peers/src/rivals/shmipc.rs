//! shmipc, the shared memory of CloudWeGo, by its streams; a message has its length in front.
//!
//! What is set beside eventfds: the shared memory has three sizes of slices, the largest for the
//! largest message of the launch, with room for its length and its last byte. So each message lies
//! in one slice, is written and read in place, and nothing goes over the socket instead.

use std::os::unix::net::SocketAddr;

use ::shmipc::buffer::{Buf, BufferReader};
use ::shmipc::config::{Config, ProtocolMode, SizePercentPair};
use ::shmipc::session::{SessionManager, SessionManagerConfig};
use ::shmipc::stream::Stream;
use ::shmipc::transport::{DefaultUnixConnect, DefaultUnixListen};
use ::shmipc::{Error, Listener};
use anyhow::Context;
use nearcall_bench::payload::Payload;

use crate::measure::{self, Client, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::{Answer, answer, ask as what, call_byte, runtime};
use crate::service::Service;

pub(crate) const ROW: Rival = Rival {
    name: "shmipc",
    version: concat!("shmipc ", env!("RIVAL_VERSION_SHMIPC")),
    waiting: Waiting::Sleeping,
    rate: "messages of the same stream, each flushed, a call after 1,024",
    about: include_str!("../../about/shmipc.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

fn address(launch: &LaunchRequest) -> std::io::Result<SocketAddr> {
    SocketAddr::from_pathname(launch.folder.join("shmipc"))
}

fn config(launch: &LaunchRequest) -> anyhow::Result<Config> {
    let largest = u32::try_from(launch.message_bytes_max)?.max(MEDIUM_BYTES) + SLACK_BYTES;
    let memory = largest.checked_mul(2 * LARGE_SLICES).context("messages are too large")?;
    let slices = |size, percent| SizePercentPair { size, percent };
    let mut config = Config::default().with_v4_eventfd();
    // Another protocol would be another measurement.
    config.protocol.mode = ProtocolMode::V4 { fallback: false };
    config.share_memory_buffer_cap = memory.max(MEMORY_BYTES_MIN);
    config.buffer_slice_sizes =
        vec![slices(SMALL_BYTES, 20), slices(MEDIUM_BYTES, 20), slices(largest, 60)];
    Ok(config)
}

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let config = config(launch)?;
        let mut listener = Listener::new(DefaultUnixListen, address(launch)?, config).await?;
        Line::Listening.write()?;
        let mut requests = listener.accept().await?;
        // The same stream: its replies are written while a request is read in place.
        let mut replies = requests.clone();
        let mut service = Service::new(launch.seed);
        loop {
            match take(&mut requests, &mut replies, &mut service).await {
                Ok(()) => {}
                Err(Error::EndOfStream | Error::StreamClosed) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    })
}

/// Serves one request.
async fn take(
    requests: &mut Stream,
    replies: &mut Stream,
    service: &mut Service,
) -> Result<(), Error> {
    let request = receive(requests).await?;
    match answer(service, &request) {
        Answer::Empty => {
            drop(request);
            // The request's slice carries the reply.
            replies.release_read_and_reuse();
            message(replies, 0)?;
        }
        Answer::Echo(bytes) => message(replies, bytes.len())?.copy_from_slice(bytes),
        Answer::Received(bytes) => message(replies, bytes.len())?.copy_from_slice(&bytes),
        Answer::None => return Ok(()),
    }
    replies.flush(false).await?;
    replies.recv_buf().release_previous_read();
    Ok(())
}

/// Room for a message of `bytes` in what is sent next, after its length.
#[inline]
fn message(stream: &mut Stream, bytes: usize) -> Result<&mut [u8], Error> {
    let room = stream.reserve(LENGTH_BYTES + bytes)?;
    let (length, room) = room.split_at_mut(LENGTH_BYTES);
    length.copy_from_slice(&(bytes as u64).to_le_bytes());
    Ok(room)
}

/// The next message, where it lies.
#[inline]
async fn receive(stream: &mut Stream) -> Result<Buf<'_>, Error> {
    let length = stream.read_exact_bytes(LENGTH_BYTES).await?;
    let length = length.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    stream.read_exact_bytes(usize::try_from(length).unwrap_or(usize::MAX)).await
}

fn ask(launch: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let config = SessionManagerConfig::new().with_config(config(launch)?);
        let session = SessionManager::new(config, DefaultUnixConnect, address(launch)?).await?;
        let stream = session.get_stream()?;
        measure::measure(Calls { stream, unconfirmed: 0 }, launch).await
    })
}

struct Calls {
    stream: Stream,
    /// Notes since the server was last heard of.
    unconfirmed: usize,
}

impl Calls {
    #[inline]
    async fn send(&mut self, payload: &Payload, number: u64, what: u8) -> anyhow::Result<()> {
        let room = message(&mut self.stream, payload.message_bytes() + 1)?;
        if let Some((last, data)) = room.split_last_mut() {
            *last = what;
            payload.fill(number, 0, data);
        }
        self.stream.flush(false).await?;
        anyhow::ensure!(!self.stream.fallback_state(), "the shared memory was exhausted");
        Ok(())
    }
}

impl Client for Calls {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.send(payload, number, call_byte(echo)).await?;
        let reply = receive(&mut self.stream).await?;
        if echo {
            verify(payload, number, &reply)?;
        }
        drop(reply);
        self.stream.release_read_and_reuse();
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.send(payload, number, what::NOTE).await?;
        self.unconfirmed += 1;
        if self.unconfirmed == NOTES {
            self.received().await?;
        }
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.send(&Payload::new(0, 0), 0, what::RECEIVED).await?;
        let reply = receive(&mut self.stream).await?;
        let count = *reply.first_chunk().context("not a number")?;
        drop(reply);
        self.stream.release_read_and_reuse();
        self.unconfirmed = 0;
        Ok(u64::from_le_bytes(count))
    }
}

/// In front of every message.
const LENGTH_BYTES: usize = 8;

/// Room for a message's length and last byte beside its payload, as in the library's benchmark.
const SLACK_BYTES: u32 = 256;

/// Slices for small messages, of which many are under way when they go one way. With its header of
/// 20 bytes, a slice fills 256.
const SMALL_BYTES: u32 = 236;

/// The smallest slices of the default configuration.
const MEDIUM_BYTES: u32 = 8172;

/// Slices of the largest size, at least. There are few, so that they stay in the cache; one of
/// them is never handed out.
const LARGE_SLICES: u32 = 4;

/// The shared memory has at least this size.
const MEMORY_BYTES_MIN: u32 = 8 << 20;

/// Notes under way: where the queue of 8,192 messages is full, the library sleeps for 10 ms, and
/// where the slices are used up, it goes over to the socket for good.
const NOTES: usize = 1024;
