//! Sending a call again whose connection has ended without an answer.
//!
//! **Invariants:** a call that may have run is sent again only if its method is idempotent; all of
//! it ends by the deadline of the call, and after a bounded number of times.
//! **Not here:** what is known of a call that failed (`status.rs`), requests that were not sent
//! (`call/backpressure.rs`).
//!
//! **Invariant:** a request that was not sent has not run, and neither has one that a draining
//! server refuses, or has not answered when it sends its last GOAWAY. Only such requests are sent
//! again, and those of methods that the `.proto` file calls idempotent. *Checked by*
//! `tests/it/threads.rs`, `tests/it/async_client.rs`, and `tests/it/restarts.rs`, where servers
//! write down what they have run.

use std::rc::Rc;

use super::ObjectRef;
use crate::clients::Binding;
use crate::codec::{AnyMessage, Encoded, Message};
use crate::connection::{Connection, NotSent, Outcome};
use crate::interface::Method;
use crate::limits::RESENDS_MAX;
use crate::options::CallSpec;
use crate::reconnect::ReconnectPolicy;
use crate::status::{Fate, Status};

/// The end of a call that was not sent, or not answered, at once.
pub(super) enum Ended {
    Own(Rc<Binding>, Outcome),
    /// Over a connection that threads and tasks share.
    Shared(Rc<Binding>, Encoded),
}

impl Ended {
    /// Reads the result of a call of `method`.
    pub(super) fn read<R: Message + Default>(self, method: &Method) -> Result<R, Status> {
        match self {
            Self::Own(binding, outcome) => binding.read_outcome(outcome, method.id),
            Self::Shared(binding, reply) => binding.read_encoded(&reply, method.id),
        }
    }
}

impl ObjectRef {
    /// Sends a call again that was sent and ended with `status`, over a connection in the place of
    /// `used`, and waits for its end.
    #[cold]
    #[inline(never)]
    pub(super) fn resend_call(
        &self,
        (binding, connection): (&Rc<Binding>, &Rc<Connection>),
        mut status: Status,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
    ) -> Result<Ended, Status> {
        let policy = self.reconnect_policy(spec.options);
        let (mut binding, mut connection) = (Rc::clone(binding), Rc::clone(connection));
        let mut resends = 0;
        while may_resend(&status, spec.method, policy, resends) && !connection.is_open() {
            resends += 1;
            let why = NotSent::from(status.clone());
            let sent = self.start_after_wait(&binding, why, request, spec);
            let call;
            (binding, connection, call) = sent.map_err(|failed| join(&status, &failed))?;
            let outcome = binding.core.wait(&connection, call, spec.deadline);
            match outcome {
                Err(again) if again.fate() != Fate::Answered => {
                    // One that may have run stays so.
                    let lost = status.fate() == Fate::Lost;
                    status = if lost { again.with_fate(Fate::Lost) } else { again };
                }
                outcome => return Ok(Ended::Own(binding, outcome)),
            }
        }
        Err(status)
    }
}

/// Returns whether a call that ended with `status` is to be sent again, after `resends` times.
pub(crate) fn may_resend(
    status: &Status,
    method: &Method,
    policy: ReconnectPolicy,
    resends: u32,
) -> bool {
    let is_allowed = match status.fate() {
        Fate::Answered => false,
        Fate::NotBegun => true,
        Fate::Lost => method.is_idempotent(),
    };
    is_allowed && resends < RESENDS_MAX && policy != ReconnectPolicy::Never
}

/// Returns the status of a call that ended with `status`, and could not be sent again.
fn join(status: &Status, failed: &Status) -> Status {
    let text = format!("{}; and it was not sent again: {}", status.message(), failed.message());
    Status::new(failed.code(), text).with_fate(status.fate())
}
