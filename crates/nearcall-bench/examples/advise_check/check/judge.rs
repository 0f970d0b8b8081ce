//! What candidates cost in a run that measured them beside each other.
//!
//! Pure, and not by the advisor's own code. Always true: two candidates are compared round by
//! round where both have a figure for each round, so that what disturbs a round disturbs both.

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
    /// How many times the cost of `other` this is.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        let pairs = self.costs.iter().zip(&other.costs);
        pairs.map(|(own, other)| own.ratio_to(other).powf(own.share)).product()
    }
}

impl Cost {
    fn ratio_to(&self, other: &Self) -> f64 {
        let rounds = self.launches.len();
        if rounds != other.launches.len() || rounds < ROUNDS_MIN {
            return self.value / other.value;
        }
        let ratios: Vec<f64> =
            self.launches.iter().zip(&other.launches).map(|(own, other)| own / other).collect();
        stats::median(&ratios).unwrap_or(self.value / other.value)
    }
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
        Objective::P99 => Some((asked?.rtt_ns.as_ref()?.p99?, Vec::new())),
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
            Some((cell.cpu_ns()?, Vec::new()))
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
