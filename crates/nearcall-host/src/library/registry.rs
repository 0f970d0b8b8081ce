//! What the libraries of this process find of each other.
//!
//! **Invariants:** a number stands for one object as long as the process lives; the object of a
//! service that was removed is not there any more, and its calls say so. Only objects whose methods
//! do not wait are found: a method that waits would keep the service that calls it.
//! **Not here:** calls from elsewhere (`service.rs`).

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

use nearcall::__host::{self, ThreadLoop};
use nearcall_os::Deadline;
use nearcall_os::library::{HostFunctions, LogLevel, ReplyPart, RequestPart};

use super::LibraryConfig;
use super::service::Service;
use super::waiting::WaitingCall;

/// The services of this process, for its libraries.
pub(super) static REGISTRY: Registry = Registry { entries: RwLock::new(Vec::new()) };

/// The services of a process.
pub(super) struct Registry {
    entries: RwLock<Vec<Entry>>,
}

struct Entry {
    /// The address as callers write it, without parameters.
    place: String,
    object: String,
    index: u32,
    /// None: it was removed.
    service: Option<Arc<Service>>,
}

impl Registry {
    /// Adds the objects of a service that may be called in any thread.
    pub(super) fn add(&self, config: &LibraryConfig, service: &Arc<Service>) {
        let place = config.listen.split('?').next().unwrap_or_default();
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let objects = (0..).zip(service.objects());
        for (index, object) in objects.filter(|(_, object)| object.is_nonblocking) {
            entries.push(Entry {
                place: place.to_owned(),
                object: object.name(),
                index,
                service: Some(Arc::clone(service)),
            });
        }
    }

    /// Removes the objects of a service. Calls that it serves go on.
    pub(super) fn remove(&self, service: &Arc<Service>) {
        let is_of = |entry: &&mut Entry| {
            entry.service.as_ref().is_some_and(|other| Arc::ptr_eq(other, service))
        };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let removed: Vec<_> =
            entries.iter_mut().filter(is_of).filter_map(|entry| entry.service.take()).collect();
        drop(entries);
        // Outside the lock: the end of a service may make calls.
        drop(removed);
    }

    fn service(&self, number: u64) -> Option<(Arc<Service>, u32)> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(index)?;
        Some((Arc::clone(entry.service.as_ref()?), entry.index))
    }
}

impl HostFunctions for Registry {
    fn find(&self, address: &str, object: &str) -> Option<u64> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &Entry| {
            entry.place == address && entry.object == object && entry.service.is_some()
        };
        let index = entries.iter().position(is_it)?;
        u64::try_from(index).ok()?.checked_add(1)
    }

    fn call(
        &self,
        object: u64,
        request: &RequestPart<'_>,
        reply: &mut dyn FnMut(&ReplyPart<'_>),
    ) -> bool {
        let Some((service, index)) = self.service(object) else { return false };
        let call = WaitingCall::new(request.deadline);
        service.dispatch(index, request, call.pending_reply());
        call.wait(reply);
        true
    }

    fn log(&self, service: &str, level: LogLevel, text: &str) {
        // A line stays one.
        let text = text.replace(char::is_control, " ");
        if !__host::log(service, level, &text) {
            let level = match level {
                LogLevel::Error => "error",
                LogLevel::Warn => "warning",
                LogLevel::Info => "info",
                LogLevel::Debug => "debug",
            };
            // One write, so that the line stays whole.
            let line = format!("service `{service}`: {level}: {text}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn wait(&self, fd: BorrowedFd<'_>, deadline: Deadline) -> bool {
        let own = ThreadLoop::current();
        own.is_some_and(|own| own.serve(Some(fd), deadline).is_ok())
    }
}
