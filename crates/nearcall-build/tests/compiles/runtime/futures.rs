//! Futures of the stub: every one is ready when it is polled first, and does nothing before.

use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use prost::Message;

use super::streams::{ItemReceiver, ItemSender, ReplyStream, RequestStream};
use super::{
    BadAddress, CallOptions, Client, Incoming, Interface, Loan, Method, ObjectRef, Status,
    set_answer,
};

pub type ServiceTask = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// Runs a future of the stub to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Where the methods of an async service run: in the loop, or where the program puts them.
#[derive(Clone, Default)]
pub struct TaskRunner(Option<Arc<dyn Fn(ServiceTask) + Send + Sync>>);

impl TaskRunner {
    pub fn spawn_on(spawn: impl Fn(ServiceTask) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(spawn)))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        match &self.0 {
            Some(spawn) => spawn(Box::pin(future)),
            None => block_on(future),
        }
    }
}

/// The context of an async method.
#[derive(Debug)]
pub struct CallContext {
    pub text: &'static str,
}

impl Incoming<'_> {
    pub fn reply_async<Q, R, F>(self, runner: &TaskRunner, serve: impl FnOnce(CallContext, Q) -> F)
    where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let request = self.request();
        self.spawn(runner, |context| serve(context, request));
    }

    pub fn oneway_async<Q, F>(self, runner: &TaskRunner, serve: impl FnOnce(CallContext, Q) -> F)
    where
        Q: Message + Default,
        F: Future<Output = ()> + Send + 'static,
    {
        let future = serve(CallContext { text: self.text }, self.request());
        self.spawn(runner, |_| async move {
            future.await;
            Ok(())
        });
    }

    pub fn reply_stream_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, Q, AsyncItemSender<R>) -> F,
    ) where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let (request, items) = (self.request(), AsyncItemSender(self.item_sender()));
        self.spawn(runner, |context| serve(context, request, items));
    }

    pub fn receive_stream_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, AsyncItemReceiver<Q>) -> F,
    ) where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let items = AsyncItemReceiver(self.item_receiver());
        self.spawn(runner, |context| serve(context, items));
    }

    pub fn both_streams_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, AsyncItemReceiver<Q>, AsyncItemSender<R>) -> F,
    ) where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let items = AsyncItemReceiver(self.item_receiver());
        let replies = AsyncItemSender(self.item_sender());
        self.spawn(runner, |context| serve(context, items, replies));
    }

    fn spawn<R: Message, F>(&self, runner: &TaskRunner, serve: impl FnOnce(CallContext) -> F)
    where
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let (future, answer) = (serve(CallContext { text: self.text }), Arc::clone(&self.answer));
        runner.spawn(async move { set_answer(&answer, &future.await) });
    }
}

/// Sends the items of a reply.
pub struct AsyncItemSender<R>(ItemSender<R>);

impl<R: Message> AsyncItemSender<R> {
    pub async fn send(&mut self, item: &R) -> Result<(), Status> {
        self.0.send(item)
    }
}

/// Receives the items of a request.
pub struct AsyncItemReceiver<Q>(ItemReceiver<Q>);

impl<Q: Message + Default> AsyncItemReceiver<Q> {
    pub async fn next(&mut self) -> Option<Result<Q, Status>> {
        self.0.recv().transpose()
    }
}

/// An object whose calls are futures.
#[derive(Debug, Clone)]
pub struct AsyncObjectRef(ObjectRef);

/// A unary call.
pub struct AsyncCall<'a, Q, R> {
    object: &'a ObjectRef,
    method: &'static Method,
    request: &'a Q,
    options: Option<&'a CallOptions>,
    result: PhantomData<fn() -> R>,
}

impl<Q: Message, R: Message + Default> Future for AsyncCall<'_, Q, R> {
    type Output = Result<R, Status>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.object.call_bytes(self.method, self.request, &given(self.options)))
    }
}

/// A one-way call.
pub struct AsyncSend<'a, Q>(AsyncCall<'a, Q, ()>);

impl<Q: Message> Future for AsyncSend<'_, Q> {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// The replies of a call.
pub struct AsyncReplyStream<R>(ReplyStream<R>);

impl<R: Message + Default> AsyncReplyStream<R> {
    pub async fn next(&mut self) -> Option<Result<R, Status>> {
        self.0.recv().transpose()
    }
}

/// The requests of a call.
pub struct AsyncRequestStream<Q, R>(RequestStream<Q, R>);

impl<Q: Message, R: Message + Default> AsyncRequestStream<Q, R> {
    pub async fn send(&mut self, item: &Q) -> Result<(), Status> {
        self.0.send(item)
    }

    pub async fn finish(self) -> Result<R, Status> {
        self.0.finish()
    }
}

impl AsyncObjectRef {
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        ObjectRef::new(client, interface, address).map(Self)
    }

    pub fn call<'a, Q: Message, R: Message + Default>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
        options: Option<&'a CallOptions>,
    ) -> AsyncCall<'a, Q, R> {
        AsyncCall { object: &self.0, method, request, options, result: PhantomData }
    }

    pub fn send<'a, Q: Message>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
        options: Option<&'a CallOptions>,
    ) -> AsyncSend<'a, Q> {
        AsyncSend(self.call(method, request, options))
    }

    pub async fn loan(&self, bytes: usize, options: Option<&CallOptions>) -> Result<Loan, Status> {
        self.0.loan_with(bytes, &given(options))
    }

    pub async fn open_reply_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: Option<&CallOptions>,
    ) -> Result<AsyncReplyStream<R>, Status> {
        self.0.open_reply_stream(method, request, &given(options)).map(AsyncReplyStream)
    }

    pub async fn open_request_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: Option<&CallOptions>,
    ) -> Result<AsyncRequestStream<Q, R>, Status> {
        self.0.open_request_stream(method, &given(options)).map(AsyncRequestStream)
    }

    pub async fn open_both_streams<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: Option<&CallOptions>,
    ) -> Result<(AsyncRequestStream<Q, ()>, AsyncReplyStream<R>), Status> {
        let (requests, replies) = self.0.open_both_streams(method, &given(options))?;
        Ok((AsyncRequestStream(requests), AsyncReplyStream(replies)))
    }
}

fn given(options: Option<&CallOptions>) -> CallOptions {
    options.cloned().unwrap_or_default()
}
