//! A server of nearcall with the interfaces of a gRPC server, for programs that do not use this
//! crate.
//!
//! **Invariants:** what it serves was described when it was started; calls reach no other
//! interface.
//! **Not here:** one call (`forward.rs`), one machine (`remote.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::dynamic::{DynamicDispatcher, interface_from_descriptor_set};
use nearcall::prost::Message as _;
use nearcall::prost_types::FileDescriptorSet;
use nearcall::server::RunningServer;
use nearcall::service::Interface;
use nearcall::{Address, Code, Server, Status};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;

use super::Outbound;
use super::forward::Forward;
use super::reflection;
use super::remote::Remote;
use crate::inbound::{ASK_TIMEOUT, DRAIN_TIMEOUT};

/// Longest wait for the descriptions of a server: 5 s, half of what a host of services grants for a
/// start by default.
const DESCRIBE_TIME_MAX: Duration = Duration::from_secs(5);

/// Why a [`Forwarder`] was not started.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} does not forward to {address:?}: {why}")]
#[non_exhaustive]
pub struct ForwarderError {
    /// Where it should listen.
    pub name: String,
    /// The address of the gRPC server.
    pub address: String,
    /// What is wrong, and what can be done.
    pub why: String,
}

/// Serves the interfaces of a gRPC server at a nearcall address, so that programs that do not use
/// this crate call them as those of a server of this machine.
///
/// Calls of all shapes are forwarded with their metadata, deadlines, cancels and statuses.
///
/// ```no_run
/// use nearcall_grpc::{Forwarder, Outbound};
///
/// let forwarder = Forwarder::new("boiler", "grpcs://node2:50051")
///     .options(Outbound::new().ca("/etc/home/ca.pem"))
///     .start()?;
/// println!("{:?}", forwarder.interfaces());
/// # Ok::<(), nearcall_grpc::ForwarderError>(())
/// ```
#[must_use = "it serves nothing before `start`"]
#[derive(Debug)]
pub struct Forwarder {
    name: String,
    address: String,
    interfaces: Vec<String>,
    descriptor_set: Option<Vec<u8>>,
    options: Outbound,
}

impl Forwarder {
    /// Takes where to listen, and the `grpc://` or `grpcs://` address of the gRPC server.
    pub fn new(name: &str, address: &str) -> Self {
        let (name, address) = (name.to_owned(), address.to_owned());
        let (interfaces, descriptor_set) = (Vec::new(), None);
        Self { name, address, interfaces, descriptor_set, options: Outbound::new() }
    }

    /// Serves these interfaces only, such as `home.v1.Boiler`; by default all that are described.
    pub fn interfaces(mut self, names: &[&str]) -> Self {
        self.interfaces.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Takes the descriptions from an encoded `google.protobuf.FileDescriptorSet` (`protoc
    /// --include_imports -o FILE`), and not from the reflection service of the server, which need
    /// not be there yet.
    pub fn descriptor_set(mut self, bytes: Vec<u8>) -> Self {
        self.descriptor_set = Some(bytes);
        self
    }

    /// Sets how calls leave.
    pub fn options(mut self, options: Outbound) -> Self {
        self.options = options;
        self
    }

    /// Asks the server for its descriptions, or connects to it if they are given, and tries the
    /// name, without serving.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and the server cannot be reached.
    pub fn check(self) -> Result<(), ForwarderError> {
        let (name, address) = (self.name.clone(), self.address.clone());
        let running = self.start()?;
        let reached = running
            .runtime
            .as_ref()
            .map_or(Ok(()), |runtime| runtime.block_on(running.remote.hunt(ASK_TIMEOUT)));
        let refuse = |status: Status| status.message().to_owned();
        reached.map_err(|status| ForwarderError { name, address, why: refuse(status) })
    }

    /// Starts it in threads of its own.
    ///
    /// # Errors
    ///
    /// An address cannot be used, another server has the name, or the descriptions cannot be had.
    pub fn start(self) -> Result<RunningForwarder, ForwarderError> {
        let (name, address) = (self.name.clone(), self.address.clone());
        self.try_start().map_err(|why| ForwarderError { name, address, why })
    }

    fn try_start(self) -> Result<RunningForwarder, String> {
        let scheme = self.address.split_once("://").map_or("", |(scheme, _)| scheme);
        if !matches!(scheme, "grpc" | "grpcs") {
            return Err(format!(
                "`{}` is no scheme of a gRPC server: write grpcs://HOST:PORT, or grpc://HOST:PORT \
                 for plain text",
                scheme.escape_debug()
            ));
        }
        let (runtime, remote) = reach(&self.address, self.options)?;
        let handle = runtime.handle().clone();
        let described = match &self.descriptor_set {
            Some(set) => described_by(set, self.interfaces),
            None => runtime.block_on(described_there(&remote, self.interfaces)),
        };
        let interfaces = described.map_err(|status| status.message().to_owned())?;
        let mut server = Server::builder().listen(&self.name);
        for interface in &interfaces {
            let (forward, handle) = (Forward::new(Arc::clone(&remote), interface), handle.clone());
            let dispatcher = DynamicDispatcher::new(interface, forward);
            server = server.register(dispatcher.spawn_on(move |task| drop(handle.spawn(task))));
        }
        let server = server.start().map_err(|error| error.to_string())?;
        let interfaces = interfaces.iter().map(|interface| interface.name).collect();
        Ok(RunningForwarder { server, remote, interfaces, runtime: Some(runtime) })
    }
}

/// Returns what a gRPC server has, by its reflection, as [`Outbound::describe`] does.
pub(super) fn described_at(
    options: Outbound,
    address: &str,
    names: &[&str],
) -> Result<Vec<&'static Interface>, Status> {
    let (runtime, remote) = reach(address, options).map_err(Status::invalid_argument)?;
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    runtime.block_on(described_there(&remote, names))
}

/// Returns a way to a gRPC server, and the runtime of the connections to it. Connects to nothing.
fn reach(address: &str, options: Outbound) -> Result<(Runtime, Arc<Remote>), String> {
    let _: Address = address.parse().map_err(|error| format!("{error}"))?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("nearcall-forward")
        .build()
        .map_err(|error| error.to_string())?;
    let policy = ReconnectPolicy::default();
    let remote = Remote::new(0, address, policy, Arc::new(options), runtime.handle())?;
    Ok((runtime, remote))
}

/// Returns the interfaces of these names by a descriptor set, or all that it has.
fn described_by(set: &[u8], mut names: Vec<String>) -> Result<Vec<&'static Interface>, Status> {
    if names.is_empty() {
        let files = FileDescriptorSet::decode(set).map_err(|error| {
            Status::invalid_argument(format!("the file is no descriptor set: {error}"))
        })?;
        for file in &files.file {
            let names_of = |name: &str| match file.package() {
                "" => name.to_owned(),
                package => format!("{package}.{name}"),
            };
            names.extend(file.service.iter().map(|service| names_of(service.name())));
        }
    }
    let names: BTreeSet<String> = names.into_iter().collect();
    if names.is_empty() {
        return Err(Status::invalid_argument("the descriptor set has no service"));
    }
    names.iter().map(|name| interface_from_descriptor_set(set, name)).collect()
}

/// Returns the interfaces of these names by the word of their server, or all that it has.
async fn described_there(
    remote: &Remote,
    names: Vec<String>,
) -> Result<Vec<&'static Interface>, Status> {
    let described = async {
        let mut tried = 0;
        loop {
            let (channel, places) = remote.channel().await?;
            tried += 1;
            match describe_each(channel, names.clone()).await {
                Err(status) if status.code() == Code::Unavailable && tried < places => {}
                described => return described,
            }
        }
    };
    let late = || Status::deadline_exceeded(format!("no answer within {DESCRIBE_TIME_MAX:?}"));
    let outcome = tokio::time::timeout(DESCRIBE_TIME_MAX, described).await;
    outcome.map_err(|_| late())?.map_err(|status| match status.code() {
        Code::Unimplemented => Status::unimplemented(format!(
            "{}; give a descriptor set if the server has no reflection",
            status.message()
        )),
        _ => status,
    })
}

async fn describe_each(
    channel: Channel,
    mut names: Vec<String>,
) -> Result<Vec<&'static Interface>, Status> {
    if names.is_empty() {
        names = reflection::list(channel.clone()).await?;
    }
    let mut interfaces = Vec::new();
    for name in BTreeSet::from_iter(names) {
        interfaces.push(reflection::describe(channel.clone(), &name).await?);
    }
    match interfaces.is_empty() {
        true => Err(Status::unimplemented("the server lists no interface")),
        false => Ok(interfaces),
    }
}

/// A [`Forwarder`] that serves. Dropped, it ends at once; [`stop`](Self::stop) lets calls end
/// first.
#[must_use = "a forwarder that is dropped ends"]
pub struct RunningForwarder {
    server: RunningServer,
    remote: Arc<Remote>,
    interfaces: Vec<&'static str>,
    /// Until this is dropped.
    runtime: Option<Runtime>,
}

impl RunningForwarder {
    /// Returns where it listens.
    pub fn address(&self) -> &Address {
        self.server.address()
    }

    /// Returns the names of the interfaces that it serves.
    pub fn interfaces(&self) -> &[&'static str] {
        &self.interfaces
    }

    /// Ends it, with five seconds for the calls under way. Returns whether they have ended.
    pub fn stop(self) -> bool {
        self.server.drain(DRAIN_TIMEOUT)
    }
}

impl std::fmt::Debug for RunningForwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("RunningForwarder");
        shown.field("address", self.address()).field("interfaces", &self.interfaces);
        shown.finish_non_exhaustive()
    }
}

impl Drop for RunningForwarder {
    fn drop(&mut self) {
        // What is not stopped in time ends with the process.
        let _ = self.server.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
