//! A second process for a test: the test binary itself, with its role in an environment variable.
//!
//! **Invariants:** the child is dead and waited for when its [`Child`] is dropped, and ends by
//! itself when its waits time out. It gets one descriptor, as its standard input.

use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nearcall_os::clock;

/// A running child.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts the test `test` (its whole path, as `futex::child_waits`) in a new process. There
    /// [`is_child`] is true.
    pub(crate) fn start(test: &str, input: OwnedFd) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--test-threads=1", "--quiet"])
            .env(CHILD_VARIABLE, test)
            .stdin(Stdio::from(input))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Returns whether the child has ended.
    pub(crate) fn poll(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits until the child has ended by itself, and demands that its part went well.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        let end = clock::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.poll() {
                break status;
            }
            assert!(clock::now() < end, "the child does not end");
            clock::pause(Duration::from_millis(1));
        };
        assert!(status.success(), "the child failed: {status}");
    }

    /// Kills the child (SIGKILL) and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether this process is the child of `test`.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var(CHILD_VARIABLE).is_ok_and(|part| part == test)
}

/// Bound on everything that another process must do. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const CHILD_VARIABLE: &str = "NEARCALL_OS_TEST_CHILD";
