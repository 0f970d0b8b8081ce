//! Shared parts of the examples: the generated interfaces, and a second process to call.
//!
//! The examples are in `examples/`; each runs alone, and starts its own program again if it needs
//! another process.
//! **Invariants:** a process that an example started ends with it, even if the example is killed.
//! **Not here:** how interfaces are generated (`build.rs`, and `nearcall-build`).
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nearcall::event_loop::Interest;
use nearcall::{Deadline, Event, EventLoop};

/// Generated from `proto/` by `build.rs`.
pub mod home {
    /// Version 1.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/home.v1.rs"));
    }
}

/// The result of an example's `main`.
pub type Outcome = Result<(), Box<dyn Error>>;

/// A wrong use of the command line; exit code 2.
#[derive(Debug)]
pub struct BadUsage(pub String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}

/// Runs an example with its command-line arguments. Errors go to stderr; the exit code is 2 for
/// [`BadUsage`] and 1 for every other error.
pub fn main(example: impl FnOnce(&[&str]) -> Outcome) -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Err(error) = example(&arguments) else { return ExitCode::SUCCESS };
    // Without a reader of stderr, the exit code still reports the failure.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(if error.is::<BadUsage>() { 2 } else { 1 })
}

/// Returns an address that no other process has: an abstract socket, which leaves no file.
pub fn own_address(example: &str) -> String {
    format!("unix:@nearcall-{example}-{}", std::process::id())
}

/// A second process of this program. It is killed on drop.
pub struct SecondProcess {
    child: Child,
}

impl SecondProcess {
    /// Starts this program with `arguments`. Its stdin closes when this process ends.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn start(arguments: &[&str]) -> io::Result<Self> {
        let child =
            Command::new(env::current_exe()?).args(arguments).stdin(Stdio::piped()).spawn()?;
        Ok(Self { child })
    }

    /// Serves in this process until the other one has ended.
    ///
    /// # Errors
    ///
    /// The other process has failed, or the error of the kernel.
    pub fn serve_until_it_ends(mut self, event_loop: &EventLoop) -> Outcome {
        // The pipe to its stdin breaks when it ends.
        let pipe = self.child.stdin.as_ref().ok_or("the second process has no stdin")?;
        let broken = event_loop.add_descriptor(pipe, Interest::HangUp)?;
        wait_for(event_loop, |event| matches!(event, Event::Descriptor(id, _) if id == broken))?;
        event_loop.remove_descriptor(broken);
        check_status(self.child.wait()?)
    }

    /// Closes its stdin and waits for its end.
    ///
    /// # Errors
    ///
    /// The other process has failed.
    pub fn end(mut self) -> Outcome {
        // Waiting closes the pipe first.
        check_status(self.child.wait()?)
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        // Both do nothing if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves in the second process until the first one closes the stdin of this one, or ends.
///
/// # Errors
///
/// The error of the kernel.
pub fn serve_until_stdin_ends(event_loop: &EventLoop) -> io::Result<()> {
    let stdin = event_loop.add_descriptor(io::stdin(), Interest::HangUp)?;
    wait_for(event_loop, |event| matches!(event, Event::Descriptor(id, _) if id == stdin))
}

fn wait_for(event_loop: &EventLoop, is_it: impl Fn(Event) -> bool) -> io::Result<()> {
    while !event_loop.next(Deadline::NEVER)?.is_some_and(&is_it) {}
    Ok(())
}

fn check_status(status: ExitStatus) -> Outcome {
    if status.success() { Ok(()) } else { Err(format!("the second process: {status}").into()) }
}

/// The code in README.md is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
