//! The calls that we made over one connection, each waiting for its end or holding it.
//!
//! A call's place here is its own: the protocol gives the slot of its id to the next call as soon
//! as the reply is there, while the reply may still wait here for who asked for it.
//! Always true: the end of a call is taken once, or given up with the call.
//! Not here: ids and deadlines (`nearcall-wire`).

use std::ops::Range;
use std::task::Waker;

use nearcall_wire::OutgoingCall;

use crate::lent::LentParts;
use crate::status::Status;

/// How a call ended: the buffer that its reply came in, or why it failed.
pub(crate) type Outcome = Result<Reply, Status>;

/// A reply as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) buffer: Vec<u8>,
    /// Where in the buffer the result is.
    pub(crate) body: Range<usize>,
    /// What of the result lies in memory of the peer.
    pub(crate) lent: Option<Box<LentParts>>,
}

/// A call that was started and whose end has not been taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    place: usize,
    pub(crate) call: OutgoingCall,
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    places: Vec<Place>,
    free: Vec<usize>,
    /// By the slot of a call's id: where the last call with it is.
    by_slot: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    call: Option<OutgoingCall>,
    state: State,
}

/// How far a call is. A waker is dropped where nothing is borrowed: its end may run a task's.
#[derive(Debug)]
pub(crate) enum State {
    Waiting(Option<Waker>),
    Done(Outcome),
}

impl Calls {
    /// Notes a call that was started. Allocates only while the table grows.
    #[inline]
    pub(crate) fn started(&mut self, call: OutgoingCall) -> Ticket {
        let slot = usize::from(call.slot());
        if slot >= self.by_slot.len() {
            self.by_slot.resize(slot + 1, usize::MAX);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { call: None, state: State::Waiting(None) });
            self.places.len() - 1
        });
        self.places[place].call = Some(call);
        self.by_slot[slot] = place;
        Ticket { place, call }
    }

    /// Notes the end of a call and gives whom to wake. Comes back if nobody waits for it.
    #[inline]
    pub(crate) fn end(
        &mut self,
        call: OutgoingCall,
        outcome: Outcome,
    ) -> Result<Option<Waker>, Outcome> {
        let place = self.by_slot.get(usize::from(call.slot())).copied().unwrap_or(usize::MAX);
        match self.places.get_mut(place) {
            Some(place) if place.call == Some(call) => {
                match std::mem::replace(&mut place.state, State::Done(outcome)) {
                    State::Waiting(waker) => Ok(waker),
                    State::Done(_) => Ok(None),
                }
            }
            _ => Err(outcome),
        }
    }

    /// Whether the end of the call has come.
    #[inline]
    pub(crate) fn has_ended(&self, ticket: &Ticket) -> bool {
        matches!(self.places[ticket.place].state, State::Done(_))
    }

    /// Takes the end of a call, if it has come. The ticket is used up then.
    #[inline]
    pub(crate) fn take(&mut self, ticket: &Ticket) -> Option<Outcome> {
        match self.has_ended(ticket).then(|| self.forget(ticket)) {
            Some(State::Done(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Nobody waits for this call any more. How far it was.
    #[inline]
    pub(crate) fn forget(&mut self, ticket: &Ticket) -> State {
        let place = &mut self.places[ticket.place];
        place.call = None;
        self.free.push(ticket.place);
        std::mem::replace(&mut place.state, State::Waiting(None))
    }

    /// Whom to wake when the call ends, in the place of whom it was.
    pub(crate) fn wake_at_end(&mut self, ticket: &Ticket, waker: Waker) -> Option<Waker> {
        match &mut self.places[ticket.place].state {
            State::Waiting(slot) => slot.replace(waker),
            State::Done(_) => Some(waker),
        }
    }
}
