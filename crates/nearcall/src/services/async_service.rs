//! Methods that return futures: from an incoming call to a task that answers it.
//!
//! **Invariants:** the request is charged before it is unmarshalled, and unmarshalled before the
//! future is made; a future that is dropped
//! without a result fails its call; a result that comes after the deadline is an error.
//! **Not here:** the task (`tasks/service_task.rs`), the loop's executor (`tasks/executor.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use crate::codec::{self, Message};
use crate::interface::Interface;
use crate::reservation::Reservation;
use crate::services::call_context::CallContext;
use crate::services::context::Context;
use crate::services::detached_sink::DetachedCall;
use crate::services::dispatcher::{Dispatcher, Incoming};
use crate::services::responder::Responder;
use crate::services::streams::{AsyncItemReceiver, AsyncItemSender};
use crate::status::Status;
use crate::tasks::service_task::{ServiceTask, TaskRunner};

/// Brings the calls of one interface to an implementation `T` whose methods return futures.
/// Generated code implements it.
///
/// See [`AsyncDispatcher`].
pub trait AsyncSkeleton<T>: 'static {
    /// The interface.
    const INTERFACE: &'static Interface;

    /// Unmarshals a call, and has a task run the method and reply.
    fn dispatch(incoming: AsyncIncoming<'_, T>);
}

/// Serves calls with an async service, and is registered with a server. Generated code has a name
/// for that of an interface, such as `ThermostatAsyncDispatcher<T>`.
///
/// Registered by [`Server::register`](crate::Server::register); where its futures run, a
/// [`TaskRunner`] says.
pub struct AsyncDispatcher<S, T> {
    service: Arc<T>,
    runner: TaskRunner,
    skeleton: PhantomData<fn() -> S>,
}

impl<S: AsyncSkeleton<T>, T: Send + Sync + 'static> AsyncDispatcher<S, T> {
    /// Creates a dispatcher that owns `service`.
    pub fn new(service: T) -> Self {
        Self::shared(Arc::new(service))
    }

    /// Creates a dispatcher that shares `service`, so that the program can use it too.
    pub fn shared(service: Arc<T>) -> Self {
        Self { service, runner: TaskRunner::default(), skeleton: PhantomData }
    }

    /// Returns the service.
    pub fn service(&self) -> &Arc<T> {
        &self.service
    }

    /// Runs the methods where `spawn` puts them, such as the runtime of the program, and not in the
    /// loop of the server: `.spawn_on(move |task| { handle.spawn(task); })`. Methods that use the
    /// timers or sockets of a runtime need this, since the loop is in none.
    #[must_use]
    pub fn spawn_on(self, spawn: impl Fn(ServiceTask) + Send + Sync + 'static) -> Self {
        Self { runner: TaskRunner::spawn_on(spawn), ..self }
    }

    /// As [`spawn_on`](Self::spawn_on), but polls each method once in the loop of the server and
    /// hands over what is not done by then. Most methods are, and a thread change each way costs
    /// more than they do.
    ///
    /// `enter` calls its argument inside of what the runtime wants around its futures. A method
    /// that computes for long holds the loop up until its first `await` that has to wait; services
    /// with such methods use [`spawn_on`](Self::spawn_on).
    ///
    /// ```ignore
    /// let (inside, handle) = (runtime.handle().clone(), runtime.handle().clone());
    /// ThermostatAsyncDispatcher::new(room).spawn_pending_on(
    ///     move |poll| {
    ///         let _inside = inside.enter();
    ///         poll();
    ///     },
    ///     move |task| {
    ///         handle.spawn(task);
    ///     },
    /// )
    /// ```
    #[must_use]
    pub fn spawn_pending_on(
        self,
        enter: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
        spawn: impl Fn(ServiceTask) + Send + Sync + 'static,
    ) -> Self {
        Self { runner: TaskRunner::spawn_pending_on(enter, spawn), ..self }
    }
}

impl<S: AsyncSkeleton<T>, T: Send + Sync + 'static> Dispatcher for AsyncDispatcher<S, T> {
    fn interface(&self) -> &'static Interface {
        S::INTERFACE
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        S::dispatch(AsyncIncoming { incoming, service: &self.service, runner: &self.runner });
    }
}

impl<S, T> Clone for AsyncDispatcher<S, T> {
    fn clone(&self) -> Self {
        let (service, runner) = (Arc::clone(&self.service), self.runner.clone());
        Self { service, runner, skeleton: PhantomData }
    }
}

impl<S, T> fmt::Debug for AsyncDispatcher<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncDispatcher").field("runner", &self.runner).finish_non_exhaustive()
    }
}

/// A call on its way into an async service, which its task shares. Generated code consumes it.
///
/// See [`AsyncSkeleton`].
pub struct AsyncIncoming<'a, T> {
    incoming: Incoming<'a>,
    service: &'a Arc<T>,
    runner: &'a TaskRunner,
}

/// A method of a service `T`: a function of the service, the context and `A`, whose future borrows
/// the service and ends with `R`.
///
/// See [`AsyncIncoming`].
pub trait AsyncMethod<'a, T: 'a, A, R>: Send + 'static {
    /// The future.
    type Future: Future<Output = R> + Send;

    /// Runs the method.
    fn run(self, service: &'a T, context: CallContext, arguments: A) -> Self::Future;
}

/// Implements it for functions with so many arguments behind the context.
macro_rules! impl_async_method {
    ($($name:ident: $type:ident),+) => {
        impl<'a, T: 'a, $($type,)+ R, M, F> AsyncMethod<'a, T, ($($type,)+), R> for M
        where
            M: FnOnce(&'a T, CallContext, $($type),+) -> F + Send + 'static,
            F: Future<Output = R> + Send,
        {
            type Future = F;

            fn run(self, service: &'a T, context: CallContext, ($($name,)+): ($($type,)+)) -> F {
                self(service, context, $($name),+)
            }
        }
    };
}

impl_async_method!(first: A);
impl_async_method!(first: A, second: B);

impl<T: Send + Sync + 'static> AsyncIncoming<'_, T> {
    /// Returns the number of the method.
    #[inline]
    pub fn method(&self) -> u32 {
        self.incoming.method()
    }

    /// Runs a method whose future answers.
    pub fn reply<Q, R, M>(self, method: M)
    where
        Q: Message + Default + 'static,
        R: Message + 'static,
        M: for<'b> AsyncMethod<'b, T, (Q,), Result<R, Status>>,
    {
        let service = Arc::clone(self.service);
        self.incoming
            .reply_async(self.runner, |context, request| own(service, method, context, (request,)));
    }

    /// Runs a one-way method.
    pub fn oneway<Q, M>(self, method: M)
    where
        Q: Message + Default + 'static,
        M: for<'b> AsyncMethod<'b, T, (Q,), ()>,
    {
        let service = Arc::clone(self.service);
        self.incoming.oneway_async(self.runner, |context, request| {
            own(service, method, context, (request,))
        });
    }

    /// Runs a method that replies with a stream.
    pub fn reply_stream<Q, R, M>(self, method: M)
    where
        Q: Message + Default + 'static,
        R: Message + 'static,
        M: for<'b> AsyncMethod<'b, T, (Q, AsyncItemSender<R>), Result<(), Status>>,
    {
        let service = Arc::clone(self.service);
        self.incoming.reply_stream_async(self.runner, |context, request, items| {
            own(service, method, context, (request, items))
        });
    }

    /// Runs a method that takes a stream.
    pub fn receive_stream<Q, R, M>(self, method: M)
    where
        Q: Message + Default + 'static,
        R: Message + 'static,
        M: for<'b> AsyncMethod<'b, T, (AsyncItemReceiver<Q>,), Result<R, Status>>,
    {
        let service = Arc::clone(self.service);
        self.incoming.receive_stream_async(self.runner, |context, items| {
            own(service, method, context, (items,))
        });
    }

    /// Runs a method that takes a stream and replies with one.
    pub fn both_streams<Q, R, M>(self, method: M)
    where
        Q: Message + Default + 'static,
        R: Message + 'static,
        M: for<'b> AsyncMethod<
                'b,
                T,
                (AsyncItemReceiver<Q>, AsyncItemSender<R>),
                Result<(), Status>,
            >,
    {
        let service = Arc::clone(self.service);
        self.incoming.both_streams_async(self.runner, |context, items, replies| {
            own(service, method, context, (items, replies))
        });
    }

    /// Refuses a method that the interface does not have.
    pub fn unimplemented(self) {
        self.incoming.unimplemented();
    }
}

/// Makes a future that owns the service that the method borrows.
async fn own<T, A, R, M>(service: Arc<T>, method: M, context: CallContext, arguments: A) -> R
where
    M: for<'b> AsyncMethod<'b, T, A, R>,
{
    method.run(&service, context, arguments).await
}

impl Incoming<'_> {
    /// Runs a method whose future answers.
    pub fn reply_async<Q, R, F>(self, runner: &TaskRunner, serve: impl FnOnce(CallContext, Q) -> F)
    where
        Q: Message + Default,
        R: Message + 'static,
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let context = &self.context;
        let reservation = match context.reserve(false) {
            Ok(reservation) => reservation,
            Err(status) => return context.fail(&status),
        };
        let request = match codec::decode(self.body) {
            Ok(request) => request,
            Err(status) => return context.fail(&context.bad_request(&status)),
        };
        spawn(context, runner, reservation, |context| serve(context, request));
    }

    /// Runs a one-way method whose future has no result. What cannot be unmarshalled is dropped.
    pub fn oneway_async<Q, F>(self, runner: &TaskRunner, serve: impl FnOnce(CallContext, Q) -> F)
    where
        Q: Message + Default,
        F: Future<Output = ()> + Send + 'static,
    {
        // It may have been called as if it had a reply.
        self.reply_async(runner, |context, request| {
            let future = serve(context, request);
            async move {
                future.await;
                Ok(())
            }
        });
    }
}

/// Has the future of a method answer its call. What the call holds is charged until it has ended.
pub(super) fn spawn<R, F>(
    context: &Context<'_>,
    runner: &TaskRunner,
    reservation: Reservation,
    serve: impl FnOnce(CallContext) -> F,
) where
    R: Message + 'static,
    F: Future<Output = Result<R, Status>> + Send + 'static,
{
    let call = context.detach();
    let responder = Responder::new(call.sink.clone(), context.deadline_moment(), reservation);
    let future = serve(CallContext::new(context, &call));
    start(context, runner, &call, Box::pin(async move { responder.finish_in_task(future.await) }));
}

/// Has a future answer a call, where the runner says. Compiled once for all methods.
fn start(
    context: &Context<'_>,
    runner: &TaskRunner,
    call: &DetachedCall,
    answer: Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    let task = ServiceTask::new(answer, call.sink.cancellation(), context.deadline_moment());
    runner.run(task, |task| call.sink.spawn(task));
}
