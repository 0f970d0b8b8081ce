//! Measures a plan: launches two fresh processes again and again, in random order.
//!
//! A unit is a subject with a wait policy; all of its cells share a launch. What a plain run
//! compares shares a launch too, a slice of each at a time (`slices.rs`).
//! **Invariants:** when [`bench_specs`] returns, every process that it started is gone; what was
//! measured before an interruption is kept and the run is marked.
//! **Not here:** what the processes do (`peer.rs`), which cells there are (`experiment/`), what
//! figures are made of the samples (`runner/assemble.rs`).
//!
//! **Invariant:** the two ends of a cell are separate processes. *Checked by* `tests/it/runner.rs`,
//! by the process ids of the record.

use std::collections::VecDeque;
use std::time::Duration;

use nearcall_channel::WaitPolicy;
use nearcall_os::cpu;
use nearcall_os::tsc::Tsc;
use nearcall_os::{clock, process};
use nearcall_results::topology::Topology;

use crate::awake::CStateLock;
use crate::bench_plan::{BenchPlan, Effort, Shape};
use crate::cell::{CellSpec, Subject, floor_of};
use crate::cell_list::CellList;
use crate::detector::{self, Counters, Watch};
use crate::exchange::{Cause, Failure};
use crate::launch::{Fault, LaunchRequest, Role, WorkerMessage};
use crate::load::{Loads, Sample, Workers};
use crate::run::{Cell, Kind, Run, Settings, Skipped, Timer};
use crate::runner::assemble::CellLaunch;
use crate::runner::disturbance::Around;
use crate::runner::placement::PinnedTo;
use crate::runner::processes::Patience;
use crate::{machine, plan, timers};

mod assemble;
mod disturbance;
pub(crate) mod placement;
pub(crate) mod processes;

pub use processes::Program;

/// What the caller brings along.
#[derive(Clone)]
pub struct RunContext<'a> {
    /// How to start a process that calls [`peer::run`](crate::peer::run).
    pub program: Program,
    /// Told before each launch and after the last: launches done, launches in all, what is next.
    pub progress: &'a dyn Fn(usize, usize, &str),
    /// Asked some times per second; true ends the run early.
    pub interrupted: &'a dyn Fn() -> bool,
    /// How much longer than planned a launch may take before it is killed.
    pub patience: Duration,
    /// Whether a launch waits while others keep the CPUs busy, for a tenth of the time budget in
    /// all. Tests that compare no figures gain nothing by it.
    pub waits_for_quiet: bool,
    /// A fault made on purpose, for tests.
    pub fault: Fault,
}

impl RunContext<'_> {
    /// A context that does nothing.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            progress: &|_, _, _| {},
            interrupted: &|| false,
            patience: PATIENCE,
            waits_for_quiet: true,
            fault: Fault::None,
        }
    }
}

/// Why there is no run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BenchError {
    /// Nothing of the plan can be measured here.
    #[error("nothing can be measured{}", reasons(.0))]
    Nothing(Vec<Skipped>),
    /// Two CPUs were asked for and only one is allowed.
    #[error("two CPUs are needed and only one is allowed")]
    OneCpu,
    /// A CPU was asked for that does not exist or is not allowed.
    #[error("CPU {cpu} does not exist or is not allowed; allowed: {}", list(allowed))]
    NotAllowed {
        /// The CPU.
        cpu: u32,
        /// Those that are allowed.
        allowed: Vec<usize>,
    },
    /// A message was damaged on its way, so nothing that was measured can be trusted.
    #[error("payload damaged in {cell}: {what}; no figure of this run can be trusted")]
    Corrupt {
        /// The cell in words.
        cell: String,
        /// What was damaged.
        what: String,
    },
    /// A large message cost hardly more than a small one, so its bytes were not moved.
    #[error("payload not touched in {cell}: only {ratio:.2} times the time of a small message")]
    Untouched {
        /// The cell in words.
        cell: String,
        /// How many times the small message's time it took.
        ratio: f64,
    },
}

fn reasons(skipped: &[Skipped]) -> String {
    skipped.iter().map(|one| format!("; {}: {}", one.mechanism, one.reason)).collect()
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Measures exactly `cells`, in as many launches as `plan` says. What would spin on a shared CPU is
/// skipped.
///
/// Blocks for the time budget of the plan. Call it from a thread that lives as long as the
/// measurement: its children die with it.
///
/// # Errors
///
/// As [`measure`](crate::experiment::measure).
pub fn bench_specs(
    plan: &BenchPlan,
    cells: &[CellSpec],
    context: &RunContext<'_>,
) -> Result<Run, BenchError> {
    let find = |no_spinning: Option<&str>| {
        let mut list = CellList::default();
        for cell in cells {
            match no_spinning.filter(|_| cell.wait == WaitPolicy::Spin) {
                Some(reason) => list.skip(cell.subject.name(), reason.to_owned(), false),
                None => list.cells.push(*cell),
            }
        }
        list
    };
    let nothing = |_: &mut Run, _: &[CellSpec], _: &mut [Cell]| {};
    let task = Task { find: &find, effort: None, together: false, conclude: &nothing };
    bench_cells(plan, &task, context)
}

/// What to measure, and what to make of it.
pub struct Task<'a> {
    /// Gives the cells; told why ends cannot spin, if they cannot.
    pub find: &'a dyn Fn(Option<&str>) -> CellList,
    /// `None`: as for mechanisms.
    pub effort: Option<Effort>,
    /// Whether all cells of one place share their launches, since they are compared.
    pub together: bool,
    /// Told what was measured, cell by cell, before it becomes part of the run.
    pub conclude: &'a Conclude<'a>,
}

/// Told cells with what was measured of them.
pub type Conclude<'a> = dyn Fn(&mut Run, &[CellSpec], &mut [Cell]) + 'a;

/// Measures the cells of a task; `plan` says how and where, not what.
///
/// # Errors
///
/// As [`measure`](crate::experiment::measure).
pub fn bench_cells(
    plan: &BenchPlan,
    task: &Task<'_>,
    context: &RunContext<'_>,
) -> Result<Run, BenchError> {
    let topology = machine::topology();
    let placed = placement::resolve(plan.options.placement, &cpu::allowed(), &topology)?;
    let CellList { cells, skipped } = (task.find)(placed.no_spinning);
    if cells.is_empty() {
        return Err(BenchError::Nothing(skipped));
    }
    let awake = plan.options.awake.then(CStateLock::hold);
    let tsc = Tsc::calibrate();
    let timers = timers::measure_with(&tsc);
    let units = units(&cells);
    let Effort { launches, budget, cell_max } = task.effort.unwrap_or_else(|| {
        let launches = launches_of(plan);
        let budget = budget_of(plan, cells.len(), launches);
        Effort { launches, budget, cell_max: None }
    });
    let mut run = Run::new(
        machine::read(),
        settings(plan, &cells, launches, budget),
        clock::realtime_ns() / NS_PER_S,
    );
    run.tool = machine::tool();
    run.timers = timers;
    run.skipped = skipped;
    if let Some(awake) = &awake {
        run.machine.state.idle_held = Some(awake.is_held());
        run.settings.sleep_states = awake.words();
    }
    let mut bench = Bench {
        plan,
        context,
        placed,
        topology,
        memory: String::new(),
        watched: Vec::new(),
        loads: Loads::new(&context.program, cpu::allowed()),
        tsc: tsc.ok().map(|tsc| tsc.calibration()),
        rng: fastrand::Rng::with_seed(plan.options.seed),
        found: units.iter().map(|unit| vec![Vec::new(); unit.len()]).collect(),
        failures: vec![None; units.len()],
        units,
        until_ns: clock::monotonic_ns().saturating_add(ns(budget)),
        out_of_time: false,
        apart: None,
        patience_ns: if context.waits_for_quiet { ns(budget) / QUIET_SHARE } else { 0 },
        cell_ns_max: match (plan.options.time_budget, cell_max) {
            (Some(_), _) => CELL_NS_CEILING,
            (None, Some(cell_max)) => ns(cell_max),
            (None, None) => CELL_NS_MAX,
        },
    };
    let waited_ns = bench.patience_ns;
    let reason = bench.measure(launches, task.together)?;
    let waited_ns = waited_ns - bench.patience_ns;
    if waited_ns >= NS_PER_S {
        let waited = waited_ns as f64 / NS_PER_S as f64;
        run.warnings.push(format!("waited {waited:.1} s in all for CPUs that others kept busy"));
    }
    bench.fill(&mut run, task)?;
    if let Some(reason) = reason {
        run.mark_partial(reason);
    }
    run.finished_unix_s = Some(clock::realtime_ns() / NS_PER_S);
    Ok(run)
}

/// A bench under way.
struct Bench<'a> {
    plan: &'a BenchPlan,
    context: &'a RunContext<'a>,
    placed: PinnedTo,
    topology: Topology,
    /// Whether the memory of the ends was locked, in words.
    memory: String,
    /// The CPUs of all units.
    watched: Vec<usize>,
    /// What runs beside cells on purpose.
    loads: Loads<'a>,
    tsc: Option<[u64; 2]>,
    rng: fastrand::Rng,
    units: Vec<Vec<CellSpec>>,
    /// Per unit and cell, its launches.
    found: Vec<Vec<Vec<CellLaunch>>>,
    /// Per unit, why it is given up.
    failures: Vec<Option<Failure>>,
    /// When the time budget is over.
    until_ns: u64,
    /// Whether launches were left out because it was.
    out_of_time: bool,
    /// Why cells that should have shared their launches do not.
    apart: Option<String>,
    /// How long launches may still wait for CPUs that others keep busy.
    patience_ns: u64,
    cell_ns_max: u64,
}

impl Bench<'_> {
    /// Runs all launches. Says why it ended early, if it did.
    fn measure(
        &mut self,
        launches: u32,
        together: bool,
    ) -> Result<Option<&'static str>, BenchError> {
        let mut sets = sets(&self.units, together);
        let mut schedule = self.schedule(&sets, launches);
        self.watched = self.used_cpus();
        self.calibrate_loads();
        let mut quiet = self.look_around();
        let mut order = 0;
        while let Some(launch) = schedule.pop_front() {
            let set = self.left_of(&sets[launch.cell]);
            let Some(&unit) = set.first() else { continue };
            if launch.launch >= LAUNCHES_MIN && clock::monotonic_ns() >= self.until_ns {
                self.out_of_time = true;
                break;
            }
            let name = self.units[unit][0].subject.name();
            let name = if set.len() == 1 { name } else { "slices of all" };
            (self.context.progress)(order, order + schedule.len() + 1, name);
            if (self.context.interrupted)() {
                return Ok(Some("interrupted"));
            }
            quiet = self.wait_until_quiet(quiet);
            let cells_of =
                |set: &[usize]| set.iter().map(|&unit| self.units[unit].len()).sum::<usize>();
            let left: Vec<usize> =
                schedule.iter().map(|one| cells_of(&self.left_of(&sets[one.cell]))).collect();
            let launches_left = 1 + left.iter().filter(|&&cells| cells > 0).count();
            let cells_left = cells_of(&set) + left.iter().sum::<usize>();
            let cell_ns = self.cell_budget_ns(launches_left, cells_left);
            let conditions = self.units[unit][0].conditions;
            let load = conditions.load;
            let workers = (!load.is_idle())
                .then(|| self.loads.start(load, self.plan.options.seed ^ order as u64));
            let launched = self.launch(&set, order, cell_ns);
            // Gone before anything is looked at: what is seen then is not our own doing.
            let beside = workers.map(Workers::end);
            let after = self.look_around();
            let around = Around::of(&quiet, &after, &self.place(unit), conditions.crowds());
            quiet = after;
            match self.keep(&set, order, launched, (&around, beside))? {
                Kept::All => {}
                Kept::Again => schedule.push_front(launch),
                Kept::Apart => {
                    sets = self::sets(&self.units, false);
                    schedule = self.schedule(&sets, launches - launch.launch);
                }
            }
            order += 1;
        }
        (self.context.progress)(order, order, "");
        Ok((self.context.interrupted)().then_some("interrupted"))
    }

    fn schedule(&self, sets: &[Vec<usize>], launches: u32) -> VecDeque<plan::Launch> {
        let seed = self.plan.options.seed;
        let is_apart = sets.len() == self.units.len();
        let groups = if is_apart { beside_floors(&self.units) } else { (0..sets.len()).collect() };
        plan::schedule_beside(&groups, launches, seed).into()
    }

    /// The units of a set that are not given up.
    fn left_of(&self, set: &[usize]) -> Vec<usize> {
        set.iter().copied().filter(|&unit| self.failures[unit].is_none()).collect()
    }

    /// Waits while others keep a CPU busy that is about to be used, for a part of the run's time
    /// in all. What is seen before a launch decides, never what a launch has measured.
    fn wait_until_quiet(&mut self, mut seen: (Watch, Counters)) -> (Watch, Counters) {
        while seen.0.is_taken() && self.patience_ns > 0 && !(self.context.interrupted)() {
            let pause_ns = QUIET_PAUSE_NS.min(self.patience_ns);
            clock::pause(Duration::from_nanos(pause_ns));
            self.patience_ns -= pause_ns;
            seen = self.look_around();
        }
        seen
    }

    /// Finds out how to reach each load that the run has, before anything is measured.
    fn calibrate_loads(&mut self) {
        let begin_ns = clock::monotonic_ns();
        for unit in &self.units {
            self.loads.calibrate(unit[0].conditions.load, self.context.interrupted);
        }
        // The cells have the time that was planned for them.
        self.until_ns += clock::monotonic_ns().saturating_sub(begin_ns);
    }

    /// What each of the cells that are left may take, so that all end in time.
    fn cell_budget_ns(&self, launches_left: usize, cells_left: usize) -> u64 {
        let left_ns = self.until_ns.saturating_sub(clock::monotonic_ns());
        let overhead_ns = LAUNCH_NS * launches_left as u64 + CELL_OVERHEAD_NS * cells_left as u64;
        let share_ns = left_ns.saturating_sub(overhead_ns) / cells_left.max(1) as u64;
        share_ns.clamp(CELL_NS_MIN, self.cell_ns_max)
    }

    fn used_cpus(&self) -> Vec<usize> {
        let mut cpus = self.placed.cpus();
        cpus.extend((0..self.units.len()).flat_map(|unit| self.place(unit).cpus()));
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    fn look_around(&self) -> (Watch, Counters) {
        (detector::watch(&self.watched, WATCH), Counters::read())
    }

    /// Where both ends of a unit run.
    fn place(&self, unit: usize) -> PinnedTo {
        placement::at(self.units[unit][0].conditions.spot, &self.placed, &self.topology)
    }

    fn launch(&mut self, set: &[usize], order: usize, cell_ns: u64) -> processes::Launched {
        let mut cells: Vec<CellSpec> =
            set.iter().flat_map(|&unit| self.units[unit].iter().copied()).collect();
        self.rng.shuffle(&mut cells);
        let (subject, wait, conditions) = cells[0].unit();
        let placed = self.place(set[0]);
        let request = |role, cpu| LaunchRequest {
            role,
            subject,
            wait,
            conditions,
            meet_at: format!(
                "nearcall-bench-{}-{order}-{:x}",
                process::pid(),
                clock::monotonic_ns()
            ),
            cpu,
            cells: cells.clone(),
            slices: set.len() > 1,
            seed: self.plan.options.seed ^ order as u64,
            cell_budget_ns: cell_ns,
            tsc: self.tsc,
            fault: self.context.fault,
        };
        let client = request(Role::Client, placed.client);
        let server = LaunchRequest { role: Role::Server, cpu: placed.server, ..client.clone() };
        let padding = [self.rng.usize(..PADDING_BYTES_MAX), self.rng.usize(..PADDING_BYTES_MAX)];
        let planned_ns = |cell: &CellSpec| cell_ns.max(cell.conditions.least_ns());
        let planned_ns = cells.iter().map(planned_ns).fold(0, u64::saturating_add);
        let slices_ns = if set.len() > 1 { FIRST_SLICE_NS * cells.len() as u64 } else { 0 };
        let planned = Duration::from_nanos(planned_ns.saturating_add(slices_ns));
        let patience = Patience {
            limit: planned.saturating_mul(2).saturating_add(self.context.patience),
            interrupted: self.context.interrupted,
            started: &|_, _| Ok(()),
        };
        processes::launch(&self.context.program, [&client, &server], padding, &patience)
    }

    /// Files what a launch gave under its cells.
    fn keep(
        &mut self,
        set: &[usize],
        order: usize,
        launched: processes::Launched,
        (around, beside): (&Around, Option<Sample>),
    ) -> Result<Kept, BenchError> {
        let mut set_up = (None, Vec::new());
        let (mut given, mut blamed) = (vec![0; self.units.len()], None);
        for message in launched.messages {
            match message {
                WorkerMessage::Connected { set_up_ns, sizes, memory, .. } => {
                    set_up = (set_up_ns, sizes);
                    // One end without is worth more than many with.
                    if !memory.is_empty() && !self.memory.starts_with("not") {
                        self.memory = memory;
                    }
                }
                WorkerMessage::Cell { cell, outcome } => {
                    let at = |&unit: &usize| {
                        Some((unit, self.units[unit].iter().position(|spec| *spec == cell)?))
                    };
                    let Some((unit, at)) = set.iter().find_map(at) else { continue };
                    match outcome {
                        Ok(measured) => {
                            given[unit] += 1;
                            self.found[unit][at].push(CellLaunch {
                                measured: *measured,
                                around: around.clone(),
                                beside: beside.clone(),
                                order: u32::try_from(order).unwrap_or(u32::MAX),
                                pids: launched.pids,
                                environment_bytes: launched.environment_bytes.map(bytes),
                                set_up_ns: set_up.0,
                                sizes: set_up.1.clone(),
                            });
                        }
                        Err(failure) => {
                            blamed = Some(unit);
                            self.failures[unit] = Some(failure);
                        }
                    }
                }
                _ => {}
            }
        }
        let blamed = blamed.or(Some(set[0]).filter(|_| set.len() == 1));
        match (launched.failure, blamed) {
            (Some(failure), _) if failure.cause == Cause::Corrupt => Err(BenchError::Corrupt {
                cell: self.units[blamed.unwrap_or(set[0])][0].subject.name().to_owned(),
                what: failure.text,
            }),
            // What was cut off by the user is no failure of the cell.
            _ if (self.context.interrupted)() => Ok(Kept::All),
            (Some(failure), Some(unit)) => {
                self.failures[unit] = Some(failure);
                Ok(Kept::Again)
            }
            // Each by itself, so that it falls on the one that has it.
            (Some(failure), None) => {
                self.apart = Some(failure.text);
                Ok(Kept::Apart)
            }
            (None, _) => {
                for &unit in set {
                    let lacks = given[unit] < self.units[unit].len();
                    if lacks && self.failures[unit].is_none() {
                        self.failures[unit] = Some(Failure::other("a process gave no result"));
                    }
                }
                Ok(Kept::All)
            }
        }
    }

    /// Puts cells, floors and failures into the run.
    fn fill(&self, run: &mut Run, task: &Task<'_>) -> Result<(), BenchError> {
        run.settings.memory.clone_from(&self.memory);
        let timer: Option<Timer> = run.timers.iter().find(|timer| timer.used).cloned();
        let (mut specs, mut cells) = (Vec::new(), Vec::new());
        for (unit, failure) in self.failures.iter().enumerate() {
            let placed = self.place(unit);
            for (spec, launches) in self.units[unit].iter().zip(&self.found[unit]) {
                let made = match launches.is_empty() {
                    true => Err(failure.as_ref().map(|failure| failure.text.clone())),
                    false if matches!(spec.subject, Subject::AtRest(_)) => {
                        run.at_rest.push(assemble::at_rest(spec, launches, &placed));
                        continue;
                    }
                    false => {
                        let timer = timer.as_ref();
                        let launches_asked = run.settings.launches;
                        assemble::cell(spec, launches, &placed, timer, launches_asked).map_err(Some)
                    }
                };
                match made {
                    Ok(cell) => {
                        specs.push(*spec);
                        cells.push(cell);
                    }
                    Err(Some(reason)) => run.skipped.push(skipped(spec, failure.as_ref(), reason)),
                    // Not reached before the interruption.
                    Err(None) => {}
                }
            }
            if let Some(failure) = failure.as_ref().filter(|_| !self.found[unit][0].is_empty()) {
                let name = self.units[unit][0].subject;
                run.warnings.push(format!("{name}: a launch failed: {}", failure.text));
            }
        }
        if let Some(reason) = &self.apart {
            run.warnings
                .push(format!("a launch of all cells failed, so each has its own: {reason}"));
        }
        if self.out_of_time {
            run.warnings.push("the time was over before all launches were made".to_owned());
        }
        merge_skips(&mut run.skipped);
        assemble::compare(&specs, &mut cells);
        if let Some((spec, ratio)) = assemble::untouched(&specs, &cells) {
            return Err(BenchError::Untouched { cell: spec.to_string(), ratio });
        }
        (task.conclude)(run, &specs, &mut cells);
        for (spec, cell) in specs.iter().zip(cells) {
            match spec.subject {
                _ if cell.study.is_some() => run.study_cells.push(cell),
                Subject::Floor(_) => run.floors.push(cell),
                Subject::Mechanism(_) | Subject::Call(_) => run.cells.push(cell),
                Subject::Bare(_) if spec.shape != Shape::Send => run.bare.push(cell),
                Subject::Bare(_) | Subject::Custom(_) | Subject::Part(_) | Subject::AtRest(_) => {
                    run.parts.push(cell);
                }
            }
        }
        Ok(())
    }
}

/// What became of a launch.
enum Kept {
    /// What it gave is kept.
    All,
    /// A unit broke it and is given up; the others go on.
    Again,
    /// It broke, and what broke it is not known.
    Apart,
}

fn skipped(spec: &CellSpec, failure: Option<&Failure>, reason: String) -> Skipped {
    Skipped {
        mechanism: spec.subject.name().to_owned(),
        reason,
        unsupported: failure.is_some_and(|failure| failure.cause == Cause::Unsupported),
        kind: Some(spec.kind),
        message_bytes: Some(spec.message_bytes),
        shape: (spec.kind == Kind::Latency).then(|| spec.shape.name().to_owned()),
        wait: Some(spec.wait.name().to_owned()),
    }
}

/// One line for a mechanism of which every cell was skipped for one reason.
fn merge_skips(skips: &mut Vec<Skipped>) {
    for one in skips.iter_mut().filter(|one| one.unsupported) {
        (one.kind, one.message_bytes) = (None, None);
        (one.shape, one.wait) = (None, None);
    }
    skips.dedup();
}

/// Cells by what must be opened for them, in the order of the first of each.
fn units(cells: &[CellSpec]) -> Vec<Vec<CellSpec>> {
    let mut units: Vec<Vec<CellSpec>> = Vec::new();
    for cell in cells {
        match units.iter_mut().find(|unit| unit[0].unit() == cell.unit()) {
            Some(unit) => unit.push(*cell),
            None => units.push(vec![*cell]),
        }
    }
    units
}

/// The units, as their numbers, that share a launch: if `together`, all of one place and load.
fn sets(units: &[Vec<CellSpec>], together: bool) -> Vec<Vec<usize>> {
    let place = |unit: usize| (units[unit][0].conditions.spot, units[unit][0].conditions.load);
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for unit in 0..units.len() {
        let same = |set: &&mut Vec<usize>| together && place(set[0]) == place(unit);
        match sets.iter_mut().find(same) {
            Some(set) => set.push(unit),
            None => sets.push(vec![unit]),
        }
    }
    sets
}

/// For each unit the floor with which it is measured, as the number of the floor's unit: ratios are
/// those of one round, and the nearer the two are in it, the more of what the machine does falls on
/// both. Floors and what has none stand for themselves.
fn beside_floors(units: &[Vec<CellSpec>]) -> Vec<usize> {
    let floor = |unit: &Vec<CellSpec>| {
        let floor = unit.iter().find_map(floor_of)?;
        units.iter().position(|other| other.contains(&floor))
    };
    units.iter().enumerate().map(|(at, unit)| floor(unit).unwrap_or(at)).collect()
}

fn launches_of(plan: &BenchPlan) -> u32 {
    let defaults = match (plan.options.quick, plan.is_tour()) {
        (true, _) => LAUNCHES_QUICK,
        (false, true) => LAUNCHES_TOUR,
        (false, false) => LAUNCHES,
    };
    plan.options.launches.unwrap_or(defaults).max(1)
}

fn budget_of(plan: &BenchPlan, cells: usize, launches: u32) -> Duration {
    let defaults = if plan.options.quick { BUDGET_QUICK } else { BUDGET };
    // A short list needs no long run: its cells end at their own cap.
    let enough = Duration::from_nanos(CELL_NS_MAX).saturating_mul(launches);
    let enough = enough.saturating_mul(u32::try_from(cells).unwrap_or(u32::MAX));
    plan.options.time_budget.unwrap_or(defaults.min(enough + Duration::from_secs(5)))
}

fn settings(plan: &BenchPlan, cells: &[CellSpec], launches: u32, budget: Duration) -> Settings {
    let mut mechanisms = Vec::new();
    let (mut sizes_bytes, mut shapes) = (Vec::new(), Vec::new());
    for cell in cells {
        if let Subject::Mechanism(_) | Subject::Call(_) = cell.subject {
            push_new(&mut mechanisms, cell.subject.name().to_owned());
            push_new(&mut sizes_bytes, cell.message_bytes);
            push_new(&mut shapes, cell.shape.name().to_owned());
        }
    }
    sizes_bytes.sort_unstable();
    let waits = plan.waits.as_ref();
    Settings {
        arguments: plan.options.arguments.clone(),
        kinds: plan.kinds.clone(),
        mechanisms,
        sizes_bytes,
        shapes,
        wait: waits.map_or_else(
            || "default".to_owned(),
            |waits| waits.iter().map(|wait| wait.name()).collect::<Vec<_>>().join(","),
        ),
        placement: plan.options.placement.name().to_owned(),
        touch: plan.touch.name().to_owned(),
        sleep_states: String::new(),
        memory: String::new(),
        launches,
        budget_s: budget.as_secs_f64(),
        quick: plan.options.quick,
        seed: plan.options.seed,
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn bytes(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A duration in nanoseconds.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rule R12.
const LAUNCHES: u32 = 5;

/// Launches differ more than what is in them: half the launches of twice the length would give
/// intervals 1.5 times as wide. In 9 seconds each cell has a warm-up and several slices.
const LAUNCHES_TOUR: u32 = 8;

/// With `--quick`: enough to see that it works.
const LAUNCHES_QUICK: u32 = 3;

/// Made even if the time is over: one launch says nothing about the next.
const LAUNCHES_MIN: u32 = 2;

/// The tour must end within 90 seconds, start-up and table included.
const BUDGET: Duration = Duration::from_secs(75);

/// With `--quick`.
const BUDGET_QUICK: Duration = Duration::from_secs(15);

/// More time per cell and launch does not make a figure better; only more launches do.
const CELL_NS_MAX: u64 = 500_000_000;

/// With a budget of the user's, who may want long tails.
const CELL_NS_CEILING: u64 = 20_000_000_000;

/// Less time per cell and launch measures the start.
const CELL_NS_MIN: u64 = 2_000_000;

/// What a launch takes beside its cells: two processes, the detector.
const LAUNCH_NS: u64 = 40_000_000;

/// What the first slice of a cell takes at most, where others keep the CPUs busy.
const FIRST_SLICE_NS: u64 = 300_000_000;

/// What a cell takes beside its budget: payloads, marks, the report.
const CELL_OVERHEAD_NS: u64 = 6_000_000;

/// How long the gap detector watches between two launches.
const WATCH: Duration = Duration::from_millis(5);

/// Of its time a run waits this part at most for CPUs that others keep busy.
const QUIET_SHARE: u64 = 10;

/// Between two looks whether they still do.
const QUIET_PAUSE_NS: u64 = 100_000_000;

/// How much longer than planned a launch may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The environment moves the stack by up to a page.
const PADDING_BYTES_MAX: usize = 4096;

const NS_PER_S: u64 = 1_000_000_000;
