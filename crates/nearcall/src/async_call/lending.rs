//! Memory for requests of tasks.
//!
//! **Invariants:** no lock is held while a task waits for what the server still has.
//! **Not here:** the memory (`connection/lending.rs`).

use nearcall_channel::Loan;

use super::connecting::sleep_until;
use crate::async_connection::AsyncConnection;
use crate::call::loan_end;
use crate::deadline::{Deadline, Pauses};
use crate::options::CallOptions;
use crate::status::Status;

/// Returns memory to lend, once there is some.
pub(super) async fn loan(
    connection: &AsyncConnection,
    bytes: usize,
    options: &CallOptions,
    deadline: Deadline,
) -> Result<Loan, Status> {
    let mut pauses = Pauses::LOAN;
    loop {
        let refused = match connection.with(|connection| connection.loan(bytes)) {
            Ok(loan) => return Ok(loan),
            Err(why) => why,
        };
        if !refused.may_pass() || !options.may_wait() || deadline.has_passed() {
            let end = loan_end(options, deadline);
            return Err(connection.with(|connection| connection.no_loan(&refused, end)));
        }
        sleep_until(pauses.next().min(deadline)).await?;
    }
}
