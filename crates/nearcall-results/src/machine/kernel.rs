//! The kernel: release, configuration, mitigations, memory settings.
//!
//! Pure functions of files.

use crate::system_files::SystemFiles;

/// "Linux 6.18.3 #1 SMP PREEMPT_DYNAMIC".
pub fn release(files: &SystemFiles) -> Option<String> {
    let release = files.line("/proc/sys/kernel/osrelease")?;
    let version = files.line("/proc/sys/kernel/version");
    Some(
        version.map_or_else(
            || format!("Linux {release}"),
            |version| format!("Linux {release} {version}"),
        ),
    )
}

/// HZ, preemption and the few other options that decide on wake-up times, "NAME=value" each. From
/// the configuration file where there is one; HZ and preemption also without it.
pub fn config(files: &SystemFiles, tick_ns: Option<u64>) -> Vec<String> {
    let text = files
        .line("/proc/sys/kernel/osrelease")
        .and_then(|release| files.text(&format!("/boot/config-{release}")))
        .unwrap_or_default();
    let option = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim().to_owned())
    };
    let hz = option("CONFIG_HZ").or_else(|| hz(tick_ns?));
    let others = CONFIG_NAMES.map(|name| (name, option(&format!("CONFIG_{name}"))));
    let all = [("HZ", hz), ("PREEMPT", preempt(files))].into_iter().chain(others);
    all.map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("unknown"))).collect()
}

/// A tick of 4,000,000 ns is 250 Hz. The kernel's own rounding makes 300 Hz 3,333,333 ns.
fn hz(tick_ns: u64) -> Option<String> {
    let hz = 1_000_000_000_u64.checked_add(tick_ns / 2)?.checked_div(tick_ns)?;
    (24..=10_000).contains(&hz).then(|| hz.to_string())
}

/// How the kernel gives up the CPU: from the version text, and the mode that is chosen if it can be
/// chosen at boot.
fn preempt(files: &SystemFiles) -> Option<String> {
    let version = files.line("/proc/sys/kernel/version")?;
    let word = version.split_ascii_whitespace().find(|word| word.starts_with("PREEMPT"));
    let mode = files
        .line("/sys/kernel/debug/sched/preempt")
        .and_then(|line| {
            let start = line.find('(')? + 1;
            let end = line[start..].find(')')? + start;
            Some(line[start..end].to_owned())
        })
        .or_else(|| {
            let cmdline = files.line("/proc/cmdline")?;
            let mut words = cmdline.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix("preempt=")).map(str::to_owned)
        });
    match (word, mode) {
        (Some("PREEMPT_DYNAMIC"), Some(mode)) => Some(format!("dynamic ({mode})")),
        (Some("PREEMPT_DYNAMIC"), None) => Some("dynamic".to_owned()),
        (Some("PREEMPT_RT"), _) => Some("rt".to_owned()),
        (Some(_), _) => Some("full".to_owned()),
        (None, _) => Some("none or voluntary".to_owned()),
    }
}

/// Each mitigation, "name: state", but those that do not concern this processor.
pub fn mitigations(files: &SystemFiles) -> Vec<String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let mut found: Vec<String> = files
        .names(directory)
        .into_iter()
        .filter_map(|name| Some((files.line(&format!("{directory}/{name}"))?, name)))
        .filter(|(state, _)| state != "Not affected")
        .map(|(state, name)| format!("{name}: {state}"))
        .collect();
    if found.is_empty() && files.names(directory).is_empty() {
        found.push("unknown".to_owned());
    }
    found
}

/// The setting for anonymous memory, and behind it the one for shared memory: "madvise, shared
/// memory never".
pub fn huge_pages(files: &SystemFiles) -> Option<String> {
    let directory = "/sys/kernel/mm/transparent_hugepage";
    let anonymous = selected(&files.line(&format!("{directory}/enabled"))?)?;
    let shared = files.line(&format!("{directory}/shmem_enabled"));
    Some(match shared.as_deref().and_then(selected) {
        Some(shared) => format!("{anonymous}, shared memory {shared}"),
        None => anonymous,
    })
}

/// The word in brackets: `always [madvise] never` is `madvise`.
pub fn selected(text: &str) -> Option<String> {
    let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix('['))?;
    Some(word.trim_end_matches(']').to_owned())
}

/// A line of `/proc/meminfo`, in bytes.
pub fn meminfo_bytes(files: &SystemFiles, name: &str) -> Option<u64> {
    let text = files.text("/proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// A line of the calling thread's status.
pub fn status_field(files: &SystemFiles, name: &str) -> Option<String> {
    let text = files.text("/proc/thread-self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Options that move wake-up times by more than noise.
const CONFIG_NAMES: [&str; 4] = ["NO_HZ_FULL", "HIGH_RES_TIMERS", "SCHED_CORE", "IO_URING"];
