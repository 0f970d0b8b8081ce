//! The interfaces that peers can call, and the servers that have them.
//!
//! **Invariants:** a name that was not exposed leads nowhere.
//! **Not here:** the calls (`calls.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearcall::control::{Health, HealthRequest, ServerAsyncCaller};
use nearcall::dynamic::{AsyncDynamicCaller, Encoded};
use nearcall::service::Interface;
use nearcall::{Address, CallOptions, Client, Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::GatewayError;
use super::limits::ASK_TIMEOUT;

/// The exposed interfaces by their names.
#[derive(Debug, Default)]
pub(super) struct Exposed(BTreeMap<String, Servers>);

/// The servers of one interface.
#[derive(Debug, Default)]
pub(super) struct Servers {
    targets: Vec<Target>,
    /// Counts calls, so that each goes to the server after that of the one before.
    turn: AtomicUsize,
}

/// An object of one server.
#[derive(Debug)]
struct Target {
    caller: AsyncDynamicCaller,
    server: HealthCaller,
    /// Its name at its server.
    object: String,
}

/// What asks a server for the health of an object.
#[derive(Debug)]
enum HealthCaller {
    /// One of this machine.
    Nearcall(ServerAsyncCaller),
    /// One of another machine, by `grpc.health.v1`, which it need not have.
    Remote(AsyncDynamicCaller),
}

impl HealthCaller {
    fn new(client: &Client, address: &Address) -> Result<Self, String> {
        let options = CallOptions::new().deadline(ASK_TIMEOUT);
        let (is_remote, address) = (address.is_remote(), &*address.to_string());
        if is_remote {
            let caller = AsyncDynamicCaller::new(client, address, "grpc.health.v1.Health");
            let caller = caller.map_err(|status| status.message().to_owned())?;
            return Ok(Self::Remote(caller.with(options)));
        }
        let caller = ServerAsyncCaller::new(client, address).map_err(|error| error.to_string())?;
        Ok(Self::Nearcall(caller.with(options)))
    }

    /// Returns the health of an object; a server that does not answer does not serve.
    async fn ask(&self, object: &str) -> Health {
        let answer = match self {
            Self::Nearcall(server) => {
                let question = HealthRequest { object: object.to_owned() };
                server.health(&question).await.map(|reply| reply.health())
            }
            Self::Remote(caller) => ask_remote(caller, object).await,
        };
        match answer {
            Ok(health) => health,
            Err(status) if status.code() == Code::Unimplemented => Health::Unknown,
            Err(_) => Health::NotServing,
        }
    }
}

async fn ask_remote(caller: &AsyncDynamicCaller, object: &str) -> Result<Health, Status> {
    let question = Encoded::new(&HealthCheckRequest { service: object.to_owned() })?;
    let reply: HealthCheckResponse = caller.call("Check", &question).await?.decode()?;
    Ok(match reply.status() {
        ServingStatus::Serving => Health::Serving,
        ServingStatus::NotServing => Health::NotServing,
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => Health::Unknown,
    })
}

impl Exposed {
    /// Adds an interface of the server at `address`.
    pub(super) fn add(
        &mut self,
        client: &Client,
        (address, interface): (&str, &str),
        balance: bool,
    ) -> Result<(), GatewayError> {
        let refuse = |why: String| GatewayError::Expose {
            address: address.into(),
            interface: interface.into(),
            why,
        };
        if crate::is_reserved(interface) {
            return Err(refuse("the gateway or the server itself answers to such names".into()));
        }
        let servers = self.0.entry(interface.to_owned()).or_default();
        if let Some(other) = servers.targets.first()
            && !balance
        {
            let at = other.caller.address();
            let why =
                format!("{at} has it as well; share the calls by `balance`, or leave one out");
            return Err(refuse(why));
        }
        let parsed: Address = address.parse().map_err(|error| refuse(format!("{error}")))?;
        let object = match parsed.instance() {
            Some(instance) => format!("{interface}@{instance}"),
            None => interface.to_owned(),
        };
        let caller = AsyncDynamicCaller::new(client, address, interface)
            .map_err(|status| refuse(status.message().to_owned()))?;
        let server = HealthCaller::new(client, &parsed).map_err(refuse)?;
        servers.targets.push(Target { caller, server, object });
        Ok(())
    }

    pub(super) fn find(&self, interface: &str) -> Option<&Servers> {
        self.0.get(interface)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Servers> {
        self.0.values()
    }
}

impl Servers {
    /// Returns a caller with these options, and what it can call: of the server whose turn it is,
    /// or the next one that is there.
    pub(super) async fn caller(
        &self,
        options: &CallOptions,
    ) -> Result<(AsyncDynamicCaller, &'static Interface), Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.targets.len();
        let (later, first) = self.targets.split_at(turn);
        let mut away = Status::unavailable("the gateway has no server of the interface");
        for target in first.iter().chain(later) {
            let caller = target.caller.with(options.clone());
            match caller.interface().await {
                Ok(interface) => return Ok((caller, interface)),
                Err(status) if status.code() == Code::Unavailable => away = status,
                Err(status) => return Err(status),
            }
        }
        Err(away)
    }

    /// Returns what can be called, for those who ask what there is.
    pub(super) async fn interface(&self) -> Result<&'static Interface, Status> {
        let options = CallOptions::new().deadline(ASK_TIMEOUT);
        Ok(self.caller(&options).await?.1)
    }

    /// Returns the best health that one of the servers has.
    pub(super) async fn health(&self) -> Health {
        let mut best = Health::NotServing;
        for target in &self.targets {
            match target.server.ask(&target.object).await {
                Health::Serving => return Health::Serving,
                Health::Unknown => best = Health::Unknown,
                Health::NotServing | Health::Draining => {}
            }
        }
        best
    }
}
