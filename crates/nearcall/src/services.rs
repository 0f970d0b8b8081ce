//! The side that serves: from a call that arrived to the reply of its method, in whatever shape and
//! thread the service gives it.
//!
//! A call is given to its dispatcher (`dispatch.rs`, `dispatcher.rs`) with a context, which replies
//! over a sink: at once (`reply_sink.rs`), or later from any thread (`responder.rs` over
//! `detached_sink.rs`).
//!
//! **Not here:** how calls arrive (`connection/`), who may serve where (`servers/`).

pub(crate) mod async_service;
pub(crate) mod blocking;
pub(crate) mod call_context;
pub(crate) mod context;
pub(crate) mod detached_sink;
pub(crate) mod dispatch;
pub(crate) mod dispatcher;
pub(crate) mod forwarded;
pub(crate) mod headers;
pub(crate) mod intercepted;
pub(crate) mod library_reply;
pub(crate) mod local_reply;
pub(crate) mod owned_call;
pub(crate) mod registry;
pub(crate) mod reply_sink;
pub(crate) mod responder;
pub(crate) mod service_stream;
pub(crate) mod streams;
