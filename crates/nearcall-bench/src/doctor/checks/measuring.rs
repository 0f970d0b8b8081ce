//! Checks for figures that are to be trusted: CPUs, clocks, sleep states, neighbours.

use nearcall_os::cpu_load::parse_loadavg;
use nearcall_results::machine::limits::sysctl_path;
use nearcall_results::machine::{kernel, processor, surroundings};
use nearcall_results::topology::parse_list;

use super::{Check, note, ok, unknown, warning};
use crate::machine::group;
use crate::report::number::three_digits;

/// In the order in which findings of equal severity are shown.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "cpus_allowed",
        why: "two ends that spin need a CPU each; on one CPU spinning mechanisms are skipped",
        judge: |facts| {
            let Some(list) = kernel::status_field(&facts.files, "Cpus_allowed_list") else {
                return unknown("the allowed CPUs cannot be read");
            };
            match parse_list(&list).unwrap_or_default().len() {
                1 => warning(
                    format!("only CPU {list} may be used"),
                    "allow a second CPU: taskset, cpuset, or the CPUs of the container or machine",
                ),
                _ => ok(format!("CPUs {list}")),
            }
        },
    },
    Check {
        name: "cpu_quota",
        why: "a control group that has used up its time stands still for tens of milliseconds",
        judge: |facts| match group::cpu_quota(&facts.files) {
            None => unknown("the control group cannot be seen"),
            Some(quota) => match quota.cpus() {
                None => ok("no quota"),
                Some(cpus) => {
                    let found = format!("{} CPUs ({quota} µs)", three_digits(cpus));
                    let advice = "measure without a quota (docker: no --cpus, but --cpuset-cpus)";
                    if cpus < 2.0 { warning(found, advice) } else { note(found, advice) }
                }
            },
        },
    },
    Check {
        name: "load",
        why: "other programs take the CPU in the middle of an exchange",
        judge: |facts| {
            let queue = facts.files.line("/proc/loadavg").and_then(|line| parse_loadavg(&line));
            let Some(queue) = queue else { return unknown("the load cannot be read") };
            let cpus = processor::topology(&facts.files).cpus.len().max(1);
            let found = format!("{} on {cpus} CPUs over one minute", three_digits(queue.load_1min));
            if queue.load_1min > cpus as f64 * LOAD_SHARE_MAX {
                return warning(found, "end other programs, or wait, before measuring");
            }
            ok(found)
        },
    },
    Check {
        name: "steal",
        why: "the hypervisor gives our CPU to others without telling the program",
        judge: |facts| {
            let sum = |of: fn(&nearcall_os::cpu_load::CpuTimes) -> u64| {
                facts.cpu_times.iter().map(of).fold(0_u64, u64::saturating_add)
            };
            let (steal, used) = (sum(|times| times.steal), sum(|times| times.busy));
            if facts.cpu_times.is_empty() {
                return unknown("/proc/stat cannot be read");
            }
            let percent = steal as f64 * 100.0 / (steal.saturating_add(used)).max(1) as f64;
            let found = format!("{percent:.1} % of the time wanted since boot");
            match percent {
                percent if percent > STEAL_PERCENT_BAD => {
                    warning(found, "take a machine with dedicated CPUs; trust medians only")
                }
                percent if percent > STEAL_PERCENT_NONE => note(found, "trust medians, not means"),
                _ => ok(found),
            }
        },
    },
    Check {
        name: "governor",
        why: "a CPU that is clocked down while idle makes short exchanges slow and uneven",
        judge: |facts| {
            let topology = processor::topology(&facts.files);
            match processor::governor(&facts.files, &topology).as_deref() {
                None => unknown("the machine does not say; usual on virtual machines"),
                Some("performance") => ok("performance"),
                Some(other) => warning(other, "cpupower frequency-set -g performance"),
            }
        },
    },
    Check {
        name: "boost",
        why: "a clock above the nominal one depends on temperature and on the other cores",
        judge: |facts| match processor::boost(&facts.files) {
            None => unknown("the machine does not say"),
            Some(false) => ok("off"),
            Some(true) => note(
                "on",
                "for repeatable figures: echo 0 > /sys/devices/system/cpu/cpufreq/boost, or \
                 no_turbo=1",
            ),
        },
    },
    Check {
        name: "idle_states",
        why: "waking a sleeper out of a deep state adds that state's latency to each exchange",
        judge: |facts| {
            let states = processor::idle_states(&facts.files);
            let deepest = states.iter().filter_map(|state| {
                let us = state.strip_suffix(" µs")?.rsplit_once(' ')?.1.parse::<u64>().ok()?;
                Some((us, state))
            });
            match deepest.max_by_key(|(us, _)| *us) {
                Some((us, state)) if us > IDLE_US_MAX => note(
                    format!("the deepest is {state}"),
                    "hold /dev/cpu_dma_latency at 0 while measuring, or cpupower idle-set -D 10",
                ),
                _ if states.is_empty() => unknown("the machine does not say"),
                _ => ok(states.join(", ")),
            }
        },
    },
    Check {
        name: "smt",
        why: "two hardware threads of one core share its units: another cost than two cores",
        judge: |facts| {
            let topology = processor::topology(&facts.files);
            let shared =
                |cpu: &nearcall_results::topology::Cpu| Some(cpu.smt_siblings.as_ref()?.len() > 1);
            let Some(shared) = topology.cpus.iter().map(shared).collect::<Option<Vec<_>>>() else {
                return unknown("the machine does not say which CPUs share a core");
            };
            match (shared.is_empty(), shared.contains(&true)) {
                (true, _) => unknown("the machine does not say which CPUs share a core"),
                (false, false) => ok("each CPU is a core of its own"),
                (false, true) => note(
                    processor::topology_words(&topology).unwrap_or_else(|| "on".to_owned()),
                    "choose the CPUs by --pin, and read the placement class beside each figure",
                ),
            }
        },
    },
    Check {
        name: "clocksource",
        why: "other clocks cost a system call or more each time they are read",
        judge: |facts| {
            let source = facts
                .files
                .line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
            match source.as_deref() {
                None => unknown("the clock source cannot be read"),
                Some(good @ ("tsc" | "arch_sys_counter")) => ok(good),
                Some(fair @ ("kvm-clock" | "hyperv_clocksource_tsc_page")) => note(
                    fair,
                    "read without a system call, but the TSC itself is not used; tsc=reliable may \
                     help",
                ),
                Some(slow) => warning(
                    slow,
                    "boot with tsc=reliable if the TSC is good, and see the kernel's log",
                ),
            }
        },
    },
    Check {
        name: "tsc",
        why: "only a counter of constant speed that never stops can time an exchange",
        judge: |facts| {
            let cpuinfo = facts.files.text("/proc/cpuinfo").unwrap_or_default();
            match processor::tsc_invariant(&cpuinfo) {
                None => unknown("this processor has no flags for it"),
                Some(true) => ok("constant, and never stops"),
                Some(false) => note(
                    "not constant, or stops in sleep states",
                    "nothing: the kernel's clock is used instead",
                ),
            }
        },
    },
    Check {
        name: "hypervisor",
        why: "on a virtual machine waking an idle CPU leaves the machine and costs microseconds",
        judge: |facts| {
            let cpuinfo = facts.files.text("/proc/cpuinfo").unwrap_or_default();
            match surroundings::hypervisor(&facts.files, &cpuinfo).as_deref() {
                None => unknown("the machine does not say"),
                Some("none") => ok("none"),
                Some(name) => note(
                    name,
                    "figures hold for this kind of virtual machine, not for its processor",
                ),
            }
        },
    },
    Check {
        name: "mitigations",
        why: "they make every system call and switch slower, each processor in its own way",
        judge: |facts| {
            let all = kernel::mitigations(&facts.files);
            let active: Vec<&str> = all
                .iter()
                .filter_map(|line| line.split_once(": "))
                .filter(|(_, state)| state.starts_with("Mitigation"))
                .map(|(name, _)| name)
                .collect();
            match (&active[..], all.first().map(String::as_str)) {
                (_, Some("unknown")) => unknown("the kernel does not say"),
                ([], _) => ok("none active"),
                (names, _) => note(names.join(", "), "compare figures only with equal mitigations"),
            }
        },
    },
    Check {
        name: "huge_pages",
        why: "with \"always\" the kernel joins pages while a program runs, which stops it",
        judge: |facts| match kernel::huge_pages(&facts.files) {
            None => unknown("the kernel has no transparent huge pages, or does not say"),
            Some(setting) if setting.starts_with("always") => {
                note(setting, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
            }
            Some(setting) => ok(setting),
        },
    },
    Check {
        name: "swap",
        why: "a page that was swapped out costs milliseconds",
        judge: |facts| {
            let total = kernel::meminfo_bytes(&facts.files, "SwapTotal");
            let free = kernel::meminfo_bytes(&facts.files, "SwapFree");
            match (total, free) {
                (Some(0), _) => ok("none"),
                (Some(total), Some(free)) if free < total => note(
                    format!("{} MiB in use", (total - free) >> 20),
                    "swapoff -a while measuring",
                ),
                (Some(_), Some(_)) => ok("there is some, and none is in use"),
                _ => unknown("/proc/meminfo cannot be read"),
            }
        },
    },
    Check {
        name: "perf_event_paranoid",
        why: "switches, migrations and faults are counted by perf events where that is allowed",
        judge: |facts| match facts.files.line(&sysctl_path("kernel.perf_event_paranoid")) {
            None => note(
                "the kernel has no perf events",
                "counts come from other files, or are missing",
            ),
            Some(level) => match level.parse::<i32>() {
                Ok(level) if level <= PARANOID_OWN => ok(format!("{level}: own processes")),
                _ => note(level, "sysctl kernel.perf_event_paranoid=2"),
            },
        },
    },
];

/// Share of the CPUs that may be busy without showing in figures.
const LOAD_SHARE_MAX: f64 = 0.3;

const STEAL_PERCENT_NONE: f64 = 0.1;
const STEAL_PERCENT_BAD: f64 = 5.0;

/// A state that takes longer to leave shows in round trips of some microseconds.
const IDLE_US_MAX: u64 = 5;

/// Up to this level a program may count its own events in user space and kernel.
const PARANOID_OWN: i32 = 2;
