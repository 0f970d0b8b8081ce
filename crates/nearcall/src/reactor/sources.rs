//! What a loop waits for, by the tokens of its epoll.
//!
//! **Invariants:** the token of a source that was removed names no later one.
//! **Not here:** what happens when a source is ready (`reactor.rs`).

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::Listener;
use nearcall_os::poll::Interest;

use crate::connection::Connection;
use crate::listen_policy::ListenPolicy;
use crate::reactor::acceptor::Acceptor;
use crate::tasks::mailbox::Mailbox;

/// A descriptor of the user in an event loop.
///
/// Returned by [`EventLoop::add_descriptor`](crate::EventLoop::add_descriptor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DescriptorId(pub(crate) u64);

/// Everything that can wake a loop.
#[derive(Clone)]
pub(crate) enum Source {
    /// A connection has messages, or room.
    Connection(Rc<Connection>),
    /// Clients wait at a listener of a server.
    Listener(Rc<ListenerEntry>),
    /// The other end of a handshake has taken a step.
    Handshake,
    /// Another thread has posted something.
    Mailbox,
    /// A moment has come, for a loop that is hosted by another.
    HostTimer,
    /// A signal has come.
    Signal,
    /// A loop of a library that waits in this one has something.
    Guest,
    /// The file of a listener's socket may be gone.
    SocketFiles,
    /// A descriptor of the user.
    User(Rc<UserFd>),
}

/// Names a listener of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerId(pub(super) u64);

/// A listener or another entry for the clients of a server.
pub(crate) struct ListenerEntry {
    pub(crate) listener: Arc<Listener>,
    pub(crate) policy: Arc<ListenPolicy>,
    pub(crate) acceptor: Rc<Acceptor>,
    /// Those of all loops of the server, this one included. Empty if it has one loop only.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
}

/// A descriptor of the user, our own duplicate of it.
pub(crate) struct UserFd {
    pub(crate) fd: OwnedFd,
    pub(crate) interest: Interest,
    /// Files are always ready and cannot be watched.
    pub(crate) always_ready: bool,
}

/// Sources by token: index below, generation above.
#[derive(Default)]
pub(crate) struct Sources {
    entries: Vec<(u32, Option<Source>)>,
    free: Vec<u32>,
}

impl Sources {
    pub(crate) fn add(&mut self, source: Source) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let (generation, entry) = &mut self.entries[index as usize];
        *entry = Some(source);
        u64::from(*generation) << 32 | u64::from(index)
    }

    pub(crate) fn get(&self, token: u64) -> Option<&Source> {
        let (index, generation) = split(token);
        let (current, source) = self.entries.get(index)?;
        source.as_ref().filter(|_| *current == generation)
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<Source> {
        let (index, generation) = split(token);
        let (current, source) = self.entries.get_mut(index)?;
        if *current != generation {
            return None;
        }
        let source = source.take()?;
        *current = current.wrapping_add(1);
        self.free.push(u32::try_from(index).unwrap_or(u32::MAX));
        Some(source)
    }

    /// Returns the listeners among them, with their tokens.
    pub(crate) fn listeners(&self) -> Vec<(ListenerId, Rc<ListenerEntry>)> {
        let entries = self.entries.iter().enumerate();
        let listener = |(index, (generation, source)): (usize, &(u32, Option<Source>))| {
            let Some(Source::Listener(entry)) = source else { return None };
            Some((ListenerId(u64::from(*generation) << 32 | index as u64), Rc::clone(entry)))
        };
        entries.filter_map(listener).collect()
    }

    /// Returns the connections among them; one that waits for room may be there twice.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Rc<Connection>> {
        self.entries.iter().filter_map(|(_, source)| match source {
            Some(Source::Connection(connection)) => Some(Rc::clone(connection)),
            _ => None,
        })
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the two halves of the token")]
fn split(token: u64) -> (usize, u32) {
    (token as u32 as usize, (token >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_token_names_nothing() {
        let mut sources = Sources::default();
        let first = sources.add(Source::Mailbox);
        assert!(sources.remove(first).is_some());
        let second = sources.add(Source::HostTimer);
        assert_ne!(first, second);
        assert!(sources.get(first).is_none() && sources.remove(first).is_none());
        assert!(matches!(sources.get(second), Some(Source::HostTimer)));
    }
}
