//! Handlers that run inside each other on this thread: how many, whose calls they serve, and until
//! when the innermost may wait.
//!
//! A handler that waits for a call of its own has others served inside that wait, on one stack: it
//! goes on when they have returned. Their depth is therefore shared out, and their waits end.
//! **Invariants:** what a guard changed is as before when it is dropped. A user holds at most half
//! of the depth that the others leave, a connection at most half of what is left of that. A handler
//! that runs inside another waits no longer than any of those that it holds up, and never longer
//! than the longest deadline of its server.
//! **Not here:** running a handler (`services/dispatch.rs`).
//!
//! **Invariant:** no part of a connection is borrowed while a service runs, so services can call
//! each other recursively, up to a limited depth. *Checked by* `calls_in_circles_do_not_deadlock`,
//! `calls_that_nest_too_deep_are_refused_and_no_connection_ends`.

use std::cell::Cell;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::limits::{Limits, NESTING_MAX};
use crate::status::Status;

/// Whose call a handler serves, as the shares of the depth are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Of the connections of this thread; 0: the thread itself.
    connection: u64,
    /// The user by the kernel. All clients from other machines count as one.
    uid: Option<u32>,
}

impl Origin {
    /// The program itself: calls of this thread, futures and posted closures. Bounded by the depth
    /// alone.
    pub(crate) const OWN: Self = Self { connection: 0, uid: None };

    /// Returns the origin of the calls of a new connection of this thread.
    pub(crate) fn of_connection(uid: Option<u32>) -> Self {
        let connection = CONNECTIONS.get() + 1;
        CONNECTIONS.set(connection);
        Self { connection, uid }
    }
}

/// A handler that is about to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    /// When its call ends by itself.
    pub(crate) deadline: Deadline,
    pub(crate) origin: Origin,
    /// The longest deadline of its server, for a wait inside another handler.
    pub(crate) deadline_max: Duration,
}

impl Handler {
    /// Returns a handler of the program's own, with this deadline.
    #[inline]
    pub(crate) fn own(deadline: Deadline) -> Self {
        Self { deadline, origin: Origin::OWN, deadline_max: Duration::MAX }
    }

    /// Returns a handler of a library, whose host has counted whose call it serves. It waits no
    /// longer than those that it holds up, like any other.
    pub(crate) fn of_library(deadline: Deadline) -> Self {
        NESTING.with(|nesting| match nesting.depth.get() {
            0 => Self::own(deadline),
            _ => Self::own(nesting.bound(deadline, Limits::default().deadline_max)),
        })
    }
}

struct Nesting {
    /// Handlers that run right now.
    depth: Cell<usize>,
    /// The deadline of the innermost; its waits, and calls that it makes, end then at the latest.
    deadline: Cell<Deadline>,
    /// Whose calls they serve, the outermost first.
    origins: [Cell<Origin>; NESTING_MAX],
}

thread_local! {
    /// How many connections this thread has had.
    static CONNECTIONS: Cell<u64> = const { Cell::new(0) };
    static NESTING: Nesting = const {
        Nesting {
            depth: Cell::new(0),
            deadline: Cell::new(Deadline::NEVER),
            origins: [const { Cell::new(Origin::OWN) }; NESTING_MAX],
        }
    };
}

/// Returns the deadline that a call or wait made here and now inherits.
#[inline]
pub(crate) fn inherited_deadline() -> Deadline {
    NESTING.with(|nesting| nesting.deadline.get())
}

/// Returns whether a handler may run inside those that run now.
pub(crate) fn may_nest() -> bool {
    NESTING.with(|nesting| nesting.depth.get() < NESTING_MAX)
}

/// While it lives a handler runs.
pub(crate) struct NestingGuard {
    outer: Deadline,
    /// It runs inside another one.
    pub(crate) is_nested: bool,
}

impl NestingGuard {
    /// Enters a handler.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: too many handlers run inside each other, or too many for this client.
    #[inline]
    pub(crate) fn enter(handler: Handler) -> Result<Self, Status> {
        NESTING.with(|nesting| {
            let depth = nesting.depth.get();
            // No handler is held up by the outermost.
            let deadline = if depth == 0 { handler.deadline } else { nesting.admit(handler)? };
            nesting.origins[depth].set(handler.origin);
            nesting.depth.set(depth + 1);
            Ok(Self { outer: nesting.deadline.replace(deadline), is_nested: depth > 0 })
        })
    }
}

impl Nesting {
    /// Judges a handler that would run inside others. Returns until when it may wait.
    #[cold]
    fn admit(&self, handler: Handler) -> Result<Deadline, Status> {
        let depth = self.depth.get();
        if depth >= NESTING_MAX {
            return Err(too_deep(depth, "all clients together"));
        }
        // What the program itself nests has its own deadline, or none, as it sees fit.
        if handler.origin == Origin::OWN {
            return Ok(handler.deadline);
        }
        let origins = || self.origins[..depth].iter().map(Cell::get);
        let of_user = |origin: &Origin| *origin != Origin::OWN && origin.uid == handler.origin.uid;
        let of_user = origins().filter(of_user).count();
        let user_max = (NESTING_MAX - (depth - of_user)) / 2;
        if of_user >= user_max {
            return Err(too_deep(of_user, "clients of this user"));
        }
        let of_connection = origins().filter(|origin| *origin == handler.origin).count();
        let connection_max = (user_max - (of_user - of_connection)).div_ceil(2);
        if of_connection >= connection_max {
            return Err(too_deep(of_connection, "this client"));
        }
        Ok(self.bound(handler.deadline, handler.deadline_max))
    }

    /// Returns until when a handler may wait that runs inside others.
    fn bound(&self, deadline: Deadline, deadline_max: Duration) -> Deadline {
        deadline.min(Deadline::after(deadline_max)).min(self.deadline.get())
    }
}

impl Drop for NestingGuard {
    #[inline]
    fn drop(&mut self) {
        NESTING.with(|nesting| {
            nesting.depth.set(nesting.depth.get() - 1);
            nesting.deadline.set(self.outer);
        });
    }
}

#[cold]
fn too_deep(depth: usize, whose: &str) -> Status {
    Status::resource_exhausted(format!(
        "{depth} calls of {whose} are being served inside each other, each by a method that waits; \
         try again later, or let the service be async or run in a `BlockingPool`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(connection: u64, uid: u32) -> Handler {
        let origin = Origin { connection, uid: Some(uid) };
        Handler { deadline: Deadline::NEVER, origin, deadline_max: Duration::from_secs(100) }
    }

    /// Enters as many as are admitted.
    fn fill(guards: &mut Vec<NestingGuard>, handler: impl Fn(u64) -> Handler) -> usize {
        let before = guards.len();
        while let Ok(guard) = NestingGuard::enter(handler(guards.len() as u64)) {
            guards.push(guard);
        }
        guards.len() - before
    }

    /// The order in which they were entered, backwards.
    fn leave(mut guards: Vec<NestingGuard>) {
        while guards.pop().is_some() {}
    }

    #[test]
    fn a_connection_and_a_user_hold_half_of_what_the_others_leave() {
        let mut guards = Vec::new();
        assert_eq!(fill(&mut guards, |_| handler(1, 7)), 8);
        assert_eq!(fill(&mut guards, |_| handler(2, 7)), 4);
        // Any number of connections of one user.
        assert_eq!(fill(&mut guards, |number| handler(10 + number, 7)), 4);
        assert_eq!(fill(&mut guards, |number| handler(50 + number, 8)), 8);
        assert_eq!(fill(&mut guards, |_| handler(99, 9)), 2);
        let error = NestingGuard::enter(handler(1, 7)).err().unwrap();
        assert!(error.message().contains("clients of this user"), "{error}");
        assert!(error.message().contains("BlockingPool"), "{error}");
        // The program itself is bounded by the depth alone.
        assert_eq!(fill(&mut guards, |_| Handler::own(Deadline::NEVER)), 6);
        leave(guards);
        assert!(may_nest() && inherited_deadline() == Deadline::NEVER);
    }

    #[test]
    fn an_inner_handler_waits_no_longer_than_those_that_it_holds_up() {
        let soon = Deadline::after(Duration::from_secs(10));
        let outer = NestingGuard::enter(Handler { deadline: soon, ..handler(1, 7) }).unwrap();
        assert_eq!(inherited_deadline(), soon);
        let inner = NestingGuard::enter(handler(2, 8)).unwrap();
        assert_eq!(inherited_deadline(), soon);
        let sooner = Deadline::after(Duration::from_secs(1));
        let inmost = NestingGuard::enter(Handler { deadline: sooner, ..handler(3, 9) }).unwrap();
        assert_eq!(inherited_deadline(), sooner);
        leave(vec![outer, inner, inmost]);
    }

    #[test]
    fn only_a_handler_inside_another_gets_the_deadline_of_its_server() {
        let outer = NestingGuard::enter(handler(1, 7)).unwrap();
        assert_eq!(inherited_deadline(), Deadline::NEVER);
        let inner = NestingGuard::enter(handler(2, 8)).unwrap();
        assert!(inherited_deadline() <= Deadline::after(Duration::from_secs(100)));
        leave(vec![outer, inner]);
    }
}
