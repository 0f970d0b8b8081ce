//! A type that the compiler names where something is sent that stays in its thread.
//!
//! **Invariants:** it is a field of each such type, so that the message names more than the
//! pointers inside; its documentation says what to use instead.

use std::marker::PhantomData;

/// Marks what stays in the thread that made it. If the compiler says that this type cannot be sent
/// between threads, use for
///
/// - a [`PendingCall`], a [`ReplyStream`] or a [`RequestStream`]: a clone of the caller in each
///   thread, or one caller that they share by reference, and start and take the call in one thread:
///   `std::thread::spawn(move || caller.set_target(&request))`. A started call belongs to the
///   connection of one thread. For calls in tasks that move between threads, the generated async
///   caller (`ThermostatAsyncCaller`), whose futures are `Send`:
///   `tokio::spawn(async move { caller.set_target(&request).await })`;
/// - a [`Context`]: [`Context::answer_later`], whose [`Responder`] answers from any thread; a
///   [`BlockingPool`], whose threads run whole methods; or the async service of the interface,
///   whose [`CallContext`] is `Send`;
/// - an [`EventLoop`] or a [`Server`] in it: make it in the thread that runs it, and give the
///   others a [`Poster`] or a [`Stopper`]. [`Server::builder`] makes a server of several loops with
///   threads of their own, whose [`RunningServer`] any thread may use.
///
/// [`BlockingPool`]: crate::service::BlockingPool
/// [`CallContext`]: crate::CallContext
/// [`Context`]: crate::Context
/// [`Context::answer_later`]: crate::Context::answer_later
/// [`EventLoop`]: crate::EventLoop
/// [`PendingCall`]: crate::client::PendingCall
/// [`Poster`]: crate::event_loop::Poster
/// [`ReplyStream`]: crate::stream::ReplyStream
/// [`RequestStream`]: crate::stream::RequestStream
/// [`Responder`]: crate::service::Responder
/// [`RunningServer`]: crate::server::RunningServer
/// [`Server`]: crate::Server
/// [`Server::builder`]: crate::Server::builder
/// [`Stopper`]: crate::event_loop::Stopper
#[derive(Debug, Clone, Copy, Default)]
pub struct BelongsToItsThread(PhantomData<*const ()>);
