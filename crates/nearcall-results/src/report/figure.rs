//! Which chart shows which cells, with the same values as a table and what they mean in words.
//!
//! **Invariants:** a figure shows cells of one definition, shape, placement and load, and says
//! which; every value in it stands in its table with unit, interval and grade; the same runs give
//! the same bytes. Where the evidence for a figure is missing, [`Shown::Missing`] says why and
//! which command would give it. How it is drawn is in `chart.rs`, the page around it in `page.rs`.

mod curves;
mod distribution;
mod group;
mod libraries;
mod load;
mod overview;
mod words;

use maud::Markup;

use super::hosts::Host;
use super::table::grid::Grid;

/// One chart with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The anchor on the page and the name of the file; unique among the figures.
    pub id: String,
    /// One line.
    pub title: String,
    /// What is drawn, of how many cells and how undisturbed these were: two lines.
    pub caption: String,
    /// Definition, unit, statistic, circumstances, launches, grades, dates, what bands are.
    pub about: String,
    /// One `<svg class="chart">`, 680 units wide.
    pub svg: Markup,
    /// The same values.
    pub table: Grid,
    /// What the reader should know besides.
    pub notes: Vec<String>,
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

/// A question that figures answer, and what would give them where there are none.
struct Question {
    /// The anchor of the first figure.
    id: &'static str,
    title: &'static str,
    draw: fn(&Host<'_>, &Place) -> Vec<Figure>,
    /// Why there is no figure.
    reason: &'static str,
    command: &'static str,
}

/// All questions, in the order in which a page answers them. What the page's tables answer has no
/// figure: pairs of CPUs, machines beside each other.
const QUESTIONS: [Question; 8] = [
    Question {
        id: "overview",
        title: "One small message there and back",
        draw: overview::figures,
        reason: "no round trip of a plain message or call was measured",
        command: "nearcall bench --out run.json",
    },
    Question {
        id: "libraries",
        title: "Beside other libraries",
        draw: libraries::figures,
        reason: "no run of other libraries was given",
        command: "nearcall bench libraries --out libraries.json",
    },
    Question {
        id: "latency-echo",
        title: "Latency against size",
        draw: |host, place| curves(&curves::LATENCY, host, place),
        reason: "no circumstances of which several sizes were measured",
        command: "nearcall bench latency --size 8,512,4KiB,32KiB,256KiB --out run.json",
    },
    Question {
        id: "throughput-bytes",
        title: "Bytes per second against size",
        draw: |host, place| curves(&curves::BYTES, host, place),
        reason: "no circumstances of which several sizes were measured",
        command: "nearcall bench throughput --size 8,512,4KiB,32KiB,256KiB --out run.json",
    },
    Question {
        id: "distribution",
        title: "Whole distributions",
        draw: distribution::figures,
        reason: "no cell has a stored histogram of round trips with enough times",
        command: "nearcall bench latency --size 8 --out run.json",
    },
    Question {
        id: "cpu-latency",
        title: "CPU time beside latency",
        draw: overview::costs,
        reason: "no cell has both a median and the CPU time of both ends",
        command: "nearcall bench latency --size 8 --out run.json",
    },
    Question {
        id: "load",
        title: "Beside load and idle",
        draw: load::figures,
        reason: "nothing was measured both idle and beside load",
        command: "nearcall bench --load cpu,memory,io --out loaded.json",
    },
    Question {
        id: "pace",
        title: "Response time against rate, and latency after idle gaps",
        draw: |host, place| {
            let mut drawn = curves(&curves::PACES, host, place);
            drawn.extend(curves(&curves::GAPS, host, place));
            drawn
        },
        reason: "nothing was measured at several constant rates (open loop) or after several gaps",
        command: "nearcall bench open-loop --rate 100,1000,10000,100000 --out pace.json",
    },
];

fn curves(all: &[curves::Curve], host: &Host<'_>, place: &Place) -> Vec<Figure> {
    all.iter().flat_map(|one| one.figures(host, place)).collect()
}

impl Question {
    fn answer(&self, host: &Host<'_>, place: &Place) -> Vec<Shown> {
        let drawn = (self.draw)(host, place);
        if drawn.is_empty() {
            return vec![Shown::Missing {
                id: place.id(self.id),
                title: place.title(self.title, host),
                reason: self.reason.to_owned(),
                command: self.command.to_owned(),
            }];
        }
        drawn.into_iter().map(Shown::Figure).collect()
    }
}

/// All figures of these machines, in the order in which a page shows them.
#[must_use]
pub fn figures(hosts: &[Host<'_>]) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (index, host) in hosts.iter().take(HOSTS_DRAWN_MAX).enumerate() {
        let place = Place { index, alone: hosts.len() == 1 };
        shown.extend(QUESTIONS.iter().flat_map(|question| question.answer(host, &place)));
    }
    let first = shown.iter_mut().find_map(|one| match one {
        Shown::Figure(figure) => Some(figure),
        Shown::Missing { .. } => None,
    });
    if let (Some(first), Some(more)) = (first, hosts.len().checked_sub(HOSTS_DRAWN_MAX + 1)) {
        first.notes.push(format!("{} more machines have no figures of their own here.", more + 1));
    }
    shown
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

/// A page with more machines shows the others in its tables only.
const HOSTS_DRAWN_MAX: usize = 4;
