//! The verdict on each cell that both runs have.
//!
//! A function of its arguments. All cells are judged together, since each p value is corrected for
//! their number. What makes two runs comparable at all is judged before, in `compare.rs`.

use super::{CellComparison, ROUNDING, Rules, Side, Verdict, Worse};
use crate::noise::Grade;
use crate::run::{Cell, CellKey, Headline, List};
use crate::stats;
use crate::stats::two_samples::{self, benjamini_hochberg};

/// What is known of both runs before their cells are judged.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// The step of each run's clock.
    pub(super) steps_ns: [f64; 2],
    /// Whether both are the same measurement.
    pub(super) same_run: bool,
    /// Whether both measured the same machine.
    pub(super) same_machine: bool,
}

/// Judges the cells of both runs; the order is that of [`super::Comparison::cells`].
pub(super) fn all(
    cells: Vec<(CellKey, [&Cell; 2])>,
    pair: Pair,
    rules: &Rules,
) -> Vec<CellComparison> {
    let mut found: Vec<(CellComparison, f64)> =
        cells.into_iter().map(|(key, cells)| one(key, cells, pair)).collect();
    let p_values: Vec<f64> = found.iter().filter_map(|(cell, _)| cell.p_value).collect();
    let corrected = benjamini_hochberg(&p_values);
    let tested = found.iter_mut().filter(|(cell, _)| cell.p_value.is_some());
    for ((cell, _), p) in tested.zip(corrected) {
        cell.p_corrected = Some(p);
    }
    let is_floor = |cell: &CellComparison| cell.key.list == List::Floors;
    // The floors first: whether the others must move further than they follows from them.
    for (cell, launch_variance) in found.iter_mut().filter(|(cell, _)| is_floor(cell)) {
        judge(cell, *launch_variance, rules, 0.0);
    }
    let shift = if pair.same_machine { floor_shift(&found) } else { 0.0 };
    for (cell, launch_variance) in found.iter_mut().filter(|(cell, _)| !is_floor(cell)) {
        judge(cell, *launch_variance, rules, shift);
    }
    let mut cells: Vec<CellComparison> = found.into_iter().map(|(cell, _)| cell).collect();
    // Stable: cells with equal verdict and equal slowdown stay in the order of their keys.
    cells.sort_by(|a, b| {
        let away =
            |cell: &CellComparison| cell.slowdown.map_or(0.0, |slowdown| slowdown.ln().abs());
        a.verdict.cmp(&b.verdict).then(away(b).total_cmp(&away(a)))
    });
    cells
}

/// By how much the machine itself was slower in the second run, as a logarithm: the median of the
/// floors. 0 with too few of them, and where they prove nothing: none differs by itself, and as a
/// sample they may as well not have moved.
fn floor_shift(found: &[(CellComparison, f64)]) -> f64 {
    let floors = || found.iter().map(|(cell, _)| cell).filter(|cell| cell.key.list == List::Floors);
    let logs: Vec<f64> = floors().filter_map(|cell| cell.slowdown.map(f64::ln)).collect();
    if logs.len() < FLOORS_MIN {
        return 0.0;
    }
    let flagged = floors().any(|cell| cell.verdict <= Verdict::Faster);
    match flagged || two_samples::excludes_zero(&logs) {
        true => stats::median(&logs).unwrap_or(0.0),
        false => 0.0,
    }
}

/// A cell with its ratio and p value, and the variance between its launches.
fn one(key: CellKey, cells: [&Cell; 2], pair: Pair) -> (CellComparison, f64) {
    let heads = cells.map(Cell::headline);
    let unit = heads.iter().flatten().map(|head| head.unit).next().unwrap_or_default();
    let [before, after] = [0, 1].map(|index| side(cells[index], heads[index].as_ref()));
    let mut found = CellComparison {
        name: name(&key),
        key,
        unit: unit.to_owned(),
        worse: if unit == "/s" { Worse::Lower } else { Worse::Higher },
        before,
        after,
        ratio: None,
        ratio_ci95: None,
        slowdown: None,
        p_value: None,
        p_corrected: None,
        verdict: Verdict::Incomplete,
        reason: None,
        launches_needed: None,
    };
    let [Some(first), Some(second)] = &heads else {
        found.reason = Some("no figure".to_owned());
        return (found, 0.0);
    };
    if pair.same_run {
        // Nothing varies between a measurement and itself.
        found.verdict = Verdict::NoDifference;
        (found.ratio, found.slowdown) = (Some(1.0), Some(1.0));
        found.ratio_ci95 = Some([1.0; 2]);
        return (found, 0.0);
    }
    if let Some((verdict, reason)) = unfit(cells, first, second) {
        (found.verdict, found.reason) = (verdict, Some(reason));
        return (found, 0.0);
    }
    let step = |index: usize| match unit {
        "ns" => pair.steps_ns[index] / cells[index].messages_per_sample.max(1) as f64,
        _ => 0.0,
    };
    let tested = two_samples::ratio(first.launches, second.launches, [step(0), step(1)]);
    let Some(tested) = tested else {
        found.reason = Some("values of launches that are not above zero".to_owned());
        return (found, 0.0);
    };
    found.ratio = Some(tested.ratio);
    found.ratio_ci95 = Some(tested.ci95);
    found.slowdown = Some(match found.worse {
        Worse::Higher => tested.ratio,
        Worse::Lower => 1.0 / tested.ratio,
    });
    found.p_value = Some(tested.p_value);
    (found, tested.launch_variance)
}

/// Decides by the corrected p value, which must be there.
///
/// Launches of one run share the machine's state of that hour, which no test of two runs can see.
/// The floors see it: `shift`, as a logarithm. A cell that moved only as much as they did is not
/// called slower.
fn judge(cell: &mut CellComparison, launch_variance: f64, rules: &Rules, shift: f64) {
    let (Some(slowdown), Some([low, high]), Some(p)) =
        (cell.slowdown, cell.ratio_ci95, cell.p_corrected)
    else {
        return;
    };
    let (effect, margin) = (slowdown.ln(), rules.min_effect.ln_1p());
    let matters = effect.abs() >= margin * (1.0 - ROUNDING);
    let by_machine = (shift * effect.signum()).max(0.0);
    let beyond = effect.abs() >= (margin + by_machine) * (1.0 - ROUNDING);
    let significant = p <= rules.significance;
    cell.verdict = if significant && beyond {
        if effect > 0.0 { Verdict::Slower } else { Verdict::Faster }
    } else if low.ln() >= -margin && high.ln() <= margin {
        Verdict::NoDifference
    } else {
        Verdict::CannotTell
    };
    if cell.verdict == Verdict::CannotTell {
        if significant && matters {
            cell.reason = Some(AS_FLOORS.to_owned());
            return;
        }
        let by_spread = two_samples::launches_needed(launch_variance, margin.exp());
        let had = cell.before.launches.max(cell.after.launches);
        cell.launches_needed = Some(round_up(by_spread.max(had as f64 + 1.0)));
    }
}

/// Why nothing may be said of a cell whose figures are there.
fn unfit(
    cells: [&Cell; 2],
    first: &Headline<'_>,
    second: &Headline<'_>,
) -> Option<(Verdict, String)> {
    let which = |of: [bool; 2]| match of {
        [true, true] => Some("both runs"),
        [true, false] => Some("the first run"),
        [false, true] => Some("the second run"),
        [false, false] => None,
    };
    if let Some(which) = which(cells.map(|cell| cell.grade == Some(Grade::D))) {
        return Some((Verdict::TooNoisy, format!("grade D in {which}")));
    }
    let behind = cells.map(|cell| cell.pace.as_ref().is_some_and(|pace| !pace.kept));
    if let Some(which) = which(behind) {
        return Some((Verdict::TooNoisy, format!("fell behind its rate in {which}")));
    }
    let few = [first, second].map(|head| head.launches.len() < 2);
    which(few).map(|which| (Verdict::Incomplete, format!("fewer than two launches in {which}")))
}

fn side(cell: &Cell, head: Option<&Headline<'_>>) -> Side {
    let Some(head) = head else {
        return Side { grade: cell.grade, ..Side::default() };
    };
    Side {
        value: Some(head.value),
        typical: two_samples::geometric_mean(head.launches),
        launches: head.launches.len(),
        grade: cell.grade,
    }
}

/// The key in words, with the list where it is not what was asked for.
fn name(key: &CellKey) -> String {
    match key.list {
        List::Cells | List::StudyCells => key.to_string(),
        List::Floors => format!("floor: {key}"),
        List::Bare => format!("bare: {key}"),
        List::Parts => format!("part: {key}"),
        List::Libraries => format!("library: {key}"),
    }
}

/// Two digits: more would claim to know the spread.
fn round_up(launches: f64) -> u32 {
    let launches = launches.min(LAUNCHES_TOLD_MAX);
    let step = [1.0, 10.0, 100.0, 1_000.0].into_iter().find(|step| launches <= step * 99.0);
    let step = step.unwrap_or(10_000.0);
    // Between 2 and the maximum, so it fits.
    format!("{:.0}", (launches / step).ceil() * step).parse().unwrap_or(u32::MAX)
}

/// Why a cell that moved is not said to differ.
pub(super) const AS_FLOORS: &str = "the floors moved about as much";

/// The median of fewer floors is one floor's chance.
const FLOORS_MIN: usize = 3;

/// More launches than a run can have.
const LAUNCHES_TOLD_MAX: f64 = 99_000.0;
