//! What callers and servers greet with, so that a peer knows them again.
//!
//! **Invariants:** two that live have different ids, but for random chance in 2^112.
//! **Not here:** who is known by it (`services/registry.rs`, `services/service_stream.rs`).

use nearcall_wire::InstanceId;

/// Returns random bytes that distinguish a client, a thread or a server from all others. They are
/// no secret.
pub(crate) fn new_instance() -> InstanceId {
    let mut instance = [0; 16];
    fastrand::fill(&mut instance);
    instance
}

/// Returns what one loop of a server greets with: the loops of one server differ in the last bytes.
pub(crate) fn of_loop(server: InstanceId, loop_index: usize) -> InstanceId {
    let mut instance = server;
    // There are fewer loops than two bytes can count (`SERVER_THREADS_MAX`).
    let index = u16::try_from(loop_index).unwrap_or(u16::MAX).to_ne_bytes();
    let [.., first, second] = &mut instance;
    (*first, *second) = (*first ^ index[0], *second ^ index[1]);
    instance
}

/// Returns whether both are of loops of one server.
pub(crate) fn is_same_server(one: InstanceId, other: InstanceId) -> bool {
    one[..SERVER_BYTES] == other[..SERVER_BYTES]
}

/// Bytes of an id that all loops of a server share.
const SERVER_BYTES: usize = 14;

thread_local! {
    static OWN_THREAD: InstanceId = new_instance();
}

/// Returns what the connections of this thread's callers greet with, by which a server knows its
/// own thread.
pub(crate) fn own_thread() -> InstanceId {
    OWN_THREAD.with(|instance| *instance)
}
