//! Makes the machine record of a run of the system's files.
//!
//! **Invariants:** what cannot be found out is "unknown" or `None`, never an error and never a
//! guess. Each part is a pure function of [`SystemFiles`]. What the fields mean is in
//! `run/machine.rs`; whether they are good for measuring is judged in `doctor.rs`.

pub mod kernel;
pub mod limits;
pub mod processor;
pub mod surroundings;

use crate::run::{Machine, MachineState, UNKNOWN};
use crate::system_files::SystemFiles;

/// What is not in these files.
#[derive(Clone, Debug, Default)]
pub struct Stated {
    /// The size of a page.
    pub page_bytes: Option<u64>,
    /// The step of the coarse clocks, in nanoseconds: 1/HZ.
    pub tick_ns: Option<u64>,
    /// The CPU quota of this process, in words.
    pub cpu_quota: Option<String>,
}

/// Describes the machine that has these files. Sets the id.
#[must_use]
pub fn from_files(files: &SystemFiles, stated: Stated) -> Machine {
    let cpuinfo = files.text("/proc/cpuinfo").unwrap_or_default();
    let topology = processor::topology(files);
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let frequency = |name: &str| files.number(&format!("{CPU}/cpu0/cpufreq/{name}"));
    let clocksource = files.line(CLOCKSOURCE);
    let mut machine = Machine {
        id: UNKNOWN.to_owned(),
        cpu_model: known(processor::model(&cpuinfo)),
        architecture: std::env::consts::ARCH.to_owned(),
        microcode: known(processor::field(&cpuinfo, "microcode")),
        cpus: u32::try_from(topology.cpus.len()).ok().filter(|&cpus| cpus > 0),
        topology: known(processor::topology_words(&topology)),
        caches: processor::caches(files, &topology),
        numa_nodes: processor::numa_nodes(files),
        memory_bytes: kernel::meminfo_bytes(files, "MemTotal"),
        page_bytes: stated.page_bytes,
        kernel: known(kernel::release(files)),
        kernel_command_line: known(files.line("/proc/cmdline")),
        kernel_config: kernel::config(files, stated.tick_ns),
        mitigations: kernel::mitigations(files),
        tsc_invariant: processor::tsc_invariant(&cpuinfo),
        governor: known(processor::governor(files, &topology)),
        boost: processor::boost(files),
        frequency_min_khz: frequency("cpuinfo_min_freq"),
        frequency_max_khz: frequency("cpuinfo_max_freq"),
        idle_states: processor::idle_states(files),
        huge_pages: known(kernel::huge_pages(files)),
        hypervisor: known(surroundings::hypervisor(files, &cpuinfo)),
        container: known(surroundings::container(files)),
        cpu_quota: known(stated.cpu_quota),
        allowed_cpus: known(kernel::status_field(files, "Cpus_allowed_list")),
        limits: limits::limits(files),
        state: state(files),
        clocksource: known(clocksource),
    };
    machine.set_id();
    machine
}

/// What changes from run to run.
fn state(files: &SystemFiles) -> MachineState {
    let first = |path: &str| files.line(path)?.split_ascii_whitespace().next().map(str::to_owned);
    let averages = |text: String| -> Option<[f64; 3]> {
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
        Some([fields.next()??, fields.next()??, fields.next()??])
    };
    MachineState {
        host_name: first("/proc/sys/kernel/hostname").unwrap_or_else(|| UNKNOWN.to_owned()),
        load_average: files.line("/proc/loadavg").and_then(averages),
        memory_available_bytes: kernel::meminfo_bytes(files, "MemAvailable"),
        uptime_s: first("/proc/uptime").and_then(|text| text.split('.').next()?.parse().ok()),
        idle_held: None,
    }
}

const CPU: &str = "/sys/devices/system/cpu";
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[cfg(test)]
mod tests;
