//! One cell of the suite: every case, by a client of one language and a server of another.
//!
//! Client and server are the same processes for all cases, as long as those pass.
//! **Invariants:** a case that fails leaves nothing to the next one.
//! **Not here:** the cases (`cases.rs`), the table of cells (`languages.rs`).

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nearcall_os::clock;

use super::cases::{Answer, Case, Step};
use super::program::Program;
use super::{Language, PATIENCE, Via, bytes_of};

/// How long something that was begun has to arrive.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(10);

/// How a case ended that has not failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The client cannot do it yet.
    Skipped,
}

/// Who takes part in a cell, over which mechanism.
pub(super) struct Cell<'a> {
    pub(super) client: &'a Language,
    pub(super) server: &'a Language,
    pub(super) via: Via,
    /// Where programs find the descriptions of their interfaces.
    pub(super) descriptors: &'a Path,
}

/// The processes of a cell.
struct Ends<'a> {
    cell: &'a Cell<'a>,
    /// Where the server listens.
    address: String,
    server: Option<Program>,
    client: Option<Program>,
}

impl Cell<'_> {
    /// Runs the cases that this mechanism can run; returns how each has ended.
    pub(super) fn run<'c>(&self, cases: &'c [Case]) -> Vec<(&'c Case, anyhow::Result<Outcome>)> {
        let mut ends = None;
        let mut outcomes = Vec::new();
        for case in cases.iter().filter(|case| self.via.is_local() || !case.is_local) {
            let outcome = self.run_case(case, &mut ends);
            if !matches!(outcome, Ok(Outcome::Passed)) {
                ends = None;
            }
            outcomes.push((case, outcome));
        }
        if let Some((outcome, ends)) = outcomes.last_mut().map(|last| &mut last.1).zip(ends)
            && let Err(error) = ends.finish()
        {
            *outcome = Err(error.context("after the last case"));
        }
        outcomes
    }

    fn run_case<'s>(&'s self, case: &Case, ends: &mut Option<Ends<'s>>) -> anyhow::Result<Outcome> {
        let ends = match ends {
            Some(ends) => ends,
            none => none.insert(Ends::start(self)?),
        };
        for (number, step) in case.steps.iter().enumerate() {
            let answered = ends.run(step);
            let what = || format!("step {} of {}, {step:?}", number + 1, case.steps.len());
            if answered.with_context(what)? == Outcome::Skipped {
                return Ok(Outcome::Skipped);
            }
        }
        Ok(Outcome::Passed)
    }

    /// Puts what this mechanism has into a line.
    fn fill(&self, line: &str) -> String {
        let killed = if self.via.is_local() { "killed" } else { "lost" };
        line.replace("{via}", self.via.name()).replace("{killed}", killed)
    }
}

impl<'a> Ends<'a> {
    fn start(cell: &'a Cell<'a>) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let address = match cell.via.is_local() {
            true => format!("unix:@nearcall-languages-{}-{number}", process::id()),
            false => "tcp://127.0.0.1:0".to_owned(),
        };
        let mut ends = Self { cell, address, server: None, client: None };
        ends.start_server()?;
        ends.start_client()?;
        Ok(ends)
    }

    fn run(&mut self, step: &Step) -> anyhow::Result<Outcome> {
        match step {
            Step::Ask(line, answer) => {
                self.send(line)?;
                return self.expect(answer);
            }
            Step::Until(line, answer) => return self.wait_until(line, answer),
            Step::Begin(line) => self.send(line)?,
            Step::Await(answer) => return self.expect(answer),
            Step::Pause => clock::pause(PAUSE),
            Step::KillServer => drop(take(&mut self.server)?.kill()?),
            Step::StopServer => take(&mut self.server)?.finish().context("the server")?,
            Step::StartServer => self.start_server()?,
            Step::KillClient => drop(take(&mut self.client)?.kill()?),
            Step::StartClient => self.start_client()?,
        }
        Ok(Outcome::Passed)
    }

    fn start_server(&mut self) -> anyhow::Result<()> {
        let descriptors = self.cell.descriptors.display().to_string();
        let server =
            Program::start(&self.cell.server.command, &["server", &self.address, &descriptors])?;
        let line = server.line().context("the server")?;
        let ready = line.strip_prefix("ready ");
        self.address = ready.with_context(|| format!("the server prints {line:?}"))?.to_owned();
        self.server = Some(server);
        Ok(())
    }

    fn start_client(&mut self) -> anyhow::Result<()> {
        let address = format!("{}?via={}", self.address, self.cell.via.name());
        self.client = Some(Program::start(&self.cell.client.command, &["client", &address])?);
        Ok(())
    }

    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        let line = self.cell.fill(line);
        self.client.as_mut().context("there is no client")?.send(&line).context("the client")
    }

    fn answer(&self) -> anyhow::Result<String> {
        self.client.as_ref().context("there is no client")?.line().context("the client")
    }

    fn expect(&self, expected: &Answer) -> anyhow::Result<Outcome> {
        let got = self.answer()?;
        if got == "SKIPPED" {
            return Ok(Outcome::Skipped);
        }
        match self.is_expected(&got, expected) {
            true => Ok(Outcome::Passed),
            false => bail!("it answers {}", readable(&got)),
        }
    }

    fn is_expected(&self, got: &str, expected: &Answer) -> bool {
        match expected {
            Answer::Is(line) => got == self.cell.fill(line),
            Answer::Fails(code) => got.split(' ').next() == Some(code),
        }
    }

    fn wait_until(&mut self, line: &str, expected: &Answer) -> anyhow::Result<Outcome> {
        let end = clock::now() + PATIENCE;
        loop {
            self.send(line)?;
            let got = self.answer()?;
            if self.is_expected(&got, expected) {
                return Ok(Outcome::Passed);
            }
            if clock::now() > end {
                bail!("it answers {} in the end", readable(&got));
            }
            clock::pause(AGAIN);
        }
    }

    /// Ends both, as their users would.
    fn finish(mut self) -> anyhow::Result<()> {
        take(&mut self.client)?.finish().context("the client")?;
        take(&mut self.server)?.finish().context("the server")
    }
}

fn take(program: &mut Option<Program>) -> anyhow::Result<Program> {
    program.take().context("it does not run")
}

/// Returns an answer with its text, where it is a status.
fn readable(answer: &str) -> String {
    let text = answer.split_once(' ').filter(|(code, _)| *code != "OK").and_then(|(code, hex)| {
        let text = String::from_utf8(bytes_of(hex).ok()?).ok()?;
        Some(format!("{code}: {text:?}"))
    });
    text.unwrap_or_else(|| format!("{answer:?}"))
}
