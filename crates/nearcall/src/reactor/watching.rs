//! How a loop watches a connection: by its descriptors, by spinning, or by sleeping in it.
//!
//! Always true: a connection is armed, or it is hot or in `used` or `ready` and the loop does not
//! sleep before it was looked at; a loop sleeps in at most one connection.
//! Not here: rounds (`reactor.rs`), which are hot (`hot.rs`), the mechanisms (`nearcall-channel`).

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use nearcall_channel::{Deadline, Interest, Mechanism, WaitPolicy};
use nearcall_os::poll;
use nearcall_wire::Time;

use super::{Reactor, Source};
use crate::limits::SPIN_TURNS_PER_LOOK;
use crate::link::{Link, Took};
use crate::options;

/// How the loop watches a connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) tokens: Cell<Tokens>,
    /// It is in the queue of those that may have something.
    pub(super) is_ready: Cell<bool>,
    /// It is in the list of those that were used.
    is_used: Cell<bool>,
    /// It was armed and not used since.
    pub(super) is_armed: Cell<bool>,
    /// It is looked at before the loop sleeps.
    pub(super) is_hot: Cell<bool>,
    /// Looks in vain since it was last used.
    pub(super) misses: Cell<u32>,
}

/// What the loop's epoll knows of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tokens {
    /// Of the descriptor that tells of messages.
    receive: Option<u64>,
    /// Of the descriptor that tells of room, while it is waited for and is another one.
    send: Option<u64>,
    /// The descriptor of messages is watched for room as well.
    both: bool,
}

/// The connection that the loop sleeps in.
pub(super) struct Native {
    link: Rc<Link>,
    interrupter: nearcall_channel::Interrupt,
    /// Messages since the last look at everything else.
    messages: u32,
}

impl Native {
    pub(super) fn link(&self) -> Rc<Link> {
        Rc::clone(&self.link)
    }
}

impl Reactor {
    /// Watches a new connection.
    ///
    /// # Errors
    ///
    /// Its mechanism has no descriptor, and the loop sleeps in another connection already.
    pub(crate) fn add_link(&self, link: &Rc<Link>) -> io::Result<()> {
        if link.wait == WaitPolicy::Spin {
            self.spinning.borrow_mut().push(Rc::clone(link));
            return Ok(());
        }
        let token = self.sources.borrow_mut().add(Source::Link(Rc::clone(link)));
        let added = link.with_endpoint(|endpoint| match endpoint.readiness(Interest::Receive) {
            Some(readiness) => {
                let interest = kernel_interest(readiness.writable);
                self.epoll.add(readiness.fd, interest, token).map(|()| true)
            }
            None => Ok(false),
        });
        let watched = match added {
            Ok(true) => {
                link.watch.tokens.update(|tokens| Tokens { receive: Some(token), ..tokens });
                if link.mechanism == Mechanism::ShmSignal {
                    self.signalled.borrow_mut().push(Rc::clone(link));
                }
                self.used(link);
                return Ok(());
            }
            Ok(false) => self.sleep_in(link),
            Err(error) => Err(error),
        };
        self.sources.borrow_mut().remove(token);
        watched
    }

    fn sleep_in(&self, link: &Rc<Link>) -> io::Result<()> {
        if let Some(native) = &*self.native.borrow() {
            return Err(io::Error::other(format!(
                "{} has no descriptor, and this event loop sleeps in a connection over {} already; \
                 use a mechanism that is pollable, such as shm-eventfd or unix-stream",
                link.mechanism, native.link.mechanism
            )));
        }
        let epoll = self.epoll.as_fd();
        let interrupter = link.with_endpoint(|endpoint| endpoint.interrupt_when_readable(epoll))?;
        let native = Native { link: Rc::clone(link), interrupter, messages: 0 };
        *self.native.borrow_mut() = Some(native);
        Ok(())
    }

    /// Whether the loop sleeps in a connection, so that it can sleep in no other.
    pub(crate) fn sleeps_in_one(&self) -> bool {
        self.native.borrow().is_some()
    }

    /// Forgets a connection that has ended.
    pub(crate) fn remove_link(&self, link: &Rc<Link>) {
        self.spinning.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        self.ready.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        self.hot.forget(link);
        // Or its descriptors stay open until the next round.
        self.used.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        let is_native =
            self.native.borrow().as_ref().is_some_and(|native| Rc::ptr_eq(&native.link, link));
        if is_native {
            // Its drop ends the watch; the borrow must be over by then.
            let native = self.native.borrow_mut().take();
            drop(native);
        }
        let tokens = link.watch.tokens.take();
        self.signalled.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        for (interest, token) in
            [(Interest::Receive, tokens.receive), (Interest::Send, tokens.send)]
        {
            let Some(token) = token else { continue };
            self.sources.borrow_mut().remove(token);
            link.with_endpoint(|endpoint| {
                if let Some(readiness) = endpoint.readiness(interest) {
                    let _ = self.epoll.delete(readiness.fd);
                }
            });
        }
        for flag in [&link.watch.is_ready, &link.watch.is_used, &link.watch.is_armed] {
            flag.set(false);
        }
        link.watch.is_hot.set(false);
    }

    /// All connections.
    pub(super) fn links(&self) -> Vec<Rc<Link>> {
        let mut links = self.spinning.borrow().clone();
        links.extend(self.native.borrow().as_ref().map(|native| Rc::clone(&native.link)));
        links.extend(self.sources.borrow().links());
        links
    }

    /// A connection may have something.
    pub(super) fn make_ready(&self, link: &Rc<Link>) {
        if !link.watch.is_ready.get() && !link.is_gone() {
            link.watch.is_ready.set(true);
            link.watch.is_armed.set(false);
            self.ready.borrow_mut().push_back(Rc::clone(link));
        }
    }

    /// A connection was used, by whomever: a mechanism forgets then that somebody sleeps.
    #[inline]
    pub(crate) fn touched(&self, link: &Rc<Link>) {
        if link.wait != WaitPolicy::Spin {
            self.used(link);
        }
        self.wake_host();
    }

    #[inline]
    pub(super) fn used(&self, link: &Rc<Link>) {
        link.watch.is_armed.set(false);
        if !self.warm(link) && !link.watch.is_used.get() && !link.is_gone() {
            link.watch.is_used.set(true);
            self.used.borrow_mut().push(Rc::clone(link));
        }
    }

    /// Arms one connection, and watches for room if it needs any. False: look at it first.
    #[inline]
    pub(super) fn arm(&self, link: &Rc<Link>) -> bool {
        let wants_room = link.wants_room();
        let tokens = link.watch.tokens.get();
        if wants_room != (tokens.both || tokens.send.is_some()) {
            self.watch_for_room(link, wants_room);
        }
        if tokens.receive.is_none() {
            // The loop sleeps in it, and looks there first. Room that came just now is what
            // somebody may wait for.
            return !link.has_postponed() && wants_room == link.wants_room();
        }
        let armed = link.arm();
        link.watch.is_armed.set(armed);
        armed
    }

    /// Arms all connections that were used. True: some have to be looked at before a sleep.
    #[inline]
    pub(super) fn arm_used(&self) -> bool {
        if !self.used.borrow().is_empty() {
            // A stack, so that none is moved; arming runs no service.
            loop {
                let Some(link) = self.used.borrow_mut().pop() else { break };
                let watch = &link.watch;
                watch.is_used.set(false);
                let is_seen_to = watch.is_ready.get() || watch.is_armed.get() || watch.is_hot.get();
                if link.is_gone() || is_seen_to {
                    continue;
                }
                if !self.arm(&link) {
                    self.make_ready(&link);
                }
            }
        }
        !self.ready.borrow().is_empty()
    }

    #[cold]
    fn watch_for_room(&self, link: &Rc<Link>, wanted: bool) {
        let mut tokens = link.watch.tokens.get();
        let Some(receive) = tokens.receive else {
            return self.watch_native_for_room(link, wanted);
        };
        link.with_endpoint(|endpoint| {
            use std::os::fd::AsRawFd;
            let (Some(messages), Some(room)) =
                (endpoint.readiness(Interest::Receive), endpoint.readiness(Interest::Send))
            else {
                return;
            };
            if messages.fd.as_raw_fd() == room.fd.as_raw_fd() {
                let interest = if wanted { poll::Interest::Both } else { poll::Interest::Readable };
                // A bell is heard in the same way, whatever it rings for.
                if room.writable {
                    let _ = self.epoll.modify(messages.fd, interest, receive);
                }
                tokens.both = wanted;
            } else if wanted {
                let token = self.sources.borrow_mut().add(Source::Link(Rc::clone(link)));
                let _ = self.epoll.add(room.fd, kernel_interest(room.writable), token);
                tokens.send = Some(token);
            } else if let Some(token) = tokens.send.take() {
                self.sources.borrow_mut().remove(token);
                let _ = self.epoll.delete(room.fd);
            }
        });
        link.watch.tokens.set(tokens);
    }

    /// A connection without a descriptor cannot tell of room: look again soon.
    fn watch_native_for_room(&self, link: &Rc<Link>, wanted: bool) {
        if wanted {
            let _ = link.flush(Deadline::NOW);
            let now = options::now();
            // If there was room, somebody may wait for just that: no sleep.
            let next = if link.wants_room() { now.after(ROOM_LOOK_INTERVAL) } else { now };
            self.note_deadline(next);
        }
    }

    /// Sleeps in the connection without a descriptor, until it has a message, anything else is
    /// ready, or `until`.
    pub(super) fn sleep_in_native(&self, until: Time) -> io::Result<()> {
        let link = {
            let mut native = self.native.borrow_mut();
            let Some(native) = &mut *native else { return Ok(()) };
            native.interrupter.rearm()?;
            native.messages += 1;
            Rc::clone(&native.link)
        };
        let wanted_room = link.wants_room();
        if wanted_room {
            link.flush(Deadline::NOW);
        }
        let until = match (wanted_room, link.wants_room()) {
            (false, _) => until,
            // Somebody may wait for just that.
            (true, false) => Time::from_ns(0),
            (true, true) => until.min(options::now().after(ROOM_LOOK_INTERVAL)),
        };
        let signalled = !self.signalled.borrow().is_empty();
        let until = match signalled && until != Time::from_ns(0) {
            true => until.min(options::now().after(SIGNAL_LOOK_INTERVAL)),
            false => until,
        };
        let deadline = Deadline::from_ns(until.as_ns());
        let took = link.take_message(deadline);
        let look = match &mut *self.native.borrow_mut() {
            Some(native) if native.messages >= SPIN_TURNS_PER_LOOK => {
                native.messages = 0;
                true
            }
            _ => took != Took::Message,
        };
        if !look {
            return Ok(());
        }
        if signalled {
            self.look_for_signals();
        }
        self.look(Some(std::time::Duration::ZERO)).map(drop)
    }

    /// A signalfd shows the signals of a thread to the thread that polls it. While the loop sleeps
    /// in a connection the watcher polls for it, sees none, and has ours taken for seen.
    #[cold]
    fn look_for_signals(&self) {
        let signalled = self.signalled.borrow().clone();
        for link in signalled {
            self.make_ready(&link);
        }
    }
}

/// A connection has left the queue of those that may have something.
pub(super) fn taken_from_ready(link: &Link) {
    link.watch.is_ready.set(false);
}

fn kernel_interest(writable: bool) -> poll::Interest {
    if writable { poll::Interest::Writable } else { poll::Interest::Readable }
}

/// How often a loop that sleeps in one connection looks at those whose bell is a signal, for which
/// nothing calls it out of its sleep. Two such clients of one loop are rare, and slow then.
const SIGNAL_LOOK_INTERVAL: nearcall_wire::Timeout = nearcall_wire::Timeout::from_ns(1_000_000);

/// How often a connection that has no descriptor is asked for room while something waits for it:
/// about as long as a wake-up takes, so that a stream of large messages loses little.
const ROOM_LOOK_INTERVAL: nearcall_wire::Timeout = nearcall_wire::Timeout::from_ns(50_000);
