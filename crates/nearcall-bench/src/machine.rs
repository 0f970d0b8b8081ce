//! This machine: the record of a run, how its processors are related, what its group may use.
//!
//! How files become a record is in `nearcall-results`; whether what is found is good for measuring
//! is judged in `doctor.rs`.

pub(crate) mod group;

use nearcall_os::clock::{Clock, stated_resolution_ns};
use nearcall_os::procfs_memory;
use nearcall_results::machine::{Stated, from_files, processor};
use nearcall_results::topology::Topology;

use crate::run::{Machine, Tool};
use crate::system_files::SystemFiles;

/// Describes this machine. Reads some hundred small files: not while measuring.
#[must_use]
pub fn read() -> Machine {
    let files = SystemFiles::real();
    let stated = Stated {
        page_bytes: u64::try_from(procfs_memory::page_bytes()).ok(),
        tick_ns: Some(stated_resolution_ns(Clock::MonotonicCoarse)),
        cpu_quota: group::cpu_quota(&files).map(|quota| quota.to_string()),
    };
    from_files(&files, stated)
}

/// Reads how this machine's processors are related. Some small files per processor.
#[must_use]
pub fn topology() -> Topology {
    processor::topology(&SystemFiles::real())
}

/// Returns this program as it stands in what it stores.
#[must_use]
pub fn tool() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        compiler: option_env!("NEARCALL_COMPILER").unwrap_or("unknown").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nearcall_os::cpu;
    use nearcall_results::topology::PlacementClass;

    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_processors() {
        let found = read();
        assert!(found.kernel.starts_with("Linux "), "{}", found.kernel);
        assert!(found.cpus.is_some_and(|cpus| cpus > 0));
        assert_eq!(found.id, read().id);
    }

    #[test]
    fn this_machine_has_a_topology_or_unknown() {
        let topology = topology();
        for &a in &cpu::allowed() {
            assert_eq!(topology.class(a, a), PlacementClass::SameCpu);
            for &b in &cpu::allowed() {
                assert_eq!(topology.class(a, b), topology.class(b, a));
            }
        }
    }
}
