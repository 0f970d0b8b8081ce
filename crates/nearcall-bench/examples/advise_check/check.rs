//! A blind test of the advice: is its first choice near the best that can be had?
//!
//! Random requirements from seeds. For each of them the advisor chooses by its own evidence; beside
//! it stand two baselines, which look at nothing: `shm adaptive` wherever it meets the needs, and a
//! random candidate that meets them. All candidates are measured briefly; those chosen and the
//! best others again; then each of the chosen beside the candidate that was the best of all
//! others, round by round. Only that last measurement decides, because the best of several is
//! partly the luckiest of them. The needs are judged by a table of the check's own.
//! Always true: what the advisor saw and what it is judged by are different measurements; all that
//! were chosen are judged alike, whether they turn out first or not; what was done before an
//! interruption is kept and marked.
//! Not here: measuring and the advisor, which are arguments; printing (`check/text.rs`).

use fastrand::Rng;
use nearcall_bench::advise::candidates;
use nearcall_results::advise::{Candidate, Objective, Requirements, Weights};
use nearcall_results::run::Run;
use serde::{Deserialize, Serialize};

use self::judge::{Costs, Ratio, costs};

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
pub(crate) const SCHEMA: &str = "nearcall.advice-check/2";

/// The result of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Always [`SCHEMA`].
    pub(crate) schema: String,
    /// What the requirements were drawn from.
    pub(crate) seeds: Vec<u64>,
    /// How many sets there should be.
    pub(crate) sets_asked: u64,
    /// The result of each.
    pub(crate) sets: Vec<CheckedSet>,
    /// How the advice did, then the baselines, in the order of [`CHOOSERS`].
    pub(crate) scores: Vec<Score>,
    /// Sets whose advised choice lacked a need.
    pub(crate) violated: u64,
    /// How many times the cost of the best of the others is near enough.
    pub(crate) ratio_max: f64,
    /// Whether the user ended it early.
    pub(crate) partial: bool,
    /// Whether the advice passes: nine of ten sets are near and none violates a need.
    pub(crate) passed: bool,
}

/// How one way to choose did in all sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Score {
    /// One of [`CHOOSERS`].
    pub(crate) chooser: String,
    /// Sets with a ratio.
    pub(crate) judged: u64,
    /// Of those, choices that cost at most so many times the best of the others.
    pub(crate) near: u64,
    /// Of those, choices whose whole interval is so.
    pub(crate) surely_near: u64,
    /// Choices whose whole interval is above.
    pub(crate) surely_worse: u64,
    /// The geometric mean of all ratios.
    pub(crate) mean_ratio: Option<f64>,
    /// The largest ratio.
    pub(crate) worst_ratio: Option<f64>,
}

/// One set of requirements, what was chosen and what it was measured to be worth.
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
    /// What was chosen, in the order of [`CHOOSERS`]; `null` without advice.
    pub(crate) chosen: Vec<Option<Chosen>>,
    /// What the advised choice lacks.
    pub(crate) violations: Vec<String>,
    /// Why there is no advice or no ratio.
    pub(crate) problem: Option<String>,
    /// The advised choice is near enough, and no need is violated.
    pub(crate) ok: bool,
}

impl CheckedSet {
    /// The choice of the advice.
    pub(crate) fn advised(&self) -> Option<&Chosen> {
        self.chosen.first()?.as_ref()
    }
}

/// A candidate and its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chosen {
    /// Which.
    pub(crate) candidate: Candidate,
    /// The best of all others.
    pub(crate) best_other: Option<Candidate>,
    /// Its cost over that of the best of the others; below 1 if it is the best itself.
    pub(crate) ratio: Option<f64>,
    /// The 95 % confidence interval of the ratio; `null` with too few rounds, where the ratio
    /// is that over all launches.
    pub(crate) ratio_ci95: Option<[f64; 2]>,
}

/// Who chooses: the advice, and two that look at nothing.
pub(crate) const CHOOSERS: [&str; 3] = ["the advice", "always shm adaptive", "a random candidate"];

/// The stages of the measurement that judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Every candidate, briefly: which of them may be the best.
    Screening,
    /// The chosen and the few best others: which of them is the best.
    Selection,
    /// Each of the chosen beside the best of the others, long enough to tell.
    Confirmation,
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

/// Tests the advice with these requirements, which `seeds` gave ([`sets`]).
pub(crate) fn check(seeds: &[u64], sets: &[Requirements], parts: &mut Parts<'_>) -> Checked {
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
    Checked::of(seeds, sets.len(), found)
}

impl Checked {
    fn of(seeds: &[u64], asked: usize, sets: Vec<CheckedSet>) -> Self {
        let count =
            |what: &dyn Fn(&CheckedSet) -> bool| sets.iter().filter(|set| what(set)).count();
        let violated = count(&|set| !set.violations.is_empty());
        let ok = count(&|set| set.ok);
        let enough = !sets.is_empty() && ok * SHARE_OF >= sets.len() * SHARE_OK;
        Self {
            schema: SCHEMA.to_owned(),
            seeds: seeds.to_vec(),
            sets_asked: asked as u64,
            scores: (0..CHOOSERS.len()).map(|chooser| score(chooser, &sets)).collect(),
            violated: violated as u64,
            ratio_max: RATIO_MAX,
            partial: sets.len() < asked,
            passed: enough && violated == 0,
            sets,
        }
    }
}

fn score(chooser: usize, sets: &[CheckedSet]) -> Score {
    let chosen = || sets.iter().filter_map(|set| set.chosen.get(chooser)?.as_ref());
    let ratios: Vec<f64> = chosen().filter_map(|one| one.ratio).collect();
    let intervals = || chosen().filter_map(|one| one.ratio_ci95);
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    Score {
        chooser: CHOOSERS[chooser].to_owned(),
        judged: ratios.len() as u64,
        near: ratios.iter().filter(|ratio| **ratio <= RATIO_MAX).count() as u64,
        surely_near: intervals().filter(|[_, high]| *high <= RATIO_MAX).count() as u64,
        surely_worse: intervals().filter(|[low, _]| *low > RATIO_MAX).count() as u64,
        mean_ratio: (!ratios.is_empty()).then(|| mean.exp()),
        worst_ratio: ratios.iter().copied().reduce(f64::max),
    }
}

fn check_set(number: u64, wanted: &Requirements, parts: &mut Parts<'_>) -> CheckedSet {
    let (candidates, _) = candidates(wanted);
    let mut set = CheckedSet {
        number,
        requirements: wanted.clone(),
        candidates: candidates.len() as u64,
        measured: 0,
        chosen: vec![None; CHOOSERS.len()],
        violations: Vec::new(),
        problem: None,
        ok: false,
    };
    let advised = match (parts.advise)(wanted) {
        Ok(choice) => choice,
        Err(reason) => {
            set.problem = Some(format!("no advice: {reason}"));
            return set;
        }
    };
    set.violations = violations(&advised, wanted);
    let random = Rng::with_seed(number).choice(&candidates).copied();
    let picks = [Some(advised), always_shm(&candidates), random];
    let unjudged =
        |candidate| Chosen { candidate, best_other: None, ratio: None, ratio_ci95: None };
    set.chosen = picks.map(|pick| pick.map(unjudged)).to_vec();
    match compare(wanted, picks, &candidates, parts) {
        Ok((measured, judged)) => {
            set.measured = measured as u64;
            for one in set.chosen.iter_mut().flatten() {
                let found = judged.iter().find(|judged| judged.candidate == one.candidate);
                *one = found.unwrap_or(one).clone();
            }
            match set.advised().and_then(|one| one.ratio) {
                Some(ratio) => set.ok = set.violations.is_empty() && ratio <= RATIO_MAX,
                None => set.problem = Some(format!("{advised} could not be judged: {UNJUDGED}")),
            }
        }
        Err(problem) => set.problem = Some(problem),
    }
    set
}

/// The choice of who knows one address: `shm adaptive`, or what is left of shared memory.
fn always_shm(candidates: &[Candidate]) -> Option<Candidate> {
    let usual = candidates.iter().find(|one| one.to_string() == "shm adaptive");
    let near = || candidates.iter().find(|one| one.mechanism.name().starts_with("shm"));
    usual.or_else(near).or(candidates.first()).copied()
}

/// How many candidates were measured, and each of the chosen beside the best of all others.
fn compare(
    wanted: &Requirements,
    picks: [Option<Candidate>; 3],
    candidates: &[Candidate],
    parts: &mut Parts<'_>,
) -> Result<(usize, Vec<Chosen>), String> {
    let mut chosen: Vec<Candidate> = Vec::new();
    for pick in picks.into_iter().flatten() {
        if !chosen.contains(&pick) {
            chosen.push(pick);
        }
    }
    let mut field = candidates.to_vec();
    field.extend(chosen.iter().filter(|one| !candidates.contains(one)));
    let screened = by_cost(&(parts.measure)(wanted, &field, Stage::Screening)?, wanted, &field);
    let others = screened.iter().filter(|one| !chosen.contains(one)).take(RIVALS);
    let finalists: Vec<Candidate> = chosen.iter().chain(others).copied().collect();
    let run = (parts.measure)(wanted, &finalists, Stage::Selection)?;
    let selected = by_cost(&run, wanted, &finalists);
    // The two best are the best of all others for whatever was chosen.
    let mut last = chosen.clone();
    last.extend(selected.iter().take(2).filter(|one| !chosen.contains(one)));
    let run = (parts.measure)(wanted, &last, Stage::Confirmation)?;
    let costs = costs(&run, wanted, &last);
    let of = |candidate: Candidate| costs.iter().find(|one| one.candidate == candidate);
    let judged = chosen.into_iter().filter_map(|candidate| {
        let mut others = selected.iter().filter(|one| **one != candidate);
        let best_other = others.find(|one| of(**one).is_some()).copied()?;
        let Ratio { ratio, ci95 } = of(candidate)?.ratio_to(of(best_other)?);
        let (best_other, ratio) = (Some(best_other), Some(ratio));
        Some(Chosen { candidate, best_other, ratio, ratio_ci95: ci95 })
    });
    Ok((screened.len(), judged.collect()))
}

/// The candidates with a cost, the cheapest first.
fn by_cost(run: &Run, wanted: &Requirements, candidates: &[Candidate]) -> Vec<Candidate> {
    let mut found = costs(run, wanted, candidates);
    if found.is_empty() {
        // So short a look has no 99th percentile, but medians.
        let optimise = Weights::only(Objective::Latency);
        found = costs(run, &Requirements { optimise, ..wanted.clone() }, candidates);
    }
    found.sort_by(|a, b| a.value().total_cmp(&b.value()));
    found.iter().map(|one: &Costs| one.candidate).collect()
}

/// Why the choice has no ratio.
const UNJUDGED: &str = "it was not measured, or nothing beside it";

/// A choice within a tenth of the best is as good as the best.
const RATIO_MAX: f64 = 1.1;

/// So many of...
const SHARE_OK: usize = 9;

/// ...so many sets have to be right.
const SHARE_OF: usize = 10;

/// How many of the best of the screening are measured again beside the chosen. A short measurement
/// puts the best among the first few.
const RIVALS: usize = 3;
