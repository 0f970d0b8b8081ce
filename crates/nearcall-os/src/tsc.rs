#![allow(unsafe_code, reason = "reads the processor's counter")]
//! The processor's time stamp counter (TSC), where it can be trusted as a clock.
//!
//! **Invariants:** a [`Tsc`] exists only where the counter runs at a constant speed, in every sleep
//! state, in step on all processors (the kernel uses it as its own clock), and where it agreed with
//! `CLOCK_MONOTONIC_RAW` in repeated calibration.
//! **Not here:** the kernel's clocks (`clock.rs`).

use std::time::Duration;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::clock;

/// A calibrated counter. Copying it is free.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    /// Nanoseconds per tick, times 2 to the power of `NS_SHIFT`.
    ns_per_tick: u64,
    ticks_per_ms: u64,
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    never: std::convert::Infallible,
}

/// The end of an interval: the counter, and on which processor it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscStop {
    /// The counter.
    pub ticks: u64,
    /// Number of the processor. Two stops with different ones: the thread has moved.
    pub cpu: u32,
}

/// The reason why the counter cannot be used. Use the clock of the kernel instead.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum TscRefusal {
    /// The processor has none (not x86-64).
    #[error("no time stamp counter on this architecture")]
    NoCounter,
    /// A processor lacks this flag in `/proc/cpuinfo`.
    #[error("a processor lacks {0}")]
    MissingFlag(&'static str),
    /// The kernel itself does not trust it, and uses this clock instead.
    #[error("the kernel's clock source is {0}, not tsc")]
    ClockSource(String),
    /// `/proc/cpuinfo` or the clock source could not be read.
    #[error("the processor's description cannot be read")]
    Unreadable,
    /// Calibrations differ by more than 0.1 %: that many parts per million.
    #[error("calibrations differ by {0} parts per million")]
    Unsteady(u64),
}

impl Tsc {
    /// Checks and calibrates the counter. Takes a quarter of a second, mostly asleep.
    ///
    /// # Errors
    ///
    /// The reason why the counter cannot be trusted here.
    pub fn calibrate() -> Result<Self, TscRefusal> {
        Self::calibrate_with(REPEAT)
    }

    /// As for [`calibrate`](Self::calibrate), with five repeats of `repeat` each. For tests; below
    /// 20 ms each the result is no base for published numbers.
    ///
    /// # Errors
    ///
    /// The reason why the counter cannot be trusted here.
    pub fn calibrate_with(repeat: Duration) -> Result<Self, TscRefusal> {
        let read = |path| std::fs::read_to_string(path).map_err(|_| TscRefusal::Unreadable);
        if cfg!(not(all(target_arch = "x86_64", not(miri)))) {
            return Err(TscRefusal::NoCounter);
        }
        check_machine(&read("/proc/cpuinfo")?, &read(CLOCK_SOURCE_PATH)?)?;
        Self::calibrate_unjudged(repeat)
    }

    /// The result of the calibration, for [`from_calibration`](Self::from_calibration) in another
    /// process of this machine.
    #[must_use]
    pub fn calibration(&self) -> [u64; 2] {
        [self.ns_per_tick, self.ticks_per_ms]
    }

    /// The counter as another process of this machine has calibrated it since the last boot.
    /// Checks the machine again; takes no time otherwise.
    ///
    /// # Errors
    ///
    /// The reason why the counter cannot be trusted here.
    pub fn from_calibration(calibration: [u64; 2]) -> Result<Self, TscRefusal> {
        let read = |path| std::fs::read_to_string(path).map_err(|_| TscRefusal::Unreadable);
        if cfg!(not(all(target_arch = "x86_64", not(miri)))) {
            return Err(TscRefusal::NoCounter);
        }
        check_machine(&read("/proc/cpuinfo")?, &read(CLOCK_SOURCE_PATH)?)?;
        Self::calibrated_elsewhere(calibration)
    }

    /// Nanoseconds of `ticks` ticks. One multiplication, exact to the calibration.
    #[must_use]
    #[inline]
    pub fn to_ns(&self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.ns_per_tick)) >> NS_SHIFT;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Speed of the counter, in ticks per millisecond (kHz).
    #[must_use]
    pub fn ticks_per_ms(&self) -> u64 {
        self.ticks_per_ms
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Tsc {
    /// The counter at the start of an interval: read after everything before has finished, and
    /// before anything after begins.
    #[must_use]
    #[inline(always)]
    pub fn start(&self) -> u64 {
        read_start()
    }

    /// The counter at the end of an interval: read after everything before has finished.
    #[must_use]
    #[inline(always)]
    pub fn stop(&self) -> TscStop {
        read_stop()
    }

    fn calibrated_elsewhere([ns_per_tick, ticks_per_ms]: [u64; 2]) -> Result<Self, TscRefusal> {
        Ok(Self { ns_per_tick, ticks_per_ms })
    }

    fn calibrate_unjudged(repeat: Duration) -> Result<Self, TscRefusal> {
        let first = Sample::take();
        let mut last = first;
        let (mut slowest, mut fastest) = (u64::MAX, 0);
        for _ in 0..REPEATS {
            clock::pause(repeat);
            let next = Sample::take();
            let (ticks, ns) = next.since(last);
            let rate = ticks_per_ms(ticks, ns);
            (slowest, fastest) = (slowest.min(rate), fastest.max(rate));
            last = next;
        }
        let spread_ppm = (fastest - slowest).saturating_mul(1_000_000) / slowest.max(1);
        if slowest == 0 || spread_ppm > SPREAD_PPM_MAX {
            return Err(TscRefusal::Unsteady(spread_ppm));
        }
        let (ticks, ns) = last.since(first);
        let ns_per_tick = (u128::from(ns) << NS_SHIFT) / u128::from(ticks.max(1));
        let ns_per_tick = u64::try_from(ns_per_tick).map_err(|_| TscRefusal::Unsteady(u64::MAX))?;
        Ok(Self { ns_per_tick, ticks_per_ms: ticks_per_ms(ticks, ns) })
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Tsc {
    /// Cannot be called: no `Tsc` exists on this machine.
    #[must_use]
    pub fn start(&self) -> u64 {
        match self.never {}
    }

    /// Cannot be called: no `Tsc` exists on this machine.
    #[must_use]
    pub fn stop(&self) -> TscStop {
        match self.never {}
    }

    fn calibrated_elsewhere(_calibration: [u64; 2]) -> Result<Self, TscRefusal> {
        Err(TscRefusal::NoCounter)
    }

    fn calibrate_unjudged(_repeat: Duration) -> Result<Self, TscRefusal> {
        Err(TscRefusal::NoCounter)
    }
}

/// Judges the text of `/proc/cpuinfo` and of the kernel's current clock source.
///
/// # Errors
///
/// The first reason against the counter.
pub fn check_machine(cpuinfo: &str, clock_source: &str) -> Result<(), TscRefusal> {
    let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut processors = 0;
    for (_, flags) in lines.filter(|(key, _)| key.trim() == "flags") {
        processors += 1;
        for needed in FLAGS_NEEDED {
            if !flags.split_whitespace().any(|flag| flag == needed) {
                return Err(TscRefusal::MissingFlag(needed));
            }
        }
    }
    if processors == 0 {
        return Err(TscRefusal::Unreadable);
    }
    match clock_source.trim() {
        "tsc" => Ok(()),
        other => Err(TscRefusal::ClockSource(other.to_owned())),
    }
}

/// Both counters at one moment.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy)]
struct Sample {
    ticks: u64,
    raw_ns: u64,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Sample {
    /// Of some tries the one during which the least time passed, so that nothing interrupted it.
    fn take() -> Self {
        let mut best = Self { ticks: 0, raw_ns: 0 };
        let mut best_width = u64::MAX;
        for _ in 0..SAMPLE_TRIES {
            let before = read_start();
            let raw_ns = clock::monotonic_raw_ns();
            let width = read_stop().ticks.saturating_sub(before);
            if width < best_width {
                (best_width, best) = (width, Self { ticks: before + width / 2, raw_ns });
            }
        }
        best
    }

    /// Ticks and nanoseconds since an earlier sample. A counter that went back gives zero, which
    /// no calibration agrees with.
    fn since(self, earlier: Self) -> (u64, u64) {
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        (ticks, self.raw_ns.saturating_sub(earlier.raw_ns))
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn read_start() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: writes two registers, which are declared; every x86-64 processor has the
    // instructions. Not `nomem`: the compiler moves no memory access across it.
    unsafe {
        std::arch::asm!(
            "lfence", "rdtsc", "lfence",
            out("rax") low, out("rdx") high, options(nostack, preserves_flags)
        );
    }
    high << 32 | low
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn read_stop() -> TscStop {
    let (low, high): (u64, u64);
    let aux: u32;
    // SAFETY: writes three registers, which are declared. `check` demands the flag `rdtscp` of
    // every processor before anything here is called.
    unsafe {
        std::arch::asm!(
            "rdtscp", "lfence",
            out("rax") low, out("rdx") high, out("ecx") aux, options(nostack, preserves_flags)
        );
    }
    TscStop { ticks: high << 32 | low, cpu: aux & AUX_CPU_MASK }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn ticks_per_ms(ticks: u64, ns: u64) -> u64 {
    let rate = u128::from(ticks) * 1_000_000 / u128::from(ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The flags that a processor must have: constant speed, no stop in sleep states, RDTSCP.
const FLAGS_NEEDED: [&str; 3] = ["constant_tsc", "nonstop_tsc", "rdtscp"];

const CLOCK_SOURCE_PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Fraction bits of `ns_per_tick`. An hour of ticks is then off by less than a nanosecond through
/// rounding, and every product fits 128 bits.
const NS_SHIFT: u32 = 48;

/// Calibrations that must agree.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const REPEATS: u32 = 5;

/// Length of one calibration. Five of them are 250 ms, of which 100 are the least for a rate.
const REPEAT: Duration = Duration::from_millis(50);

/// Largest difference between calibrations, in parts per million: 0.1 %.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SPREAD_PPM_MAX: u64 = 1000;

/// Tries per sample. An interrupt hits a few of them at most.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SAMPLE_TRIES: u32 = 20;

/// Linux keeps the processor's number in the low 12 bits of what `rdtscp` gives.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const AUX_CPU_MASK: u32 = 0xfff;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "processor\t: 0\nflags\t\t: fpu tsc rdtscp constant_tsc nonstop_tsc\n\n\
                        processor\t: 1\nflags\t\t: fpu tsc rdtscp constant_tsc nonstop_tsc\n";

    #[track_caller]
    fn check(cpuinfo: &str, clock_source: &str, expected: Result<(), TscRefusal>) {
        assert_eq!(check_machine(cpuinfo, clock_source), expected);
    }

    #[test]
    fn a_constant_nonstop_counter_is_accepted() {
        check(GOOD, "tsc\n", Ok(()));
    }

    #[test]
    fn one_processor_without_a_flag_is_enough_to_refuse() {
        let forged = GOOD.trim_end().trim_end_matches("nonstop_tsc");
        check(forged, "tsc", Err(TscRefusal::MissingFlag("nonstop_tsc")));
        let forged = GOOD.replacen("constant_tsc", "constant_tsc_not", 1);
        check(&forged, "tsc", Err(TscRefusal::MissingFlag("constant_tsc")));
        let forged = GOOD.replace("rdtscp", "");
        check(&forged, "tsc", Err(TscRefusal::MissingFlag("rdtscp")));
    }

    #[test]
    fn a_kernel_that_uses_another_clock_is_believed() {
        check(GOOD, "kvm-clock\n", Err(TscRefusal::ClockSource("kvm-clock".to_owned())));
    }

    #[test]
    fn text_without_flags_is_unreadable() {
        check("Processor : ARMv8\nFeatures : fp asimd\n", "tsc", Err(TscRefusal::Unreadable));
    }
}
