//! The statuses of messages that were not sent, for whoever reads them.
//!
//! **Invariants:** the text of a reply's status crosses the connection, so it names the client and
//! the server, never this end or the other one.
//! **Not here:** sending (`sending.rs`), why a connection has ended (`connection.rs`).

use nearcall_channel::account::Exceeded;
use nearcall_wire::StartError;

use super::send_mode::{Need, NotSent, SendMode};
use super::sending::Unsent;
use super::{Connection, Host};
use crate::codec;
use crate::deadline::Deadline;
use crate::refusals::RefusalKind;
use crate::status::Status;

impl<H: Host> Connection<H> {
    /// Returns why a request was not sent, and what it has to wait for.
    #[cold]
    pub(super) fn not_started(
        &self,
        unsent: Unsent<StartError>,
        deadline: Deadline,
        mode: SendMode,
    ) -> NotSent {
        // Room may have been claimed before the protocol refused, and that ends a sleep.
        self.touch(Deadline::NEVER);
        let need = match unsent {
            Unsent::Protocol(StartError::Busy) if self.may_keep_results() => Some(Need::CallSlot),
            // One that waits in the channel has waited.
            Unsent::Full(message_bytes) if matches!(mode, SendMode::Keep | SendMode::Try) => {
                Some(Need::Room(message_bytes))
            }
            _ => None,
        };
        NotSent { status: self.why_not_started(unsent, deadline), need }
    }

    #[cold]
    fn why_not_started(&self, unsent: Unsent<StartError>, deadline: Deadline) -> Status {
        match unsent {
            Unsent::Protocol(StartError::Draining | StartError::Closed) => self.close_reason(),
            Unsent::Protocol(StartError::Busy) => self.no_call_slot(),
            Unsent::Protocol(StartError::TooLarge { message_bytes, .. }) => {
                self.too_large("request", message_bytes)
            }
            Unsent::Protocol(StartError::MetadataTooLarge { metadata_bytes, .. }) => {
                self.metadata_too_large(metadata_bytes)
            }
            Unsent::Protocol(error) => {
                Status::new(error.status(), format!("{error}, on the way to {}", self.name))
            }
            Unsent::Full(_) if deadline.has_passed() => self.no_room_in_time(),
            Unsent::Full(_) => Status::resource_exhausted(format!(
                "{} does not read what was sent before; try again later, when it has read more or \
                 its replies were taken",
                self.name
            )),
            // Only replies are charged.
            Unsent::Exceeded(exceeded) => Status::resource_exhausted(exceeded.to_string()),
            Unsent::TooLarge(message_bytes) => self.too_large("request", message_bytes),
            Unsent::AboveEveryLimit(bytes) if codec::is_too_deep(bytes) => {
                codec::too_deep("request")
            }
            Unsent::AboveEveryLimit(bytes) => Status::resource_exhausted(format!(
                "a message of {bytes} bytes is above every limit"
            )),
            Unsent::Message(status) => status,
            Unsent::Channel(error) => {
                self.channel_failed(&error);
                self.close_reason()
            }
        }
    }

    /// Returns the status of a request that found no room by its deadline.
    #[cold]
    pub(crate) fn no_room_in_time(&self) -> Status {
        Status::deadline_exceeded(format!(
            "{} did not read what was sent before in time; the method has not run",
            self.name
        ))
    }

    /// Returns the status of a message of which a part found no room by its deadline.
    #[cold]
    pub(crate) fn not_flushed_in_time(&self) -> Status {
        Status::deadline_exceeded(format!(
            "{} did not read what was sent before in time; the message may still arrive",
            self.name
        ))
    }

    /// Counts and logs a reply that cannot be kept until there is room for it, and returns the
    /// status that its caller gets instead.
    #[cold]
    pub(super) fn not_kept(&self, reply_bytes: usize, exceeded: &Exceeded) -> Status {
        let text = format!(
            "the reply of {reply_bytes} bytes cannot wait for room in the channel: {exceeded}; \
             the method has run, and replies that are read make room"
        );
        self.note_refusal(RefusalKind::ResourceLimit, &text);
        Status::resource_exhausted(text)
    }

    /// Returns the status of metadata above the limit, for readers at either end.
    #[cold]
    pub(super) fn metadata_too_large(&self, metadata_bytes: usize) -> Status {
        Status::resource_exhausted(format!(
            "the metadata of {metadata_bytes} bytes are above the limit of {} bytes that client \
             and server have agreed on; raise the limit `metadata_bytes_max` of both",
            self.metadata_bytes_max.get(),
        ))
    }

    /// Returns the status of a message above the limit, which names the end whose limit it is, for
    /// readers at either end.
    #[cold]
    pub(super) fn too_large(&self, what: &str, message_bytes: usize) -> Status {
        let max = self.message_bytes_max.get();
        let is_of_peer = max < self.own_message_bytes_max;
        let owner = if is_of_peer == self.serves.is_some() { "client" } else { "server" };
        Status::resource_exhausted(format!(
            "the {what} of {message_bytes} bytes is above the message limit of {max} bytes of the \
             {owner}; raise its limit `message_bytes_max`"
        ))
    }
}
