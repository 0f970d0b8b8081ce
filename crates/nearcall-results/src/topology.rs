//! Relations of processors: same core, same cache, same memory node.
//!
//! **Invariants:** a relation is claimed only if the machine states it; a hint that is missing
//! makes the answer [`PlacementClass::Unknown`], because a wrong label on a number is worse than
//! none.
//! **Not here:** this machine, and choosing processors to measure (`nearcall-bench`).

use crate::words::words;

/// The relation of two processors, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementClass {
    /// They are the same processor.
    SameCpu,
    /// Two hardware threads of one core.
    Smt,
    /// Two cores that share the last-level cache.
    SameLlc,
    /// Two cores of one memory node without a common cache.
    SameNode,
    /// On different memory nodes.
    CrossNode,
    /// The machine does not describe it.
    Unknown,
}

words! { PlacementClass:
    SameCpu => "same_cpu",
    Smt => "smt",
    SameLlc => "same_llc",
    SameNode => "same_node",
    CrossNode => "cross_node",
    Unknown => "unknown",
}

/// One processor. `None`: the machine does not describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// The socket.
    pub package: Option<usize>,
    /// The core, a number that is unique within the package.
    pub core: Option<usize>,
    /// Hardware threads of the same core, itself included.
    pub smt_siblings: Option<Vec<usize>>,
    /// Processors that share its last-level cache, itself included.
    pub llc_sharers: Option<Vec<usize>>,
    /// The memory node (NUMA).
    pub node: Option<usize>,
}

/// All processors that are online.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Ascending by number.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Builds the topology from a function that returns the text of a file below
    /// `/sys/devices/system`, or `None` if it does not exist.
    pub fn from_files(file: impl Fn(&str) -> Option<String>) -> Self {
        let list = |path: &str| file(path).as_deref().and_then(parse_list);
        let number = |path: &str| file(path)?.trim().parse().ok();
        let nodes: Vec<(usize, Vec<usize>)> = list("node/online")
            .unwrap_or_default()
            .into_iter()
            .filter_map(|node| Some((node, list(&format!("node/node{node}/cpulist"))?)))
            .collect();
        let describe = |cpu: usize| {
            let topology = format!("cpu/cpu{cpu}/topology");
            Cpu {
                number: cpu,
                package: number(&format!("{topology}/physical_package_id")),
                core: number(&format!("{topology}/core_id")),
                // The second name is the one of kernels before 5.3.
                smt_siblings: list(&format!("{topology}/core_cpus_list"))
                    .or_else(|| list(&format!("{topology}/thread_siblings_list"))),
                llc_sharers: llc_sharers(cpu, &file),
                node: nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|&(node, _)| node),
            }
        };
        let online = list("cpu/online").unwrap_or_default();
        Self { cpus: online.into_iter().map(describe).collect() }
    }

    /// Classifies the relation of `a` and `b`. The order does not matter.
    #[must_use]
    pub fn class(&self, a: usize, b: usize) -> PlacementClass {
        if a == b {
            return PlacementClass::SameCpu;
        }
        let find = |number| self.cpus.iter().find(|cpu| cpu.number == number);
        let (Some(a), Some(b)) = (find(a), find(b)) else { return PlacementClass::Unknown };
        let same_node = a.node.zip(b.node).map(|(a, b)| a == b);
        match (shares(&a.smt_siblings, b), shares(&a.llc_sharers, b), same_node) {
            (Some(true), _, _) => PlacementClass::Smt,
            (Some(false), Some(true), _) => PlacementClass::SameLlc,
            (Some(false), Some(false), Some(true)) => PlacementClass::SameNode,
            (_, _, Some(false)) => PlacementClass::CrossNode,
            _ => PlacementClass::Unknown,
        }
    }
}

/// Parses the kernel's list of processors, as `0-3,7`. `None` if it is not one.
#[must_use]
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // Without the sum, a text that repeats a long range would make the parser allocate.
        if first > last || last >= CPU_NUMBER_MAX || cpus.len() + last - first >= CPU_NUMBER_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

fn shares(group: &Option<Vec<usize>>, cpu: &Cpu) -> Option<bool> {
    Some(group.as_ref()?.contains(&cpu.number))
}

/// The processors on the cache of the highest level that holds data.
fn llc_sharers(cpu: usize, file: &impl Fn(&str) -> Option<String>) -> Option<Vec<usize>> {
    let mut highest: Option<(u32, String)> = None;
    for index in 0..CACHES_MAX {
        let cache = format!("cpu/cpu{cpu}/cache/index{index}");
        let Some(level) = file(&format!("{cache}/level")) else { break };
        let (Ok(level), Some(kind), Some(sharers)) = (
            level.trim().parse(),
            file(&format!("{cache}/type")),
            file(&format!("{cache}/shared_cpu_list")),
        ) else {
            continue;
        };
        if kind.trim() != "Instruction" && highest.as_ref().is_none_or(|(known, _)| level > *known)
        {
            highest = Some((level, sharers));
        }
    }
    highest.and_then(|(_, sharers)| parse_list(&sharers))
}

/// Processors have lower numbers than this. The kernel's own limit is 8192; a text that claims more
/// must not make the parser allocate.
const CPU_NUMBER_MAX: usize = 1 << 16;

/// Caches looked at per processor. Four or five exist; the bound stops a strange `/sys`.
const CACHES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of two cores of two threads; each node has its cache, core 0 and 1 share it.
    /// Node 1 has one cache per core.
    fn file(path: &str) -> Option<String> {
        let text = match path {
            "cpu/online" => "0-7",
            "node/online" => "0-1",
            "node/node0/cpulist" => "0-3",
            "node/node1/cpulist" => "4-7",
            _ => {
                let (cpu, rest) = path.strip_prefix("cpu/cpu")?.split_once('/')?;
                let cpu: usize = cpu.parse().ok()?;
                let core = format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1);
                let llc = if cpu < 4 { "0-3".to_owned() } else { core.clone() };
                let text = match rest {
                    "topology/physical_package_id" => (cpu / 4).to_string(),
                    "topology/core_id" => (cpu / 2 % 2).to_string(),
                    "topology/core_cpus_list" => core,
                    "cache/index0/level" => "1".to_owned(),
                    "cache/index0/type" => "Data".to_owned(),
                    "cache/index0/shared_cpu_list" => core,
                    "cache/index1/level" => "3".to_owned(),
                    "cache/index1/type" => "Unified".to_owned(),
                    "cache/index1/shared_cpu_list" => llc,
                    _ => return None,
                };
                return Some(text + "\n");
            }
        };
        Some(format!("{text}\n"))
    }

    #[track_caller]
    fn check(topology: &Topology, a: usize, b: usize, expected: PlacementClass) {
        assert_eq!(topology.class(a, b), expected, "{a} {b}");
        assert_eq!(topology.class(b, a), expected, "{b} {a}");
    }

    #[test]
    fn each_class_is_distinguished_from_the_others() {
        let topology = Topology::from_files(file);
        check(&topology, 3, 3, PlacementClass::SameCpu);
        check(&topology, 0, 1, PlacementClass::Smt);
        check(&topology, 1, 2, PlacementClass::SameLlc);
        check(&topology, 5, 6, PlacementClass::SameNode);
        check(&topology, 3, 4, PlacementClass::CrossNode);
        check(&topology, 0, 99, PlacementClass::Unknown);
        assert_eq!(topology.cpus[5].package, Some(1));
        assert_eq!(topology.cpus[5].core, Some(0));
    }

    #[test]
    fn a_missing_hint_makes_the_answer_unknown_not_wrong() {
        let no_siblings = |path: &str| file(path).filter(|_| !path.contains("core_cpus"));
        check(&Topology::from_files(no_siblings), 0, 2, PlacementClass::Unknown);
        check(&Topology::from_files(no_siblings), 0, 4, PlacementClass::CrossNode);
        let no_caches = |path: &str| file(path).filter(|_| !path.contains("cache"));
        check(&Topology::from_files(no_caches), 0, 2, PlacementClass::Unknown);
        check(&Topology::from_files(no_caches), 0, 1, PlacementClass::Smt);
        let no_nodes = |path: &str| file(path).filter(|_| !path.starts_with("node"));
        check(&Topology::from_files(no_nodes), 5, 6, PlacementClass::Unknown);
    }

    #[test]
    fn a_machine_without_files_has_no_processors_and_no_error() {
        let topology = Topology::from_files(|_| None);
        assert_eq!(topology, Topology::default());
        check(&topology, 0, 1, PlacementClass::Unknown);
        check(&topology, 0, 0, PlacementClass::SameCpu);
    }

    #[track_caller]
    fn check_list(text: &str, expected: Option<&[usize]>) {
        assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn lists_of_processors_are_read() {
        check_list("0\n", Some(&[0]));
        check_list("0-3,7\n", Some(&[0, 1, 2, 3, 7]));
        check_list("7,0-1,1", Some(&[0, 1, 7]));
        check_list("\n", Some(&[]));
    }

    #[test]
    fn a_long_range_again_and_again_is_refused() {
        check_list(&"0-65535,".repeat(1_000), None);
        check_list(&["0-60000"; 2].join(","), None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "0,,1", "0-4000000000", "0-99999999999999999999"] {
            check_list(text, None);
        }
    }
}
