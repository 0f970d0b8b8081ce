//! Why the first choice is the first, and when the second would be: sentences from figures.
//!
//! Functions of what was judged; they decide nothing.

use super::advice::RunnerUp;
use super::candidates::Candidate;
use super::evidence::{EvidenceSet, message_bytes};
use super::interpolation::Point;
use super::judge::Judged;
use super::needs::Need;
use super::rank::{Burden, Position, Row, TIE_MAX};
use super::requirements::{Objective, Pattern, Requirements};
use crate::report::number;
use nearcall_channel::WaitPolicy;

/// A figure as a person reads it.
pub(super) fn words(objective: Objective, value: f64) -> String {
    objective.figure().2.value(value)
}

/// Why the first row stands first.
pub(super) fn reasons(
    requirements: &Requirements,
    judged: &Judged<'_>,
    standings: &[Position],
) -> Vec<String> {
    let row = |at: usize| &judged.rows[standings[at].row];
    let first = row(0);
    let mut reasons = vec![expected(requirements, first)];
    let tied: Vec<String> = standings[1..]
        .iter()
        .filter(|one| one.tied)
        .map(|one| judged.rows[one.row].candidate.to_string())
        .collect();
    if let Some(better) = standings.get(1).filter(|_| standings[0].cost > 0.0) {
        reasons.push(why_not_cheapest(first, &judged.rows[better.row], &standings[0]));
    }
    match standings.get(1) {
        _ if !tied.is_empty() => {
            reasons.push(format!("The measurement cannot tell it from {}.", listed(&tied)));
        }
        // Said above.
        Some(_) if standings[0].cost > 0.0 => {}
        Some(next) => {
            let ratio = (next.cost - standings[0].cost).exp();
            let next = judged.rows[next.row].candidate;
            let what = match requirements.optimise.wanted().len() {
                1 => requirements.optimise.wanted()[0].figure().1,
                _ => "the weighted cost",
            };
            reasons.push(format!("The next best is {next}, with {} {what}.", number::ratio(ratio)));
        }
        None => reasons.push("It is the only candidate that was measured.".to_owned()),
    }
    reasons.extend(waiting(requirements, first.candidate));
    if requirements.needs.contains(&Need::MultiMachine) {
        reasons.push(
            "Its figures are of the loopback interface; between machines the network adds its own."
                .to_owned(),
        );
    }
    reasons
}

/// Why the choice is another one than what measured best.
fn why_not_cheapest(choice: &Row, cheapest: &Row, standing: &Position) -> String {
    let (own, other) = (choice.candidate, cheapest.candidate);
    let by = match standing.cost.exp() {
        ratio if ratio < 2.0 => format!("{:.1} %", (ratio - 1.0) * 100.0),
        ratio => number::ratio(ratio),
    };
    let matters = match standing.cost <= TIE_MAX.ln() {
        true => "which is no difference that can be told or that matters",
        false => "which these launches cannot tell from chance; more of them (`--time`) may",
    };
    let (least, burden) = (Burden::of(own), Burden::of(other));
    let why = if burden.is_no_default && !least.is_no_default {
        "The choice is what a program gets that asks for nothing.".to_owned()
    } else if burden.spins && !least.spins {
        "The choice keeps no CPU busy while it waits.".to_owned()
    } else if burden.must_be_offered && !least.must_be_offered {
        format!(
            "Servers offer {} by default, and {} only if told to.",
            own.mechanism, other.mechanism
        )
    } else if least < burden {
        "The choice relies less on the other end.".to_owned()
    } else {
        "Of equals what takes less CPU time comes first.".to_owned()
    };
    format!("{other} measured {by} better, {matters}. {why}")
}

/// The figures of the first choice that count.
fn expected(requirements: &Requirements, row: &Row) -> String {
    let figures = requirements.optimise.wanted().into_iter().filter_map(|objective| {
        let value = row.value(objective)?;
        let range = match value.spread {
            Some([below, above]) => format!(
                " (95 %: {} to {})",
                words(objective, value.value * below.exp()),
                words(objective, value.value * above.exp())
            ),
            None => String::new(),
        };
        let name = match (objective, requirements.pattern) {
            (Objective::Latency, Pattern::OneWay) => "median of the whole round trip",
            (objective, _) => objective.figure().0,
        };
        Some(format!("{name} {}{range}", words(objective, value.value)))
    });
    let figures: Vec<String> = figures.collect();
    format!("Expected of {}: {}.", row.candidate, figures.join("; "))
}

/// What its way to wait means for the rest of the machine.
fn waiting(requirements: &Requirements, candidate: Candidate) -> Option<String> {
    match candidate.wait {
        _ if candidate.spins() => Some(
            "It spins: while an end waits it keeps a CPU busy; with fewer free CPUs than ends \
             everything becomes slow."
                .to_owned(),
        ),
        WaitPolicy::Adaptive => Some(
            "It spins for about as long as a wake-up costs and then sleeps: idle it takes no CPU."
                .to_owned(),
        ),
        WaitPolicy::Poll if requirements.needs.contains(&Need::Pollable) => None,
        WaitPolicy::Poll => Some("Its client is in an event loop (epoll).".to_owned()),
        _ => None,
    }
}

/// The second of the ranking, and what would put it first.
pub(super) fn runner_up(
    requirements: &Requirements,
    judged: &Judged<'_>,
    standings: &[Position],
) -> Option<RunnerUp> {
    let first = &judged.rows[standings.first()?.row];
    let second = &judged.rows[standings.get(1)?.row];
    let mut wins = sizes(requirements, judged, [first.candidate, second.candidate]);
    for objective in Objective::ALL {
        let (Some(own), Some(other)) = (second.value(objective), first.value(objective)) else {
            continue;
        };
        let better = match objective {
            Objective::Throughput => own.value > other.value * WORTH_SAYING,
            _ => own.value * WORTH_SAYING < other.value,
        };
        if better && requirements.optimise.of(objective) < 1.0 {
            wins.push(format!(
                "when only {} counts: {} against {}",
                objective.name(),
                words(objective, own.value),
                words(objective, other.value)
            ));
        }
    }
    if first.candidate.spins() && !second.candidate.spins() {
        wins.push("when both ends share a CPU, or none is free to burn".to_owned());
    }
    let lacks = |need: &Need, of: Candidate| of.lacks(*need, &[*need]).is_some();
    let needs: Vec<String> = Need::ALL
        .iter()
        .filter(|need| lacks(need, first.candidate) && !lacks(need, second.candidate))
        .filter(|need| **need != Need::SameCpuSafe)
        .map(|need| need.to_string())
        .collect();
    if !needs.is_empty() {
        wins.push(format!("when {} is needed", needs.join(" or ")));
    }
    Some(RunnerUp {
        candidate: second.candidate,
        address: second.candidate.address(&requirements.needs),
        server_address: second.candidate.server_address(&requirements.needs),
        wins,
    })
}

/// From or up to which size the second is better, by what was measured of other sizes.
fn sizes(
    requirements: &Requirements,
    judged: &Judged<'_>,
    candidates: [Candidate; 2],
) -> Vec<String> {
    let heaviest = requirements.optimise.wanted().first().copied();
    if !matches!(heaviest, Some(Objective::Latency | Objective::Throughput)) {
        // Medians of time say nothing about the others.
        return Vec::new();
    }
    let Some(set) = judged.deciding(requirements).first().copied() else { return Vec::new() };
    let index = |candidate: Candidate| {
        let (eligible, _) = super::eligible(requirements);
        eligible.iter().position(|&one| one == candidate)
    };
    let Some((first, second)) = index(candidates[0]).zip(index(candidates[1])) else {
        return Vec::new();
    };
    let (first, second) = (&set.points[first], &set.points[second]);
    let mut totals: Vec<u64> = first.iter().map(|point| point.total).collect();
    totals.retain(|total| second.iter().any(|point| point.total == *total));
    let lead = |total: u64| lead(set, [first, second], total);
    let mut found = Vec::new();
    let above = totals.iter().filter(|&&total| total > set.total);
    let below = totals.iter().rev().filter(|&&total| total < set.total);
    let size = |total| number::size(message_bytes(requirements, total));
    if let Some(&total) = above.into_iter().find(|&&total| lead(total) > WORTH_SAYING.ln()) {
        found.push(format!("with larger messages, as at {}", size(total)));
    }
    if let Some(&total) = below.into_iter().find(|&&total| lead(total) > WORTH_SAYING.ln()) {
        found.push(format!("with smaller messages, as at {}", size(total)));
    }
    found
}

/// How far the second leads at a size, as the logarithm of a ratio; below zero if it does not.
fn lead(set: &EvidenceSet<'_>, [first, second]: [&[Point<'_>]; 2], total: u64) -> f64 {
    let value = |of: &[Point<'_>]| Some(set.estimate(of, total)?.middle.value);
    let Some((first, second)) = value(first).zip(value(second)) else { return 0.0 };
    match set.kind {
        crate::run::Kind::Latency => (first / second).ln(),
        crate::run::Kind::Throughput => (second / first).ln(),
    }
}

/// "a, b and c"; of many, the first few.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= NAMES_MAX => {
            format!("{} and {last}", first.join(", "))
        }
        _ => format!(
            "{} and {} more",
            names[..NAMES_MAX - 1].join(", "),
            names.len() - NAMES_MAX + 1
        ),
    }
}

/// More names than this are counted only.
const NAMES_MAX: usize = 6;

/// A smaller advantage is not worth a word.
const WORTH_SAYING: f64 = 1.1;
