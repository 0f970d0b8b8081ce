//! `nearcall host`: runs a set of services; and the process of a group of libraries.
//!
//! **Not here:** what a host does, which is `nearcall_host`.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use nearcall_host::{Config, Ending, HostOptions};
use nearcall_prometheus::Endpoint;

use super::End;
use crate::output;

/// Run a set of services that a file names, and keep them running
///
/// Each service is a program in a process of its own, or a dynamic library in a process that it
/// may share with others of its group. The host listens in their place and hands the sockets
/// over, so that a restart loses no call. SIGTERM stops them in order, a second one at once;
/// SIGHUP applies what has changed in the file.
///
/// Exit code: 0 stopped; 1 the file or the host's address cannot be used; 2 usage error; 130
/// stopped at once by a second signal.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct HostArgs {
    /// The services: a table `[service.NAME]` or `[gateway.NAME]` for each
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,

    /// Check the file and the programs that it names, and start nothing
    #[arg(long)]
    pub(crate) check: bool,

    /// Show the counters of the host and of the services that FILE names at start to Prometheus:
    /// at http://HOST:PORT/metrics, without encryption, so choose a loopback address
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics: Option<String>,
}

pub(super) fn run(args: &HostArgs) -> anyhow::Result<End> {
    let config = Config::read(&args.file)?;
    if args.check {
        let (file, checked) = (args.file.display(), config.check_libraries());
        checked.map_err(|(service, why)| anyhow!("{file}: service `{service}`: {why}"))?;
        let placed = config.check_places();
        placed.map_err(|(address, why)| anyhow!("{file}: cannot listen at {address}: {why}"))?;
        let (services, processes) = (config.service_count(), config.process_count());
        output::result(&format!("{file}: {services} services in {processes} processes\n"))?;
        return Ok(End::Done);
    }
    let listen = |at: &String| {
        let endpoint = Endpoint::listen(at, config.server_addresses());
        endpoint.with_context(|| format!("cannot show metrics at {at}"))
    };
    let metrics = args.metrics.as_ref().map(listen).transpose()?;
    if let Some(metrics) = &metrics {
        output::diagnostic(&format!("metrics: http://{}/metrics", metrics.address()));
    }
    // This program as it runs now, though its file may be replaced meanwhile.
    let worker = vec!["/proc/self/exe".into(), "host-group".into()];
    let gateway = vec!["/proc/self/exe".into(), "gateway".into()];
    let options = HostOptions { worker, gateway, log: Box::new(output::diagnostic) };
    match nearcall_host::run(config, options)? {
        Ending::Done => Ok(End::Done),
        Ending::AtOnce => Ok(End::Interrupted),
    }
}

/// The process of a group of libraries; started by `host` itself
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct GroupArgs {}

/// Serves the libraries that the host names on standard input, and ends the process.
pub(super) fn group(_: &GroupArgs) -> anyhow::Result<End> {
    nearcall_host::run_worker(io::stdin().lock())
}

const EXAMPLES: &str = "\
Examples:
  nearcall host services.toml
  nearcall host services.toml --check            is the file right?
  nearcall host services.toml --metrics 127.0.0.1:9464";
