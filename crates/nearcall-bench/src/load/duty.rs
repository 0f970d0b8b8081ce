//! A CPU that is busy for a part of the time: when to burn, when to sleep, and how to steer it.
//!
//! Functions of times that are handed in: no clock is read here. The worker that burns and sleeps
//! is in `worker.rs`.

/// Decides what the worker of one CPU does next.
///
/// Counts the worker's own CPU time, so that somebody else on its CPU does not make it do less, as
/// long as it gets its share. What it missed in a period it makes up for in the next one, up to
/// one period's worth.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    period_ns: u64,
    busy_ns: u64,
    /// When this period began.
    begin_ns: u64,
    /// What is still to be burned in it; below zero if the one before burned too much.
    left_ns: i64,
    /// The CPU time at the last step.
    cpu_ns: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Compute for a moment.
    Burn,
    /// Sleep for so many nanoseconds.
    Sleep(u64),
}

impl Cycle {
    /// The first period begins at `begin_ns`; `cpu_ns` is the CPU time up to now.
    pub(super) fn new(period_ns: u64, busy_ns: u64, begin_ns: u64, cpu_ns: u64) -> Self {
        let period_ns = period_ns.max(1);
        let busy_ns = busy_ns.min(period_ns);
        Self { period_ns, busy_ns, begin_ns, left_ns: signed(busy_ns), cpu_ns }
    }

    /// From the next period on the worker is busy for so long.
    pub(super) fn set_busy_ns(&mut self, busy_ns: u64) {
        self.busy_ns = busy_ns.min(self.period_ns);
    }

    /// What to do now, with so much CPU time used.
    pub(super) fn step(&mut self, now_ns: u64, cpu_ns: u64) -> Step {
        if now_ns < self.begin_ns {
            return Step::Sleep(self.begin_ns - now_ns);
        }
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        let busy_ns = signed(self.busy_ns);
        self.left_ns = self.left_ns.saturating_sub(signed(used_ns)).max(-signed(self.period_ns));
        let ended = (now_ns - self.begin_ns) / self.period_ns;
        if ended > 0 {
            self.begin_ns += ended * self.period_ns;
            let due_ns = busy_ns.saturating_mul(signed(ended));
            self.left_ns = self.left_ns.saturating_add(due_ns).min(2 * busy_ns);
        }
        match self.left_ns > 0 {
            true => Step::Burn,
            false => Step::Sleep(self.begin_ns + self.period_ns - now_ns),
        }
    }
}

/// Finds how long the worker of a CPU must be busy, so that the CPU is as busy as was asked with
/// whatever else runs on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Steering {
    pub(super) cpu: usize,
    asked_percent: f64,
    /// What the worker does now.
    worker_percent: f64,
    /// How busy the CPU was at last.
    pub(super) found_percent: f64,
}

impl Steering {
    pub(super) fn new(cpu: usize, asked_percent: u8) -> Self {
        let asked_percent = f64::from(asked_percent);
        Self { cpu, asked_percent, worker_percent: asked_percent, found_percent: 0.0 }
    }

    /// Takes how busy the CPU was with the worker as it is, and corrects the worker. True if it
    /// was near enough.
    ///
    /// Somebody who takes much of a CPU for a moment must not silence the worker for a whole run:
    /// a correction beyond [`CORRECTION_PERCENT_MAX`] is not made.
    pub(super) fn correct(&mut self, found_percent: f64) -> bool {
        self.found_percent = found_percent;
        let wrong = self.asked_percent - found_percent;
        if wrong.abs() <= NEAR_PERCENT {
            return true;
        }
        let wanted = self.worker_percent + wrong;
        let most = CORRECTION_PERCENT_MAX;
        let is_small = (wanted - self.asked_percent).abs() <= most && wanted > 0.0;
        self.worker_percent = if is_small { wanted } else { self.asked_percent };
        false
    }

    /// The part of a period that the worker has to be busy.
    pub(super) fn busy_ns(&self, period_ns: u64) -> u64 {
        part_of(period_ns, self.worker_percent)
    }

    /// What the worker shall use of its CPU.
    pub(super) fn worker_percent(&self) -> f64 {
        self.worker_percent
    }
}

/// Percent of a length of time, at least 1 ns.
#[allow(clippy::cast_possible_truncation, reason = "a share of a period of milliseconds")]
#[allow(clippy::cast_sign_loss, reason = "clamped to a share")]
fn part_of(period_ns: u64, percent: f64) -> u64 {
    ((period_ns as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64).max(1)
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// As study 004 is emulated: 3.5 ms of 10 ms are 35 %.
pub(super) const PERIOD_NS: u64 = 10_000_000;

/// Near enough in the calibration: half of what a measured launch may be off by, and what one tick
/// of `/proc/stat` in a second is.
const NEAR_PERCENT: f64 = 1.0;

/// A quiet machine needs corrections of one or two points.
const CORRECTION_PERCENT_MAX: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that is given `share` of its CPU while it wants to burn, for `periods`; the part
    /// of the time that it burned.
    fn played(mut cycle: Cycle, share: f64, periods: u64) -> f64 {
        let (mut now_ns, mut cpu_ns) = (0_u64, 0_u64);
        while now_ns < periods * PERIOD_NS {
            match cycle.step(now_ns, cpu_ns) {
                Step::Burn => {
                    now_ns += 20_000;
                    cpu_ns += part_of(20_000, share * 100.0);
                }
                Step::Sleep(ns) => {
                    // The wake-up is late and costs a little.
                    now_ns += ns + 60_000;
                    cpu_ns += 5_000;
                }
            }
        }
        cpu_ns as f64 * 100.0 / now_ns as f64
    }

    fn cycle(percent: u64) -> Cycle {
        Cycle::new(PERIOD_NS, PERIOD_NS * percent / 100, 0, 0)
    }

    #[test]
    fn a_cpu_of_its_own_is_busy_for_the_part_asked() {
        for percent in [1, 35, 50, 90] {
            let found = played(cycle(percent), 1.0, 1_000);
            assert!((found - percent as f64).abs() < 0.2, "{percent}: {found}");
        }
    }

    #[test]
    fn somebody_else_on_the_cpu_does_not_change_what_the_worker_uses() {
        let found = played(cycle(35), 0.5, 1_000);
        assert!((found - 35.0).abs() < 0.3, "{found}");
        // Less than its part is all that it can get.
        let found = played(cycle(35), 0.2, 1_000);
        assert!((found - 20.0).abs() < 0.3, "{found}");
    }

    #[test]
    fn what_was_missed_is_made_up_for_within_one_period_and_no_more() {
        let mut cycle = cycle(35);
        assert_eq!(cycle.step(0, 0), Step::Burn);
        // Stopped for ten periods: two periods' worth is what it burns then, not eleven.
        assert_eq!(cycle.step(10 * PERIOD_NS, 0), Step::Burn);
        assert_eq!(cycle.step(10 * PERIOD_NS + 1, 6_999_999), Step::Burn);
        assert_eq!(cycle.step(10 * PERIOD_NS + 2, 7_000_000), Step::Sleep(PERIOD_NS - 2));
    }

    #[test]
    fn it_begins_at_its_phase_and_heeds_a_new_share() {
        let mut cycle = Cycle::new(PERIOD_NS, 3_500_000, 500, 0);
        assert_eq!(cycle.step(100, 0), Step::Sleep(400));
        assert_eq!(cycle.step(500, 0), Step::Burn);
        assert_eq!(cycle.step(4_000_500, 3_500_000), Step::Sleep(6_000_000));
        cycle.set_busy_ns(1_000_000);
        assert_eq!(cycle.step(PERIOD_NS + 500, 3_500_000), Step::Burn);
        assert_eq!(cycle.step(PERIOD_NS + 501, 4_500_000), Step::Sleep(PERIOD_NS - 1));
    }

    #[test]
    fn steering_makes_room_for_what_else_runs() {
        let mut steering = Steering::new(0, 35);
        // Others use 4 % of this CPU.
        let mut rounds = 0;
        while !steering.correct(steering.worker_percent() + 4.0) {
            rounds += 1;
        }
        assert_eq!(rounds, 1);
        assert_eq!((steering.worker_percent(), steering.found_percent), (31.0, 35.0));
        assert_eq!(steering.busy_ns(PERIOD_NS), 3_100_000);
    }

    #[test]
    fn a_cpu_that_others_take_leaves_the_worker_as_it_was_asked() {
        let mut steering = Steering::new(0, 35);
        assert!(!steering.correct(99.0));
        assert_eq!((steering.worker_percent(), steering.found_percent), (35.0, 99.0));
    }
}
