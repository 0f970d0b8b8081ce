//! What calls cost through the gateway and by the transport, beside tonic's own.
//!
//! **Invariants:** two ways are measured in turn, block by block, in one process; what is printed
//! is the median of the ratios of neighbouring blocks.
//! **Not here:** pinning (`taskset` of the caller of this program).

use std::time::Duration;

use anyhow::{Context as _, bail};
use nearcall::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use crate::testing::{
    Empty, Payload, ResponseParameters, SimpleRequest, StreamingOutputCallRequest,
    TestServiceAsyncCaller,
};
use crate::tonic_testing::test_service_client::TestServiceClient;

/// Calls in flight of the case of the rate.
const IN_FLIGHT: usize = 64;
/// Bytes of an item of the case of the stream, and its items.
const ITEM_BYTES: i32 = 64 << 10;
const ITEMS: usize = 200;

/// What is measured of one way.
#[derive(Debug, Clone, Copy)]
enum Case {
    /// Time of a unary call with so many bytes there and back.
    Latency(usize),
    /// Time for each call while many are in flight.
    Rate,
    /// Time for each item of a stream of replies.
    Stream,
}

const CASES: [(&str, Case); 4] = [
    ("unary, empty", Case::Latency(0)),
    ("unary, 1 KiB there and back", Case::Latency(1024)),
    ("unary, 64 in flight", Case::Rate),
    ("stream of replies, 64 KiB each", Case::Stream),
];

/// One way to the test service.
#[derive(Clone)]
enum Way {
    Tonic(TestServiceClient<Channel>),
    Nearcall(TestServiceAsyncCaller),
}

/// What one way has cost beside another.
#[derive(Debug)]
pub struct Cost {
    /// What was measured.
    pub case: &'static str,
    /// The median time of the first way, in ns.
    pub base_ns: f64,
    /// The median time of the second way, in ns.
    pub other_ns: f64,
    /// The median of the ratios of the second to the first.
    pub ratio: f64,
    /// Pairs of blocks.
    pub pairs: usize,
}

impl Way {
    async fn open(address: &str) -> anyhow::Result<Self> {
        if address.starts_with("http") {
            let endpoint = Endpoint::from_shared(address.to_owned())?.tcp_nodelay(true);
            let endpoint = endpoint
                .initial_stream_window_size(256 << 10)
                .initial_connection_window_size(2 << 20);
            let channel = endpoint.connect().await;
            let channel = channel.with_context(|| format!("cannot connect to {address}"))?;
            return Ok(Self::Tonic(TestServiceClient::new(channel)));
        }
        Ok(Self::Nearcall(TestServiceAsyncCaller::new(&Client::new(), address)?))
    }

    async fn unary(&mut self, bytes: usize) -> anyhow::Result<()> {
        let payload = Payload { body: vec![0; bytes].into(), ..Payload::default() };
        let request = SimpleRequest {
            response_size: i32::try_from(bytes)?,
            payload: Some(payload),
            ..SimpleRequest::default()
        };
        match (self, bytes) {
            (Self::Tonic(client), 0) => drop(client.empty_call(Empty {}).await?),
            (Self::Tonic(client), _) => drop(client.unary_call(request).await?),
            (Self::Nearcall(caller), 0) => drop(caller.empty_call(&Empty {}).await?),
            (Self::Nearcall(caller), _) => drop(caller.unary_call(&request).await?),
        }
        Ok(())
    }

    async fn stream(&mut self) -> anyhow::Result<usize> {
        let size = ResponseParameters { size: ITEM_BYTES, ..ResponseParameters::default() };
        let request = StreamingOutputCallRequest {
            response_parameters: vec![size; ITEMS],
            ..StreamingOutputCallRequest::default()
        };
        let mut items = 0;
        match self {
            Self::Tonic(client) => {
                let mut replies = client.streaming_output_call(request).await?.into_inner();
                while replies.message().await?.is_some() {
                    items += 1;
                }
            }
            Self::Nearcall(caller) => {
                let mut replies = caller.streaming_output_call(&request).await?;
                while let Some(reply) = replies.next().await {
                    reply?;
                    items += 1;
                }
            }
        }
        Ok(items)
    }

    /// Returns the time of one operation, in ns.
    async fn block(&self, case: Case) -> anyhow::Result<f64> {
        let mut way = self.clone();
        let begun = Instant::now();
        let operations = match case {
            Case::Latency(bytes) => {
                const CALLS: usize = 100;
                for _ in 0..CALLS {
                    way.unary(bytes).await?;
                }
                CALLS
            }
            Case::Rate => {
                const CALLS_EACH: usize = 20;
                let mut tasks = JoinSet::new();
                for _ in 0..IN_FLIGHT {
                    let mut way = way.clone();
                    tasks.spawn(async move {
                        for _ in 0..CALLS_EACH {
                            way.unary(0).await?;
                        }
                        anyhow::Ok(())
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done??;
                }
                IN_FLIGHT * CALLS_EACH
            }
            Case::Stream => {
                let items = way.stream().await?;
                if items != ITEMS {
                    bail!("the stream has ended after {items} of {ITEMS} items");
                }
                items
            }
        };
        Ok(begun.elapsed().as_secs_f64() * 1e9 / operations as f64)
    }
}

/// Measures two ways beside each other, each case for so long.
///
/// # Errors
///
/// One of them cannot be reached, or a call has failed.
pub async fn compare(base: &str, other: &str, each: Duration) -> anyhow::Result<Vec<Cost>> {
    let (base, other) = (Way::open(base).await?, Way::open(other).await?);
    let mut costs = Vec::new();
    for (name, case) in CASES {
        // Connects, and has both ends settle.
        base.block(case).await?;
        other.block(case).await?;
        let begun = Instant::now();
        let (mut first, mut second, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        while begun.elapsed() < each || ratios.len() < 3 {
            let pair = match ratios.len() % 2 {
                0 => (base.block(case).await?, other.block(case).await?),
                _ => {
                    let later = other.block(case).await?;
                    (base.block(case).await?, later)
                }
            };
            ratios.push(pair.1 / pair.0);
            first.push(pair.0);
            second.push(pair.1);
        }
        let (base_ns, other_ns) = (median(&mut first), median(&mut second));
        let (pairs, ratio) = (ratios.len(), median(&mut ratios));
        costs.push(Cost { case: name, base_ns, other_ns, ratio, pairs });
    }
    Ok(costs)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
