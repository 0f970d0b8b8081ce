//! A shared connection that moves to another channel: the task that waits for that, and what the
//! driver watches.
//!
//! **Invariants:** the driver watches the channel that messages come by; it wakes for each step of
//! a switch, also if no task waits for anything; one task waits for a switch and gets its outcome.
//! **Not here:** the steps (`connection/switching.rs`).

use std::sync::Arc;

use nearcall_channel::{Endpoint, Mechanism, WaitPolicy};

use super::AsyncConnection;
use super::driver::DriverHandle;
use super::shared::Shared;
use super::switch_slot::SwitchSlot;
use crate::connection::switch_history::SwitchCause;
use crate::status::Status;

impl AsyncConnection {
    /// Begins to move to another channel. The result has the outcome.
    ///
    /// # Errors
    ///
    /// The reason why this connection stays on its channel.
    pub(crate) fn begin_switch(&self, mechanism: Mechanism) -> Result<Arc<SwitchSlot>, Status> {
        self.use_and_rest(|shared| {
            if shared.is_moving() {
                // It may have ended, and a task that has seen that has not said so yet.
                shared.follow_switch(&self.driver, self.id);
            }
            shared.connection.begin_switch(mechanism, SwitchCause::Program)?;
            let slot = Arc::new(SwitchSlot::default());
            shared.switch = Some(Arc::clone(&slot));
            Ok(slot)
        })
    }

    /// Gives up a switch that takes too long, if there is a way back, and returns the status of it.
    pub(crate) fn late_switch(&self, slot: &Arc<SwitchSlot>, mechanism: Mechanism) -> Status {
        self.use_and_rest(|shared| match &shared.switch {
            Some(current) if Arc::ptr_eq(current, slot) => {
                shared.connection.late_switch(mechanism, SwitchCause::Program)
            }
            // It has just ended.
            _ => Status::deadline_exceeded("the connection did not move in time"),
        })
    }
}

impl Shared {
    /// Returns whether a switch is under way, whatever has begun it, or has just ended.
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        self.switch.is_some()
            || self.connection.is_switching()
            || self.connection.host().has_switched()
    }

    /// Watches the channel that the connection has moved to, and gives out how a switch has ended.
    #[cold]
    pub(super) fn follow_switch(&mut self, driver: &DriverHandle, id: u64) {
        if self.connection.host().take_switched() && !self.connection.is_closed() {
            self.watch_anew(driver, id);
        }
        if let Some(outcome) = self.connection.take_switch_outcome(SwitchCause::Program) {
            self.end_switch(outcome);
        }
    }

    /// The connection has ended, and the switch that was under way with it.
    pub(super) fn fail_switch(&mut self) {
        let outcome = self.connection.take_switch_outcome(SwitchCause::Program);
        self.end_switch(outcome.unwrap_or_else(|| Err(self.connection.close_reason())));
    }

    fn end_switch(&mut self, outcome: Result<(), Status>) {
        let waker = self.switch.take().and_then(|slot| slot.end(outcome));
        if let Some(waker) = waker {
            self.connection.host().with_wakes(|wakes| wakes.wake(waker));
        }
    }

    fn watch_anew(&mut self, driver: &DriverHandle, id: u64) {
        self.unwatch_channel(driver);
        self.connection.forget_watched();
        self.connection.with_endpoint(Endpoint::stay_armed);
        self.looks = self.connection.wait() == WaitPolicy::Adaptive;
        if let Err(error) = self.watch(driver, id) {
            let name = &self.connection.name;
            let text = format!("{name}: cannot wait for the new channel: {error}");
            self.connection.close(Status::unavailable(text));
        }
        self.connection.resume_switch();
    }
}
