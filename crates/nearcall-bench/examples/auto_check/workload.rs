//! The scripted workloads.
//!
//! **Not here:** how they are run (`main.rs`).

/// What a client does.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    /// Other processes compute on all CPUs.
    pub(crate) is_loaded: bool,
    /// Its phases need different mechanisms.
    pub(crate) alternates: bool,
}

/// Bursts of calls, evenly within a time.
#[derive(Clone)]
pub(crate) struct Phase {
    /// Bytes of each request; replies are empty.
    pub(crate) bytes: usize,
    /// Calls of a burst, each right after the one before.
    pub(crate) calls: u32,
    pub(crate) bursts: u32,
    pub(crate) span_ns: u64,
    /// Both ends run on one CPU.
    pub(crate) one_cpu: bool,
}

/// Returns all of them.
pub(crate) fn workloads() -> Vec<Workload> {
    let span_ns = PHASE_NS;
    let chatty = Phase { bytes: 64, calls: 100, bursts: 500, span_ns, one_cpu: false };
    let bulk = Phase { bytes: 1 << 20, calls: 20, bursts: 100, span_ns, one_cpu: false };
    let rare = Phase { bytes: 64, calls: 1, bursts: 500, span_ns, one_cpu: false };
    let one_cpu = Phase { bytes: 64 << 10, calls: 50, bursts: 500, span_ns, one_cpu: true };
    let steady = |name, phase: &Phase| Workload {
        name,
        phases: vec![phase.clone(); 2],
        is_loaded: false,
        alternates: false,
    };
    // Small messages between CPUs, and long ones on one CPU, where a spin keeps the other end from
    // running: a third of its time. No phase costs so little that following it cannot pay.
    let few = Phase { bursts: 250, ..chatty.clone() };
    let long = Phase { bytes: 1 << 20, calls: 20, bursts: 400, span_ns, one_cpu: true };
    let phases = [&few, &long].into_iter().cycle().take(PHASES).cloned().collect();
    vec![
        steady("chatty", &chatty),
        steady("bulk", &bulk),
        Workload { is_loaded: true, ..steady("rare", &rare) },
        steady("one-cpu", &one_cpu),
        Workload { name: "phases", phases, is_loaded: false, alternates: true },
    ]
}

/// 5 s.
const PHASE_NS: u64 = 5_000_000_000;

/// As many as a connection follows within a minute: three switches, and one in reserve.
const PHASES: usize = 4;
