//! Services of interfaces that are not known when the program is built.
//!
//! **Invariants:** as those of services whose methods are futures (`services/async_service.rs`).
//! **Not here:** the interface (`description.rs`).

use std::fmt;
use std::sync::Arc;

use super::Encoded;
use crate::interface::{Interface, MethodKind};
use crate::services::call_context::CallContext;
use crate::services::dispatcher::{Dispatcher, Incoming};
use crate::services::streams::{AsyncItemReceiver, AsyncItemSender};
use crate::status::Status;
use crate::tasks::service_task::{ServiceTask, TaskRunner};

/// The messages of a call of a [`DynamicService`], by the shape of its method.
#[derive(Debug)]
pub enum DynamicRequest {
    /// One request, and one reply or none.
    Unary(Encoded),
    /// One request, and where the items of the reply go.
    ReplyStream(Encoded, AsyncItemSender<Encoded>),
    /// The items of the request, and one reply.
    RequestStream(AsyncItemReceiver<Encoded>),
    /// The items of the request, and where those of the reply go.
    BothStreams(AsyncItemReceiver<Encoded>, AsyncItemSender<Encoded>),
}

/// Serves an interface by bytes. [`CallContext::method`] says which method is called.
///
/// Register a [`DynamicDispatcher`] of it. As with a generated async trait, the future of a call
/// that is cancelled, whose deadline has passed or whose caller is gone is dropped.
pub trait DynamicService: Send + Sync + 'static {
    /// Serves a call. Returns its reply; of a method that replies with a stream or not at all, what
    /// is returned goes nowhere.
    ///
    /// The caller gets the status that it returns.
    fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> impl Future<Output = Result<Encoded, Status>> + Send;
}

/// Brings calls to a [`DynamicService`]. Register it with a server.
pub struct DynamicDispatcher<T> {
    interface: &'static Interface,
    service: Arc<T>,
    runner: TaskRunner,
}

impl<T: DynamicService> DynamicDispatcher<T> {
    /// Creates a dispatcher of an interface, which
    /// [`interface_from_descriptor_set`](super::interface_from_descriptor_set) has made.
    pub fn new(interface: &'static Interface, service: T) -> Self {
        Self::shared(interface, Arc::new(service))
    }

    /// Creates a dispatcher that shares `service`.
    pub fn shared(interface: &'static Interface, service: Arc<T>) -> Self {
        Self { interface, service, runner: TaskRunner::default() }
    }

    /// Runs the calls where `spawn` puts them, such as the runtime of the program, and not in the
    /// loop of the server: see
    /// [`AsyncDispatcher::spawn_on`](crate::service::AsyncDispatcher::spawn_on).
    #[must_use]
    pub fn spawn_on(self, spawn: impl Fn(ServiceTask) + Send + Sync + 'static) -> Self {
        Self { runner: TaskRunner::spawn_on(spawn), ..self }
    }
}

impl<T: DynamicService> Dispatcher for DynamicDispatcher<T> {
    fn interface(&self) -> &'static Interface {
        self.interface
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        use DynamicRequest::{BothStreams, ReplyStream, RequestStream, Unary};
        let Some(method) = self.interface.method(incoming.method()) else {
            return incoming.unimplemented();
        };
        let (service, runner) = (Arc::clone(&self.service), &self.runner);
        match method.kind {
            MethodKind::Unary => incoming.reply_async(runner, |context, request| async move {
                service.serve(context, Unary(request)).await
            }),
            MethodKind::Oneway => incoming.oneway_async(runner, |context, request| async move {
                // No caller waits for it.
                let _ = service.serve(context, Unary(request)).await;
            }),
            MethodKind::ReplyStream => {
                incoming.reply_stream_async(runner, |context, request, items| async move {
                    service.serve(context, ReplyStream(request, items)).await.map(drop)
                });
            }
            MethodKind::RequestStream => {
                incoming.receive_stream_async(runner, |context, items| async move {
                    service.serve(context, RequestStream(items)).await
                });
            }
            MethodKind::BothStreams => {
                incoming.both_streams_async(runner, |context, items, replies| async move {
                    service.serve(context, BothStreams(items, replies)).await.map(drop)
                });
            }
        }
    }
}

impl<T> Clone for DynamicDispatcher<T> {
    fn clone(&self) -> Self {
        let (service, runner) = (Arc::clone(&self.service), self.runner.clone());
        Self { interface: self.interface, service, runner }
    }
}

impl<T> fmt::Debug for DynamicDispatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicDispatcher")
            .field("interface", &self.interface.name)
            .finish_non_exhaustive()
    }
}
