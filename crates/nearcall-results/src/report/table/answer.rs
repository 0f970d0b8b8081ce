//! The sentence at the end of a result: which of those that were compared is best, and how certain
//! that is.
//!
//! **Invariants:** only cells of one exchange are compared; where intervals overlap, the sentence
//! says that the two cannot be told apart. What disturbs a median shows in its interval.
//!
//! **Not here:** answers that are no comparison of cells; they stand beside their tables.

use super::cells::place;
use super::grid::clean;
use crate::report::columns::spread;
use crate::report::number::{self, Measured};
use crate::run::fact::{self, Better, Fact};
use crate::run::{Cell, Kind, Run};
use crate::stats;

/// One of those that are compared.
pub(super) struct Candidate {
    /// Its name for a reader.
    pub(super) name: String,
    /// What it takes, or its rate.
    pub(super) value: f64,
    pub(super) ci95: Option<[f64; 2]>,
}

impl Candidate {
    /// A figure of a cell. `None` if it is no number, or says nothing.
    pub(super) fn of(cell: &Cell, fact: &Fact) -> Option<Self> {
        let Measured { value, ci95 } = fact.valid(cell)?;
        let name = name(&cell.mechanism, &cell.wait);
        value.is_finite().then_some(Self { name, value, ci95 })
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        self.ci95.zip(other.ci95).is_some_and(|(a, b)| !stats::agree(a, b))
    }
}

/// `shm (adaptive)`.
pub(super) fn name(mechanism: &str, wait: &str) -> String {
    let mechanism = clean(mechanism);
    if wait.is_empty() { mechanism } else { format!("{mechanism} ({})", clean(wait)) }
}

/// `QUESTION: the best, its figure and interval; what comes next.` Empty without candidates.
pub(super) fn sentence(question: &str, mut all: Vec<Candidate>, fact: &Fact) -> String {
    all.sort_by(|a, b| match fact.better {
        Better::Less => a.value.total_cmp(&b.value),
        Better::More => b.value.total_cmp(&a.value),
    });
    let Some((best, others)) = all.split_first() else { return String::new() };
    let figure = |one: &Candidate| format!("{}, {}", one.name, fact.unit.value(one.value));
    let mut text = format!("{question}: {}", figure(best));
    if best.ci95.is_some() {
        text += &format!(" ± {}", spread(Some(best.value), best.ci95));
    }
    let close = others.iter().filter(|one| !one.is_apart_from(best)).count();
    match others.iter().find(|one| !one.is_apart_from(best)).or(others.first()) {
        Some(other) if close == 1 => {
            text += &format!("; it cannot be told apart from {}", figure(other));
        }
        Some(other) if close > 1 => {
            let other = figure(other);
            text += &format!("; it cannot be told apart from {close} others, such as {other}");
        }
        Some(next) => text += &format!("; next is {}", figure(next)),
        None => {}
    }
    text + "."
}

/// What was fastest for the smallest message, awake and asleep, and for the largest.
pub(super) fn of_cells(run: &Run) -> String {
    let Some(first) = run.cells.first() else { return String::new() };
    let like = |cell: &&Cell| cell.placement == first.placement && cell.load == first.load;
    let alike: Vec<&Cell> = run.cells.iter().filter(like).collect();
    let latencies: Vec<&Cell> =
        alike.iter().copied().filter(|cell| cell.kind == Kind::Latency).collect();
    let rates: Vec<&Cell> =
        alike.iter().copied().filter(|cell| cell.kind == Kind::Throughput).collect();
    let mut parts = Vec::new();
    if alike.len() < run.cells.len() {
        parts.push(format!("{}; load: {}.", place(&first.placement), clean(&first.load)));
    }
    if let Some(small) = latencies.iter().min_by_key(|cell| cell.message_bytes) {
        parts.extend(both_ways("Fastest", &latencies, small));
    }
    if let Some(large) = latencies.iter().max_by_key(|cell| cell.message_bytes)
        && latencies.iter().any(|cell| cell.message_bytes < large.message_bytes)
    {
        let question = format!("Fastest for {}", exchange(large));
        parts.push(sentence(&question, medians(&latencies, large), &fact::P50));
    }
    if let Some(large) = rates.iter().max_by_key(|cell| cell.message_bytes) {
        let of_size = rates.iter().filter(|cell| cell.message_bytes == large.message_bytes);
        let question = format!("Highest rate one way, {}", number::size(large.message_bytes));
        let all = of_size.filter_map(|cell| Candidate::of(cell, &fact::BYTES)).collect();
        parts.push(sentence(&question, all, &fact::BYTES));
    }
    join(parts)
}

/// The best of the cells like `one`: while ends stay awake, and where they sleep.
pub(super) fn both_ways(question: &str, cells: &[&Cell], one: &Cell) -> [String; 2] {
    [(true, "while both ends stay awake"), (false, "where they sleep")].map(|(awake, words)| {
        let of_way: Vec<&Cell> =
            cells.iter().copied().filter(|cell| is_awake(&cell.wait) == awake).collect();
        let question = format!("{question} for {}, {words}", exchange(one));
        sentence(&question, medians(&of_way, one), &fact::P50)
    })
}

/// Medians of the exchange that `one` is of.
fn medians(cells: &[&Cell], one: &Cell) -> Vec<Candidate> {
    let same = |cell: &&&Cell| {
        cell.message_bytes == one.message_bytes
            && cell.shape == one.shape
            && cell.definition == one.definition
    };
    cells.iter().filter(same).filter_map(|cell| Candidate::of(cell, &fact::P50)).collect()
}

/// `an echo of 8 B`.
fn exchange(cell: &Cell) -> String {
    let size = number::size(cell.message_bytes);
    match (cell.shape.as_str(), cell.message_bytes) {
        ("echo", _) => format!("an echo of {size}"),
        ("sink", _) => format!("{size} with an empty reply"),
        ("call", 0) => "an empty call".to_owned(),
        ("call", _) => format!("a call with {size}"),
        (shape, _) => format!("{} of {size}", clean(shape)),
    }
}

/// Whether no end sleeps while messages come at once.
pub(super) fn is_awake(wait: &str) -> bool {
    wait.split('/').all(|end| matches!(end, "spin" | "adaptive"))
}

/// The sentences that say something, in one paragraph.
pub(super) fn join(parts: Vec<String>) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, value: f64, half: f64) -> Candidate {
        let ci95 = Some([value - half, value + half]);
        Candidate { name: name.to_owned(), value, ci95 }
    }

    fn fastest(all: Vec<Candidate>) -> String {
        sentence("Fastest", all, &fact::P50)
    }

    #[test]
    fn the_next_is_named_where_the_best_is_certain() {
        let all = vec![candidate("b", 200.0, 5.0), candidate("a", 100.0, 2.0)];
        assert_eq!(fastest(all), "Fastest: a, 100 ns ± 2.0 %; next is b, 200 ns.");
    }

    #[test]
    fn intervals_that_overlap_decide_nothing() {
        let all = vec![
            candidate("a", 100.0, 60.0),
            candidate("b", 120.0, 10.0),
            candidate("c", 121.0, 10.0),
        ];
        let found = fastest(all);
        assert!(
            found.ends_with("; it cannot be told apart from 2 others, such as b, 120 ns."),
            "{found}"
        );
    }

    #[test]
    fn without_an_interval_nothing_is_certain() {
        let bare = |name: &str, value| Candidate { name: name.to_owned(), value, ci95: None };
        let found = fastest(vec![bare("a", 1.0), bare("b", 900.0)]);
        assert_eq!(found, "Fastest: a, 1.00 ns; it cannot be told apart from b, 900 ns.");
    }
}
