//! Judges the claims of a stored run again, by the predicates of this program.
//!
//! A run keeps the figures of its cells launch by launch, so a predicate that was corrected since
//! corrects its verdicts too.
//! **Invariants:** a verdict that does not change keeps its stored words; one that does names what
//! it was; what the run did not keep figures of stays as it was stored.

use crate::Study;
use crate::claims::{self, Judged, Verdict};
use crate::collect;
use crate::evidence::{Evidence, Facts, Key, Place, Quantity, Series};
use crate::run::{Run, StudyFigure};

/// Judges all claims of `run` again and returns how many verdicts changed.
pub fn judge_again(run: &mut Run) -> usize {
    let studies = run.studies.iter().filter_map(|study| study.study.parse().ok());
    let studies: Vec<Study> = studies.collect();
    if studies.is_empty() {
        return 0;
    }
    let now = claims::judge_all(&evidence(run), &studies);
    let mut changed = 0;
    for stored in run.studies.iter_mut().flat_map(|study| &mut study.verdicts) {
        if let Some(judged) = now.iter().find(|judged| judged.id == stored.id)
            && differs(judged, stored)
        {
            let before = stored.verdict;
            stored.verdict = judged.verdict;
            stored.evidence = format!("{}; stored as {before}", judged.evidence);
            changed += 1;
        }
    }
    changed
}

/// What the run lacks is no verdict.
fn differs(now: &Judged, stored: &Judged) -> bool {
    now.verdict != stored.verdict && now.verdict != Verdict::Skipped
}

/// What claims are judged by, as far as `run` has kept it.
pub(crate) fn evidence(run: &Run) -> Evidence {
    let mut evidence = collect::evidence(&run.study_cells, &[], &[], facts(run));
    for result in &run.studies {
        let Ok(study) = result.study.parse::<Study>() else { continue };
        for figure in &result.figures {
            let named = BESIDE_CELLS.into_iter().find(|it| it.to_string() == figure.quantity);
            let Some(quantity) = named else { continue };
            let key = Key::new(study, &figure.mechanism, 0, Place::None, quantity);
            evidence.insert(key, Series(figure.values.clone()));
        }
    }
    if !run.timers.iter().any(|timer| timer.used && timer.source == "tsc") {
        collect::without_disagreement(&mut evidence);
    }
    evidence
}

/// What `study` is judged by beside its cells, to be stored.
pub(crate) fn figures(evidence: &Evidence, study: Study) -> Vec<StudyFigure> {
    let of_study = |key: &Key| key.study == study && BESIDE_CELLS.contains(&key.quantity);
    let stored = |(key, series): (&Key, &Series)| StudyFigure {
        mechanism: key.mechanism.clone(),
        quantity: key.quantity.to_string(),
        values: series.0.clone(),
    };
    evidence
        .iter()
        .filter(|(key, _)| key.place == Place::None && of_study(key))
        .map(stored)
        .collect()
}

/// What no cell has.
const BESIDE_CELLS: [Quantity; 4] =
    [Quantity::SetUp, Quantity::TimerOverhead, Quantity::TimerGranularity, Quantity::PssBytes];

/// The machine as its cells show it: where they ran stands with each of them.
fn facts(run: &Run) -> Facts {
    let known = |count: Option<u32>| count.and_then(|count| u16::try_from(count).ok());
    let mut facts = Facts {
        cpus: known(run.machine.cpus).unwrap_or_default(),
        numa_nodes: known(run.machine.numa_nodes).unwrap_or(1),
        ..Facts::default()
    };
    for placement in run.study_cells.iter().map(|cell| &cell.placement) {
        let pair = known(placement.client_cpu).zip(known(placement.server_cpu));
        let Some((client, server)) = pair else { continue };
        facts.node_of.entry(client).or_insert(0);
        match placement.class.as_str() {
            "cross_node" => drop(facts.node_of.insert(server, 1)),
            class => {
                facts.node_of.entry(server).or_insert(0);
                facts.siblings.extend((class == "smt").then_some((client, server)));
            }
        }
    }
    facts.has_smt = !facts.siblings.is_empty();
    facts
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::sync::LazyLock;

    use super::*;

    /// The first run that was stored: some of its verdicts are by rules that were corrected since.
    fn run() -> Run {
        static RUN: LazyLock<Run> = LazyLock::new(|| load("epyc-2cpu-studies.json"));
        RUN.clone()
    }

    fn load(name: &str) -> Run {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
        Run::load(&runs.join(name)).unwrap()
    }

    #[test]
    fn the_run_of_the_document_has_the_verdicts_of_today() {
        let stored = load("xeon-2cpu-studies.json");
        let mut run = stored.clone();
        assert_eq!(judge_again(&mut run), 0, "docs/studies.md is to be written again");
        assert_eq!(run, stored);
    }

    #[test]
    fn the_stored_run_is_judged_as_before() {
        let mut found = String::new();
        for judged in claims::judge_all(&evidence(&run()), &Study::ALL) {
            writeln!(found, "{} {}: {}", judged.id, judged.verdict, judged.evidence).unwrap();
        }
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden/stored.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap();
        assert!(found == expected, "UPDATE_EXPECT=1 rewrites it\n{found}");
    }

    #[test]
    fn what_no_cell_has_is_stored_and_judged_again() {
        let mut run = run();
        let mut measured = Evidence::default();
        let names = ["two_services_separate_binaries", "two_services_dynlib_one_process"];
        for (name, bytes) in names.into_iter().zip([3e5, 4e5]) {
            let key = Key::new(Study::Motorola, name, 0, Place::None, Quantity::PssBytes);
            measured.insert(key, Series(vec![bytes; 5]));
        }
        run.studies[0].figures = figures(&measured, Study::Motorola);
        let run = Run::parse(&run.to_json()).unwrap();
        assert_eq!(run.studies[0].figures.len(), 2);
        let claims = claims::judge_all(&evidence(&run), &[Study::Motorola]);
        let memory = claims.iter().find(|judged| judged.id == "T15").unwrap();
        assert_eq!(memory.verdict, Verdict::Refuted, "{memory:?}");
    }

    #[test]
    fn only_corrected_verdicts_of_the_stored_run_change() {
        let (stored, mut run) = (run(), run());
        let count = judge_again(&mut run);
        let verdicts = |run: &Run| -> Vec<Judged> {
            run.studies.iter().flat_map(|study| study.verdicts.clone()).collect()
        };
        let mut changes = Vec::new();
        for (before, now) in verdicts(&stored).iter().zip(&verdicts(&run)) {
            if before != now {
                changes.push(format!("{} {} to {}", now.id, before.verdict, now.verdict));
                assert!(now.evidence.ends_with(&format!("; stored as {}", before.verdict)));
            }
        }
        assert_eq!(changes, CHANGES);
        assert_eq!(changes.len(), count);
        assert_eq!(judge_again(&mut run), 0, "a second time changes nothing");
    }

    /// All by the rule that one of many has to fail more surely than one alone, and T07, W09 and
    /// S02 by statistics that noise does not drive over their bounds.
    const CHANGES: [&str; 9] = [
        "T06 REFUTED to INCONCLUSIVE",
        "T07 REFUTED to INCONCLUSIVE",
        "E01 REFUTED to INCONCLUSIVE",
        "E21 REFUTED to INCONCLUSIVE",
        "E25 REFUTED to INCONCLUSIVE",
        "W09 REFUTED to INCONCLUSIVE",
        "V05 REFUTED to INCONCLUSIVE",
        "S02 REFUTED to INCONCLUSIVE",
        "S04 REFUTED to INCONCLUSIVE",
    ];
}
