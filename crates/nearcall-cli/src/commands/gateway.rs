//! `nearcall gateway`: a gRPC server in front of servers of nearcall.
//!
//! **Invariants:** a second signal ends the program at once.
//! **Not here:** what a gateway does, which is `nearcall_grpc`.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use nearcall_grpc::{Gateway, GatewayBuilder, GatewayLimits, TlsOptions};
use nearcall_os::Deadline;
use nearcall_os::poll::{PollFd, PollFlags, poll};
use nearcall_os::signal::TerminationSignals;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::End;
use crate::output;

/// Options of `gateway`.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// A server and the interfaces of it that peers can call
    #[arg(value_name = "SERVER=NAME[,...]", required = true, value_parser = exposed)]
    pub(crate) exposed: Vec<Exposed>,

    /// Where peers connect to; may be given several times
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) listen: Vec<String>,

    /// The certificate of the gateway and those between, a PEM file
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// Take calls only from peers with a certificate by one of these
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Take calls in plain text from other machines
    #[arg(long)]
    pub(crate) insecure: bool,

    /// Have servers with the same interface share its calls
    #[arg(long)]
    pub(crate) balance: bool,

    /// Longest message, once it is decompressed
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_message_bytes: Option<u32>,

    /// Check the addresses, the files and the servers, and take no calls
    #[arg(long)]
    pub(crate) check: bool,
}

/// A server, and what is exposed of it.
#[derive(Debug, Clone)]
pub(crate) struct Exposed {
    server: String,
    interfaces: Vec<String>,
}

/// Reads `SERVER=INTERFACE,...`. An address may have `=` in it as well.
fn exposed(text: &str) -> Result<Exposed, String> {
    let missing = || "names no interface: write SERVER=INTERFACE, such as room=home.v1.Room";
    let (server, interfaces) = text.rsplit_once('=').ok_or_else(missing)?;
    let interfaces: Vec<String> = interfaces.split(',').map(str::to_owned).collect();
    if server.is_empty() || interfaces.iter().any(String::is_empty) {
        return Err(missing().to_owned());
    }
    Ok(Exposed { server: server.to_owned(), interfaces })
}

pub(super) fn run(args: &GatewayArgs) -> anyhow::Result<End> {
    let builder = builder(args);
    if args.check {
        builder.check()?;
        let interfaces: usize = args.exposed.iter().map(|it| it.interfaces.len()).sum();
        output::result(&format!("the servers answer for all interfaces: {interfaces}\n"))?;
        return Ok(End::Done);
    }
    log()?;
    let termination = TerminationSignals::install().context("cannot wait for signals")?;
    let gateway = builder.start()?;
    for address in gateway.addresses() {
        output::result(&format!("listening at {address}\n"))?;
    }
    let signal = termination.fd();
    let mut signals = [PollFd::from_borrowed_fd(signal, PollFlags::IN)];
    poll(&mut signals, Deadline::NEVER).context("cannot wait for signals")?;
    if !gateway.stop() {
        output::diagnostic("calls were cut off that had not ended in time");
    }
    Ok(End::Done)
}

/// Writes to standard error what the gateway says. What the libraries below it say is left out,
/// since any peer can make them say it as often as it likes.
fn log() -> anyhow::Result<()> {
    let ours = Targets::new().with_target("nearcall", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    Ok(tracing_subscriber::registry().with(lines).with(ours).try_init()?)
}

fn builder(args: &GatewayArgs) -> GatewayBuilder {
    let mut builder = Gateway::builder();
    for Exposed { server, interfaces } in &args.exposed {
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        builder = builder.expose(server, &interfaces);
    }
    builder = args.listen.iter().fold(builder, |builder, place| builder.listen(place));
    if let (Some(certificate), Some(key)) = (&args.cert, &args.key) {
        let tls = TlsOptions::new(certificate, key);
        builder = builder.tls(match &args.client_ca {
            Some(file) => tls.client_ca(file),
            None => tls,
        });
    }
    if args.insecure {
        builder = builder.insecure();
    }
    if args.balance {
        builder = builder.balance();
    }
    if let Some(message_bytes_max) = args.max_message_bytes {
        builder = builder.limits(GatewayLimits { message_bytes_max, ..GatewayLimits::default() });
    }
    builder
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  nearcall gateway --listen 127.0.0.1:50051 room=home.v1.Room
  nearcall gateway --listen [::]:443 --cert c.pem --key k.pem a=x.Y b=x.Z
  nearcall gateway --listen 127.0.0.1:50051 room=home.v1.Room --check";
