//! `interop`: serves the test service of gRPC, or runs its cases, by nearcall or by tonic.
//!
//! `call` and `call-tonic` print a line for each case, `PASS` or `FAIL` with the reason, and exit
//! with 1 if one failed.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use nearcall_grpc::{Gateway, Outbound, TlsOptions};
use nearcall_grpc_interop::bench::{self, Cost};
use nearcall_grpc_interop::cases::{self, Outcome};
use nearcall_grpc_interop::testing::TestServiceCaller;
use nearcall_grpc_interop::{
    certificates, languages, nearcall_client, nearcall_service, storm, tonic_client, tonic_service,
};
use tokio::signal::unix::{SignalKind, signal};

/// The interoperability cases of gRPC
#[derive(Debug, Parser)]
#[command(name = "interop")]
enum Verb {
    /// Print the names of all cases
    Cases,
    /// Write ca.pem, server.pem and server.key for tests over TLS
    Certificates {
        /// Where to
        #[arg(long, value_name = "DIRECTORY")]
        out: PathBuf,
        /// The name of the server in its certificate
        #[arg(long)]
        domain: String,
    },
    /// Serve the test service by nearcall
    Serve {
        /// The address, such as a name
        #[arg(long, value_name = "ADDRESS")]
        nearcall: String,
    },
    /// Serve the test service by tonic
    ServeTonic {
        /// The address; port 0 is one that is free, which is printed
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
        #[command(flatten)]
        own: Own,
    },
    /// Run cases by a client of nearcall
    Call {
        /// The address of a server, such as a name or grpc://HOST:PORT
        #[arg(long)]
        address: String,
        #[command(flatten)]
        server: ServerName,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Pass calls of gRPC to the test service of nearcall
    Gateway {
        /// The address of the service, such as a name
        #[arg(long, value_name = "ADDRESS")]
        nearcall: String,
        /// Where to listen
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
        #[command(flatten)]
        own: Own,
    },
    /// Measure two ways to the test service beside each other: http://HOST:PORT by tonic,
    /// grpc://HOST:PORT or a name by nearcall
    Bench {
        /// The way that the other one is compared with
        #[arg(long, value_name = "ADDRESS")]
        base: String,
        /// The other way
        #[arg(long, value_name = "ADDRESS")]
        other: String,
        /// Seconds for each case
        #[arg(long, default_value_t = 5, value_name = "SECONDS")]
        each: u64,
    },
    /// Call at random through two gateways in a row, kill any process at any time, and compare what
    /// clients were told with what servers did
    Storm(storm::Options),
    #[command(hide = true, subcommand)]
    StormPart(storm::Part),
    /// Run the suite of all languages: each client against each server, over each mechanism
    Languages(languages::Options),
    #[command(hide = true, subcommand)]
    Language(languages::Part),
    /// Run cases by a client of tonic
    CallTonic {
        /// The address of a server: http://HOST:PORT or https://HOST:PORT
        #[arg(long)]
        address: String,
        #[command(flatten)]
        server: ServerName,
        #[command(flatten)]
        chosen: Chosen,
    },
}

/// What a server proves itself by.
#[derive(Debug, clap::Args)]
struct Own {
    /// The certificate as PEM, to serve over TLS
    #[arg(long, requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate as PEM
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// What a client demands of a server over TLS.
#[derive(Debug, clap::Args)]
struct ServerName {
    /// What has signed the certificate of the server, as PEM
    #[arg(long, requires = "domain", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The name in the certificate
    #[arg(long, requires = "ca")]
    domain: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Chosen {
    /// A case, or all
    #[arg(long, value_name = "NAME|all")]
    case: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Chosen {
    fn names(&self, all: &[&'static str]) -> anyhow::Result<Vec<&'static str>> {
        if self.case == "all" {
            return Ok(all.to_vec());
        }
        match all.iter().find(|name| **name == self.case) {
            Some(name) => Ok(vec![name]),
            None => bail!("there is no case {}; there are: {}", self.case, all.join(", ")),
        }
    }
}

fn main() -> ExitCode {
    let verb = Verb::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(verb)));
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "cannot go on: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Cases => {
            writeln!(io::stdout(), "{}", tonic_client::names().join("\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Certificates { out, domain } => {
            certificates::write(&out, &domain)?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Serve { nearcall } => {
            let shutdown = shutdown()?;
            let server = nearcall_service::start(&nearcall)?;
            writeln!(io::stdout(), "listening at {nearcall}")?;
            server.serve_until(shutdown).await?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::ServeTonic { listen, own } => {
            let shutdown = shutdown()?;
            let tls = own.tls_cert.as_deref().zip(own.tls_key.as_deref());
            let tls = tls.map(|(cert, key)| anyhow::Ok((read(cert)?, read(key)?))).transpose()?;
            let listener = tokio::net::TcpListener::bind(&listen).await;
            let listener = listener.with_context(|| format!("cannot listen at {listen}"))?;
            writeln!(io::stdout(), "listening at {}", listener.local_addr()?)?;
            tonic_service::serve(listener, tls, shutdown).await?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Gateway { nearcall, listen, own } => pass(&nearcall, &listen, own).await,
        Verb::Bench { base, other, each } => {
            compare(&base, &other, Duration::from_secs(each)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Storm(options) => {
            let agrees = storm::run(&options)?;
            Ok(ExitCode::from(u8::from(!agrees)))
        }
        Verb::StormPart(part) => {
            storm::run_part(part, shutdown()?).await?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Languages(options) => {
            let passed = languages::run(&options)?;
            Ok(ExitCode::from(u8::from(!passed)))
        }
        Verb::Language(part) => {
            languages::run_part(part).await?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Call { address, server, chosen } => {
            let outbound = Outbound::new();
            match server.ca.zip(server.domain) {
                Some((ca, domain)) => outbound.ca(ca).server_name(domain).install()?,
                None => outbound.install()?,
            }
            let names = chosen.names(cases::NAMES)?;
            print(&nearcall_client::call(&address, &names).await?, chosen.json)
        }
        Verb::CallTonic { address, server, chosen } => {
            let ca = server.ca.as_deref().map(read).transpose()?;
            let names = chosen.names(&tonic_client::names())?;
            let tls = ca.as_deref().zip(server.domain.as_deref());
            print(&tonic_client::call(&address, tls, &names).await?, chosen.json)
        }
    }
}

/// Measures two ways beside each other.
async fn compare(base: &str, other: &str, each: Duration) -> anyhow::Result<()> {
    nearcall_grpc::install()?;
    for Cost { case, base_ns, other_ns, ratio, pairs } in bench::compare(base, other, each).await? {
        let (base_us, other_us) = (base_ns / 1e3, other_ns / 1e3);
        let times = format!("{base_us:.1} us, {other_us:.1} us");
        writeln!(io::stdout(), "{case}: {times}, ratio {ratio:.2} ({pairs} pairs)")?;
    }
    Ok(())
}

/// Passes calls on until this process is to end.
async fn pass(nearcall: &str, listen: &str, own: Own) -> anyhow::Result<ExitCode> {
    let mut gateway =
        Gateway::builder().expose(nearcall, &[TestServiceCaller::INTERFACE.name]).listen(listen);
    if let Some((certificate, key)) = own.tls_cert.zip(own.tls_key) {
        gateway = gateway.tls(TlsOptions::new(certificate, key));
    }
    let shutdown = shutdown()?;
    let running = gateway.start()?;
    writeln!(io::stdout(), "listening at {:?}", running.addresses())?;
    shutdown.await;
    tokio::task::spawn_blocking(move || running.stop()).await?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns a future that ends at SIGINT or SIGTERM.
fn shutdown() -> io::Result<impl Future<Output = ()> + Send> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
    })
}

fn print(outcomes: &[Outcome], is_json: bool) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let reason = |outcome: &Outcome| outcome.result.as_ref().err().map(|e| format!("{e:#}"));
    if is_json {
        let rows = outcomes.iter().map(|outcome| {
            let failure = reason(outcome);
            serde_json::json!({ "case": outcome.case, "failure": failure })
        });
        writeln!(out, "{}", rows.collect::<serde_json::Value>())?;
    } else {
        for outcome in outcomes {
            match reason(outcome) {
                None => writeln!(out, "PASS {}", outcome.case)?,
                Some(reason) => writeln!(out, "FAIL {}: {reason}", outcome.case)?,
            }
        }
    }
    Ok(ExitCode::from(u8::from(outcomes.iter().any(|outcome| outcome.result.is_err()))))
}
