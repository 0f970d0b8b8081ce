//! Stacks of both ends, sampled by the program perf and folded.
//!
//! **Invariants:** what perf writes lies in a directory of its own that is gone afterwards, and
//! perf ends with the process that it looks at, or is killed.
//! **Not here:** folding (`profile/folded.rs`), why perf may not look (`profile/permits.rs`).

use std::cell::RefCell;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::process::{self, Child};

use crate::exchange::Failure;
use crate::launch::Role;
use crate::profile::folded::Folded;
use crate::profile::launches::Launches;
use crate::profile::permits;
use crate::run::PerEnd;

/// Samples both ends for `time`, by the event that perf prefers here.
pub(crate) fn sample(launches: &Launches<'_>, time: Duration) -> Result<PerEnd<Folded>, Failure> {
    let directory = Directory::new()?;
    let recorders = RefCell::new(Vec::new());
    let started = |role, pid| {
        recorders.borrow_mut().push((role, directory.record(role, pid).map_err(failed)?));
        Ok(())
    };
    launches.run(0, time, &started)?;
    let mut folded = PerEnd::<Folded>::default();
    for (role, mut recorder) in recorders.into_inner() {
        if recorder.wait(Some(END_TIME_MAX))?.is_none() {
            return Err(failed("it did not end in time"));
        }
        let stacks = directory.fold(role, launches.context.interrupted)?;
        match role {
            Role::Client => folded.client = stacks,
            Role::Server => folded.server = stacks,
        }
    }
    Ok(folded)
}

/// Returns the file that a profile of mechanism `stem` writes into `out`.
pub(crate) fn file(out: &Path, stem: &str) -> PathBuf {
    out.join(format!("profile-{stem}.folded"))
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::other(format!("perf: {why}"))
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

/// An empty directory for perf's files; gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let name = format!("nearcall-profile-{}-{:x}", process::pid(), clock::monotonic_ns());
        let path = std::env::temp_dir().join(name);
        // Refused if another user has it: no other process can put links there.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn file(&self, role: Role, kind: &str) -> PathBuf {
        self.0.join(format!("{}.{kind}", name(role)))
    }

    fn record(&self, role: Role, pid: u32) -> io::Result<Child> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-g", "-B", "-N", "-F", SAMPLES_PER_S]);
        command.args(["-p", &pid.to_string(), "-o"]).arg(self.file(role, "data"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(self.file(role, "complaint"))?);
        Child::spawn(&mut command)
    }

    /// Has perf print what it recorded, and folds that.
    fn fold(&self, role: Role, interrupted: &dyn Fn() -> bool) -> Result<Folded, Failure> {
        let complained = fs::read_to_string(self.file(role, "complaint")).unwrap_or_default();
        let mut command = Command::new("perf");
        command.args(["script", "--no-inline", "-F", "comm,tid,ip,sym,dso", "-i"]);
        command.arg(self.file(role, "data")).stdin(Stdio::null());
        command.stdout(File::create(self.file(role, "text"))?);
        command.stderr(File::create(self.file(role, "complaint"))?);
        let mut child = Child::spawn(&mut command).map_err(failed)?;
        let until = clock::now() + SCRIPT_TIME_MAX;
        let status = loop {
            if let Some(status) = child.wait(Some(POLL))? {
                break status;
            }
            if interrupted() || clock::now() >= until {
                return Err(failed("it took too long to print what it recorded"));
            }
        };
        let text = fs::read(self.file(role, "text"))?;
        let folded = Folded::parse(&String::from_utf8_lossy(&text), name(role));
        if !status.success() || folded.samples() == 0 {
            let printed = fs::read_to_string(self.file(role, "complaint")).unwrap_or_default();
            let said = permits::complaint(&complained).or_else(|| permits::complaint(&printed));
            return Err(failed(said.unwrap_or("it recorded nothing")));
        }
        Ok(folded)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed lies in a directory for what is temporary.
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
