//! Compares `?via=auto` with each fixed mechanism on scripted workloads, by real calls.
//!
//! Each workload runs over each mechanism that servers offer by default and with `via=auto`, in
//! turn and in random order, in two fresh processes that are pinned as the workload says. The cost
//! of a run is the weighted time of its calls and CPU time of both ends for them.
//!
//! **Invariants:** every run of a workload makes the same calls; those while a connection finds out
//! what is best count like all others.
//!
//! **Not here:** what is decided (`nearcall`), what calls cost (`advise/costs.rs`).
#![forbid(unsafe_code)]

mod workload;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs};

use nearcall::stream::ItemReceiver;
use nearcall::{Client, Context, EventLoop, Limits, Mechanism, Server, Status};
use nearcall_bench::advise::costs;
use nearcall_bench::advise::store::{self, Stored, StoredCost};
use nearcall_bench::calls::generated::{Argument, Bench, BenchCaller, BenchDispatcher};
use nearcall_bench::peer;
use nearcall_bench::runner::{Program, RunContext};
use nearcall_channel::spin::tuning;
use nearcall_os::process::Child;
use nearcall_os::{clock, cpu};
use serde::{Deserialize, Serialize};

use self::workload::{Phase, Workload, workloads};

const USAGE: &str = "\
usage: auto_check [--rounds N] [--seed N] [--only WORKLOAD] [--costs FILE]
  --rounds N        how often each workload runs over each mechanism (3)
  --seed N          decides the order (1)
  --only WORKLOAD   chatty, bulk, rare, one-cpu or phases
  --costs FILE      costs of this machine, as `nearcall advise --profile` stores them; without it
                    they are measured first";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["serve", address, cpu] => serve(address, cpu),
        ["call", address, via, workload, pid] => call(address, via, workload, pid),
        ["burn"] => burn(),
        [PEER] => peer::run(),
        _ => match Wanted::parse(&words) {
            Ok(wanted) => compare(&wanted),
            Err(error) => Err(format!("{error}\n{USAGE}")),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the arguments ask for.
struct Wanted {
    rounds: u32,
    seed: u64,
    only: Option<String>,
    costs: Option<PathBuf>,
}

impl Wanted {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut wanted = Self { rounds: 3, seed: 1, only: None, costs: None };
        for pair in words.chunks(2) {
            let &[name, value] = pair else { return Err(format!("a value must follow {pair:?}")) };
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: no number"));
            match name {
                "--rounds" => wanted.rounds = u32::try_from(number()?.max(1)).unwrap_or(1),
                "--seed" => wanted.seed = number()?,
                "--only" => wanted.only = Some(value.to_owned()),
                "--costs" => wanted.costs = Some(value.into()),
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(wanted)
    }
}

/// What one run has cost, as its client prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figures {
    calls: u64,
    /// The sum of the times of calls.
    latency_ns: f64,
    client_cpu_ns: f64,
    server_cpu_ns: f64,
    switches: usize,
    explained: Vec<String>,
}

impl Figures {
    /// The weighted cost of a call, in nanoseconds.
    fn cost(&self) -> f64 {
        let cpu_ns = self.client_cpu_ns + self.server_cpu_ns;
        (LATENCY_WEIGHT * self.latency_ns + CPU_WEIGHT * cpu_ns) / self.calls as f64
    }
}

/// Runs every workload over every mechanism, and prints what that has cost.
fn compare(wanted: &Wanted) -> Result<(), String> {
    let cpus = cpu::allowed();
    if cpus.len() < 2 {
        return Err("two CPUs are needed".into());
    }
    if let Some(only) = &wanted.only
        && !workloads().iter().any(|it| it.name == only)
    {
        return Err(format!("there is no workload {only}\n{USAGE}"));
    }
    match &wanted.costs {
        Some(path) => compare_by(wanted, path),
        None => {
            let path = costs_path();
            let outcome = measure_costs(&path).and_then(|()| compare_by(wanted, &path));
            let _ = fs::remove_file(&path);
            outcome
        }
    }
}

/// The same, by costs that are stored.
fn compare_by(wanted: &Wanted, costs: &Path) -> Result<(), String> {
    let stored = tuning::read(costs).map_err(|error| format!("{}: {error}", costs.display()))?;
    stored.costs.iter().for_each(|cost| note(&cost.to_string()));
    let chosen: Vec<Workload> = workloads()
        .into_iter()
        .filter(|it| wanted.only.as_ref().is_none_or(|only| only == it.name))
        .collect();
    let offered = Mechanism::all().filter(|it| it.offered_by_default() && it.supported().is_ok());
    let vias: Vec<&str> = offered.map(Mechanism::name).chain([AUTO]).collect();
    let mut rng = fastrand::Rng::with_seed(wanted.seed);
    let mut found: BTreeMap<(usize, &str), Vec<Figures>> = BTreeMap::new();
    for round in 0..wanted.rounds {
        for (index, workload) in chosen.iter().enumerate() {
            let mut order = vias.clone();
            rng.shuffle(&mut order);
            for via in order {
                let of = format!("round {}, {} over {via}", round + 1, workload.name);
                let figures =
                    run(workload, via, costs).map_err(|error| format!("{of}: {error}"))?;
                note(&format!("{of}: {:.2} us a call", figures.cost() / 1e3));
                found.entry((index, via)).or_default().push(figures);
            }
        }
    }
    print(&chosen, &vias, &found)
}

/// A file of this process's own, for costs.
fn costs_path() -> PathBuf {
    env::temp_dir().join(format!("nearcall-auto-check-{}.conf", std::process::id()))
}

/// Measures what calls cost on this machine, and stores it.
fn measure_costs(path: &Path) -> Result<(), String> {
    let stored = store::measure(clock::realtime_ns() / 1_000_000_000);
    let stored = stored.ok_or("cannot measure a wake-up: no thread could be had")?;
    let context = RunContext {
        progress: &|done, total, what| note(&format!("costs, launch {done} of {total}: {what}")),
        ..RunContext::new(Program::current(&[PEER]))
    };
    let measured = costs::measure(costs::TIME, &context).map_err(|error| error.to_string())?;
    let stored = Stored { costs: measured.iter().map(StoredCost::from).collect(), ..stored };
    stored.save(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Prints a table, and whether `via=auto` is as good as it should be. Fails where it is not.
fn print(
    chosen: &[Workload],
    vias: &[&str],
    found: &BTreeMap<(usize, &str), Vec<Figures>>,
) -> Result<(), String> {
    let mut text = format!(
        "Weighted cost of a call in us: {LATENCY_WEIGHT} of its time, {CPU_WEIGHT} of the CPU time \
         of both ends; the median of rounds\n\n{:<12}",
        "workload"
    );
    vias.iter().for_each(|via| text += &format!("{via:>15}"));
    text += "\n";
    let (mut verdicts, mut bad) = (String::new(), Vec::new());
    for (index, workload) in chosen.iter().enumerate() {
        let cost = |via: &str| {
            let all = found.get(&(index, via)).map_or(&[][..], Vec::as_slice);
            median(all.iter().map(Figures::cost).collect())
        };
        text += &format!("{:<12}", workload.name);
        vias.iter().for_each(|via| text += &format!("{:>15.2}", cost(via) / 1e3));
        text += "\n";
        let fixed = vias.iter().filter(|via| **via != AUTO).map(|via| (*via, cost(via)));
        let Some((best, least)) = fixed.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let ratio = cost(AUTO) / least;
        let is_good = if workload.alternates { ratio < 1.0 } else { ratio <= NEAR };
        bad.extend((!is_good).then_some(workload.name));
        let runs = found.get(&(index, AUTO)).map_or(&[][..], Vec::as_slice);
        let switches: Vec<String> = runs.iter().map(|it| it.switches.to_string()).collect();
        verdicts += &format!(
            "{:<12} auto costs {ratio:.3} of the best fixed one ({best}): {}; switches: {}\n",
            workload.name,
            if is_good { "good" } else { "NOT GOOD" },
            switches.join(" ")
        );
        for line in runs.last().into_iter().flat_map(|run| &run.explained) {
            verdicts += &format!("    {line}\n");
        }
    }
    let written = writeln!(io::stdout(), "{text}\n{verdicts}");
    written.map_err(|error| error.to_string())?;
    match bad.is_empty() {
        true => Ok(()),
        false => Err(format!("via=auto is not as good as it should be: {}", bad.join(", "))),
    }
}

/// Runs a workload once, in two fresh processes.
fn run(workload: &Workload, via: &str, costs: &Path) -> Result<Figures, String> {
    let name = format!("unix:@nearcall-auto-check-{}", clock::monotonic_ns());
    let cpus = cpu::allowed();
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("NEARCALL_TUNING", costs);
        Child::spawn(&mut command).map_err(|error| error.to_string())
    };
    let burners = (0..if workload.is_loaded { cpus.len() } else { 0 }).map(|_| start(&["burn"]));
    let burners: Vec<Child> = burners.collect::<Result<_, _>>()?;
    let server = start(&["serve", &name, &cpus[0].to_string()])?;
    let pid = server.pid().to_string();
    let mut client = start(&["call", &name, via, workload.name, &pid])?;
    let ended = client.wait(Some(RUN_TIMEOUT)).map_err(|error| error.to_string())?;
    let mut text = String::new();
    if ended.is_some_and(|ended| ended.success())
        && let Some(output) = client.pipes().stdout.as_mut()
    {
        output.read_to_string(&mut text).map_err(|error| error.to_string())?;
    }
    for mut child in burners.into_iter().chain([server, client]) {
        child.kill().map_err(|error| error.to_string())?;
    }
    serde_json::from_str(&text).map_err(|error| format!("the client failed: {error}"))
}

/// A server that does no work.
struct Service;

impl Bench for Service {
    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }

    fn take(&self, _context: &Context<'_>, _request: &Argument) -> Result<(), Status> {
        Ok(())
    }

    fn pass(&self, _context: &Context<'_>, _request: &Argument) -> Result<(), Status> {
        Ok(())
    }

    fn note(&self, _context: &Context<'_>, _request: &Argument) {}

    fn upload(&self, _context: &Context<'_>, items: ItemReceiver<Argument>) -> Result<(), Status> {
        while items.recv()?.is_some() {}
        Ok(())
    }

    fn mark(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }
}

/// The process that answers.
fn serve(address: &str, cpu: &str) -> Result<(), String> {
    let cpu = cpu.parse().map_err(|_| "no CPU")?;
    cpu::pin_current(cpu).map_err(|error| error.to_string())?;
    let event_loop = EventLoop::new().map_err(|error| error.to_string())?;
    let limits = Limits { switches_per_minute_max: 100, ..Limits::default() };
    let server = Server::with_limits(&event_loop, limits);
    let registered = server.register(BenchDispatcher::new(Service));
    registered.map_err(|error| error.to_string())?;
    server.listen(address).map_err(|error| error.to_string())?;
    event_loop.run().map_err(|error| error.to_string())
}

/// The process that calls.
fn call(address: &str, via: &str, workload: &str, pid: &str) -> Result<(), String> {
    let workload = workloads().into_iter().find(|it| it.name == workload).ok_or("no workload")?;
    let cpus = cpu::allowed();
    pin(&cpus, &workload.phases[0])?;
    let address = format!("{address}?via={via}");
    let client = Client::builder().automatic_weights(LATENCY_WEIGHT, CPU_WEIGHT).build();
    client.hunt(&address, CONNECT_TIMEOUT).map_err(|error| error.to_string())?;
    let caller = BenchCaller::new(&client, &address).map_err(|error| error.to_string())?;
    let server_cpu = || -> Result<f64, String> {
        let path = format!("/proc/{pid}/schedstat");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        first.ok_or_else(|| format!("{path}: {text}"))
    };
    let (mut calls, mut latency_ns, mut client_cpu_ns) = (0_u64, 0.0, 0.0);
    let server_before = server_cpu()?;
    for phase in &workload.phases {
        pin(&cpus, phase)?;
        let argument = Argument { data: vec![7; phase.bytes].into() };
        let end_ns = clock::monotonic_ns() + phase.span_ns;
        let mut due_ns = clock::monotonic_ns();
        for _ in 0..phase.bursts {
            due_ns += phase.span_ns / u64::from(phase.bursts);
            let (begin_ns, cpu_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
            for _ in 0..phase.calls {
                caller.take(&argument).map_err(|error| error.to_string())?;
            }
            latency_ns += clock::monotonic_ns().saturating_sub(begin_ns) as f64;
            client_cpu_ns += clock::thread_cpu_ns().saturating_sub(cpu_ns) as f64;
            calls += u64::from(phase.calls);
            clock::pause_until(due_ns);
        }
        clock::pause_until(end_ns);
    }
    let server_cpu_ns = server_cpu()? - server_before;
    let info = client.connections().into_iter().next().ok_or("the connection has ended")?;
    let explained = info.switches.iter().map(ToString::to_string);
    let explained = explained.chain(info.automatic.clone()).collect();
    let switches = info.switches.len();
    let figures = Figures { calls, latency_ns, client_cpu_ns, server_cpu_ns, switches, explained };
    let text = serde_json::to_string(&figures).map_err(|error| error.to_string())?;
    writeln!(io::stdout(), "{text}").map_err(|error| error.to_string())
}

/// Puts the client where a phase has it; the server is on the first CPU.
fn pin(cpus: &[usize], phase: &Phase) -> Result<(), String> {
    cpu::unpin_current(cpus).map_err(|error| error.to_string())?;
    let place = if phase.one_cpu { cpus[0] } else { cpus[1] };
    cpu::pin_current(place).map_err(|error| error.to_string())
}

/// Computes without end.
fn burn() -> Result<(), String> {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The verb of the processes that measure costs.
const PEER: &str = "peer-process";

const AUTO: &str = "auto";

const LATENCY_WEIGHT: f64 = 0.7;

const CPU_WEIGHT: f64 = 0.3;

/// How near to the best fixed mechanism is good.
const NEAR: f64 = 1.1;

/// Both processes have just been started.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Three times what the longest takes.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
