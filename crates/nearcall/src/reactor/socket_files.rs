//! The files of the sockets at which clients find the servers of a loop: made again when another
//! program has removed them, as cleaners of temporary directories do.
//!
//! **Invariants:** the loop is woken by what happens to these files, their locks and the names of
//! their directories, and by no other file; a file that is removed again and again is made again at
//! a bounded rate; what is another program's is left alone.
//! **Not here:** the files (`socket_file.rs` of `nearcall-channel`).

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nearcall_channel::Listener;
use nearcall_os::inotify::Inotify;
use nearcall_os::poll;

use super::{ListenerEntry, ListenerId, Reactor, Source};
use crate::deadline::{self, Deadline};
use crate::limits::SOCKET_FILE_PAUSE;

/// The files of a loop.
pub(super) struct SocketFiles {
    /// Made for the first of them, and kept.
    inotify: RefCell<Option<Inotify>>,
    /// When to look at them.
    due: Cell<Deadline>,
    /// Not before.
    paused_until: Cell<Deadline>,
}

impl Default for SocketFiles {
    fn default() -> Self {
        let (due, paused_until) = (Cell::new(Deadline::NEVER), Cell::new(Deadline::NOW));
        Self { inotify: RefCell::default(), due, paused_until }
    }
}

impl SocketFiles {
    /// Returns when to look at the files.
    #[inline]
    pub(super) fn due(&self) -> Deadline {
        self.due.get()
    }
}

impl Reactor {
    /// Watches the file of a listener, if it has one.
    pub(super) fn watch_socket_file(&self, listener: &Listener) {
        if let Err(error) = self.try_watch_socket_file(listener) {
            report_no_watch(listener, &error);
        }
    }

    fn try_watch_socket_file(&self, listener: &Listener) -> io::Result<()> {
        if !listener.has_file() {
            return Ok(());
        }
        let inotify = &mut *self.socket_files.inotify.borrow_mut();
        if inotify.is_none() {
            let created = Inotify::create()?;
            let token = self.sources.borrow_mut().add(Source::SocketFiles);
            let added = self.epoll.add(&created, poll::Interest::Readable, token);
            added.inspect_err(|_| drop(self.sources.borrow_mut().remove(token)))?;
            *inotify = Some(created);
        }
        inotify.as_ref().map_or(Ok(()), |inotify| listener.watch_file(inotify))
    }

    /// Notes that something has happened to the files.
    pub(super) fn note_socket_files(&self) {
        if let Some(inotify) = &*self.socket_files.inotify.borrow() {
            // Whatever it was, all are looked at: they are few.
            let _ = inotify.read(|_| {});
        }
        let due = self.socket_files.paused_until.get().max(deadline::now());
        self.socket_files.due.set(self.socket_files.due.get().min(due));
    }

    /// Makes the files again that are not there any more, if that is due by `now`.
    pub(super) fn restore_socket_files(&self, now: Deadline) {
        if self.socket_files.due.get() > now {
            return;
        }
        self.socket_files.due.set(Deadline::NEVER);
        self.socket_files.paused_until.set(deadline::later(now, SOCKET_FILE_PAUSE));
        let listeners = self.sources.borrow().listeners();
        for (id, entry) in listeners {
            if entry.listener.is_of_this_process() && !entry.listener.is_file_whole() {
                self.restore_socket_file(id, &entry);
            }
        }
    }

    fn restore_socket_file(&self, id: ListenerId, entry: &ListenerEntry) {
        let listener = &*entry.listener;
        // Those that have found the socket before go on.
        self.handshakes.accept(self, id);
        let _ = self.epoll.delete(listener);
        let restored = listener.restore_file();
        let watched = self.epoll.add(listener, poll::Interest::Readable, id.0);
        let address = listener.address();
        match (restored, watched) {
            (Ok(true), Ok(())) => {
                tracing::warn!(
                    target: "nearcall",
                    "the file of the socket of {address}, or the lock beside it, was removed or \
                     renamed by another program, and is made again: leave it out of what cleans its \
                     directory"
                );
                self.watch_socket_file(listener);
            }
            // The server has removed it itself meanwhile.
            (Ok(false), Ok(())) => {}
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(target: "nearcall", "{address}: {error}");
            }
        }
    }
}

/// Reports once that files of sockets are not watched.
#[cold]
fn report_no_watch(listener: &Listener, error: &io::Error) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            target: "nearcall",
            "the file of the socket of {} is not made again if another program removes it: \
             {error}; this is reported once",
            listener.address()
        );
    }
}
