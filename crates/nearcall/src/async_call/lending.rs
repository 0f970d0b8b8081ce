//! Memory for requests of tasks.
//!
//! **Invariants:** no lock is held while a task waits for what the server still has.
//! **Not here:** the memory (`connection/lending.rs`).

use nearcall_channel::Loan;

use super::connecting::sleep_until;
use crate::async_connection::AsyncConnection;
use crate::deadline::{Deadline, Pauses};
use crate::status::Status;

/// Returns memory to lend, once there is some.
pub(super) async fn loan(
    connection: &AsyncConnection,
    bytes: usize,
    deadline: Deadline,
) -> Result<Loan, Status> {
    let mut pauses = Pauses::LOAN;
    loop {
        let refused = match connection.with(|connection| connection.loan(bytes)) {
            Ok(loan) => return Ok(loan),
            Err(why) => why,
        };
        if !refused.may_pass() || deadline.has_passed() {
            return Err(connection.with(|connection| connection.no_loan(&refused, deadline)));
        }
        sleep_until(pauses.next().min(deadline)).await?;
    }
}
