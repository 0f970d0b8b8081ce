//! The queue of connections that may have something, and how their users share the loop's time.
//!
//! While clients of several users are connected each turn is timed. Of the users with connections
//! in the queue the one that has used least time comes first, so that one that keeps the loop busy
//! over many connections delays another by one of its turns, not by one for each connection.
//! **Invariants:** connections of one user come in the order in which they were queued; a user
//! that was idle has not saved anything up; with clients of one user nothing is timed.
//! **Not here:** turns (`turns.rs`), connections that are polled (`busy.rs`), shares of memory and
//! descriptors (accounts, in `nearcall-channel`).
//!
//! **Invariant:** the errors and the excess load of one peer affect that peer only. A turn is a few
//! messages, every queue is bounded, and a handshake delays no other connection. While clients of
//! several users are connected their turns are timed, and the user that has used least comes first.
//! *Checked by* `tests/it/bad_input`, `a_client_that_floods_does_not_hold_up_another`,
//! `many_busy_connections_of_one_user_delay_another_by_one_turn`.

use std::collections::{BTreeMap, VecDeque};

use crate::connection::Connection;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// A server that this loop calls.
    Own,
    /// A client of this user. Those from other machines count as one user.
    Client(Option<u32>),
}

impl Party {
    pub(super) fn of(connection: &Connection) -> Self {
        match connection.serves {
            Some(_) => Self::Client(connection.peer.uid()),
            None => Self::Own,
        }
    }
}

/// Connections that may have something, of any number of users.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    lines: BTreeMap<Party, Line<T>>,
    queued: usize,
    /// Users among the parties.
    users: usize,
    /// The time that the party had used which came last.
    floor_ns: u64,
}

#[derive(Debug)]
struct Line<T> {
    used_ns: u64,
    members: usize,
    queue: VecDeque<T>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), queued: 0, users: 0, floor_ns: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds a connection of this party.
    pub(super) fn join(&mut self, party: Party) {
        let line = self.lines.entry(party).or_insert_with(|| {
            self.users += usize::from(party != Party::Own);
            Line { used_ns: self.floor_ns, members: 0, queue: VecDeque::new() }
        });
        line.members += 1;
    }

    /// Removes a connection of this party, also from the queue if `is_it` finds it there.
    pub(super) fn leave(&mut self, party: Party, is_it: impl Fn(&T) -> bool) {
        let Some(line) = self.lines.get_mut(&party) else { return };
        let before = line.queue.len();
        line.queue.retain(|other| !is_it(other));
        self.queued -= before - line.queue.len();
        line.members -= 1;
        if line.members == 0 {
            self.queued -= line.queue.len();
            self.users -= usize::from(party != Party::Own);
            self.lines.remove(&party);
        }
    }

    /// Returns whether clients of several users share the loop.
    pub(super) fn is_shared(&self) -> bool {
        self.users > 1
    }

    pub(super) fn len(&self) -> usize {
        self.queued
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.values().flat_map(|line| &line.queue)
    }

    /// Queues a connection of a party that has joined.
    pub(super) fn push(&mut self, party: Party, item: T) {
        let Some(line) = self.lines.get_mut(&party) else { return };
        if line.queue.is_empty() {
            line.used_ns = line.used_ns.max(self.floor_ns);
        }
        line.queue.push_back(item);
        self.queued += 1;
    }

    /// Takes the next connection: the first one of the party that has used least.
    pub(super) fn pop(&mut self) -> Option<T> {
        let waiting = self.lines.values_mut().filter(|line| !line.queue.is_empty());
        let line = waiting.min_by_key(|line| line.used_ns)?;
        self.floor_ns = self.floor_ns.max(line.used_ns);
        // While nothing is timed they come in turn: one that is queued again at once must not be
        // first each time.
        line.used_ns += 1;
        self.queued -= 1;
        line.queue.pop_front()
    }

    /// Charges time that a turn has taken to its party.
    pub(super) fn charge(&mut self, party: Party, ns: u64) {
        if let Some(line) = self.lines.get_mut(&party) {
            line.used_ns = line.used_ns.max(self.floor_ns) + ns;
        }
    }

    /// Returns whether the first party has used less time than the second.
    pub(super) fn has_used_less(&self, party: Party, than: Party) -> bool {
        let used = |party| self.lines.get(&party).map(|line| line.used_ns);
        party != than && used(party) < used(than)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Party = Party::Client(Some(0));
    const OTHER: Party = Party::Client(Some(1000));

    fn queue(members: &[(Party, usize)]) -> FairQueue<u32> {
        let mut queue = FairQueue::default();
        for (party, count) in members {
            (0..*count).for_each(|_| queue.join(*party));
        }
        queue
    }

    #[test]
    fn one_user_is_served_in_order() {
        let mut queue = queue(&[(ROOT, 3), (Party::Own, 1)]);
        assert!(!queue.is_shared(), "a server that is called is no user");
        (0..3).for_each(|item| queue.push(ROOT, item));
        assert_eq!((queue.len(), queue.iter().count()), (3, 3));
        assert_eq!(
            [queue.pop(), queue.pop(), queue.pop(), queue.pop()],
            [0, 1, 2].map(Some).into_iter().chain([None]).collect::<Vec<_>>()[..]
        );
    }

    #[test]
    fn many_busy_connections_of_one_user_delay_another_by_one_turn() {
        let mut queue = queue(&[(ROOT, 64), (OTHER, 1)]);
        assert!(queue.is_shared());
        (0..64).for_each(|item| queue.push(ROOT, item));
        for _ in 0..1000 {
            let item = queue.pop().unwrap();
            queue.charge(ROOT, 50_000);
            queue.push(ROOT, item);
        }
        // It was idle for all that time, and comes next, once: nothing is saved up.
        for round in 0..10 {
            queue.push(OTHER, 100 + round);
            assert_eq!(queue.pop(), Some(100 + round));
            queue.charge(OTHER, 50_000);
            queue.push(OTHER, 0);
            let next = queue.pop().unwrap();
            assert!(next < 64, "{next}: both in turn");
            queue.charge(ROOT, 50_000);
            queue.leave(OTHER, |item| *item == 0);
            queue.join(OTHER);
        }
    }

    #[test]
    fn parties_come_in_turn_while_nothing_is_timed() {
        let mut queue = queue(&[(Party::Own, 1), (ROOT, 1)]);
        queue.push(Party::Own, 0);
        queue.push(ROOT, 1);
        for round in 0..10 {
            let mut items = [queue.pop(), queue.pop()].map(Option::unwrap);
            [Party::Own, ROOT]
                .into_iter()
                .zip(0..)
                .for_each(|(party, item)| queue.push(party, item));
            items.sort_unstable();
            assert_eq!(items, [0, 1], "round {round}");
        }
        // Also one that is queued again before the other had its turn.
        assert_eq!(queue.pop(), Some(0));
        queue.push(Party::Own, 0);
        assert_eq!(queue.pop(), Some(1));
    }

    #[test]
    fn what_leaves_is_not_served() {
        let mut queue = queue(&[(ROOT, 2), (OTHER, 1)]);
        queue.push(ROOT, 1);
        queue.push(ROOT, 2);
        queue.push(OTHER, 3);
        queue.leave(ROOT, |item| *item == 1);
        queue.leave(OTHER, |_| false);
        assert!(!queue.is_shared());
        assert_eq!((queue.len(), queue.pop(), queue.is_empty()), (1, Some(2), true));
    }
}
