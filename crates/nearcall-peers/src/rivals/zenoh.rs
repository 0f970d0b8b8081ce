//! Zenoh: queries to a queryable, two peers that know each other's place.

use ::zenoh::handlers::FifoChannelHandler;
use ::zenoh::pubsub::Publisher;
use ::zenoh::qos::CongestionControl;
use ::zenoh::query::{Querier, Query, Reply};
use ::zenoh::{Config, Session, Wait};
use anyhow::{Context, anyhow};
use nearcall_bench::payload::Payload;

use crate::measure::{self, Client, at_once, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::service::Shared;

pub(crate) const ROW: Rival = Rival {
    name: "zenoh",
    version: concat!("zenoh ", env!("RIVAL_VERSION_ZENOH")),
    waiting: Waiting::Sleeping,
    rate: "publications that block when there is no room",
    about: include_str!("../../about/zenoh.txt"),
    missing: None,
    serve,
    ask,
    clean: ::zenoh::shm::cleanup_orphaned_shm_segments,
};

fn session(request: &LaunchRequest, end: &str) -> anyhow::Result<Session> {
    let place = request.folder.join("zenoh");
    let mut config = Config::default();
    let settings = [
        ("mode", "\"peer\"".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("scouting/gossip/enabled", "false".to_owned()),
        ("listen/endpoints", "[]".to_owned()),
        ("connect/endpoints", "[]".to_owned()),
        (end, format!("[\"unixsock-stream/{}\"]", place.display())),
        ("transport/unicast/qos/enabled", "false".to_owned()),
    ];
    for (key, value) in settings {
        config.insert_json5(key, &value).map_err(|error| anyhow!("{key}: {error}"))?;
    }
    ::zenoh::open(config).wait().map_err(|error| anyhow!("{error}"))
}

fn serve(request: &LaunchRequest) -> anyhow::Result<()> {
    let session = session(request, "listen/endpoints")?;
    let service = Shared::new(request.seed);
    let mut queryables = Vec::new();
    for key in [TAKE, ECHO, RECEIVED] {
        let service = service.clone();
        let answer = move |query: Query| answer(key, &query, &service);
        let queryable = session.declare_queryable(key).callback(answer).wait();
        queryables.push(queryable.map_err(|error| anyhow!("{error}"))?);
    }
    let notes = session.declare_subscriber(NOTE).callback(move |sample| {
        service.take(&sample.payload().to_bytes());
    });
    let _notes = notes.wait().map_err(|error| anyhow!("{error}"))?;
    Line::Listening.write()?;
    loop {
        std::thread::park();
    }
}

/// Answers one query. What cannot be answered is missed by the client, which has a deadline.
fn answer(key: &'static str, query: &Query, service: &Shared) {
    let payload = query.payload();
    let _ = match key {
        RECEIVED => query.reply(key, service.received().to_le_bytes().to_vec()).wait(),
        _ => {
            service.take(&payload.map(|payload| payload.to_bytes()).unwrap_or_default());
            let echo = payload.filter(|_| key == ECHO).cloned().unwrap_or_default();
            query.reply(key, echo).wait()
        }
    };
}

fn ask(request: &LaunchRequest) -> anyhow::Result<()> {
    let session = session(request, "connect/endpoints")?;
    let querier = |key| {
        let querier = session.declare_querier(key).congestion_control(CongestionControl::Block);
        querier.wait().map_err(|error| anyhow!("{error}"))
    };
    let notes = session.declare_publisher(NOTE).congestion_control(CongestionControl::Block);
    let calls = Calls {
        queriers: [querier(TAKE)?, querier(ECHO)?, querier(RECEIVED)?],
        notes: notes.wait().map_err(|error| anyhow!("{error}"))?,
    };
    calls.wait_for_server()?;
    at_once(measure::measure(calls, request))
}

struct Calls<'a> {
    queriers: [Querier<'a>; 3],
    notes: Publisher<'a>,
}

impl Calls<'_> {
    /// A query before the server is known would get no reply.
    fn wait_for_server(&self) -> anyhow::Result<()> {
        loop {
            let mut all = true;
            for querier in &self.queriers {
                let status = querier.matching_status().wait().map_err(|e| anyhow!("{e}"))?;
                all &= status.matching();
            }
            let notes = self.notes.matching_status().wait().map_err(|e| anyhow!("{e}"))?;
            if all && notes.matching() {
                return Ok(());
            }
            nearcall_os::clock::pause(std::time::Duration::from_millis(1));
        }
    }

    fn query(&self, which: usize, payload: Vec<u8>) -> anyhow::Result<Reply> {
        let replies: FifoChannelHandler<Reply> =
            self.queriers[which].get().payload(payload).wait().map_err(|e| anyhow!("{e}"))?;
        replies.recv().map_err(|error| anyhow!("no reply: {error}"))
    }
}

fn bytes_of(payload: &Payload, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.message_bytes());
    payload.parts(number, |part| bytes.extend_from_slice(part));
    bytes
}

impl Client for Calls<'_> {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let reply = self.query(usize::from(echo), bytes_of(payload, number))?;
        let reply = reply.result().map_err(|error| anyhow!("refused: {error:?}"))?;
        match echo {
            true => verify(payload, number, &reply.payload().to_bytes()),
            false => Ok(()),
        }
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.notes.put(bytes_of(payload, number)).wait().map_err(|error| anyhow!("{error}"))
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        let reply = self.query(2, Vec::new())?;
        let reply = reply.result().map_err(|error| anyhow!("refused: {error:?}"))?;
        let bytes = reply.payload().to_bytes();
        Ok(u64::from_le_bytes(*bytes.first_chunk().context("not a number")?))
    }
}

const TAKE: &str = "rival/take";
const ECHO: &str = "rival/echo";
const RECEIVED: &str = "rival/received";
const NOTE: &str = "rival/note";
