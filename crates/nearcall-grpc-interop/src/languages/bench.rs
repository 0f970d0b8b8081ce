//! What a call costs in each language, beside the rivals of the languages.
//!
//! A client measures a block of calls by the line `time CALLS BYTES`. Blocks of all languages take
//! turns, each after a call that is not counted, and the median of the blocks of each is reported:
//! other load of the machine then disturbs all alike. Clients run on the first CPU, servers on the
//! second one.
//! **Not here:** how the programs are built (`cargo xtask languages`).

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context as _;
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{Context, Server, Status};

use nearcall_os::cpu;

use super::program::Program;
use super::{Descriptors, Language};
use crate::replies;
use crate::testing::{
    Empty, SimpleRequest, SimpleResponse, StreamingInputCallRequest, StreamingInputCallResponse,
    StreamingOutputCallRequest, StreamingOutputCallResponse, TestService, TestServiceDispatcher,
};

/// How many blocks of each.
const BLOCKS: usize = 25;
/// How long a block is meant to take: far above the scheduler's slices.
const BLOCK: Duration = Duration::from_millis(20);
/// How many calls a block has at least.
const CALLS_MIN: u32 = 10;
/// How many calls tell how long one takes.
const TRIAL_CALLS: u32 = 200;
/// The payloads of requests and replies, in bytes.
const SIZES: [u32; 2] = [0, 1024];

/// A client and the server that it calls.
struct Pair {
    name: String,
    client: Program,
    // Ends after its client.
    _server: Program,
    /// For each size: calls of a block, and what each block has said.
    measured: [(u32, Vec<f64>); SIZES.len()],
}

impl Pair {
    fn start(
        [client_cpu, server_cpu]: [usize; 2],
        client: &Language,
        server: &Language,
        verb: &str,
        descriptors: &Descriptors,
    ) -> anyhow::Result<Self> {
        let name = format!("{} to {}", client.name, server.name);
        // A path, which gRPC takes as well.
        let file = format!("{}.sock", name.replace(' ', "-"));
        let place = format!("unix:{}", descriptors.0.join(file).display());
        let files = descriptors.0.display().to_string();
        let served = Program::start(&on_cpu(server_cpu, server), &[verb, &place, &files])?;
        let ready = served.line().with_context(|| name.clone())?;
        let address = ready.strip_prefix("ready ").with_context(|| format!("{name}: {ready}"))?;
        let client = Program::start(&on_cpu(client_cpu, client), &["client", address])?;
        Ok(Self { name, client, _server: served, measured: Default::default() })
    }

    fn results(&mut self) -> Results {
        let ns = self.measured.each_mut().map(|(_, blocks)| {
            blocks.sort_by(f64::total_cmp);
            (blocks[blocks.len() / 2], blocks[0])
        });
        Results { name: self.name.clone(), ns }
    }

    /// Measures one block: nanoseconds of a call.
    fn block(&mut self, calls: u32, bytes: u32) -> anyhow::Result<f64> {
        self.client.send(&format!("time 1 {bytes}"))?;
        self.client.line()?;
        self.client.send(&format!("time {calls} {bytes}"))?;
        let line = self.client.line()?;
        let ns = line.strip_prefix("OK ").and_then(|ns| ns.parse().ok());
        ns.with_context(|| format!("{}: {line}", self.name))
    }
}

/// A command that runs on one CPU.
fn on_cpu(cpu: usize, language: &Language) -> Vec<String> {
    let words = ["taskset".to_owned(), "-c".to_owned(), cpu.to_string()];
    words.into_iter().chain(language.command.iter().cloned()).collect()
}

/// Measures each client with the server in Rust and with its own, and the rivals; prints a table.
///
/// # Errors
///
/// A program has failed.
pub(super) fn run(
    languages: &[Language],
    rivals: &[Language],
    as_json: bool,
) -> anyhow::Result<()> {
    let descriptors = Descriptors::write()?;
    let cpus = cpu::allowed().first_chunk().copied().context("it takes two CPUs")?;
    // The server in Rust is not that of the suite, whose methods are tasks of tokio.
    let start = |client, server: &Language| {
        let verb = if std::ptr::eq(server, &languages[0]) { "measured" } else { "server" };
        Pair::start(cpus, client, server, verb, &descriptors)
    };
    let (rust, others) = languages.split_first().context("there is no language")?;
    let mut pairs = vec![start(rust, rust)?];
    for language in others {
        pairs.push(start(language, rust)?);
        pairs.push(start(language, language)?);
    }
    for rival in rivals {
        pairs.push(start(rival, rival)?);
    }
    for pair in &mut pairs {
        for (number, bytes) in SIZES.into_iter().enumerate() {
            let ns = pair.block(TRIAL_CALLS, bytes)?;
            let call = Duration::from_secs_f64(ns / 1e9).max(Duration::from_nanos(1));
            let calls = BLOCK.as_nanos() / call.as_nanos();
            pair.measured[number].0 = u32::try_from(calls)?.max(CALLS_MIN);
        }
    }
    for _ in 0..BLOCKS {
        for pair in &mut pairs {
            for (number, bytes) in SIZES.into_iter().enumerate() {
                let ns = pair.block(pair.measured[number].0, bytes)?;
                pair.measured[number].1.push(ns);
            }
        }
    }
    let results = pairs.iter_mut().map(Pair::results).collect::<Vec<_>>();
    let mut out = io::stdout().lock();
    match as_json {
        true => writeln!(out, "{}", json(&results))?,
        false => table(&results, &mut out)?,
    }
    Ok(())
}

/// What came of a pair: for each size the median of the blocks and the least one.
struct Results {
    name: String,
    ns: [(f64, f64); SIZES.len()],
}

fn table(results: &[Results], out: &mut impl Write) -> io::Result<()> {
    write!(out, "{:24}", "client to server")?;
    for bytes in SIZES {
        write!(out, "  {:>32}", format!("{bytes} B: ns (least), ratio"))?;
    }
    writeln!(out)?;
    for pair in results {
        write!(out, "{:24}", pair.name)?;
        for (ns, base) in pair.ns.iter().zip(results[0].ns) {
            let (median, least) = ns;
            write!(out, "  {median:10.0} ({least:9.0}), {:8.2}", median / base.0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn json(results: &[Results]) -> serde_json::Value {
    let pairs = results.iter().flat_map(|pair| {
        SIZES.into_iter().zip(pair.ns).map(|(bytes, (median, least))| {
            serde_json::json!({
                "pair": pair.name, "payload_bytes": bytes, "median_ns": median, "least_ns": least,
            })
        })
    });
    let pairs = pairs.collect::<Vec<_>>();
    serde_json::json!({ "schema": "nearcall.language-bench/1", "blocks": BLOCKS, "pairs": pairs })
}

/// Serves the two methods that are measured, in the loop of the server: the other servers have no
/// runtime of tasks either. Ends with its input.
///
/// # Errors
///
/// Nothing can listen at `address`.
pub(super) fn serve(address: &str) -> anyhow::Result<()> {
    let server = Server::builder().register(TestServiceDispatcher::new(Measured));
    let server = server.listen(address).start()?;
    super::print(&format!("ready {}", server.addresses()[0]))?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    drop(server);
    Ok(())
}

struct Measured;

fn not_measured<T>() -> Result<T, Status> {
    Err(Status::unimplemented("this server is there to be measured: see `interop language server`"))
}

impl TestService for Measured {
    fn empty_call(&self, _: &Context<'_>, _: &Empty) -> Result<Empty, Status> {
        Ok(Empty::default())
    }

    fn unary_call(
        &self,
        _: &Context<'_>,
        request: &SimpleRequest,
    ) -> Result<SimpleResponse, Status> {
        replies::unary(request)
    }

    fn cacheable_unary_call(
        &self,
        _: &Context<'_>,
        _: &SimpleRequest,
    ) -> Result<SimpleResponse, Status> {
        not_measured()
    }

    fn streaming_output_call(
        &self,
        _: &Context<'_>,
        _: &StreamingOutputCallRequest,
        _: ItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        not_measured()
    }

    fn streaming_input_call(
        &self,
        _: &Context<'_>,
        _: ItemReceiver<StreamingInputCallRequest>,
    ) -> Result<StreamingInputCallResponse, Status> {
        not_measured()
    }

    fn full_duplex_call(
        &self,
        _: &Context<'_>,
        _: ItemReceiver<StreamingOutputCallRequest>,
        _: ItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        not_measured()
    }

    fn half_duplex_call(
        &self,
        _: &Context<'_>,
        _: ItemReceiver<StreamingOutputCallRequest>,
        _: ItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        not_measured()
    }

    fn unimplemented_call(&self, _: &Context<'_>, _: &Empty) -> Result<Empty, Status> {
        not_measured()
    }
}
