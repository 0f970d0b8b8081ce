//! What a process and the system hold before a case, to be compared with what they hold after it.
//!
//! Other tests run at the same time, so of what belongs to the whole system only that is judged
//! which stays.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nearcall_os::{clock, descriptor, process, sysv};

/// How long things may take to vanish: the kernel closes the files of a killed process late.
const VANISHING: Duration = Duration::from_secs(3);

#[derive(Debug, PartialEq, Eq)]
struct Own {
    descriptors: Vec<(i32, String)>,
    /// Shared mappings: memory files, queues of io_uring, System V segments.
    mappings: Vec<String>,
}

/// What there was before.
pub(crate) struct Before {
    own: Own,
    shm: BTreeSet<String>,
    queues: BTreeSet<i32>,
}

fn own() -> Own {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut shared: Vec<_> = maps.lines().map(str::to_owned).collect();
    shared.retain(|line| {
        line.split_whitespace().nth(1).is_some_and(|permissions| permissions.ends_with('s'))
    });
    // A process keeps one from its first signal of an eventfd on.
    if let Some(kept) = shared.iter().position(|line| line.contains("/[aio]")) {
        shared.remove(kept);
    }
    Own { descriptors: descriptor::open_list().unwrap(), mappings: shared }
}

fn shm() -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The System V queues that one of `pids` has used.
fn queues_of(pids: &[u32]) -> Vec<i32> {
    let used = |pid: i32| u32::try_from(pid).is_ok_and(|pid| pids.contains(&pid));
    let queues = sysv::list().unwrap_or_default().into_iter();
    let ours = queues.filter(|queue| used(queue.last_sender_pid) || used(queue.last_receiver_pid));
    ours.map(|queue| queue.id).collect()
}

impl Before {
    pub(crate) fn look() -> Self {
        // Whatever a killed run has left belongs to numbers that others may have by now.
        let queues = sysv::list().unwrap_or_default().iter().map(|queue| queue.id).collect();
        Self { own: own(), shm: shm(), queues }
    }

    /// Demands that nothing was added. `others` are the processes that took part.
    pub(crate) fn check(self, others: &[u32]) {
        let mut pids = others.to_vec();
        pids.push(process::pid().unsigned_abs());
        let end = clock::now() + VANISHING;
        let mut new_shm: Option<BTreeSet<String>> = None;
        loop {
            let own = own();
            let added: BTreeSet<_> = shm().difference(&self.shm).cloned().collect();
            // Only what was there at every look is left over; the rest is others' coming and going.
            let stays = match new_shm {
                Some(before) => before.intersection(&added).cloned().collect(),
                None => added,
            };
            let mut queues = queues_of(&pids);
            queues.retain(|queue| !self.queues.contains(queue));
            if own == self.own && stays.is_empty() && queues.is_empty() {
                return;
            }
            assert!(
                clock::now() < end,
                "left behind: before {:#?}, after {own:#?}, in /dev/shm {stays:?}, \
                 queues {queues:?}",
                self.own
            );
            new_shm = Some(stays);
            clock::pause(Duration::from_millis(2));
        }
    }
}

/// Returns how many descriptors and shared mappings this process has.
pub(crate) fn counts() -> (usize, usize) {
    let own = own();
    (own.descriptors.len(), own.mappings.len())
}
