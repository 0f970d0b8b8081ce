//! The only reader of clocks, and the only sleep.
//!
//! **Invariants:** everything that waits or measures uses monotonic time; wall time is only for
//! stamps that people read.
//! **Not here:** the processor's own counter (`tsc.rs`).
//!
//! **Invariant:** only `clock.rs` and `tsc.rs` read a clock, and only `clock.rs` sleeps. *Checked
//! by* `clippy.toml`.

mod time_of_day;

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

pub use time_of_day::time_of_day_us;

use crate::seam;

/// A clock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Monotonic, its speed corrected by NTP. Timeouts count in it.
    Monotonic,
    /// Monotonic, never corrected. Other counters are calibrated against it.
    MonotonicRaw,
    /// Monotonic as of the last timer tick: cheap, some milliseconds coarse.
    MonotonicCoarse,
    /// Wall time, which may jump.
    Realtime,
    /// Wall time as of the last timer tick.
    RealtimeCoarse,
    /// Processor time of the calling thread.
    ThreadCpu,
    /// Processor time of the process.
    ProcessCpu,
}

impl Clock {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 7] = [
        Self::Monotonic,
        Self::MonotonicRaw,
        Self::MonotonicCoarse,
        Self::Realtime,
        Self::RealtimeCoarse,
        Self::ThreadCpu,
        Self::ProcessCpu,
    ];

    /// The name in stored runs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::MonotonicRaw => "monotonic_raw",
            Self::MonotonicCoarse => "monotonic_coarse",
            Self::Realtime => "realtime",
            Self::RealtimeCoarse => "realtime_coarse",
            Self::ThreadCpu => "thread_cpu",
            Self::ProcessCpu => "process_cpu",
        }
    }

    /// Reads the clock, in nanoseconds. No allocation; the processor-time clocks cost a system
    /// call, the others do not on usual machines.
    #[must_use]
    #[inline]
    pub fn read_ns(self) -> u64 {
        read_ns(self.id())
    }

    #[inline]
    fn id(self) -> ClockId {
        match self {
            Self::Monotonic => ClockId::Monotonic,
            Self::MonotonicRaw => ClockId::MonotonicRaw,
            Self::MonotonicCoarse => ClockId::MonotonicCoarse,
            Self::Realtime => ClockId::Realtime,
            Self::RealtimeCoarse => ClockId::RealtimeCoarse,
            Self::ThreadCpu => ClockId::ThreadCPUTime,
            Self::ProcessCpu => ClockId::ProcessCPUTime,
        }
    }
}

/// Returns the resolution of a clock that the kernel states, in nanoseconds: the timer tick, 1/HZ,
/// for the coarse clocks, and 1 for the others, whatever the hardware does.
#[must_use]
pub fn stated_resolution_ns(clock: Clock) -> u64 {
    let time = clock_getres(clock.id());
    time.tv_sec.unsigned_abs() * NS_PER_S.unsigned_abs() + time.tv_nsec.unsigned_abs()
}

/// The cost of reading a clock, and its granularity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockCost {
    /// Nanoseconds one reading takes.
    pub overhead_ns: f64,
    /// Smallest step seen between two readings, in nanoseconds; `None` if the clock did not move
    /// while it was watched.
    pub granularity_ns: Option<u64>,
}

/// Measures one clock. Keeps the processor busy for about a millisecond, for a coarse clock for
/// about 20.
#[must_use]
pub fn measure(clock: Clock) -> ClockCost {
    measure_with(|| clock.read_ns())
}

/// Measures whatever `read` reads, for clocks that are not the kernel's. `read` returns
/// nanoseconds and never goes back.
#[must_use]
pub fn measure_with(mut read: impl FnMut() -> u64) -> ClockCost {
    let mut overhead_ns = f64::INFINITY;
    for _ in 0..OVERHEAD_BATCHES {
        let start = monotonic_ns();
        for _ in 0..OVERHEAD_BATCH_READS {
            std::hint::black_box(read());
        }
        let batch_ns = monotonic_ns().saturating_sub(start);
        // The fastest batch is the one that nothing interrupted.
        overhead_ns = overhead_ns.min(batch_ns as f64 / f64::from(OVERHEAD_BATCH_READS));
    }
    ClockCost { overhead_ns, granularity_ns: smallest_step_ns(&mut read) }
}

fn smallest_step_ns(read: &mut impl FnMut() -> u64) -> Option<u64> {
    let give_up = monotonic_ns().saturating_add(GRANULARITY_WATCH_NS_MAX);
    let mut smallest = None;
    let mut last = read();
    for _ in 0..GRANULARITY_STEPS {
        let next = loop {
            let next = read();
            if next != last {
                break next;
            }
            if monotonic_ns() >= give_up {
                return smallest;
            }
        };
        let step = next.saturating_sub(last);
        smallest = Some(smallest.map_or(step, |known: u64| known.min(step)));
        last = next;
    }
    smallest
}

/// The time now, to compute deadlines with. No system call on usual machines.
#[must_use]
#[inline]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Instant {
    #[cfg(simulation)]
    if let Some(ns) = seam::now_ns() {
        // Any instant will do as the beginning, if it is one for the whole process.
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        return *START.get_or_init(Instant::now) + Duration::from_nanos(ns);
    }
    Instant::now()
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
#[inline]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`.
#[must_use]
#[inline]
pub fn monotonic_raw_ns() -> u64 {
    read_ns(ClockId::MonotonicRaw)
}

/// Nanoseconds since 1970. For stamps in files; never for measuring or waiting.
#[must_use]
pub fn realtime_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Processor time that the calling thread has used, in nanoseconds. One system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Processor time that the whole process has used, in nanoseconds. One system call.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// Sleeps for `duration`, also when signals arrive. It cannot be woken.
pub fn pause(duration: Duration) {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    pause_until(monotonic_ns().saturating_add(ns));
}

/// Sleeps until `CLOCK_MONOTONIC` shows `monotonic_ns`, also when signals arrive; not at all if
/// that time has passed. A series of such sleeps does not drift.
pub fn pause_until(monotonic_ns: u64) {
    if seam::pause_until(monotonic_ns) {
        return;
    }
    let ns_per_s = NS_PER_S.unsigned_abs();
    let part = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let end =
        Timespec { tv_sec: part(monotonic_ns / ns_per_s), tv_nsec: part(monotonic_ns % ns_per_s) };
    while let Err(Errno::INTR) = clock_nanosleep_absolute(ClockId::Monotonic, &end) {}
}

/// Sleeps until `CLOCK_MONOTONIC` shows `monotonic_ns`, and looks before, every 50 ms and after
/// whether `is_over`. Returns false once it is.
pub fn pause_unless(monotonic_ns: u64, is_over: &dyn Fn() -> bool) -> bool {
    const STEP_NS: u64 = 50_000_000;
    while !is_over() {
        let now_ns = self::monotonic_ns();
        if now_ns >= monotonic_ns {
            return true;
        }
        pause_until(monotonic_ns.min(now_ns.saturating_add(STEP_NS)));
    }
    false
}

/// Hints to the processor that this is a spin loop.
#[inline(always)]
pub fn spin_hint() {
    std::hint::spin_loop();
}

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    if let Some(ns) = seam::now_ns() {
        return ns;
    }
    let time = clock_gettime(clock);
    // 584 years fit, and the kernel's clocks do not go below zero.
    time.tv_sec.unsigned_abs() * NS_PER_S.unsigned_abs() + time.tv_nsec.unsigned_abs()
}

const NS_PER_S: i64 = 1_000_000_000;

/// Readings per batch: enough that the two outer readings do not count.
const OVERHEAD_BATCH_READS: u32 = 500;

/// Batches per clock: one of them will be undisturbed, also on a busy machine.
const OVERHEAD_BATCHES: u32 = 20;

/// Steps of which the smallest is the granularity.
const GRANULARITY_STEPS: u32 = 200;

/// The time for which a clock is watched, in nanoseconds: two ticks of the slowest usual timer (100
/// Hz).
const GRANULARITY_WATCH_NS_MAX: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_whole_microseconds_is_found_out() {
        let cost = measure_with(|| monotonic_ns() / 1000 * 1000);
        let step = cost.granularity_ns.unwrap();
        assert!(step.is_multiple_of(1000) && step >= 1000, "{step}");
    }

    #[test]
    fn a_coarse_clock_states_the_tick() {
        let tick_ns = stated_resolution_ns(Clock::MonotonicCoarse);
        assert!((500_000..=20_000_000).contains(&tick_ns), "{tick_ns}");
    }

    #[test]
    fn a_clock_that_stands_has_no_granularity() {
        assert_eq!(measure_with(|| 7).granularity_ns, None);
    }
}
