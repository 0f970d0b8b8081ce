//! Starts the program in an empty directory, and ends it if it hangs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::signal::{self, Signal};

use crate::bench::children;

/// An empty directory; gone when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearcall-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join("work")).unwrap();
        Self(path)
    }

    /// Where the program runs. Its home is beside it.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.clone()
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        let stdout = self.0.join("stdout");
        self.run_into(words, File::create(&stdout).unwrap().into(), &stdout)
    }

    /// Runs the program with these variables of the environment.
    #[track_caller]
    pub(crate) fn run_with(&self, words: &[&str], variables: &[(&str, &Path)]) -> Ended {
        let stdout = self.0.join("stdout");
        let mut command = self.command(words);
        command.envs(variables.iter().copied()).stdout(File::create(&stdout).unwrap());
        self.end(command, &stdout)
    }

    /// Runs the program for a terminal of this width.
    #[track_caller]
    pub(crate) fn run_in_columns(&self, columns: u32, words: &[&str]) -> Ended {
        let stdout = self.0.join("stdout");
        let mut command = self.command(words);
        command.env("COLUMNS", columns.to_string()).stdout(File::create(&stdout).unwrap());
        self.end(command, &stdout)
    }

    /// Runs the program with its output going to `stdout`, of which `path` is read afterwards.
    #[track_caller]
    pub(crate) fn run_into(&self, words: &[&str], stdout: Stdio, path: &Path) -> Ended {
        let mut command = self.command(words);
        command.stdout(stdout);
        self.end(command, path)
    }

    #[track_caller]
    fn end(&self, mut command: Command, stdout: &Path) -> Ended {
        let stderr = self.0.join("stderr");
        command.stderr(File::create(&stderr).unwrap());
        let mut child = Child::spawn(&mut command).unwrap();
        let status = child.wait(Some(DEADLINE)).unwrap();
        if status.is_none() {
            child.kill().unwrap();
        }
        Ended {
            code: status.and_then(|status| status.code()),
            stdout: fs::read_to_string(stdout).unwrap_or_default(),
            stderr: fs::read_to_string(&stderr).unwrap(),
        }
    }

    /// Starts the program and interrupts it once `is_time`, by its process and its children.
    /// Checks that it ends with 130 and leaves none of them. Returns what it has printed.
    #[track_caller]
    pub(crate) fn interrupt(
        &self,
        words: &[&str],
        is_time: impl Fn(u32, &[u32]) -> bool,
    ) -> String {
        let stdout = self.0.join("stdout");
        let mut command = self.command(words);
        command.stdout(File::create(&stdout).unwrap()).stderr(Stdio::null());
        let mut child = Child::spawn(&mut command).unwrap();
        let deadline = clock::now() + DEADLINE;
        let mut started = Vec::new();
        while !is_time(child.pid(), &started) {
            assert!(clock::now() < deadline, "its children are {started:?}");
            assert_eq!(child.wait(Some(Duration::from_millis(5))).unwrap(), None);
            started = children(child.pid());
        }
        signal::send_by_pidfd(child.pidfd(), Signal::INT).unwrap();
        let status = child.wait(Some(DEADLINE)).unwrap().expect("it ends");
        assert_eq!(status.code(), Some(130));
        for process in started {
            let exe = fs::read_link(format!("/proc/{process}/exe"));
            let is_ours = exe.is_ok_and(|exe| exe.to_str() == Some(env!("CARGO_BIN_EXE_nearcall")));
            assert!(!is_ours, "process {process} is left");
        }
        fs::read_to_string(stdout).unwrap()
    }

    /// The program with these arguments, in the directory, without our terminal and settings.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_nearcall"), words)
    }

    /// Returns another program in the same way.
    pub(crate) fn command_of(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("XDG_DATA_HOME").env("HOME", self.home());
        command.env_remove("XDG_CONFIG_HOME").env_remove("NEARCALL_TUNING");
        let host =
            Path::new(env!("CARGO_BIN_EXE_nearcall")).with_file_name("examples/nearcall-host");
        command.env("NEARCALL_HOST", host);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it, or the deadline.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// No test asks for more than some seconds of work.
const DEADLINE: Duration = Duration::from_secs(60);
