//! What cells of other traffic than one exchange right after the other store beside their times.
//!
//! A function of its arguments, as all of `assemble.rs`.

use super::{CellLaunch, mean_rate, messages_per_s, read};
use crate::cell::CellSpec;
use crate::conditions::Traffic;
use crate::exchange::gapped;
use crate::exchange::measured::OfTraffic;
use crate::histogram::Histogram;
use crate::run::{
    BurstFacts, Cell, ClientsFacts, Definition, GapFacts, RttNs, StartFacts, SwitchFacts,
};
use crate::stats;

/// Adds the facts of the cell's kind of traffic. Its times are there already.
///
/// # Errors
///
/// Why the figures may not be given.
pub(super) fn add(cell: &mut Cell, spec: &CellSpec, launches: &[CellLaunch]) -> Result<(), String> {
    let found = || launches.iter().filter_map(|launch| launch.measured.traffic.as_ref());
    match spec.conditions.traffic {
        Traffic::Steady | Traffic::Switches => {}
        Traffic::Gap { ns } => {
            let achieved: Vec<f64> = found()
                .filter_map(|one| match one {
                    OfTraffic::Gap { achieved_ns } => *achieved_ns,
                    _ => None,
                })
                .collect();
            let idle = match ns {
                0 => "nothing",
                _ if gapped::sleeps(ns) => "sleeps",
                _ => "spins",
            };
            cell.gap = Some(GapFacts {
                gap_ns: ns,
                achieved_gap_ns: stats::median(&achieved),
                idle: idle.to_owned(),
            });
        }
        Traffic::Burst { messages } => {
            let rtt = cell.rtt_ns.clone().unwrap_or_default();
            let each = f64::from(messages.max(1));
            cell.definition = Definition::WholeBurst;
            cell.burst = Some(BurstFacts {
                messages,
                per_message_ns: rtt.p50.map(|ns| ns / each),
                per_message_ns_ci95: rtt.p50_ci95.map(|ci95| ci95.map(|ns| ns / each)),
            });
        }
        Traffic::Clients { clients, loops } => {
            let facts = ClientsFacts { clients, loops, ..ClientsFacts::default() };
            cell.clients = Some(clients_facts(facts, launches));
        }
        Traffic::Starts { .. } => add_starts(cell, launches)?,
        Traffic::Switch { to } => add_switches(cell, to.name(), launches)?,
    }
    Ok(())
}

fn clients_facts(mut facts: ClientsFacts, launches: &[CellLaunch]) -> ClientsFacts {
    for launch in launches {
        facts.launch_calls_per_s.extend(messages_per_s(launch));
        if let Some(OfTraffic::Clients { slowest_share, descriptors_max }) =
            &launch.measured.traffic
        {
            facts.launch_slowest_shares.push(*slowest_share);
            facts.descriptors_max = *descriptors_max;
        }
    }
    let (rate, estimate) = mean_rate(&facts.launch_calls_per_s);
    facts.calls_per_s = rate;
    facts.calls_per_s_ci95 = estimate.and_then(|estimate| estimate.ci95);
    facts.slowest_share = stats::median(&facts.launch_slowest_shares);
    let served = launches.iter().filter_map(|launch| launch.measured.server.as_ref());
    facts.served = Some(served.map(|server| server.received).sum());
    facts
}

fn add_starts(cell: &mut Cell, launches: &[CellLaunch]) -> Result<(), String> {
    let mut fresh = [Vec::new(), Vec::new()];
    // First messages, closes, tear-downs.
    let mut times = [const { Vec::new() }; 3];
    let (mut words, mut facts) = (Vec::new(), StartFacts::default());
    for launch in launches {
        let Some(OfTraffic::Start(starts)) = &launch.measured.traffic else { continue };
        facts.connects = facts.connects.max(starts.connects);
        fresh[0].push(starts.fresh_set_up_ns);
        fresh[1].push(starts.fresh_first_ns);
        words.extend(starts.word_ns);
        let stored = [&starts.firsts, &starts.closes, &starts.tear_downs];
        for (times, stored) in times.iter_mut().zip(stored) {
            times.push(read(stored)?);
        }
    }
    let [firsts, closes, tear_downs] = times.map(|launches| merged(&launches));
    (facts.first_message_ns, facts.close_ns, facts.tear_down_ns) = (firsts, closes, tear_downs);
    let [set_ups, firsts] = fresh.map(|values| one_per_launch(&values));
    (facts.fresh_set_up_ns, facts.fresh_first_message_ns) = (set_ups, firsts);
    facts.word_ns = stats::median(&words);
    cell.definition = Definition::SetUp;
    cell.start = Some(facts);
    Ok(())
}

fn add_switches(cell: &mut Cell, to: &str, launches: &[CellLaunch]) -> Result<(), String> {
    let mut facts = SwitchFacts { to: to.to_owned(), ..SwitchFacts::default() };
    // Pauses, calls during switches, calls without.
    let mut times = [const { Vec::new() }; 3];
    for launch in launches {
        let Some(OfTraffic::Switches(found)) = &launch.measured.traffic else { continue };
        facts.switches += found.switches;
        let stored = [&found.pauses, &found.during, &found.undisturbed];
        for (times, stored) in times.iter_mut().zip(stored) {
            times.push(read(stored)?);
        }
    }
    let times = times.map(|launches| merged(&launches));
    [facts.pause_ns, facts.call_ns, facts.undisturbed_ns] = times;
    cell.definition = Definition::Switch;
    cell.switch = Some(facts);
    Ok(())
}

/// Times of all launches, with the interval from the medians of each.
fn merged(launches: &[Histogram]) -> RttNs {
    let mut all = Histogram::new();
    launches.iter().for_each(|times| all.merge(times));
    let medians: Vec<f64> = launches.iter().filter_map(Histogram::median_ns).collect();
    let estimate = stats::estimate(&medians, &[], 0.0);
    RttNs::new(&all, estimate.as_ref())
}

/// One time per launch: too few for percentiles, but each stands for itself.
fn one_per_launch(times_ns: &[u64]) -> RttNs {
    let values: Vec<f64> = times_ns.iter().map(|&ns| ns as f64).collect();
    let estimate = stats::estimate(&values, &[], 0.0);
    let p50 = estimate.as_ref().map(|estimate| estimate.center);
    RttNs {
        min: times_ns.iter().min().copied(),
        max: times_ns.iter().max().copied(),
        mean: p50.map(|_| values.iter().sum::<f64>() / values.len() as f64),
        p50,
        p50_ci95: estimate.and_then(|estimate| estimate.ci95),
        ..RttNs::default()
    }
}
