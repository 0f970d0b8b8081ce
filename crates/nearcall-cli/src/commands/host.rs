//! `nearcall host`: becomes the program nearcall-host, which runs a set of services.
//!
//! **Not here:** what a host does, and what it prints, which is `nearcall_host`.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::anyhow;
use clap::Args;
use nearcall_host::program::{GATEWAY, PROGRAM, find_beside_self};

use super::End;

/// Run a set of services that a file names, and keep them running
///
/// Each service is a program in a process of its own, or a dynamic library in a process that it
/// may share with others of its group. The host listens in their place and hands the sockets
/// over, so that a restart loses no call. SIGTERM stops them in order, a second one at once;
/// SIGHUP applies what has changed in the file.
///
/// The host is a program of its own, nearcall-host, with the same arguments: this command becomes
/// that program, which lies beside nearcall, or in PATH, or is named by NEARCALL_HOST.
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
    let named = env::var_os(HOST_VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    let beside = || find_beside_self(PROGRAM);
    let program = named.or_else(beside).unwrap_or_else(|| PROGRAM.into());
    let mut command = Command::new(&program);
    if args.check {
        command.arg("--check");
    }
    if let Some(place) = &args.metrics {
        command.arg("--metrics").arg(place);
    }
    // Gateways are commands of this program, wherever the host lies.
    if let Ok(own) = env::current_exe() {
        command.arg(GATEWAY).arg(own);
    }
    command.arg("--").arg(&args.file);
    // This process becomes the host, which has its signals, its descriptors and its number.
    let error = command.exec();
    Err(anyhow!(
        "cannot start {}: {error}; the host is a program of its own, {PROGRAM}, beside `nearcall` \
         or in PATH: install it, or build it by `cargo build --release`; {HOST_VARIABLE} names \
         another file",
        program.display()
    ))
}

/// Names the program of the host where it is neither beside this one nor in PATH.
const HOST_VARIABLE: &str = "NEARCALL_HOST";

const EXAMPLES: &str = "\
Examples:
  nearcall host services.toml
  nearcall host services.toml --check            is the file right?
  nearcall host services.toml --metrics 127.0.0.1:9464";
