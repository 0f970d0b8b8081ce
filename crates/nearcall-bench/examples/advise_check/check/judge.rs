//! What candidates cost in a run that measured them beside each other.
//!
//! Pure, and not by the advisor's own code. Always true: the ratio of two candidates is the median
//! of their ratios in each round, whatever counts, so that what disturbs a round disturbs both.

use nearcall_results::advise::{Candidate, Objective, Pattern, Requirements};
use nearcall_results::run::{Cell, Kind, Run};
use nearcall_results::stats;

/// What one candidate costs: less is better.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) candidate: Candidate,
    /// One for each objective that counts.
    costs: Vec<Cost>,
}

#[derive(Clone, Debug)]
struct Cost {
    share: f64,
    value: f64,
    /// One for each launch, or none.
    launches: Vec<f64>,
}

/// How many times another cost one is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) ratio: f64,
    /// The 95 % confidence interval, by ranks, whatever the distribution of rounds.
    pub(crate) ci95: Option<[f64; 2]>,
}

/// The costs of each candidate of which everything that counts was measured.
pub(crate) fn costs(run: &Run, wanted: &Requirements, candidates: &[Candidate]) -> Vec<Costs> {
    let of = |candidate: &Candidate| {
        let wanted_costs = wanted.optimise.wanted().into_iter().map(|objective| {
            let (value, launches) = cost(run, wanted, candidate, objective)?;
            let share = wanted.optimise.of(objective);
            (value.is_finite() && value > 0.0).then_some(Cost { share, value, launches })
        });
        let costs: Option<Vec<Cost>> = wanted_costs.collect();
        Some(Costs { candidate: *candidate, costs: costs? })
    };
    candidates.iter().filter_map(of).collect()
}

impl Costs {
    /// The cost over all launches, to sort by.
    pub(crate) fn value(&self) -> f64 {
        self.costs.iter().map(|cost| cost.value.powf(cost.share)).product()
    }

    /// How many times the cost of `other` this is, by the rounds that both have; a run that ran out
    /// of time ends within a round. With fewer than [`ROUNDS_MIN`], by all launches and without an
    /// interval.
    pub(crate) fn ratio_to(&self, other: &Self) -> Ratio {
        let pairs = || self.costs.iter().zip(&other.costs);
        let rounds = pairs().map(|(own, other)| own.launches.len().min(other.launches.len()));
        let rounds = rounds.min().unwrap_or(0);
        if rounds < ROUNDS_MIN {
            return Ratio { ratio: self.value() / other.value(), ci95: None };
        }
        let of_round = |round: usize| -> f64 {
            pairs()
                .map(|(own, other)| (own.launches[round] / other.launches[round]).powf(own.share))
                .product()
        };
        let mut ratios: Vec<f64> = (0..rounds).map(of_round).collect();
        ratios.sort_by(f64::total_cmp);
        let ci95 = rank_of_95_percent(rounds).map(|rank| [ratios[rank], ratios[rounds - 1 - rank]]);
        Ratio { ratio: stats::median(&ratios).unwrap_or(f64::INFINITY), ci95 }
    }
}

/// The largest rank, from 0, below which a median of `count` independent values lies in 2.5 % of
/// all cases at most; `None` if there is none.
fn rank_of_95_percent(count: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powf(count as f64);
    let mut below = chance;
    let mut rank = 0;
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
    let cells: Vec<&Cell> = run.cells.iter().filter(|cell| is_of(cell, candidate)).collect();
    let find = |kind: Kind, at_rate: bool| {
        cells.iter().copied().find(|cell| cell.kind == kind && cell.pace.is_some() == at_rate)
    };
    let latency = find(Kind::Latency, false);
    let keeps = |cell: &&Cell| match (wanted.rate_per_s, cell.messages_per_s) {
        (Some(rate), most) => most.is_some_and(|most| most >= rate),
        (None, _) => true,
    };
    let stream = find(Kind::Throughput, false).filter(keeps);
    let paced = find(Kind::Latency, true);
    let one_way = wanted.pattern == Pattern::OneWay;
    let asked = match wanted.rate_per_s {
        // What cannot keep the rate has no cost at all.
        Some(_) if one_way => latency.filter(|_| stream.is_some()),
        Some(_) => paced.filter(|cell| cell.pace.as_ref().is_some_and(|one| one.kept)),
        _ => latency,
    };
    match objective {
        Objective::Latency => {
            let cell = asked?;
            Some((cell.rtt_ns.as_ref()?.p50?, cell.launch_medians_ns.clone()))
        }
        Objective::P99 => {
            let cell = asked?;
            Some((cell.rtt_ns.as_ref()?.p99?, cell.launch_p99s_ns.clone()))
        }
        Objective::Throughput if one_way => {
            let cell = stream?;
            let launches = cell.launch_messages_per_s.iter().map(|rate| 1.0 / rate).collect();
            Some((1.0 / cell.messages_per_s?, launches))
        }
        Objective::Throughput => {
            let cell = latency?;
            Some((cell.rtt_ns.as_ref()?.p50?, cell.launch_medians_ns.clone()))
        }
        Objective::Cpu => {
            let cell = if one_way { stream? } else { asked? };
            Some((cell.cpu_ns()?, cell.launch_cpu_ns.clone()))
        }
        // No set asks for it: it takes longer than all the rest.
        Objective::Memory => None,
    }
}

/// Whether the client of the cell waited as the candidate does, over the same mechanism.
fn is_of(cell: &Cell, candidate: &Candidate) -> bool {
    let client = cell.wait.split('/').next().unwrap_or_default();
    cell.mechanism == candidate.mechanism.name() && client == candidate.wait.name()
}

/// Fewer rounds have no median to speak of.
const ROUNDS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        for (count, expected) in
            [(0, None), (5, None), (6, Some(0)), (9, Some(1)), (20, Some(5)), (31, Some(9))]
        {
            assert_eq!(rank_of_95_percent(count), expected, "{count}");
        }
    }
}
