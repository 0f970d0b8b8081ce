//! Sending a request without waiting, or saying what it would have to wait for.
use nearcall_wire::OutgoingCall;
use super::host::AsyncHost;
use crate::codec::Message;
use crate::connection::{Connection, Outgoing};
use crate::deadline::Deadline;
use crate::status::{Code, Status};

pub(super) struct NotSent { pub(super) status: Status, pub(super) need: Option<Need> }
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need { Room, CallSlot }

fn shim(c: &Connection<AsyncHost>, status: Status) -> NotSent {
    let need = if status.code() == Code::ResourceExhausted && c.outgoing_calls() .1 == 0 { Some(Need::CallSlot) }
    else if status.message().contains("does not read what was sent before") { Some(Need::Room) } else { None };
    NotSent { status, need }
}

pub(super) fn start_call(c: &Connection<AsyncHost>, o: &Outgoing<'_>, m: &impl Message) -> Result<OutgoingCall, NotSent> {
    c.start_call(o, m, Deadline::from_ns(1)).map_err(|s| shim(c, s))
}
pub(super) fn send_oneway(c: &Connection<AsyncHost>, o: &Outgoing<'_>, m: &impl Message) -> Result<(), NotSent> {
    c.send_oneway(o, m, Deadline::from_ns(1)).map_err(|s| shim(c, s))
}

pub(super) fn late(c: &Connection<AsyncHost>, _: &super::Places) -> Status {
    Status::deadline_exceeded(format!("{} did not read what was sent before in time; the method has not run", c.name))
}
