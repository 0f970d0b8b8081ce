//! What the kernel counts for one end, read around the measured region and never inside.
//!
//! **Invariants:** each reading asks once for the resource use, and nothing else in a process does.
//! `profile/tally.rs` knows the region by it.

use nearcall_os::clock::Clock;
use nearcall_os::counters::{self, SchedStat, Usage};
use nearcall_os::cpu;
use serde::{Deserialize, Serialize};

use crate::exchange::Failure;
use crate::run::EndCounts;

/// One reading.
pub(crate) struct Counts {
    usage: Usage,
    cpu_ns: u64,
    sched: Option<SchedStat>,
    migrations: Option<u64>,
}

/// What was used up to the end of a region.
pub(crate) struct Stopped {
    cpu_ns: u64,
    usage: Usage,
}

/// What one end used and did inside the measured region.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// Faults, switches, migrations, times.
    pub(crate) counts: EndCounts,
    /// User and system time, exact.
    pub(crate) cpu_ns: u64,
    /// Time ready to run but without a CPU.
    pub(crate) run_delay_ns: Option<u64>,
    /// Depends on every byte that was read.
    pub(crate) digest: u64,
    /// Messages that were received.
    pub(crate) received: u64,
    /// Where it ran at the end.
    pub(crate) cpu: usize,
}

impl EndReport {
    /// Adds what a later region used and did.
    pub(crate) fn add(&mut self, later: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let (counts, more) = (&mut self.counts, &later.counts);
        counts.minor_faults = sum(counts.minor_faults, more.minor_faults);
        counts.major_faults = sum(counts.major_faults, more.major_faults);
        counts.voluntary_switches = sum(counts.voluntary_switches, more.voluntary_switches);
        counts.involuntary_switches = sum(counts.involuntary_switches, more.involuntary_switches);
        counts.migrations = sum(counts.migrations, more.migrations);
        counts.user_ns = sum(counts.user_ns, more.user_ns);
        counts.system_ns = sum(counts.system_ns, more.system_ns);
        self.run_delay_ns = sum(self.run_delay_ns, later.run_delay_ns);
        self.cpu_ns += later.cpu_ns;
        self.received += later.received;
        self.digest ^= later.digest;
        self.cpu = later.cpu;
    }
}

impl Counts {
    /// Before the region: what allocates comes first.
    pub(crate) fn before() -> Result<Self, Failure> {
        let sched = counters::thread_schedstat();
        let migrations = counters::thread_migrations();
        let usage = counters::process_usage()?;
        Ok(Self { usage, cpu_ns: Clock::ProcessCpu.read_ns(), sched, migrations })
    }

    /// The end of the region: what was used since `self`. Reads no file: the other end may wait.
    pub(crate) fn stop(&self) -> Result<Stopped, Failure> {
        let cpu_ns = Clock::ProcessCpu.read_ns().saturating_sub(self.cpu_ns);
        Ok(Stopped { cpu_ns, usage: counters::process_usage()?.since(self.usage) })
    }

    /// After the region: what was used since `self`.
    pub(crate) fn report(&self, digest: u64, received: u64) -> Result<EndReport, Failure> {
        Ok(self.report_of(&self.stop()?, digest, received))
    }

    /// What was used until the region was stopped; the rest is read now.
    pub(crate) fn report_of(&self, stopped: &Stopped, digest: u64, received: u64) -> EndReport {
        let Stopped { cpu_ns, usage } = *stopped;
        let cpu = cpu::current_cpu();
        let sched = counters::thread_schedstat();
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let counts = EndCounts {
            minor_faults: Some(usage.minor_faults),
            major_faults: Some(usage.major_faults),
            voluntary_switches: Some(usage.voluntary_switches),
            involuntary_switches: Some(usage.involuntary_switches),
            migrations: grown(counters::thread_migrations(), self.migrations),
            user_ns: Some(usage.user_ns),
            system_ns: Some(usage.system_ns),
        };
        let run_delay_ns = grown(sched.map(|s| s.wait_ns), self.sched.map(|s| s.wait_ns));
        EndReport { counts, cpu_ns, run_delay_ns, digest, received, cpu }
    }
}
