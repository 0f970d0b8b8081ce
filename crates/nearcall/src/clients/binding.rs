//! Where an object is for one thread, and the number by which a thread finds that.
//!
//! **Invariants:** two objects that live have different slots; a serial number is used once, so
//! what a thread still holds for an object that is gone is never taken for another's.
//! **Not here:** the table of a thread (`clients/thread.rs`), finding the object (`call.rs`).

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use super::Client;
use super::core::ClientCore;
use super::hosted::HostedObject;
use crate::address::{Address, BadAddress};
use crate::codec::{self, Body, Encoded, Message};
use crate::connection::{Connection, Outcome, Reply};
use crate::deadline::Deadline;
use crate::decoded_size::{self, MessageType, Part};
use crate::interface::Interface;
use crate::limits::SHARED_BYTES_MIN;
use crate::services::dispatcher::Registered;
use crate::status::Status;
use crate::transport;

/// The place of one object in the tables of all threads: dense, and given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) index: u32,
    pub(super) serial: u64,
}

struct Slots {
    free: Vec<u32>,
    /// The lowest index that was never used.
    next: u32,
    last_serial: u64,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots { free: Vec::new(), next: 0, last_serial: 0 });

impl Slot {
    pub(crate) fn new() -> Self {
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.next += 1;
            slots.next - 1
        });
        slots.last_serial += 1;
        Self { index, serial: slots.last_serial }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.index);
    }
}

/// The name of an object: its interface and its address.
#[derive(Debug, Clone)]
pub(crate) struct ObjectName {
    pub(crate) interface: &'static Interface,
    /// As the program has it.
    pub(crate) address: Address,
    /// Where calls go: another one if a transport carries them.
    pub(crate) place: Address,
}

impl ObjectName {
    /// Returns the name of the object at this address.
    ///
    /// # Errors
    ///
    /// The text is no address.
    pub(crate) fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        let address: Address = address.parse()?;
        let place = transport::place_of(&address, interface, client.reconnect())?;
        Ok(Self { interface, address, place })
    }

    /// Returns the name under which a server has the object.
    pub(crate) fn object(&self) -> String {
        self.interface.object_name(self.place.instance())
    }

    /// Adds which object it was that the server lacks, or that lacks a method. What a service gave
    /// stays as it is.
    #[cold]
    pub(crate) fn explain(&self, status: Status) -> Status {
        if status.lack().is_none() {
            return status;
        }
        let text = format!("{} at {}: {}", self.object(), self.address.at, status.message());
        let sent = status.reply_metadata();
        Status::new(status.code(), text).with_entries(sent.trailers).with_headers(sent.headers)
    }
}

/// Where an object is for one thread.
pub(crate) struct Binding {
    pub(crate) core: Rc<ClientCore>,
    pub(crate) target: Target,
    pub(crate) name: Arc<ObjectName>,
}

/// Where an object is.
pub(crate) enum Target {
    Remote(Rc<Connection>),
    /// In this thread, unless what it serves has changed since this epoch.
    Local(Rc<Registered>, u64),
    /// In another library of the same host.
    Hosted(HostedObject),
    /// Over a connection that threads and tasks share: this thread found none of its own, when so
    /// many places had been given back. Then it looks again if more were, or at this time.
    Shared(u64, Deadline),
}

impl Binding {
    /// Returns whether calls may still go there.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        match &self.target {
            Target::Remote(connection) => {
                !connection.is_closed() && self.core.shared.is_of_this_process()
            }
            Target::Local(_, epoch) => *epoch == self.core.services().registry.epoch(),
            // The host says at each call whether it is still there.
            Target::Hosted(_) => self.core.shared.is_of_this_process(),
            // A place that is free now is this thread's as well as another's.
            Target::Shared(returned, again_at) => {
                *returned == self.core.shared.returned_places()
                    && !again_at.has_passed()
                    && self.core.shared.is_of_this_process()
            }
        }
    }

    /// Returns the same for who does not keep the client open.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_current() && !self.core.shared.is_closed()
    }

    /// Reads the result of a call that came over a shared connection.
    pub(crate) fn read_encoded<R: Message + Default>(
        &self,
        reply: &Encoded,
        method: u32,
    ) -> Result<R, Status> {
        let message = MessageType { interface: self.name.interface, method, part: Part::Reply };
        let body = reply.as_body();
        decoded_size::check(&body, message, self.core.limits().decoded_bytes_max)?;
        codec::decode(body)
    }

    /// Reads the result of a call from its outcome.
    #[inline]
    pub(crate) fn read_outcome<R: Message + Default>(
        &self,
        outcome: Outcome,
        method: u32,
    ) -> Result<R, Status> {
        let decode = |body: Body<'_>| {
            let message = MessageType { interface: self.name.interface, method, part: Part::Reply };
            decoded_size::check(&body, message, self.core.limits().decoded_bytes_max)?;
            codec::decode(body)
        };
        match outcome {
            Ok(reply) => {
                let Reply { buffer, body, borrowed, .. } = reply;
                let buffers = &self.core.services().buffers;
                if let Some(segments) = borrowed {
                    let rest = &buffer[segments.rest.clone()];
                    let result = decode(Body::borrowed(rest, &segments));
                    buffers.give(buffer);
                    buffers.give_segments(segments);
                    return result;
                }
                if body.end >= SHARED_BYTES_MIN {
                    let whole = buffers.share(buffer, body.end);
                    return decode(Body::sliced(&whole, body.start));
                }
                let result = codec::decode(Body::copied(&buffer[body]));
                buffers.give(buffer);
                result
            }
            Err(status) => Err(self.name.explain(status)),
        }
    }
}
