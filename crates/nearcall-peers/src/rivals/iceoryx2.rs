//! iceoryx2 through its request-response services, polling or sleeping in its events.

use std::time::Duration;

use ::iceoryx2::node::Node;
use ::iceoryx2::port::client::Client as Port;
use ::iceoryx2::port::listener::Listener;
use ::iceoryx2::port::notifier::Notifier;
use ::iceoryx2::port::publisher::Publisher;
use ::iceoryx2::port::server::Server;
use ::iceoryx2::port::subscriber::Subscriber;
use ::iceoryx2::prelude::{
    BackpressureStrategy, Config, FileName, LogLevel, NodeBuilder, Path, SemanticString,
    SignalHandlingMode, ipc, set_log_level,
};
use ::iceoryx2::service::port_factory::{event, publish_subscribe, request_response};
use anyhow::{Context, anyhow};
use nearcall_bench::payload::Payload;
use nearcall_os::clock;

use crate::measure::{self, Client, at_once, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::{ask, call_byte};
use crate::service::Service;
use crate::shim::loan;

pub(crate) const POLLING: Rival = Rival {
    name: POLLING_NAME,
    version: concat!("iceoryx2 ", env!("RIVAL_VERSION_ICEORYX2")),
    waiting: Waiting::Polling,
    rate: "samples of a publish-subscribe service",
    about: include_str!("../../about/iceoryx2.txt"),
    missing: None,
    serve,
    ask: connect,
    clean: || (),
};

pub(crate) const EVENTS: Rival =
    Rival { name: "iceoryx2-event", waiting: Waiting::Sleeping, ..POLLING };

/// All services of a launch.
struct Services {
    calls: request_response::PortFactory<ipc::Service, [u8], u64, [u8], ()>,
    notes: publish_subscribe::PortFactory<ipc::Service, [u8; NOTE_BYTES], ()>,
    /// To the server, to the client.
    bells: [event::PortFactory<ipc::Service>; 2],
    /// Last: it must outlive the services.
    _node: Node<ipc::Service>,
}

fn services(launch: &LaunchRequest) -> anyhow::Result<Services> {
    set_log_level(LogLevel::Fatal);
    let mut config = Config::default();
    config.global.prefix = FileName::new(launch.name.as_bytes()).map_err(|e| anyhow!("{e:?}"))?;
    let root = launch.folder.join("iceoryx2").display().to_string();
    let root = Path::new(root.as_bytes()).map_err(|error| anyhow!("{error:?}"))?;
    config.global.set_root_path(&root);
    let node = NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()
        .map_err(|error| anyhow!("{error}"))?;
    let bell = |name: &str| -> anyhow::Result<_> {
        let service = node.service_builder(&name.try_into().map_err(|e| anyhow!("{e:?}"))?);
        let service = service.event().max_listeners(1).max_notifiers(1).event_id_max_value(1);
        service.open_or_create().map_err(|error| anyhow!("{error}"))
    };
    let bells = [bell("to server")?, bell("to client")?];
    let calls = node
        .service_builder(&"calls".try_into().map_err(|error| anyhow!("{error:?}"))?)
        .request_response::<[u8], [u8]>()
        .request_user_header::<u64>()
        .max_clients(1)
        .max_servers(1)
        .open_or_create()
        .map_err(|error| anyhow!("{error}"))?;
    let notes = node
        .service_builder(&"notes".try_into().map_err(|error| anyhow!("{error:?}"))?)
        .publish_subscribe::<[u8; NOTE_BYTES]>()
        .max_publishers(1)
        .max_subscribers(1)
        .subscriber_max_buffer_size(BUFFER_NOTES)
        .enable_safe_overflow(false)
        .open_or_create()
        .map_err(|error| anyhow!("{error}"))?;
    Ok(Services { calls, notes, bells, _node: node })
}

/// How an end waits, and how it wakes the other.
struct Bells {
    mine: Listener<ipc::Service>,
    other: Notifier<ipc::Service>,
}

impl Bells {
    /// None for an end that polls.
    fn new(
        launch: &LaunchRequest,
        services: &Services,
        mine: usize,
    ) -> anyhow::Result<Option<Self>> {
        if launch.rival == POLLING_NAME {
            return Ok(None);
        }
        let [to_server, to_client] = &services.bells;
        let (mine, other) = if mine == 0 { (to_server, to_client) } else { (to_client, to_server) };
        let mine = mine.listener_builder().create().map_err(|error| anyhow!("{error}"))?;
        let other = other.notifier_builder().create().map_err(|error| anyhow!("{error}"))?;
        Ok(Some(Self { mine, other }))
    }
}

fn wait(bells: Option<&Bells>) -> anyhow::Result<()> {
    match bells {
        None => clock::spin_hint(),
        Some(bells) => {
            bells.mine.blocking_wait(|_| {}).map_err(|error| anyhow!("{error}"))?;
        }
    }
    Ok(())
}

fn wake(bells: Option<&Bells>) -> anyhow::Result<()> {
    if let Some(bells) = bells {
        bells.other.notify().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    let services = services(launch)?;
    let server = services
        .calls
        .server_builder()
        .initial_max_slice_len(launch.message_bytes_max.max(NOTE_BYTES))
        .create()
        .map_err(|error| anyhow!("{error}"))?;
    let notes = services.notes.subscriber_builder().create().map_err(|e| anyhow!("{e}"))?;
    let bells = Bells::new(launch, &services, 0)?;
    Line::Listening.write()?;
    let mut serving = Serving { server, notes, service: Service::new(launch.seed) };
    let (mut idle, mut streaming) = (0_u32, false);
    loop {
        if serving.answer(bells.as_ref())? {
            (idle, streaming) = (0, false);
            continue;
        }
        // A look for notes costs as much as one for a request, so who polls takes few while there
        // are none.
        idle = idle.wrapping_add(1);
        if streaming || bells.is_some() || idle.is_multiple_of(LOOKS_PER_NOTE) {
            streaming = serving.read_notes()?;
        }
        if !streaming {
            wait(bells.as_ref())?;
        }
    }
}

struct Serving {
    server: Server<ipc::Service, [u8], u64, [u8], ()>,
    notes: Subscriber<ipc::Service, [u8; NOTE_BYTES], ()>,
    service: Service,
}

impl Serving {
    /// Answers the next request, if there is one.
    #[inline]
    fn answer(&mut self, bells: Option<&Bells>) -> anyhow::Result<bool> {
        let Some(request) = self.server.receive().map_err(|error| anyhow!("{error}"))? else {
            return Ok(false);
        };
        let (what, count) = (*request.user_header(), self.service.received().to_le_bytes());
        let reply: &[u8] = match what {
            RECEIVED => &count,
            _ => {
                self.service.take(request.payload());
                if what == ECHO { request.payload() } else { &[] }
            }
        };
        let response =
            request.loan_slice_uninit(reply.len()).map_err(|error| anyhow!("{error}"))?;
        response.write_from_slice(reply).send().map_err(|error| anyhow!("{error}"))?;
        wake(bells)?;
        Ok(true)
    }

    /// Reads all notes that are there. True if there were any.
    fn read_notes(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some(note) = self.notes.receive().map_err(|error| anyhow!("{error}"))? {
            self.service.take(note.payload());
            any = true;
        }
        Ok(any)
    }
}

fn connect(launch: &LaunchRequest) -> anyhow::Result<()> {
    let services = services(launch)?;
    let port = services
        .calls
        .client_builder()
        .initial_max_slice_len(launch.message_bytes_max.max(NOTE_BYTES))
        .create()
        .map_err(|error| anyhow!("{error}"))?;
    let notes = services
        .notes
        .publisher_builder()
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()
        .map_err(|error| anyhow!("{error}"))?;
    let bells = Bells::new(launch, &services, 1)?;
    // The server finds a new client when it looks; so does the client a server.
    clock::pause(FIND);
    at_once(measure::measure(Calls { port, notes, bells, noted: 0 }, launch))
}

struct Calls {
    port: Port<ipc::Service, [u8], u64, [u8], ()>,
    notes: Publisher<ipc::Service, [u8; NOTE_BYTES], ()>,
    bells: Option<Bells>,
    noted: u64,
}

impl Calls {
    /// One call, whose reply `read` is given.
    #[inline]
    fn exchange<T>(
        &self,
        payload: &Payload,
        number: u64,
        what: u64,
        read: impl FnOnce(&[u8]) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let loaned = self.port.loan_slice_uninit(payload.message_bytes());
        let mut request = loan::fill(loaned.map_err(|e| anyhow!("{e}"))?, payload, number);
        *request.user_header_mut() = what;
        let pending = request.send().map_err(|error| anyhow!("{error}"))?;
        wake(self.bells.as_ref())?;
        loop {
            if let Some(reply) = pending.receive().map_err(|error| anyhow!("{error}"))? {
                return read(reply.payload());
            }
            wait(self.bells.as_ref())?;
        }
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.exchange(payload, number, u64::from(call_byte(echo)), |reply| match echo {
            true => verify(payload, number, reply),
            false => Ok(()),
        })
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let mut bytes = [0; NOTE_BYTES];
        payload.fill(number, 0, &mut bytes);
        let note = self.notes.loan_uninit().map_err(|error| anyhow!("{error}"))?;
        note.write_payload(bytes).send().map_err(|error| anyhow!("{error}"))?;
        self.noted += 1;
        match self.noted.is_multiple_of(NOTES_PER_WAKE) {
            true => wake(self.bells.as_ref()),
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        wake(self.bells.as_ref())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        self.exchange(&Payload::new(0, 0), 0, RECEIVED, |reply| {
            Ok(u64::from_le_bytes(*reply.first_chunk().context("not a number")?))
        })
    }
}

/// The row whose ends poll.
const POLLING_NAME: &str = "iceoryx2-poll";

/// What the user header of a request says.
const RECEIVED: u64 = ask::RECEIVED as u64;
const ECHO: u64 = ask::ECHO as u64;

/// The rate's messages have a type of their own size, the fastest that the library has.
const NOTE_BYTES: usize = 8;

/// Notes that wait for the server.
const BUFFER_NOTES: usize = 16 << 10;

/// How often a sleeping server is woken while notes stream: well before its buffer is full.
const NOTES_PER_WAKE: u64 = 64;

/// A polling server that has no request looks for notes this seldom.
const LOOKS_PER_NOTE: u32 = 64;

/// How long both ends have to find each other.
const FIND: Duration = Duration::from_millis(50);
