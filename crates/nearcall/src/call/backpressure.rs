//! Waiting until a request may be sent: for room, for the end of another call, for memory to lend.
//!
//! **Invariants:** what waits here was not sent, so that it may be sent again; a wait ends at its
//! deadline, or with its connection. A request goes to a new connection once.
//! **Not here:** what was refused and why (`connection/send_mode.rs`), how a client waits
//! (`clients.rs`).

use std::rc::Rc;

use nearcall_channel::Loan;
use nearcall_wire::OutgoingCall;

use super::ObjectRef;
use super::resending::Ended;
use crate::clients::{Binding, Target};
use crate::codec::{AnyMessage, Encoded};
use crate::connection::{Connection, Need, NotSent, Oneway, SendMode, UNARY};
use crate::deadline::{Deadline, Pauses};
use crate::limits::DRAINING_TRIES_MAX;
use crate::options::{CallOptions, CallSpec};
use crate::reconnect::ReconnectPolicy;
use crate::status::{Fate, Status};

/// What was done over a connection, and which.
type Done<T> = (Rc<Binding>, Rc<Connection>, T);

impl ObjectRef {
    /// Starts a call that could not be started at once.
    #[cold]
    pub(super) fn start_after_wait(
        &self,
        binding: &Rc<Binding>,
        why: NotSent,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
    ) -> Result<Done<OutgoingCall>, Status> {
        let outgoing = self.outgoing(spec);
        self.send_until(binding, why, spec, |connection, mode| {
            connection.request(UNARY, &outgoing, &request, mode)
        })
    }

    /// Sends a one-way message that could not be sent at once.
    #[cold]
    pub(super) fn send_after_wait(
        &self,
        binding: &Rc<Binding>,
        why: NotSent,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
    ) -> Result<Done<()>, Status> {
        let outgoing = self.outgoing(spec);
        self.send_until(binding, why, spec, |connection, mode| {
            connection.request(Oneway, &outgoing, &request, mode)
        })
    }

    /// Makes a call that could not be started at once, and waits for its end.
    #[cold]
    pub(super) fn call_unsent(
        &self,
        binding: &Rc<Binding>,
        why: NotSent,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
    ) -> Result<Ended, Status> {
        let (binding, connection, call) = match self.start_after_wait(binding, why, request, spec) {
            Ok(started) => started,
            Err(status) => {
                let shared = self.shared_instead(status)?;
                let reply = self.call_encoded(&shared, &Encoded::new(&request)?, spec)?;
                return Ok(Ended::Shared(shared, reply));
            }
        };
        let outcome = binding.core.wait(&connection, call, spec.deadline);
        match outcome {
            Err(status) if status.fate() != Fate::Answered => {
                self.resend_call((&binding, &connection), status, request, spec)
            }
            outcome => Ok(Ended::Own(binding, outcome)),
        }
    }

    /// Sends again and again: when what it needs may be there, and on a new connection in the place
    /// of one that has ended or drains, as often as the policy has it. Nothing was sent before, so
    /// nothing runs twice.
    pub(super) fn send_until<T>(
        &self,
        binding: &Rc<Binding>,
        mut why: NotSent,
        spec: CallSpec<'_>,
        send: impl Fn(&Rc<Connection>, SendMode) -> Result<T, NotSent>,
    ) -> Result<Done<T>, Status> {
        let CallSpec { options, deadline, .. } = spec;
        let policy = self.reconnect_policy(options);
        let mode = binding.core.send_mode(options, deadline);
        // When attempts to connect end, once there was one.
        let mut end = None;
        let mut pauses = Pauses::HUNT;
        let mut tries = 0;
        let Target::Remote(connection) = &binding.target else { return Err(why.status) };
        let (mut binding, mut connection) = (Rc::clone(binding), Rc::clone(connection));
        loop {
            if connection.is_closed() || !connection.is_open() {
                match (end, policy) {
                    // It was made, and its server drained before it was used: another one serves.
                    (Some(_), ReconnectPolicy::Once) if tries < DRAINING_TRIES_MAX => tries += 1,
                    (Some(end), _) if Deadline::has_passed(end) => return Err(why.status),
                    // One that was opened for it had ended before it was used.
                    (Some(end), _) => binding.core.pause(pauses.next().min(end))?,
                    (None, policy) => {
                        let end_by = |span| Deadline::after(span).min(deadline);
                        end = Some(policy.patience().map_or(Deadline::NOW, end_by));
                    }
                }
                binding = self.resolve(policy, deadline)?;
                // It was not for a server of this thread.
                let Target::Remote(other) = &binding.target else { return Err(why.status) };
                connection = Rc::clone(other);
            } else {
                wait_for(&binding, &connection, why, deadline, mode)?;
            }
            why = match send(&connection, mode) {
                Ok(sent) => return Ok((binding, connection, sent)),
                Err(why) => why,
            };
        }
    }

    /// Returns memory to lend, once there is some.
    pub(super) fn loan_until(
        &self,
        bytes: usize,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<Loan, Status> {
        let binding = self.binding(options, deadline)?;
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Local(..) | Target::Hosted(_) => return Ok(Loan::plain(bytes)),
            Target::Shared(..) => return self.loan_shared(&binding, bytes, options, deadline),
        };
        let mut loan = connection.loan(bytes);
        let mut pauses = Pauses::LOAN;
        while matches!(&loan, Err(why) if why.may_pass())
            && options.may_wait()
            && !deadline.has_passed()
        {
            // Whatever happens meanwhile may have been caused by what gives a slot back.
            let pause_end = pauses.next().min(deadline);
            binding.core.wait_until(connection, pause_end, || {
                loan = connection.loan(bytes);
                !matches!(&loan, Err(why) if why.may_pass())
            })?;
            // A wait ends with its connection as well.
            loan = loan.or_else(|_| connection.loan(bytes));
        }
        loan.map_err(|why| connection.no_loan(&why, loan_end(options, deadline)))
    }
}

/// Returns until when a loan was waited for: one that was not waited for did not come too late.
pub(crate) fn loan_end(options: &CallOptions, deadline: Deadline) -> Deadline {
    if options.may_wait() { deadline } else { Deadline::NEVER }
}

/// Waits for what a request needs that was not sent, if it may wait.
fn wait_for(
    binding: &Binding,
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
        need => {
            if matches!(need, Some(Need::Room(_))) {
                // So that another attempt finds room: the server may wait for its replies to be
                // read.
                binding.core.poll(connection);
            }
            return Err(why.status);
        }
    };
    let is_there = match need {
        Need::Room(message_bytes) => {
            binding.core.wait_to_send(connection, message_bytes, deadline)?
        }
        Need::CallSlot => {
            binding.core.wait_until(connection, deadline, || connection.make_call_slot())?
        }
    };
    match (is_there, need) {
        (true, _) => Ok(()),
        (false, Need::Room(_)) => Err(connection.no_room_in_time()),
        (false, Need::CallSlot) => Err(connection.no_call_slot_in_time()),
    }
}
