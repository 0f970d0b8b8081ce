//! The machine record: what decides how fast IPC is here, and the machine's name made from it.
//!
//! A text that could not be found out is "unknown", a number `null`; no field is ever absent.
//! Reading these facts from the system is not here.

use serde::{Deserialize, Serialize};

/// Where a run took place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// A hash of all facts but `state`. Runs with different ids are never averaged.
    pub id: String,
    /// The processor's name.
    pub cpu_model: String,
    /// "x86_64", "aarch64".
    pub architecture: String,
    /// The microcode's revision.
    pub microcode: String,
    /// CPUs that the system sees.
    pub cpus: Option<u32>,
    /// Cores, sockets, threads and NUMA nodes in words, such as "1 socket, 4 cores, 2 threads
    /// each".
    pub topology: String,
    /// Each cache with size and CPUs that share it, such as "L2 2 MiB: 0-1".
    pub caches: Vec<String>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Physical memory.
    pub memory_bytes: Option<u64>,
    /// The size of a page.
    pub page_bytes: Option<u64>,
    /// Release and version of the kernel.
    pub kernel: String,
    /// Its command line.
    pub kernel_command_line: String,
    /// Its configuration as far as it matters: "HZ", "PREEMPT" and the like, one "NAME=value"
    /// each.
    pub kernel_config: Vec<String>,
    /// Each mitigation, "name: state".
    pub mitigations: Vec<String>,
    /// The kernel's clock source.
    pub clocksource: String,
    /// Whether the TSC is constant and never stops.
    pub tsc_invariant: Option<bool>,
    /// The governor of the clock frequency.
    pub governor: String,
    /// Whether frequencies above the nominal are allowed.
    pub boost: Option<bool>,
    /// The lowest frequency.
    pub frequency_min_khz: Option<u64>,
    /// The highest frequency.
    pub frequency_max_khz: Option<u64>,
    /// The idle driver and its states.
    pub idle_states: Vec<String>,
    /// Transparent huge pages: "always", "madvise", "never".
    pub huge_pages: String,
    /// The hypervisor, or "none".
    pub hypervisor: String,
    /// The container, or "none".
    pub container: String,
    /// The control group's CPU quota, such as "200000 100000", or "max".
    pub cpu_quota: String,
    /// CPUs that this program may use, such as "0-1".
    pub allowed_cpus: String,
    /// Limits that touch IPC, one "name=value" each.
    pub limits: Vec<String>,
    /// What changes from run to run.
    pub state: MachineState,
}

/// What changes from run to run and is no part of the id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineState {
    /// The name on the network.
    pub host_name: String,
    /// The load averages at the start, over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Memory that could be had at the start.
    pub memory_available_bytes: Option<u64>,
    /// How long the machine has been up.
    pub uptime_s: Option<u64>,
    /// Whether deep sleep states were kept off while measuring.
    pub idle_held: Option<bool>,
}

impl Machine {
    /// Sets [`Machine::id`] from the facts. Call it when all of them are filled in.
    pub fn set_id(&mut self) {
        let stable = Self { id: String::new(), state: MachineState::default(), ..self.clone() };
        let text = serde_json::to_string(&stable).expect("a machine record is plain data");
        self.id = format!("{:016x}", fnv1a(text.as_bytes()));
    }

    /// Whether two records are of one machine: processor, CPUs, caches and memory are the same, and
    /// the host name. Another kernel, governor or limit does not make another machine. Of machines
    /// whose processor or host name is unknown the ids decide: equal models are not one machine.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let facts = |machine: &Self| {
            let Self { cpu_model, architecture, cpus, topology, caches, numa_nodes, .. } =
                machine.clone();
            (cpu_model, architecture, cpus, topology, caches, numa_nodes)
        };
        let hosts = [self, other].map(|machine| machine.state.host_name.as_str());
        let are_named = !hosts.contains(&UNKNOWN) && !hosts.contains(&"");
        let one_host = if are_named { hosts[0] == hosts[1] } else { self.id == other.id };
        // A kernel reserves a little of it, each another part.
        let memory = match [self.memory_bytes, other.memory_bytes] {
            [Some(one), Some(two)] => one.abs_diff(two) <= one.max(two) / MEMORY_PART,
            [one, two] => one == two,
        };
        let known = !matches!(self.cpu_model.as_str(), "" | UNKNOWN);
        facts(self) == facts(other) && memory && one_host && (known || self.id == other.id)
    }

    pub(crate) fn boost_words(&self) -> &'static str {
        self.boost.map_or("boost unknown", |on| if on { "boost on" } else { "boost off" })
    }
}

impl Default for Machine {
    fn default() -> Self {
        let unknown = || UNKNOWN.to_owned();
        Self {
            id: unknown(),
            cpu_model: unknown(),
            architecture: unknown(),
            microcode: unknown(),
            cpus: None,
            topology: unknown(),
            caches: Vec::new(),
            numa_nodes: None,
            memory_bytes: None,
            page_bytes: None,
            kernel: unknown(),
            kernel_command_line: unknown(),
            kernel_config: Vec::new(),
            mitigations: Vec::new(),
            clocksource: unknown(),
            tsc_invariant: None,
            governor: unknown(),
            boost: None,
            frequency_min_khz: None,
            frequency_max_khz: None,
            idle_states: Vec::new(),
            huge_pages: unknown(),
            hypervisor: unknown(),
            container: unknown(),
            cpu_quota: unknown(),
            allowed_cpus: unknown(),
            limits: Vec::new(),
            state: MachineState::default(),
        }
    }
}

impl Default for MachineState {
    fn default() -> Self {
        Self {
            host_name: UNKNOWN.to_owned(),
            load_average: None,
            memory_available_bytes: None,
            uptime_s: None,
            idle_held: None,
        }
    }
}

/// Of one machine the memory that two kernels report differs by less than one part in so many.
const MEMORY_PART: u64 = 100;

/// What stands where a text could not be found out.
pub const UNKNOWN: &str = "unknown";

/// The hash of Fowler, Noll and Vo: distinguishes machines and runs, and proves nothing.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_meets_its_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_id_depends_on_facts_and_not_on_the_state() {
        let mut machine = Machine::default();
        machine.set_id();
        let first = machine.id.clone();
        machine.state.uptime_s = Some(5);
        machine.set_id();
        assert_eq!(machine.id, first);
        machine.cpus = Some(2);
        machine.set_id();
        assert_ne!(machine.id, first);
    }

    #[test]
    fn another_kernel_is_no_other_machine_and_one_name_does_not_make_one_of_two() {
        let machine = Machine {
            cpu_model: "EPYC".to_owned(),
            memory_bytes: Some(25_276_510_208),
            id: "a".to_owned(),
            state: MachineState { host_name: "vm".to_owned(), ..MachineState::default() },
            ..Machine::default()
        };
        let with = |change: fn(&mut Machine)| {
            let mut other = Machine { id: "b".to_owned(), ..machine.clone() };
            change(&mut other);
            machine.is_same(&other)
        };
        assert!(with(|other| other.kernel = "Linux 7".to_owned()));
        assert!(with(|other| other.memory_bytes = Some(25_276_063_744)));
        assert!(!with(|other| other.state.host_name = UNKNOWN.to_owned()), "of the same model");
        // The same name, and the same id.
        for change in [
            (|other| other.memory_bytes = Some(8 << 30)) as fn(&mut Machine),
            |other| other.cpus = Some(64),
            |other| other.caches = vec!["L3 1 MiB".to_owned()],
            |other| other.memory_bytes = None,
        ] {
            let mut other = machine.clone();
            change(&mut other);
            assert!(!machine.is_same(&other));
        }
        let mut named = [machine.clone(), machine];
        assert!(named[0].is_same(&named[1]));
        named[1].state.host_name = "two".to_owned();
        assert!(!named[0].is_same(&named[1]));
        let unknown = ["a", "b"].map(|id| Machine { id: id.to_owned(), ..Machine::default() });
        assert!(!unknown[0].is_same(&unknown[1]) && unknown[0].is_same(&unknown[0].clone()));
    }

    #[test]
    fn every_fact_is_written_even_if_unknown() {
        let text = serde_json::to_value(Machine::default()).unwrap();
        assert_eq!(text["microcode"], "unknown");
        assert!(text.as_object().unwrap().contains_key("boost"));
    }
}
