//! Calls of a client that has interceptors, and of callers with options.
//!
//! **Invariants:** a caller without options, of a client without interceptors, does not come here;
//! the interceptors see the end of each call that they have seen start.
//! **Not here:** the interceptors and their order (`interceptor.rs`), making the call (`call.rs`).

use std::borrow::Cow;

use super::ObjectRef;
use crate::clients::show_start;
use crate::codec::{self, Message};
use crate::interceptor::ObservedCall;
use crate::interface::Method;
use crate::options::CallOptions;
use crate::status::Status;

impl ObjectRef {
    /// Shows the start of a call to the interceptors, if there are any. Returns what shows them its
    /// end, and the options to make it with, which they may have added to.
    ///
    /// # Errors
    ///
    /// One of them refuses it.
    pub(super) fn begin<'a, Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &'a CallOptions,
    ) -> Result<(Option<ObservedCall>, Cow<'a, CallOptions>), Status> {
        if !self.is_intercepted() {
            return Ok((None, Cow::Borrowed(options)));
        }
        let (object, deadline) = (&self.object, self.spec(method, options).deadline);
        let request_bytes = codec::reported_bytes(request);
        let (chain, name) = (&object.interceptors, &object.name);
        let (observed, options) =
            show_start(chain, name, method, deadline, request_bytes, options)?;
        Ok((Some(observed), Cow::Owned(options)))
    }

    /// Has a call made by `start` whose end comes later: `keep` gives the call what shows its end.
    pub(super) fn observe<Q: Message, T>(
        &self,
        (method, request, options): (&'static Method, &Q, &CallOptions),
        start: impl FnOnce(&CallOptions) -> Result<T, Status>,
        keep: impl FnOnce(T, Box<ObservedCall>) -> T,
    ) -> Result<T, Status> {
        let (observed, options) = self.begin(method, request, options)?;
        match (start(&options), observed) {
            (Ok(call), Some(observed)) => Ok(keep(call, Box::new(observed))),
            (started, observed) => {
                show_end(observed, &started, |_| 0);
                started
            }
        }
    }
}

/// Shows the interceptors the end of a call, if there are any.
pub(super) fn show_end<T>(
    observed: Option<ObservedCall>,
    result: &Result<T, Status>,
    reply_bytes: impl FnOnce(&T) -> usize,
) {
    if let Some(observed) = observed {
        observed.end(result.as_ref().err(), result.as_ref().map_or(0, reply_bytes));
    }
}
