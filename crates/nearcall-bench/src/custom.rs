//! Subjects that the harness does not know, which its caller brings along to be measured.
//!
//! A program that has such subjects gives a [`CustomSubjects`] to
//! [`peer::run_with`](crate::peer::run_with). They are measured as floors are: the two processes
//! meet over a [`Meeting`], each opens an end, and the loops are those of every other cell.
//!
//! **Invariants:** the harness treats all of them alike, whatever their names.
//! **Not here:** which there are (`nearcall-studies` has some).

pub use crate::custom_name::{CustomName, NotAName};
pub use crate::exchange::count::EndReport;
pub use crate::exchange::job::Job;
pub use crate::exchange::measured::Measured;
pub use crate::exchange::opened::{Opened, OpenedEnd, ask};
pub use crate::exchange::{Cause, End, Failure, Got};
pub use crate::floor::alone::measure as measure_alone;
pub use crate::floor::carrier::{Carrier, open};
pub use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
pub use crate::floor::stream::{Bytes, Pipes, Stream, Unix};
pub use crate::launch::{LaunchRequest, Role};

use crate::cell::CellSpec;

/// What a program has measured beside mechanisms and floors.
pub trait CustomSubjects {
    /// Measures the subject `name` if it stays within one process; returns `None` if it has two
    /// ends.
    fn alone(&self, name: &str, job: &Job) -> Option<Result<Measured, Failure>>;

    /// Opens an end of the subject `name` for `cell`. The other process does the same.
    ///
    /// # Errors
    ///
    /// The machine lacks what the subject needs, or there is no such subject.
    fn open<'a>(
        &self,
        name: &str,
        meeting: &'a Meeting,
        role: Role,
        cell: &CellSpec,
    ) -> OpenedEnd<'a>;
}

/// No subjects but those of the harness.
pub(crate) struct NoSubjects;

impl CustomSubjects for NoSubjects {
    fn alone(&self, _name: &str, _job: &Job) -> Option<Result<Measured, Failure>> {
        None
    }

    fn open<'a>(
        &self,
        name: &str,
        _meeting: &'a Meeting,
        _role: Role,
        _cell: &CellSpec,
    ) -> OpenedEnd<'a> {
        Err(Failure::other(format!("this program has no subject {name:?}")))
    }
}
