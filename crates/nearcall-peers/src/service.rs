//! What every server does with a message: reads every byte and judges it.
//!
//! Messages of one size carry numbers that go on from cell to cell, so the server needs to be told
//! nothing.
//! **Invariants:** a damaged message ends the process, with the reason on standard output.

use std::sync::{Arc, Mutex, PoisonError};

use nearcall_bench::payload::{Payload, Verifier};

use crate::request::Line;

/// The judge of what has come.
pub(crate) struct Service {
    seed: u64,
    /// The sizes that have come, the latest first.
    sizes: Vec<Expected>,
    received: u64,
    digest: u64,
}

struct Expected {
    payload: Payload,
    next: u64,
}

impl Service {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, sizes: Vec::new(), received: 0, digest: 0 }
    }

    /// Reads the next message of its size.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.received += 1;
        if bytes.is_empty() {
            return;
        }
        match self.sizes.first() {
            Some(first) if first.payload.message_bytes() == bytes.len() => {}
            _ => self.bring_to_front(bytes.len()),
        }
        let expected = &mut self.sizes[0];
        let mut verifier = Verifier::new(&expected.payload, expected.next);
        if let Err(corruption) = verifier.whole(bytes) {
            give_up(&corruption.to_string());
        }
        self.digest = std::hint::black_box(self.digest.rotate_left(1) ^ verifier.digest());
        expected.next += 1;
    }

    /// How many messages have come.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    #[cold]
    fn bring_to_front(&mut self, size: usize) {
        let known = self.sizes.iter().position(|one| one.payload.message_bytes() == size);
        let expected = match known {
            Some(at) => self.sizes.remove(at),
            None => Expected { payload: Payload::new(self.seed, size), next: 0 },
        };
        self.sizes.insert(0, expected);
    }
}

/// A judge that the threads or tasks of a server share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Service>>);

impl Shared {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Service::new(seed))))
    }

    /// Reads the next message of its size.
    pub(crate) fn take(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
    }

    /// How many messages have come.
    pub(crate) fn received(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).received()
    }
}

/// Ends the process: what it has served cannot be trusted.
#[cold]
pub(crate) fn give_up(reason: &str) -> ! {
    let _ = Line::Failed(format!("payload damaged: {reason}")).write();
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_turns_and_go_on_where_they_were() {
        let mut service = Service::new(7);
        let payloads = [Payload::new(7, 8), Payload::new(7, 100)];
        let mut buffer = [0; 100];
        for (number, size) in [(0, 0), (0, 1), (1, 1), (1, 0)] {
            let payload = &payloads[size];
            let bytes = &mut buffer[..payload.message_bytes()];
            payload.fill(number, 0, bytes);
            service.take(bytes);
        }
        service.take(&[]);
        assert_eq!(service.received(), 5);
    }
}
