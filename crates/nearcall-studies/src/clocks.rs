//! Compares clock_gettime, gettimeofday and the processor's counter (TSC), as two studies did.
//!
//! Each clock's overhead (100,000 readings back to back), resolution (two ways), error over sleeps
//! of known length, and agreement over the same busy spans.
//! **Invariants:** what compares clocks reads all of them at the same moments; the counter is left
//! out, with the reason, where it cannot be trusted, and the rest still works. The caller's thread
//! is pinned meanwhile. Judgements are pure and tested with invented clocks.
//! **Not here:** which clock times a run (`timers.rs`), the table (`report/table/clocks.rs`).

mod accuracy;
mod agreement;
mod overhead;
mod reader;
mod resolution;

use nearcall_os::clock::{self, Clock};
use nearcall_os::cpu;
use nearcall_os::tsc::{Tsc, TscRefusal};

use crate::machine;

pub use nearcall_results::findings::clocks::{
    ClockFinding, ClockFindings, ClockName, Disagreement, Interval, Overhead, SCHEMA, SleepError,
    SleepFinding, SpanFinding,
};
use reader::{Counter, Gettimeofday, Monotonic, Read};

/// How to measure.
#[derive(Clone, Copy)]
pub struct ClockOptions<'a> {
    /// Give up accuracy for speed: about a second instead of four.
    pub quick: bool,
    /// Told before each step and after the last: steps done, steps in all, what is next.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

impl ClockOptions<'_> {
    /// Everything, without reports of the progress.
    #[must_use]
    pub fn whole() -> Self {
        Self { quick: false, progress: &|_, _, _| {} }
    }
}

/// Measures the clocks of this machine. Blocks for about four seconds, a second if quick.
///
/// Ends early once `interrupted` says so; what was measured until then is there, and the findings
/// are marked as partial.
#[must_use]
pub fn measure(how: &ClockOptions<'_>, interrupted: &dyn Fn() -> bool) -> ClockFindings {
    measure_with(how, &Tsc::calibrate(), interrupted)
}

/// As [`measure`], with a counter that was calibrated before, or a reason against it.
#[must_use]
pub fn measure_with(
    how: &ClockOptions<'_>,
    tsc: &Result<Tsc, TscRefusal>,
    interrupted: &dyn Fn() -> bool,
) -> ClockFindings {
    let allowed = cpu::allowed();
    let mut found = ClockFindings {
        schema: SCHEMA.to_owned(),
        tool: machine::tool(),
        machine: machine::read(),
        started_unix_s: clock::realtime_ns() / NS_PER_S,
        quick: how.quick,
        ..ClockFindings::default()
    };
    // Interrupts mostly go to the first CPU.
    let pinned = allowed.last().and_then(|&cpu| Pinned::to(cpu, &allowed, &mut found));
    let mut steps = Steps { how, interrupted, done: 0 };
    found.partial = measure_all(&mut steps, tsc, &mut found).err();
    (how.progress)(STEPS, STEPS, "");
    drop(pinned);
    found
}

fn measure_all(
    steps: &mut Steps<'_>,
    tsc: &Result<Tsc, TscRefusal>,
    found: &mut ClockFindings,
) -> Result<(), String> {
    let readings = if steps.how.quick { READINGS_QUICK } else { READINGS };
    steps.next("clock_gettime")?;
    let stated_ns = clock::stated_resolution_ns(Clock::Monotonic) as f64;
    let clock_gettime = finding(ClockName::ClockGettime, &Monotonic, stated_ns, readings);
    steps.next("gettimeofday")?;
    // It states nothing; its unit is what it can tell.
    let gettimeofday = finding(ClockName::Gettimeofday, &Gettimeofday, NS_PER_US, readings);
    steps.next("tsc")?;
    let tsc_finding = match tsc {
        Ok(tsc) => {
            let counter = Counter(*tsc);
            finding(ClockName::Tsc, &counter, counter.unit_ns(), readings)
        }
        Err(refusal) => ClockFinding::unusable(ClockName::Tsc, refusal.to_string()),
    };
    let counter_step_ns = tsc_finding.granularity_ns;
    found.clocks = vec![clock_gettime, gettimeofday, tsc_finding];
    if let (Some(own), Some(counter)) = (&mut found.clocks[0].granularity_ns, counter_step_ns) {
        // The kernel computes nanoseconds from the counter: smaller steps come from rounding.
        *own = own.max(counter);
    }
    let tsc = tsc.as_ref().ok().copied();
    let (sleeps, spans) = match steps.how.quick {
        true => (&accuracy::SLEEPS_QUICK[..], &agreement::SPANS_QUICK[..]),
        false => (&accuracy::SLEEPS[..], &agreement::SPANS[..]),
    };
    steps.next("sleeps of known length")?;
    for &(asked_us, count) in sleeps {
        found.sleeps.extend(accuracy::measure(asked_us, count, tsc, steps.interrupted));
        steps.check()?;
    }
    steps.next("the same spans by all clocks")?;
    for &(span_ns, count) in spans {
        let finding = agreement::measure(span_ns, count, tsc, &found.clocks, steps.interrupted);
        found.agreement.extend(finding);
        steps.check()?;
    }
    Ok(())
}

/// What one clock costs and divides.
fn finding(name: ClockName, reader: &impl Read, stated_ns: f64, readings: usize) -> ClockFinding {
    let batch_ns = clock::measure_with(|| reader.read_ns()).overhead_ns;
    let granularity_ns = resolution::step_ns(reader, &resolution::increments);
    ClockFinding {
        name,
        unusable: None,
        overhead: overhead::measure(reader, readings, granularity_ns, Some(batch_ns)),
        stated_resolution_ns: Some(stated_ns),
        granularity_ns,
        smallest_run: resolution::smallest_run(reader, granularity_ns, &resolution::increments),
        shrunk: resolution::shrunk(reader, &resolution::increments),
    }
}

/// What is done, and whether to go on.
struct Steps<'a> {
    how: &'a ClockOptions<'a>,
    interrupted: &'a dyn Fn() -> bool,
    done: usize,
}

impl Steps<'_> {
    fn next(&mut self, what: &str) -> Result<(), String> {
        (self.how.progress)(self.done, STEPS, what);
        self.done += 1;
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        if (self.interrupted)() { Err("interrupted".to_owned()) } else { Ok(()) }
    }
}

/// The calling thread on one CPU; where it was allowed before, once this is dropped.
struct Pinned<'a>(&'a [usize]);

impl<'a> Pinned<'a> {
    fn to(cpu: usize, allowed: &'a [usize], found: &mut ClockFindings) -> Option<Self> {
        match cpu::pin_current(cpu) {
            Ok(()) => {
                found.cpu = u32::try_from(cpu).ok();
                Some(Self(allowed))
            }
            Err(error) => {
                found.warnings.push(format!("not pinned to one CPU: {error}"));
                None
            }
        }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // It worked before; if the set has changed meanwhile, the thread stays where it may run.
        let _ = cpu::unpin_current(self.0);
    }
}

/// As study 002.
const READINGS: usize = 100_000;

/// With `quick`.
const READINGS_QUICK: usize = 20_000;

/// Those of `measure_all`.
const STEPS: usize = 5;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: f64 = 1_000.0;

#[cfg(test)]
mod tests;
