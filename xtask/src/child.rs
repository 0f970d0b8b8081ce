//! A process that does not outlive its value: it is killed and waited for when that is dropped.
//!
//! Not here: steps, which run as long as they need (`step.rs`).

use std::io::{self, BufRead, BufReader, Read};
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::step::now;

/// How long a command that builds or installs something may take.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
/// How much of an output is shown as a reason.
const SHOWN_CHARS: usize = 400;

/// A running process and the lines that it prints.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    lines: Receiver<String>,
}

/// Runs a command that must succeed, and returns what it has printed.
pub(crate) fn succeed(command: &mut Command) -> io::Result<String> {
    let result = Child::start(command)?.finish(BUILD_LIMIT)?;
    result.map_err(|error| io::Error::other(format!("{command:?}: {error}")))
}

impl Child {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| {
            io::Error::other(format!("cannot start {:?}: {error}", command.get_program()))
        })?;
        let (sender, lines) = channel();
        if let Some(stdout) = process.stdout.take() {
            forward(stdout, sender.clone());
        }
        if let Some(stderr) = process.stderr.take() {
            forward(stderr, sender);
        }
        Ok(Self { process, lines })
    }

    /// Waits for the next line; `Disconnected` once the process has closed its output.
    pub(crate) fn wait_line(&self, limit: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(limit)
    }

    /// Waits for its first line, which has to begin with `start`.
    pub(crate) fn wait_for_line(&self, start: &str, limit: Duration) -> io::Result<()> {
        match self.wait_line(limit) {
            Ok(line) if line.starts_with(start) => Ok(()),
            Ok(line) => Err(io::Error::other(line)),
            Err(_) => Err(io::Error::other(format!("it has not printed `{start}`"))),
        }
    }

    /// Returns what it prints until its end, whether it succeeds or not.
    pub(crate) fn collect(self, limit: Duration) -> io::Result<String> {
        self.read(limit).map_err(io::Error::other)
    }

    /// Returns what it prints until it closes its output, or why it does not.
    fn read(&self, limit: Duration) -> Result<String, String> {
        let started = now();
        let mut text = String::new();
        loop {
            match self.wait_line(limit.saturating_sub(started.elapsed())) {
                Ok(line) => text = text + &line + "\n",
                Err(RecvTimeoutError::Disconnected) => return Ok(text),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it has not ended within {limit:?}"));
                }
            }
        }
    }

    /// Waits for its end. Returns what it printed, or why it failed.
    pub(crate) fn finish(mut self, limit: Duration) -> io::Result<Result<String, String>> {
        let text = match self.read(limit) {
            Ok(text) => text,
            Err(late) => return Ok(Err(late)),
        };
        let status = self.process.wait()?;
        if status.success() {
            return Ok(Ok(text));
        }
        let shown: String = text.trim().chars().take(SHOWN_CHARS).collect();
        Ok(Err(if shown.is_empty() { status.to_string() } else { shown }))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends the lines of an output from a thread that ends with it.
fn forward(output: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            // Where no line is read any more, the output is still drained.
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Child::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn what_it_prints_is_the_result_or_the_reason() {
        let limit = Duration::from_secs(60);
        assert_eq!(shell("echo a; echo b").finish(limit).unwrap(), Ok("a\nb\n".to_owned()));
        assert_eq!(shell("echo bad >&2; exit 3").finish(limit).unwrap(), Err("bad".to_owned()));
        assert_eq!(shell("exit 3").finish(limit).unwrap(), Err("exit status: 3".to_owned()));
    }

    #[test]
    fn it_is_killed_at_its_limit_and_when_it_is_dropped() {
        let late = shell("exec sleep 1000").finish(Duration::from_millis(10)).unwrap();
        assert!(late.unwrap_err().contains("has not ended"));
        let child = shell("echo ready; exec sleep 1000");
        child.wait_for_line("ready", Duration::from_secs(60)).unwrap();
        let path = format!("/proc/{}", child.process.id());
        drop(child);
        assert!(!std::path::Path::new(&path).exists());
    }
}
