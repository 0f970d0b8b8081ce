//! A process whose memory is measured, as its parent sees it.
//!
//! **Invariants:** every wait has a deadline and ends when the user interrupts.

use std::time::Duration;

use nearcall_os::clock;
use nearcall_results::findings::memory::ProcessMemory;

use super::Stop;
use crate::launch::{Question, WorkerMessage, WorkerRequest};
use crate::memory;
use crate::runner::{RunContext, ns};
use crate::worker::{NoMessage, Worker};

/// One process.
pub(super) struct Helper<'a> {
    worker: Worker<WorkerMessage>,
    context: &'a RunContext<'a>,
}

impl<'a> Helper<'a> {
    /// Starts a process and gives it its request.
    pub(super) fn start(
        request: &WorkerRequest,
        context: &'a RunContext<'a>,
    ) -> Result<Self, Stop> {
        let started = Worker::start(&mut context.program.command(0)).and_then(|mut worker| {
            worker.send(request)?;
            Ok(Self { worker, context })
        });
        started.map_err(|error| Stop::Failed(format!("cannot start a process: {error}")))
    }

    /// Starts a process that is ready soon.
    pub(super) fn ready(
        request: &WorkerRequest,
        context: &'a RunContext<'a>,
    ) -> Result<Self, Stop> {
        let mut helper = Self::start(request, context)?;
        match helper.receive(ANSWER_TIMEOUT)? {
            WorkerMessage::Ready => Ok(helper),
            other => {
                Err(Stop::Failed(format!("a process reported {other:?}, not that it is ready")))
            }
        }
    }

    /// How many connections it has, after it was asked for more or only asked.
    pub(super) fn connections(
        &mut self,
        question: Question,
    ) -> Result<(u32, Option<String>), Stop> {
        let sent = self.worker.send(&question);
        sent.map_err(|error| format!("a process takes no questions: {error}"))?;
        match self.receive(CONNECT_TIMEOUT)? {
            WorkerMessage::Connections(count, reason) => Ok((count, reason)),
            other => Err(Stop::Failed(format!("a process reported {other:?}, not a number"))),
        }
    }

    /// Waits for the next message.
    pub(super) fn receive(&mut self, timeout: Duration) -> Result<WorkerMessage, Stop> {
        match self.worker.receive(after_ns(timeout), self.context.interrupted) {
            Ok(WorkerMessage::Failed(failure)) => Err(Stop::Failed(failure.text)),
            Ok(message) => Ok(message),
            Err(NoMessage::Interrupted) => Err(Stop::Interrupted),
            Err(error) => Err(Stop::Failed(error.to_string())),
        }
    }

    /// Its memory now.
    pub(super) fn memory(&self) -> ProcessMemory {
        let pid = self.worker.pid();
        ProcessMemory {
            pss_bytes: memory::pss_bytes(pid),
            private_bytes: memory::private_bytes(pid),
        }
    }

    /// The part of its memory that lies in shared memory.
    pub(super) fn shared_bytes(&self) -> Option<u64> {
        memory::shared_pss_bytes(self.worker.pid())
    }

    /// Why its memory cannot be read, if so.
    pub(super) fn unreadable(&self) -> Option<String> {
        let path = format!("/proc/{}/smaps_rollup", self.worker.pid());
        match std::fs::read_to_string(path) {
            Ok(_) if self.memory().pss_bytes.is_some() => None,
            Ok(_) => Some("/proc/PID/smaps_rollup lacks the lines that are needed".to_owned()),
            Err(error) => Some(format!("/proc/PID/smaps_rollup cannot be read: {error}")),
        }
    }

    /// Lets it end by itself, and ends it if it does not.
    pub(super) fn end(mut self) {
        self.worker.close_input();
        let _ = self.worker.end(END_TIMEOUT);
    }
}

fn after_ns(timeout: Duration) -> u64 {
    clock::monotonic_ns().saturating_add(ns(timeout))
}

/// For being ready.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// For a thousand connections, or an allocation.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// For ending by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);
