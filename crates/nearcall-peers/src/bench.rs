//! Launches pairs of processes in random order and collects what they measure.
//!
//! **Invariants:** rounds go through all rows before any row is launched again, so that a machine
//! that changes changes for all; a row that fails is left out from then on, and the others go on.

use std::time::Duration;

use anyhow::bail;
use nearcall_bench::detector::{self, Counters};
use nearcall_bench::plan;
use nearcall_os::clock;
use nearcall_os::cpu;
use nearcall_os::tsc::Tsc;
use nearcall_results::noise::{self, Grade};
use nearcall_results::run::IdleServer;

use crate::launch::{self, Launched, Patience};
use crate::request::{Cell, Kind, LaunchRequest, Measured, Role};
use crate::rival::Rival;

/// What is measured, and how thoroughly.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Of calls with an empty reply.
    pub(crate) sizes: Vec<usize>,
    /// Of calls that give their payload back.
    pub(crate) echo_sizes: Vec<usize>,
    pub(crate) launches: u32,
    pub(crate) cell: Duration,
    pub(crate) idle: Duration,
    /// The client's CPU and the server's; `None` for unpinned.
    pub(crate) pin: Option<[usize; 2]>,
    pub(crate) seed: u64,
}

/// What was found for one row.
#[derive(Default)]
pub(crate) struct Found {
    /// Per launch.
    pub(crate) launches: Vec<Vec<(Cell, Measured)>>,
    pub(crate) idle: Option<IdleServer>,
    /// The worst around a launch.
    pub(crate) noise: Option<Grade>,
    pub(crate) failure: Option<String>,
}

impl Plan {
    /// The cells of every row.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let sinks = self.sizes.iter().map(|&bytes| Cell { kind: Kind::Sink, bytes });
        // An empty echo is the same call as an empty sink.
        let echoes = self.echo_sizes.iter().filter(|&&bytes| bytes > 0);
        let echoes = echoes.map(|&bytes| Cell { kind: Kind::Echo, bytes });
        let rate = Cell { kind: Kind::Rate, bytes: RATE_BYTES };
        sinks.chain(echoes).chain([rate]).collect()
    }
}

/// Two CPUs of those that are allowed: the last, and the one before.
pub(crate) fn choose_cpus(pin: Option<[usize; 2]>) -> anyhow::Result<[usize; 2]> {
    let allowed = cpu::allowed();
    match (pin, allowed.as_slice()) {
        (Some(pair), _) => match pair.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => bail!("CPU {cpu} does not exist or is not allowed; allowed: {allowed:?}"),
            None => Ok(pair),
        },
        (None, [.., client, server]) => Ok([*client, *server]),
        (None, _) => bail!("two CPUs are needed and only one is allowed"),
    }
}

/// Measures all `rivals`. `progress` is told before each launch.
pub(crate) fn bench(
    plan: &Plan,
    rivals: &[Rival],
    progress: &dyn Fn(usize, usize, &str),
) -> Vec<Found> {
    let mut bench = Bench {
        plan,
        tsc: Tsc::calibrate().ok().map(|tsc| tsc.calibration()),
        rng: fastrand::Rng::with_seed(plan.seed),
        launches: 0,
    };
    let mut found: Vec<Found> = rivals.iter().map(|_| Found::default()).collect();
    // One more round than launches: the first watches idle servers.
    let rounds = plan.launches + 1;
    let schedule = plan::schedule(rivals.len(), rounds, plan.seed);
    for (order, next) in schedule.iter().enumerate() {
        let (rival, found) = (&rivals[next.cell], &mut found[next.cell]);
        if let Some(missing) = rival.missing {
            found.failure = Some(format!("SKIPPED: {missing}"));
        }
        if found.failure.is_some() {
            continue;
        }
        progress(order, schedule.len(), rival.name);
        let is_idle = next.launch == 0;
        let (launched, noise) = bench.watched_launch(rival, is_idle);
        found.noise = noise::worst_of([found.noise, noise]);
        found.failure = launched.failure;
        match is_idle {
            true => found.idle = launched.idle,
            false if !launched.cells.is_empty() => found.launches.push(launched.cells),
            false => {}
        }
    }
    progress(schedule.len(), schedule.len(), "");
    found
}

struct Bench<'a> {
    plan: &'a Plan,
    tsc: Option<[u64; 2]>,
    rng: fastrand::Rng,
    launches: u32,
}

impl Bench<'_> {
    /// A launch, and how noisy the machine was before and after it.
    fn watched_launch(&mut self, rival: &Rival, is_idle: bool) -> (Launched, Option<Grade>) {
        let cpus = self.plan.pin.map(Vec::from).unwrap_or_default();
        let (before, start) = (detector::watch(&cpus, WATCH), Counters::read());
        let launched = self.launch(rival, is_idle);
        (rival.clean)();
        let (after, end) = (detector::watch(&cpus, WATCH), Counters::read());
        let facts = detector::facts(&[&before, &after], &start, &end, &cpus);
        (launched, noise::grade(&facts).map(|graded| graded.grade))
    }

    fn launch(&mut self, rival: &Rival, is_idle: bool) -> Launched {
        self.launches += 1;
        let (name, folder) = launch::name_and_folder(self.launches);
        let mut cells = match is_idle {
            true => vec![Cell { kind: Kind::Sink, bytes: IDLE_CALL_BYTES }],
            false => self.plan.cells(),
        };
        self.rng.shuffle(&mut cells);
        let sizes = self.plan.cells().into_iter().map(|cell| cell.bytes);
        let cell = if is_idle { IDLE_CALLS } else { self.plan.cell };
        let request = LaunchRequest {
            rival: rival.name.to_owned(),
            role: Role::Client,
            folder,
            name,
            cpu: None,
            server_pid: 0,
            message_bytes_max: sizes.max().unwrap_or(0),
            seed: self.plan.seed ^ u64::from(self.launches),
            cell_ns: u64::try_from(cell.as_nanos()).unwrap_or(u64::MAX),
            tsc: self.tsc,
            stay: is_idle,
            cells,
        };
        let count = u32::try_from(request.cells.len()).unwrap_or(u32::MAX);
        let patience = Patience {
            start: START_PATIENCE,
            cells: cell.saturating_mul(count).saturating_mul(4),
            idle: is_idle.then_some(self.plan.idle),
        };
        let cpus = self.plan.pin.map_or([None; 2], |cpus| cpus.map(Some));
        launch::launch(&request, cpus, patience)
    }
}

/// The current time, as stored documents have it.
pub(crate) fn unix_s() -> u64 {
    clock::realtime_ns() / 1_000_000_000
}

/// Small messages, of which the rate is measured.
const RATE_BYTES: usize = 8;

/// What an idle server has served before.
const IDLE_CALL_BYTES: usize = 64;

/// For how long it was called.
const IDLE_CALLS: Duration = Duration::from_millis(30);

/// A library may need some seconds to find its other end; none should need more.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How long the CPUs are watched before and after a launch.
const WATCH: Duration = Duration::from_millis(5);
