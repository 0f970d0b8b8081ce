//! What a server offers: its interfaces with their descriptors, asked of the server itself.
//!
//! Servers of nearcall answer by `nearcall.v1.Server`, those behind `grpc://` and `grpcs://` by the
//! reflection of gRPC.
//!
//! **Invariants:** names that are not known are answered with the nearest ones. The interfaces that
//! each server has for its own are only there when they are named.
//! **Not here:** calls (`call.rs`), and how descriptors are shown (`describe.rs`).

use std::time::Duration;

use anyhow::{Context, anyhow};
use nearcall::control::{DescribeRequest, ServerCaller};
use nearcall::{Address, CallOptions, Client, Code, Status};
use nearcall_channel::nearest_name;
use nearcall_grpc::{Outbound, descriptor_pool};
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

use super::asked_server;
use crate::args::ReachArgs;

/// A server that is asked.
pub(crate) struct Asked {
    pub(crate) client: Client,
    pub(crate) address: Address,
    outbound: Outbound,
}

/// An interface that a server offers.
pub(crate) struct Offer {
    pub(crate) name: String,
    /// The names of its objects, `interface` or `interface@instance`. Empty behind gRPC.
    pub(crate) objects: Vec<String>,
    /// An encoded `google.protobuf.FileDescriptorSet`.
    pub(crate) descriptor_set: Vec<u8>,
}

impl Asked {
    /// Names a server. Connects to nothing yet.
    pub(crate) fn new(address: &Address, reach: &ReachArgs) -> anyhow::Result<Self> {
        let mut outbound = Outbound::new();
        if let Some(file) = &reach.ca {
            outbound = outbound.ca(file);
        }
        if address.is_remote() {
            outbound.clone().install()?;
        }
        Ok(Self { client: asked_server::client(), address: address.clone(), outbound })
    }

    /// Returns all that the server offers, or the interface with this full name.
    pub(crate) fn offers(&self, name: Option<&str>) -> anyhow::Result<Vec<Offer>> {
        let own = &ServerCaller::INTERFACE;
        if name == Some(own.name) {
            let (name, set) = (own.name.to_owned(), own.descriptor_set.to_vec());
            return Ok(vec![Offer { name, objects: Vec::new(), descriptor_set: set }]);
        }
        if self.address.is_remote() {
            let names: Vec<&str> = name.into_iter().collect();
            let place = self.address.to_string();
            let found = self.outbound.describe(without_instance(&place), &names);
            let offer = |it: &'static nearcall::service::Interface| Offer {
                name: it.name.to_owned(),
                objects: Vec::new(),
                descriptor_set: it.descriptor_set.to_vec(),
            };
            let found = found.map_err(|status| Failed(unlisted(status, name)))?;
            return Ok(found.into_iter().map(offer).collect());
        }
        let server = ServerCaller::new(&self.client, without_instance(&self.address.to_string()))?;
        let server = server.with(CallOptions::new().deadline(ANSWER_MAX));
        let interface = name.unwrap_or_default().to_owned();
        let reply = server.describe(&DescribeRequest { interface, with_descriptor_sets: true });
        let reply = reply.map_err(|status| self.unanswered(status))?;
        if reply.interfaces.is_empty() && !reply.objects.is_empty() {
            let version = format!("its version, {},", reply.version);
            return Err(Failed(self.undescribed(&version, "")).into());
        }
        let objects_of = |name: &str| {
            let objects = reply.objects.iter().filter(|object| object.interface == name);
            objects.map(|object| object.name.clone()).collect()
        };
        let offers = reply.interfaces.iter().map(|it| Offer {
            name: it.name.clone(),
            objects: objects_of(&it.name),
            descriptor_set: it.descriptor_set.to_vec(),
        });
        Ok(offers.collect())
    }

    fn undescribed(&self, version: &str, why: &str) -> Status {
        asked_server::undescribed(&self.address, version, why)
    }

    /// Returns why a server does not say what it offers.
    fn unanswered(&self, status: Status) -> anyhow::Error {
        if status.code() == Code::Unimplemented {
            return Failed(self.undescribed("its version", status.message())).into();
        }
        if !asked_server::is_absent(&status) {
            return Failed(status).into();
        }
        let text = asked_server::without_hunt(&status);
        let names = nearcall::observe::names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|entry| entry.name.as_str()).collect();
        let hint = did_you_mean(without_instance(&self.address.to_string()), &names);
        Failed(Status::unavailable(format!("{text}{hint}"))).into()
    }

    /// Finds an interface by its full name, or by the last parts of it where one alone has these.
    pub(crate) fn interface(&self, wanted: &str) -> anyhow::Result<Offer> {
        // A full name is asked for alone: a server may have many.
        if wanted.contains('.') {
            let asked = self.offers(Some(wanted));
            match asked {
                Ok(offers) => {
                    if let Some(offer) = offers.into_iter().find(|offer| offer.name == wanted) {
                        return Ok(offer);
                    }
                }
                Err(error) if failed(&error).is_some_and(|it| it.code() == Code::Unimplemented) => {
                }
                Err(error) => return Err(error),
            }
        }
        let mut offers = self.offers(None)?;
        let is_it = |offer: &Offer| is_end_of(wanted, &offer.name);
        let found: Vec<usize> = (0..offers.len()).filter(|at| is_it(&offers[*at])).collect();
        let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
        match found[..] {
            [one] => Ok(offers.swap_remove(one)),
            [] => {
                let has = match names.is_empty() {
                    true => "it offers none".to_owned(),
                    false => format!("it has {}", names.join(", ")),
                };
                let hint = did_you_mean(wanted, &names);
                Err(anyhow!("{} has no service `{wanted}`; {has}{hint}", self.address))
            }
            _ => {
                let names: Vec<&str> = found.iter().map(|at| names[*at]).collect();
                let names = names.join(", ");
                Err(anyhow!("`{wanted}` may be each of {names}: give more of its name"))
            }
        }
    }
}

impl Offer {
    /// Reads the descriptors.
    pub(crate) fn pool(&self) -> anyhow::Result<DescriptorPool> {
        let name = &self.name;
        descriptor_pool(&self.descriptor_set)
            .with_context(|| format!("the server's description of {name} cannot be read"))
    }

    pub(crate) fn service(&self) -> anyhow::Result<ServiceDescriptor> {
        let name = &self.name;
        let service = self.pool()?.get_service_by_name(name);
        service.with_context(|| format!("the server's description of {name} lacks it"))
    }
}

/// Finds a method of a service.
pub(crate) fn method(service: &ServiceDescriptor, name: &str) -> anyhow::Result<MethodDescriptor> {
    let methods: Vec<MethodDescriptor> = service.methods().collect();
    if let Some(method) = methods.iter().find(|method| method.name() == name) {
        return Ok(method.clone());
    }
    let names: Vec<&str> = methods.iter().map(MethodDescriptor::name).collect();
    let (hint, all) = (did_you_mean(name, &names), names.join(", "));
    Err(anyhow!("{} has no method `{name}`; it has {all}{hint}", service.full_name()))
}

/// Returns whether a name is another one, or its last parts.
pub(crate) fn is_end_of(end: &str, name: &str) -> bool {
    name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns `, did you mean ...?`, or nothing if no name is near.
pub(crate) fn did_you_mean(word: &str, names: &[&str]) -> String {
    let nearest = nearest_name(word, names.iter().copied());
    nearest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// Returns why a gRPC server does not list its interfaces, or describe the one with this name.
fn unlisted(status: Status, name: Option<&str>) -> Status {
    if status.code() != Code::Unimplemented || name.is_some() {
        return status;
    }
    Status::unimplemented(
        "the server has no reflection of gRPC, by which its methods are known: have it register \
         grpc.reflection.v1 or v1alpha",
    )
}

/// Returns the address of the server alone.
fn without_instance(address: &str) -> &str {
    address.split('#').next().unwrap_or(address)
}

/// What a server, or the way to it, has answered. A command may have an exit code for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failed(pub(crate) Status);

/// Returns the status that a failure comes from, if it does.
pub(crate) fn failed(error: &anyhow::Error) -> Option<&Status> {
    error.downcast_ref().map(|Failed(status)| status)
}

/// Longest wait for a server's word on itself.
const ANSWER_MAX: Duration = Duration::from_secs(5);
