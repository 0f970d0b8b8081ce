//! The thread of one event loop of a server with several.
//!
//! **Invariants:** whatever ends the thread, its end is noted, so that the other loops are stopped
//! and none that waits for this one waits without end; orders are handled between two rounds, so a
//! method never runs inside one.
//! **Not here:** the handle that gives the orders (`running.rs`), the loop itself (`reactor.rs`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::Server;
use super::errors::{RegisterError, StartError};
use super::group::{Group, Order, OrderBook};
use crate::clients::own_loop;
use crate::deadline::Deadline;
use crate::event_loop::EventLoop;
use crate::interceptor::Chain;
use crate::services::dispatcher::Registered;

/// An object that every loop of a server serves.
pub(super) struct Object {
    pub(super) instance: Option<String>,
    /// Makes the dispatcher of one loop.
    pub(super) make: Box<dyn Fn() -> Rc<Registered> + Send + Sync>,
}

/// The parts that the thread of a loop is started with.
pub(super) struct LoopSetup {
    pub(super) group: Arc<Group>,
    pub(super) loop_index: usize,
    pub(super) interceptors: Chain,
    pub(super) objects: Arc<[Object]>,
    pub(super) orders: OrderBook,
    /// Reports that the loop serves, or why it does not.
    pub(super) ready: Sender<Result<(), StartError>>,
    /// Clients without a loop use this one in its thread.
    pub(super) nests_calls: bool,
}

/// Runs the loop until the server is stopped.
pub(super) fn run(setup: LoopSetup) {
    let (group, loop_index) = (Arc::clone(&setup.group), setup.loop_index);
    let outcome = catch_unwind(AssertUnwindSafe(|| serve(setup)));
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(panic) => Some(describe_panic(&*panic)),
    };
    group.note_end(loop_index, failure);
}

fn serve(setup: LoopSetup) -> std::io::Result<()> {
    let LoopSetup { group, loop_index, interceptors, objects, orders, ready, nests_calls } = setup;
    let parts = start(&group, loop_index, interceptors, &objects);
    // The last loop to end drops the services, and this list is not one.
    drop(objects);
    let (event_loop, server) = match parts {
        Ok(parts) => parts,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    if nests_calls {
        own_loop::adopt(event_loop.reactor());
    }
    let _ = ready.send(Ok(()));
    drop(ready);
    let (reactor, core) = (event_loop.reactor(), &server.core);
    // How long each drain goes on, and who asked for it.
    let mut drains: Vec<(Deadline, Sender<bool>)> = Vec::new();
    while !group.is_stopped() {
        let deadline = drains.iter().map(|(deadline, _)| *deadline).min();
        let deadline = deadline.unwrap_or(Deadline::NEVER);
        let is_draining = !drains.is_empty();
        reactor.run_until(deadline, || reactor.has_event() || is_draining && core.close_idle())?;
        // Being stopped means that there are orders, or that this is the end.
        while reactor.take_event().is_some() {}
        for order in orders.try_iter() {
            match order {
                Order::Listen(listening, done) => {
                    let mut listening = listening.into_iter();
                    let _ = done.send(
                        listening.try_for_each(|it| core.add_listener(it, group.mailboxes.clone())),
                    );
                }
                Order::Connections(connections) => {
                    let _ = connections.send(server.connections());
                }
                Order::Drain(deadline, done) => {
                    core.drain();
                    drains.push((deadline, done));
                }
                #[cfg(test)]
                Order::Fail(fail) => fail()?,
            }
        }
        if !drains.is_empty() {
            let is_empty = core.close_idle();
            let ended = |(deadline, _): &mut (Deadline, _)| is_empty || deadline.has_passed();
            for (_, done) in drains.extract_if(.., ended) {
                let _ = done.send(is_empty);
            }
        }
    }
    Ok(())
}

/// Creates the loop and what it serves.
fn start(
    group: &Arc<Group>,
    loop_index: usize,
    interceptors: Chain,
    objects: &[Object],
) -> Result<(EventLoop, Server), StartError> {
    let mailbox = Arc::clone(&group.mailboxes[loop_index]);
    let event_loop = EventLoop::with_mailbox(mailbox).map_err(StartError::Os)?;
    let state = Arc::clone(&group.server);
    let server = Server::in_loop(&event_loop, group.limits, state, loop_index);
    server.core.set_interceptors(interceptors);
    let register = |object: &Object| -> Result<(), RegisterError> {
        server.core.register(object.instance.as_deref(), (object.make)())
    };
    objects.iter().try_for_each(register).map_err(StartError::Register)?;
    Ok((event_loop, server))
}

/// Returns the text of a panic.
fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("the panic has no text"))
}
