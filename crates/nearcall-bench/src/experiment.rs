//! The experiments that `bench` has: a table of rows, which come from the files of this module.
//!
//! **Invariants:** an experiment is a row and its name in [`ALL`]. Its
//! cells are a function of the plan and of facts about the machine; launches, interleaving,
//! warm-up, statistics and grades are those of every run (`runner.rs`).
//! **Not here:** the loops that are measured (`exchange/`, `calls/`), the tables
//! (`nearcall-results`).

mod budgets;
mod calls;
mod matrix;
mod mechanisms;
mod switches;
mod traffic;
mod wait_policies;

use std::fmt;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::cpu;
use nearcall_results::topology::Topology;

use crate::bench_plan::{BenchPlan, ExperimentDefaults, Placement, RunOptions};
use crate::cell::{CellSpec, Subject};
use crate::cell_list::CellList;
use crate::launch::Fault;
use crate::machine;
use crate::run::{Cell, Kind, Run};
use crate::runner::{self, BenchError, RunContext, Task};

pub use budgets::BUDGETS;
pub use calls::CALLS;
pub use matrix::MATRIX;
pub use mechanisms::{ALL_KINDS, LATENCY, THROUGHPUT};
pub use switches::SWITCHES;
pub use traffic::{BURST, CLIENTS, CONNECT, IDLE_CLIENTS, IDLE_GAP, OPEN_LOOP, THREADS};
pub use wait_policies::WAIT_POLICIES;

/// All experiments, in the order in which they are listed.
pub static ALL: [&Experiment; 15] = [
    &LATENCY,
    &THROUGHPUT,
    &ALL_KINDS,
    &CALLS,
    &CLIENTS,
    &THREADS,
    &CONNECT,
    &OPEN_LOOP,
    &BURST,
    &IDLE_GAP,
    &IDLE_CLIENTS,
    &SWITCHES,
    &WAIT_POLICIES,
    &MATRIX,
    &BUDGETS,
];

/// Something that can be measured and becomes a run.
pub struct Experiment {
    /// The word on the command line.
    pub name: &'static str,
    /// What it measures, in a line.
    pub summary: &'static str,
    /// What a user should know of it; may be empty.
    pub details: &'static str,
    /// Commands to begin with.
    pub examples: &'static str,
    /// The options that it has beside those of every run, by their names.
    pub options: &'static [&'static str],
    /// The kinds of its cells.
    pub kinds: &'static [Kind],
    /// Where both ends run unless the plan says so.
    pub placement: Placement,
    /// Launches and time; `None`: as much as mechanisms take.
    pub defaults: Option<ExperimentDefaults>,
    /// Refuses a plan that contradicts itself, by a text that names the option.
    pub check: fn(&BenchPlan) -> Result<(), String>,
    /// Finds its cells, and what cannot be measured.
    pub cells: fn(&BenchPlan, &Machine<'_>) -> CellList,
    /// Told its cells and what was measured of them, before that becomes part of the run.
    pub finish: fn(&BenchPlan, &Machine<'_>, &mut Run, &[CellSpec], &mut [Cell]),
    /// Told the whole run.
    pub complete: fn(&BenchPlan, &mut Run),
}

impl Experiment {
    /// The defaults of a row.
    const BASE: Self = Self {
        name: "",
        summary: "",
        details: "",
        examples: "",
        options: &[],
        kinds: &[Kind::Latency],
        placement: Placement::Auto,
        defaults: None,
        check: |_| Ok(()),
        cells: |_, _| CellList { cells: Vec::new(), skipped: Vec::new() },
        finish: |_, _, _, _, _| {},
        complete: |_, _| {},
    };
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Experiment {
    /// By name: no two rows have the same.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What the choice of cells depends on.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Asks the kernel for a mechanism; an error says why it lacks it.
    pub supported: &'a dyn Fn(Mechanism) -> Result<(), String>,
    /// Why ends that spin cannot work where both will run, if they cannot.
    pub no_spinning: Option<&'a str>,
    /// The processors that may be used.
    pub cpus: &'a [usize],
    /// How they are related.
    pub topology: &'a Topology,
}

impl Machine<'_> {
    /// Those of `ways` that can be measured; the others are skipped in `list`, with the reason.
    fn usable(
        &self,
        ways: impl IntoIterator<Item = (Mechanism, WaitPolicy)>,
        list: &mut CellList,
    ) -> Vec<(Mechanism, WaitPolicy)> {
        let is_usable = |&(mechanism, wait): &(Mechanism, WaitPolicy)| {
            let waits = mechanism.waits();
            let spins = wait == WaitPolicy::Spin || mechanism.capabilities().needs_spinning;
            let why_not = match ((self.supported)(mechanism), self.no_spinning) {
                (Err(reason), _) => Some((reason, true)),
                _ if !waits.contains(&wait) => {
                    let has: Vec<&str> = waits.iter().map(|wait| wait.name()).collect();
                    Some((format!("cannot wait by {wait}; it can by {}", has.join(", ")), false))
                }
                (Ok(()), Some(reason)) if spins => Some((format!("by {wait}: {reason}"), false)),
                _ => None,
            };
            let is_usable = why_not.is_none();
            if let Some((reason, unsupported)) = why_not {
                list.skip(mechanism.name(), reason, unsupported);
            }
            is_usable
        };
        ways.into_iter().filter(is_usable).collect()
    }

    /// Adds the cells of floors to `list`, or why one that spins cannot be measured.
    fn add_floors(&self, floors: Vec<CellSpec>, list: &mut CellList) {
        for cell in floors {
            let Subject::Floor(floor) = cell.subject else { continue };
            match self.no_spinning.filter(|_| floor.needs_two_cpus()) {
                Some(reason) => list.skip(floor.name(), reason.to_owned(), false),
                None => list.cells.push(cell),
            }
        }
    }
}

/// Measures `plan` by `experiment` and returns the run, whole or marked as cut short.
///
/// Blocks for the time budget of the plan, or of the experiment if that has none. Call it from a
/// thread that lives as long as the measurement: its children die with it.
///
/// # Errors
///
/// [`BenchError`]: nothing could be measured, or what was measured must not be believed. A cell
/// that failed is no error: it stands in [`Run::skipped`].
pub fn measure(
    experiment: &Experiment,
    plan: &BenchPlan,
    context: &RunContext<'_>,
) -> Result<Run, BenchError> {
    let placement = match plan.options.placement {
        Placement::Auto => experiment.placement,
        asked => asked,
    };
    let kinds = experiment.kinds.iter().filter(|kind| plan.kinds.contains(kind)).copied();
    let plan = BenchPlan {
        kinds: kinds.collect(),
        options: RunOptions { placement, ..plan.options.clone() },
        ..plan.clone()
    };
    let (cpus, topology) = (cpu::allowed(), machine::topology());
    let on = Machine {
        supported: &Mechanism::supported,
        no_spinning: None,
        cpus: &cpus,
        topology: &topology,
    };
    let find =
        |no_spinning: Option<&str>| (experiment.cells)(&plan, &Machine { no_spinning, ..on });
    let conclude = |run: &mut Run, specs: &[CellSpec], cells: &mut [Cell]| {
        (experiment.finish)(&plan, &on, run, specs, cells);
    };
    let effort = experiment.defaults.map(|defaults| plan.options.effort(&defaults));
    // Cells of mechanisms are compared with each other.
    let together = effort.is_none();
    let task = Task { find: &find, effort, together, conclude: &conclude };
    let fault = plan.stall_ns.map_or(context.fault, |ns| Fault::Stall { ns });
    let context = RunContext { program: context.program.clone(), fault, ..*context };
    let mut run = runner::bench_cells(&plan, &task, &context)?;
    (experiment.complete)(&plan, &mut run);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    impl<'a> Machine<'a> {
        /// Two processors of which nothing else is known.
        pub(super) fn with(
            supported: &'a dyn Fn(Mechanism) -> Result<(), String>,
            no_spinning: Option<&'a str>,
        ) -> Self {
            static TOPOLOGY: LazyLock<Topology> = LazyLock::new(Topology::default);
            Machine { supported, no_spinning, cpus: &[0, 1], topology: &TOPOLOGY }
        }
    }

    #[test]
    fn no_two_experiments_have_one_name_and_each_says_what_it_is() {
        for (at, one) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != one.name), "{}", one.name);
            assert!(one.summary.starts_with("Measure "), "{}", one.name);
            assert!(one.examples.starts_with("Examples:\n  nearcall bench"), "{}", one.name);
        }
    }

    #[test]
    fn every_experiment_has_cells_on_one_cpu_and_on_two() {
        for one in ALL {
            for (cpus, no_spinning) in [(&[0, 1][..], None), (&[0][..], Some("one CPU"))] {
                let on = Machine { cpus, ..Machine::with(&|_| Ok(()), no_spinning) };
                let found = (one.cells)(&BenchPlan::default(), &on);
                assert!(!found.cells.is_empty(), "{} on {cpus:?}", one.name);
            }
        }
    }
}
