//! A random run through two gateways in a row, of which any process is killed at any time: clients,
//! gateway 2, gateway 1, a server of nearcall.
//!
//! Each process but this one is a child. In the first half of the time all of them are killed, in
//! the second clients alone, so that what the others hold can be seen to stay. A round ends with a
//! client whose calls must all succeed.
//! **Invariants:** no process outlives the storm; what is killed, and when, follows from the seed.
//! **Not here:** calls (`client.rs`), the service (`service.rs`), what must agree (`books.rs`).

mod books;
mod client;
mod job;
mod service;

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};
use nearcall::{Deadline, Server};
use nearcall_grpc::Gateway;
use nearcall_os::clock;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::{Child, terminate_pidfd};
use serde_json::{Value, json};

use self::books::{Book, Books};
use self::job::{StormAsyncDispatcher, StormCaller};
use self::service::Service;

/// Longest time of a step that must end. Far above what is needed on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long clients call in a round, and those after it that must succeed, in milliseconds.
const ROUND_MS: u64 = 2_000;
const CALM_MS: u64 = 300;
/// Clients of a round.
const CLIENTS: usize = 2;
/// Time between two kills in milliseconds, at most.
const KILL_EVERY_MS: u64 = 400;
/// Time until a process that was killed is started again in milliseconds, at most.
const AWAY_MS: u64 = 150;
/// What a process may hold more after a round than after its first: connections that end at any
/// time, and memory that the allocator keeps.
const DESCRIPTORS_SLACK: usize = 4;
const MEMORY_SLACK_KIB: u64 = 96 << 10;
/// Calls that do not agree and are printed.
const PROBLEMS_SHOWN: usize = 10;

/// What `interop storm` runs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How long
    #[arg(long, value_name = "SECONDS")]
    seconds: u64,
    /// Repeats the kills and the calls of a run; without it one is drawn and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A child process of the storm.
#[derive(Debug, clap::Subcommand)]
pub enum Part {
    /// Serve, and keep the book
    Server {
        /// Where to listen
        #[arg(long)]
        address: String,
        /// A file that lines are appended to
        #[arg(long, value_name = "FILE")]
        book: PathBuf,
        /// Of all servers, the first one is 0
        #[arg(long)]
        number: u32,
    },
    /// Pass calls on
    Gateway {
        /// Where to: a name or grpc://HOST:PORT
        #[arg(long)]
        address: String,
        /// Where to listen
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
    },
    /// Call the server at random
    Client(client::Part),
}

/// Runs a child process until it is told to end.
///
/// # Errors
///
/// It cannot listen, or cannot write its book.
pub async fn run_part(part: Part, shutdown: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    match part {
        Part::Server { address, book, number } => {
            let service = Service { server: number, book: Book::open(&book)? };
            let tasks = tokio::runtime::Handle::current();
            let dispatcher = StormAsyncDispatcher::new(service).spawn_on(move |task| {
                tasks.spawn(task);
            });
            let server = Server::builder().register(dispatcher).listen(&address).start()?;
            writeln!(io::stdout(), "ready")?;
            server.serve_until(shutdown).await?;
        }
        Part::Gateway { address, listen } => {
            nearcall_grpc::install()?;
            let gateway = Gateway::builder().expose(&address, &[StormCaller::INTERFACE.name]);
            let gateway = gateway.listen(&listen).start()?;
            writeln!(io::stdout(), "ready")?;
            shutdown.await;
            tokio::task::spawn_blocking(move || gateway.stop()).await?;
        }
        Part::Client(part) => client::run(part).await?,
    }
    Ok(())
}

/// Runs the storm, prints what came of it, and returns whether all books agree.
///
/// # Errors
///
/// A process does not start or end, or holds ever more.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let storm = Storm::start(seed);
    let ran = storm.and_then(|mut storm| {
        let half = Deadline::after(Duration::from_secs(options.seconds) / 2);
        let end = Deadline::after(Duration::from_secs(options.seconds));
        while !end.has_passed() {
            storm.round(!half.has_passed())?;
        }
        storm.finish()
    });
    let (document, problems) = ran.with_context(|| format!("seed {seed}"))?;
    for problem in problems.iter().take(PROBLEMS_SHOWN) {
        writeln!(io::stderr(), "seed {seed}: {problem}")?;
    }
    let mut out = io::stdout().lock();
    if options.json {
        writeln!(out, "{document}")?;
    } else {
        for (name, value) in document.as_object().into_iter().flatten() {
            writeln!(out, "{name}: {value}")?;
        }
    }
    Ok(problems.is_empty())
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) memory_kib: u64,
}

/// A process that serves.
struct Running {
    child: Child,
    /// After its first round.
    first: Option<Held>,
    rounds: u32,
}

/// The processes that serve, in the order of a call backwards.
const SERVER: usize = 0;
const NAMES: [&str; 3] = ["server", "gateway 1", "gateway 2"];

struct Storm {
    random: fastrand::Rng,
    seed: u64,
    directory: PathBuf,
    running: Vec<Running>,
    /// Of servers that were started.
    servers: u32,
    clients: u64,
    rounds: u32,
    /// Of the server, the gateways and of clients.
    kills: [u64; 4],
    books: Books,
}

impl Storm {
    fn start(seed: u64) -> anyhow::Result<Self> {
        let directory = env::temp_dir().join(format!("nearcall-storm-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let random = fastrand::Rng::with_seed(seed);
        let (running, books, kills) = (Vec::new(), Books::default(), [0; 4]);
        let (servers, clients, rounds) = (0, 0, 0);
        let mut storm =
            Self { random, seed, directory, running, servers, clients, rounds, kills, books };
        for index in 0..NAMES.len() {
            let started = storm.serve(index)?;
            storm.running.push(started);
        }
        Ok(storm)
    }

    fn book(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A gateway's place: at an address of the loopback that no other storm has, so that the port
    /// of one that was killed is free.
    fn place(index: usize) -> String {
        let [_, a, b, c] = process::id().to_be_bytes();
        format!("127.{}.{b}.{c}:{}", 64 + a % 64, 50_050 + index)
    }

    /// Starts the process that serves at a place of the row.
    fn serve(&mut self, index: usize) -> anyhow::Result<Running> {
        let service = format!("unix:@nearcall-storm-{}", process::id());
        let mut command = part(if index == SERVER { "server" } else { "gateway" })?;
        if index == SERVER {
            let number = self.servers.to_string();
            command.args(["--address", &service, "--number", &number, "--book"]);
            command.arg(self.book("servers"));
            self.servers += 1;
        } else {
            let next = format!("grpc://{}", Self::place(index - 1));
            let next = if index - 1 == SERVER { service } else { next };
            command.args(["--address", &next, "--listen", &Self::place(index)]);
        }
        let mut child = Child::spawn(&mut command)?;
        let mut output = child.pipes().stdout.take().context("no output")?;
        let ready = poll_one(&output, Interest::Readable, PATIENCE)?;
        let bytes = if ready.is_some() { output.read(&mut [0; 64])? } else { 0 };
        ensure!(bytes > 0, "the {} does not start", NAMES[index]);
        Ok(Running { child, first: None, rounds: 0 })
    }

    fn client(&mut self, ms: u64, is_calm: bool) -> anyhow::Result<Child> {
        let mut command = part("client")?;
        let (gateway, first) = (Self::place(NAMES.len() - 1), self.clients << 32);
        command.args(["--gateway", &gateway, "--first", &first.to_string()]);
        command.args(["--seed", &self.random.u64(..).to_string(), "--ms", &ms.to_string()]);
        command.arg("--book").arg(self.book("clients"));
        command.args(is_calm.then_some("--calm"));
        self.clients += 1;
        Ok(Child::spawn(&mut command)?)
    }

    /// Lets clients call, kills, and compares what both sides have written.
    fn round(&mut self, kills_all: bool) -> anyhow::Result<()> {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(self.client(ROUND_MS, false)?);
        }
        let until = Deadline::after(Duration::from_millis(ROUND_MS));
        while !until.has_passed() {
            clock::pause(Duration::from_millis(self.random.u64(20..KILL_EVERY_MS)));
            let victim = self.random.usize(if kills_all { 0 } else { NAMES.len() }..=NAMES.len());
            if victim == NAMES.len() {
                self.kills[victim] += 1;
                let client = self.client(ROUND_MS, false)?;
                let index = self.random.usize(..CLIENTS);
                std::mem::replace(&mut clients[index], client).kill()?;
                continue;
            }
            // One in three takes another one with it.
            let other = if self.random.u8(..3) == 0 { (victim + 1) % NAMES.len() } else { victim };
            let victims = victim.min(other)..=victim.max(other);
            for victim in victims.clone() {
                self.kill(victim)?;
            }
            clock::pause(Duration::from_millis(self.random.u64(..AWAY_MS)));
            // Those that call first: nothing behind them is there when they start.
            for victim in victims.rev() {
                self.running[victim] = self.serve(victim)?;
                clock::pause(Duration::from_millis(self.random.u64(..AWAY_MS)));
            }
        }
        clients.into_iter().try_for_each(wait)?;
        wait(self.client(CALM_MS, true)?)?;
        self.rounds += 1;
        self.compare()
    }

    fn kill(&mut self, victim: usize) -> anyhow::Result<()> {
        self.kills[victim] += 1;
        let child = &mut self.running[victim].child;
        // One in four may end what it does.
        if self.random.u8(..4) == 0 {
            return end(child, NAMES[victim]);
        }
        child.kill()?;
        Ok(())
    }

    fn compare(&mut self) -> anyhow::Result<()> {
        let files = [self.book("clients"), self.book("servers")];
        let end = Deadline::after(PATIENCE);
        loop {
            self.books.read([&files[0], &files[1]])?;
            let running = self.books.running(self.servers - 1);
            if running.is_empty() {
                break;
            }
            ensure!(!end.has_passed(), "calls run whose clients are gone: {running:?}");
            clock::pause(Duration::from_millis(5));
        }
        for index in 0..NAMES.len() {
            self.note_held(index)?;
        }
        if io::stderr().is_terminal() {
            let (rounds, calls) = (self.rounds, self.books.calls.len());
            let problems = self.books.problems().len();
            writeln!(io::stderr(), "{rounds} rounds, {calls} calls, {problems} do not agree")?;
        }
        Ok(())
    }

    /// Compares what a process holds with what it held after its first round.
    fn note_held(&mut self, index: usize) -> anyhow::Result<Held> {
        let running = &mut self.running[index];
        let end = Deadline::after(PATIENCE);
        loop {
            let held = held(running.child.pid())?;
            let first = *running.first.get_or_insert(held);
            let is_more = held.descriptors > first.descriptors + DESCRIPTORS_SLACK
                || held.memory_kib > 2 * first.memory_kib + MEMORY_SLACK_KIB;
            if !is_more {
                running.rounds += 1;
                return Ok(held);
            }
            let name = NAMES[index];
            ensure!(!end.has_passed(), "the {name} holds {held:?}, and after a round {first:?}");
            clock::pause(Duration::from_millis(5));
        }
    }

    /// Ends all processes, and returns what came of it and the calls that do not agree.
    fn finish(mut self) -> anyhow::Result<(Value, Vec<String>)> {
        let mut processes = serde_json::Map::new();
        for (index, name) in NAMES.into_iter().enumerate() {
            let last = self.note_held(index)?;
            let Running { first, rounds, .. } = self.running[index];
            let first = first.unwrap_or(last);
            processes.insert(
                name.to_owned(),
                json!({
                    "kills": self.kills[index],
                    "rounds_of_last": rounds - 1,
                    "descriptors": [first.descriptors, last.descriptors],
                    "memory_kib": [first.memory_kib, last.memory_kib],
                }),
            );
        }
        for (running, name) in self.running.iter_mut().zip(NAMES).rev() {
            end(&mut running.child, name)?;
        }
        // What came after the last comparison.
        self.books.read([&self.book("clients"), &self.book("servers")])?;
        let problems = self.books.problems();
        let document = json!({
            "schema": "nearcall.storm/1",
            "seed": self.seed,
            "rounds": self.rounds,
            "calls": self.books.counts(),
            "late_ms_max": self.books.late_ms_max(),
            "processes": processes,
            "clients_killed": self.kills[NAMES.len()],
            "not_equal": problems.len(),
        });
        match problems.len() {
            0 => fs::remove_dir_all(&self.directory)?,
            _ => writeln!(io::stderr(), "the books are in {}", self.directory.display())?,
        }
        Ok((document, problems))
    }
}

/// Returns the command of a child process.
fn part(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["storm-part", name]).stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

/// Waits for the end of a client, which must succeed.
fn wait(mut client: Child) -> anyhow::Result<()> {
    match client.wait(PATIENCE)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("a client has failed: {status}"),
        None => bail!("a client does not end: a call waits beyond its deadline"),
    }
}

/// Ends a process by SIGTERM.
fn end(child: &mut Child, name: &str) -> anyhow::Result<()> {
    terminate_pidfd(child.pidfd())?;
    let status = child.wait(PATIENCE)?;
    ensure!(status.is_some_and(|it| it.success()), "the {name} does not end well: {status:?}");
    Ok(())
}

pub(crate) fn held(pid: u32) -> anyhow::Result<Held> {
    let directory = Path::new("/proc").join(pid.to_string());
    let descriptors = fs::read_dir(directory.join("fd"))?.count();
    let status = fs::read_to_string(directory.join("status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory_kib = resident.and_then(|it| it.split_whitespace().next()?.parse().ok());
    Ok(Held { descriptors, memory_kib: memory_kib.context("no VmRSS")? })
}
