//! How a server ends: no more clients, the calls under way go on, then its connections close.
//!
//! **Invariants:** a connection is closed by a drain only when no call is under way over it and
//! none waits in its channel, or when the time is up; its client learns before that a call that it
//! sends meanwhile has not begun; the socket files go first; a drain ends only
//! when the methods of one-way messages have ended as well, wherever they run.
//! **Not here:** catching the signals (`nearcall-os`), the end of a server with several loops
//! (`running.rs`).

use std::io;
use std::rc::Rc;

use nearcall_os::signal::TerminationSignals;

use super::{Server, ServerCore};
use crate::deadline::Deadline;
use crate::event_loop::{Event, EventLoop, Interest};
use crate::reactor::NOT_LISTENING;
use crate::status::{Fate, Status};

impl Server {
    /// Serves until SIGTERM or SIGINT comes, until
    /// [`Stopper::stop`](crate::event_loop::Stopper::stop) is called, or until a client stops the
    /// server ([`control`](crate::control)), and ends well: clients that are connecting are refused
    /// with the reason, socket files are removed, and calls and one-way messages under way go on
    /// for [`Limits::drain_timeout`](crate::Limits) at most. Return from `main` then, so that the
    /// program exits with 0.
    ///
    /// A second signal ends the process at once, by the signal. Both signals are caught by a
    /// handler as long as this runs, so it makes no difference which threads were started before,
    /// and which signals they block. Events of the user are dropped: with timers or descriptors of
    /// your own call [`EventLoop::next`] and [`drain`](Self::drain) instead.
    ///
    /// A method that runs when the signal comes holds the loop up until it returns. One-way
    /// messages are counted for each loop: this waits for those of its other servers as well.
    ///
    /// A signal before this call has its default action: it ends the process, and leaves the socket
    /// files for the next server to take over. With a [`TerminationSignals`] from before
    /// [`listen`](Self::listen), as below, such a signal ends the server well too.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the server is in another event loop. The kernel's: the handler could not be
    /// installed, or waiting itself fails.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use nearcall::{EventLoop, Server};
    /// use nearcall::server::TerminationSignals;
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let _termination = TerminationSignals::install()?;
    ///     let event_loop = EventLoop::new()?;
    ///     let server = Server::new(&event_loop);
    ///     // ... register
    ///     server.listen("thermostat")?;
    ///     server.run_until_signal(&event_loop)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn run_until_signal(&self, event_loop: &EventLoop) -> io::Result<()> {
        if !Rc::ptr_eq(&self.core.reactor, event_loop.reactor()) {
            let text = "this server is in another event loop: pass the one that it was made with";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let termination = TerminationSignals::install()?;
        let signal = event_loop.add_descriptor(termination.fd(), Interest::Readable)?;
        let stopper = event_loop.stopper();
        let stoppable = self.core.state.stoppable(move || stopper.stop());
        let outcome = loop {
            match event_loop.next(Deadline::NEVER) {
                Ok(Some(Event::Descriptor(ready, _))) if ready == signal => break Ok(()),
                Ok(Some(Event::Stopped)) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        drop(stoppable);
        event_loop.remove_descriptor(signal);
        outcome?;
        self.core.drain();
        let deadline = Deadline::after(self.core.limits.drain_timeout);
        self.core.reactor.run_until(deadline, || self.core.close_idle())?;
        self.core.close_connections();
        Ok(())
    }
}

impl ServerCore {
    /// Takes no more clients and no more calls.
    pub(super) fn drain(&self) {
        self.acceptor.set_draining(true);
        self.state.set_draining(true);
        self.stop_listening();
        for connection in self.acceptor.connections() {
            connection.drain();
        }
        self.reactor.forget_closed();
    }

    /// Closes the connections over which no call is under way: a client that waits in no event loop
    /// reads only when it calls, and would not answer. Returns whether none is left, and no one-way
    /// message.
    pub(super) fn close_idle(&self) -> bool {
        for connection in self.acceptor.connections() {
            if !self.reactor.is_idle(&connection) {
                continue;
            }
            if connection.is_greeting() {
                let reason = Status::unavailable(NOT_LISTENING);
                connection.refuse(reason.with_fate(Fate::NotBegun));
            } else if connection.end_drain() {
                connection.close(closed());
            }
        }
        self.reactor.forget_closed();
        self.acceptor.connections().is_empty() && self.reactor.have_oneways_ended()
    }

    /// Closes all connections.
    pub(super) fn close_connections(&self) {
        for connection in self.acceptor.connections() {
            connection.close(closed());
        }
        self.reactor.forget_closed();
    }
}

fn closed() -> Status {
    Status::unavailable("the server was closed")
}
