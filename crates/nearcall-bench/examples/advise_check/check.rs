//! A blind test of the advice: is its first choice near the best that can be had?
//!
//! For each set of requirements the advisor chooses by its own evidence; beside it stand two
//! baselines, which look at nothing: `shm adaptive` wherever it meets the needs, and a random
//! candidate that meets them. All candidates are measured briefly; those chosen and the best others
//! again; then each of the chosen beside the candidate that was the best of all others, round by
//! round. Only that last measurement decides, because the best of several is partly the luckiest of
//! them.
//! **Invariants:** what the advisor saw and what it is judged by are different measurements; costs
//! are compared, and needs judged (`check/needs.rs`), by code of this test's own; all that were
//! chosen are judged alike, whether they turn out first or not; what was done before an
//! interruption is kept and marked.
//! **Not here:** measuring and the advisor, which are arguments; printing (`main.rs`).

mod needs;

use fastrand::Rng;
use nearcall_bench::advise::candidates;
use nearcall_results::advise::{Candidate, Objective, Pattern, Requirements, Weights};
use nearcall_results::run::{Cell, Kind, Run};
use nearcall_results::stats;
use serde::{Deserialize, Serialize};

/// The result of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Always `nearcall.advice-check/2`.
    pub(crate) schema: String,
    /// What the requirements were drawn from.
    pub(crate) seeds: Vec<u64>,
    /// How many sets there should be.
    pub(crate) sets_asked: u64,
    pub(crate) sets: Vec<CheckedSet>,
    /// How the advice did, then the baselines, in the order of [`CHOOSERS`].
    pub(crate) scores: Vec<Score>,
    /// Sets whose advised choice lacks something by the table of this test.
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
    pub(crate) worst_ratio: Option<f64>,
}

/// One set of requirements, what was chosen and what it was measured to be worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckedSet {
    /// From 1.
    pub(crate) number: u64,
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
    pub(crate) advise: &'a mut dyn FnMut(&Requirements) -> Result<Candidate, String>,
    /// Measures candidates beside each other, for one stage of a set.
    pub(crate) measure: &'a mut Measurer<'a>,
    /// Told of each set that is done.
    pub(crate) done: &'a mut dyn FnMut(&CheckedSet),
    /// True ends the test early.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// Gives a run of what [`specs`](fn@nearcall_bench::advise::specs) says, or why there is none.
pub(crate) type Measurer<'a> =
    dyn FnMut(&Requirements, &[Candidate], Stage) -> Result<Run, String> + 'a;

/// Tests the advice with these requirements, which `seeds` gave.
pub(crate) fn check(seeds: &[u64], wanted: &[Requirements], parts: &mut Parts<'_>) -> Checked {
    let mut sets = Vec::new();
    for (number, wanted) in (1..).zip(wanted) {
        if (parts.interrupted)() {
            break;
        }
        let set = check_set(number, wanted, parts);
        // What was cut off says nothing.
        if (parts.interrupted)() {
            break;
        }
        (parts.done)(&set);
        sets.push(set);
    }
    let violated = sets.iter().filter(|set| !set.violations.is_empty()).count();
    let ok = sets.iter().filter(|set| set.ok).count();
    Checked {
        schema: "nearcall.advice-check/2".to_owned(),
        seeds: seeds.to_vec(),
        sets_asked: wanted.len() as u64,
        scores: (0..CHOOSERS.len()).map(|chooser| score(chooser, &sets)).collect(),
        violated: violated as u64,
        ratio_max: RATIO_MAX,
        partial: sets.len() < wanted.len(),
        passed: !sets.is_empty() && ok * 10 >= sets.len() * 9 && violated == 0,
        sets,
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
    let candidates = candidates(wanted).0;
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
    set.violations = needs::violations(&advised, wanted);
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
                None => {
                    let why = "it was not measured, or nothing beside it";
                    set.problem = Some(format!("{advised} could not be judged: {why}"));
                }
            }
        }
        Err(problem) => set.problem = Some(problem),
    }
    set
}

/// The choice of who knows one address: `shm adaptive`, or what is left of shared memory.
fn always_shm(candidates: &[Candidate]) -> Option<Candidate> {
    let defaults = candidates.iter().find(|one| one.to_string() == "shm adaptive");
    let near = || candidates.iter().find(|one| one.mechanism.name().starts_with("shm"));
    defaults.or_else(near).or(candidates.first()).copied()
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
        let (ratio, ratio_ci95) = of(candidate)?.ratio_to(of(best_other)?);
        let (best_other, ratio) = (Some(best_other), Some(ratio));
        Some(Chosen { candidate, best_other, ratio, ratio_ci95 })
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
    found.iter().map(|one| one.candidate).collect()
}

/// What one candidate costs: for each objective that counts its share, the cost of all launches
/// together, and one for each launch or none. Less is better.
struct Costs {
    candidate: Candidate,
    costs: Vec<(f64, f64, Vec<f64>)>,
}

/// The costs of each candidate of which everything that counts was measured.
fn costs(run: &Run, wanted: &Requirements, candidates: &[Candidate]) -> Vec<Costs> {
    let of = |candidate: &Candidate| {
        let wanted_costs = wanted.optimise.wanted().into_iter().map(|objective| {
            let (value, launches) = cost(run, wanted, candidate, objective)?;
            let share = wanted.optimise.of(objective);
            (value.is_finite() && value > 0.0).then_some((share, value, launches))
        });
        Some(Costs { candidate: *candidate, costs: wanted_costs.collect::<Option<_>>()? })
    };
    candidates.iter().filter_map(of).collect()
}

impl Costs {
    /// The cost over all launches, to sort by.
    fn value(&self) -> f64 {
        self.costs.iter().map(|(share, value, _)| value.powf(*share)).product()
    }

    /// How many times the cost of `other` this is: the median of the ratios in the rounds that both
    /// have, so that what disturbs a round disturbs both, with its interval by ranks, whatever the
    /// distribution of rounds. With fewer than three rounds by all launches, without an interval.
    fn ratio_to(&self, other: &Self) -> (f64, Option<[f64; 2]>) {
        let pairs = || self.costs.iter().zip(&other.costs);
        let rounds = pairs().map(|(own, other)| own.2.len().min(other.2.len())).min().unwrap_or(0);
        if rounds < 3 {
            return (self.value() / other.value(), None);
        }
        let of_round = |round: usize| -> f64 {
            pairs().map(|(own, other)| (own.2[round] / other.2[round]).powf(own.0)).product()
        };
        let mut ratios: Vec<f64> = (0..rounds).map(of_round).collect();
        ratios.sort_by(f64::total_cmp);
        let ci95 = rank_of_95_percent(rounds).map(|rank| [ratios[rank], ratios[rounds - 1 - rank]]);
        (stats::median(&ratios).unwrap_or(f64::INFINITY), ci95)
    }
}

/// The largest rank, from 0, below which a median of `count` independent values lies in 2.5 % of
/// all cases at most; `None` if there is none.
fn rank_of_95_percent(count: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powf(count as f64);
    let (mut below, mut rank) = (chance, 0);
    while below <= 0.025 {
        rank += 1;
        chance *= (count - rank + 1) as f64 / rank as f64;
        below += chance;
    }
    rank.checked_sub(1)
}

fn cost(
    run: &Run,
    wanted: &Requirements,
    candidate: &Candidate,
    objective: Objective,
) -> Option<(f64, Vec<f64>)> {
    // Whether the client of the cell waited as the candidate does, over the same mechanism.
    let is_of = |cell: &&Cell| {
        let client = cell.wait.split('/').next().unwrap_or_default();
        cell.mechanism == candidate.mechanism.name() && client == candidate.wait.name()
    };
    let find = |kind: Kind, at_rate: bool| {
        let mut cells = run.cells.iter().filter(is_of);
        cells.find(|cell| cell.kind == kind && cell.pace.is_some() == at_rate)
    };
    let latency = find(Kind::Latency, false);
    let keeps = |cell: &&Cell| match (wanted.rate_per_s, cell.messages_per_s) {
        (Some(rate), most) => most.is_some_and(|most| most >= rate),
        (None, _) => true,
    };
    let stream = find(Kind::Throughput, false).filter(keeps);
    let one_way = wanted.pattern == Pattern::OneWay;
    let asked = match wanted.rate_per_s {
        // What cannot keep the rate has no cost at all.
        Some(_) if one_way => latency.filter(|_| stream.is_some()),
        Some(_) => find(Kind::Latency, true)
            .filter(|cell| cell.pace.as_ref().is_some_and(|pace| pace.kept)),
        _ => latency,
    };
    let median = |cell: &Cell| Some((cell.rtt_ns.as_ref()?.p50?, cell.launch_medians_ns.clone()));
    match objective {
        Objective::Latency => median(asked?),
        Objective::P99 => Some((asked?.rtt_ns.as_ref()?.p99?, asked?.launch_p99s_ns.clone())),
        Objective::Throughput if one_way => {
            let launches = stream?.launch_messages_per_s.iter().map(|rate| 1.0 / rate).collect();
            Some((1.0 / stream?.messages_per_s?, launches))
        }
        Objective::Throughput => median(latency?),
        Objective::Cpu => {
            let cell = if one_way { stream? } else { asked? };
            Some((cell.cpu_ns()?, cell.launch_cpu_ns.clone()))
        }
        // No set asks for it: it takes longer than all the rest.
        Objective::Memory => None,
    }
}

/// A choice within a tenth of the best is as good as the best.
const RATIO_MAX: f64 = 1.1;

/// How many of the best of the screening are measured again beside the chosen. A short measurement
/// puts the best among the first few.
const RIVALS: usize = 3;

#[cfg(test)]
mod tests {
    use nearcall_results::advise::Need;
    use nearcall_results::run::{Machine, PaceFacts, RttNs, Settings};

    use super::*;
    use crate::{sets, table};

    /// What a candidate costs on a made-up machine.
    fn true_ns(candidate: &Candidate) -> f64 {
        let text = candidate.to_string();
        1_000.0 + text.bytes().fold(7_u32, |sum, byte| sum * 31 % 9_973 + u32::from(byte)) as f64
    }

    /// A run as the runner would give it, disturbed by up to 2, the same for all in one round.
    fn run(wanted: &Requirements, candidates: &[Candidate], seed: u64) -> Run {
        let mut rng = Rng::with_seed(seed);
        let rounds: Vec<f64> = (0..9).map(|_| 1.0 + rng.f64()).collect();
        let mut run = Run::new(Machine::default(), Settings::default(), 0);
        for candidate in candidates {
            let times: Vec<f64> = rounds.iter().map(|round| round * true_ns(candidate)).collect();
            let middle = stats::median(&times);
            let kinds = [(Kind::Latency, false), (Kind::Latency, true), (Kind::Throughput, false)];
            for (kind, paced) in kinds {
                let name = candidate.mechanism.name();
                let mut cell = Cell::new(kind, name, wanted.message_bytes);
                cell.wait = format!("{}/poll", candidate.wait);
                cell.pace = paced.then(|| PaceFacts { kept: true, ..PaceFacts::default() });
                cell.rtt_ns = Some(RttNs { p50: middle, p99: middle, ..RttNs::default() });
                cell.launch_medians_ns.clone_from(&times);
                cell.launch_p99s_ns.clone_from(&times);
                cell.launch_cpu_ns.clone_from(&times);
                cell.messages_per_s = middle.map(|ns| 1e9 / ns);
                cell.launch_messages_per_s = times.iter().map(|ns| 1e9 / ns).collect();
                cell.cpu_ns_per_message.client = middle;
                cell.cpu_ns_per_message.server = middle;
                run.cells.push(cell);
            }
        }
        run
    }

    fn best(wanted: &Requirements) -> Candidate {
        let all = candidates(wanted).0;
        all.into_iter().min_by(|a, b| true_ns(a).total_cmp(&true_ns(b))).unwrap()
    }

    type Measured = Result<Run, String>;

    fn tested(
        sets: &[Requirements],
        mut advise: impl FnMut(&Requirements) -> Result<Candidate, String>,
        mut measure: impl FnMut(&Requirements, &[Candidate]) -> Measured,
        stop_after: usize,
    ) -> (Checked, String) {
        let done = std::cell::Cell::new(0);
        let parts = &mut Parts {
            advise: &mut advise,
            measure: &mut |wanted, candidates, _| measure(wanted, candidates),
            done: &mut |_| done.set(done.get() + 1),
            interrupted: &|| done.get() >= stop_after,
        };
        let checked = check(&[5], sets, parts);
        let text = table(&checked);
        (checked, text)
    }

    fn measured(wanted: &Requirements, candidates: &[Candidate]) -> Measured {
        Ok(run(wanted, candidates, candidates.len() as u64))
    }

    #[test]
    fn an_advisor_that_knows_the_best_passes_and_what_was_done_is_kept() {
        let sets = sets(&[5], 20, 2);
        let (checked, text) = tested(&sets, |wanted| Ok(best(wanted)), measured, usize::MAX);
        assert!(checked.passed && !checked.partial, "{text}");
        assert_eq!((checked.scores[0].near, checked.violated), (20, 0));
        // Nothing makes the best choice exactly 1: it is judged beside the best of all others.
        for set in &checked.sets {
            let one = set.advised().unwrap();
            let all = candidates(&set.requirements).0;
            let others = all.iter().filter(|other| **other != one.candidate);
            let best_other = others.min_by(|a, b| true_ns(a).total_cmp(&true_ns(b)));
            assert_eq!(one.best_other.as_ref(), best_other);
            assert!(one.ratio.unwrap() < 1.0 && one.ratio_ci95.unwrap()[1] < 1.0, "{one:?}");
        }
        // The baselines look at nothing, and it shows.
        assert!(checked.scores[1..].iter().all(|one| one.judged == 20 && one.near < 20));
        assert!(text.contains("20 of 20 choices"), "{text}");
        let (checked, text) = tested(&sets, |wanted| Ok(best(wanted)), measured, 3);
        assert!(checked.partial && checked.sets.len() <= 3 && checked.sets_asked == 20);
        assert!(text.contains("interrupted: "), "{text}");
    }

    #[test]
    fn a_wrong_choice_no_advice_and_nothing_measured_count_against_it() {
        let sets = sets(&[5], 20, 2);
        let last = |wanted: &Requirements| Ok(*candidates(wanted).0.last().unwrap());
        let (checked, text) = tested(&sets, last, measured, usize::MAX);
        assert!(!checked.passed && checked.violated == 0 && text.contains("FAILED"), "{text}");
        let wrong = checked.sets.iter().find(|set| !set.ok).unwrap();
        let chosen = wrong.advised().unwrap();
        assert_eq!(chosen.best_other, Some(best(&wrong.requirements)));
        assert!(chosen.ratio.unwrap() > 1.1 && checked.scores[0].surely_worse > 0);
        // One violated need fails, however fast the choice is.
        let spinner: Candidate =
            serde_json::from_str(r#"{"mechanism":"shm-spin","wait":"spin"}"#).unwrap();
        let violate = |wanted: &Requirements| {
            Ok(if wanted.needs.contains(&Need::NoSpin) { spinner } else { best(wanted) })
        };
        let (checked, text) = tested(&sets, violate, measured, usize::MAX);
        assert!(checked.violated > 0 && !checked.passed, "{text}");
        assert!(text.contains("shm-spin spin is not no-spin"), "{text}");
        let one = [Requirements::default()];
        let silent = |_: &Requirements| Err("too noisy".to_owned());
        let alone = |wanted: &Requirements, _: &[Candidate]| Ok(run(wanted, &[best(wanted)], 3));
        let failing = |_: &Requirements, _: &[Candidate]| Err("two CPUs are needed".to_owned());
        for ((checked, _), problem) in [
            (tested(&one, silent, measured, 9), "no advice: too noisy"),
            (tested(&one, |wanted| Ok(best(wanted)), failing, 9), "two CPUs are needed"),
            (tested(&one, |wanted| Ok(best(wanted)), alone, 9), "or nothing beside it"),
        ] {
            let found = checked.sets[0].problem.as_deref().unwrap();
            assert!(found.ends_with(problem) && !checked.passed, "{found}");
        }
    }

    #[test]
    fn costs_are_compared_round_by_round_and_those_of_a_rate_only_if_it_is_kept() {
        for optimise in ["p99", "cpu", "latency=0.7,cpu=0.3"] {
            let wanted =
                Requirements { optimise: optimise.parse().unwrap(), ..Requirements::default() };
            let all = candidates(&wanted).0;
            let found = costs(&run(&wanted, &all, 3), &wanted, &all);
            let [one, other] = [&found[0], &found[found.len() - 1]];
            let expected = true_ns(&one.candidate) / true_ns(&other.candidate);
            // The rounds differ by up to 2; their ratios do not.
            let (ratio, ci95) = one.ratio_to(other);
            let [low, high] = ci95.unwrap();
            assert!((ratio / expected - 1.0).abs() < 1e-9 && high / low < 1.0 + 1e-9, "{optimise}");
        }
        let one_way = Requirements { pattern: Pattern::OneWay, ..Requirements::default() };
        let rate = |rate| Requirements { rate_per_s: Some(rate), ..one_way.clone() };
        let all = candidates(&one_way).0;
        let run = run(&one_way, &all, 3);
        assert_eq!(costs(&run, &rate(1.0), &all).len(), all.len());
        assert!(costs(&run, &rate(1e8), &all).is_empty());
        // The tables of the sign test.
        for (count, expected) in [(0, None), (5, None), (6, Some(0)), (9, Some(1)), (31, Some(9))] {
            assert_eq!(rank_of_95_percent(count), expected, "{count}");
        }
    }
}
