//! How the users of a pool share its threads and the places of calls that wait.
//!
//! **Invariants:** clients of another user than the program's own run in at most half of the
//! threads that the others leave, rounded up; a thread that is free serves the user that has the
//! fewest, and of those the one that was served longest ago; the calls of one user come in their
//! order. A call that finds all places taken takes that of the newest call of the user that has
//! most, as long as that has more than the user of the call.
//! **Not here:** the threads (`services/blocking/pool.rs`), shares of memory and descriptors
//! (accounts, in `nearcall-channel`), of the time of a loop (`reactor/sharing.rs`).

use std::collections::{BTreeMap, VecDeque};

use crate::peer::User;

/// What all users together may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolLimits {
    /// Threads, each with one call.
    pub(super) threads: usize,
    /// Calls that wait.
    pub(super) waiting: usize,
    /// Bytes of their requests.
    pub(super) bytes: usize,
}

/// The calls that wait, and how many threads each user has.
#[derive(Debug)]
pub(super) struct Shares<T> {
    limits: PoolLimits,
    users: BTreeMap<User, Line<T>>,
    waiting: usize,
    bytes: usize,
    running: usize,
    /// Calls that have begun to run.
    begun: u64,
}

#[derive(Debug)]
struct Line<T> {
    running: usize,
    /// What `begun` was when a call of this user began.
    served_at: u64,
    bytes: usize,
    /// With the bytes of its request.
    queue: VecDeque<(usize, T)>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { running: 0, served_at: 0, bytes: 0, queue: VecDeque::new() }
    }
}

impl<T> Shares<T> {
    pub(super) fn new(limits: PoolLimits) -> Self {
        let users = BTreeMap::new();
        Self { limits, users, waiting: 0, bytes: 0, running: 0, begun: 0 }
    }

    /// Returns how many calls wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether one more call of this user may run, if a thread is free.
    pub(super) fn may_run(&self, user: User) -> bool {
        let own = self.users.get(&user).map_or(0, |line| line.running);
        own < user.share(self.limits.threads, self.running - own)
    }

    /// Notes that a call of this user runs.
    pub(super) fn begin(&mut self, user: User) {
        self.begun += 1;
        self.running += 1;
        let line = self.users.entry(user).or_default();
        line.running += 1;
        line.served_at = self.begun;
    }

    /// Notes that a call of this user runs no more.
    pub(super) fn end(&mut self, user: User) {
        if let Some(line) = self.users.get_mut(&user) {
            self.running -= 1;
            line.running -= 1;
        }
        self.forget_idle(user);
    }

    /// Takes the call that runs next, if there is one whose user may have a thread, and notes that
    /// it runs.
    pub(super) fn begin_next(&mut self) -> Option<(User, T)> {
        let waiting = self.users.iter().filter(|(_, line)| !line.queue.is_empty());
        let able = waiting.filter(|(user, _)| self.may_run(**user));
        let (&user, _) = able.min_by_key(|(_, line)| (line.running, line.served_at))?;
        let line = self.users.get_mut(&user)?;
        let (bytes, call) = line.queue.pop_front()?;
        line.bytes -= bytes;
        (self.waiting, self.bytes) = (self.waiting - 1, self.bytes - bytes);
        self.begin(user);
        Some((user, call))
    }

    /// Returns whether a call of so many bytes finds no place.
    pub(super) fn is_full_for(&self, bytes: usize) -> bool {
        self.waiting >= self.limits.waiting || self.bytes + bytes > self.limits.bytes
    }

    /// Adds a call that waits, whether there is a place or not.
    pub(super) fn push(&mut self, user: User, bytes: usize, call: T) {
        let line = self.users.entry(user).or_default();
        line.queue.push_back((bytes, call));
        line.bytes += bytes;
        (self.waiting, self.bytes) = (self.waiting + 1, self.bytes + bytes);
    }

    /// Takes the newest call of the user that has most of the places, if a call of `user` with so
    /// many bytes may have its place.
    pub(super) fn displace(&mut self, user: User, bytes: usize) -> Option<T> {
        let own = self.users.get(&user).map_or((0, 0), |line| (line.queue.len(), line.bytes));
        let own = self.part(own.0 + 1, own.1 + bytes);
        let others = self.users.iter().filter(|(other, line)| {
            **other != user && self.part(line.queue.len(), line.bytes) > own
        });
        let part = |line: &Line<T>| self.part(line.queue.len(), line.bytes);
        let (&most, _) = others.max_by_key(|(_, line)| part(line))?;
        let line = self.users.get_mut(&most)?;
        let (bytes, call) = line.queue.pop_back()?;
        line.bytes -= bytes;
        (self.waiting, self.bytes) = (self.waiting - 1, self.bytes - bytes);
        self.forget_idle(most);
        Some(call)
    }

    /// Returns the part of all places that so many calls and bytes take, in bytes.
    fn part(&self, calls: usize, bytes: usize) -> usize {
        let of_calls = calls.saturating_mul(self.limits.bytes / self.limits.waiting.max(1));
        of_calls.max(bytes)
    }

    /// Takes the calls that are not to wait any more.
    pub(super) fn take_if(&mut self, mut is_taken: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for line in self.users.values_mut() {
            for (bytes, call) in std::mem::take(&mut line.queue) {
                if is_taken(&call) {
                    line.bytes -= bytes;
                    (self.waiting, self.bytes) = (self.waiting - 1, self.bytes - bytes);
                    taken.push(call);
                } else {
                    line.queue.push_back((bytes, call));
                }
            }
        }
        self.users.retain(|_, line| line.running > 0 || !line.queue.is_empty());
        taken
    }

    fn forget_idle(&mut self, user: User) {
        if self.users.get(&user).is_some_and(|line| line.running == 0 && line.queue.is_empty()) {
            self.users.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: User = User::Other(Some(1));
    const TWO: User = User::Other(Some(2));

    fn shares(threads: usize, waiting: usize) -> Shares<u32> {
        Shares::new(PoolLimits { threads, waiting, bytes: 1000 })
    }

    /// Runs as many calls of a user as may run.
    fn fill(shares: &mut Shares<u32>, user: User) -> usize {
        let begun = (0..100).take_while(|_| {
            let may_run = shares.may_run(user);
            if may_run {
                shares.begin(user);
            }
            may_run
        });
        begun.count()
    }

    #[test]
    fn another_user_runs_in_half_of_the_threads_that_the_others_leave() {
        let mut shares = shares(8, 0);
        assert_eq!([ONE, TWO, User::Other(None)].map(|user| fill(&mut shares, user)), [4, 2, 1]);
        assert_eq!(fill(&mut shares, User::Own), 1, "whatever is left");
        shares.end(TWO);
        assert_eq!(fill(&mut shares, ONE), 0);
        assert_eq!(fill(&mut shares, User::Own), 1);
        let mut small = self::shares(1, 0);
        assert_eq!([ONE, TWO].map(|user| fill(&mut small, user)), [1, 0]);
        let mut own = self::shares(8, 0);
        assert_eq!([User::Own, ONE].map(|user| fill(&mut own, user)), [8, 0]);
    }

    #[test]
    fn a_backlog_of_one_user_delays_another_by_one_call() {
        let mut shares = shares(1, 100);
        (0..50).for_each(|number| shares.push(ONE, 1, number));
        (100..103).for_each(|number| shares.push(TWO, 1, number));
        let order: Vec<_> = (0..8)
            .map(|_| {
                let (user, number) = shares.begin_next().unwrap();
                assert_eq!(shares.begin_next(), None, "there is one thread");
                shares.end(user);
                number
            })
            .collect();
        // The one that was served longest ago; a user that has left is new again.
        assert_eq!(order, [0, 100, 1, 101, 2, 102, 3, 4]);
        assert_eq!(shares.waiting(), 45);
    }

    #[test]
    fn a_call_takes_the_place_of_the_user_that_has_most() {
        let mut shares = shares(1, 10);
        (0..10).for_each(|number| shares.push(ONE, 1, number));
        assert!(shares.is_full_for(1));
        assert_eq!(shares.displace(ONE, 1), None, "of its own user it takes none");
        for number in 0..5 {
            assert_eq!(shares.displace(TWO, 1), Some(9 - number));
            shares.push(TWO, 1, 100 + number);
        }
        assert_eq!(shares.displace(TWO, 1), None, "both have as many");
        let third = User::Other(None);
        assert!(shares.displace(third, 1).is_some());
        assert_eq!(shares.take_if(|number| *number >= 100).len() + shares.waiting(), 9);
    }

    #[test]
    fn large_requests_take_more_places() {
        let mut shares = shares(1, 10);
        shares.push(ONE, 900, 1);
        (0..4).for_each(|number| shares.push(TWO, 10, 10 + number));
        assert!(shares.is_full_for(100));
        assert_eq!(shares.displace(TWO, 100), Some(1));
        assert!(!shares.is_full_for(100));
        assert_eq!(shares.begin_next(), Some((TWO, 10)));
        shares.end(TWO);
        assert_eq!(shares.take_if(|_| true), [11, 12, 13]);
        assert!(shares.users.is_empty());
    }
}
