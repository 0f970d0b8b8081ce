//! Sending a call again whose connection has ended without an answer.
//!
//! **Invariants:** a call that may have run is sent again only if its method is idempotent; all of
//! it ends by the deadline of the call, and after a bounded number of times.
//! **Not here:** what is known of a call that failed (`status.rs`), requests that were not sent
//! (`call/backpressure.rs`).

use std::rc::Rc;

use super::ObjectRef;
use crate::client::Binding;
use crate::codec::Message;
use crate::connection::{Connection, NotSent, Outgoing};
use crate::interface::Method;
use crate::limits::RESENDS_MAX;
use crate::options::CallOptions;
use crate::reconnect::ReconnectPolicy;
use crate::status::{Fate, Status};

impl ObjectRef {
    /// Sends a call again that ended with `status`, over a connection in the place of `used`, and
    /// waits for its end.
    #[cold]
    #[inline(never)]
    pub(super) fn call_again<Q: Message, R: Message + Default>(
        &self,
        (binding, connection): (&Rc<Binding>, &Rc<Connection>),
        mut status: Status,
        method: &Method,
        outgoing: &Outgoing<'_>,
        request: &Q,
        options: &CallOptions,
    ) -> Result<R, Status> {
        let policy = self.reconnect_policy(options);
        let mode = binding.core.send_mode(outgoing.deadline);
        let (mut binding, mut connection) = (Rc::clone(binding), Rc::clone(connection));
        let mut resends = 0;
        while may_resend(&status, method, policy, resends) && !connection.is_open() {
            resends += 1;
            let why = NotSent::from(status.clone());
            let sent = self.start_again(&binding, why, outgoing, request, options, mode);
            let call;
            (binding, connection, call) = sent.map_err(|failed| join(&status, &failed))?;
            let outcome = binding.core.wait(&connection, call, outgoing.deadline);
            match outcome {
                Err(again) if again.fate() != Fate::Answered => {
                    // One that may have run stays so.
                    let lost = status.fate() == Fate::Lost;
                    status = if lost { again.with_fate(Fate::Lost) } else { again };
                }
                outcome => return binding.read_outcome(outcome, outgoing.method),
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
