//! A connection over `tcp://` that moves to shared memory by itself, where both ends share a
//! kernel.
//!
//! The client makes a socket and asks the server for an invitation by a call of the built-in
//! service, comes to the meeting when the reply has come, and begins a switch on the line that it
//! passes there. The request goes out behind the first one of the program, and everything else
//! happens while calls wait for their replies; over a connection that tasks share the driver does
//! it all, at once. A switch that the program asks for meanwhile begins after it. **Invariants:**
//! no call waits for it, and none fails by it: whatever fails leaves the connection where it is;
//! the peer stays what it was, a [`Peer::Remote`](crate::observe::Peer::Remote) that is not
//! trusted, for the kernel's word is about the process that came to the meeting, and the connection
//! need not have begun there. **Not here:** why no other process gets in between
//! (`handshake/meeting.rs` of `nearcall-channel`), the switch (`switching.rs`), which connections
//! do so (`clients/upgrading.rs`).
//!
//! **Invariant:** a connection over `tcp://` moves to shared memory without a call that waits for
//! it, and none fails by it; its peer stays a `Peer::Remote` that is not trusted. The client asks
//! for an invitation (`nearcall.v1.Server/Meet`) behind its first request, or when a call has ended
//! if all places were taken, comes to the meeting when the reply has come, and begins a switch
//! there; of a connection that tasks share the driver does that as soon as it is open. A switch
//! that the program asks for before that has ended begins when it has. *Checked by*
//! `tests/it/upgrades.rs`, `tests/it/async_client/upgrades.rs`, `tests/it/hostile_switches.rs`,
//! `tests/faults/meetings.rs`.

use std::io;

use nearcall_channel::{
    CannotSwitch, HandshakeError, Invitation, Invited, Mechanism, MeetingClient, Peer as End,
};
use nearcall_wire::OutgoingCall;

use super::calls::CallState;
use super::switch_history::SwitchCause;
use super::{Connection, Host, Outgoing, SendMode, UNARY};
use crate::codec::{Body, Encoded};
use crate::deadline::Deadline;
use crate::limits::{MEETING_WAIT, UPGRADE_TRIES_MAX};
use crate::status::{Code, Status};

/// How a client asks for an invitation, and what it wants then.
pub(crate) struct UpgradePlan {
    /// The object and the method that reply with an invitation.
    pub(crate) object: u64,
    pub(crate) method: u32,
    /// Makes the request, with what names the client's socket.
    pub(crate) request: fn([u8; 16]) -> Result<Encoded, Status>,
    /// Reads such a reply.
    pub(crate) read: fn(Body<'_>) -> Result<Invitation, Status>,
}

/// Free places among the calls in flight with which a client asks: the last one is the program's,
/// which uses another one.
const PLACES_TO_ASK: usize = 2;

/// What an end has of it.
#[derive(Default)]
pub(super) struct Upgrading {
    plan: Option<UpgradePlan>,
    /// The next flush is to ask.
    is_due: bool,
    /// It was to, and the end of a call is to: there was no place for one more.
    waits_for_place: bool,
    /// Of a client that has asked and has no answer yet.
    client: Option<MeetingClient>,
    tries_left: u32,
    /// Of a server, for the client that has asked last.
    invited: Option<Invited>,
}

impl<H: Host> Connection<H> {
    /// Has this client's connection move to shared memory as soon as it can, if the server moves.
    #[cold]
    pub(crate) fn plan_upgrade(&self, plan: UpgradePlan) {
        if self.inner.borrow().protocol.may_begin_switch().is_ok() {
            let (plan, tries_left) = (Some(plan), UPGRADE_TRIES_MAX);
            *self.upgrading.borrow_mut() =
                Upgrading { plan, is_due: true, tries_left, ..Upgrading::default() };
            self.note_blocked();
        }
    }

    /// Returns whether this client's connection is about to move to shared memory, or to learn that
    /// it stays.
    pub(super) fn is_upgrading(&self) -> bool {
        let is_open = {
            let upgrading = self.upgrading.borrow();
            upgrading.is_due || upgrading.client.is_some()
        };
        is_open || self.switch_cause() == Some(SwitchCause::Upgrade)
    }

    /// Has the client ask once more, after something has failed that may succeed later.
    #[cold]
    pub(super) fn retry_upgrade(&self) {
        let upgrading = &mut *self.upgrading.borrow_mut();
        if upgrading.tries_left > 0 && !self.is_closed() {
            upgrading.is_due = true;
            self.note_blocked();
        }
    }

    /// Asks, if there was no place for that among the calls and now is, since one has ended. At
    /// once: the flush that follows may come with the next call of the program.
    #[inline]
    pub(super) fn resume_upgrade(&self) {
        if self.upgrading.borrow().waits_for_place && self.outgoing_calls().1 >= PLACES_TO_ASK {
            self.ask_for_meeting();
        }
    }

    /// Asks for an invitation, if that is due and there is a place for one more call.
    #[cold]
    pub(super) fn ask_for_meeting(&self) {
        if !self.upgrading.borrow().is_due {
            return;
        }
        let (open, free) = self.outgoing_calls();
        let has_place = free >= PLACES_TO_ASK && self.make_call_slot() && !self.is_closed();
        let target = {
            let upgrading = &mut *self.upgrading.borrow_mut();
            upgrading.waits_for_place = !has_place && open + free >= PLACES_TO_ASK;
            upgrading.is_due = upgrading.waits_for_place;
            if !upgrading.waits_for_place {
                upgrading.tries_left = upgrading.tries_left.saturating_sub(1);
            }
            let plan = upgrading.plan.as_ref().filter(|_| has_place);
            plan.map(|plan| (plan.object, plan.method, plan.request))
        };
        let Some((object, method, request)) = target else { return self.begin_deferred() };
        let client = match MeetingClient::new() {
            Ok(client) => client,
            Err(error) => return self.put_off_upgrade(&error),
        };
        let outgoing =
            Outgoing { object, method, deadline: Deadline::after(MEETING_WAIT), metadata: &[] };
        if let Ok(request) = request(client.number())
            && let Ok(call) = self.request(UNARY, &outgoing, &request, SendMode::Keep)
            && let Some(state) = self.inner.borrow_mut().protocol.value_mut(call)
        {
            *state = CallState::Invitation;
            self.upgrading.borrow_mut().client = Some(client);
        }
        self.begin_deferred();
    }

    /// Has a later flush ask, if one is left and the kernel gives no socket now.
    #[cold]
    fn put_off_upgrade(&self, error: &io::Error) {
        self.note_no_upgrade(&Status::unavailable(format!("no socket to meet at: {error}")));
        self.retry_upgrade();
        self.begin_deferred();
    }

    /// Takes the reply to [`ask_for_meeting`](Self::ask_for_meeting), and begins.
    #[cold]
    pub(super) fn take_invitation(&self, call: OutgoingCall) {
        let client = self.upgrading.borrow_mut().client.take();
        if let Some(client) = client {
            self.come_to_meeting(call, client);
        }
        self.begin_deferred();
    }

    #[cold]
    fn come_to_meeting(&self, call: OutgoingCall, client: MeetingClient) {
        let reply = match self.take_outcome(call) {
            Some(Ok(reply)) => reply,
            // A server without time or means may have them later.
            Some(Err(status))
                if matches!(status.code(), Code::DeadlineExceeded | Code::Unavailable) =>
            {
                return self.retry_upgrade();
            }
            // One that does not move, or does not know of it, says the same once more.
            _ => {
                self.upgrading.borrow_mut().tries_left = 0;
                return;
            }
        };
        let invitation = {
            let upgrading = self.upgrading.borrow();
            let Some(plan) = &upgrading.plan else { return };
            (plan.read)(Body::copied(&reply.buffer[reply.body.clone()]))
        };
        self.buffers.give(reply.buffer);
        let Ok(invitation) = invitation else {
            self.upgrading.borrow_mut().tries_left = 0;
            return;
        };
        let mut is_elsewhere = false;
        let begun = self.begin_switch_by(Mechanism::Shm, SwitchCause::Upgrade, |_, options| {
            let begun = client.begin(&invitation, Mechanism::Shm, options);
            is_elsewhere =
                matches!(begun, Err(HandshakeError::CannotSwitch(CannotSwitch::Elsewhere)));
            begun
        });
        if let Err(status) = begun {
            self.note_no_upgrade(&status);
            if is_elsewhere {
                self.upgrading.borrow_mut().tries_left = 0;
            }
            self.retry_upgrade();
        }
    }

    /// Invites this server's client to a meeting.
    ///
    /// # Errors
    ///
    /// `FAILED_PRECONDITION`: its connection does not move. `UNAVAILABLE`: the kernel, or the
    /// account of the client, gives nothing.
    #[cold]
    pub(crate) fn invite(&self, client: [u8; 16]) -> Result<Invitation, Status> {
        let may_move = self.may_move_to(Mechanism::Shm);
        if !may_move || !self.is_over_tcp() {
            let why = match may_move {
                true => "it has a unix socket, over which it switches",
                false => {
                    "the server does not allow it (its limit `switches_per_minute_max`, `allow=`)"
                }
            };
            let text = format!("this connection moves to no shared memory by a meeting: {why}");
            return Err(Status::failed_precondition(text));
        }
        // If the client has asked twice, the socket that it did not come to makes room.
        drop(self.upgrading.borrow_mut().invited.take());
        let invited = Invited::new(client, self.inner.borrow().endpoint.account());
        let invited = invited.map_err(|error| {
            Status::unavailable(format!("the server cannot invite to a meeting: {error}"))
        })?;
        let invitation = invited.invitation().clone();
        self.upgrading.borrow_mut().invited = Some(invited);
        Ok(invitation)
    }

    /// Takes the place of this server's client in a meeting, if it was invited and its connection
    /// has no line of its own.
    pub(super) fn take_invited(&self) -> Option<Invited> {
        let invited = self.upgrading.borrow_mut().invited.take();
        invited.filter(|_| self.is_over_tcp())
    }

    /// Returns whether the channel in use has no control line.
    fn is_over_tcp(&self) -> bool {
        matches!(self.inner.borrow().endpoint.peer(), End::Remote(_))
    }
}
