//! A blind test of the advice: is its first choice near the best that can be had?
//!
//! Random requirements from a seed. For each of them the advisor chooses by its own evidence; then
//! all candidates that meet the requirements are measured beside each other, the choice with the
//! few best of them once more, and then the choice with the best of these. Only that last
//! measurement decides, because the best of several is partly the luckiest of them. The needs are
//! judged by a table of the check's own.
//! Always true: what the advisor saw and what it is judged by are different measurements; what was
//! done before an interruption is kept and marked.
//! Not here: measuring and the advisor, which are arguments; printing (`check/text.rs`).

use nearcall_bench::advise::candidates;
use nearcall_results::advise::{Candidate, Objective, Requirements, Weights};
use nearcall_results::run::Run;
use serde::{Deserialize, Serialize};

use self::judge::{Costs, costs};

mod judge;
mod needs;
mod sets;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use self::needs::violations;
pub(crate) use self::sets::sets;
pub(crate) use self::text::table;

/// The version that this program writes.
pub(crate) const SCHEMA: &str = "nearcall.advise-check/1";

/// What became of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Always [`SCHEMA`].
    pub(crate) schema: String,
    /// What the requirements were drawn from.
    pub(crate) seed: u64,
    /// How many sets there should be.
    pub(crate) sets_asked: u64,
    /// What became of each.
    pub(crate) sets: Vec<CheckedSet>,
    /// Sets whose choice was near enough to the best.
    pub(crate) near: u64,
    /// Sets whose choice lacked a need.
    pub(crate) violated: u64,
    /// How many times the best's cost is near enough.
    pub(crate) ratio_max: f64,
    /// Whether the user ended it early.
    pub(crate) partial: bool,
    /// Whether the advice passes: nine of ten sets are near and none violates a need.
    pub(crate) passed: bool,
}

/// One set of requirements, the choice and what it was measured to be worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckedSet {
    /// From 1.
    pub(crate) number: u64,
    /// What was wanted.
    pub(crate) requirements: Requirements,
    /// How many candidates meet it.
    pub(crate) candidates: u64,
    /// How many of them could be measured.
    pub(crate) measured: u64,
    /// The first choice of the advice; `null` if there was none.
    pub(crate) choice: Option<Candidate>,
    /// The best that was measured.
    pub(crate) best: Option<Candidate>,
    /// How many times the best's cost the choice has; 1 if it is the best.
    pub(crate) ratio: Option<f64>,
    /// What the choice lacks.
    pub(crate) violations: Vec<String>,
    /// Why there is no choice or no ratio.
    pub(crate) problem: Option<String>,
    /// Near enough, and no need is violated.
    pub(crate) ok: bool,
}

/// Which of the measurements that judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Every candidate, briefly: which of them may be the best.
    Field,
    /// The choice and the few best of the field: which is the best.
    Final,
    /// The choice and the best, long enough to tell.
    Duel,
}

/// Who advises and who measures.
pub(crate) struct Parts<'a> {
    /// The first choice for these requirements, by evidence of its own.
    pub(crate) advise: &'a mut Advisor<'a>,
    /// Measures candidates beside each other, for one stage of a set.
    pub(crate) measure: &'a mut Measurer<'a>,
    /// Told of each set that is done.
    pub(crate) done: &'a mut dyn FnMut(&CheckedSet),
    /// True ends the test early.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// Gives the first choice, or why there is none.
pub(crate) type Advisor<'a> = dyn FnMut(&Requirements) -> Result<Candidate, String> + 'a;

/// Gives a run of what [`specs`](fn@nearcall_bench::advise::specs) says, or why there is none.
pub(crate) type Measurer<'a> =
    dyn FnMut(&Requirements, &[Candidate], Stage) -> Result<Run, String> + 'a;

/// Tests the advice with these requirements, which `seed` gave ([`sets`]).
pub(crate) fn check(seed: u64, sets: &[Requirements], parts: &mut Parts<'_>) -> Checked {
    let mut found = Vec::new();
    for (number, wanted) in (1..).zip(sets) {
        if (parts.interrupted)() {
            break;
        }
        let set = check_set(number, wanted, parts);
        // What was cut off says nothing.
        if (parts.interrupted)() {
            break;
        }
        (parts.done)(&set);
        found.push(set);
    }
    Checked::of(seed, sets.len(), found)
}

impl Checked {
    fn of(seed: u64, asked: usize, sets: Vec<CheckedSet>) -> Self {
        let count =
            |what: &dyn Fn(&CheckedSet) -> bool| sets.iter().filter(|set| what(set)).count();
        let near = count(&|set| set.ratio.is_some_and(|ratio| ratio <= RATIO_MAX));
        let violated = count(&|set| !set.violations.is_empty());
        let ok = count(&|set| set.ok);
        let enough = !sets.is_empty() && ok * SHARE_OF >= sets.len() * SHARE_OK;
        Self {
            schema: SCHEMA.to_owned(),
            seed,
            sets_asked: asked as u64,
            near: near as u64,
            violated: violated as u64,
            ratio_max: RATIO_MAX,
            partial: sets.len() < asked,
            passed: enough && violated == 0,
            sets,
        }
    }
}

fn check_set(number: u64, wanted: &Requirements, parts: &mut Parts<'_>) -> CheckedSet {
    let (candidates, _) = candidates(wanted);
    let mut set = CheckedSet {
        number,
        requirements: wanted.clone(),
        candidates: candidates.len() as u64,
        measured: 0,
        choice: None,
        best: None,
        ratio: None,
        violations: Vec::new(),
        problem: None,
        ok: false,
    };
    match (parts.advise)(wanted) {
        Ok(choice) => set.choice = Some(choice),
        Err(reason) => set.problem = Some(format!("no advice: {reason}")),
    }
    let Some(choice) = set.choice else { return set };
    set.violations = violations(&choice, wanted);
    match compare(wanted, choice, &candidates, parts) {
        Ok((measured, best, ratio)) => {
            (set.measured, set.best, set.ratio) = (measured as u64, Some(best), Some(ratio));
            set.ok = set.violations.is_empty() && ratio <= RATIO_MAX;
        }
        Err(problem) => set.problem = Some(problem),
    }
    set
}

/// How many candidates were measured, the best of them, and the choice's cost to its.
fn compare(
    wanted: &Requirements,
    choice: Candidate,
    candidates: &[Candidate],
    parts: &mut Parts<'_>,
) -> Result<(usize, Candidate, f64), String> {
    let mut field = candidates.to_vec();
    if !field.contains(&choice) {
        field.push(choice);
    }
    let run = (parts.measure)(wanted, &field, Stage::Field)?;
    let mut costs_of_field = costs(&run, wanted, &field);
    if costs_of_field.is_empty() {
        // So short a look has no 99th percentile, but medians.
        let optimise = Weights::only(Objective::Latency);
        costs_of_field = costs(&run, &Requirements { optimise, ..wanted.clone() }, &field);
    }
    let measured = costs_of_field.len();
    let reference = costs_of_field.first().cloned().ok_or("nothing could be measured")?;
    let cost = |one: &Costs| one.ratio_to(&reference);
    costs_of_field.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let rivals = costs_of_field.iter().map(|one| one.candidate).filter(|one| *one != choice);
    let finalists: Vec<Candidate> = [choice].into_iter().chain(rivals.take(RIVALS)).collect();
    let (best, _) = worst_ratio(wanted, choice, &finalists, Stage::Final, parts)?;
    if best == choice {
        return Ok((measured, best, 1.0));
    }
    let (best, ratio) = worst_ratio(wanted, choice, &[choice, best], Stage::Duel, parts)?;
    Ok((measured, best, ratio))
}

/// The best of some candidates beside each other, and the cost of the choice to its.
fn worst_ratio(
    wanted: &Requirements,
    choice: Candidate,
    candidates: &[Candidate],
    stage: Stage,
    parts: &mut Parts<'_>,
) -> Result<(Candidate, f64), String> {
    let run = (parts.measure)(wanted, candidates, stage)?;
    let found = costs(&run, wanted, candidates);
    let own = found.iter().find(|one| one.candidate == choice);
    let own = own.ok_or_else(|| format!("{choice} could not be measured"))?;
    if found.len() < 2 {
        // Beside nothing everything is the best.
        return Err(format!("nothing could be measured beside {choice}"));
    }
    // The choice itself has exactly 1 to itself, so a maximum below 1 cannot be.
    let worse = found.iter().map(|rival| (rival.candidate, own.ratio_to(rival)));
    worse.max_by(|a, b| a.1.total_cmp(&b.1)).ok_or_else(|| "nothing could be measured".to_owned())
}

/// A choice within a tenth of the best is as good as the best.
const RATIO_MAX: f64 = 1.1;

/// So many of...
const SHARE_OK: usize = 9;

/// ...so many sets have to be right.
const SHARE_OF: usize = 10;

/// How many of the best of the field are measured again beside the choice. A short measurement
/// puts the best among the first few.
const RIVALS: usize = 3;
