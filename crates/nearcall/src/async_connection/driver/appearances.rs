//! Files that threads and tasks wait for: one set of watched directories for the process, which the
//! driver reads.
//!
//! While directories on the way to a file are missing, the first of them is waited for in its
//! place. That one above the file's own directory gets another name is not noticed.
//! **Invariants:** what changes after [`Appearance::arm`] has begun ends the wait; other names of
//! the same directory wake the driver and nothing else, and so many of them in a second that the
//! directory is not watched any more; no waker runs or is dropped with a lock held.
//! **Not here:** whether a server listens at what has appeared (`clients/hunting.rs`).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use nearcall_os::inotify::{Change, Inotify, WatchId};
use nearcall_os::{clock, poll};

use super::{APPEARANCES, Driver, DriverHandle};
use crate::limits::OTHER_NAMES_PER_SECOND_MAX;
use crate::waking;

/// Attempts to watch the way to a file while others make and remove directories there.
const WATCH_ATTEMPTS_MAX: u32 = 8;

/// What is waited for with one driver.
#[derive(Default)]
pub(super) struct Appearances {
    /// Made for the first of them, and kept: closing it takes the kernel long.
    inotify: Option<Inotify>,
    awaited: HashMap<WatchId, Directory>,
    /// The driver has ended and reads nothing.
    has_failed: bool,
}

/// A directory that is watched.
struct Directory {
    /// By the names of the files.
    slots: HashMap<OsString, Vec<Arc<Slot>>>,
    others: Others,
}

/// How often names that nothing waits for have changed in a directory.
struct Others {
    changes: u32,
    since: Instant,
}

impl Others {
    fn new(now: Instant) -> Self {
        Self { changes: 0, since: now }
    }

    /// Notes a change. Returns whether there are too many.
    fn note(&mut self, now: impl FnOnce() -> Instant) -> bool {
        self.changes += 1;
        if self.changes < OTHER_NAMES_PER_SECOND_MAX {
            return false;
        }
        let now = now();
        let is_flooded = now.saturating_duration_since(self.since) < Duration::from_secs(1);
        *self = Self::new(now);
        is_flooded
    }
}

impl Directory {
    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.values().flatten()
    }

    /// Has all that waits here know that the directory is not watched any more.
    fn flood(self) -> impl Iterator<Item = Waker> {
        self.slots.into_values().flatten().filter_map(|slot| {
            slot.lock().is_flooded = true;
            slot.note(false)
        })
    }
}

/// What the driver and a waiter share.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    has_changed: bool,
    /// The directory that is watched is not the one at its path any more.
    is_stale: bool,
    /// It is not watched any more: too much happens in it.
    is_flooded: bool,
    waker: Option<Waker>,
}

/// Waits for a file to appear, or to change after that.
pub(crate) struct Appearance {
    driver: DriverHandle,
    path: PathBuf,
    slot: Arc<Slot>,
    watched: Watched,
}

/// The directory that is watched for a file.
#[derive(Debug, Clone, Copy)]
struct Watched {
    watch: WatchId,
    /// The file's own, and not one on the way to it.
    is_parent: bool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change, and returns what is to be woken.
    fn note(&self, is_stale: bool) -> Option<Waker> {
        let mut state = self.lock();
        state.has_changed = true;
        state.is_stale |= is_stale;
        state.waker.take()
    }
}

impl Driver {
    fn appearances(&self) -> MutexGuard<'_, Appearances> {
        self.appearances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes what waits for the files that the kernel reports.
    pub(super) fn report_appearances(&self) {
        let mut appearances = self.appearances();
        let Appearances { inotify: Some(inotify), awaited, .. } = &mut *appearances else { return };
        let (mut wakers, mut flooded) = (Vec::new(), None);
        let read = inotify.read(|change| match change {
            Change::Name(watch, name) => {
                let Some(directory) = awaited.get_mut(&watch) else { return };
                match directory.slots.get(name) {
                    Some(slots) => wakers.extend(slots.iter().filter_map(|slot| slot.note(false))),
                    None if directory.others.note(clock::now) => flooded = Some(watch),
                    None => {}
                }
            }
            Change::Directory(watch) => {
                let slots = awaited.get(&watch).into_iter().flat_map(Directory::slots);
                wakers.extend(slots.filter_map(|slot| slot.note(true)));
            }
            Change::Lost => {
                let slots = awaited.values().flat_map(Directory::slots);
                wakers.extend(slots.filter_map(|slot| slot.note(true)));
            }
        });
        if let Some(watch) = flooded
            && let Some(directory) = awaited.remove(&watch)
        {
            inotify.unwatch(watch);
            wakers.extend(directory.flood());
        }
        // Without it nothing is reported any more. All watch their directories anew.
        let failed = read.is_err().then(|| std::mem::take(&mut *appearances));
        drop(appearances);
        wakers.into_iter().for_each(waking::wake);
        failed.into_iter().for_each(Appearances::abandon);
    }

    /// Has all that waits for a file find another driver.
    pub(super) fn fail_appearances(&self) {
        let failed = Appearances { has_failed: true, ..Appearances::default() };
        let appearances = std::mem::replace(&mut *self.appearances(), failed);
        appearances.abandon();
    }

    /// Watches for a file; what changes from now on is noted in its slot. `None`: this driver has
    /// failed.
    fn watch_for_file(&self, path: &Path, slot: &Arc<Slot>) -> io::Result<Option<Watched>> {
        let mut appearances = self.appearances();
        if appearances.has_failed {
            return Ok(None);
        }
        if appearances.inotify.is_none() {
            let inotify = Inotify::create()?;
            self.epoll.add(&inotify, poll::Interest::Readable, APPEARANCES)?;
            appearances.inotify = Some(inotify);
        }
        appearances.add(path, slot).map(Some)
    }

    fn forget_file(&self, watch: WatchId, slot: &Arc<Slot>) {
        self.appearances().remove(watch, slot);
    }
}

impl Appearances {
    fn add(&mut self, path: &Path, slot: &Arc<Slot>) -> io::Result<Watched> {
        for _ in 0..WATCH_ATTEMPTS_MAX {
            let Some((watch, awaited)) = self.watch_nearest(path)? else { continue };
            let name = awaited.file_name().unwrap_or_default().to_owned();
            let directory = self.awaited.entry(watch).or_insert_with(|| Directory {
                slots: HashMap::new(),
                others: Others::new(clock::now()),
            });
            directory.slots.entry(name).or_default().push(Arc::clone(slot));
            let is_parent = awaited == path;
            // A directory on the way that was made before its parent was watched was not reported.
            if is_parent || is_missing(awaited) {
                return Ok(Watched { watch, is_parent });
            }
            self.remove(watch, slot);
        }
        Err(io::Error::other(format!(
            "a directory on the way to {} is no directory",
            path.display()
        )))
    }

    /// Watches the directory of a file, or the nearest one above it that exists. Returns what is
    /// waited for there as well. `None`: another directory has got that path meanwhile.
    fn watch_nearest<'a>(&self, path: &'a Path) -> io::Result<Option<(WatchId, &'a Path)>> {
        let Some(inotify) = &self.inotify else { return Err(io::ErrorKind::NotFound.into()) };
        let mut awaited = path;
        loop {
            let parent = awaited.parent().filter(|_| awaited.file_name().is_some());
            let Some(parent) = parent else { return Err(io::ErrorKind::NotFound.into()) };
            let is_here = parent.as_os_str().is_empty();
            let directory = if is_here { Path::new(".") } else { parent };
            match inotify.watch_directory(directory) {
                Ok(watch) => {
                    // One that was renamed or removed before it was watched has reported nothing.
                    let again = inotify.watch_directory(directory);
                    if again.is_ok_and(|again| again == watch) {
                        return Ok(Some((watch, awaited)));
                    }
                    self.unwatch_unused(watch);
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => awaited = parent,
                Err(error) => {
                    let text = format!("cannot watch {}: {error}", parent.display());
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
    }

    fn unwatch_unused(&self, watch: WatchId) {
        let inotify = self.inotify.as_ref().filter(|_| !self.awaited.contains_key(&watch));
        if let Some(inotify) = inotify {
            inotify.unwatch(watch);
        }
    }

    fn remove(&mut self, watch: WatchId, slot: &Arc<Slot>) {
        let Some(directory) = self.awaited.get_mut(&watch) else { return };
        directory.slots.retain(|_, slots| {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            !slots.is_empty()
        });
        if directory.slots.is_empty() {
            self.awaited.remove(&watch);
            self.unwatch_unused(watch);
        }
    }

    /// Has all watch their directories anew.
    fn abandon(self) {
        let slots = self.awaited.values().flat_map(Directory::slots);
        let wakers: Vec<_> = slots.filter_map(|slot| slot.note(true)).collect();
        wakers.into_iter().for_each(waking::wake);
    }
}

/// Returns an error if the file is a link: what it leads to may appear in another directory.
fn check_no_link(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|file| file.is_symlink()) {
        return Err(io::Error::other(format!("{} is a symbolic link", path.display())));
    }
    Ok(())
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

impl Appearance {
    /// Watches for the file at `path`, from now on.
    ///
    /// # Errors
    ///
    /// The directory cannot be watched: the text names it, and the limit if one is reached. The
    /// file is a link. There is no room for the driver's thread.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let (mut driver, slot) = (DriverHandle::new()?, Arc::default());
        let watched = watch(&mut driver, &path, &slot)?;
        let appearance = Self { driver, path, slot, watched };
        check_no_link(&appearance.path)?;
        Ok(appearance)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to wait anew: what happens from now on is a change. Returns whether there was one
    /// since the last time.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and too much happens in the directory. Nothing is watched then.
    pub(crate) fn arm(&mut self) -> io::Result<bool> {
        let mut state = self.slot.lock();
        let has_changed = std::mem::take(&mut state.has_changed);
        let is_stale = std::mem::take(&mut state.is_stale);
        let is_flooded = state.is_flooded;
        drop(state);
        if is_flooded {
            return Err(io::Error::other(format!(
                "other files than {} change too often, more than {OTHER_NAMES_PER_SECOND_MAX} \
                 times in a second, where it is waited for",
                self.path.display()
            )));
        }
        if is_stale || has_changed && !self.watched.is_parent {
            self.driver.driver.forget_file(self.watched.watch, &self.slot);
            self.watched = watch(&mut self.driver, &self.path, &self.slot)?;
        }
        if has_changed {
            check_no_link(&self.path)?;
        }
        Ok(has_changed)
    }

    /// Returns whether there was a change since the last [`arm`](Self::arm); if not, `waker` is
    /// woken by the next one.
    pub(crate) fn poll(&mut self, waker: &Waker) -> bool {
        let mut state = self.slot.lock();
        if state.has_changed {
            return true;
        }
        let before = match &state.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => state.waker.replace(waker.clone()),
        };
        drop(state);
        waking::retire(before);
        false
    }
}

impl Drop for Appearance {
    fn drop(&mut self) {
        self.driver.driver.forget_file(self.watched.watch, &self.slot);
        let waker = self.slot.lock().waker.take();
        waking::retire(waker);
    }
}

/// Watches for a file, with another driver if this one has failed.
fn watch(driver: &mut DriverHandle, path: &Path, slot: &Arc<Slot>) -> io::Result<Watched> {
    loop {
        match driver.driver.watch_for_file(path, slot)? {
            Some(watched) => return Ok(watched),
            None => *driver = DriverHandle::new()?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_which_too_much_happens_is_known_by_the_rate() {
        let start = clock::now();
        let mut others = Others::new(start);
        let mut note = |at: Instant| (0..OTHER_NAMES_PER_SECOND_MAX).any(|_| others.note(|| at));
        let second = Duration::from_secs(1);
        assert!(!note(start + second), "all of them in a whole second");
        assert!(!note(start + second * 5));
        assert!(note(start + second * 5 + second / 2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn what_waits_in_a_directory_that_is_not_watched_any_more_is_told_so() {
        let directory =
            std::env::temp_dir().join(format!("nearcall-appearances-{:016x}", fastrand::u64(..)));
        fs::create_dir(&directory).unwrap();
        let mut appearance = Appearance::new(directory.join("socket")).unwrap();
        assert!(!appearance.arm().unwrap() && !appearance.poll(Waker::noop()));
        let driver = Arc::clone(&appearance.driver.driver);
        let flooded = driver.appearances().awaited.remove(&appearance.watched.watch).unwrap();
        assert_eq!(flooded.flood().count(), 1);
        assert!(appearance.poll(Waker::noop()));
        let error = appearance.arm().unwrap_err().to_string();
        assert!(error.contains("change too often"), "{error}");
        drop(appearance);
        fs::remove_dir(&directory).unwrap();
    }
}
