//! The CPUs of a machine in the parts that the studies give them.
//!
//! A function of the topology.
//! **Invariants:** the first CPU is the server's of the run, the second the client's, so that what
//! is pinned to a pair stands beside what is not.

use std::collections::BTreeMap;

use nearcall_results::topology::{PlacementClass, Topology};

use crate::evidence::Facts;

/// What is known of the machine before it is measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct StudyPlacement {
    /// A CPU.
    pub(crate) first: Option<u16>,
    /// The other thread of its core, if there is one.
    pub(crate) first_sibling: Option<u16>,
    /// A CPU of another core.
    pub(crate) second: Option<u16>,
    /// The other thread of that core, if there is one.
    pub(crate) second_sibling: Option<u16>,
    /// Two CPUs of different memory nodes.
    pub(crate) far: Option<[u16; 2]>,
    /// What claims want to know of the machine.
    pub(crate) facts: Facts,
    /// Fewer points, for a first look.
    pub(crate) quick: bool,
}

impl StudyPlacement {
    /// Finds the parts among the CPUs that may be used.
    pub(crate) fn new(allowed: &[usize], topology: &Topology, quick: bool) -> Self {
        let class = |a: usize, b: usize| topology.class(a, b);
        let Some(&first) = allowed.first() else { return Self::default() };
        let sibling =
            |of: usize| allowed.iter().copied().find(|&cpu| class(cpu, of) == PlacementClass::Smt);
        let is_other_core = |cpu: usize| {
            let class = class(cpu, first);
            !matches!(class, PlacementClass::SameCpu | PlacementClass::Smt)
        };
        // The nearest other core: the paper's second core shares the last-level cache.
        let others = allowed.iter().copied().filter(|&cpu| is_other_core(cpu));
        let second = others.min_by_key(|&cpu| (class(cpu, first), cpu));
        let far =
            allowed.iter().copied().find(|&cpu| class(cpu, first) == PlacementClass::CrossNode);
        Self {
            first: number(first),
            first_sibling: sibling(first).and_then(number),
            second: second.and_then(number),
            second_sibling: second.and_then(sibling).and_then(number),
            far: far.and_then(|far| Some([number(first)?, number(far)?])),
            facts: facts(allowed, topology),
            quick,
        }
    }

    /// The CPUs, as the paper with two cores of two threads each numbers them.
    pub(crate) fn cpus(&self) -> [Option<u16>; 4] {
        [self.first, self.first_sibling, self.second, self.second_sibling]
    }

    /// Whether both ends can have a CPU each.
    pub(crate) fn has_two_cpus(&self) -> bool {
        self.second.is_some() || self.first_sibling.is_some()
    }
}

fn facts(allowed: &[usize], topology: &Topology) -> Facts {
    let mut siblings = Vec::new();
    for (index, &a) in allowed.iter().enumerate() {
        for &b in &allowed[index + 1..] {
            if topology.class(a, b) == PlacementClass::Smt {
                siblings.extend(number(a).zip(number(b)));
            }
        }
    }
    let node_of: BTreeMap<u16, u16> = topology
        .cpus
        .iter()
        .filter(|cpu| allowed.contains(&cpu.number))
        .filter_map(|cpu| Some((number(cpu.number)?, number(cpu.node?)?)))
        .collect();
    let mut nodes: Vec<u16> = node_of.values().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    Facts {
        cpus: number(allowed.len()).unwrap_or(u16::MAX),
        has_smt: !siblings.is_empty(),
        numa_nodes: number(nodes.len().max(1)).unwrap_or(u16::MAX),
        siblings,
        node_of,
    }
}

fn number(number: usize) -> Option<u16> {
    u16::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores of two threads: 0 and 1, 2 and 3.
    fn laptop(path: &str) -> Option<String> {
        let cpu: usize =
            path.strip_prefix("cpu/cpu").and_then(|rest| rest[..1].parse().ok()).unwrap_or(0);
        let core = cpu / 2 * 2;
        match path {
            "cpu/online" => Some("0-3".to_owned()),
            "node/online" => Some("0".to_owned()),
            "node/node0/cpulist" => Some("0-3".to_owned()),
            _ if path.ends_with("core_cpus_list") => Some(format!("{core}-{}", core + 1)),
            _ => None,
        }
    }

    #[test]
    fn the_parts_of_two_cores_with_two_threads_are_found() {
        let topology = Topology::from_files(laptop);
        let layout = StudyPlacement::new(&[0, 1, 2, 3], &topology, false);
        assert_eq!(layout.cpus(), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!((layout.facts.cpus, layout.facts.numa_nodes, layout.far), (4, 1, None));
        assert_eq!(layout.facts.siblings, [(0, 1), (2, 3)]);
        let one = StudyPlacement::new(&[2], &topology, false);
        assert!(one.cpus() == [Some(2), None, None, None] && !one.has_two_cpus());
    }
}
