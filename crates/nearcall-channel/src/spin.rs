//! How long to spin before a sleep: a public helper for waiting in a channel or in a loop.
//!
//! ```
//! use nearcall_channel::{SpinOptions, Spinner};
//!
//! # let mut there = (0..).map(|look| look == 70);
//! # let mut look = move || there.next() == Some(true);
//! # fn sleep() {}
//! let mut spinner = Spinner::new(SpinOptions::default());
//! // One wait.
//! let mut plan = spinner.begin();
//! loop {
//!     if look() {
//!         break spinner.record_hit(plan);
//!     }
//!     if !plan.should_spin(&mut spinner) {
//!         sleep(); // until it is there
//!         break spinner.record_wake(plan);
//!     }
//!     std::hint::spin_loop();
//! }
//! ```
//!
//! **Invariants:** what is found in the first looks costs no clock and no system call; spinning
//! without result takes no larger share of the time than the user allows; on a machine of one CPU
//! no end spins for long. Ends that are pinned to one CPU of several learn it, as if the other were
//! slow: the CPUs that an end may use do not show where the other one runs.
//! **Not here:** what was learned (`spin/budget.rs`), what a wake-up costs (`spin/wake_up.rs`),
//! looking and sleeping (the code that waits).

use std::time::Duration;

use nearcall_os::clock;

use budget::SpinBudget;
use wake_up::Known;

use crate::limits::{
    CPU_PERCENT_DEFAULT, POLLS_PER_CLOCK, SLEEPS_PER_RECALIBRATION, WAKE_UPS_PER_SPIN,
};

mod budget;
pub mod tuning;
mod wake_up;

pub use wake_up::{measure_wake_up_cost, wake_up_cost};

/// The limits of a waiter that spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinOptions {
    /// The share of its time that an end may spend on spinning without result, in percent: spinning
    /// after which it had to sleep all the same. 0: it never spins. 100 or more: it spins forever.
    pub cpu_percent: u8,
    /// The longest spin before a sleep. `None`: what is stored of this machine (see [`tuning`]),
    /// else a few times what a wake-up costs, see [`wake_up_cost`].
    pub spin_max: Option<Duration>,
}

impl Default for SpinOptions {
    fn default() -> Self {
        Self { cpu_percent: CPU_PERCENT_DEFAULT, spin_max: None }
    }
}

/// Decides for one waiter how long it spins before it sleeps, from how its waits ended lately.
///
/// It spins while that has found something; it stops once that was without result, and tries again
/// now and then when waits have become short.
#[derive(Debug, Clone)]
pub struct Spinner {
    options: SpinOptions,
    budget: SpinBudget,
    sleeps: u32,
}

/// One wait: how long it may still spin. Cheap to copy, without meaning after its wait.
#[derive(Debug, Clone, Copy)]
pub struct SpinPlan {
    looks: u32,
    /// The time to spin, in nanoseconds.
    limit_ns: u64,
    /// The time when the clock was first read; zero before.
    started_ns: u64,
}

impl Spinner {
    /// A waiter that has learned nothing yet. No system call, except that the first one in a
    /// process reads what is stored of this machine.
    #[must_use]
    pub fn new(options: SpinOptions) -> Self {
        let limit_ns = limit_ns(options, wake_up::known());
        Self { options, budget: SpinBudget::new(limit_ns, options.cpu_percent), sleeps: 0 }
    }

    /// Begins a wait. No clock is read.
    #[must_use]
    #[inline]
    pub fn begin(&mut self) -> SpinPlan {
        let limit_ns = self.budget.limit_ns();
        // Without a spin the first question already is about the sleep.
        let looks = if limit_ns == 0 { POLLS_PER_CLOCK - 1 } else { 0 };
        SpinPlan { looks, limit_ns, started_ns: 0 }
    }

    /// Records that the wait ended before a sleep.
    #[inline]
    pub fn record_hit(&mut self, plan: SpinPlan) {
        match plan.limit_ns {
            0 => self.budget.record_short_wait(),
            _ => self.budget.record_success(),
        }
    }

    /// Records that the wait ended a sleep. Reads the clock once.
    pub fn record_wake(&mut self, plan: SpinPlan) {
        self.sleeps = self.sleeps.wrapping_add(1);
        if plan.limit_ns == 0 && plan.started_ns != 0 {
            let waited_ns = clock::monotonic_ns().saturating_sub(plan.started_ns);
            // Part of it was our own wake-up, which a spinning end would not have needed.
            if waited_ns
                <= self.budget.limit_if_it_pays_ns().saturating_add(wake_up::known().cost_ns)
            {
                self.budget.record_short_wait();
            }
        }
        if self.sleeps.is_multiple_of(SLEEPS_PER_RECALIBRATION) {
            self.recalibrate();
        }
    }

    /// The wait ended without what was waited for: its time was over. Reads the clock once if the
    /// spin was longer than a few looks.
    pub fn record_timeout(&mut self, plan: SpinPlan) {
        if plan.limit_ns != 0 && plan.started_ns != 0 {
            let now_ns = clock::monotonic_ns();
            self.budget.debit(now_ns, now_ns.saturating_sub(plan.started_ns));
        }
    }

    /// Takes in what has changed around us since.
    #[cold]
    fn recalibrate(&mut self) {
        // Only long-lived ends sleep this often, so measuring again pays.
        if wake_up::measure_beside() {
            self.budget.set_limit_ns(limit_ns(self.options, wake_up::known()));
        }
    }

    /// Checks by the clock whether to go on.
    #[cold]
    fn check_clock(&mut self, plan: &mut SpinPlan) -> bool {
        let now_ns = clock::monotonic_ns();
        if plan.started_ns == 0 {
            plan.started_ns = now_ns;
            self.budget.credit(now_ns);
        }
        let spun_ns = now_ns.saturating_sub(plan.started_ns);
        if spun_ns < plan.limit_ns {
            return true;
        }
        if plan.limit_ns != 0 {
            self.budget.record_failure(now_ns, spun_ns);
        }
        false
    }
}

impl SpinPlan {
    /// Returns whether this wait spins at all: otherwise a sleep may be prepared at once. Ask
    /// [`should_spin`](Self::should_spin) all the same, once: it begins to measure the wait.
    #[must_use]
    #[inline]
    pub fn spins(&self) -> bool {
        self.limit_ns != 0
    }

    /// After a look that found nothing: whether to look again instead of sleeping. Once it has
    /// said no, sleep.
    ///
    /// An addition and a comparison; the clock is read once in 64 times, after the first 63.
    #[inline]
    pub fn should_spin(&mut self, spinner: &mut Spinner) -> bool {
        self.looks = self.looks.wrapping_add(1);
        !self.is_at_clock() || spinner.check_clock(self)
    }

    /// Returns whether the clock was read for the last look: the time for things that are looked at
    /// less often, such as whether the other end still lives.
    #[must_use]
    #[inline]
    pub fn is_at_clock(&self) -> bool {
        self.looks.is_multiple_of(POLLS_PER_CLOCK)
    }
}

/// Returns how long a spin may be, in nanoseconds.
fn limit_ns(options: SpinOptions, known: Known) -> u64 {
    match options {
        SpinOptions { cpu_percent: 0, .. } => 0,
        SpinOptions { cpu_percent: 100.., .. } => u64::MAX,
        // A spinning end keeps the other one from running.
        _ if known.cpus == 1 => 0,
        SpinOptions { spin_max: Some(max), .. } => {
            u64::try_from(max.as_nanos()).unwrap_or(u64::MAX)
        }
        SpinOptions { spin_max: None, .. } => {
            known.spin_ns.unwrap_or(known.cost_ns * WAKE_UPS_PER_SPIN)
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    fn looks_before_sleep(spinner: &mut Spinner) -> u32 {
        let mut plan = spinner.begin();
        let mut looks = 0;
        while looks < 1_000_000 && plan.should_spin(spinner) {
            looks += 1;
        }
        looks
    }

    #[test]
    fn a_share_of_nothing_never_spins_and_a_whole_cpu_always_spins() {
        let options = |cpu_percent| SpinOptions { cpu_percent, ..SpinOptions::default() };
        assert_eq!(looks_before_sleep(&mut Spinner::new(options(0))), 0);
        assert!(!Spinner::new(options(0)).begin().spins());
        assert!(Spinner::new(options(100)).begin().spins());
        assert_eq!(looks_before_sleep(&mut Spinner::new(options(100))), 1_000_000);
    }

    #[test]
    fn a_short_spin_reads_no_clock() {
        let mut spinner = Spinner::new(SpinOptions::default());
        let mut plan = spinner.begin();
        for _ in 1..POLLS_PER_CLOCK {
            assert!(plan.should_spin(&mut spinner));
        }
        assert_eq!(plan.started_ns, 0);
        assert!(plan.should_spin(&mut spinner));
        assert_ne!(plan.started_ns, 0);
    }

    #[test]
    fn a_spin_is_as_long_as_a_few_wake_ups_or_as_set_and_nothing_on_one_cpu() {
        let known = |cpus| Known { cost_ns: 7_000, cpus, spin_ns: None };
        let options = |spin_max| SpinOptions { cpu_percent: 5, spin_max };
        let micro = Some(Duration::from_micros(1));
        assert_eq!(limit_ns(options(None), known(2)), 7_000 * WAKE_UPS_PER_SPIN);
        assert_eq!(limit_ns(options(micro), known(2)), 1_000);
        assert_eq!(limit_ns(options(None), known(1)), 0);
        let stored = Known { spin_ns: Some(3_000), ..known(2) };
        assert_eq!(limit_ns(options(None), stored), 3_000);
        assert_eq!(limit_ns(options(micro), stored), 1_000);
        assert_eq!(limit_ns(options(micro), known(1)), 0);
        assert_eq!(limit_ns(options(Some(Duration::MAX)), known(2)), u64::MAX);
    }
}
