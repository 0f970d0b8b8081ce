//! Which chart shows which cells, with the same values as a table and what they mean in words.
//!
//! Always true: a figure shows cells of one definition, shape, placement and load, and says which;
//! every value in it stands in its table with unit, interval and grade; the same runs give the
//! same bytes. Where the evidence for a figure is missing, [`Shown::Missing`] says why and which
//! command would give it. How it is drawn is in `chart.rs`, the page around it in `page.rs`.

mod choose;
mod cost;
mod curves;
mod distribution;
mod family;
mod load;
mod machines;
mod matrix;
mod overview;
mod rhythm;
mod sizes;
mod words;

use maud::{Markup, PreEscaped, html};

use super::chart::{Frame, STYLE_STAND_ALONE, Width, num, text};
use super::hosts::Host;

/// One chart with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The anchor on the page and the name of the file; unique among the figures.
    pub id: String,
    /// One line.
    pub title: String,
    /// Definition, unit, statistic, circumstances, launches, grades, dates, what bands are.
    pub about: String,
    /// One `<svg class="chart wide">`, 680 units wide. On a page that also has `narrow`, put
    /// `narrow` right before it: `chart::STYLE` shows the one that fits.
    pub svg: Markup,
    /// The same for a phone, `<svg class="chart narrow">`, 380 units wide.
    pub narrow: Markup,
    /// The same values.
    pub table: FigureTable,
    /// What the reader should know besides.
    pub notes: Vec<String>,
}

/// The values of a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FigureTable {
    /// One text per column.
    pub heads: Vec<String>,
    /// As many texts per row as there are heads.
    pub rows: Vec<Vec<String>>,
}

/// A figure, or why there is none.
#[derive(Clone, Debug)]
pub enum Shown {
    /// There is one.
    Figure(Figure),
    /// There is none.
    Missing {
        /// The anchor that the figure would have.
        id: String,
        /// The title that it would have.
        title: String,
        /// Why there is none.
        reason: String,
        /// What to run so that there is one.
        command: String,
    },
}

/// All figures of these machines, in the order in which a page shows them.
#[must_use]
pub fn figures(hosts: &[Host<'_>]) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (index, host) in hosts.iter().take(HOSTS_DRAWN_MAX).enumerate() {
        let place = Place { index, alone: hosts.len() == 1 };
        shown.extend(overview::shown(host, &place));
        shown.extend(sizes::latency(host, &place));
        shown.extend(sizes::throughput(host, &place));
        shown.push(distribution::shown(host, &place));
        shown.extend(cost::shown(host, &place));
        shown.extend(matrix::shown(host, &place));
        shown.extend(load::shown(host, &place));
        shown.extend(rhythm::gaps(host, &place));
        shown.extend(rhythm::paces(host, &place));
    }
    let first = shown.iter_mut().find_map(|one| match one {
        Shown::Figure(figure) => Some(figure),
        Shown::Missing { .. } => None,
    });
    if let (Some(first), Some(more)) = (first, hosts.len().checked_sub(HOSTS_DRAWN_MAX + 1)) {
        first.notes.push(format!("{} more machines have no figures of their own here.", more + 1));
    }
    shown.extend(machines::shown(hosts));
    shown
}

/// The figure as a file of its own: title, drawing and words, light colours, no script.
#[must_use]
pub fn stand_alone(figure: &Figure) -> String {
    let drawing = figure.svg.0.as_str();
    let height = drawing
        .split_once("viewBox=\"0 0 680 ")
        .and_then(|(_, rest)| rest.split('"').next()?.parse::<f64>().ok())
        .unwrap_or(HEIGHT_UNKNOWN);
    let about = text::wrap(&text::clean_to(&figure.about, ABOUT_CHARS_MAX), 700.0);
    let below = 44.0 + height + 22.0;
    let whole = below + about.len() as f64 * 15.0 + 6.0;
    let view_box = format!("0 0 720 {}", num(whole));
    let made = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox=(view_box) width="720"
            height=(num(whole)) {
            style { (PreEscaped(STYLE_STAND_ALONE)) }
            rect width="720" height=(num(whole)) fill="#ffffff" {}
            text class="strong" x="20" y="26" style="font-size:15px" {
                (text::fit(&text::clean_to(&figure.title, 120), 600.0))
            }
            svg x="20" y="44" width="680" height=(num(height)) { (figure.svg) }
            @for (index, line) in about.iter().enumerate() {
                text class="muted" x="20" y=(num(below + index as f64 * 15.0))
                    style="font-size:11px" { (line) }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", made.into_string())
}

/// Where a host stands among the hosts of a page.
struct Place {
    /// From 0.
    index: usize,
    /// Whether it is the only one.
    alone: bool,
}

impl Place {
    /// An id that no other host's figure has.
    fn id(&self, name: &str) -> String {
        match self.index {
            0 => name.to_owned(),
            index => format!("{name}-machine-{}", index + 1),
        }
    }

    /// A title that says which machine it is, where there are several.
    fn title(&self, title: &str, host: &Host<'_>) -> String {
        match self.alone {
            true => title.to_owned(),
            false => format!("{title}: {}", words::machine(host)),
        }
    }
}

/// Draws both widths and puts a figure together.
fn figure(parts: Parts, draw: impl Fn(&Frame<'_>, Width) -> Markup) -> Shown {
    let frame = Frame { id: &parts.id, title: &parts.title, desc: &parts.desc };
    let (svg, narrow) = (draw(&frame, Width::Wide), draw(&frame, Width::Narrow));
    let Parts { id, title, about, table, notes, .. } = parts;
    Shown::Figure(Figure { id, title, about, svg, narrow, table, notes })
}

/// A figure but for its drawing.
struct Parts {
    id: String,
    title: String,
    /// What there is to see, for those who cannot see it.
    desc: String,
    about: String,
    table: FigureTable,
    notes: Vec<String>,
}

impl FigureTable {
    fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|&head| head.to_owned()).collect(), rows: Vec::new() }
    }
}

/// A page with more machines shows the others only where machines are compared.
const HOSTS_DRAWN_MAX: usize = 4;
/// If a drawing did not say its height.
const HEIGHT_UNKNOWN: f64 = 480.0;
/// Longer than any of ours.
const ABOUT_CHARS_MAX: usize = 1_500;
