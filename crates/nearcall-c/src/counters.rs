//! What connections have carried and hold, added up.
//!
//! **Not here:** what is counted (`nearcall::observe::ConnectionInfo`).

use nearcall::Client;
use nearcall::observe::ConnectionInfo;

use crate::border::{Sized_, border};
use crate::handles;
use crate::status::nearcall_status;
use crate::types::{nearcall_client, nearcall_counters};

// SAFETY: `repr(C)`, the size first, and numbers after it.
unsafe impl Sized_ for nearcall_counters {}

pub(crate) fn add_up(connections: &[ConnectionInfo], refusals: u64) -> nearcall_counters {
    let mut sum = nearcall_counters { refusals, ..nearcall_counters::default() };
    for one in connections {
        sum.connections += 1;
        sum.descriptors += one.descriptors as u64;
        sum.room_bytes += one.room_bytes as u64;
        sum.loans_lent += one.slots_lent.unwrap_or(0) as u64;
        sum.loans_borrowed += one.slots_borrowed.unwrap_or(0) as u64;
        if let Some(traffic) = &one.traffic {
            sum.messages_sent += traffic.sent.messages();
            sum.bytes_sent += traffic.sent.bytes;
            sum.messages_received += traffic.received.messages();
            sum.bytes_received += traffic.received.bytes;
        }
    }
    sum
}

/// Counts what the connections of a client have carried: set `counters->size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_client_counters(
    client: nearcall_client,
    counters: *mut nearcall_counters,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let client = handles::get::<Client>(client.id)?;
            at.put_sized("counters", counters, || Ok(add_up(&client.connections(), 0)))
        })
    }
}
