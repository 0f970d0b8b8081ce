//! Moving a connection of async callers to another mechanism.
//!
//! **Invariants:** a future that is dropped gives its switch up, if there is a way back.
//! **Not here:** the steps of a switch (`connection/switching.rs`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use nearcall_channel::{Mechanism, UnknownMechanism};

use super::connecting::poll_timer;
use crate::address::{Address, BadAddress};
use crate::async_connection::{AsyncConnection, SwitchSlot, Timer, check_waits};
use crate::clients::Client;
use crate::deadline::Deadline;
use crate::status::Status;

impl Client {
    /// Moves the connection of this client's async callers to a server at `address` to another
    /// mechanism, as [`switch`](Self::switch) does for the connection of a thread. Tasks go on to
    /// use it meanwhile. A future that is dropped gives the switch up, unless the connection moves
    /// already.
    ///
    /// # Errors
    ///
    /// As [`switch`](Self::switch), and `FAILED_PRECONDITION`: the mechanism has no descriptor to
    /// wait for, or no task of this client has called a service there.
    pub async fn switch_async(
        &self,
        address: &str,
        mechanism: &str,
        timeout: Duration,
    ) -> Result<(), Status> {
        let address: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        let mechanism: Mechanism = mechanism
            .parse()
            .map_err(|error: UnknownMechanism| Status::invalid_argument(error.to_string()))?;
        check_waits(mechanism)?;
        let Some(connection) = self.async_route(&address).connection() else {
            let text = format!(
                "no connection of async callers to {} takes calls; call a service there first",
                address.at
            );
            return Err(Status::failed_precondition(text));
        };
        let slot = connection.begin_switch(mechanism)?;
        let mut switch = PendingSwitch { connection, slot, mechanism, is_over: false, timer: None };
        let deadline = Deadline::after(timeout);
        poll_fn(|context| switch.poll(deadline, context.waker())).await
    }
}

/// A switch under way.
struct PendingSwitch {
    connection: Arc<AsyncConnection>,
    slot: Arc<SwitchSlot>,
    mechanism: Mechanism,
    is_over: bool,
    timer: Option<Timer>,
}

impl PendingSwitch {
    fn poll(&mut self, deadline: Deadline, waker: &Waker) -> Poll<Result<(), Status>> {
        let outcome = self.slot.poll(waker);
        if outcome.is_ready() {
            self.is_over = true;
            return outcome;
        }
        if !poll_timer(&mut self.timer, deadline, waker)? {
            return Poll::Pending;
        }
        self.is_over = true;
        let late = self.connection.late_switch(&self.slot, self.mechanism);
        // It may have moved in the last moment.
        let moved = matches!(self.slot.poll(waker), Poll::Ready(Ok(())));
        self.slot.leave();
        Poll::Ready(if moved { Ok(()) } else { Err(late) })
    }
}

impl Drop for PendingSwitch {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.late_switch(&self.slot, self.mechanism);
            self.slot.leave();
        }
    }
}
