//! Calls by the names of methods, as futures.
//!
//! **Invariants:** as those of `caller.rs`.
//! **Not here:** what a server's description is made to (`description.rs`).

use std::sync::Arc;

use super::Encoded;
use super::caller::{Described, Description, find, question, read_answer};
use super::description::interface_named;
use crate::address::Address;
use crate::async_call::{AsyncObjectRef, AsyncReplyStream, AsyncRequestStream};
use crate::clients::Client;
use crate::control::ServerAsyncCaller;
use crate::interface::{Interface, Method, MethodKind};
use crate::metadata::ReplyMetadata;
use crate::options::CallOptions;
use crate::status::Status;
use crate::transport;

/// Calls the methods of an object by their names, by futures that any executor can poll in any
/// thread. Dropping one cancels its call.
///
/// As [`DynamicCaller`](super::DynamicCaller) has it, with the errors of
/// [`AsyncObjectRef`](crate::client::AsyncObjectRef).
#[derive(Debug, Clone)]
pub struct AsyncDynamicCaller {
    object: AsyncObjectRef,
    known: Arc<Described>,
}

impl AsyncDynamicCaller {
    /// Creates a caller for the object with `interface`, such as `home.v1.Thermostat`, at
    /// `address`. It connects at the first call.
    ///
    /// # Errors
    ///
    /// As [`DynamicCaller::new`](super::DynamicCaller::new).
    pub fn new(client: &Client, address: &str, interface: &str) -> Result<Self, Status> {
        Ok(Self {
            object: AsyncObjectRef::new(client, interface_named(interface)?, address)?,
            known: Arc::default(),
        })
    }

    /// Returns a caller of the same object over the same connection, whose calls have `options`
    /// such as a deadline or metadata in the place of those of this one.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        Self { object: self.object.with(options), known: Arc::clone(&self.known) }
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        self.object.address()
    }

    /// Returns the description of the object, asked of the server if it is not known.
    ///
    /// # Errors
    ///
    /// As [`DynamicCaller::interface`](super::DynamicCaller::interface).
    pub async fn interface(&self) -> Result<&'static Interface, Status> {
        match self.known.current(self.object.route().attempts()) {
            Some(interface) => Ok(interface),
            None => self.ask().await,
        }
    }

    async fn ask(&self) -> Result<&'static Interface, Status> {
        let route = self.object.route();
        let instance = || route.connection().and_then(|connection| connection.peer_instance());
        let (generation, before) = (route.attempts(), instance());
        if let Some(known) = self.known.last()
            && before.is_some()
            && known.instance == before
        {
            return Ok(self.known.set(Description { generation, ..known }));
        }
        let (address, asked) = (self.object.address(), self.object.interface());
        let interface = match transport::describe(address, asked, self.object.client().reconnect())
        {
            Some(described) => described.await?,
            None => {
                let at = address.of_server().to_string();
                let server = ServerAsyncCaller::new(self.object.client(), &at)?;
                let server = server.with(self.object.options().without_metadata());
                read_answer(&server.describe(&question(asked.name)).await?, asked.name)?
            }
        };
        // If it has connected anew meanwhile, the answer may be of either instance.
        let (generation, instance) = match before {
            Some(_) => (generation, before.filter(|_| before == instance())),
            None => (route.attempts(), instance()),
        };
        Ok(self.known.set(Description { generation, instance, interface }))
    }

    async fn method(&self, name: &str, kind: MethodKind) -> Result<&'static Method, Status> {
        find(self.interface().await?, name, kind)
    }

    /// Calls a method with one request and one reply.
    ///
    /// # Errors
    ///
    /// As [`DynamicCaller::call`](super::DynamicCaller::call).
    pub async fn call(&self, method: &str, request: &Encoded) -> Result<Encoded, Status> {
        self.object.call(self.method(method, MethodKind::Unary).await?, request).await
    }

    /// Calls a method as [`call`](Self::call) does, and returns what the service sent beside the
    /// end of the call as well.
    pub async fn call_with_metadata(
        &self,
        method: &str,
        request: &Encoded,
    ) -> (Result<Encoded, Status>, ReplyMetadata) {
        match self.method(method, MethodKind::Unary).await {
            Ok(method) => self.object.call(method, request).with_metadata().await,
            Err(status) => (Err(status), ReplyMetadata::default()),
        }
    }

    /// Sends a message that is never answered.
    ///
    /// # Errors
    ///
    /// As [`DynamicCaller::send`](super::DynamicCaller::send).
    pub async fn send(&self, method: &str, request: &Encoded) -> Result<(), Status> {
        self.object.send(self.method(method, MethodKind::Oneway).await?, request).await
    }

    /// Starts a call whose reply is a stream.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_reply_stream(
        &self,
        method: &str,
        request: &Encoded,
    ) -> Result<AsyncReplyStream<Encoded>, Status> {
        let method = self.method(method, MethodKind::ReplyStream).await?;
        self.object.open_reply_stream(method, request).await
    }

    /// Starts a call whose request is a stream.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_request_stream(
        &self,
        method: &str,
    ) -> Result<AsyncRequestStream<Encoded, Encoded>, Status> {
        let method = self.method(method, MethodKind::RequestStream).await?;
        self.object.open_request_stream(method).await
    }

    /// Starts a call whose request and reply are streams, independent of each other.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub async fn open_both_streams(
        &self,
        method: &str,
    ) -> Result<(AsyncRequestStream<Encoded, ()>, AsyncReplyStream<Encoded>), Status> {
        let method = self.method(method, MethodKind::BothStreams).await?;
        self.object.open_both_streams(method).await
    }
}
