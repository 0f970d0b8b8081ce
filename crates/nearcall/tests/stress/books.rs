//! What was sent and what was served, by worker: one thread or task of one process.
//!
//! **Invariants:** an account is printed and parsed by one line.

use std::ops::AddAssign;

/// Counts of one worker.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Books {
    /// Calls that a method ran for.
    pub(crate) calls: u64,
    /// One-way messages.
    pub(crate) messages: u64,
    /// Items of streams, either way.
    pub(crate) items: u64,
}

impl Books {
    fn fields(&self) -> [u64; 3] {
        [self.calls, self.messages, self.items]
    }
}

impl AddAssign for Books {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.items += other.items;
    }
}

/// What a worker knows of what it has sent.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) worker: u64,
    /// What has been served: there was a reply, or a later call on the same connection had one.
    pub(crate) served: Books,
    /// What may have been served: cancelled, too late, or sent last.
    pub(crate) unknown: Books,
    /// Switches of its connection to another mechanism.
    pub(crate) switches: u64,
}

impl Account {
    /// Whether the server has counted what it must have, and no more than it may have.
    pub(crate) fn agrees_with(&self, counted: &Books) -> bool {
        let all = self.served.fields().into_iter().zip(self.unknown.fields());
        all.zip(counted.fields())
            .all(|((served, unknown), counted)| (served..=served + unknown).contains(&counted))
    }

    /// The line of a client's output.
    pub(crate) fn line(&self) -> String {
        let fields = self.served.fields().into_iter().chain(self.unknown.fields());
        let fields: Vec<String> =
            fields.chain([self.switches]).map(|count| count.to_string()).collect();
        format!("{MARK}{} {}", self.worker, fields.join(" "))
    }

    /// Reads a line; `None` if it is not an account.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix(MARK)?.split(' ').map(|text| text.parse().unwrap());
        let numbers: [u64; 8] = numbers.collect::<Vec<_>>().try_into().unwrap();
        let [worker, served @ .., c, m, i, switches] = numbers;
        let books = |[calls, messages, items]: [u64; 3]| Books { calls, messages, items };
        Some(Self { worker, served: books(served), unknown: books([c, m, i]), switches })
    }
}

/// What a line begins with.
const MARK: &str = "account ";
