//! Turns the cells of a run into the evidence that claims are judged by.
//!
//! A function of its arguments.

use crate::Study;
use crate::evidence::{Evidence, Facts, Key, Load, Place, Quantity, Series};
use crate::protocol::Line;
use crate::run::{Cell, Kind, Skipped, StudyFacts};

/// The evidence of measured cells. What was skipped is listed by the papers' names in `lines`.
pub(crate) fn evidence(
    cells: &[Cell],
    skipped: &[Skipped],
    lines: &[Line],
    facts: Facts,
) -> Evidence {
    let mut evidence = Evidence::new(facts);
    for cell in cells {
        add(&mut evidence, cell);
    }
    for skip in skipped {
        for line in lines.iter().filter(|line| line.spec.subject.name() == skip.mechanism) {
            evidence.skip(line.study, Some(line.mechanism), &skip.reason);
        }
    }
    evidence
}

/// Takes away what compares two clocks, where there is only one.
pub(crate) fn without_disagreement(evidence: &mut Evidence) {
    let keys: Vec<Key> = evidence
        .iter()
        .filter(|(key, _)| key.quantity == Quantity::Disagreement)
        .map(|(key, _)| key.clone())
        .collect();
    for key in keys {
        evidence.remove(&key);
        evidence.skip(key.study, Some(&key.mechanism), "the TSC cannot be used here");
    }
}

/// Adds all figures of one cell.
fn add(evidence: &mut Evidence, cell: &Cell) {
    let Some(facts) = &cell.study else { return };
    let (Ok(study), Some(load)) = (facts.study.parse::<Study>(), load_of(cell)) else { return };
    let places = places_of(cell);
    for (quantity, values) in figures(study, cell, facts) {
        for place in &places {
            let key = Key::new(study, &facts.mechanism, cell.message_bytes, *place, quantity);
            let key = key.under(load);
            // Several pairs of CPUs are of one class: the first stands for it.
            if !values.is_empty() && evidence.get(&key).is_none() {
                evidence.insert(key, Series(values.clone()));
            }
        }
    }
}

fn figures(study: Study, cell: &Cell, facts: &StudyFacts) -> Vec<(Quantity, Vec<f64>)> {
    let bytes = cell.message_bytes as f64;
    let rate = |ns: &f64| bytes * 1e9 / ns;
    let per_cpu_second = |ns: &f64| bytes * 8.0 * 1e9 / ns;
    if cell.kind == Kind::Throughput {
        let rates = cell.launch_messages_per_s.iter().map(|rate| rate * bytes).collect();
        let efficient = facts.launch_cpu_ns.iter().map(per_cpu_second).collect();
        return vec![(Quantity::Throughput, rates), (Quantity::CpuThroughput, efficient)];
    }
    // One message and an acknowledgement are that study's throughput and nothing else.
    if study == Study::WisconsinEvaluation && cell.shape == "sink" {
        return vec![(Quantity::Throughput, cell.launch_medians_ns.iter().map(rate).collect())];
    }
    let mut figures = vec![
        (Quantity::Median, cell.launch_medians_ns.clone()),
        (Quantity::Mean, facts.launch_means_ns.clone()),
        (Quantity::Min, facts.launch_mins_ns.clone()),
        (Quantity::Max, facts.launch_maxs_ns.clone()),
        (Quantity::First, facts.launch_firsts_ns.clone()),
        (Quantity::P99, facts.launch_p99s_ns.clone()),
        (Quantity::SetUp, facts.launch_set_ups_ns.clone()),
    ];
    if !facts.launch_clock_mins_ns.is_empty() {
        let both = facts.launch_mins_ns.iter().zip(&facts.launch_clock_mins_ns);
        let apart = both.map(|(tsc, clock)| (tsc - clock).abs() / ((tsc + clock) / 2.0));
        figures.push((Quantity::Disagreement, apart.collect()));
    }
    figures
}

/// The words for where a cell ran: its class, and its pair of CPUs.
fn places_of(cell: &Cell) -> Vec<Place> {
    let placement = &cell.placement;
    let class = match placement.class.as_str() {
        "same_cpu" => Place::Same,
        "smt" => Place::Smt,
        "cross_node" => Place::CrossNode,
        "unpinned" => Place::Unpinned,
        _ => Place::Cross,
    };
    let number = |cpu: Option<u32>| cpu.and_then(|cpu| u16::try_from(cpu).ok());
    let pair = number(placement.client_cpu).zip(number(placement.server_cpu));
    let pair = pair.map(|(client, server)| Place::Pair(client, server));
    [Some(class), pair].into_iter().flatten().collect()
}

/// What ran beside it; `None` if no study asks for that.
pub(crate) fn load_of(cell: &Cell) -> Option<Load> {
    match cell.load.parse::<crate::conditions::Load>().ok()? {
        load if load.is_idle() => Some(Load::Idle),
        load if load == crate::conditions::Load::STRESS => Some(Load::Stress),
        load if load == crate::conditions::Load::duty(35) => Some(Load::Duty35),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Placement;

    fn cell(kind: Kind, shape: &str, class: &str, cpus: Option<[u32; 2]>) -> Cell {
        let mut cell = Cell::new(kind, "study-pipe", 1024);
        shape.clone_into(&mut cell.shape);
        cell.placement = Placement {
            class: class.to_owned(),
            client_cpu: cpus.map(|cpus| cpus[0]),
            server_cpu: cpus.map(|cpus| cpus[1]),
        };
        cell.launch_medians_ns = vec![1_000.0, 2_000.0];
        cell.launch_messages_per_s = vec![1e6];
        cell.study = Some(StudyFacts {
            study: "wisconsin-evaluation".to_owned(),
            mechanism: "pipe".to_owned(),
            launch_mins_ns: vec![900.0, 1_000.0],
            launch_clock_mins_ns: vec![909.0, 1_000.0],
            launch_cpu_ns: vec![1_000.0],
            ..StudyFacts::default()
        });
        cell
    }

    fn get(cell: Cell, place: Place, quantity: Quantity) -> Option<Vec<f64>> {
        let evidence = evidence(&[cell], &[], &[], Facts::default());
        let key = Key::new(Study::WisconsinEvaluation, "pipe", 1024, place, quantity);
        evidence.get(&key).map(|series| series.0.clone())
    }

    #[test]
    fn a_cell_stands_under_its_class_and_its_pair() {
        let echo = || cell(Kind::Latency, "echo", "same_llc", Some([1, 0]));
        let median = Some(vec![1_000.0, 2_000.0]);
        assert_eq!(get(echo(), Place::Cross, Quantity::Median), median);
        assert_eq!(get(echo(), Place::Pair(1, 0), Quantity::Median), median);
        assert_eq!(get(echo(), Place::Pair(0, 1), Quantity::Median), None);
        assert_eq!(get(echo(), Place::Cross, Quantity::Max), None, "none was measured");
        let apart = get(echo(), Place::Cross, Quantity::Disagreement).unwrap();
        assert!((apart[0] - 9.0 / 904.5).abs() < 1e-12 && apart[1] == 0.0);
    }

    #[test]
    fn an_acknowledged_message_is_a_throughput_in_that_study() {
        let sink = cell(Kind::Latency, "sink", "unpinned", None);
        assert_eq!(get(sink.clone(), Place::Unpinned, Quantity::Median), None);
        let rates = get(sink, Place::Unpinned, Quantity::Throughput).unwrap();
        assert_eq!(rates, [1.024e9, 0.512e9]);
        let stream = cell(Kind::Throughput, "sink", "unpinned", None);
        let efficient = get(stream, Place::Unpinned, Quantity::CpuThroughput).unwrap();
        assert_eq!(efficient, [8.192e9]);
    }

    #[test]
    fn another_load_is_no_evidence() {
        let mut loaded = cell(Kind::Latency, "echo", "unpinned", None);
        "cpu".clone_into(&mut loaded.load);
        assert_eq!(get(loaded, Place::Unpinned, Quantity::Median), None);
    }
}
