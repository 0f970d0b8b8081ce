//! Methods that return futures: from an incoming call to a task that answers it.
//!
//! **Invariants:** the request is charged before it is unmarshalled, and unmarshalled before the
//! future is made; a future that is dropped
//! without a result fails its call; a result that comes after the deadline is an error.
//! **Not here:** the task (`tasks/service_task.rs`), the loop's executor (`tasks/executor.rs`).

use crate::codec::{self, Message};
use crate::reservation::Reservation;
use crate::service::call_context::CallContext;
use crate::service::context::Context;
use crate::service::dispatcher::Incoming;
use crate::service::responder::Responder;
use crate::status::Status;
use crate::tasks::service_task::{ServiceTask, TaskRunner};

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
    let (call, deadline) = (context.detach(), context.deadline_moment());
    let responder = Responder::new(call.sink.clone(), deadline, reservation);
    let future = serve(CallContext::new(context, &call));
    let answer = async move { responder.finish_in_task(future.await) };
    let task = ServiceTask::new(answer, call.sink.cancellation(), deadline);
    runner.run(task, |task| call.sink.spawn(task));
}
