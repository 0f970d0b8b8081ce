//! What each worker has: its random numbers, what it sends, and its account.
//!
//! **Invariants:** the numbers of its calls and one-way messages rise.

use std::time::Duration;

use nearcall::{Code, Status};

use crate::books::{Account, Books};
use crate::client::expect;
use crate::stress::Job;

/// What a method works for, at most.
const WORK_US_MAX: u32 = 100;
/// Deadlines that are often too short.
const DEADLINE_US_MAX: u64 = 300;
/// Padding of most messages, and of one in a hundred, at most.
const PADDING_BYTES_MAX: usize = 300;
const LARGE_BYTES_MAX: usize = 200_000;

/// The part of a worker that does not depend on how it calls.
pub(crate) struct Mix {
    pub(crate) random: fastrand::Rng,
    pub(crate) account: Account,
    /// What no later call has confirmed.
    pub(crate) unconfirmed: Books,
    number: u64,
}

impl Mix {
    pub(crate) fn new(seed: u64, worker: u64) -> Self {
        let account = Account { worker, ..Account::default() };
        let random = fastrand::Rng::with_seed(seed);
        Self { random, account, unconfirmed: Books::default(), number: 0 }
    }

    pub(crate) fn job(&mut self) -> Job {
        self.number += 1;
        let max = if self.random.u8(0..100) == 0 { LARGE_BYTES_MAX } else { PADDING_BYTES_MAX };
        Job {
            worker: self.account.worker,
            number: self.number,
            work_us: self.random.u32(0..WORK_US_MAX),
            padding: vec![7; self.random.usize(0..max)].into(),
        }
    }

    pub(crate) fn item(&mut self, number: u64) -> Job {
        let padding = vec![7; self.random.usize(0..PADDING_BYTES_MAX)].into();
        Job { worker: self.account.worker, number, work_us: 0, padding }
    }

    pub(crate) fn timeout(&mut self) -> Duration {
        Duration::from_micros(self.random.u64(0..DEADLINE_US_MAX))
    }

    /// Notes a reply that came after all that was sent before.
    pub(crate) fn confirm(&mut self) {
        self.account.served.calls += 1;
        self.account.served += std::mem::take(&mut self.unconfirmed);
    }

    /// Notes the reply to a call, or that it has failed with the only code that it may fail with.
    #[track_caller]
    pub(crate) fn note_answer(&mut self, job: &Job, answer: Result<Job, Status>, code: Code) {
        match answer {
            Ok(reply) => {
                assert_eq!(reply, *job);
                self.account.served.calls += 1;
            }
            Err(status) => {
                expect(&status, code);
                self.account.unknown.calls += 1;
            }
        }
    }

    /// Returns the account once nothing more is sent.
    pub(crate) fn end(mut self) -> Account {
        self.account.unknown += self.unconfirmed;
        self.account
    }
}
