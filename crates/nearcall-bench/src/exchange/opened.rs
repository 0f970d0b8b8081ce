//! An open end of whatever kind, with the loops of its own type inside.

use crate::cell::CellSpec;
use crate::conditions::Traffic;
use crate::exchange::bursts::bursts;
use crate::exchange::count::EndReport;
use crate::exchange::gapped::gapped;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::paced::paced;
use crate::exchange::stream::throughput;
use crate::exchange::{End, Failure, client, exact, server};
use crate::launch::LaunchRequest;
use crate::run::Kind;

/// An open end. A client is asked to measure, a server to serve; an end that has only one of the
/// roles refuses the other.
pub trait Opened {
    /// Runs the client's loop for the cell of `job`.
    ///
    /// # Errors
    ///
    /// A message was damaged, or the other end is gone.
    fn ask(&mut self, _job: &Job) -> Result<Measured, Failure> {
        Err(Failure::other("this end only serves"))
    }

    /// Runs the server's loop for `cell`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    fn serve(&mut self, _cell: &CellSpec, _orders: &LaunchRequest) -> Result<EndReport, Failure> {
        Err(Failure::other("this end only asks"))
    }
}

/// What opening an end comes to.
pub type OpenedEnd<'a> = Result<Box<dyn Opened + 'a>, Failure>;

/// An end, and what its channel holds.
struct Holding<E> {
    end: E,
    buffer_bytes: u64,
}

impl<E: End> Opened for Holding<E> {
    fn ask(&mut self, job: &Job) -> Result<Measured, Failure> {
        ask(&mut self.end, job, self.buffer_bytes)
    }

    fn serve(&mut self, cell: &CellSpec, request: &LaunchRequest) -> Result<EndReport, Failure> {
        server::serve(&mut self.end, cell, request.seed, request.fault)
    }
}

/// Returns an end that is open and whose channel holds up to `buffer_bytes`.
pub(crate) fn opened<'a>(end: impl End + 'a, buffer_bytes: u64) -> Box<dyn Opened + 'a> {
    Box::new(Holding { end, buffer_bytes })
}

/// Runs the client's loop for the cell of `job` over `end`, whose channel holds up to
/// `buffer_bytes`.
///
/// # Errors
///
/// A message was damaged, or the other end is gone.
pub fn ask<E: End>(end: &mut E, job: &Job, buffer_bytes: u64) -> Result<Measured, Failure> {
    match job.cell.conditions.traffic {
        Traffic::Gap { ns } => return gapped(end, job, ns),
        Traffic::Burst { messages } => return bursts(end, job, messages),
        // These have ends of their own, which do not come here.
        Traffic::Steady
        | Traffic::Clients { .. }
        | Traffic::Starts { .. }
        | Traffic::Switch { .. }
        | Traffic::Switches => {}
    }
    match job.cell.kind {
        Kind::Latency if job.cell.conditions.exchanges > 0 => exact::latency(end, job),
        Kind::Throughput if job.cell.conditions.exchanges > 0 => exact::throughput(end, job),
        Kind::Latency if job.cell.conditions.rate_per_s > 0 => paced(end, job),
        Kind::Latency => client::latency(end, job),
        Kind::Throughput => throughput(end, job, buffer_bytes),
    }
}
