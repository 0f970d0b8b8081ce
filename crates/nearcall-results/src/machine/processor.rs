//! The processor: name, threads and cores, caches, frequency, sleep states.
//!
//! Pure functions of files. Whether a setting is good is not judged here (`doctor.rs`).

use std::collections::BTreeSet;

use crate::topology::{Topology, parse_list};

use super::CPU;
use crate::system_files::SystemFiles;

/// The processors that are online and how they are related.
pub fn topology(files: &SystemFiles) -> Topology {
    Topology::from_files(|path| files.text(&format!("/sys/devices/system/{path}")))
}

/// The first value of a field of `/proc/cpuinfo`.
pub fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The processor's name. ARM gives only numbers.
pub fn model(cpuinfo: &str) -> Option<String> {
    field(cpuinfo, "model name").or_else(|| {
        let part = field(cpuinfo, "CPU part")?;
        let implementer = field(cpuinfo, "CPU implementer")?;
        Some(format!("implementer {implementer} part {part}"))
    })
}

/// Whether the counter has one speed and never stops; `None` where the flags do not exist.
pub fn tsc_invariant(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    let has = |name: &str| flags.split_ascii_whitespace().any(|flag| flag == name);
    Some(has("constant_tsc") && has("nonstop_tsc"))
}

/// "1 socket, 4 cores, 2 threads each". `None` if the machine does not say.
pub fn topology_words(topology: &Topology) -> Option<String> {
    let cpus = &topology.cpus;
    let sockets: BTreeSet<_> = cpus.iter().map(|cpu| cpu.package).collect::<Option<_>>()?;
    let cores: BTreeSet<_> =
        cpus.iter().map(|cpu| Some((cpu.package?, cpu.core?))).collect::<Option<_>>()?;
    if cores.is_empty() {
        return None;
    }
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let threads = match (cpus.len() / cores.len(), cpus.len() % cores.len()) {
        (each, 0) => format!("{} each", plural(each, "thread")),
        // Some threads are off-line, or cores of two kinds.
        _ => plural(cpus.len(), "thread"),
    };
    let (sockets, cores) = (plural(sockets.len(), "socket"), plural(cores.len(), "core"));
    Some(format!("{sockets}, {cores}, {threads}"))
}

/// "L2 512 KiB: 0; 1": each kind of cache, and after the colon the CPUs of each one of its kind.
pub fn caches(files: &SystemFiles, topology: &Topology) -> Vec<String> {
    // In the order of levels, so that the last one is the one that most CPUs share.
    let mut kinds: Vec<(u64, String, Vec<String>)> = Vec::new();
    for cpu in &topology.cpus {
        for index in 0..CACHES_MAX {
            let cache = format!("{CPU}/cpu{}/cache/index{index}", cpu.number);
            let Some(level) = files.number(&format!("{cache}/level")) else { break };
            let line = |name: &str| files.line(&format!("{cache}/{name}"));
            let letter = match line("type").as_deref() {
                Some("Data") => "d",
                Some("Instruction") => "i",
                _ => "",
            };
            let size = line("size").map_or_else(|| "unknown".to_owned(), |size| size_words(&size));
            let name = format!("L{level}{letter} {size}");
            let sharers = line("shared_cpu_list").unwrap_or_else(|| cpu.number.to_string());
            match kinds.iter_mut().find(|(_, known, _)| *known == name) {
                Some((_, _, groups)) if groups.contains(&sharers) => {}
                Some((_, _, groups)) => groups.push(sharers),
                None => kinds.push((level, name, vec![sharers])),
            }
        }
    }
    kinds.sort_by_key(|(level, _, _)| *level);
    kinds
        .into_iter()
        .map(|(_, name, groups)| format!("{name}: {}", groups_words(&groups)))
        .collect()
}

fn groups_words(groups: &[String]) -> String {
    match groups.get(..GROUPS_SHOWN_MAX) {
        Some(first) if groups.len() > first.len() => {
            format!("{}; {} more", first.join("; "), groups.len() - first.len())
        }
        _ => groups.join("; "),
    }
}

/// "32768K" as "32 MiB".
fn size_words(text: &str) -> String {
    let kib = text.strip_suffix('K').and_then(|digits| digits.parse::<u64>().ok());
    match kib.and_then(|kib| kib.checked_mul(1_024)) {
        Some(bytes) => crate::report::number::size(bytes),
        None => text.to_owned(),
    }
}

/// NUMA nodes that are online.
pub fn numa_nodes(files: &SystemFiles) -> Option<u32> {
    let nodes = parse_list(&files.line("/sys/devices/system/node/online")?)?;
    u32::try_from(nodes.len()).ok()
}

/// The frequency governor; all of them if CPUs differ.
pub fn governor(files: &SystemFiles, topology: &Topology) -> Option<String> {
    let of = |cpu: usize| files.line(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let all: BTreeSet<String> = topology.cpus.iter().filter_map(|cpu| of(cpu.number)).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

/// Whether the clock may go above its nominal frequency.
pub fn boost(files: &SystemFiles) -> Option<bool> {
    let boost = files.number(&format!("{CPU}/cpufreq/boost")).map(|on| on != 0);
    boost.or_else(|| Some(files.number(&format!("{CPU}/intel_pstate/no_turbo"))? == 0))
}

/// Driver, governor and states of the first CPU: "driver haltpoll", "C1 2 µs".
pub fn idle_states(files: &SystemFiles) -> Vec<String> {
    let mut found = Vec::new();
    for (word, name) in [("driver", "current_driver"), ("governor", "current_governor_ro")] {
        let line = files.line(&format!("{CPU}/cpuidle/{name}"));
        found.extend(line.map(|line| format!("{word} {line}")));
    }
    for state in 0..IDLE_STATES_MAX {
        let state = format!("{CPU}/cpu0/cpuidle/state{state}");
        let Some(name) = files.line(&format!("{state}/name")) else { break };
        let latency = files.number(&format!("{state}/latency"));
        let latency = latency.map_or_else(String::new, |us| format!(" {us} µs"));
        let off = files.number(&format!("{state}/disable")).is_some_and(|off| off != 0);
        found.push(format!("{name}{latency}{}", if off { " (off)" } else { "" }));
    }
    found
}

/// Caches looked at per CPU. Four or five exist; the bound stops a strange `/sys`.
const CACHES_MAX: usize = 16;

/// Caches of one kind that are listed one by one.
const GROUPS_SHOWN_MAX: usize = 8;

/// Idle states looked at. About ten exist.
const IDLE_STATES_MAX: usize = 16;
