//! Meetings of clients over `tcp://`, while a server of this loop expects one there.
//!
//! **Invariants:** one look takes a bounded number of processes; a meeting at which no client is
//! expected wakes the loop once at most.
//! **Not here:** who is let in (`handshake/meeting.rs` of `nearcall-channel`), invitations
//! (`connection/upgrading.rs`).

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::Meeting;
use nearcall_os::poll;

use super::acceptor::Acceptor;
use super::sources::AttendedMeeting;
use super::{Reactor, Source};

impl Reactor {
    /// Takes the processes that come to the meeting of a server of this loop from now on, for as
    /// long as it expects a client.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn watch_meeting(
        &self,
        meeting: &Arc<Meeting>,
        acceptor: &Rc<Acceptor>,
    ) -> io::Result<()> {
        let mut sources = self.sources.borrow_mut();
        let (mut is_watched, mut gone) = (false, Vec::new());
        for (token, known) in sources.meetings() {
            match known.meeting.upgrade() {
                Some(known) => is_watched |= Arc::ptr_eq(&known, meeting),
                None => gone.push(token),
            }
        }
        // Their sockets are closed, which has ended the watch.
        gone.into_iter().for_each(|token| drop(sources.remove(token)));
        if is_watched {
            return Ok(());
        }
        let (of_server, acceptor) = (Arc::downgrade(meeting), Rc::downgrade(acceptor));
        let attended = Rc::new(AttendedMeeting { meeting: of_server, acceptor });
        let token = sources.add(Source::Meeting(attended));
        let added = self.epoll.add(&**meeting, poll::Interest::Readable, token);
        added.inspect_err(|_| drop(sources.remove(token)))
    }

    /// Takes the processes that have come to a meeting.
    pub(super) fn accept_from_meeting(&self, token: u64, attended: &AttendedMeeting) {
        let Some(meeting) = attended.meeting.upgrade() else {
            self.sources.borrow_mut().remove(token);
            return;
        };
        let mut uninvited = Vec::new();
        // After an error they wait for the next invitation, as they would without a watch.
        if !meeting.accept_pending(&mut uninvited).unwrap_or(false) {
            let _ = self.epoll.delete(&*meeting);
            self.sources.borrow_mut().remove(token);
        }
        if let Some(acceptor) = attended.acceptor.upgrade() {
            acceptor.census.refusals.note_uninvited(uninvited);
        }
    }
}
