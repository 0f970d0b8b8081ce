//! Calls of a client that has interceptors.
//!
//! **Invariants:** a client without interceptors does not come here; the interceptors see the end
//! of each call that they have seen start.
//! **Not here:** the interceptors and their order (`interceptor.rs`), making the call (`call.rs`).

use super::ObjectRef;
use crate::client::show_start;
use crate::codec::{self, Message};
use crate::interceptor::ObservedCall;
use crate::interface::Method;
use crate::options::CallOptions;
use crate::status::Status;

impl ObjectRef {
    /// Shows a call to the interceptors, then has it made by `call` with the options that they have
    /// added to, and shows them its end. `reply_bytes` returns the length of its result.
    #[cold]
    #[inline(never)]
    pub(super) fn observe<Q: Message, T>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        call: impl FnOnce(&CallOptions) -> Result<T, Status>,
        reply_bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, Status> {
        let (observed, options) = self.show_start(method, request, options)?;
        let result = call(&options);
        observed.end(result.as_ref().err(), result.as_ref().map_or(0, reply_bytes));
        result
    }

    /// Works like [`observe`](Self::observe), for a call whose end comes later: `keep` gives the
    /// call what shows its end.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_start<Q: Message, T>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        start: impl FnOnce(&CallOptions) -> Result<T, Status>,
        keep: impl FnOnce(T, Box<ObservedCall>) -> T,
    ) -> Result<T, Status> {
        let (observed, options) = self.show_start(method, request, options)?;
        match start(&options) {
            Ok(call) => Ok(keep(call, Box::new(observed))),
            Err(status) => {
                observed.end(Some(&status), 0);
                Err(status)
            }
        }
    }

    /// Shows the start of a call. Returns what shows its end, and the options to make it with.
    fn show_start<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(ObservedCall, CallOptions), Status> {
        let (object, deadline) = (&self.object, self.deadline(method, options));
        let request_bytes = codec::reported_bytes(request);
        let (chain, name) = (&object.interceptors, &object.name);
        show_start(chain, name, method, deadline, request_bytes, options)
    }
}
