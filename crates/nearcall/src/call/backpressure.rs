//! Waiting until a request may be sent: for room, for the end of another call, for memory to lend.
//!
//! **Invariants:** what waits here was not sent, so that it may be sent again; a wait ends at its
//! deadline, or with its connection. A request goes to a new connection once.
//! **Not here:** what was refused and why (`connection/send_mode.rs`), how a client waits
//! (`client.rs`).

use std::rc::Rc;

use nearcall_channel::Loan;
use nearcall_wire::OutgoingCall;

use super::{Binding, ObjectRef, Target};
use crate::codec::Message;
use crate::connection::{Connection, LoanPauses, Need, NotSent, Outgoing, SendMode};
use crate::deadline::Deadline;
use crate::status::Status;

impl ObjectRef {
    /// Starts a call that could not be started at once.
    #[cold]
    pub(super) fn start_again<Q: Message>(
        &self,
        connection: Rc<Connection>,
        why: NotSent,
        outgoing: &Outgoing<'_>,
        request: &Q,
        mode: SendMode,
    ) -> Result<(Rc<Connection>, OutgoingCall), Status> {
        self.send_until(connection, why, outgoing.deadline, mode, |connection| {
            connection.start_call(outgoing, request, mode)
        })
    }

    /// Sends a one-way message that could not be sent at once.
    #[cold]
    pub(super) fn send_again<Q: Message>(
        &self,
        connection: Rc<Connection>,
        why: NotSent,
        outgoing: &Outgoing<'_>,
        request: &Q,
        mode: SendMode,
    ) -> Result<Rc<Connection>, Status> {
        let sent = self.send_until(connection, why, outgoing.deadline, mode, |connection| {
            connection.send_oneway(outgoing, request, mode)
        });
        sent.map(|(connection, ())| connection)
    }

    /// Sends again and again: when what it needs may be there, and once on a new connection in the
    /// place of one that has ended or drains. Nothing was sent before, so nothing runs twice.
    fn send_until<T>(
        &self,
        mut connection: Rc<Connection>,
        mut why: NotSent,
        deadline: Deadline,
        mode: SendMode,
        send: impl Fn(&Rc<Connection>) -> Result<T, NotSent>,
    ) -> Result<(Rc<Connection>, T), Status> {
        let mut may_reconnect = true;
        loop {
            if connection.is_closed() || !connection.is_open() {
                if !std::mem::take(&mut may_reconnect) {
                    return Err(why.status);
                }
                connection = self.reconnect(why.status, deadline)?;
            } else {
                self.wait_for(&connection, why, deadline, mode)?;
            }
            why = match send(&connection) {
                Ok(sent) => return Ok((connection, sent)),
                Err(why) => why,
            };
        }
    }

    /// Returns the connection that replaces one that takes no more calls.
    fn reconnect(&self, status: Status, deadline: Deadline) -> Result<Rc<Connection>, Status> {
        drop(self.binding.replace(Binding::Unresolved));
        match self.target(deadline)? {
            Target::Remote(connection) => Ok(connection),
            Target::Local(_) => Err(status),
        }
    }

    /// Waits for what a request needs that was not sent, if it may wait.
    fn wait_for(
        &self,
        connection: &Rc<Connection>,
        why: NotSent,
        deadline: Deadline,
        mode: SendMode,
    ) -> Result<(), Status> {
        let may_wait = !matches!(mode, SendMode::Try | SendMode::TRY_WHOLE);
        let need = match why.need {
            // What only its results hold up needs no waiting.
            Some(Need::CallSlot) if connection.make_call_slot() => return Ok(()),
            Some(need) if may_wait => need,
            _ => return Err(why.status),
        };
        let is_there = self.client.wait_until(connection, deadline, || match need {
            Need::Room => !connection.has_pending_writes(),
            Need::CallSlot => connection.make_call_slot(),
        })?;
        match (is_there, need) {
            (true, _) => Ok(()),
            (false, Need::Room) => Err(connection.no_room_in_time()),
            (false, Need::CallSlot) => Err(connection.no_call_slot_in_time()),
        }
    }

    /// Returns memory to lend, once there is some.
    pub(super) fn loan_until(&self, bytes: usize, deadline: Deadline) -> Result<Loan, Status> {
        let connection = match self.target(deadline)? {
            Target::Remote(connection) => connection,
            Target::Local(_) => return Ok(Loan::plain(bytes)),
        };
        let mut loan = connection.loan(bytes);
        let mut pauses = LoanPauses::default();
        while matches!(&loan, Err(why) if why.may_pass()) && !deadline.has_passed() {
            // Whatever happens meanwhile may have been caused by what gives a slot back.
            let pause_end = pauses.next().min(deadline);
            self.client.wait_until(&connection, pause_end, || {
                loan = connection.loan(bytes);
                !matches!(&loan, Err(why) if why.may_pass())
            })?;
            // A wait ends with its connection as well.
            loan = loan.or_else(|_| connection.loan(bytes));
        }
        loan.map_err(|why| connection.no_loan(&why, deadline))
    }
}
