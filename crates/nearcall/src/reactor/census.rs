//! The connections of a server, counted over all of its event loops.
//!
//! **Invariants:** a connection is counted from its admission until its `Admission` is dropped; the
//! limits hold for the whole server, whichever loop a connection is in.
//! **Not here:** the connections themselves (`acceptor.rs`), handing one to its loop
//! (`handshakes.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall_channel::Mechanism;

use crate::connection::connection_info::ConnectionInfo;
use crate::limits::Limits;
use crate::refusals::Refusals;

/// Shared by the loops of one server.
pub(crate) struct Census {
    connections_max: usize,
    connections_per_uid_max: usize,
    /// What the loops have refused.
    pub(crate) refusals: Arc<Refusals>,
    /// A lock, because connections come and go rarely; no call takes it.
    counts: Mutex<Counts>,
}

struct Counts {
    loops: Vec<LoopCounts>,
    /// Clients from other machines count as one user.
    by_uid: HashMap<Option<u32>, usize>,
    /// What other loops may know of a connection, by the number of its admission.
    shown: BTreeMap<u64, (usize, ConnectionInfo)>,
    last_number: u64,
}

#[derive(Clone, Copy, Default)]
struct LoopCounts {
    connections: usize,
    /// Of those, connections that a loop sleeps in.
    fdless: usize,
}

/// A loop as its own thread knows it.
#[derive(Clone, Copy)]
pub(crate) struct OwnLoop {
    pub(crate) index: usize,
    /// It sleeps in a connection already, perhaps of another server or of a client.
    pub(crate) has_fdless: bool,
}

/// The place of one connection in one loop of a server. Dropping it gives the place back.
pub(crate) struct Admission {
    census: Arc<Census>,
    number: u64,
    loop_index: usize,
    uid: Option<u32>,
    is_fdless: bool,
}

impl Census {
    pub(crate) fn new(loops: usize, limits: &Limits) -> Arc<Self> {
        let loops = vec![LoopCounts::default(); loops];
        let &Limits { connections_max, connections_per_uid_max, .. } = limits;
        let (by_uid, shown) = (HashMap::new(), BTreeMap::new());
        let counts = Mutex::new(Counts { loops, by_uid, shown, last_number: 0 });
        let refusals = Arc::default();
        Arc::new(Self { connections_max, connections_per_uid_max, refusals, counts })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a client of this user may connect; if not, the text for the client.
    pub(crate) fn check(&self, uid: Option<u32>) -> Result<(), String> {
        self.check_counts(&self.lock(), uid)
    }

    fn check_counts(&self, counts: &Counts, uid: Option<u32>) -> Result<(), String> {
        let (max, per_uid_max) = (self.connections_max, self.connections_per_uid_max);
        if counts.loops.iter().map(|one| one.connections).sum::<usize>() >= max {
            return Err(format!(
                "the server has {max} connections, its limit; close some, or raise its \
                 limit `connections_max`"
            ));
        }
        if counts.by_uid.get(&uid).copied().unwrap_or(0) >= per_uid_max {
            return Err(format!(
                "this user has {per_uid_max} connections to the server, its limit; close some, or \
                 raise its limit `connections_per_uid_max`"
            ));
        }
        Ok(())
    }

    /// Finds a place for a connection whose handshake is done: in the loop with the fewest
    /// connections. One without a descriptor goes to a loop that sleeps in no other; if there is
    /// none, to the loop of this thread, which refuses it.
    ///
    /// # Errors
    ///
    /// A limit is reached: the text for the client.
    pub(crate) fn admit(
        self: &Arc<Self>,
        own: OwnLoop,
        uid: Option<u32>,
        is_fdless: bool,
    ) -> Result<Admission, String> {
        let mut counts = self.lock();
        self.check_counts(&counts, uid)?;
        let loops = counts.loops.iter().enumerate();
        let free = loops.filter(|(index, one)| !is_fdless || one.can_sleep(*index, own));
        let fewest = free.min_by_key(|(_, one)| one.connections);
        let loop_index = fewest.map_or(own.index, |(index, _)| index);
        if let Some(chosen) = counts.loops.get_mut(loop_index) {
            chosen.connections += 1;
            chosen.fdless += usize::from(is_fdless);
        }
        *counts.by_uid.entry(uid).or_default() += 1;
        counts.last_number += 1;
        let (census, number) = (Arc::clone(self), counts.last_number);
        Ok(Admission { census, number, loop_index, uid, is_fdless })
    }

    /// Returns whether every loop sleeps in a connection, so that none can sleep in another.
    pub(crate) fn is_full_of_fdless(&self, own: OwnLoop) -> bool {
        !self.lock().loops.iter().enumerate().any(|(index, one)| one.can_sleep(index, own))
    }

    /// Returns the number of connections of each loop.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.lock().loops.iter().map(|one| one.connections).collect()
    }

    /// Returns connections as they were when they began, each with its loop, by which and by what
    /// it is they are chosen. What only its own loop can count is left out.
    pub(crate) fn connections(
        &self,
        is_chosen: impl Fn(usize, &ConnectionInfo) -> bool,
    ) -> Vec<(usize, ConnectionInfo)> {
        let counts = self.lock();
        let shown = counts.shown.values();
        shown.filter(|(loop_index, info)| is_chosen(*loop_index, info)).cloned().collect()
    }

    /// Returns the mechanism of each connection of all loops.
    pub(crate) fn mechanisms(&self) -> Vec<Mechanism> {
        self.lock().shown.values().map(|(_, info)| info.mechanism).collect()
    }
}

impl LoopCounts {
    /// Returns whether the loop can sleep in a connection without a descriptor.
    fn can_sleep(&self, index: usize, own: OwnLoop) -> bool {
        self.fdless == 0 && !(index == own.index && own.has_fdless)
    }
}

impl Admission {
    /// Returns the loop that the connection belongs to.
    pub(crate) fn loop_index(&self) -> usize {
        self.loop_index
    }

    /// Returns its number, above 0: no other connection of the server has or had it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Shows the connection to the other loops of the server.
    pub(crate) fn show(&self, info: ConnectionInfo) {
        let shown = (self.loop_index, info.without_counts());
        self.census.lock().shown.insert(self.number, shown);
    }

    /// Returns whether it is one of this server.
    pub(crate) fn is_of(&self, census: &Arc<Census>) -> bool {
        Arc::ptr_eq(&self.census, census)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counts = self.census.lock();
        let shown = counts.shown.remove(&self.number);
        if let Some(of_loop) = counts.loops.get_mut(self.loop_index) {
            of_loop.connections -= 1;
            of_loop.fdless -= usize::from(self.is_fdless);
        }
        if let Some(of_uid) = counts.by_uid.get_mut(&self.uid) {
            *of_uid -= 1;
            if *of_uid == 0 {
                counts.by_uid.remove(&self.uid);
            }
        }
        drop(counts);
        // It holds a descriptor of the process at the other end.
        drop(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OwnLoop = OwnLoop { index: 0, has_fdless: false };

    fn limits(connections_max: usize, connections_per_uid_max: usize) -> Limits {
        Limits { connections_max, connections_per_uid_max, ..Limits::default() }
    }

    #[test]
    fn a_connection_goes_to_the_loop_with_the_fewest() {
        let census = Census::new(3, &Limits::default());
        let mut admitted: Vec<_> =
            (0..9).map(|_| census.admit(OWN, Some(1), false).unwrap()).collect();
        assert_eq!(census.counts(), [3, 3, 3]);
        admitted.retain(|admission| admission.loop_index() != 1);
        assert_eq!(census.counts(), [3, 0, 3]);
        assert_eq!(census.admit(OWN, Some(1), false).unwrap().loop_index(), 1);
        drop(admitted);
        assert_eq!(census.counts(), [0, 0, 0]);
        assert!(census.lock().by_uid.is_empty());
    }

    #[test]
    fn the_limits_hold_over_all_loops() {
        let census = Census::new(2, &limits(3, 2));
        let kept: Vec<_> = [Some(1), Some(1), None]
            .map(|uid| census.admit(OWN, uid, false).unwrap())
            .into_iter()
            .collect();
        let refused = census.admit(OWN, Some(2), false).err().unwrap();
        assert!(refused.contains("the server has 3 connections"), "{refused}");
        drop(kept);
        let census = Census::new(2, &limits(9, 2));
        let _kept = [0, 1].map(|_| census.admit(OWN, Some(1), false).unwrap());
        let refused = census.check(Some(1)).unwrap_err();
        assert!(refused.contains("this user has 2 connections"), "{refused}");
        assert!(census.check(Some(2)).is_ok());
    }

    #[test]
    fn each_loop_sleeps_in_one_connection() {
        let census = Census::new(2, &Limits::default());
        let first = census.admit(OWN, None, true).unwrap();
        let second = census.admit(OWN, None, true).unwrap();
        assert_eq!((first.loop_index(), second.loop_index()), (0, 1));
        assert!(census.is_full_of_fdless(OWN));
        assert_eq!(census.admit(OWN, None, true).unwrap().loop_index(), OWN.index);
        drop(second);
        assert!(!census.is_full_of_fdless(OWN));
        drop(first);
        let busy = OwnLoop { index: 0, has_fdless: true };
        assert_eq!(census.admit(busy, None, true).unwrap().loop_index(), 1);
    }
}
