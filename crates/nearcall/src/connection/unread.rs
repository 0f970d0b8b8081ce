//! A client that does not read the replies that it asked for.
//!
//! While much waits for room the connection is paused: no further request is read, so that the
//! client has to read first. What waits is charged to its user meanwhile. A client that takes
//! nothing of it for [`Limits::unread_timeout`](crate::Limits::unread_timeout) is cut off; progress
//! is each part of it that the channel takes, at most 64 KiB, or what a socket takes of one.
//! **Invariants:** only a server pauses, so that two ends never wait for each other to read; a
//! connection that has ended is not paused; the loop is told when it has to look again.
//! **Not here:** what waits (`outbox.rs`), how the loop sleeps meanwhile (`reactor/watching.rs`).

use std::cell::Cell;
use std::time::Duration;

use nearcall_channel::{Refusal, SendError};

use super::{Connection, Host, Inner};
use crate::deadline::{self, Deadline};
use crate::refusals::RefusalKind;
use crate::status::Status;

/// What a connection knows of replies that are not read.
pub(super) struct Unread {
    /// How long the peer may read nothing while the connection is paused.
    timeout: Duration,
    /// Until when, while it is.
    due: Cell<Deadline>,
    /// A call of this end was given up whose reply may still come.
    pub(super) has_given_up: Cell<bool>,
}

impl Unread {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, due: Cell::new(Deadline::NEVER), has_given_up: Cell::new(false) }
    }
}

impl<H: Host> Connection<H> {
    /// Returns whether no request is read before the peer has read what waits for it.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.inner.borrow().outbox.is_full() && !self.is_closed()
    }

    /// Returns when the peer has read nothing for too long; never while it need not read.
    pub(crate) fn unread_due(&self) -> Deadline {
        match (self.is_paused(), self.unread.due.get()) {
            (false, _) => self.unread.due.set(Deadline::NEVER),
            (true, Deadline::NEVER) => self.note_progress(),
            (true, _) => {}
        }
        self.unread.due.get()
    }

    /// Notes that the peer has read something of what waits.
    #[cold]
    pub(super) fn note_progress(&self) {
        let due = match self.is_paused() {
            true => deadline::later(deadline::now(), self.unread.timeout),
            false => Deadline::NEVER,
        };
        self.unread.due.set(due);
    }

    /// Sleeps until there is room for something of what waits, until `deadline` at most, or until
    /// the channel is interrupted.
    #[cold]
    pub(crate) fn sleep_for_room(&self, deadline: Deadline) {
        let waited = {
            let Inner { endpoint, outbox, .. } = &mut *self.inner.borrow_mut();
            endpoint.wait_for_room(outbox.front().map_or(0, <[u8]>::len), deadline)
        };
        if let Err(error) = waited
            && !matches!(error, SendError::Full)
        {
            self.channel_failed(&error);
        }
    }

    /// Cuts a peer off that has read nothing of what waits for it for too long.
    #[cold]
    pub(super) fn handle_unread_timeout(&self, now: Deadline) {
        if self.unread_due() > now {
            return;
        }
        // There may be room that the loop has not heard of.
        self.flush_out_of_turn();
        if self.unread_due() <= now && !self.is_closed() {
            let (messages, bytes) = {
                let inner = &mut *self.inner.borrow_mut();
                (inner.outbox.len(), inner.outbox.bytes() + inner.endpoint.unsent_bytes())
            };
            self.disconnect_slow_reader(format!(
                "{} has read nothing for {:?}, the limit `unread_timeout` of the server, while \
                 {messages} messages with {bytes} bytes waited for it: read replies while calls \
                 are under way, or raise that limit",
                self.name, self.unread.timeout
            ));
        }
    }

    /// Ends the connection to a peer that does not read, which is sent the reason.
    #[cold]
    pub(super) fn disconnect_slow_reader(&self, why: String) {
        self.note_refusal(RefusalKind::SlowReader, &why);
        self.with_endpoint(|endpoint| {
            endpoint.discard_unsent();
            endpoint.refuse(Refusal::Exhausted, &why);
        });
        self.abort(Status::resource_exhausted(why));
    }
}
