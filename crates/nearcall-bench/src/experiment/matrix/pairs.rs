//! Which ordered pairs of CPUs are measured: all, or some of each class where the time is short.
//!
//! A function of its arguments.
//! **Invariants:** a pair comes with its opposite.

use nearcall_results::topology::{PlacementClass, Topology};

/// The pairs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    /// Client and server, ascending.
    pub(super) taken: Vec<(u16, u16)>,
    /// How many there are.
    pub(super) all: u64,
}

impl Pairs {
    pub(super) fn left_out(&self) -> u64 {
        self.all.saturating_sub(self.taken.len() as u64)
    }
}

/// What pairs of one class have in common: how the CPUs are related, and on which memory nodes
/// they are, the lower one first.
type Class = (PlacementClass, Option<usize>, Option<usize>);

/// Takes all pairs of `cpus` if they are no more than `pairs_max`; otherwise as many as that, by
/// turns from each class, at random within a class. Each class has at least one pair with its
/// opposite, even if that is more.
pub(super) fn choose(cpus: &[usize], topology: &Topology, pairs_max: usize, seed: u64) -> Pairs {
    let all = (cpus.len() as u64).saturating_mul(cpus.len() as u64);
    let mut classes: Vec<(Class, Vec<(u16, u16)>)> = Vec::new();
    for (index, &a) in cpus.iter().enumerate() {
        for &b in &cpus[index..] {
            // Numbers above that do not fit into a cell; the kernel's limit is far below.
            let (Ok(low), Ok(high)) = (u16::try_from(a), u16::try_from(b)) else { continue };
            let class = class(topology, a, b);
            match classes.iter_mut().find(|(known, _)| *known == class) {
                Some((_, pairs)) => pairs.push((low, high)),
                None => classes.push((class, vec![(low, high)])),
            }
        }
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    classes.iter_mut().for_each(|(_, pairs)| rng.shuffle(pairs));
    let mut taken: Vec<(u16, u16)> = Vec::new();
    for turn in 0.. {
        let mut is_empty = true;
        for (_, pairs) in &classes {
            let Some(&(a, b)) = pairs.get(turn) else { continue };
            is_empty = false;
            if turn == 0 || taken.len() < pairs_max {
                taken.push((a, b));
                taken.extend((a != b).then_some((b, a)));
            }
        }
        if is_empty || taken.len() >= pairs_max {
            break;
        }
    }
    taken.sort_unstable();
    Pairs { taken, all }
}

fn class(topology: &Topology, a: usize, b: usize) -> Class {
    let node = |number| topology.cpus.iter().find(|cpu| cpu.number == number)?.node;
    let (first, second) = (node(a), node(b));
    (topology.class(a, b), first.min(second), first.max(second))
}

#[cfg(test)]
mod tests {
    use nearcall_results::topology::Cpu;

    use super::*;

    /// Nodes of `per_node` CPUs with one cache each.
    fn topology(nodes: usize, per_node: usize) -> Topology {
        let cpu = |number: usize| {
            let node = number / per_node;
            Cpu {
                number,
                package: Some(node),
                core: Some(number),
                smt_siblings: Some(vec![number]),
                llc_sharers: Some((node * per_node..(node + 1) * per_node).collect()),
                node: Some(node),
            }
        };
        Topology { cpus: (0..nodes * per_node).map(cpu).collect() }
    }

    #[test]
    fn all_pairs_are_taken_when_they_fit() {
        let pairs = choose(&[0, 1, 2], &topology(1, 3), 9, 1);
        assert_eq!((pairs.taken.len(), pairs.all, pairs.left_out()), (9, 9, 0));
        assert_eq!(pairs.taken[..3], [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(choose(&[], &Topology::default(), 9, 1), Pairs::default());
    }

    #[test]
    fn many_cpus_give_some_pairs_of_each_class_with_their_opposites() {
        let (topology, cpus) = (topology(4, 16), (0..64).collect::<Vec<_>>());
        let pairs = choose(&cpus, &topology, 100, 7);
        assert!((98..=101).contains(&pairs.taken.len()), "{}", pairs.taken.len());
        assert_eq!(pairs.left_out(), 4_096 - pairs.taken.len() as u64);
        for &(a, b) in &pairs.taken {
            assert!(pairs.taken.contains(&(b, a)), "{a} {b}");
        }
        // Each node with itself twice over, and six pairs of nodes.
        let mut classes: Vec<Class> =
            pairs.taken.iter().map(|&(a, b)| class(&topology, a.into(), b.into())).collect();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 4 + 4 + 6);
        assert_ne!(choose(&cpus, &topology, 100, 8).taken, pairs.taken);
    }

    #[test]
    fn each_class_is_there_even_if_the_time_is_too_short() {
        let pairs = choose(&[0, 1, 2, 3], &topology(2, 2), 0, 1);
        assert_eq!(pairs.taken.len(), 2 + 4 + 2);
    }
}
