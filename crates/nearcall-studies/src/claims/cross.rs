//! The claims between studies: why they contradict each other.
//!
//! Each is judged by the figures of the studies it compares, looked at in the way that judges
//! there.

use std::slice::from_ref;

use crate::Study;
use crate::claims::facts::View;
use crate::claims::rule::{Group, all_of, each, less, values};
use crate::claims::term::{Domain, Point, Term, figures, latency};
use crate::claims::verdict::{Answer, Bound, Finding, Missing, all};
use crate::claims::wisconsin_latency::{BUFFER, BUFFER_MEMCPY};
use crate::claims::{CrossPredicate, wisconsin_evaluation, wisconsin_latency};
use crate::evidence::{Evidence, Place, Unit};
use crate::figure::Figure;
use crate::report::number;
use crate::stats;

pub(crate) const PREDICATES: [(&str, CrossPredicate); 3] =
    [("X01", x01), ("X02", x02), ("X03", x03)];

/// Confirmed if both studies come true, each by its own variant: W02, and the part of V04 about
/// large messages.
fn x01(evidence: &Evidence) -> Answer {
    let slowest = judged(evidence, LATENCY, wisconsin_latency::buffer_is_slow())?;
    let large = wisconsin_evaluation::large_shared_memory_wins();
    let finding = all([slowest, judged(evidence, EVALUATION, large)?]);
    let copied = latency(BUFFER_MEMCPY).at(524_288) / latency("pipe").at(524_288);
    let text = "the buffer with memcpy takes {} of a pipe at 512 KiB";
    Ok(match looked_at(evidence, LATENCY, |view| values(text, from_ref(&copied), view)) {
        Ok(note) => finding.noted(note),
        Err(_) => finding,
    })
}

/// Chosen as what can be true or false: at 64 KiB the buffer that copies byte by byte loses to pipe
/// and TCP, and the one with semaphores beats both. Each crossover is shown beside it.
fn x02(evidence: &Evidence) -> Answer {
    let mut findings = Vec::new();
    for (study, quicker, slower) in [
        (LATENCY, "pipe", BUFFER),
        (LATENCY, "tcp_nodelay", BUFFER),
        (EVALUATION, "shm_semaphore", "pipe"),
        (EVALUATION, "shm_semaphore", "tcp"),
    ] {
        let group = each([65_536], [less(latency(quicker), latency(slower))]);
        findings.push(judged(evidence, study, group)?);
    }
    let mut finding = all(findings);
    for &(study, shared, rival) in VARIANTS {
        if let Ok(words) = looked_at(evidence, study, |view| crossover(view, shared, rival)) {
            finding = finding.noted(words);
        }
    }
    Ok(finding)
}

/// By study 003, which measures a pipe of 4 B at both placements; otherwise by study 002.
fn x03(evidence: &Evidence) -> Answer {
    let small = |study, terms: [Term; 2]| {
        looked_at(evidence, study, |view| {
            let [same, cross] = terms.clone().map(|term| term.at(4).figure(view, Point::default()));
            Ok([same?, cross?])
        })
    };
    let on = |place| latency("pipe").on(place);
    let of_evaluation = small(EVALUATION, [wisconsin_evaluation::on_one_cpu(), latency("pipe")]);
    let [same, cross] = of_evaluation
        .or_else(|missing| small(LATENCY, [on(Place::Same), on(Place::Cross)]).or(Err(missing)))?;
    let times = [&same, &cross].map(|figure| match figure.interval() {
        Some(interval) => figure.show(interval.center),
        None => number::MISSING.to_owned(),
    });
    let note = format!("{} on one CPU, {} on two", times[0], times[1]);
    let ratio = same.at("at 4 B on one CPU").over(&cross.at("on two"));
    Ok(Finding::new(&ratio, Bound::Below(1.0)).noted(note))
}

/// Where the shared memory of a study starts or stops to win against a rival, in words.
fn crossover(
    view: &View<'_>,
    shared: &'static str,
    rival: &'static str,
) -> Result<String, Missing> {
    let ratio = latency(shared) / latency(rival);
    let sizes = Domain::measured(2, ..);
    let (sizes, ratios) = figures(&[ratio], &sizes, view, Point::default())?;
    let wins = |figure: &Figure| stats::median(&figure.values).is_some_and(|value| value < 1.0);
    let (first, last) = (wins(&ratios[0]), wins(&ratios[ratios.len() - 1]));
    let who = format!("{} {shared} against {rival}", view.study.number());
    if first == last {
        let how = if first { "wins" } else { "loses" };
        let always = ratios.iter().all(|ratio| wins(ratio) == first);
        let at = if always { "at all" } else { "at the first and last of" };
        return Ok(format!("{who} {how} {at} {} sizes", sizes.len()));
    }
    let keys: Vec<f64> = sizes.iter().map(|bytes| bytes.ln()).collect();
    let place = Figure::made("crossover", Unit::Bytes, false, &ratios, |round| {
        let logs: Vec<f64> = round.iter().map(|ratio| ratio.ln()).collect();
        last_crossing(&keys, &logs, last).map(f64::exp)
    });
    let how = if last { "starts to win" } else { "stops to win" };
    Ok(match place.interval() {
        Some(interval) => {
            let center = place.show(interval.center);
            let ends = interval
                .ci95
                .map(|[low, high]| format!(" ({} to {})", place.show(low), place.show(high)));
            format!("{who} {how} at {center}{}", ends.unwrap_or_default())
        }
        None => format!("{who} {how} at no size that a single round shows"),
    })
}

/// The place after which the sign stays what it is at the end, between two points by a line.
/// `None` if the end is not `below` zero as expected, or the sign never changes.
fn last_crossing(keys: &[f64], values: &[f64], below: bool) -> Option<f64> {
    let side = |value: f64| (value < 0.0) == below;
    let last_wrong = values.iter().rposition(|&value| !side(value))?;
    let (from, to) = (values[last_wrong], *values.get(last_wrong + 1)?);
    let share = if from == to { 0.0 } else { from / (from - to) };
    Some(keys[last_wrong] + share * (keys[last_wrong + 1] - keys[last_wrong]))
}

/// By the first way of looking at the study that has the figures.
fn looked_at<T>(
    evidence: &Evidence,
    study: Study,
    ask: impl Fn(&View<'_>) -> Result<T, Missing>,
) -> Result<T, Missing> {
    let mut first = None;
    for view in View::all(evidence, study) {
        match ask(&view) {
            Ok(answer) => return Ok(answer),
            Err(missing) => first = first.or(Some(missing)),
        }
    }
    Err(first.unwrap_or_else(|| Missing(format!("no way to look at {study}"))))
}

fn judged(evidence: &Evidence, study: Study, group: Group) -> Answer {
    let groups = [group];
    looked_at(evidence, study, |view| all_of(&groups, view))
}

const LATENCY: Study = Study::WisconsinLatency;
const EVALUATION: Study = Study::WisconsinEvaluation;

/// The kinds of shared memory of all studies, with what each is compared to.
const VARIANTS: &[(Study, &str, &str)] = &[
    (LATENCY, BUFFER, "pipe"),
    (LATENCY, BUFFER, "tcp_nodelay"),
    (LATENCY, BUFFER_MEMCPY, "pipe"),
    (LATENCY, BUFFER_MEMCPY, "tcp_nodelay"),
    (EVALUATION, "shm_semaphore", "pipe"),
    (EVALUATION, "shm_semaphore", "tcp"),
    (Study::ShortComparison, "shm_semaphore", "pipe"),
    (Study::ShortComparison, "shm_semaphore", "unix"),
    (Study::Motorola, "shm_boost+uds_eventloop", "uds_eventloop_marshalled"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossover_is_where_the_last_change_happens() {
        let keys = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(last_crossing(&keys, &[-1.0, -1.0, 1.0, 2.0], false), Some(1.5));
        assert_eq!(last_crossing(&keys, &[1.0, -1.0, 3.0, -1.0], true), Some(2.75));
        assert_eq!(last_crossing(&keys, &[1.0, 1.0, 1.0, 1.0], false), None);
        assert_eq!(last_crossing(&keys, &[1.0, -1.0, 1.0, 1.0], true), None);
    }
}
