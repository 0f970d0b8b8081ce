//! How an administrator records the calls of a server.
//!
//! A thread takes what the loops add, a few times in a second, and sends it. It blocks in the place
//! of the loops where the caller reads slowly.
//! **Invariants:** no loop waits for a recording; a server has one recording at most; with its call
//! it has ended in all loops.
//! **Not here:** who may record (`built_in.rs`), what an event is (`connection/recording.rs`).

use std::sync::{Arc, mpsc};
use std::thread;

use nearcall_os::clock;

use super::ServerCore;
use super::state::ServerState;
use crate::control::{RecordReply, RecordedEvent};
use crate::limits::{RECORDED_REPLY_BYTES, RECORDING_PERIOD};
use crate::recording::{Recording, bytes_of};
use crate::services::responder::Responder;
use crate::status::Status;
use crate::stream::ItemSender;

/// Ends the recording in all loops when dropped.
struct Attached {
    state: Arc<ServerState>,
    recording: Arc<Recording>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.recording.end();
        for handle in self.state.loops() {
            handle.post(|acceptor| acceptor.record_to(None));
        }
        // After that, so that the next one is not ended by it.
        self.state.set_recording(None);
    }
}

/// The place of the recording of a server, until it has begun.
pub(super) struct Reserved(Attached);

impl Reserved {
    /// # Errors
    ///
    /// `FAILED_PRECONDITION`: another recording goes on.
    pub(super) fn new(core: &ServerCore, recording: Arc<Recording>) -> Result<Self, Status> {
        let state = Arc::clone(&core.state);
        if !state.set_recording(Some(Arc::clone(&recording))) {
            return Err(Status::failed_precondition(
                "another recording of this server goes on; it ends with its call, at the latest \
                 when the process ends that has asked for it",
            ));
        }
        Ok(Self(Attached { state, recording }))
    }

    /// Records in all loops, and sends what they add until the caller ends the call.
    pub(super) fn start(self, items: ItemSender<RecordReply>, responder: Responder<()>) {
        let (begun, all_begun) = mpsc::channel::<()>();
        for handle in self.0.state.loops() {
            // By a post in the loop of the call, too: it comes after the one that ends the
            // recording before.
            let (recording, begun) = (Arc::clone(&self.0.recording), begun.clone());
            handle.post(move |acceptor| {
                acceptor.record_to(Some(recording));
                drop(begun);
            });
        }
        drop(begun);
        let send = move || {
            // An error: each loop has begun, or has ended.
            let _ = all_begun.recv();
            send_events(&self.0, &items);
            drop(self);
            responder.finish(Ok(()));
        };
        // Otherwise the responder is dropped, which ends the call with an error.
        let _ = thread::Builder::new().name("nearcall-record".to_owned()).spawn(send);
    }
}

/// Sends what is recorded until the call has ended or the server ends.
fn send_events(attached: &Attached, items: &ItemSender<RecordReply>) {
    let Attached { state, recording } = attached;
    if items.send(&RecordReply::default()).is_err() {
        return;
    }
    while !items.has_ended() {
        let is_last = state.is_draining();
        for events in parts(recording.take()) {
            let reply = RecordReply { events };
            if items.send(&reply).is_err() {
                recording.note_unsent(&reply.events);
            }
        }
        if is_last {
            return;
        }
        clock::pause(RECORDING_PERIOD);
    }
}

/// Splits events into as many as one message has.
fn parts(events: Vec<RecordedEvent>) -> impl Iterator<Item = Vec<RecordedEvent>> {
    let mut events = events.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut part = vec![events.next()?];
        let mut part_bytes = bytes_of(&part[0]);
        while let Some(event) =
            events.next_if(|event| part_bytes + bytes_of(event) <= RECORDED_REPLY_BYTES)
        {
            part_bytes += bytes_of(&event);
            part.push(event);
            if part.len() >= RECORDED_REPLY_EVENTS_MAX {
                break;
            }
        }
        Some(part)
    })
}

/// Events of one message at most: as many small ones take some tens of kilobytes.
const RECORDED_REPLY_EVENTS_MAX: usize = 256;
