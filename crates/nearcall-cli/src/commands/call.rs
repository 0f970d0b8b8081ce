//! `nearcall call`: calls a method of a live server by its name, with messages as text.
//!
//! **Invariants:** a status is reported as grpcurl's users expect it, on standard error, with an
//! exit code for each. What cannot be a request is never sent, but for items of a stream that
//! stand before it.
//! **Not here:** finding the method (`offered.rs`), messages as text (`call/messages.rs`), many
//! calls (`call/repeat.rs`).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use nearcall::client::{Metadata, ReplyMetadata};
use nearcall::dynamic::{AsyncDynamicCaller, DynamicCaller, Encoded};
use nearcall::service::MethodKind;
use nearcall::{Address, CallOptions, Code, Mechanism};
use nearcall_os::clock;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tokio::sync::mpsc::Receiver;

use self::messages::{Format, Requests, written};
use super::offered::{self, Asked, Failed};
use super::{End, Usage};
use crate::args::{JsonArgs, ReachArgs, timeout};
use crate::{completion, output};

mod messages;
mod repeat;

/// Call a method of a server, with JSON in and out
///
/// The server says which methods it has, so no .proto file is needed. SERVICE may be the last part
/// of the name where that is unique, and SERVICE@INSTANCE names one of several objects. The request
/// is JSON, the argument itself, @FILE or - for standard input; without it the message is empty.
/// Of a stream the requests are JSON values one after the other, and each reply is a line. With
/// --format text both are protobuf's text format, and requests are separated by the byte 0x1e.
///
/// --repeat calls a method with one request again and again, and prints the distribution of the
/// times of all calls in place of the replies. With --rate a call has its time from the moment at
/// which it was due, so that a stall counts for each call that it delays; without it a thread calls
/// as soon as the call before has ended.
///
/// Exit code: 0 done; 1 failure, such as a request that is no message of the method; 2 usage error;
/// 130 interrupted, with --repeat after the summary of what was called until then; otherwise a
/// signal ends the program, and shells report 128 and its number. A status other than OK gives 64
/// and its code, as grpcurl: 65 CANCELLED, 66 UNKNOWN, 67 INVALID_ARGUMENT, 68 DEADLINE_EXCEEDED,
/// 69 NOT_FOUND, 70 ALREADY_EXISTS, 71 PERMISSION_DENIED, 72 RESOURCE_EXHAUSTED, 73
/// FAILED_PRECONDITION, 74 ABORTED, 75 OUT_OF_RANGE, 76 UNIMPLEMENTED, 77 INTERNAL, 78 UNAVAILABLE,
/// 79 DATA_LOSS, 80 UNAUTHENTICATED. That no server listens is 78.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// The name or the address of the server
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) server: Address,

    /// The method
    #[arg(value_name = "SERVICE/METHOD", add = ArgValueCompleter::new(completion::methods))]
    pub(crate) method: String,

    /// The request: JSON, @FILE, or - for standard input
    #[arg(
        value_name = "JSON",
        allow_hyphen_values = true,
        add = ArgValueCompleter::new(completion::fields)
    )]
    pub(crate) request: Option<String>,

    /// An entry of the metadata; may be given several times
    ///
    /// The value of a key that ends in -bin is base64.
    #[arg(short = 'H', long, value_name = "KEY: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, Vec<u8>)>,

    /// Longest time of a call, such as 2s [default: that of the method]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub(crate) deadline: Option<Duration>,

    /// Requests and replies in json or text, protobuf's text format
    #[arg(long, value_name = "FORMAT", default_value = "json", hide_default_value = true)]
    pub(crate) format: Format,

    /// Print the fields that have their default values as well
    #[arg(long)]
    pub(crate) emit_defaults: bool,

    /// Call over this mechanism; `nearcall mechanisms` lists them
    #[arg(long, value_name = "MECHANISM")]
    pub(crate) mechanism: Option<Mechanism>,

    /// Show metadata, mechanism and time on standard error
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Make this many calls, and print the times that they took
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CALLS_MAX))]
    pub(crate) repeat: Option<u64>,

    /// Calls per second that are due, by all threads together [default: no pause between calls]
    #[arg(
        long,
        value_name = "N",
        requires = "repeat",
        value_parser = clap::value_parser!(u32).range(1..=RATE_MAX)
    )]
    pub(crate) rate: Option<u32>,

    /// Threads that call, each over a connection of its own [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "repeat",
        value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX)
    )]
    pub(crate) threads: Option<u32>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

/// Reads `KEY: VALUE`; the value of a key that ends in `-bin` is base64.
fn header(text: &str) -> Result<(String, Vec<u8>), String> {
    let Some((key, value)) = text.split_once(':') else {
        return Err("write a key and a value, such as 'trace: 17'".to_owned());
    };
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
    let value = match key.ends_with("-bin") {
        true => {
            let read = STANDARD.decode(value).or_else(|_| STANDARD_NO_PAD.decode(value));
            read.map_err(|error| format!("the value of {key} is no base64: {error}"))?
        }
        false => value.as_bytes().to_vec(),
    };
    let tried = CallOptions::new().metadata_bin(&key, &value);
    tried.map(|_| (key, value)).map_err(|error| error.to_string())
}

pub(super) fn run(args: &CallArgs) -> anyhow::Result<End> {
    let ended = call(args);
    let Err(error) = &ended else { return ended };
    let Some(status) = offered::failed(error) else { return ended };
    let name = format!("{:?}", status.code());
    output::diagnostic(&format!("ERROR:\n  Code: {name}\n  Message: {}", status.message()));
    let code = u8::try_from(status.code() as u32).unwrap_or(Code::Unknown as u8);
    Ok(End::Code(ExitCode::from(CODE_OF_STATUS + code)))
}

fn call(args: &CallArgs) -> anyhow::Result<End> {
    let (service, method) = target(&args.method)?;
    let (interface, instance) = match service.split_once('@') {
        Some((interface, instance)) => (interface, Some(instance)),
        None => (service, None),
    };
    let address = full_address(&args.server, args.mechanism, instance)?;
    let asked = Asked::new(&address, &args.reach)?;
    let offer = asked.interface(interface)?;
    let method = offered::method(&offer.service()?, method)?;
    let mut options = CallOptions::new();
    if let Some(deadline) = args.deadline {
        options = options.deadline(deadline);
    }
    for (key, value) in &args.header {
        options = options.metadata_bin(key, value)?;
    }
    let requests = Requests::open(args.request.as_deref(), args.format, method.input())?;
    let call = Call { args, asked, method, options, requests };
    match args.repeat {
        Some(calls) => call.repeat(calls),
        None => call.once(),
    }
}

/// Splits a method from its service.
fn target(text: &str) -> anyhow::Result<(&str, &str)> {
    let split = text.rsplit_once('/').or_else(|| text.rsplit_once('.'));
    match split {
        Some((service, method)) if !service.is_empty() && !method.is_empty() => {
            Ok((service, method))
        }
        _ => {
            let text = format!(
                "{text:?} names no method: write SERVICE/METHOD, such as Thermostat/SetTarget"
            );
            Err(Usage(text).into())
        }
    }
}

/// Returns the address with what the arguments add to it.
fn full_address(
    server: &Address,
    mechanism: Option<Mechanism>,
    instance: Option<&str>,
) -> anyhow::Result<Address> {
    let text = server.to_string();
    let (place, own) = match text.split_once('#') {
        Some((place, own)) => (place, Some(own)),
        None => (text.as_str(), None),
    };
    let mut address = place.to_owned();
    if let Some(mechanism) = mechanism {
        address.push(if place.contains('?') { '&' } else { '?' });
        address.push_str(&format!("via={mechanism}"));
    }
    if let Some(instance) = instance.or(own) {
        address.push_str(&format!("#{instance}"));
    }
    address.parse().map_err(|error| Usage(format!("{error}")).into())
}

/// A call that is to be made.
struct Call<'a> {
    args: &'a CallArgs,
    asked: Asked,
    method: MethodDescriptor,
    options: CallOptions,
    requests: Requests,
}

impl Call<'_> {
    fn caller(&self) -> anyhow::Result<DynamicCaller> {
        let interface = self.method.parent_service().full_name().to_owned();
        let address = self.asked.address.to_string();
        let caller = DynamicCaller::new(&self.asked.client, &address, &interface);
        Ok(caller.map_err(Failed)?.with(self.options.clone()))
    }

    fn kind(&self, caller: &DynamicCaller) -> anyhow::Result<MethodKind> {
        let interface = caller.interface().map_err(Failed)?;
        let method = interface.method_named(self.method.name());
        Ok(method.context("the server has just changed")?.kind)
    }

    /// Returns the only request.
    fn one(&mut self) -> anyhow::Result<Encoded> {
        let first = match self.requests.next()? {
            None => DynamicMessage::new(self.method.input()),
            Some(first) => first,
        };
        if self.requests.next()?.is_some() {
            bail!("{} takes one request, and there are several", self.method.full_name());
        }
        Ok(Encoded::from(first.encode_to_vec()))
    }

    fn once(mut self) -> anyhow::Result<End> {
        let caller = self.caller()?;
        let (kind, name) = (self.kind(&caller)?, self.method.name().to_owned());
        let began = clock::now();
        match kind {
            MethodKind::Unary => {
                let request = self.one()?;
                let began = clock::now();
                let (reply, metadata) = caller.start(&name, &request).wait_with_metadata();
                let took = began.elapsed();
                self.show_headers(metadata.headers());
                let printed = reply.map_err(Failed).map(|reply| self.print(&reply, false));
                self.show_end(&metadata, took);
                printed??;
            }
            MethodKind::Oneway => {
                let request = self.one()?;
                let began = clock::now();
                caller.send(&name, &request).map_err(Failed)?;
                self.show_end(&ReplyMetadata::default(), began.elapsed());
            }
            MethodKind::ReplyStream => {
                let request = self.one()?;
                let mut replies = caller.open_reply_stream(&name, &request).map_err(Failed)?;
                if self.args.verbose {
                    self.show_headers(replies.headers().headers());
                }
                let ended = loop {
                    match replies.recv() {
                        Ok(Some(reply)) => {
                            if !self.print(&reply, true)? {
                                break Ok(());
                            }
                        }
                        Ok(None) => break Ok(()),
                        Err(status) => break Err(Failed(status)),
                    }
                };
                self.show_end(&replies.metadata(), began.elapsed());
                ended?;
            }
            MethodKind::RequestStream => {
                let mut stream = caller.open_request_stream(&name).map_err(Failed)?;
                while let Some(request) = self.requests.next()? {
                    // Why the service takes no more is in the end of the call.
                    if stream.send(&Encoded::from(request.encode_to_vec())).is_err() {
                        break;
                    }
                }
                let (reply, metadata) = stream.finish_with_metadata();
                self.show_headers(metadata.headers());
                let printed = reply.map_err(Failed).map(|reply| self.print(&reply, false));
                self.show_end(&metadata, began.elapsed());
                printed??;
            }
            MethodKind::BothStreams => self.both(began)?,
        }
        Ok(End::Done)
    }

    /// Sends items as they are read, while replies are printed as they come.
    fn both(mut self, began: Instant) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (interface, address) =
            (self.method.parent_service().full_name().to_owned(), self.asked.address.to_string());
        let caller = AsyncDynamicCaller::new(&self.asked.client, &address, &interface);
        let caller = caller.map_err(Failed)?.with(self.options.clone());
        let name = self.method.name().to_owned();
        let empty = Requests::open(None, Format::Json, self.method.input())?;
        let requests = std::mem::replace(&mut self.requests, empty);
        let mut take = read_ahead(requests);
        runtime.block_on(async {
            let opened = caller.open_both_streams(&name).await;
            let (mut stream, mut replies) = opened.map_err(Failed)?;
            let send = async {
                while let Some(request) = take.recv().await {
                    match request {
                        Ok(request) => {
                            let request = Encoded::from(request.encode_to_vec());
                            if stream.send(&request).await.is_err() {
                                return Ok(());
                            }
                        }
                        Err(error) => {
                            stream.cancel();
                            return Err(error);
                        }
                    }
                }
                // The end of the replies says how the call has ended.
                let _ = stream.finish().await;
                Ok(())
            };
            let receive = async {
                if self.args.verbose {
                    self.show_headers(replies.headers().await.headers());
                }
                let mut ended = Ok(());
                while let Some(reply) = replies.next().await {
                    match reply {
                        Ok(reply) => {
                            if !self.print(&reply, true)? {
                                break;
                            }
                        }
                        Err(status) => ended = Err(Failed(status)),
                    }
                }
                self.show_end(&replies.metadata(), began.elapsed());
                ended.map_err(anyhow::Error::from)
            };
            let mut receive = std::pin::pin!(receive);
            tokio::select! {
                ended = &mut receive => ended,
                // A failure of the input is the reason for the end of the call.
                sent = send => match sent {
                    Ok(()) => receive.await,
                    Err(error) => Err(error),
                },
            }
        })
    }

    /// Prints a reply. Returns whether somebody still reads.
    fn print(&self, reply: &Encoded, is_item: bool) -> anyhow::Result<bool> {
        let reply = DynamicMessage::decode(self.method.output(), reply.bytes().clone());
        let reply = reply.context("the reply is not what the server's description says")?;
        let (format, with_defaults) = (self.args.format, self.args.emit_defaults);
        output::message(&written(&reply, format, is_item, with_defaults)?)
    }

    fn show_headers(&self, headers: Metadata<'_>) {
        if self.args.verbose {
            let title = "Response headers received:";
            output::diagnostic(&format!("{title}{}", entries(headers.iter())));
        }
    }

    fn show_end(&self, metadata: &ReplyMetadata, took: Duration) {
        if !self.args.verbose {
            return;
        }
        let connections = self.asked.client.connections();
        let place = self.asked.address.to_string();
        let mechanism = match connections.last() {
            _ if self.asked.address.is_remote() => {
                place.split(':').next().unwrap_or_default().to_owned()
            }
            Some(connection) => format!("{}, {}", connection.mechanism, connection.wait),
            None => "none".to_owned(),
        };
        let title = "Response trailers received:";
        let took = took.as_secs_f64() * 1e6;
        output::diagnostic(&format!(
            "{title}{}\nMechanism: {mechanism}\nTime: {took:.1} us",
            entries(metadata.iter())
        ));
    }
}

/// Reads requests in a thread of its own, since reading blocks. The program ends without it.
fn read_ahead(mut requests: Requests) -> Receiver<anyhow::Result<DynamicMessage>> {
    let (give, take) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        while let Some(request) = requests.next().transpose() {
            let is_bad = request.is_err();
            if give.blocking_send(request).is_err() || is_bad {
                break;
            }
        }
    });
    take
}

/// Writes metadata as lines, of which `-bin` ones have base64.
fn entries<'a>(entries: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let line = |(key, value): (&str, &[u8])| match key.ends_with("-bin") {
        true => format!("\n{key}: {}", STANDARD.encode(value)),
        false => format!("\n{key}: {}", String::from_utf8_lossy(value)),
    };
    let lines: String = entries.map(line).collect();
    if lines.is_empty() { "\n(empty)".to_owned() } else { lines }
}

/// A status is reported by the exit code 64 and its own.
const CODE_OF_STATUS: u8 = 64;

/// More calls than this are a mistake: at a million a second they take 11 days.
const CALLS_MAX: u64 = 1_000_000_000_000;

/// Faster, reading the clock would be most of it.
const RATE_MAX: i64 = 1_000_000;

/// A server takes 2048 connections of one user, and some are left for others.
const THREADS_MAX: i64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  nearcall call thermostat Thermostat/SetTarget '{\"celsius\": 21.5}'
  nearcall call room home.v1.Thermostat@attic/SetTarget @target.json -v
  nearcall call grpc://node2:50051 home.v1.Thermostat/SetTarget -H 'trace: 17'
  nearcall call thermostat Thermostat/SetTarget --repeat 100000 --rate 1000
  nearcall call thermostat nearcall.v1.Server/Health --emit-defaults";
