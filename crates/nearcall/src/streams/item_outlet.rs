//! The items of a service that wait until the connection can send them.
//!
//! A service in another thread than its loop's puts them in, or one whose send must not block; the
//! loop sends them as credit and room permit.
//! **Invariants:** items leave in the order in which they came, and the end of the call after all
//! of them; they are bounded, and charged to the account of the peer's user; whoever waits is woken
//! when there is room and at the end.
//! **Not here:** sending (`connection/pumping.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use nearcall_channel::account::Exceeded;

use crate::codec::{self, Encoded, Message};
use crate::deadline::Deadline;
use crate::limits::{ITEMS_STEP_BYTES, OUTLET_BYTES_MAX};
use crate::metadata::{BadMetadata, Entries, Headers};
use crate::reservation::{CallMemory, Reservation};
use crate::status::Status;
use crate::streams::wait_while;
use crate::tasks::reply_extras::ReplyExtras;
use crate::waking;

/// Shared by a service and the connection of its call.
#[derive(Default)]
pub(crate) struct ItemOutlet {
    state: Mutex<State>,
    /// Threads that wait for room.
    has_room: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Encoded>,
    bytes: usize,
    /// The end of the call, once the service has given it.
    answer: Option<Answer>,
    headers: Headers,
    /// Headers that the caller takes with the end of the call only.
    late_headers: Entries,
    /// No item is sent any more.
    ended: Option<Status>,
    /// The loop knows that there is something.
    is_posted: bool,
    waker: Option<Waker>,
    /// Of all that.
    reservation: Reservation,
}

impl State {
    /// Charges so many bytes, in steps.
    fn reserve(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let steps = bytes.checked_next_multiple_of(ITEMS_STEP_BYTES);
        self.reservation.grow_to(steps.unwrap_or(usize::MAX))
    }
}

/// The end of a call, and what goes with it.
pub(crate) type Answer = (Option<Box<ReplyExtras>>, Result<Encoded, Status>);

/// What became of an item.
pub(crate) enum Put {
    /// It waits to be sent. True: inform the loop.
    Done(bool),
    /// There is no room.
    Full,
    /// The call has ended.
    Ended(Status),
    /// It cannot be sent; the call goes on.
    Refused(Status),
    /// The user of the caller may not have more wait here.
    Exceeded(Exceeded),
}

impl ItemOutlet {
    /// Creates an outlet whose items are charged for.
    pub(crate) fn charged_to(memory: Option<&Arc<CallMemory>>) -> Self {
        let state = State { reservation: Reservation::of(memory), ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    /// Adds an item, if there is room for it. One of any length finds room when nothing waits.
    pub(crate) fn put(&self, item: &impl Message) -> Put {
        let mut state = self.lock();
        if let Some(status) = &state.ended {
            return Put::Ended(status.clone());
        }
        if state.bytes >= OUTLET_BYTES_MAX {
            return Put::Full;
        }
        let item_bytes = match codec::checked_bytes(item, "item") {
            Ok(item_bytes) => item_bytes,
            Err(status) => return Put::Refused(status),
        };
        // Tiny items cost more than their bytes.
        let bytes = state.bytes + item_bytes + ITEM_BYTES;
        if let Err(exceeded) = state.reserve(bytes) {
            return Put::Exceeded(exceeded);
        }
        state.bytes = bytes;
        state.headers.close();
        state.items.push_back(Encoded::of_length(item, item_bytes));
        Put::Done(!std::mem::replace(&mut state.is_posted, true))
    }

    /// Adds an entry to the headers of the call.
    pub(crate) fn add_header(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.lock().headers.add(key, value)
    }

    /// Has the headers be sent. False: they were sent before.
    pub(crate) fn send_headers(&self) -> bool {
        self.lock().headers.send()
    }

    /// Takes the headers, if there are some to be sent.
    pub(crate) fn take_headers(&self) -> Option<Entries> {
        let mut state = self.lock();
        // Until it has sent an item a service may add some.
        if state.headers.is_closed() { state.headers.take() } else { None }
    }

    /// Keeps headers that go with the end of the call.
    pub(crate) fn keep_for_answer(&self, headers: Entries) {
        if !headers.is_empty() {
            self.lock().late_headers = headers;
        }
    }

    /// Takes the headers that go with the end of the call.
    pub(crate) fn take_for_answer(&self) -> Entries {
        std::mem::take(&mut self.lock().late_headers)
    }

    /// Prepares for an item that is sent without a wait here. True: the headers are to be sent
    /// first.
    ///
    /// # Errors
    ///
    /// Why no item is sent any more.
    #[inline]
    pub(crate) fn begin_item(&self) -> Result<bool, Status> {
        let mut state = self.lock();
        match &state.ended {
            Some(status) => Err(status.clone()),
            None => {
                state.headers.close();
                Ok(state.headers.wait())
            }
        }
    }

    /// Takes no more headers: the call ends.
    pub(crate) fn close_headers(&self) {
        self.lock().headers.close();
    }

    /// Returns whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Returns whether the loop has something to do here: it has not found it empty since the last
    /// item came.
    pub(crate) fn is_posted(&self) -> bool {
        self.lock().is_posted
    }

    /// Has the call end with this when all items were sent, unless it has an end already.
    pub(crate) fn defer(&self, answer: Answer) {
        let mut state = self.lock();
        let bytes = answer.1.as_ref().map_or(0, Message::encoded_len);
        let all_bytes = state.bytes.saturating_add(bytes);
        let reserved = state.reserve(all_bytes);
        let (extras, answer) = answer;
        let refuse = |exceeded: Exceeded| Err(Status::resource_exhausted(exceeded.to_string()));
        let answer = (extras, reserved.map_or_else(refuse, |()| answer));
        let refused = match state.answer {
            Some(_) => Some(answer),
            None => state.answer.replace(answer),
        };
        drop(state);
        // Outside the lock: interceptors may see its end.
        drop(refused);
    }

    /// Takes the first item, and makes room for others.
    pub(crate) fn take(&self) -> Option<Encoded> {
        let mut state = self.lock();
        let Some(item) = state.items.pop_front() else {
            state.is_posted = false;
            if state.answer.is_none() {
                state.reservation.shrink_to(0);
            }
            return None;
        };
        state.bytes -= item.encoded_len() + ITEM_BYTES;
        // Half, so that a thread is not woken for each item.
        if state.bytes <= OUTLET_BYTES_MAX / 2 {
            self.notify(state);
        }
        Some(item)
    }

    /// Puts back what was taken and could not be sent.
    pub(crate) fn put_back(&self, item: Encoded) {
        let mut state = self.lock();
        state.bytes += item.encoded_len() + ITEM_BYTES;
        state.items.push_front(item);
    }

    /// Takes the end of the call, if the service has given it.
    pub(crate) fn take_answer(&self) -> Option<Answer> {
        let mut state = self.lock();
        state.reservation.shrink_to(0);
        state.answer.take()
    }

    /// Notes that no item is sent any more, and why.
    pub(crate) fn end(&self, status: Status) {
        let mut state = self.lock();
        state.ended.get_or_insert(status);
        let left = (std::mem::take(&mut state.items), state.answer.take());
        state.bytes = 0;
        state.reservation.shrink_to(0);
        self.notify(state);
        // Outside the lock: interceptors may see the end of the call.
        drop(left);
    }

    /// Returns why no item is sent any more, if that is so.
    pub(crate) fn ended(&self) -> Option<Status> {
        self.lock().ended.clone()
    }

    /// Has `waker` woken when there is room or at the end, unless that is so: false.
    pub(crate) fn set_waker(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.ended.is_some() || state.bytes < OUTLET_BYTES_MAX {
            return false;
        }
        let before = state.waker.replace(waker.clone());
        drop(state);
        waking::retire(before);
        true
    }

    /// Blocks this thread until there is room, the end, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Deadline) {
        drop(wait_while(&self.has_room, self.lock(), deadline, |state| {
            state.ended.is_none() && state.bytes >= OUTLET_BYTES_MAX
        }));
    }

    fn notify(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        self.has_room.notify_all();
        if let Some(waker) = waker {
            waking::wake(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an item costs beside its bytes, in bytes: its place in the queue and its allocation.
const ITEM_BYTES: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use prost::bytes::Bytes;

    #[test]
    fn the_end_of_the_call_waits_for_the_items() {
        let outlet = ItemOutlet::default();
        let item = Bytes::from_static(b"item");
        assert!(matches!(outlet.put(&item), Put::Done(true)));
        assert!(matches!(outlet.put(&item), Put::Done(false)));
        outlet.defer((None, Err(Status::aborted("the first one"))));
        outlet.defer((None, Err(Status::aborted("the second one"))));
        assert!(outlet.take().is_some() && outlet.take().is_some() && outlet.take().is_none());
        let (_, answer) = outlet.take_answer().unwrap();
        assert_eq!(answer.err().unwrap().message(), "the first one");
        assert!(matches!(outlet.put(&item), Put::Done(true)), "the loop is informed again");
    }

    #[test]
    fn it_is_bounded_and_takes_one_long_item() {
        let outlet = ItemOutlet::default();
        let long = Bytes::from(vec![0; 2 * OUTLET_BYTES_MAX]);
        assert!(matches!(outlet.put(&long), Put::Done(true)));
        assert!(matches!(outlet.put(&Bytes::new()), Put::Full));
        outlet.end(Status::cancelled("by the caller"));
        assert!(matches!(outlet.put(&Bytes::new()), Put::Ended(_)));
        assert!(outlet.take().is_none());
    }
}
