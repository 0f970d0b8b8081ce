//! What the two ends of a launch say outside of measured regions, to each other and to the runner.
//!
//! **Not here:** what they measure (`exchange/`, `calls/`), how requests come in (`worker.rs`).

use std::time::Duration;

use nearcall_os::clock;

use crate::cell::CellSpec;
use crate::exchange::count::EndReport;
use crate::exchange::job::{Job, Part};
use crate::exchange::measured::Measured;
use crate::exchange::stamps::TimestampSource;
use crate::exchange::{Cause, Failure};
use crate::launch::{Fault, LaunchRequest, WorkerMessage};
use crate::run::EffectiveSize;
use crate::{locked, worker};

pub(crate) fn write(message: &WorkerMessage) -> Result<(), Failure> {
    Ok(worker::write_message(message)?)
}

pub(crate) fn job(request: &LaunchRequest, cell: CellSpec) -> Job {
    Job {
        cell,
        seed: request.seed,
        budget_ns: request.cell_budget_ns,
        part: Part::Whole,
        stamps: TimestampSource::new(request.tsc),
        fault: request.fault,
    }
}

/// What the client says once it is connected; `memory` says how that was locked.
pub(crate) fn connected(
    request: &LaunchRequest,
    set_up_ns: Option<u64>,
    sizes: Vec<EffectiveSize>,
    memory: String,
) -> WorkerMessage {
    let timer = match TimestampSource::new(request.tsc) {
        TimestampSource::Tsc(_) => "tsc",
        TimestampSource::Clock => "monotonic",
        #[cfg(test)]
        TimestampSource::Scripted => "scripted",
    };
    WorkerMessage::Connected { set_up_ns, sizes, timer: timer.to_owned(), memory }
}

/// Makes the fault that the server was told to make when a cell begins.
pub(crate) fn misbehave(fault: Fault) -> Result<(), Failure> {
    match fault {
        Fault::Die => Err(Failure::other("told to go away")),
        Fault::Hang => {
            clock::pause(HANG);
            Ok(())
        }
        Fault::None | Fault::Corrupt | Fault::SlowStart | Fault::Stall { .. } => Ok(()),
    }
}

/// Measures each cell, and reports to the runner that it is connected and what it found.
pub(crate) fn measure_all(
    request: &LaunchRequest,
    (set_up_ns, sizes): (Option<u64>, Vec<EffectiveSize>),
    mut measure: impl FnMut(&Job) -> Result<Measured, Failure>,
) -> Result<(), Failure> {
    write(&connected(request, set_up_ns, sizes, locked::lock_for(request)))?;
    for &cell in &request.cells {
        let measured = measure(&job(request, cell))?;
        write(&WorkerMessage::Cell { cell, outcome: Ok(Box::new(measured)) })?;
    }
    Ok(())
}

/// Adds the server's report. It must have had every message that the client counts: one that is
/// lost between the last of them and the mark would shorten the time.
pub(crate) fn add_server(measured: &mut Measured, report: &str) -> Result<(), Failure> {
    let report: EndReport = serde_json::from_str(report)?;
    if report.received != measured.messages {
        let (sent, received) = (measured.messages, report.received);
        return Err(Failure {
            cause: Cause::Corrupt,
            text: format!("{sent} messages were sent and {received} received"),
        });
    }
    measured.server = Some(report);
    Ok(())
}

/// The client has no more cells.
pub(crate) const GOODBYE: &str = "goodbye";

/// The server has made its payload.
pub(crate) const READY: &str = "ready";

/// Longer than any watchdog waits.
const HANG: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_fails_the_run() {
        let mut measured = Measured { messages: 7, ..Measured::default() };
        let report = |received| {
            serde_json::to_string(&EndReport { received, ..EndReport::default() }).unwrap()
        };
        let failure = add_server(&mut measured, &report(6)).unwrap_err();
        assert_eq!(failure.cause, Cause::Corrupt);
        assert!(measured.server.is_none());
        add_server(&mut measured, &report(7)).unwrap();
        assert!(measured.server.is_some());
    }
}
