//! What the first screen answers: figure and advice are of one exchange, and noise is called noise.

use std::path::Path;

use nearcall_channel::Mechanism;
use nearcall_results::noise::Grade;
use nearcall_results::report::hosts::hosts;
use nearcall_results::report::markdown::markdown;
use nearcall_results::report::page::{Advised, PageFacts, page, summary};
use nearcall_results::run::{Cell, RttNs, Run};

use crate::page_reader::{Tag, tags};
use crate::table::{empty, latency};

fn page_tags(runs: &[Run]) -> Vec<Tag> {
    tags(&page(&hosts(runs).unwrap(), &PageFacts::default()))
}

/// The answer to the first question in one line.
fn first(cells: Vec<Cell>) -> String {
    let runs = [Run { cells, ..empty() }];
    let summary = summary(&hosts(&runs).unwrap()[0], 0, 1);
    let (answer, found) = (&summary.answers[0], summary.answers[0].found.as_ref().unwrap());
    let Advised::Use { address, .. } = &answer.advice else { panic!("{answer:?}") };
    let (figure, name, what) = (found.figure(), &found.mechanism, &found.what);
    let (trust, next) = (found.trust(), found.next());
    format!("**{figure}** over {name} ({trust}; {what}). {next} Use `{address}`")
}

#[test]
fn a_disturbed_median_counts_by_its_interval() {
    let mut cell = latency("pipe", 8, "block", 900.0, None);
    cell.grade = Some(Grade::D);
    let line = first(vec![cell, latency("tcp", 8, "block", 9_000.0, None)]);
    assert!(line.contains("over pipe") && line.contains("via=pipe"), "{line}");
    assert!(line.contains("tails: grade D"), "{line}");
}

#[test]
fn figure_and_advice_are_of_one_mechanism_that_is_for_use() {
    let line = first(vec![
        latency("shm-condvar", 8, "block", 5_000.0, None),
        latency("shm-futex", 8, "block", 5_100.0, None),
        latency("tcp", 8, "block", 6_000.0, None),
        latency("unix-stream", 8, "block", 6_100.0, None),
    ]);
    assert!(!line.contains("shm-condvar") && !line.contains("shm-futex"), "{line}");
    let advised = if line.contains("via=tcp") { "over tcp" } else { "over unix-stream" };
    assert!(line.contains(advised), "{line}");
}

#[test]
fn the_figure_is_that_of_the_way_to_wait_that_is_advised() {
    let line = first(vec![
        latency("shm", 8, "spin", 1_000.0, None),
        latency("shm", 8, "adaptive", 1_010.0, None),
        latency("tcp", 8, "block", 9_000.0, None),
    ]);
    // Of equals the one that spins less is advised.
    assert!(line.contains("**1.01 µs** over shm") && line.contains("wait=adaptive"), "{line}");
}

#[test]
fn without_a_figure_there_is_no_advice() {
    let mut cell = latency("pipe", 8, "block", 900.0, None);
    cell.placement.class = "same_cpu".to_owned();
    let runs = [Run { cells: vec![cell], ..empty() }];
    let tags = page_tags(&runs);
    let uses = tags.iter().filter(|tag| tag.has_class("use") && tag.text.contains("via="));
    assert_eq!(uses.count(), 0, "both ends on one CPU are no question");
}

#[test]
fn the_advice_is_for_the_size_of_the_figure() {
    let line = first(vec![
        latency("pipe", 8, "block", 5_000.0, None),
        latency("unix-stream", 8, "block", 8_000.0, None),
        latency("pipe", 64, "block", 50_000.0, None),
        latency("unix-stream", 64, "block", 9_000.0, None),
    ]);
    assert!(line.contains("**5.00 µs** over pipe"), "{line}");
    assert!(line.contains("via=pipe"), "{line}");
}

#[test]
fn placements_and_pairs_never_meet_in_an_answer() {
    let mut threads = latency("pipe", 8, "block", 900.0, None);
    threads.placement.class = "smt".to_owned();
    let line = first(vec![
        latency("pipe", 8, "block", 1_000.0, None),
        latency("unix-stream", 8, "block", 2_000.0, None),
        threads,
    ]);
    assert!(line.contains("**1.00 µs** over pipe") && line.contains("one cache"), "{line}");
}

#[test]
fn what_cannot_be_told_apart_is_advised_as_servers_offer_it_by_default() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let runs = [Run::load(&docs.join("epyc-2cpu-tour.json")).unwrap()];
    let answers = summary(&hosts(&runs).unwrap()[0], 0, 1).answers;
    let advised: Vec<_> = answers
        .iter()
        .filter_map(|answer| match &answer.advice {
            Advised::Use { mechanism, server_must, .. } => Some((mechanism, server_must)),
            Advised::Refused(_) => None,
        })
        .collect();
    // Others measured better, by less than their launches differ.
    assert!(advised.len() >= 3, "{answers:?}");
    for (mechanism, server_must) in advised {
        let mechanism: Mechanism = mechanism.parse().unwrap();
        assert!(mechanism.offered_by_default(), "{mechanism}: {answers:?}");
        assert_eq!(*server_must, None);
    }
}

#[test]
fn what_servers_refuse_by_default_is_advised_with_what_the_server_must_do() {
    let cells = vec![
        latency("shm-spin", 8, "spin", 150.0, None),
        latency("shm", 8, "adaptive", 9_000.0, None),
    ];
    let runs = [Run { cells, ..empty() }];
    let hosts = hosts(&runs).unwrap();
    let page = page(&hosts, &PageFacts::default());
    let tags = tags(&page);
    let must = |tag: &&Tag| tag.has_class("use") && tag.text.contains("refuses the client unless");
    assert_eq!(tags.iter().filter(must).count(), 1, "{page}");
    let code = tags.iter().find(|tag| tag.name == "pre").unwrap();
    let both = "server.listen(\"thermostat?wait=spin&allow=shm-spin\")?; \
                let thermostat = ThermostatCaller::new(&Client::new(), \
                \"thermostat?via=shm-spin&wait=spin\")?;";
    assert_eq!(code.text, both);
    let short = markdown(&hosts);
    assert!(short.contains("listens at `NAME?wait=spin&allow=shm-spin`"), "{short}");
    assert!(short.contains("mechanisms(Mechanism::ShmSpin)"), "{short}");
}

fn within(name: &str, p50: f64, p50_ci95: [f64; 2]) -> Cell {
    let mut cell = latency(name, 8, "block", p50, None);
    cell.rtt_ns = Some(RttNs { p50: Some(p50), p50_ci95: Some(p50_ci95), ..RttNs::default() });
    cell
}

#[test]
fn only_what_overlaps_is_named_as_not_told_apart() {
    let mut cells = vec![
        within("pipe", 1_000.0, [950.0, 1_050.0]),
        within("tcp", 1_070.0, [1_065.0, 1_075.0]),
        within("fifo", 1_100.0, [900.0, 1_300.0]),
    ];
    let line = first(cells.clone());
    assert!(line.contains("Not told apart from fifo ("), "{line}");
    cells.pop();
    let line = first(cells);
    assert!(line.contains("Next: tcp ("), "{line}");
}

#[test]
fn an_interval_beyond_a_factor_of_two_is_a_range_and_no_figure() {
    let line = first(vec![within("pipe", 1_000.0, [400.0, 1_900.0])]);
    assert!(line.contains("**400 ns to 1.90 µs** over pipe"), "{line}");
    assert!(!line.contains("1.00 µs"), "{line}");
    let line = first(vec![within("pipe", 1_000.0, [800.0, 1_500.0])]);
    assert!(line.contains("**1.00 µs** over pipe"), "{line}");
}

#[test]
fn questions_without_an_answer_have_no_card() {
    let runs = [Run { cells: vec![within("pipe", 1_000.0, [950.0, 1_050.0])], ..empty() }];
    let tags = page_tags(&runs);
    let cards: Vec<&str> =
        tags.iter().filter(|tag| tag.has_class("question")).map(|tag| &*tag.text).collect();
    assert_eq!(
        cards,
        ["Small messages, as fast as it gets", "Small messages, when both ends sleep"]
    );
    let snippet = tags.iter().find(|tag| tag.name == "pre").unwrap();
    let address = "\"thermostat?via=pipe&wait=block\"";
    let client = format!("let thermostat = ThermostatCaller::new(&Client::new(), {address})?;");
    let server = "server.listen(\"thermostat?allow=pipe\")?;";
    assert_eq!(snippet.text, format!("{server} {client}"));
}

#[test]
fn bare_exchanges_and_calls_have_labels_of_their_own_beside_each_other() {
    let mut run = Run { cells: vec![latency("pipe", 8, "block", 9_000.0, None)], ..empty() };
    run.bare = vec![latency("pipe", 8, "block", 8_000.0, None)];
    let mut other = run.clone();
    other.machine.cpu_model = "POWER11".to_owned();
    let runs = [run, other];
    let tags = page_tags(&runs);
    let table = tags.iter().find(|tag| tag.get("id") == Some("side-by-side-rtt")).unwrap();
    let label = "pipe echo 8 B block, cores of one cache";
    assert_eq!(table.text.matches(label).count(), 2);
    assert_eq!(table.text.matches(&format!("{label} (bare)")).count(), 1, "{}", table.text);
}
