//! Futures of the stub: every one is ready when it is polled first, and does nothing before.

use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use prost::Message;

use super::streams::{ItemReceiver, ItemSender, ReplyStream, RequestStream};
use super::{
    BadAddress, CallOptions, Client, Dispatcher, Incoming, Interface, Loan, Method, ObjectRef,
    Status, set_answer,
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

/// The table of methods of an interface.
pub trait AsyncSkeleton<T>: 'static {
    const INTERFACE: &'static Interface;

    fn dispatch(incoming: AsyncIncoming<'_, T>);
}

/// Serves calls with an async service.
pub struct AsyncDispatcher<S, T>(Arc<T>, TaskRunner, PhantomData<fn() -> S>);

impl<S: AsyncSkeleton<T>, T: Send + Sync + 'static> AsyncDispatcher<S, T> {
    pub fn new(service: T) -> Self {
        Self::shared(Arc::new(service))
    }

    pub fn shared(service: Arc<T>) -> Self {
        Self(service, TaskRunner::default(), PhantomData)
    }

    pub fn service(&self) -> &Arc<T> {
        &self.0
    }

    pub fn spawn_on(self, spawn: impl Fn(ServiceTask) + Send + Sync + 'static) -> Self {
        Self(self.0, TaskRunner::spawn_on(spawn), PhantomData)
    }
}

impl<S, T> Clone for AsyncDispatcher<S, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1.clone(), PhantomData)
    }
}

impl<S: AsyncSkeleton<T>, T: Send + Sync + 'static> Dispatcher for AsyncDispatcher<S, T> {
    fn interface(&self) -> &'static Interface {
        S::INTERFACE
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        S::dispatch(AsyncIncoming { incoming, service: &self.0, runner: &self.1 });
    }
}

/// A call on its way into an async service.
pub struct AsyncIncoming<'a, T> {
    incoming: Incoming<'a>,
    service: &'a Arc<T>,
    runner: &'a TaskRunner,
}

/// A method whose future borrows the service.
pub trait AsyncMethod<'a, T: 'a, A, R>: Send + 'static {
    type Future: Future<Output = R> + Send;

    fn run(self, service: &'a T, context: CallContext, arguments: A) -> Self::Future;
}

impl<'a, T: 'a, A, R, M, F> AsyncMethod<'a, T, (A,), R> for M
where
    M: FnOnce(&'a T, CallContext, A) -> F + Send + 'static,
    F: Future<Output = R> + Send,
{
    type Future = F;

    fn run(self, service: &'a T, context: CallContext, (first,): (A,)) -> F {
        self(service, context, first)
    }
}

impl<'a, T: 'a, A, B, R, M, F> AsyncMethod<'a, T, (A, B), R> for M
where
    M: FnOnce(&'a T, CallContext, A, B) -> F + Send + 'static,
    F: Future<Output = R> + Send,
{
    type Future = F;

    fn run(self, service: &'a T, context: CallContext, (first, second): (A, B)) -> F {
        self(service, context, first, second)
    }
}

impl<T: Send + Sync + 'static> AsyncIncoming<'_, T> {
    pub fn method(&self) -> u32 {
        self.incoming.method()
    }

    pub fn unimplemented(self) {
        self.incoming.unimplemented();
    }

    pub fn reply<Q: Message + Default + 'static, R: Message>(
        self,
        method: impl for<'b> AsyncMethod<'b, T, (Q,), Result<R, Status>>,
    ) {
        let request = self.incoming.request();
        self.spawn(method, (request,));
    }

    pub fn oneway<Q: Message + Default + 'static>(
        self,
        method: impl for<'b> AsyncMethod<'b, T, (Q,), ()>,
    ) {
        let (service, request) = (Arc::clone(self.service), self.incoming.request());
        let context = CallContext { text: self.incoming.text };
        let answer = Arc::clone(&self.incoming.answer);
        self.runner.spawn(async move {
            method.run(&service, context, (request,)).await;
            set_answer(&answer, &Ok(()));
        });
    }

    pub fn reply_stream<Q: Message + Default + 'static, R: Message + 'static>(
        self,
        method: impl for<'b> AsyncMethod<'b, T, (Q, AsyncItemSender<R>), Result<(), Status>>,
    ) {
        let items = AsyncItemSender(self.incoming.item_sender());
        let request = self.incoming.request();
        self.spawn(method, (request, items));
    }

    pub fn receive_stream<Q: Message + Default + 'static, R: Message>(
        self,
        method: impl for<'b> AsyncMethod<'b, T, (AsyncItemReceiver<Q>,), Result<R, Status>>,
    ) {
        let items = AsyncItemReceiver(self.incoming.item_receiver());
        self.spawn(method, (items,));
    }

    pub fn both_streams<Q: Message + Default + 'static, R: Message + 'static>(
        self,
        method: impl for<'b> AsyncMethod<
            'b,
            T,
            (AsyncItemReceiver<Q>, AsyncItemSender<R>),
            Result<(), Status>,
        >,
    ) {
        let items = AsyncItemReceiver(self.incoming.item_receiver());
        let replies = AsyncItemSender(self.incoming.item_sender());
        self.spawn(method, (items, replies));
    }

    fn spawn<A: Send + 'static, R: Message>(
        &self,
        method: impl for<'b> AsyncMethod<'b, T, A, Result<R, Status>>,
        arguments: A,
    ) {
        let (service, answer) = (Arc::clone(self.service), Arc::clone(&self.incoming.answer));
        let context = CallContext { text: self.incoming.text };
        self.runner.spawn(async move {
            set_answer(&answer, &method.run(&service, context, arguments).await);
        });
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
