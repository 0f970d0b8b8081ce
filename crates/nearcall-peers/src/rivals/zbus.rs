//! D-Bus by zbus, peer to peer over a unix socket, without a bus.

use std::os::unix::net::{UnixListener, UnixStream};

use ::zbus::connection::Builder;
use ::zbus::{Connection, Guid, Proxy, interface, proxy};
use nearcall_bench::payload::Payload;
use serde_bytes::{ByteBuf, Bytes};

use crate::measure::{self, Client, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::runtime;
use crate::service::Service;

pub(crate) const ROW: Rival = Rival {
    name: "zbus",
    version: concat!("zbus ", env!("RIVAL_VERSION_ZBUS")),
    waiting: Waiting::Sleeping,
    rate: "method calls that want no reply",
    about: include_str!("../../about/zbus.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

fn serve(request: &LaunchRequest) -> anyhow::Result<()> {
    let listener = UnixListener::bind(request.folder.join("zbus"))?;
    Line::Listening.write()?;
    let (stream, _) = listener.accept()?;
    runtime()?.block_on(async {
        let reader = Reader { service: Service::new(request.seed) };
        let _connection = Builder::unix_stream(stream)
            .server(Guid::generate())
            .p2p()
            .serve_at(PATH, reader)
            .build()
            .await?;
        std::future::pending().await
    })
}

struct Reader {
    service: Service,
}

#[interface(name = "rival.Peer")]
impl Reader {
    fn nothing(&mut self) {
        self.service.take(&[]);
    }

    fn take(&mut self, data: &[u8]) {
        self.service.take(data);
    }

    fn echo(&mut self, data: &[u8]) -> ByteBuf {
        self.service.take(data);
        ByteBuf::from(data)
    }

    fn received(&mut self) -> u64 {
        self.service.received()
    }
}

fn ask(request: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let stream = UnixStream::connect(request.folder.join("zbus"))?;
        let connection: Connection = Builder::unix_stream(stream).p2p().build().await?;
        let proxy = proxy::Builder::new(&connection)
            // Between two peers there are no names.
            .destination("rival.peer")
            .path(PATH)
            .interface(INTERFACE)
            .cache_properties(proxy::CacheProperties::No)
            .build()
            .await?;
        measure::measure(Calls { proxy, buffer: Vec::new() }, request).await
    })
}

struct Calls<'a> {
    proxy: Proxy<'a>,
    buffer: Vec<u8>,
}

impl Calls<'_> {
    fn fill(&mut self, payload: &Payload, number: u64) {
        self.buffer.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.buffer);
    }
}

impl Client for Calls<'_> {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if payload.message_bytes() == 0 {
            self.proxy.call_method("Nothing", &()).await?;
            return Ok(());
        }
        self.fill(payload, number);
        let argument = Bytes::new(&self.buffer);
        if echo {
            let reply = self.proxy.call_method("Echo", &argument).await?;
            verify(payload, number, reply.body().deserialize()?)?;
        } else {
            self.proxy.call_method("Take", &argument).await?;
        }
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.fill(payload, number);
        Ok(self.proxy.call_noreply("Take", &Bytes::new(&self.buffer)).await?)
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.proxy.call("Received", &()).await?)
    }
}

/// Where the object is.
const PATH: &str = "/rival";

/// What it is.
const INTERFACE: &str = "rival.Peer";
