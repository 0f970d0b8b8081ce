//! Forks: whether something was made in this process, or in one that this was forked from.
//!
//! A page that the kernel empties in each forked process (MADV_WIPEONFORK) holds a number. A child
//! finds zero there, and takes the next number for what it makes itself. That also covers a fork
//! that does not go through the C library.
//!
//! **Invariants:** what was made before a fork is never current after it; a check is two loads, or
//! one for a handle that keeps its [`Epoch`].
//! **Not here:** what a handle does about it (its own file).
#![allow(unsafe_code, reason = "mmap, madvise, and a reference into the page")]

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The process in which something was made.
#[derive(Debug, Clone, Copy)]
pub struct Epoch {
    word: &'static AtomicU32,
    number: u32,
}

impl Epoch {
    /// Returns the epoch of this process.
    #[must_use]
    pub fn current() -> Self {
        let word = canary();
        let number = match word.load(Ordering::Relaxed) {
            0 => {
                // The last number of the parent, which the fork has copied, and one more.
                let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                let taken = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                taken.map_or_else(|by_another_thread| by_another_thread, |_| next)
            }
            number => number,
        };
        Self { word, number }
    }

    /// Returns whether this is still the process in which it was made. One load.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number
    }

    /// Returns an error unless this is still the process in which it was made.
    ///
    /// # Errors
    ///
    /// The text says what to do.
    #[inline]
    pub fn check(self) -> io::Result<()> {
        if self.is_current() { Ok(()) } else { Err(forked()) }
    }
}

/// Returns the error of a handle that a forked process has got from its parent.
#[cold]
fn forked() -> io::Error {
    io::Error::other(FORKED)
}

/// What is told of a handle that a forked process has got from its parent.
pub const FORKED: &str = "it was made before this process was forked, and belongs to the parent: \
                          make a new one here, or fork before the first one is made";

/// The last number that was taken.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Where there is no such page: then forks are not noticed.
static PLAIN: AtomicU32 = AtomicU32::new(0);

fn canary() -> &'static AtomicU32 {
    static CANARY: OnceLock<&AtomicU32> = OnceLock::new();
    CANARY.get_or_init(|| wiped_page().unwrap_or(&PLAIN))
}

/// Makes the page. It stays until the end of the process. No such advice: before Linux 4.14.
fn wiped_page() -> io::Result<&'static AtomicU32> {
    if cfg!(miri) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (bytes, access) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses the address, so the mapping overlaps no other.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
    // SAFETY: the range is the mapping of the line above; nothing in it is in use.
    unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) }?;
    // SAFETY: the page is aligned, zeroed, writable, never unmapped, and only used as this atomic;
    // the kernel empties it in a process that has one thread.
    Ok(unsafe { AtomicU32::from_ptr(page.cast()) })
}

/// Forks this process, runs `child` in the new one, and returns the code that it ended with.
///
/// The child has this thread only: what other threads had locked stays locked there. So this is for
/// programs that find out what a fork does, and have no other busy threads.
///
/// # Errors
///
/// The kernel allows no process; the child was ended by a signal, or panicked.
pub fn run_in_child(child: impl FnOnce() -> u8) -> io::Result<u8> {
    // SAFETY: both processes go on with this thread; the child runs the closure and nothing else.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: the process ends here. Nothing that the parent registered is run.
        unsafe { libc::_exit(code.into()) }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable, and the process is a child of this one that was not reaped.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        match io::Error::last_os_error() {
            _ if ended == pid => break,
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        (false, _) => Err(io::Error::other(format!("the child ended by status {status:#x}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_of_a_process_stays() {
        let epoch = Epoch::current();
        assert!(epoch.is_current() && Epoch::current().is_current());
        epoch.check().unwrap();
        assert_eq!(Epoch::current().number, epoch.number);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn what_was_made_before_a_fork_is_not_of_the_child() {
        let epoch = Epoch::current();
        let code = run_in_child(|| {
            let own = Epoch::current();
            let grandchild = run_in_child(|| u8::from(epoch.is_current() || own.is_current()));
            let is_right = !epoch.is_current() && own.is_current() && grandchild.ok() == Some(0);
            if is_right { 7 } else { 1 }
        });
        assert_eq!(code.unwrap(), 7);
        assert!(epoch.is_current());
    }
}
