//! Stacks of both ends, sampled by the program perf, folded and drawn.
//!
//! Always true: what perf writes lies in a folder of its own that is gone afterwards, and perf ends
//! with the process that it looks at, or is killed. Not here: folding (`profile/folded.rs`),
//! drawing (`profile/flame.rs`), what perf may look at (`profile/permits.rs`).

use std::cell::RefCell;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::process::{self, Child};
use nearcall_os::{clock, perf};

use crate::exchange::Failure;
use crate::launch::Role;
use crate::profile::folded::Folded;
use crate::profile::launches::Launches;
use crate::profile::permits::Scope;
use crate::profile::result::Stacks;
use crate::profile::{flame, hardware};
use crate::run::PerEnd;

/// How to sample.
pub(crate) struct Sampler {
    program: String,
    event: String,
}

impl Sampler {
    /// Samples by the program `perf` as far as it may look. `None`: not at all.
    pub(crate) fn new(program: String, scope: Scope) -> Option<Self> {
        let counts_cycles =
            hardware::available().is_ok_and(|all| all.contains(&perf::Event::Cycles));
        let event = if counts_cycles { "cycles" } else { "cpu-clock" };
        let event = match scope {
            Scope::All => event.to_owned(),
            Scope::UserOnly { .. } => format!("{event}:u"),
            Scope::Nothing { .. } => return None,
        };
        Some(Self { program, event })
    }

    /// Samples both ends for `time`.
    pub(crate) fn sample(
        &self,
        launches: &Launches<'_>,
        time: Duration,
    ) -> Result<PerEnd<Folded>, Failure> {
        let folder = Folder::new()?;
        let recorders = RefCell::new(Vec::new());
        let started = |role, pid| {
            let recorder = self.record(&folder, role, pid).map_err(|error| self.failed(&error))?;
            recorders.borrow_mut().push((role, recorder));
            Ok(())
        };
        launches.run(0, time, &started)?;
        let mut folded = PerEnd::<Folded>::default();
        for (role, mut recorder) in recorders.into_inner() {
            if recorder.wait(Some(END_TIME_MAX))?.is_none() {
                return Err(self.failed("it did not end in time"));
            }
            let stacks = self.fold(&folder, role, launches.hooks.interrupted)?;
            match role {
                Role::Client => folded.client = stacks,
                Role::Server => folded.server = stacks,
            }
        }
        Ok(folded)
    }

    fn record(&self, folder: &Folder, role: Role, pid: u32) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(["record", "-q", "-g", "-B", "-N", "-F", SAMPLES_PER_S, "-e", &self.event]);
        command.args(["-p", &pid.to_string(), "-o"]).arg(folder.file(role, "data"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(folder.file(role, "complaint"))?);
        Child::spawn(&mut command)
    }

    /// Has perf tell what it recorded, and folds that.
    fn fold(
        &self,
        folder: &Folder,
        role: Role,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Folded, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["script", "--no-inline", "-F", "comm,tid,ip,sym,dso", "-i"]);
        command.arg(folder.file(role, "data")).stdin(Stdio::null());
        command.stdout(File::create(folder.file(role, "text"))?);
        command.stderr(File::create(folder.file(role, "complaint"))?);
        let mut child = Child::spawn(&mut command).map_err(|error| self.failed(&error))?;
        let until = clock::now() + SCRIPT_TIME_MAX;
        let status = loop {
            if let Some(status) = child.wait(Some(POLL))? {
                break status;
            }
            if interrupted() || clock::now() >= until {
                return Err(self.failed("it took too long to tell what it saw"));
            }
        };
        let text = fs::read(folder.file(role, "text"))?;
        let folded = Folded::parse(&String::from_utf8_lossy(&text), name(role));
        if !status.success() || folded.samples() == 0 {
            let complaint = fs::read_to_string(folder.file(role, "complaint")).unwrap_or_default();
            let last = complaint.lines().rfind(|line| !line.trim().is_empty());
            return Err(self.failed(last.unwrap_or("it saw nothing")));
        }
        Ok(folded)
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::other(format!("{}: {why}", self.program))
    }

    /// Writes both files into `out` and says what is in them.
    pub(crate) fn write(
        &self,
        folded: &PerEnd<Folded>,
        out: &Path,
        title: &str,
        stem: &str,
    ) -> io::Result<Stacks> {
        let [folded_file, picture_file] = files(out, stem);
        fs::write(&folded_file, folded.client.text() + &folded.server.text())?;
        let all = folded.client.stacks.iter().chain(&folded.server.stacks);
        let all = all.map(|(stack, &count)| (stack.as_str(), count));
        fs::write(&picture_file, flame::svg(title, all))?;
        let samples = PerEnd { client: folded.client.samples(), server: folded.server.samples() };
        let top = PerEnd { client: folded.client.top(TOP), server: folded.server.top(TOP) };
        Ok(Stacks {
            event: self.event.clone(),
            folded: folded_file.display().to_string(),
            flame_graph: picture_file.display().to_string(),
            samples,
            top,
        })
    }
}

/// The files that a profile of mechanism `stem` writes into `out`.
pub(crate) fn files(out: &Path, stem: &str) -> [PathBuf; 2] {
    ["folded", "svg"].map(|kind| out.join(format!("profile-{stem}.{kind}")))
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

/// An empty folder for perf's files; gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let name = format!("nearcall-profile-{}-{:x}", process::pid(), clock::monotonic_ns());
        let path = std::env::temp_dir().join(name);
        // Refused if somebody else has it: nobody can put links there.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn file(&self, role: Role, kind: &str) -> PathBuf {
        self.0.join(format!("{}.{kind}", name(role)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies in a folder for what is temporary.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// No multiple of what ticks, so that samples do not fall into step with it.
const SAMPLES_PER_S: &str = "1999";

/// How long perf may take to end after the process has.
const END_TIME_MAX: Duration = Duration::from_secs(20);

/// How long perf may take to name all functions.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(120);

/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Functions that are told.
const TOP: usize = 6;
