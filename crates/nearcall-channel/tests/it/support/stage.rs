//! Starts the processes of a case from a test, bounds them, and judges how they ended.
//!
//! **Invariants:** when [`run`] returns or panics, the processes are dead and reaped; the second
//! end dies with the first, which dies with the thread of the test.
//! **Not here:** what happens inside those processes (`play.rs`).

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::process::Child;

use super::diagnosis::describe;

pub(super) const ENTRY: &str = "NEARCALL_TEST_ENTRY";
pub(super) const PART: &str = "NEARCALL_TEST_PART";
pub(super) const CASE: &str = "NEARCALL_TEST_CASE";
pub(super) const MECHANISM: &str = "NEARCALL_TEST_MECHANISM";
pub(super) const WAIT: &str = "NEARCALL_TEST_WAIT";
pub(super) const FIRST_SERVES: &str = "NEARCALL_TEST_FIRST_SERVES";
pub(super) const SEED: &str = "NEARCALL_TEST_SEED";
const RUNTIME_DIR: &str = "NEARCALL_RUNTIME_DIR";

/// One run of one case.
pub(crate) struct Run<'a> {
    /// The test that plays a part when it finds itself in such a process.
    pub(crate) entry: &'a str,
    /// The name of the case in the table of that entry.
    pub(crate) case: &'a str,
    pub(crate) mechanism: Mechanism,
    pub(crate) wait: WaitPolicy,
    /// Whether the first end listens, or else connects.
    pub(crate) first_serves: bool,
    pub(crate) timeout: Duration,
}

impl Run<'_> {
    /// Runs it. Gives what it noted with [`note`](super::play::note), without the mark.
    #[track_caller]
    pub(crate) fn run(&self) -> Vec<String> {
        let (seed, runtime_dir) = (seed(), RuntimeDir::choose());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([self.entry, "--exact", "--nocapture", "--test-threads=1"])
            .env(ENTRY, self.entry)
            .env(PART, "first")
            .env(CASE, self.case)
            .env(MECHANISM, self.mechanism.name())
            .env(WAIT, self.wait.name())
            .env(FIRST_SERVES, if self.first_serves { "yes" } else { "no" })
            .env(SEED, seed.to_string())
            .env(RUNTIME_DIR, &runtime_dir.0)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut first = Child::spawn(&mut command).unwrap();
        let mut output = first.pipes().stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned())
        });
        let status = first.wait(Some(self.timeout)).unwrap();
        let hangs = status.is_none().then(|| describe(first.pid()));
        drop(first);
        let output = reader.join().unwrap().unwrap();
        let who = format!(
            "{} over {} waiting by {}, first end {}, {SEED}={seed}",
            self.case,
            self.mechanism,
            self.wait,
            if self.first_serves { "serves" } else { "connects" },
        );
        if let Some(hangs) = hangs {
            panic!("{who} hangs after {:?}\n{hangs}{output}", self.timeout);
        }
        assert!(
            status.is_some_and(|status| status.success()),
            "{who} failed: {status:?}\n{output}"
        );
        runtime_dir.expect_empty();
        let notes = output.lines().filter_map(|line| line.strip_prefix(super::play::NOTE));
        notes.map(str::to_owned).collect()
    }
}

/// The seed of this run: from the environment to repeat one, else a new one.
fn seed() -> u64 {
    let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

/// A private runtime directory, which need not exist.
struct RuntimeDir(PathBuf);

impl RuntimeDir {
    fn choose() -> Self {
        Self(std::env::temp_dir().join(format!("nearcall-test-{:016x}", fastrand::u64(..))))
    }

    #[track_caller]
    fn expect_empty(&self) {
        if let Ok(entries) = std::fs::read_dir(&self.0) {
            let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            assert!(names.is_empty(), "left in the runtime directory: {names:?}");
        }
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints for whoever runs the tests with `--nocapture`, or sees a failure.
#[allow(clippy::print_stdout, reason = "the harness keeps it unless it is asked for")]
pub(crate) fn report(line: &str) {
    println!("{line}");
}
