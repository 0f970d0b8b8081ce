//! Puts `adaptive` beside the better of spinning and sleeping, pace by pace.
//!
//! A function of its arguments. Ratios of latency are those of launches of one round.
//! **Invariants:** a policy that did not keep the pace is better than none only where no other kept
//! it.

use crate::run::{Cell, WaitComparison, WaitRatio};
use crate::stats;

/// All comparisons that the cells allow, in the order of the cells.
pub(crate) fn all(cells: &[Cell]) -> Vec<WaitComparison> {
    let adaptive = cells.iter().filter(|cell| client_wait(cell) == ADAPTIVE);
    adaptive.filter_map(|cell| compare(cell, cells)).collect()
}

fn compare(cell: &Cell, cells: &[Cell]) -> Option<WaitComparison> {
    let pace = cell.pace.as_ref()?;
    let others: Vec<&Cell> = cells
        .iter()
        .filter(|other| {
            other.mechanism == cell.mechanism
                && other.placement == cell.placement
                && client_wait(other) != ADAPTIVE
                && other.pace.as_ref().is_some_and(|other| other.rate_per_s == pace.rate_per_s)
        })
        .collect();
    let of_kept: Vec<&Cell> = others.iter().copied().filter(|other| kept(other)).collect();
    // Where no policy keeps the pace, what is left to compare is how long a call itself takes.
    let (candidates, service) = match of_kept.is_empty() {
        true => (others.clone(), true),
        false => (of_kept, false),
    };
    let value = |cell: &Cell| stats::median(&medians(cell, service)).unwrap_or(f64::INFINITY);
    let better = candidates.into_iter().min_by(|a, b| value(a).total_cmp(&value(b)))?;
    let cpu = |cell: &Cell| cpu_ns(cell).unwrap_or(f64::INFINITY);
    let others_ratios = others.iter().map(|other| to_other(cell, other)).collect();
    let cheaper = others.into_iter().min_by(|a, b| cpu(a).total_cmp(&cpu(b)))?;
    let ratios = rounds(cell, better, service);
    let estimate = stats::estimate(&ratios, &[], 0.0);
    let latency_ratio = stats::median(&ratios);
    let hold = |[low, high]: [f64; 2], middle: f64| [low.min(middle), high.max(middle)];
    let ci95 = estimate.and_then(|estimate| estimate.ci95).zip(latency_ratio);
    let cpu_ratio = ratio(cpu_ns(cell), cpu_ns(cheaper));
    Some(WaitComparison {
        mechanism: cell.mechanism.clone(),
        class: cell.placement.class.clone(),
        rate_per_s: pace.rate_per_s,
        better: client_wait(better).to_owned(),
        latency_ratio,
        latency_ratio_ci95: ci95.map(|(ci95, middle)| hold(ci95, middle)),
        cheaper: client_wait(cheaper).to_owned(),
        cpu_ratio,
        others: others_ratios,
    })
}

fn to_other(cell: &Cell, other: &Cell) -> WaitRatio {
    let both_kept = kept(cell) && kept(other);
    let rounds = rounds(cell, other, false);
    WaitRatio {
        wait: client_wait(other).to_owned(),
        latency_ratio: stats::median(&rounds).filter(|_| both_kept),
        cpu_ratio: ratio(cpu_ns(cell), cpu_ns(other)),
    }
}

/// The ratio of the two in each round of launches.
fn rounds(cell: &Cell, other: &Cell, service: bool) -> Vec<f64> {
    let (ours, theirs) = (medians(cell, service), medians(other, service));
    ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect()
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some(ours? / theirs?).filter(|ratio| ratio.is_finite())
}

fn client_wait(cell: &Cell) -> &str {
    cell.call.as_ref().map(|call| call.client_wait.as_str()).unwrap_or_default()
}

fn kept(cell: &Cell) -> bool {
    cell.pace.as_ref().is_some_and(|pace| pace.kept)
}

fn medians(cell: &Cell, service: bool) -> Vec<f64> {
    match &cell.pace {
        Some(pace) if service => pace.launch_service_medians_ns.clone(),
        _ => cell.launch_medians_ns.clone(),
    }
}

/// Of both ends, per call.
fn cpu_ns(cell: &Cell) -> Option<f64> {
    Some(cell.cpu_ns_per_message.client? + cell.cpu_ns_per_message.server?)
}

/// The word for the policy that is compared with the others.
const ADAPTIVE: &str = "adaptive";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{CallFacts, Kind, PaceFacts, PerEnd};

    fn cell(wait: &str, ns: f64, cpu_ns: f64, kept: bool) -> Cell {
        let mut cell = Cell::new(Kind::Latency, "shm", 0);
        cell.call = Some(CallFacts { client_wait: wait.to_owned(), ..CallFacts::default() });
        cell.launch_medians_ns = vec![ns, ns * 1.1];
        cell.cpu_ns_per_message = PerEnd { client: Some(cpu_ns), server: Some(cpu_ns) };
        let launch_service_medians_ns = vec![ns / 2.0, ns / 2.0];
        let rate_per_s = 1_000;
        let facts = PaceFacts { rate_per_s, kept, launch_service_medians_ns, ..Default::default() };
        cell.pace = Some(facts);
        cell
    }

    #[test]
    fn adaptive_stands_beside_the_better_and_the_cheaper() {
        let cells = [
            cell("spin", 400.0, 1e6, true),
            cell("block", 8_000.0, 5_000.0, true),
            cell("adaptive", 440.0, 7_500.0, true),
        ];
        let [found] = all(&cells).try_into().unwrap();
        assert_eq!((found.better.as_str(), found.cheaper.as_str()), ("spin", "block"));
        assert!((found.latency_ratio.unwrap() - 1.1).abs() < 1e-9, "{found:?}");
        assert!((found.cpu_ratio.unwrap() - 1.5).abs() < 1e-9, "{found:?}");
        let to_block = &found.others[1];
        assert_eq!((to_block.wait.as_str(), to_block.cpu_ratio), ("block", Some(1.5)));
        assert!(to_block.latency_ratio.unwrap() < 0.1, "{found:?}");
    }

    #[test]
    fn who_falls_behind_is_not_the_better_one() {
        let cells = [
            cell("spin", 100.0, 1.0, false),
            cell("block", 900.0, 1.0, true),
            cell("adaptive", 900.0, 1.0, true),
        ];
        assert_eq!(all(&cells)[0].better, "block");
        let behind = [cell("block", 100.0, 1.0, false), cell("adaptive", 100.0, 1.0, false)];
        assert_eq!(all(&behind)[0].latency_ratio, Some(1.0));
        assert_eq!(all(&cells[2..]), []);
    }
}
