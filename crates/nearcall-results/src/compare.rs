//! Whether a later run differs from an earlier one, cell by cell and over all.
//!
//! Cells are joined by what they measure (`run/key.rs`). The unit of evidence is the launch: each
//! cell is judged by Welch's t test on the logarithms of its launch values, corrected for the
//! number of cells by Benjamini and Hochberg. Why that test and not a rank test is explained in
//! `stats/two_samples.rs`. A difference counts if it is significant and at least as large as one
//! that matters; "no difference" needs evidence too, an interval wholly within that margin;
//! everything else is "cannot tell".
//!
//! **Invariants:** runs that mean different things are refused; runs of two machines are compared
//! as machines, never as software; of the same two runs the same comparison results. What launches
//! of one run share (the machine's state that hour) no test of two runs can see. The floors of both
//! runs do, see [`FloorShift`]: a cell must have moved further than they. How a comparison looks is
//! in `report/table/compare.rs`.

mod differences;
mod judge;
pub(crate) mod summary;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dataset::run_id;
use crate::noise::Grade;
use crate::report::hosts::{self, Mismatch};
use crate::run::{Cell, CellKey, List, Run, Tool};
use crate::stats;
use crate::stats::two_samples;
use crate::words::words;

/// Compares two runs: how `after` differs from `before`.
///
/// Takes some microseconds per cell.
///
/// # Errors
///
/// [`CompareError`]: they mean different things, or measured nothing in common. That nothing can
/// be said for noise is no error but [`Overall::Unknown`].
pub fn compare(before: &Run, after: &Run, rules: &Rules) -> Result<Comparison, CompareError> {
    hosts::check(&[before, after]).map_err(CompareError::Mismatch)?;
    let (first, repeated_before) = by_key(before);
    let (mut second, repeated_after) = by_key(after);
    let mut pairs = Vec::new();
    let mut only_before = Vec::new();
    for (key, cell) in first {
        match second.remove(&key) {
            Some(other) => pairs.push((key, [cell, other])),
            None => only_before.push(key),
        }
    }
    let only_after: Vec<CellKey> = second.into_keys().collect();
    if pairs.is_empty() {
        let cells = [only_before.len(), only_after.len()];
        return Err(CompareError::NothingInCommon { cells });
    }
    let pair = judge::Pair {
        steps_ns: [step_ns(before), step_ns(after)],
        same_run: is_same(before, after),
        same_machine: before.machine.id == after.machine.id,
    };
    let warnings = differences::warnings(
        [before, after],
        &pairs,
        repeated_before + repeated_after,
        pair.same_run,
    );
    let settings = differences::settings([before, after], &pairs);
    let cells = judge::all(pairs, pair, rules);
    let counts = Counts::of(&cells);
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        rules: rules.clone(),
        before: RunFacts::of(before),
        after: RunFacts::of(after),
        same_run: pair.same_run,
        same_machine: pair.same_machine,
        machine: differences::machines(&before.machine, &after.machine),
        settings,
        warnings,
        overall: Overall::Unknown,
        summary: Vec::new(),
        counts,
        floors: FloorShift::of(&cells),
        typical_detectable: typical_detectable(&cells),
        slowdown_quartiles: slowdown_quartiles(&cells),
        cells,
        only_before,
        only_after,
    };
    comparison.overall = summary::overall(&comparison);
    comparison.summary = summary::sentences(&comparison);
    Ok(comparison)
}

/// What counts as a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The smallest difference that matters, as a share: 0.03 is 3 % more time per message.
    pub min_effect: f64,
    /// How often a difference may be found where there is none, after correction for many cells.
    pub significance: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { min_effect: MIN_EFFECT, significance: two_samples::SIGNIFICANCE }
    }
}

/// How one run differs from another (`nearcall.compare/1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What counted as a difference.
    pub rules: Rules,
    /// The run that is compared with.
    pub before: RunFacts,
    /// The run that is compared.
    pub after: RunFacts,
    /// Whether both are the same measurement.
    pub same_run: bool,
    /// Whether both measured the same machine. If not, nothing here is evidence about the software.
    pub same_machine: bool,
    /// Facts of the machine that differ.
    pub machine: Vec<Difference>,
    /// What was asked for differently, as far as it can move figures.
    pub settings: Vec<Difference>,
    /// What the reader must know before any figure.
    pub warnings: Vec<String>,
    /// The answer over all cells.
    pub overall: Overall,
    /// The answer in sentences, the most important first.
    pub summary: Vec<String>,
    /// How many cells have which verdict.
    pub counts: Counts,
    /// How the floors moved; `null` without any.
    pub floors: Option<FloorShift>,
    /// The difference that half of the judged cells would have shown, as a share; `null` without
    /// any.
    pub typical_detectable: Option<f64>,
    /// Between which slowdowns half of the judged cells lie, and the middle one: lower quartile,
    /// median, upper quartile. Describes, and proves nothing; `null` without any.
    pub slowdown_quartiles: Option<[f64; 3]>,
    /// The cells of both runs: slower first (the worst at the top), then faster, cannot tell, no
    /// difference, and what could not be judged.
    pub cells: Vec<CellComparison>,
    /// Cells that only the first run has.
    pub only_before: Vec<CellKey>,
    /// Cells that only the second run has.
    pub only_after: Vec<CellKey>,
}

impl Comparison {
    /// Cells with a p value, floors too: for so many each was corrected.
    #[must_use]
    pub fn tested(&self) -> usize {
        self.cells.iter().filter(|cell| cell.p_corrected.is_some()).count()
    }

    /// The cells that are slower by at least `share` (0.05 is 5 %), with the corrected
    /// significance; the worst first. Floors are left out: they are not nearcall.
    pub fn slower_by(&self, share: f64) -> impl Iterator<Item = &CellComparison> {
        let limit = (1.0 + share) * (1.0 - ROUNDING);
        self.cells.iter().filter(move |cell| {
            cell.verdict == Verdict::Slower
                && cell.key.list != List::Floors
                && cell.slowdown.is_some_and(|slowdown| slowdown >= limit)
        })
    }
}

/// What stands for a run in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The machine's id.
    pub machine_id: String,
    /// Its processor.
    pub cpu_model: String,
    /// Its kernel.
    pub kernel: String,
    /// What measured.
    pub tool: Tool,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
    /// Launches per cell, as asked for.
    pub launches: u32,
    /// Whether it was cut short.
    pub partial: bool,
}

impl RunFacts {
    fn of(run: &Run) -> Self {
        Self {
            machine_id: run.machine.id.clone(),
            cpu_model: run.machine.cpu_model.clone(),
            kernel: run.machine.kernel.clone(),
            tool: run.tool.clone(),
            started_unix_s: run.started_unix_s,
            launches: run.settings.launches,
            partial: run.partial,
        }
    }
}

/// Something that is not the same in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The field, as in the run file.
    pub what: String,
    /// The value in the first run.
    pub before: String,
    /// The value in the second run.
    pub after: String,
}

/// One cell of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    /// The key in words.
    pub name: String,
    /// What was measured.
    pub key: CellKey,
    /// "ns" per message, or operations "/s".
    pub unit: String,
    /// Which way is worse.
    pub worse: Worse,
    /// The first run's.
    pub before: Side,
    /// The second run's.
    pub after: Side,
    /// After to before, in the unit: of the typical launches. `null` if there are too few.
    pub ratio: Option<f64>,
    /// Where it lies with 95 % confidence.
    pub ratio_ci95: Option<[f64; 2]>,
    /// The ratio of time: above 1 is slower, also where the unit is a rate.
    pub slowdown: Option<f64>,
    /// Welch's test on logarithms.
    pub p_value: Option<f64>,
    /// The same, corrected for all cells; this one decides.
    pub p_corrected: Option<f64>,
    /// The answer.
    pub verdict: Verdict,
    /// Why it could not be judged, or not decided.
    pub reason: Option<String>,
    /// About how many launches each side would need to detect the smallest difference that matters;
    /// only with [`Verdict::CannotTell`].
    pub launches_needed: Option<u32>,
}

/// The figures of one run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The figure as the run's own table has it: the median of all times, or the rate.
    pub value: Option<f64>,
    /// The typical launch, from which the ratio comes: the geometric mean of launch values.
    pub typical: Option<f64>,
    /// Launches with a value.
    pub launches: usize,
    /// How undisturbed it was.
    pub grade: Option<Grade>,
}

/// Which way a figure gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worse {
    /// A time.
    Higher,
    /// A rate.
    Lower,
}

/// What can be said of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly, and by at least what matters.
    Slower,
    /// Significantly, and by at least what matters.
    Faster,
    /// The launches vary too much for their number.
    CannotTell,
    /// The whole interval lies within what does not matter.
    NoDifference,
    /// Something else ran on the same CPU (grade D): there is no verdict.
    TooNoisy,
    /// One launch only, or no figure.
    Incomplete,
}

words! { Verdict:
    Slower => "slower",
    Faster => "faster",
    CannotTell => "cannot tell",
    NoDifference => "no difference",
    TooNoisy => "too noisy",
    Incomplete => "incomplete",
}

/// How many cells have which verdict. Floors are not among them, unless there is nothing else:
/// they are not nearcall, and [`FloorShift`] counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Cells that both runs have.
    pub cells: usize,
    /// See [`Verdict::Slower`].
    pub slower: usize,
    /// See [`Verdict::Faster`].
    pub faster: usize,
    /// See [`Verdict::CannotTell`].
    pub cannot_tell: usize,
    /// See [`Verdict::NoDifference`].
    pub no_difference: usize,
    /// See [`Verdict::TooNoisy`].
    pub too_noisy: usize,
    /// See [`Verdict::Incomplete`].
    pub incomplete: usize,
}

/// The cells that the answer is about: all but floors, unless there is nothing else.
fn counted(all: &[CellComparison]) -> impl Iterator<Item = &CellComparison> {
    let is_floor = |cell: &CellComparison| cell.key.list == List::Floors;
    let nothing_else = all.iter().all(is_floor);
    all.iter().filter(move |cell| nothing_else || !is_floor(cell))
}

impl Counts {
    fn of(all: &[CellComparison]) -> Self {
        let of = |verdict| counted(all).filter(|cell| cell.verdict == verdict).count();
        Self {
            cells: counted(all).count(),
            slower: of(Verdict::Slower),
            faster: of(Verdict::Faster),
            cannot_tell: of(Verdict::CannotTell),
            no_difference: of(Verdict::NoDifference),
            too_noisy: of(Verdict::TooNoisy),
            incomplete: of(Verdict::Incomplete),
        }
    }

    /// Cells of which something could have been said.
    #[must_use]
    pub const fn judged(&self) -> usize {
        self.slower + self.faster + self.cannot_tell + self.no_difference
    }
}

/// How the exchanges without nearcall moved between the runs.
///
/// If they moved, the machine did: of one machine, with three floors or more, a cell differs only
/// beyond what their median moved, if that is more than chance: a floor is flagged, or they exclude
/// 1 as a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorShift {
    /// Floors that were judged.
    pub floors: usize,
    /// The median of their slowdowns: above 1 the machine was slower in the second run.
    pub slowdown: f64,
    /// Floors that are slower or faster by themselves.
    pub flagged: usize,
}

impl FloorShift {
    fn of(cells: &[CellComparison]) -> Option<Self> {
        let judged = |cell: &&CellComparison| {
            cell.key.list == List::Floors && cell.verdict <= Verdict::NoDifference
        };
        let floors: Vec<&CellComparison> = cells.iter().filter(judged).collect();
        let slowdowns: Vec<f64> = floors.iter().filter_map(|cell| cell.slowdown).collect();
        let flagged = floors.iter().filter(|cell| cell.verdict <= Verdict::Faster).count();
        Some(Self { floors: floors.len(), slowdown: stats::median(&slowdowns)?, flagged })
    }
}

/// What can be said over all cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// Some cells are slower, none is faster.
    Slower,
    /// Some cells are faster, none is slower.
    Faster,
    /// Some are slower and some faster.
    Mixed,
    /// Every judged cell has no difference that matters.
    NoDifference,
    /// No difference was found; in some cells one may have escaped.
    NoneFound,
    /// Nothing can be said: every cell is too noisy or has one launch only.
    Unknown,
}

/// Why runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// They mean different things by the same words.
    Mismatch(Mismatch),
    /// No cell of one is a cell of the other.
    NothingInCommon {
        /// How many each has.
        cells: [usize; 2],
    },
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot compare: ")?;
        match self {
            Self::Mismatch(Mismatch::Touch { words: [a, b], .. }) => {
                write!(f, "payload touched {a:?} in the first run and {b:?} in the second")
            }
            Self::Mismatch(Mismatch::Definition { what, definitions: [a, b], .. }) => {
                let (a, b) = (a.name(), b.name());
                write!(f, "{what} is timed as {a} in the first run and as {b} in the second")
            }
            Self::NothingInCommon { cells: [0, _] } => f.write_str("the first run has no cells"),
            Self::NothingInCommon { cells: [_, 0] } => f.write_str("the second run has no cells"),
            Self::NothingInCommon { cells: [a, b] } => write!(
                f,
                "the {a} cells of the first run and the {b} of the second measure different \
                 things: none has the same mechanism, size, shape, wait, placement and load"
            ),
        }
    }
}

impl std::error::Error for CompareError {}

/// Whether both are the same measurement, whatever was taken out of one to publish it.
fn is_same(before: &Run, after: &Run) -> bool {
    let moment = |run: &Run| (run.started_unix_s, run.finished_unix_s);
    // Names cost more than everything else here, and are rarely needed.
    moment(before) == moment(after)
        && before.machine.id == after.machine.id
        && (before == after || run_id(before) == run_id(after))
}

/// The cells of a run by key, and how many were left out because an earlier one has their key.
/// Files from elsewhere may hold anything; nearcall writes none with such cells.
fn by_key(run: &Run) -> (BTreeMap<CellKey, &Cell>, usize) {
    let mut found = BTreeMap::new();
    let mut repeated = 0;
    for (key, cell) in run.keyed_cells() {
        match found.entry(key) {
            Entry::Vacant(place) => _ = place.insert(cell),
            Entry::Occupied(_) => repeated += 1,
        }
    }
    (found, repeated)
}

/// The step of the clock from which the times of a run come.
fn step_ns(run: &Run) -> f64 {
    let used = run.timers.iter().find(|timer| timer.used);
    used.and_then(|timer| timer.granularity_ns).unwrap_or(0.0)
}

/// Half the width of the typical interval.
fn typical_detectable(cells: &[CellComparison]) -> Option<f64> {
    let judged = counted(cells).filter(|cell| cell.verdict <= Verdict::NoDifference);
    let halves: Vec<f64> =
        judged.filter_map(|cell| cell.ratio_ci95).map(|[low, high]| (high / low).sqrt()).collect();
    Some(stats::median(&halves)? - 1.0)
}

fn slowdown_quartiles(cells: &[CellComparison]) -> Option<[f64; 3]> {
    let judged = counted(cells).filter(|cell| cell.verdict <= Verdict::NoDifference);
    let slowdowns: Vec<f64> = judged.filter_map(|cell| cell.slowdown).collect();
    let quartile = |q| stats::quantile(&slowdowns, q);
    Some([quartile(0.25)?, quartile(0.5)?, quartile(0.75)?])
}

/// The version that this program writes.
pub const SCHEMA: &str = "nearcall.compare/1";

/// Differences below 3 % come and go with the layout of memory from build to build.
pub const MIN_EFFECT: f64 = 0.03;

/// A ratio that was put in as 1.1 comes out a few last bits beside it.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests;
