//! How connections over `tcp://` ask for an invitation to shared memory.
//!
//! Those whose address names no mechanism: `?via=tcp` stays.
//! **Not here:** what becomes of it (`connection/upgrading.rs`), the server's part
//! (`servers/built_in.rs`).

use bytes::Bytes;
use nearcall_channel::Invitation;

use crate::codec::{self, Body, Encoded};
use crate::connection::UpgradePlan;
use crate::control::{MeetReply, MeetRequest, ServerCaller};
use crate::interface::object_id;
use crate::status::Status;

/// Returns how a connection asks.
pub(super) fn upgrade_plan() -> UpgradePlan {
    let interface = ServerCaller::INTERFACE;
    let meet = interface.methods.iter().find(|method| method.name == "Meet");
    UpgradePlan {
        object: object_id(&interface.object_name(None)),
        method: meet.map_or(0, |method| method.id),
        request: |number| Encoded::new(&MeetRequest { number: Bytes::copy_from_slice(&number) }),
        read: read_invitation,
    }
}

fn read_invitation(reply: Body<'_>) -> Result<Invitation, Status> {
    let MeetReply { number, place } = codec::decode(reply)?;
    let number = number[..].try_into();
    let number = number.map_err(|_| Status::internal("an invitation has a number of 16 bytes"))?;
    Ok(Invitation { number, place })
}
