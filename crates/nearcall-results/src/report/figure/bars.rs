//! The smallest exchange of every mechanism, a row each: CPU time, tails, and calls beside the bare
//! channel.

use crate::report::chart::Frame;
use crate::report::chart::axis::{Axis, drawable};
use crate::report::chart::mark::Look;
use crate::report::chart::rows::{Dot, Row, Rows, extent};
use crate::report::columns::{self, Column};
use crate::report::hosts::{Entry, Host};
use crate::report::number::{self, Unit};
use crate::run::Cell;
use crate::run::fact::{self, Fact};

use super::group::{Group, family, is_disturbed, key, smallest_exchange};
use super::{Figure, words};

/// What is drawn of each row.
pub(super) struct Bars {
    id: &'static str,
    /// Followed by what was exchanged.
    title: &'static str,
    axis: &'static str,
    /// The coloured mark, by which rows are sorted.
    fact: &'static Fact,
    /// The grey mark, and what it is.
    second: Option<(&'static Fact, &'static str)>,
    /// What stands at the right of the row.
    text: Column<Cell>,
    statistic: &'static str,
    columns: &'static [Column<Cell>],
}

impl Bars {
    pub(super) fn figure(&self, host: &Host<'_>) -> Option<Figure> {
        let value = |entry: &Entry<'_>| {
            let found = self.fact.valid(entry.cell)?;
            let other = self.second.map(|(fact, _)| fact.valid(entry.cell));
            let whole = other.is_none_or(|other| other.is_some_and(|one| drawable(one.value)));
            (drawable(found.value) && whole).then_some(found.value)
        };
        let mut group = smallest_exchange(host, |entry| value(entry).is_some())?;
        let worth = |entry: &Entry<'_>| value(entry).unwrap_or(f64::INFINITY);
        group.entries.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
        let rows: Vec<Row> =
            group.entries.iter().filter_map(|entry| self.row(&group, entry)).collect();
        let axis = Axis::log(Unit::Time, self.axis, extent(&rows))?;
        let mut legend = key(group.entries.iter().copied());
        legend.extend(self.second.map(|(_, name)| (Look::Other, false, name.to_owned())));
        let desc = describe(&rows, &group);
        let chart = Rows { axis, rows, key: legend };
        let size = number::size(group.sizes().first().copied().unwrap_or_default());
        let title = format!("{}, {size}{}", self.title, group.unusual());
        Some(Figure {
            svg: chart.draw(&Frame { id: self.id, title: &title, desc: &desc }),
            id: self.id.to_owned(),
            title,
            caption: words::caption(self.statistic, &group),
            table: columns::table(self.columns, group.entries.iter().map(|entry| entry.cell)),
            notes: words::disturbed(&group).into_iter().collect(),
        })
    }

    fn row(&self, group: &Group<'_>, entry: &Entry<'_>) -> Option<Row> {
        let found = self.fact.valid(entry.cell)?;
        let look = Look::Series(family(&entry.key));
        let label = words::label(self.fact.unit, found.value, found.ci95, entry);
        let hollow = is_disturbed(entry);
        let mut dots = vec![Dot { value: found.value, interval: found.ci95, look, hollow, label }];
        if let Some((fact, name)) = self.second {
            let value = fact.valid(entry.cell)?.value;
            let label = format!("{name}: {}", fact.unit.value(value));
            let look = Look::Other;
            dots.push(Dot { value, interval: None, look, hollow: false, label });
        }
        Some(Row { name: group.name(entry), look, dots, text: self.text.text(entry.cell) })
    }
}

/// Which is best and which worst, of those that are not disturbed.
fn describe(rows: &[Row], group: &Group<'_>) -> String {
    let mut sound = rows.iter().filter(|row| !row.dots[0].hollow);
    let words = |row: &Row| format!("{} with {}", row.name, Unit::Time.value(row.dots[0].value));
    match (sound.next(), sound.next_back()) {
        (Some(first), Some(last)) => format!(
            "{} mechanisms on a logarithmic axis of time, sorted. Least: {}; most: {}.",
            group.entries.len(),
            words(first),
            words(last)
        ),
        (Some(only), None) => format!("{}.", words(only)),
        _ => "Nothing that is undisturbed.".to_owned(),
    }
}

/// The figures of this kind.
pub(super) const ALL: [Bars; 3] = [
    Bars {
        id: "cpu",
        title: "CPU time of both ends per message",
        axis: "CPU time of both ends, logarithmic",
        fact: &fact::CPU,
        second: Some((&fact::P50, "median of the time")),
        text: columns::CPU,
        statistic: "User and system time of client and server, divided by the round trips: a \
            mean, of which disturbances are a part.",
        columns: &[
            NAME,
            WAIT,
            Column::fact(&fact::CPU_CLIENT).named("CPU time, client"),
            Column::fact(&fact::CPU_SERVER).named("CPU time, server"),
            columns::CPU.named("CPU time, both"),
            columns::MEDIAN,
            columns::GRADE,
            columns::LAUNCHES,
        ],
    },
    Bars {
        id: "p99",
        title: "Slow exchanges: the 99th percentile",
        axis: "99th percentile of the round trip, logarithmic",
        fact: &fact::P99,
        second: Some((&fact::P50, "median")),
        text: columns::P99,
        statistic: "The time that 99 % of all round trips of all launches took at most.",
        columns: &[
            NAME,
            WAIT,
            columns::P99,
            Column::fact(&fact::P999),
            columns::MEDIAN,
            columns::INTERVAL,
            columns::GRADE,
            columns::LAUNCHES,
        ],
    },
    Bars {
        id: "bare",
        title: "Calls beside the bare channel",
        axis: "round trip, median, logarithmic",
        fact: &fact::PER_MESSAGE,
        second: Some((&fact::BARE, "the same bytes without calls")),
        text: Column::fact(&fact::TO_BARE),
        statistic: "Each call beside the same bytes through the same channel, in the same \
            processes; at the right the ratio within a launch.",
        columns: &[
            NAME,
            WAIT,
            Column::fact(&fact::PER_MESSAGE),
            columns::INTERVAL,
            Column::fact(&fact::BARE),
            Column::fact(&fact::TO_BARE),
            columns::GRADE,
            columns::LAUNCHES,
        ],
    },
];

const NAME: Column<Cell> = columns::NAME.named("mechanism");
const WAIT: Column<Cell> = columns::WAIT.named("waits by");
