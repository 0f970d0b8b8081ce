//! The client's loops, the same for every rival.
//!
//! They are async so that a client of an async library is awaited inside its own runtime, without
//! entering it once per call; a blocking client is always ready at once ([`at_once`]). Between the
//! stamps of a round trip lie: writing the payload, the call, and reading the reply.

use std::collections::HashMap;
use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::bail;
use nearcall_bench::TimestampSource;
use nearcall_bench::payload::{Payload, Verifier};
use nearcall_bench::warmup::{Warmup, WarmupRule, WarmupState};
use nearcall_os::{clock, counters};
use nearcall_results::histogram::Histogram;

use crate::request::{Cell, Kind, LaunchRequest, Line, Measured};

/// A connected client of one rival.
pub(crate) trait Client {
    /// Calls with message `number` of `payload`, every byte of it written, and waits for the reply.
    /// For an echo, the reply is verified with [`verify`]. Empty messages are empty calls.
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()>;

    /// Sends message `number` one way, or begins a call and does not wait for its end.
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()>;

    /// Sends what still waits to be sent, and ends what [`Client::note`] has begun.
    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Asks the server how many messages it has had, of all kinds.
    async fn received(&mut self) -> anyhow::Result<u64>;
}

/// Runs what a blocking client does. It never waits for anything but system calls.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a blocking client does not wait"),
    }
}

/// Reads a reply that should be message `number`.
pub(crate) fn verify(payload: &Payload, number: u64, reply: &[u8]) -> anyhow::Result<()> {
    Ok(Verifier::new(payload, number).whole(reply)?)
}

/// Measures all cells and says what was found, line by line.
pub(crate) async fn measure<C: Client>(
    mut client: C,
    request: &LaunchRequest,
) -> anyhow::Result<()> {
    let mut asking = Asking {
        client: &mut client,
        request,
        stamps: TimestampSource::new(request.tsc),
        next: HashMap::new(),
        sent: 0,
    };
    for &cell in &request.cells {
        let payload = Payload::new(request.seed, cell.bytes);
        let measured = match cell.kind {
            Kind::Sink | Kind::Echo => asking.latency(cell, &payload).await?,
            Kind::Rate => asking.rate(&payload).await?,
        };
        Line::Cell { cell, measured: Box::new(measured) }.write()?;
    }
    if request.stay {
        Line::Quiet.write()?;
        // Blocks the whole client, which has nothing to do.
        std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    }
    Line::Done.write()
}

/// A measurement under way.
struct Asking<'a, C> {
    client: &'a mut C,
    request: &'a LaunchRequest,
    stamps: TimestampSource,
    /// Per size, the number of the next message.
    next: HashMap<usize, u64>,
    /// Messages of all sizes.
    sent: u64,
}

impl<C: Client> Asking<'_, C> {
    async fn latency(&mut self, cell: Cell, payload: &Payload) -> anyhow::Result<Measured> {
        let (echo, budget_ns) = (cell.kind == Kind::Echo, self.request.cell_ns);
        let mut number = self.next.get(&cell.bytes).copied().unwrap_or(0);
        let first = number;
        let mut times = Histogram::new();
        let mut warmup = Warmup::new(self.warmup_rule());
        let mut state = WarmupState::Warming;
        while state == WarmupState::Warming {
            state = warmup.push(self.timed_ns(echo, payload, number).await?);
            number += 1;
        }
        let cpu = Cpu::read(self.request.server_pid)?;
        let begin = self.stamps.start();
        let (mut spent_ns, mut messages) = (0, 0);
        while messages < MESSAGES_MIN || spent_ns < budget_ns - budget_ns / WARMUP_SHARE {
            let ns = self.timed_ns(echo, payload, number).await?;
            times.record(ns);
            number += 1;
            messages += 1;
            spent_ns += ns;
        }
        let elapsed_ns = self.stamps.since_ns(begin);
        let [client_cpu_ns, server_cpu_ns] = cpu.since()?;
        self.next.insert(cell.bytes, number);
        self.sent += number - first;
        Ok(Measured {
            messages,
            elapsed_ns,
            median_ns: times.median_ns(),
            p99_ns: times.quantile_ns(0.99),
            client_cpu_ns,
            server_cpu_ns,
            still_warming: state == WarmupState::Capped,
        })
    }

    fn warmup_rule(&self) -> WarmupRule {
        let defaults = WarmupRule::default();
        let duration_ns_max = (self.request.cell_ns / WARMUP_SHARE).min(defaults.duration_ns_max);
        WarmupRule { duration_ns_max, ..defaults }
    }

    /// One round trip. Nothing else lies between the stamps.
    #[inline]
    async fn timed_ns(
        &mut self,
        echo: bool,
        payload: &Payload,
        number: u64,
    ) -> anyhow::Result<u64> {
        let start = self.stamps.start();
        self.client.call(echo, payload, number).await?;
        Ok(self.stamps.since_ns(start))
    }

    async fn rate(&mut self, payload: &Payload) -> anyhow::Result<Measured> {
        let budget_ns = self.request.cell_ns;
        self.stream(payload, budget_ns / WARMUP_SHARE).await?;
        let cpu = Cpu::read(self.request.server_pid)?;
        let begin = self.stamps.start();
        let messages = self.stream(payload, budget_ns - budget_ns / WARMUP_SHARE).await?;
        let elapsed_ns = self.stamps.since_ns(begin);
        let [client_cpu_ns, server_cpu_ns] = cpu.since()?;
        Ok(Measured { messages, elapsed_ns, client_cpu_ns, server_cpu_ns, ..Measured::default() })
    }

    /// Sends for `budget_ns`, and returns when the server has had everything.
    async fn stream(&mut self, payload: &Payload, budget_ns: u64) -> anyhow::Result<u64> {
        let bytes = payload.message_bytes();
        let first = self.next.get(&bytes).copied().unwrap_or(0);
        let mut number = first;
        let begin = self.stamps.start();
        while self.stamps.since_ns(begin) < budget_ns {
            for _ in 0..BURST_MESSAGES {
                self.client.note(payload, number).await?;
                number += 1;
            }
        }
        self.client.flush().await?;
        self.next.insert(bytes, number);
        self.sent += number - first;
        // What goes one way may still be on its way when a call is answered.
        loop {
            match self.client.received().await? {
                received if received == self.sent => return Ok(number - first),
                received if received > self.sent => {
                    bail!("{} messages were sent and {received} received", self.sent)
                }
                _ => {}
            }
        }
    }
}

/// Processor time of both processes.
struct Cpu {
    server_pid: u32,
    ns: [u64; 2],
}

impl Cpu {
    fn read(server_pid: u32) -> anyhow::Result<Self> {
        let ns = [clock::process_cpu_ns(), counters::process_cpu_ns_of(server_pid)?];
        Ok(Self { server_pid, ns })
    }

    fn since(&self) -> anyhow::Result<[u64; 2]> {
        let now = Self::read(self.server_pid)?;
        Ok([now.ns[0].saturating_sub(self.ns[0]), now.ns[1].saturating_sub(self.ns[1])])
    }
}

/// A launch below this many exchanges has no median worth the name.
const MESSAGES_MIN: u64 = 20;

/// The warm-up takes at most this part of a cell's time.
const WARMUP_SHARE: u64 = 3;

/// Messages between two looks at the clock.
const BURST_MESSAGES: u64 = 64;
