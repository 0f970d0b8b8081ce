//! The oracle for leaks: what a process and the system hold before a case, compared with what they
//! hold after it.
//!
//! **Invariants:** of one process everything is compared exactly: descriptors by kind, shared
//! mappings by name, the number of threads, and its runtime directory. Other tests run at the same
//! time, so of what belongs to the whole system only that counts which stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nearcall_os::{Deadline, clock, process, sysv};

use super::PATIENCE;

type Counts = BTreeMap<String, usize>;

/// What one process holds. Threads are equal by number: one that has just started has the name of
/// its starter.
#[derive(Debug, Clone, Eq)]
pub(crate) struct Holdings {
    /// Open descriptors, by kind: what `/proc/PID/fd` says without numbers of inodes.
    pub(crate) descriptors: Counts,
    /// Shared mappings: memory files, System V segments.
    pub(crate) mappings: Counts,
    /// Threads, by name.
    pub(crate) threads: Counts,
}

/// What there was before a case.
#[derive(Debug)]
pub(crate) struct LeakOracle {
    pid: u32,
    holdings: Holdings,
    runtime: Option<(PathBuf, BTreeSet<String>)>,
    shm: BTreeSet<String>,
    queues: BTreeSet<i32>,
}

impl PartialEq for Holdings {
    fn eq(&self, other: &Self) -> bool {
        self.descriptors == other.descriptors
            && self.mappings == other.mappings
            && self.thread_count() == other.thread_count()
    }
}

impl Holdings {
    /// What the process holds now.
    ///
    /// # Errors
    ///
    /// The kernel's; `NotFound` when it has ended.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let proc = format!("/proc/{pid}");
        let mut holdings =
            Self { descriptors: Counts::new(), mappings: Counts::new(), threads: Counts::new() };
        for entry in fs::read_dir(format!("{proc}/fd"))? {
            // Closed between the two looks.
            let Ok(target) = fs::read_link(entry?.path()) else { continue };
            count(&mut holdings.descriptors, without_numbers(&target.to_string_lossy()));
        }
        for line in fs::read_to_string(format!("{proc}/maps"))?.lines() {
            let mut fields = line.split_ascii_whitespace();
            if fields.nth(1).is_some_and(|permissions| permissions.ends_with('s')) {
                count(&mut holdings.mappings, fields.nth(3).unwrap_or("anonymous").to_owned());
            }
        }
        // A process keeps one from its first signal of an eventfd on.
        if let Some(contexts) = holdings.mappings.get_mut("/[aio]") {
            *contexts -= 1;
        }
        holdings.mappings.retain(|_, count| *count > 0);
        for entry in fs::read_dir(format!("{proc}/task"))? {
            let Ok(name) = fs::read_to_string(entry?.path().join("comm")) else { continue };
            count(&mut holdings.threads, name.trim().to_owned());
        }
        Ok(holdings)
    }

    pub(crate) fn descriptor_count(&self) -> usize {
        self.descriptors.values().sum()
    }

    pub(crate) fn mapping_count(&self) -> usize {
        self.mappings.values().sum()
    }

    pub(crate) fn thread_count(&self) -> usize {
        self.threads.values().sum()
    }
}

/// Memory of a process that is its own and in use, in bytes.
pub(crate) fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

impl LeakOracle {
    /// Looks at the process, the system, and a runtime directory if there is one.
    pub(crate) fn look(pid: u32, runtime: Option<&Path>) -> Self {
        let runtime = runtime.map(|path| (path.to_owned(), entries(path)));
        let queues = sysv::list().unwrap_or_default().iter().map(|queue| queue.id).collect();
        let mut holdings = Holdings::of(pid).unwrap();
        // Threads that measure a wake-up end by themselves.
        while holdings.threads.contains_key("nearcall-wakeup") {
            clock::pause(std::time::Duration::from_millis(1));
            holdings = Holdings::of(pid).unwrap();
        }
        Self { pid, holdings, runtime, shm: entries(Path::new("/dev/shm")), queues }
    }

    /// What the process held.
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Waits until the process holds what it held before, and demands that the system holds nothing
    /// more. `others` are the processes that took part, which have ended.
    #[track_caller]
    pub(crate) fn check(&self, others: &[u32]) {
        self.check_except(others, |_| {});
    }

    /// Works like [`LeakOracle::check`], after `allow` has made what may differ equal in both.
    #[track_caller]
    pub(crate) fn check_except(&self, others: &[u32], allow: impl Fn(&mut Holdings)) {
        let mut before = self.holdings.clone();
        allow(&mut before);
        let pids: Vec<_> = [&[self.pid, process::pid().unsigned_abs()], others].concat();
        let mut new_shm: Option<BTreeSet<String>> = None;
        let end = Deadline::after(PATIENCE);
        loop {
            let mut now = Holdings::of(self.pid).expect("the process lives");
            allow(&mut now);
            // Only what was there at every look is left over; the rest is others' coming and going.
            let added = entries(Path::new("/dev/shm")).difference(&self.shm).cloned().collect();
            let stays = match new_shm {
                Some(before) => before.intersection(&added).cloned().collect(),
                None => added,
            };
            let names = self.new_names();
            let queues = self.new_queues(&pids);
            if now == before && stays.is_empty() && names.is_empty() && queues.is_empty() {
                return;
            }
            assert!(
                !end.has_passed(),
                "left behind: {} in /dev/shm {stays:?}, in the runtime directory {names:?}, \
                 queues {queues:?}",
                difference(&before, &now)
            );
            new_shm = Some(stays);
            clock::pause(std::time::Duration::from_millis(1));
        }
    }

    fn new_names(&self) -> Vec<String> {
        let Some((path, before)) = &self.runtime else { return Vec::new() };
        entries(path).difference(before).cloned().collect()
    }

    /// The System V queues that one of `pids` has used.
    fn new_queues(&self, pids: &[u32]) -> Vec<i32> {
        let used = |pid: i32| u32::try_from(pid).is_ok_and(|pid| pids.contains(&pid));
        let queues = sysv::list().unwrap_or_default().into_iter();
        let ours = queues.filter(|queue| !self.queues.contains(&queue.id));
        ours.filter(|queue| used(queue.last_sender_pid) || used(queue.last_receiver_pid))
            .map(|queue| queue.id)
            .collect()
    }
}

fn count(counts: &mut Counts, name: String) {
    *counts.entry(name).or_default() += 1;
}

/// `socket:[123]` and `/proc/123/fd` without the number.
fn without_numbers(target: &str) -> String {
    target.chars().filter(|char| !char.is_ascii_digit()).collect()
}

/// The names in a directory; none of one that is not there.
pub(crate) fn entries(path: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(path) else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The kinds of which there are not as many as before.
fn difference(before: &Holdings, now: &Holdings) -> String {
    let mut text = String::new();
    for (what, before, now) in [
        ("descriptors", &before.descriptors, &now.descriptors),
        ("mappings", &before.mappings, &now.mappings),
        ("threads", &before.threads, &now.threads),
    ] {
        let kinds: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        for kind in kinds {
            let counts = [before, now].map(|counts| counts.get(kind).copied().unwrap_or(0));
            if counts[0] != counts[1] {
                text += &format!("{what} `{kind}` {} -> {}; ", counts[0], counts[1]);
            }
        }
    }
    text
}
