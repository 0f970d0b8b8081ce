//! What a waiter has learned: whether spinning pays, and what it may still cost. No clock.
//!
//! A score goes up when a spin finds something and down twice as fast when it was without result.
//! At zero there is no spinning. Then waits that slept are watched: those that would have ended
//! within a spin are counted, and after some of them one spin is tried. Each such trial that fails
//! doubles the number of waits before the next. So
//! - waits that are long cost nothing but the first few spins, since none of them is short;
//! - waits that only look short cost one spin in [`TRIAL_INTERVAL_MAX`]: both ends share a CPU, so
//!   the end that spins keeps the other from answering;
//! - two ends that both sleep find each other, since one wait includes two wake-ups and is still
//!   short.
//!
//! Waits of all kinds in a random order would still make a spinner of some: what spins without
//! result is paid from a balance into which a share of all time flows.
//!
//! **Invariants:** spins without result take at most that share of the time, and what the balance
//! holds.
//! **Not here:** reading clocks and counting looks (`spin.rs`).

/// The knowledge of one waiter. Times are in nanoseconds and given by the caller.
#[derive(Debug, Clone)]
pub(super) struct SpinBudget {
    /// The longest spin. Zero: never; the largest number: forever.
    limit_ns: u64,
    /// The part of each 100 ns that flows into the balance.
    percent: u64,
    /// The time that may still be spun without result, at most `BALANCE_SPINS_MAX` spins.
    balance_ns: u64,
    /// The time when the balance was last filled; zero before the first time.
    filled_ns: u64,
    /// Above zero: spin.
    score: u32,
    /// Short waits to sleep through before the next trial.
    until_trial: u32,
    /// The next such number.
    trial_interval: u32,
}

impl SpinBudget {
    pub(super) fn new(limit_ns: u64, percent: u8) -> Self {
        Self {
            limit_ns,
            percent: percent.into(),
            balance_ns: limit_ns.saturating_mul(BALANCE_SPINS_MAX),
            filled_ns: 0,
            score: SCORE_FIRST,
            until_trial: 1,
            trial_interval: 1,
        }
    }

    /// Returns how long to spin now.
    #[inline]
    pub(super) fn limit_ns(&self) -> u64 {
        let pays = self.score > 0 && self.balance_ns >= self.limit_ns;
        if pays || self.limit_ns == u64::MAX { self.limit_ns } else { 0 }
    }

    /// Returns how long a spin would be.
    pub(super) fn limit_if_it_pays_ns(&self) -> u64 {
        self.limit_ns
    }

    /// From now on spins are so long at most.
    pub(super) fn set_limit_ns(&mut self, limit_ns: u64) {
        self.limit_ns = limit_ns;
        self.balance_ns = self.balance_ns.min(limit_ns.saturating_mul(BALANCE_SPINS_MAX));
    }

    /// A spin found something.
    #[inline]
    pub(super) fn record_success(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
        self.trial_interval = 1;
    }

    /// A wait without a spin ended so early that a spin would have found it.
    #[inline]
    pub(super) fn record_short_wait(&mut self) {
        if self.score == 0 {
            self.until_trial = self.until_trial.saturating_sub(1);
            if self.until_trial == 0 {
                self.score = 1;
            }
        }
    }

    /// A spin of `spun_ns` found nothing, and now we sleep.
    pub(super) fn record_failure(&mut self, now_ns: u64, spun_ns: u64) {
        self.debit(now_ns, spun_ns);
        self.score = self.score.saturating_sub(2);
        if self.score == 0 {
            self.until_trial = self.trial_interval;
            self.trial_interval = (2 * self.trial_interval).min(TRIAL_INTERVAL_MAX);
        }
    }

    /// Pays for a spin that gave nothing.
    pub(super) fn debit(&mut self, now_ns: u64, spun_ns: u64) {
        self.credit(now_ns);
        self.balance_ns = self.balance_ns.saturating_sub(spun_ns);
    }

    /// Fills the balance with the share of the time since the last filling.
    pub(super) fn credit(&mut self, now_ns: u64) {
        if self.filled_ns != 0 {
            let since_ns = now_ns.saturating_sub(self.filled_ns);
            let share_ns = (since_ns / 100).saturating_mul(self.percent);
            let full_ns = self.limit_ns.saturating_mul(BALANCE_SPINS_MAX);
            self.balance_ns = self.balance_ns.saturating_add(share_ns).min(full_ns);
        }
        self.filled_ns = now_ns;
    }
}

/// A waiter begins as one that has found something a few times: the first answers of a connection
/// usually come fast.
const SCORE_FIRST: u32 = 4;

/// What many finds are worth: four spins without result, so that a pause in a busy time is
/// forgiven.
const SCORE_MAX: u32 = 8;

/// Most short waits between two trials. A spin is as long as a few such waits, so that one in so
/// many does not show; ends that no longer share a CPU find that out within some 0.1 s.
const TRIAL_INTERVAL_MAX: u32 = 4096;

/// Spins without result that the balance holds: enough to learn from a new kind of wait.
const BALANCE_SPINS_MAX: u64 = 8;

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
