//! The interfaces that peers can call, and the servers that have them.
//!
//! **Invariants:** a name that was not exposed leads nowhere.
//! **Not here:** the calls (`calls.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearcall::control::{Health, HealthRequest, ServerAsyncCaller};
use nearcall::dynamic::AsyncDynamicCaller;
use nearcall::service::Interface;
use nearcall::{Address, CallOptions, Client, Code, Status};

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
    server: ServerAsyncCaller,
    /// Its name at its server.
    object: String,
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
        let server =
            ServerAsyncCaller::new(client, address).map_err(|error| refuse(error.to_string()))?;
        let server = server.with(CallOptions::new().deadline(ASK_TIMEOUT));
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
            let question = HealthRequest { object: target.object.clone() };
            match target.server.health(&question).await.map(|reply| reply.health()) {
                Ok(Health::Serving) => return Health::Serving,
                Ok(Health::Unknown) => best = Health::Unknown,
                Ok(_) | Err(_) => {}
            }
        }
        best
    }
}
