//! Starts the two processes of a launch, collects what they write, and ends them.
//!
//! A process reads one `LaunchRequest` and reports by `Line`s, as every worker of `nearcall-bench`.
//!
//! **Invariants:** when [`launch`] returns, both processes are gone and the launch's directory is
//! removed with everything below it. **Not here:** what the processes do (`peer.rs`), what a
//! request and a line contain (`request.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nearcall_bench::runner::Program;
use nearcall_bench::worker::{self, Worker};
use nearcall_os::{clock, process};
use nearcall_results::run::IdleServer;

use crate::memory;
use crate::request::{Cell, LaunchRequest, Line, Measured, Role};

/// What a launch gave.
#[derive(Default)]
pub(crate) struct Launched {
    pub(crate) cells: Vec<(Cell, Measured)>,
    pub(crate) idle: Option<IdleServer>,
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
pub(crate) fn launch(
    request: &LaunchRequest,
    cpus: [Option<usize>; 2],
    patience: Patience,
) -> Launched {
    let mut launched = Launched::default();
    let outcome = fs::create_dir_all(&request.folder)
        .context("cannot make a directory")
        .and_then(|()| play(request, cpus, patience, &mut launched));
    launched.failure = outcome.err().map(|error| format!("{error:#}"));
    clean(request);
    launched
}

fn play(
    request: &LaunchRequest,
    cpus: [Option<usize>; 2],
    patience: Patience,
    launched: &mut Launched,
) -> anyhow::Result<()> {
    let with = |role, cpu, server_pid| LaunchRequest { role, cpu, server_pid, ..request.clone() };
    let mut ends = vec![start(&with(Role::Server, cpus[1], 0))?];
    match next(&mut ends, after_ns(patience.start))? {
        Line::Listening => {}
        line => bail!("the server said {line:?}"),
    }
    let server_pid = ends[0].pid();
    ends.push(start(&with(Role::Client, cpus[0], server_pid))?);
    let until_ns = after_ns(patience.start + patience.cells);
    loop {
        let line = next(&mut ends, until_ns).map_err(|error| match complaint(&mut ends[0]) {
            Some(complaint) => anyhow!("{error:#}; server: {complaint}"),
            None => error,
        })?;
        match line {
            Line::Cell { cell, measured } => launched.cells.push((cell, *measured)),
            Line::Quiet => {
                let watch = patience.idle.unwrap_or_default();
                launched.idle = Some(memory::watch(server_pid, watch)?);
                ends[1].close_input();
            }
            Line::Done => return Ok(()),
            Line::Listening => bail!("the client listens"),
            Line::Failed(text) => bail!(text),
        }
    }
}

/// Starts a process and gives it its request.
fn start(request: &LaunchRequest) -> anyhow::Result<Worker<Line>> {
    let program = Program::current(&[PEER_VERB]);
    let mut worker = Worker::start(&mut program.command(0)).context("cannot start a process")?;
    worker.send(request)?;
    Ok(worker)
}

/// Waits for the next line of the process that was started last.
fn next(ends: &mut [Worker<Line>], until_ns: u64) -> anyhow::Result<Line> {
    let (index, who) = if ends.len() > 1 { (1, "client") } else { (0, "server") };
    match worker::receive_from(ends, index, until_ns, &|| false) {
        Ok(Line::Failed(text)) => bail!("{who}: {text}"),
        Ok(line) => Ok(line),
        Err(error) => bail!("{who}: {error}"),
    }
}

/// What the server has said of its own failure, or what killed it.
fn complaint(server: &mut Worker<Line>) -> Option<String> {
    match server.receive(after_ns(GRACE), &|| false) {
        Ok(Line::Failed(text)) => Some(text),
        _ => server.last_error(),
    }
}

fn after_ns(duration: Duration) -> u64 {
    let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    clock::monotonic_ns().saturating_add(duration_ns)
}

/// Removes what the launch has left: its directory, and shared memory of its name.
fn clean(request: &LaunchRequest) {
    let _ = fs::remove_dir_all(&request.folder);
    let files = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    for file in files.filter(|file| is_of(&file.path(), &request.name)) {
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

/// The name of this process's launch `number`, and its directory.
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

/// How long a server may take to report what a client only misses.
const GRACE: Duration = Duration::from_millis(300);

/// Where named shared memory lies.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where directories of launches lie. Short, because a socket's path has 108 bytes.
const FOLDERS: &str = "/tmp";

/// What names of launches begin with, before the process that launched them.
const NAME: &str = "nearcall-p";
