//! Shows the calls of a client to its interceptors.
//!
//! **Not here:** the interceptors and their order (`interceptor.rs`), the calls that have any
//! (`call/observed.rs`, `async_call/sending.rs`).

use super::ObjectName;
use crate::deadline::Deadline;
use crate::interceptor::{CallHead, Chain, ObservedCall, OtherEnd};
use crate::interface::Method;
use crate::options::CallOptions;
use crate::status::Status;

/// Shows the start of a call. Returns what shows its end, and the options to make it with, to which
/// the interceptors have added metadata.
///
/// # Errors
///
/// An interceptor refuses the call.
#[cold]
pub(crate) fn show_start(
    chain: &Chain,
    name: &ObjectName,
    method: &'static Method,
    deadline: Deadline,
    request_bytes: usize,
    options: &CallOptions,
) -> Result<(ObservedCall, CallOptions), Status> {
    let head = CallHead { interface: name.interface, method, deadline, request_bytes };
    let mut metadata = options.entries().clone();
    let observed = chain.start(head, &OtherEnd::Server(&name.address), &[], &mut metadata)?;
    // The deadline that they have seen is that of the call.
    Ok((observed, options.with(deadline, metadata)))
}
