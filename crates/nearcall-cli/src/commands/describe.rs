//! `nearcall describe`: what a server offers, as `.proto` text or as descriptors.
//!
//! **Invariants:** shown are the services, or the item that is asked for, and the types that their
//! messages are made of, each once.
//! **Not here:** asking the server (`offered.rs`), the text (`describe/proto_text.rs`).

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::Address;
use nearcall::control::ServerCaller;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FileDescriptor, Kind, MessageDescriptor,
    ServiceDescriptor,
};
use serde::Serialize;

use super::End;
use super::offered::{Asked, Offer, did_you_mean, is_end_of};
use crate::args::{JsonArgs, ReachArgs};
use crate::{completion, output};

mod proto_text;

/// Print what a server offers as .proto text: services, methods, messages
///
/// The server describes itself, by nearcall.v1.Server or, at grpc:// and grpcs://, by the
/// reflection of gRPC. Without an item all services are printed, with the messages that they take
/// and return. Comments are there where the descriptors have them; those in programs of nearcall do
/// not, which keeps the programs small. A name may be short where it is the only one that ends so.
///
/// Exit code: 0 printed; 1 the server has not answered, or has no such item; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// The name or the address of the server
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: Address,

    /// A service, a method of it, a message or an enum
    #[arg(
        value_name = "SERVICE[.METHOD|.MESSAGE]",
        add = ArgValueCompleter::new(completion::items)
    )]
    pub(crate) item: Option<String>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &DescribeArgs) -> anyhow::Result<End> {
    let asked = Asked::new(&args.server, &args.reach)?;
    let item = args.item.as_ref().map(|item| plain(item));
    let own = ServerCaller::INTERFACE.name;
    let is_own = |item: &String| item.starts_with(own) || item == "Server";
    let mut offers = match item.as_ref().filter(|item| is_own(item)) {
        Some(_) => asked.offers(Some(own))?,
        None => asked.offers(None)?,
    };
    let mut shown = Shown::default();
    match &item {
        Some(item) => {
            let chosen = choose(&offers, item, &args.server.to_string())?;
            shown.add(&chosen)?;
            offers.retain(|offer| offer.name == chosen.offer);
        }
        None => {
            for offer in &offers {
                shown.add(&Chosen::service(&offer.service()?, &offer.name))?;
            }
        }
    }
    if args.format.json {
        return json(&offers, &shown);
    }
    if shown.files.is_empty() {
        output::diagnostic(&format!("the server at {} has no object", args.server));
    }
    let texts = shown.files.iter().map(|(file, names)| {
        let text = proto_text::text(file, &|name| names.contains(name));
        format!("// {}\n{text}", file.name())
    });
    output::result(&texts.collect::<Vec<_>>().join("\n"))?;
    Ok(End::Done)
}

/// Returns the name of an item with dots alone, and without an instance.
fn plain(item: &str) -> String {
    let (before, method) = item.split_once('/').unwrap_or((item, ""));
    let service = before.split('@').next().unwrap_or(before);
    format!("{service}.{method}").trim_end_matches('.').to_owned()
}

/// Prints the descriptors of the files that have what is shown.
fn json(offers: &[Offer], shown: &Shown) -> anyhow::Result<End> {
    let files = shown.files.iter().map(|(file, _)| {
        let name = "google.protobuf.FileDescriptorProto";
        let described = file.parent_pool().get_message_by_name(name);
        let described = described.context("descriptors are not described")?;
        // With the options of nearcall, which the typed descriptor lacks.
        Ok(DynamicMessage::decode(described, &*file.encode_to_vec())?)
    });
    let services = offers
        .iter()
        .map(|offer| ServiceRow { name: offer.name.clone(), objects: offer.objects.clone() });
    let (services, files) = (services.collect(), files.collect::<anyhow::Result<_>>()?);
    output::json(&Document { schema: SCHEMA, services, files })?;
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    services: Vec<ServiceRow>,
    /// Each a `google.protobuf.FileDescriptorProto`.
    files: Vec<DynamicMessage>,
}

#[derive(Serialize)]
struct ServiceRow {
    name: String,
    /// Names of objects that have it: `interface` or `interface@instance`.
    objects: Vec<String>,
}

/// Files, and the full names of what is shown of each.
#[derive(Default)]
struct Shown {
    files: Vec<(FileDescriptor, BTreeSet<String>)>,
}

impl Shown {
    fn add(&mut self, chosen: &Chosen) -> anyhow::Result<()> {
        for file in chosen.pool.files() {
            let is_asked = chosen.asked.as_deref().is_some_and(|name| has(&file, name));
            // Every reader of `.proto` files has these.
            if file.name().starts_with("google/protobuf/") && !is_asked {
                continue;
            }
            let names = chosen.names.iter().filter(|name| has(&file, name)).cloned();
            let names: BTreeSet<String> = names.collect();
            let same = |(known, _): &&mut (FileDescriptor, _)| {
                known.file_descriptor_proto() == file.file_descriptor_proto()
            };
            match self.files.iter_mut().find(same) {
                _ if names.is_empty() => {}
                Some((_, known)) => known.extend(names),
                None => self.files.push((file, names)),
            }
        }
        Ok(())
    }
}

/// Returns whether a file defines an item that is shown by itself.
fn has(file: &FileDescriptor, name: &str) -> bool {
    file.messages().any(|it| it.full_name() == name)
        || file.enums().any(|it| it.full_name() == name)
        || file.services().any(|it| it.methods().any(|it| it.full_name() == name))
}

/// What is shown of one interface.
struct Chosen {
    offer: String,
    pool: DescriptorPool,
    /// The type that was asked for by its name.
    asked: Option<String>,
    names: BTreeSet<String>,
}

impl Chosen {
    fn service(service: &ServiceDescriptor, offer: &str) -> Self {
        let mut chosen = Self::nothing(service.parent_pool(), offer);
        for method in service.methods() {
            chosen.names.insert(method.full_name().to_owned());
            chosen.message(&method.input());
            chosen.message(&method.output());
        }
        chosen
    }

    fn nothing(pool: &DescriptorPool, offer: &str) -> Self {
        let (offer, pool) = (offer.to_owned(), pool.clone());
        Self { offer, pool, asked: None, names: BTreeSet::new() }
    }

    /// Adds a message, and the types of its fields.
    fn message(&mut self, message: &MessageDescriptor) {
        let mut outer = message.clone();
        while let Some(parent) = outer.parent_message() {
            outer = parent;
        }
        if self.names.insert(outer.full_name().to_owned()) {
            self.fields(&outer);
        }
    }

    fn fields(&mut self, message: &MessageDescriptor) {
        message.child_messages().for_each(|inner| self.fields(&inner));
        for field in message.fields() {
            match field.kind() {
                Kind::Message(inner) => self.message(&inner),
                Kind::Enum(item) => self.enumeration(&item),
                _ => {}
            }
        }
    }

    fn enumeration(&mut self, item: &EnumDescriptor) {
        match item.parent_message() {
            Some(parent) => self.message(&parent),
            None => drop(self.names.insert(item.full_name().to_owned())),
        }
    }
}

/// Finds the item of this name, or the only one whose name ends so.
fn choose(offers: &[Offer], item: &str, server: &str) -> anyhow::Result<Chosen> {
    let mut found: Vec<(String, Chosen)> = Vec::new();
    let mut names = Vec::new();
    for offer in offers {
        let service = offer.service()?;
        let pool = service.parent_pool().clone();
        let mut take = |name: &str, choose: &dyn Fn(&mut Chosen)| {
            names.push(name.to_owned());
            if is_end_of(item, name) && !found.iter().any(|(known, _)| known == name) {
                let mut chosen = Chosen::nothing(&pool, &offer.name);
                choose(&mut chosen);
                chosen.asked = Some(name.to_owned());
                found.push((name.to_owned(), chosen));
            }
        };
        take(service.full_name(), &|it| it.names = Chosen::service(&service, "").names);
        for method in service.methods() {
            take(method.full_name(), &|it| {
                it.names.insert(method.full_name().to_owned());
                it.message(&method.input());
                it.message(&method.output());
            });
        }
        for message in pool.all_messages().filter(|it| !it.is_map_entry()) {
            take(message.full_name(), &|it| it.message(&message));
            // A message of a service, by the name of that service.
            if message.parent_message().is_none() {
                let name = format!("{}.{}", service.full_name(), message.name());
                take(&name, &|it| it.message(&message));
            }
        }
        for one in pool.all_enums() {
            take(one.full_name(), &|it| it.enumeration(&one));
        }
    }
    if let Some(at) = found.iter().position(|(name, _)| name == item) {
        return Ok(found.swap_remove(at).1);
    }
    // The same message by two names is one.
    found.dedup_by(|a, b| a.1.names == b.1.names);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 => bail!(
            "{server} offers nothing with the name `{item}`{}; `nearcall describe {server}` prints \
             all",
            did_you_mean(item, &names)
        ),
        _ => {
            let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
            bail!("`{item}` may be each of {}: give more of its name", names.join(", "))
        }
    }
}

const SCHEMA: &str = "nearcall.describe/1";

const EXAMPLES: &str = "\
Examples:
  nearcall describe thermostat                   all that it offers
  nearcall describe thermostat Thermostat.SetTarget
  nearcall describe grpc://node2:50051 home.v1.Temperature
  nearcall describe thermostat nearcall.v1.Server
  nearcall describe thermostat --json | jq '.services[].name'";
