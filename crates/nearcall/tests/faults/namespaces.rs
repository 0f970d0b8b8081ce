//! Processes in namespaces of their own, by `unshare`.
//!
//! **Invariants:** they die with the test.

use crate::support::prelude::*;

/// Starts a process with a role in new namespaces, once `setup` has run there in a shell. `None`,
/// and a line that says why: this machine does not allow it.
pub(crate) fn start(
    test: &str,
    flags: &[&str],
    setup: &str,
    role: &str,
    address: &str,
) -> Option<Process> {
    let mut command = command_in(test, flags, setup, role, address)?;
    command.env_remove("XDG_RUNTIME_DIR");
    Some(Process::start_as(role, command))
}

/// The command of [`start`].
pub(crate) fn command_in(
    test: &str,
    flags: &[&str],
    setup: &str,
    role: &str,
    address: &str,
) -> Option<Command> {
    let probe = Command::new("unshare").args(flags).args(["sh", "-c", setup]).output();
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            skip(test, &format!("unshare {flags:?} is refused: {}", why.trim()));
            return None;
        }
        Err(error) => {
            skip(test, &format!("unshare: {error}"));
            return None;
        }
    }
    let inner = command(role, address, "");
    let mut outer = Command::new("unshare");
    let shell = format!(r#"{setup} && exec "$0" "$@""#);
    outer.args(flags).arg("--kill-child").args(["sh", "-c", &shell]);
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    Some(outer)
}
