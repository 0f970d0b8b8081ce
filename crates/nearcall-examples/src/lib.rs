//! What the examples share: the generated interfaces, and a second process to talk to.
//!
//! The examples are in `examples/`; each runs by itself, and starts its own program again where it
//! needs another process. Always true: a process that an example started ends with it, even if the
//! example is killed. Not here: how interfaces are generated (`build.rs`, and `nearcall-build`).
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

/// What an example's `main` gives back.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Words on the command line that make no sense; exit code 2.
#[derive(Debug)]
pub struct BadUsage(pub String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}

/// Runs an example with the words behind its name. Errors go to stderr: exit code 2 for words that
/// make no sense, 1 for everything else.
pub fn main(example: impl FnOnce(&[&str]) -> Outcome) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Err(error) = example(&words) else { return ExitCode::SUCCESS };
    // If nobody reads it, the exit code still says it.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(if error.is::<BadUsage>() { 2 } else { 1 })
}

/// An address that no other process has: an abstract socket, which leaves no file.
pub fn own_address(example: &str) -> String {
    format!("unix:@nearcall-{example}-{}", std::process::id())
}

/// This very program, running once more.
pub struct SecondProcess {
    child: Child,
}

impl SecondProcess {
    /// Starts this program again with other words. It can tell by its stdin that we are gone.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn start(words: &[&str]) -> io::Result<Self> {
        let child = Command::new(env::current_exe()?).args(words).stdin(Stdio::piped()).spawn()?;
        Ok(Self { child })
    }

    /// Serves in this process until the other one has ended by itself.
    ///
    /// # Errors
    ///
    /// The other process has failed, or the kernel's error.
    pub fn serve_until_it_ends(mut self, event_loop: &EventLoop) -> Outcome {
        // The pipe to its stdin breaks when it ends.
        let pipe = self.child.stdin.as_ref().ok_or("the second process has no stdin")?;
        let broken = event_loop.add_descriptor(pipe, Interest::HangUp)?;
        wait_for(event_loop, |event| matches!(event, Event::Descriptor(id, _) if id == broken))?;
        event_loop.remove_descriptor(broken);
        succeeded(self.child.wait()?)
    }

    /// Closes its stdin, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// It has failed.
    pub fn end(mut self) -> Outcome {
        // Waiting closes the pipe first.
        succeeded(self.child.wait()?)
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        // Both do nothing if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the second process: serves until the first one closes our stdin, or is gone.
///
/// # Errors
///
/// The kernel's.
pub fn serve_until_stdin_ends(event_loop: &EventLoop) -> io::Result<()> {
    let stdin = event_loop.add_descriptor(io::stdin(), Interest::HangUp)?;
    wait_for(event_loop, |event| matches!(event, Event::Descriptor(id, _) if id == stdin))
}

fn wait_for(event_loop: &EventLoop, is_it: impl Fn(Event) -> bool) -> io::Result<()> {
    while !event_loop.next(Deadline::NEVER)?.is_some_and(&is_it) {}
    Ok(())
}

fn succeeded(status: ExitStatus) -> Outcome {
    if status.success() { Ok(()) } else { Err(format!("the second process: {status}").into()) }
}

/// The code in README.md is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
