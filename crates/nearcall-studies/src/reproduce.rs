//! Repeats studies: measures their cells, puts the papers' tables beside them, judges the claims.
//!
//! Launches, interleaving and noise are those of every run (`runner.rs`). Which cells there are is
//! in `protocol.rs`, the tables in `tables.rs`, the verdicts in
//! `claims.rs`.

use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_os::cpu;

use crate::background::Background;
use crate::bench_plan::{BenchPlan, ExperimentDefaults, RunOptions};
use crate::cell::{CellSpec, Subject};
use crate::cell_list::CellList;
use crate::claims::{self, Judged};
use crate::cpu_layout::StudyPlacement;
use crate::footprint::ServiceFiles;
use crate::machine;
use crate::protocol::{self, Line};
use crate::run::{Cell, Kind, Run, StudyFacts, StudyResult};
use crate::runner::{self, BenchError, Program, RunContext, Task};
use crate::{Study, collect, published, stored, tables};

/// How to repeat studies.
#[derive(Clone, Debug, Default)]
pub struct StudiesPlan {
    /// Which ones, each once.
    pub studies: Vec<Study>,
    /// Starts a process that runs [`peer::run`](nearcall_bench::peer::run); without it nothing is
    /// said of memory.
    pub services: Option<Program>,
    /// The services that are measured as programs and as libraries, or why they are missing.
    pub service_files: Option<Result<ServiceFiles, String>>,
    /// Where and how.
    pub options: RunOptions,
}

/// Repeats the studies of `plan` and returns the run, whole or marked as cut short.
///
/// Blocks for the plan's time budget, without one for up to twelve minutes. Call it as
/// [`measure`](nearcall_bench::experiment::measure).
///
/// # Errors
///
/// As [`measure`](nearcall_bench::experiment::measure).
pub fn reproduce(plan: &StudiesPlan, context: &RunContext<'_>) -> Result<Run, BenchError> {
    let layout = StudyPlacement::new(&cpu::allowed(), &machine::topology(), plan.options.quick);
    let lines: Vec<Line> =
        plan.studies.iter().flat_map(|&study| protocol::lines(study, &layout)).collect();
    let files = plan.service_files.as_ref().map(|files| files.as_ref().map_err(String::as_str));
    let services = plan.services.as_ref().zip(files);
    let background = Background::measure(&plan.studies, services, plan.options.quick, context);
    let effort = plan.options.effort(&USUAL);
    let common = BenchPlan {
        kinds: vec![Kind::Latency, Kind::Throughput],
        options: plan.options.clone(),
        ..BenchPlan::default()
    };
    let find = |_: Option<&str>| tour(&lines, &layout);
    let conclude = |run: &mut Run, specs: &[CellSpec], cells: &mut [Cell]| {
        name_cells(run, &lines, specs, cells);
    };
    let task = Task { find: &find, effort: Some(effort), together: false, conclude: &conclude };
    let mut run = runner::bench_cells(&common, &task, context)?;
    conclude_studies(&mut run, plan, &lines, &layout, &background);
    Ok(run)
}

/// Tables and verdicts from what was measured.
fn conclude_studies(
    run: &mut Run,
    plan: &StudiesPlan,
    lines: &[Line],
    layout: &StudyPlacement,
    background: &Background,
) {
    warn_of_loads(run);
    let facts = layout.facts.clone();
    let mut evidence = collect::evidence(&run.study_cells, &run.skipped, lines, facts);
    background.add_to(&mut evidence);
    if !run.timers.iter().any(|timer| timer.used && timer.source == "tsc") {
        // Both figures of a cell would be of one clock.
        collect::without_disagreement(&mut evidence);
    }
    let judged = claims::judge_all(&evidence, &plan.studies);
    let of = |name: &str| -> Vec<Judged> {
        judged.iter().filter(|one| one.study == name).cloned().collect()
    };
    for &study in &plan.studies {
        run.studies.push(StudyResult {
            study: study.name().to_owned(),
            number: study.number().to_owned(),
            title: study.title().to_owned(),
            tables: tables::tables(study, &run.study_cells, layout, &|row| background.figure(row)),
            verdicts: of(study.name()),
            figures: stored::figures(&evidence, study),
        });
    }
    let between = of(published::CROSS_STUDY);
    if !between.is_empty() {
        run.studies.push(StudyResult {
            study: published::CROSS_STUDY.to_owned(),
            title: "where the studies contradict each other".to_owned(),
            verdicts: between,
            ..StudyResult::default()
        });
    }
}

/// A load that was not reached is reported; its cells count all the same.
fn warn_of_loads(run: &mut Run) {
    let loaded = || run.study_cells.iter().filter(|cell| cell.load != "idle");
    let short = |cell: &&Cell| cell.tags.iter().any(|tag| tag == "load_not_reached");
    let count = loaded().filter(short).count();
    if count > 0 {
        let all = loaded().count();
        run.warnings.push(format!(
            "{count} of {all} cells beside a load had less of it than asked for; what was achieved \
             stands with each cell"
        ));
    }
}

/// Each cell once, and what cannot be measured with the reason.
fn tour(lines: &[Line], layout: &StudyPlacement) -> CellList {
    let mut tour = CellList::default();
    for line in lines {
        let spec = line.spec;
        let supported = match spec.subject {
            Subject::Call(route) => route.mechanism().map_or(Ok(()), Mechanism::supported),
            _ => Ok(()),
        };
        match supported {
            Err(reason) => tour.skip(spec.subject.name(), reason, true),
            Ok(()) if !tour.cells.contains(&spec) => tour.cells.push(spec),
            Ok(()) => {}
        }
    }
    if !layout.has_two_cpus() {
        tour.skip("what needs two CPUs", "only one CPU is allowed".to_owned(), false);
    }
    tour
}

/// Marks each cell with its study. One that stands for several lines is stored for each of them.
fn name_cells(run: &mut Run, lines: &[Line], specs: &[CellSpec], cells: &mut [Cell]) {
    for (spec, cell) in specs.iter().zip(cells) {
        // A floor is an exchange at full speed; a study's own figures are what it compares.
        cell.floor = None;
        let mut owners = lines.iter().filter(|line| line.spec == *spec);
        let Some(first) = owners.next() else { continue };
        let named = |line: &Line, cell: &Cell| StudyFacts {
            study: line.study.name().to_owned(),
            mechanism: line.mechanism.to_owned(),
            ..cell.study.clone().unwrap_or_default()
        };
        for line in owners {
            run.study_cells.push(Cell { study: Some(named(line, cell)), ..cell.clone() });
        }
        cell.study = Some(named(first, cell));
    }
}

/// Rule R12; more narrow the intervals, and fit in the time on most machines.
const LAUNCHES: u32 = 5;

/// With `quick`.
const LAUNCHES_QUICK: u32 = 2;

/// With the clocks and the rest below a quarter of an hour, all five studies.
const BUDGET: Duration = Duration::from_secs(720);

/// With `quick`.
const BUDGET_QUICK: Duration = Duration::from_secs(90);

/// What all of that takes.
const USUAL: ExperimentDefaults = ExperimentDefaults {
    launches: LAUNCHES,
    launches_quick: LAUNCHES_QUICK,
    budget: BUDGET,
    budget_quick: BUDGET_QUICK,
    cell_max: Some(CELL_MAX),
};

/// What is slower than this has enough exchanges by then.
const CELL_MAX: Duration = Duration::from_millis(600);
