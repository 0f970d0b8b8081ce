//! What callers and servers greet with, so that a peer knows them again.
//!
//! **Invariants:** two that live have different ids, but for random chance in 2^128.
//! **Not here:** who is known by it (`service/registry.rs`, `service/service_stream.rs`).

use nearcall_wire::InstanceId;

/// Returns random bytes that distinguish a client, a thread or a server from all others. They are
/// no secret.
pub(crate) fn new_instance() -> InstanceId {
    let mut instance = [0; 16];
    fastrand::fill(&mut instance);
    instance
}

thread_local! {
    static OWN_THREAD: InstanceId = new_instance();
}

/// Returns what the connections of this thread's callers greet with, by which a server knows its
/// own thread.
pub(crate) fn own_thread() -> InstanceId {
    OWN_THREAD.with(|instance| *instance)
}
