//! Starts the two processes of a launch, collects what they write, and ends them.
//!
//! A process reads one `Orders` as a line of JSON from its input and writes lines that begin with
//! `LINE_MARK`. Always true: when [`launch`] returns, both processes are gone and the launch's
//! folder is removed with everything below it. Not here: what the processes do (`peer.rs`).

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nearcall_os::clock;
use nearcall_os::process::{self, Child};
use serde::{Deserialize, Serialize};

use crate::measure::{Cell, Measured};
use crate::memory::{self, Idle};

/// What one of the two processes has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) rival: String,
    pub(crate) role: Role,
    /// A folder of this launch alone, for sockets and whatever else the rival needs.
    pub(crate) folder: PathBuf,
    /// Its name, for rivals whose names are global. No longer than 24 letters.
    pub(crate) name: String,
    /// Where it runs; `None` wherever the scheduler wants.
    pub(crate) cpu: Option<usize>,
    /// The server's process, of which the client counts the processor time.
    pub(crate) server_pid: u32,
    /// In the order in which they are measured.
    pub(crate) cells: Vec<Cell>,
    /// No message of the launch is larger; what the rival allocates beforehand has this size.
    pub(crate) message_bytes_max: usize,
    pub(crate) seed: u64,
    /// For warm-up and measured region of each cell.
    pub(crate) cell_ns: u64,
    /// The calibrated counter of the processor.
    pub(crate) tsc: Option<[u64; 2]>,
    /// After the cells, the client stays connected until its input is closed.
    pub(crate) stay: bool,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A line of a process's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The server can be connected to.
    Listening,
    /// A cell is done.
    Cell { cell: Cell, measured: Box<Measured> },
    /// The client is connected and quiet.
    Quiet,
    /// The process ends because of this.
    Failed(String),
    /// The client ends, and all is well.
    Done,
}

impl Line {
    /// Writes it to standard output.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string(self)?;
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\n{LINE_MARK}{json}\n").as_bytes())?;
        Ok(out.flush()?)
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.strip_prefix(LINE_MARK)?).ok()
    }
}

/// What a launch gave.
#[derive(Default)]
pub(crate) struct Launched {
    pub(crate) cells: Vec<(Cell, Measured)>,
    pub(crate) idle: Option<Idle>,
    /// Why it ended before its time.
    pub(crate) failure: Option<String>,
}

/// How long things may take.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// Until the server listens, and until the client has connected.
    pub(crate) start: Duration,
    /// Until all cells are measured.
    pub(crate) cells: Duration,
    /// How long an idle server is watched; none if it is not.
    pub(crate) idle: Option<Duration>,
}

/// Runs one launch. `cpus` are the client's and the server's.
pub(crate) fn launch(orders: &Orders, cpus: [Option<usize>; 2], patience: Patience) -> Launched {
    let mut launched = Launched::default();
    let outcome = fs::create_dir_all(&orders.folder)
        .context("cannot make a folder")
        .and_then(|()| play(orders, cpus, patience, &mut launched));
    launched.failure = outcome.err().map(|error| format!("{error:#}"));
    clean(orders);
    launched
}

fn play(
    orders: &Orders,
    cpus: [Option<usize>; 2],
    patience: Patience,
    launched: &mut Launched,
) -> anyhow::Result<()> {
    let with = |role, cpu, server_pid| Orders { role, cpu, server_pid, ..orders.clone() };
    let mut server = End::start(&with(Role::Server, cpus[1], 0), "server")?;
    let mut until = Until::new(patience.start);
    match server.next(&mut until)? {
        Line::Listening => {}
        line => bail!("the server said {line:?}"),
    }
    let mut client = End::start(&with(Role::Client, cpus[0], server.child.pid()), "client")?;
    let mut until = Until::new(patience.start + patience.cells);
    loop {
        let line = client.next(&mut until).map_err(|error| match server.complaint() {
            Some(complaint) => anyhow!("{error:#}; server: {complaint}"),
            None => error,
        })?;
        match line {
            Line::Cell { cell, measured } => launched.cells.push((cell, *measured)),
            Line::Quiet => {
                let watch = patience.idle.unwrap_or_default();
                launched.idle = Some(memory::watch(server.child.pid(), watch)?);
                client.stdin.take();
            }
            Line::Done => return Ok(()),
            Line::Listening => bail!("the client listens"),
            Line::Failed(text) => bail!(text),
        }
    }
}

/// When waiting ends.
struct Until(u64);

impl Until {
    fn new(after: Duration) -> Self {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Self(clock::monotonic_ns().saturating_add(after_ns))
    }

    fn left(&self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(clock::monotonic_ns()))
    }
}

/// One process. Dropping it kills and reaps it.
struct End {
    who: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    errors: PathBuf,
}

impl End {
    fn start(orders: &Orders, who: &'static str) -> anyhow::Result<Self> {
        let errors = orders.folder.join(format!("{who}.errors"));
        // Works also when the program's file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg(PEER_VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&errors)?);
        let mut child = Child::spawn(&mut command).context("cannot start a process")?;
        let mut stdin = child.pipes().stdin.take();
        let stdout = child.pipes().stdout.take().context("no output")?;
        let (said, lines) = mpsc::channel();
        // Ends with the process's output, that is, with the process.
        std::thread::spawn(move || {
            let texts = BufReader::new(stdout).lines().map_while(Result::ok);
            texts.filter_map(|text| Line::parse(&text)).try_for_each(|line| said.send(line))
        });
        if let Some(stdin) = &mut stdin {
            stdin.write_all(format!("{}\n", serde_json::to_string(orders)?).as_bytes())?;
        }
        Ok(Self { who, child, stdin, lines, errors })
    }

    /// Waits for the next line.
    fn next(&mut self, until: &mut Until) -> anyhow::Result<Line> {
        let who = self.who;
        match self.lines.recv_timeout(until.left()) {
            Ok(Line::Failed(text)) => bail!("{who}: {text}"),
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("{who}: no result in time; it was killed"),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait(Some(GRACE))?;
                let status = status.map_or("closed its output".to_owned(), |s| s.to_string());
                let last = self.last_error().map(|line| format!(": {line}")).unwrap_or_default();
                bail!("{who}: ended with {status}{last}")
            }
        }
    }

    /// What the process has said of its own failure, or what killed it.
    fn complaint(&mut self) -> Option<String> {
        let failed = |line| match line {
            Line::Failed(text) => Some(text),
            _ => None,
        };
        let said = self.lines.recv_timeout(GRACE).ok().and_then(failed);
        said.or_else(|| self.last_error())
    }

    fn last_error(&self) -> Option<String> {
        let text = fs::read_to_string(&self.errors).ok()?;
        let last = text.lines().rfind(|line| !line.trim().is_empty())?;
        Some(last.chars().take(COMPLAINT_LETTERS).collect())
    }
}

/// Removes what the launch has left: its folder, and shared memory of its name.
fn clean(orders: &Orders) {
    let _ = fs::remove_dir_all(&orders.folder);
    let files = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    for file in files.filter(|file| is_of(&file.path(), &orders.name)) {
        let _ = fs::remove_file(file.path());
    }
}

/// Removes what earlier runs have left that could not clean up.
pub(crate) fn sweep() {
    for place in [SHARED_MEMORY, FOLDERS] {
        let files = fs::read_dir(place).into_iter().flatten().flatten();
        for path in files.map(|file| file.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let pid = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
            let is_ours = pid.is_some_and(|(pid, _)| pid.parse::<u32>().is_ok());
            if is_ours && pid.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    }
}

/// The name of this process's launch `number`, and its folder.
pub(crate) fn name_and_folder(number: u32) -> (String, PathBuf) {
    let name = format!("{NAME}{}-{number}", process::pid());
    let folder = Path::new(FOLDERS).join(&name);
    (name, folder)
}

fn is_of(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
}

/// The program's hidden verb that a process of a launch runs.
pub(crate) const PEER_VERB: &str = "peer";

/// What our lines begin with; libraries may print others.
const LINE_MARK: &str = "nearcall-rival ";

/// How long a process may take to end after it has closed its output.
const GRACE: Duration = Duration::from_millis(300);

/// A complaint is for one line of a table.
const COMPLAINT_LETTERS: usize = 300;

/// Where named shared memory lies.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where folders of launches lie. Short, because a socket's path has 108 bytes.
const FOLDERS: &str = "/tmp";

/// What names of launches begin with, before the process that launched them.
const NAME: &str = "nearcall-p";
