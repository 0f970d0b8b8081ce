//! Which chart shows which cells, with the same values as a table and what they mean in words.
//!
//! A machine has at most six figures: latency and rate by size, CPU time and tails of the smallest
//! exchange, calls beside bare channels, and a square of times from every CPU to every other. All
//! else that was measured stands in tables.
//!
//! **Invariants:** a figure shows cells of one definition, shape, placement and load, and says
//! which; every value in it stands in its table with unit, interval and grade; the same runs give
//! the same bytes. Without evidence there is no figure. How it is drawn is in `chart.rs`, the page
//! around it in `page.rs`.

mod bars;
mod curves;
mod group;
mod matrix;
mod words;

use maud::Markup;

use super::hosts::Host;
use super::table::grid::Grid;
use crate::run::{Cell, fact};

/// One chart with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The anchor on the page; unique among the figures.
    pub id: String,
    /// One line.
    pub title: String,
    /// Which cells are drawn, how a value came about and how undisturbed they were.
    pub caption: String,
    /// One `<svg class="chart">`, 680 units wide.
    pub svg: Markup,
    /// The same values.
    pub table: Grid,
    /// What the reader should know besides.
    pub notes: Vec<String>,
}

/// The figures of one machine, the `index`th from 0, in the order in which a page shows them.
#[must_use]
pub fn figures(host: &Host<'_>, index: usize) -> Vec<Figure> {
    let curves = [&curves::LATENCY, &curves::RATE].into_iter().map(|curve| curve.figure(host));
    let bars = bars::ALL.iter().map(|bars| bars.figure(host));
    let found = curves.chain(bars).chain([matrix::figure(host)]).flatten();
    found
        .map(|figure| match index {
            0 => figure,
            index => figure.renamed(index + 1),
        })
        .collect()
}

/// The smallest round trip of every mechanism under the usual circumstances, the fastest first.
pub(super) fn smallest<'a>(host: &'a Host<'a>) -> Vec<&'a Cell> {
    let group = group::smallest_exchange(host, |entry| fact::P50.valid(entry.cell).is_some());
    let entries = group.map(|group| group.entries).unwrap_or_default();
    let mut cells: Vec<&Cell> = entries.into_iter().map(|entry| entry.cell).collect();
    let worth = |cell: &Cell| fact::P50.valid(cell).map_or(f64::INFINITY, |found| found.value);
    cells.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
    cells
}

impl Figure {
    /// The same with ids that no other machine's figure has.
    fn renamed(mut self, machine: usize) -> Self {
        let id = format!("{}-machine-{machine}", self.id);
        let old = |end: &str| format!("\"{}{end}", self.id);
        let svg = self.svg.0.replace(&old("-title"), &format!("\"{id}-title"));
        let svg = svg.replace(&old("-desc"), &format!("\"{id}-desc"));
        self.svg.0 = svg.replace(&format!(" {}-desc\"", self.id), &format!(" {id}-desc\""));
        self.id = id;
        self
    }
}
