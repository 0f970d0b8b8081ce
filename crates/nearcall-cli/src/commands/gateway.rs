//! `nearcall gateway`: a gRPC server in front of servers of nearcall, and servers of nearcall in
//! front of gRPC servers.
//!
//! **Invariants:** a second signal ends the program at once; no two servers have one name.
//! **Not here:** what a gateway does, which is `nearcall_grpc`.

use std::path::PathBuf;
use std::{fs, io, thread};

use anyhow::Context;
use clap::Args;
use nearcall::Address;
use nearcall_grpc::{
    Forwarder, Gateway, GatewayBuilder, GatewayLimits, Outbound, RunningForwarder, TlsOptions,
};
use nearcall_os::Deadline;
use nearcall_os::poll::{PollFd, PollFlags, poll};
use nearcall_os::signal::TerminationSignals;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{End, Usage};
use crate::args::ReachArgs;
use crate::output;

/// Let gRPC calls reach servers of this machine, and calls from here gRPC servers
///
/// Peers call by HTTP/2, with or without TLS, what is exposed and nothing else; the servers
/// need not know of it, nor be there yet. Health and reflection of gRPC answer for them.
/// With --forward, programs of this machine call a gRPC server by a name, as any other server.
/// Certificates are read again once their files have changed. SIGTERM lets the calls under way
/// end, for 5 seconds; a second one does not.
///
/// Exit code: 0 stopped, or checked; 1 an address, a file, a server of --forward or, with
/// --check, any server cannot be used; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct GatewayArgs {
    /// A server and the interfaces of it that peers can call
    #[arg(
        value_name = "SERVER=NAME[,...]",
        required_unless_present = "forward",
        requires = "listen",
        value_parser = exposed
    )]
    pub(crate) exposed: Vec<Exposed>,

    /// Where peers connect to; may be given several times
    #[arg(long, value_name = "HOST:PORT", requires = "exposed")]
    pub(crate) listen: Vec<String>,

    /// Serve the interfaces of a gRPC server as NAME; may be given several times
    #[arg(long, value_name = "NAME=URL[/INTERFACE,...]", value_parser = forwarded)]
    pub(crate) forward: Vec<Forwarded>,

    /// Take the descriptions for --forward from a file, not by reflection
    #[arg(long, value_name = "FILE", requires = "forward")]
    pub(crate) descriptors: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    /// Where programs of this machine ask how the gateway is
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Address>,

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

/// A name, and the gRPC server whose interfaces are served there.
#[derive(Debug, Clone)]
pub(crate) struct Forwarded {
    name: String,
    url: String,
    /// Empty: all that it has.
    interfaces: Vec<String>,
}

/// Reads `NAME=SCHEME://HOSTS[/INTERFACE,...]`. A name may be an address with `=` in it.
fn forwarded(text: &str) -> Result<Forwarded, String> {
    let missing = || {
        "names no gRPC server: write NAME=grpcs://HOST:PORT, such as boiler=grpcs://node2:50051"
            .to_owned()
    };
    let (before, rest) = text.rsplit_once("://").ok_or_else(missing)?;
    let (name, scheme) = before.rsplit_once('=').ok_or_else(missing)?;
    let (hosts, interfaces) = match rest.split_once('/') {
        Some((hosts, names)) => (hosts, names.split(',').map(str::to_owned).collect()),
        None => (rest, Vec::new()),
    };
    if name.is_empty() || hosts.is_empty() || interfaces.iter().any(String::is_empty) {
        return Err(missing());
    }
    Ok(Forwarded { name: name.to_owned(), url: format!("{scheme}://{hosts}"), interfaces })
}

pub(super) fn run(args: &GatewayArgs) -> anyhow::Result<End> {
    let is_remote = |it: &Exposed| it.server.parse().is_ok_and(|at: Address| at.is_remote());
    if args.exposed.iter().any(is_remote) {
        // Servers of other machines are exposed as those of this one.
        outbound(args).install()?;
    }
    let forwarders = forwarders(args)?;
    if args.check {
        forwarders.into_iter().try_for_each(Forwarder::check)?;
        builder(args)?.check()?;
        let interfaces: usize = args.exposed.iter().map(|it| it.interfaces.len()).sum();
        let mut text = String::new();
        if interfaces > 0 {
            text += &format!("the servers answer for all interfaces: {interfaces}\n");
        }
        for Forwarded { name, url, .. } in &args.forward {
            text += &format!("{url} can be called as {name}\n");
        }
        output::result(&text)?;
        return Ok(End::Done);
    }
    log()?;
    let termination = TerminationSignals::install().context("cannot wait for signals")?;
    let forwarders = forwarders.into_iter().map(Forwarder::start);
    let forwarders: Vec<RunningForwarder> = forwarders.collect::<Result<_, _>>()?;
    let gateway = builder(args)?.start()?;
    for address in gateway.addresses() {
        output::result(&format!("listening at {address}\n"))?;
    }
    for (forwarder, Forwarded { name, url, .. }) in forwarders.iter().zip(&args.forward) {
        let interfaces = forwarder.interfaces().join(", ");
        output::result(&format!("forwarding {name} to {url}: {interfaces}\n"))?;
    }
    let signal = termination.fd();
    let mut signals = [PollFd::from_borrowed_fd(signal, PollFlags::IN)];
    poll(&mut signals, Deadline::NEVER).context("cannot wait for signals")?;
    // Together, since each may take as long as a host waits.
    let have_ended = thread::scope(|scope| {
        let forwarders = forwarders.into_iter().map(|it| scope.spawn(|| it.stop()));
        let forwarders: Vec<_> = forwarders.collect();
        let has_ended = gateway.stop();
        forwarders.into_iter().fold(has_ended, |all, it| it.join().unwrap_or(false) && all)
    });
    if !have_ended {
        output::diagnostic("calls were cut off that had not ended in time");
    }
    Ok(End::Done)
}

/// Returns what forwards to gRPC servers.
fn forwarders(args: &GatewayArgs) -> anyhow::Result<Vec<Forwarder>> {
    let own = args.name.as_ref().map(ToString::to_string);
    let mut names: Vec<String> = own.into_iter().collect();
    let set = args
        .descriptors
        .as_ref()
        .map(|file| fs::read(file).with_context(|| format!("{}: cannot be read", file.display())));
    let set = set.transpose()?;
    let options = outbound(args);
    let mut forwarders = Vec::new();
    for Forwarded { name, url, interfaces } in &args.forward {
        if names.contains(name) {
            let text = format!("two servers would have the name {name}: give one another name");
            return Err(Usage(text).into());
        }
        names.push(name.clone());
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        let forwarder = Forwarder::new(name, url).interfaces(&interfaces).options(options.clone());
        forwarders.push(match &set {
            Some(set) => forwarder.descriptor_set(set.clone()),
            None => forwarder,
        });
    }
    Ok(forwarders)
}

/// Returns how calls leave for other machines.
fn outbound(args: &GatewayArgs) -> Outbound {
    let mut options = Outbound::new();
    if let Some(file) = &args.reach.ca {
        options = options.ca(file);
    }
    if let (Some(certificate), Some(key)) = (&args.cert, &args.key) {
        options = options.identity(certificate, key);
    }
    if let Some(bytes) = args.max_message_bytes {
        options = options.message_bytes_max(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    options
}

/// Writes to standard error what the gateway says. What the libraries below it say is left out,
/// since any peer can make them say it as often as it likes.
fn log() -> anyhow::Result<()> {
    let ours = Targets::new().with_target("nearcall", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    Ok(tracing_subscriber::registry().with(lines).with(ours).try_init()?)
}

fn builder(args: &GatewayArgs) -> anyhow::Result<GatewayBuilder> {
    let mut builder = Gateway::builder();
    for Exposed { server, interfaces } in &args.exposed {
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        builder = builder.expose(server, &interfaces);
    }
    for place in &args.listen {
        // By a host of services, whose next gateway listens at the same socket.
        let handed_over = match format!("tcp://{place}").parse() {
            Ok(address) => nearcall_channel::take_inherited(&address)?,
            Err(_) => None,
        };
        builder = match handed_over {
            Some(socket) => builder.listen_on(socket.into()),
            None => builder.listen(place),
        };
    }
    if let Some(name) = &args.name {
        builder = builder.name(&name.to_string());
    }
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
    Ok(builder)
}

const EXAMPLES: &str = "\
Examples:
  nearcall gateway --listen 127.0.0.1:50051 room=home.v1.Room
  nearcall gateway --listen [::]:443 --cert c.pem --key k.pem a=x.Y b=x.Z
  nearcall gateway --forward boiler=grpcs://node2:50051 --ca ca.pem
  nearcall gateway --listen 127.0.0.1:50051 room=home.v1.Room --check";
