//! From an incoming call to a method that streams.
//!
//! **Invariants:** the end of a call comes after all items that its service has sent; a call of the
//! wrong shape fails with a status that names the method and says how to call it.
//! **Not here:** methods without streams (`dispatcher.rs`, `async_service.rs`).

use super::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
use crate::codec::{self, Message};
use crate::reservation::Reservation;
use crate::services::async_service::spawn;
use crate::services::call_context::CallContext;
use crate::services::context::Context;
use crate::services::dispatcher::Incoming;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::tasks::service_task::TaskRunner;

impl Incoming<'_> {
    /// Runs a method that replies with a stream.
    pub fn reply_stream<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q, ItemSender<R>) -> Result<(), Status>,
    ) {
        let Some(call) = self.stream() else { return };
        let deadline = self.context.deadline_moment();
        let request = codec::decode(self.body).map_err(|error| self.context.bad_request(&error));
        let result = request
            .and_then(|request| serve(&self.context, &request, ItemSender::new(call, deadline)));
        finish(&self.context, &result);
    }

    /// Runs a method that takes a stream.
    pub fn receive_stream<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, ItemReceiver<Q>) -> Result<R, Status>,
    ) {
        let Some(call) = self.stream() else { return };
        let items = ItemReceiver::new(call, self.context.deadline_moment());
        finish(&self.context, &serve(&self.context, items));
    }

    /// Runs a method that takes a stream and replies with one.
    pub fn both_streams<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, ItemReceiver<Q>, ItemSender<R>) -> Result<(), Status>,
    ) {
        let Some(call) = self.stream() else { return };
        let deadline = self.context.deadline_moment();
        let items = ItemReceiver::new(call.clone(), deadline);
        let result = serve(&self.context, items, ItemSender::new(call, deadline));
        finish(&self.context, &result);
    }

    /// Runs a method that replies with a stream, and whose future is the end of the call.
    pub fn reply_stream_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, Q, AsyncItemSender<R>) -> F,
    ) where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let Some((call, reservation)) = self.reserved_stream() else { return };
        let deadline = self.context.deadline_moment();
        match codec::decode(self.body) {
            Ok(request) => spawn(&self.context, runner, reservation, |context| {
                serve(context, request, AsyncItemSender::new(call, deadline))
            }),
            Err(status) => self.context.fail(&self.context.bad_request(&status)),
        }
    }

    /// Runs a method that takes a stream, and whose future replies.
    pub fn receive_stream_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, AsyncItemReceiver<Q>) -> F,
    ) where
        Q: Message + Default,
        R: Message + 'static,
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let Some((call, reservation)) = self.reserved_stream() else { return };
        let serve = |context| serve(context, AsyncItemReceiver::new(call));
        spawn(&self.context, runner, reservation, serve);
    }

    /// Runs a method that takes a stream and replies with one, and whose future is the end of the
    /// call.
    pub fn both_streams_async<Q, R, F>(
        self,
        runner: &TaskRunner,
        serve: impl FnOnce(CallContext, AsyncItemReceiver<Q>, AsyncItemSender<R>) -> F,
    ) where
        Q: Message + Default,
        R: Message,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let Some((call, reservation)) = self.reserved_stream() else { return };
        let deadline = self.context.deadline_moment();
        spawn(&self.context, runner, reservation, |context| {
            let items = AsyncItemReceiver::new(call.clone());
            serve(context, items, AsyncItemSender::new(call, deadline))
        });
    }

    /// Returns the stream of a call that goes on after its turn, and what charges for it. `None`:
    /// it was refused.
    fn reserved_stream(&self) -> Option<(ServiceStream, Reservation)> {
        let call = self.stream()?;
        match self.context.reserve(false) {
            Ok(reservation) => Some((call, reservation)),
            Err(status) => {
                self.context.fail(&status);
                None
            }
        }
    }

    /// Returns the stream of the call. `None`: it is a unary call, and was refused.
    fn stream(&self) -> Option<ServiceStream> {
        let stream = self.context.stream();
        if stream.is_none() {
            self.context.fail(&self.context.wrong_shape());
        }
        stream
    }
}

/// Ends a call whose method has returned, unless a responder does.
fn finish<R: Message>(context: &Context<'_>, result: &Result<R, Status>) {
    match result {
        Ok(_) if context.deadline_moment().has_passed() => context.fail(&Status::answered_late()),
        Err(_) if context.is_detached() => {}
        result => context.finish_stream(result.as_ref()),
    }
}
