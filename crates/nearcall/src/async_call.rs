//! Calls as futures: what generated async callers are made of.
//!
//! **Invariants:** they run in any executor, and need no other one than the one that polls them; no
//! executor's thread waits for anything but a lock that is held for microseconds, and while a
//! message is copied under it: a long one as long as that takes, some 100 us for each MiB.
//! **Not here:** the connections that tasks share (`async_connection.rs`).

use std::fmt;
use std::sync::Arc;

use nearcall_channel::Loan;

use crate::address::{Address, BadAddress};
use crate::clients::{AsyncRoute, Client, ObjectName};
use crate::codec::Message;
use crate::connection::Outgoing;
use crate::deadline::Deadline;
use crate::interceptor::Chain;
use crate::interface::{Interface, Method, object_id};
use crate::nesting::inherited_deadline;
use crate::options::{CallOptions, DEFAULT_OPTIONS};
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;
use crate::transport;

mod by_threads;
mod call;
mod connecting;
mod hunting;
mod lending;
mod opening;
mod reply_stream;
mod request_stream;
mod sending;
mod streaming;
mod switching;

pub(crate) use self::by_threads::StartedCall;
pub use self::call::{AsyncCall, AsyncCallWithMetadata, AsyncSend};
pub use self::reply_stream::AsyncReplyStream;
pub use self::request_stream::AsyncRequestStream;
pub(crate) use self::streaming::AsyncStreamedCall;

/// An object at an address, whose calls are futures: `Send`, for any executor and any thread.
///
/// All tasks of a client share one connection to each address, with threads that find none for
/// themselves. A call looks for its reply for a few
/// microseconds in the poll that sends it, if no other call is in flight, for as long as that has
/// paid lately (not where there is one CPU only, and never with `?wait=poll`). Otherwise one thread
/// of the process, `nearcall-driver`, waits for all of them and wakes their tasks; it runs while
/// there are such connections. A task whose calls never wait yields now and then, so that others of
/// its executor run.
///
/// When as many calls are in flight as [`Limits::calls_max`](crate::Limits::calls_max) allows, or
/// the channel is full, a call waits until it is its turn, in the order in which they join.
/// Dropping a call cancels it. A server of the same thread is not called directly: the short
/// circuit is for [`ObjectRef`](crate::client::ObjectRef).
#[derive(Clone)]
pub struct AsyncObjectRef {
    object: Arc<Object>,
    /// Of its calls. `None`: the default ones.
    options: Option<CallOptions>,
}

struct Object {
    /// The number of the object on the wire.
    number: u64,
    name: ObjectName,
    interceptors: Chain,
    route: Arc<AsyncRoute>,
    client: Client,
}

impl AsyncObjectRef {
    /// Returns a reference to the object of this interface at `address`. Connects lazily; no server
    /// need listen there yet.
    ///
    /// # Errors
    ///
    /// The text is no address.
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        let name = ObjectName::new(client, interface, address)?;
        let route = client.async_route(&name.place);
        let number = object_id(&name.object());
        let interceptors = client.shared().settings.interceptors.clone();
        let object = Object { number, name, interceptors, route, client: client.clone() };
        Ok(Self { object: Arc::new(object), options: None })
    }

    /// Returns a reference to the same object over the same connection, whose calls have `options`
    /// in the place of those of this one.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        let options = transport::options_for(self.address(), options);
        Self { object: Arc::clone(&self.object), options: Some(options) }
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        &self.object.name.address
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// Of the future, as [`ObjectRef::call`](crate::client::ObjectRef::call), and
    /// `FAILED_PRECONDITION`: the mechanism has no descriptor to wait for.
    #[inline]
    pub fn call<'a, Q: Message, R: Message + Default>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
    ) -> AsyncCall<'a, Q, R> {
        AsyncCall::new(self, method, request)
    }

    /// Sends a message that is never answered.
    ///
    /// # Errors
    ///
    /// Of the future: the message was not sent. As
    /// [`ObjectRef::send`](crate::client::ObjectRef::send), and `FAILED_PRECONDITION`: the
    /// mechanism has no descriptor to wait for.
    #[inline]
    pub fn send<'a, Q: Message>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
    ) -> AsyncSend<'a, Q> {
        AsyncSend::new(self, method, request)
    }

    /// Returns memory for a `bytes` field of a request: written, then frozen, it is passed by
    /// reference where the mechanism can (`shm`), and copied where not. Connects if there is no
    /// connection.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::loan`](crate::client::ObjectRef::loan).
    pub async fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        let options = self.options();
        let default = self.object.client.shared().settings.default_deadline;
        let deadline = options.deadline_for_loan(default, inherited_deadline());
        self.loan_by(bytes, options, deadline).await
    }

    /// Returns the options of its calls.
    #[inline]
    pub(crate) fn options(&self) -> &CallOptions {
        self.options.as_ref().unwrap_or(DEFAULT_OPTIONS)
    }

    /// Returns the client that calls it.
    pub(crate) fn client(&self) -> &Client {
        &self.object.client
    }

    /// Returns the interface of the object.
    #[inline]
    pub(crate) fn interface(&self) -> &'static Interface {
        self.object.name.interface
    }

    /// Returns whether the client has interceptors.
    #[inline]
    fn is_intercepted(&self) -> bool {
        !self.object.interceptors.is_empty()
    }

    #[inline]
    pub(crate) fn route(&self) -> &Arc<AsyncRoute> {
        &self.object.route
    }

    /// Returns when a call ends by itself. Reads the clock only for a span of time.
    #[inline]
    fn deadline(&self, method: &Method, options: &CallOptions) -> Deadline {
        let default = self.object.client.shared().settings.default_deadline;
        options.deadline_for(method, default, inherited_deadline())
    }

    fn reconnect_policy(&self, options: &CallOptions) -> ReconnectPolicy {
        options.reconnect_policy(self.object.client.shared().settings.reconnect)
    }

    #[inline]
    fn outgoing<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        deadline: Deadline,
    ) -> Outgoing<'a> {
        let metadata = options.metadata_bytes();
        Outgoing { object: self.object.number, method: method.id, deadline, metadata }
    }

    #[cold]
    fn explain(&self, status: Status) -> Status {
        self.object.name.explain(status)
    }
}

impl fmt::Debug for AsyncObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncObjectRef")
            .field("object", &self.object.name.object())
            .field("address", self.address())
            .finish_non_exhaustive()
    }
}
