//! Chooses the CPUs of both ends from what was asked for, what is allowed, and how CPUs relate.

use nearcall_results::topology::{PlacementClass, Topology};

use crate::bench_plan::Placement;
use crate::conditions::PinChoice;
use crate::run;
use crate::runner::BenchError;

/// Where both ends run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinnedTo {
    pub(crate) client: Option<usize>,
    pub(crate) server: Option<usize>,
    class: &'static str,
    /// Why an end that spins would keep the other from running; `None` if it would not.
    pub(crate) no_spinning: Option<&'static str>,
}

impl PinnedTo {
    /// As it is stored.
    pub(crate) fn stored(&self) -> run::Placement {
        let number = |cpu: Option<usize>| cpu.and_then(|cpu| u32::try_from(cpu).ok());
        run::Placement {
            class: self.class.to_owned(),
            client_cpu: number(self.client),
            server_cpu: number(self.server),
        }
    }

    /// The CPUs used, each once.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        let mut cpus: Vec<usize> = [self.client, self.server].into_iter().flatten().collect();
        cpus.dedup();
        cpus
    }

    /// The same with both ends on the server's CPU.
    pub(crate) fn on_one_cpu(&self) -> Self {
        let no_spinning = Some(self.no_spinning.unwrap_or(SHARED));
        Self { client: self.server, class: PlacementClass::SameCpu.name(), no_spinning, ..*self }
    }

    /// Both ends take the CPU from each other.
    pub(crate) fn is_shared(&self) -> bool {
        self.no_spinning.is_some()
    }
}

/// Where a cell runs in a run whose ends are placed as `of_run`.
pub(crate) fn at(spot: PinChoice, of_run: &PinnedTo, topology: &Topology) -> PinnedTo {
    match spot {
        PinChoice::OfRun => of_run.clone(),
        PinChoice::OneCpu => of_run.on_one_cpu(),
        PinChoice::Unpinned => unpinned(None),
        PinChoice::Pair { client, server } => pinned(client.into(), server.into(), topology),
    }
}

/// Finds CPUs for `place`.
pub(crate) fn resolve(
    place: Placement,
    allowed: &[usize],
    topology: &Topology,
) -> Result<PinnedTo, BenchError> {
    let (Some(&first), Some(&last)) = (allowed.first(), allowed.last()) else {
        return Ok(unpinned(None));
    };
    let one_cpu = (first == last).then_some("only one CPU is allowed, and it would spin on it");
    match place {
        Placement::None => Ok(unpinned(one_cpu)),
        Placement::Same => Ok(pinned(last, last, topology)),
        Placement::Auto | Placement::Cross => match cross_pair(allowed, topology) {
            Some((client, server)) => Ok(pinned(client, server, topology)),
            None if place == Placement::Auto => {
                Ok(PinnedTo { no_spinning: one_cpu, ..pinned(last, last, topology) })
            }
            None => Err(BenchError::OneCpu),
        },
        Placement::Pin { client, server } => {
            for cpu in [client, server] {
                if !allowed.contains(&(cpu as usize)) {
                    return Err(BenchError::NotAllowed { cpu, allowed: allowed.to_vec() });
                }
            }
            Ok(pinned(client as usize, server as usize, topology))
        }
    }
}

fn pinned(client: usize, server: usize, topology: &Topology) -> PinnedTo {
    let class = topology.class(client, server).name();
    let no_spinning = (client == server).then_some(SHARED);
    PinnedTo { client: Some(client), server: Some(server), class, no_spinning }
}

fn unpinned(no_spinning: Option<&'static str>) -> PinnedTo {
    PinnedTo { client: None, server: None, class: "unpinned", no_spinning }
}

/// Two cores near each other; the last ones, since the first takes most interrupts.
fn cross_pair(allowed: &[usize], topology: &Topology) -> Option<(usize, usize)> {
    let rank = |class| match class {
        PlacementClass::SameLlc => 0,
        PlacementClass::SameNode => 1,
        PlacementClass::CrossNode => 2,
        PlacementClass::Unknown => 3,
        PlacementClass::Smt => 4,
        PlacementClass::SameCpu => 5,
    };
    let &server = allowed.last()?;
    let others = allowed.iter().copied().filter(|&cpu| cpu != server).rev();
    let client = others.min_by_key(|&cpu| rank(topology.class(cpu, server)))?;
    Some((client, server))
}

const SHARED: &str = "both ends share a CPU, and it would spin on it";

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(place: Placement, allowed: &[usize]) -> Result<PinnedTo, BenchError> {
        resolve(place, allowed, &Topology::default())
    }

    #[test]
    fn two_cpus_are_used_if_there_are_two() {
        let placed = resolved(Placement::Auto, &[0, 3]).unwrap();
        assert_eq!((placed.client, placed.server), (Some(0), Some(3)));
        assert!(!placed.is_shared());
    }

    #[test]
    fn one_cpu_forbids_spinning_and_crossing() {
        let placed = resolved(Placement::Auto, &[2]).unwrap();
        assert_eq!((placed.client, placed.server), (Some(2), Some(2)));
        assert!(placed.no_spinning.unwrap().contains("only one CPU"));
        assert!(matches!(resolved(Placement::Cross, &[2]), Err(BenchError::OneCpu)));
    }

    #[test]
    fn a_cpu_that_is_not_allowed_is_refused_with_those_that_are() {
        let error = resolved(Placement::Pin { client: 0, server: 7 }, &[0, 1]).unwrap_err();
        assert!(
            error.to_string().contains("CPU 7") && error.to_string().contains("0, 1"),
            "{error}"
        );
    }
}
