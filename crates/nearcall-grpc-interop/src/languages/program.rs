//! A process that answers a line with a line.
//!
//! **Invariants:** it is killed when it is dropped, and when the thread ends that has started it.
//! **Not here:** what the lines mean (`cases.rs`).

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, bail};
use nearcall_os::process::Child;

use super::PATIENCE;

/// How much of what it has complained about is reported.
const COMPLAINT_BYTES: usize = 2000;

/// A program that runs.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Arc<Mutex<String>>,
}

impl Program {
    pub(super) fn start(command: &[String], arguments: &[&str]) -> anyhow::Result<Self> {
        let (program, words) = command.split_first().context("a command is empty")?;
        let mut command = Command::new(program);
        command.args(words).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            Child::spawn(&mut command).with_context(|| format!("cannot start {program}"))?;
        let pipes = child.pipes();
        let (give, lines) = mpsc::channel();
        let complaints = Arc::<Mutex<String>>::default();
        if let Some(output) = pipes.stdout.take() {
            for_each_line(output, move |line| drop(give.send(line)));
        }
        if let Some(errors) = pipes.stderr.take() {
            let complaints = Arc::clone(&complaints);
            for_each_line(errors, move |line| {
                let mut text = complaints.lock().unwrap_or_else(PoisonError::into_inner);
                if text.len() < COMPLAINT_BYTES {
                    *text += &line;
                    text.push('\n');
                }
            });
        }
        let input = pipes.stdin.take();
        Ok(Self { child, input, lines, complaints })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(super) fn send(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("its input has ended")?;
        writeln!(input, "{line}").with_context(|| format!("it has ended\n{}", self.complaints()))
    }

    /// Waits for the next line of its output.
    pub(super) fn line(&self) -> anyhow::Result<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("nothing within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("it has ended\n{}", self.complaints()),
        }
    }

    /// Ends its input, and waits for its end.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.input = None;
        match self.child.wait(PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("it has ended with {status}\n{}", self.complaints()),
            None => bail!("it has not ended within {PATIENCE:?}\n{}", self.complaints()),
        }
    }

    pub(super) fn kill(mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.kill()?)
    }

    fn complaints(&self) -> String {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).trim_end().to_owned()
    }
}

/// Has a thread read an output to its end.
fn for_each_line(
    output: impl Read + Send + 'static,
    mut take: impl FnMut(String) + Send + 'static,
) {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            take(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
