//! The studies' tables with this machine's figures beside the printed ones.
//!
//! A function of measured cells.
//! **Invariants:** a printed figure that was not measured stands there with the reason. What a
//! paper shows in pictures only follows as a table without its column.

use crate::Study;
use crate::collect;
use crate::cpu_layout::StudyPlacement;
use crate::evidence::Load;
use crate::published::{self, PaperRow, Placement};
use crate::run::{Cell, Kind, StudyFacts, StudyRow, StudyTable};
use crate::stats;

/// All tables of `study`. `extra` gives figures that are no cells (timers, memory), by row.
pub(crate) fn tables(
    study: Study,
    cells: &[Cell],
    layout: &StudyPlacement,
    extra: &dyn Fn(&PaperRow) -> Option<StudyRow>,
) -> Vec<StudyTable> {
    let of_study: Vec<(&Cell, &StudyFacts)> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.study.as_ref()?)))
        .filter(|(_, facts)| facts.study == study.name())
        .collect();
    let mut used = vec![false; of_study.len()];
    let mut tables: Vec<StudyTable> = Vec::new();
    for row in published::rows(study) {
        let Some(statistic) = Statistic::of(row) else { continue };
        let found = of_study.iter().position(|(cell, facts)| {
            statistic != Statistic::Other
                && facts.mechanism == row.mechanism
                && matches(cell, row, statistic, layout)
        });
        let figure = match found {
            Some(index) => {
                used[index] = true;
                let (cell, facts) = of_study[index];
                let mut figure = statistic.figure(cell, facts);
                if statistic == Statistic::SizeByMin {
                    figure.here_as_paper = size_by_min(&of_study, row);
                }
                Some(figure)
            }
            None => extra(row),
        };
        let (words, unit) = statistic.words(row);
        let at = tables.iter().position(|table| {
            table.table == row.table && table.statistic == words && table.unit == unit
        });
        let at = at.unwrap_or_else(|| {
            let (table, statistic) = (row.table.clone(), words.clone());
            tables.push(StudyTable { table, statistic, unit: unit.to_owned(), rows: Vec::new() });
            tables.len() - 1
        });
        tables[at].rows.push(printed(row, figure, layout));
    }
    tables.extend(pictures(&of_study, &used));
    tables
}

/// The size divided by the shortest round trip, as a paper tabulates throughput.
fn size_by_min(cells: &[(&Cell, &StudyFacts)], row: &PaperRow) -> Option<f64> {
    let (_, facts) = cells.iter().find(|(cell, facts)| {
        let same =
            facts.mechanism == row.mechanism && Some(cell.message_bytes) == row.message_bytes;
        same && cell.kind == Kind::Latency && cell.placement.class == "unpinned"
    })?;
    let shortest_ns = stats::median(&facts.launch_clock_mins_ns)?;
    Some(row.message_bytes? as f64 * 1e9 / shortest_ns)
}

/// How a paper states a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    /// The mean of all round trips.
    Mean,
    /// The shortest of all, by the counter of the processor.
    MinByCounter,
    /// The shortest of all, by the kernel's clock.
    MinByClock,
    /// The size divided by the shortest round trip.
    SizeByMin,
    /// Nothing that cells tell.
    Other,
}

impl Statistic {
    /// `None` for rows that are no figures: settings, axes, thresholds that claims are about.
    fn of(row: &PaperRow) -> Option<Self> {
        match row.metric.as_str() {
            "round_trip_mean" | "ping_pong_latency" => Some(Self::Mean),
            "round_trip_min_of_100:rdtsc" => Some(Self::MinByCounter),
            "round_trip_min_of_100:clock_gettime" => Some(Self::MinByClock),
            "throughput" => Some(Self::SizeByMin),
            metric if metric.starts_with("timer_") => Some(Self::Other),
            "free_memory_delta" | "payload_copies_one_way" | "claimed_max_disagreement" => {
                Some(Self::Other)
            }
            _ => None,
        }
    }

    fn words(self, row: &PaperRow) -> (String, &'static str) {
        let (words, unit) = match self {
            Self::Mean => ("round trip, mean", "ns"),
            Self::MinByCounter => ("round trip, shortest of 100 by the TSC", "ns"),
            Self::MinByClock => ("round trip, shortest of 100 by clock_gettime", "ns"),
            Self::SizeByMin => ("size by shortest round trip; ours: streamed", "bytes/s"),
            Self::Other => {
                let unit = match row.unit.as_str() {
                    "us" | "ns" => "ns",
                    "KB" | "bytes" => "bytes",
                    "percent" => "percent",
                    _ => "count",
                };
                return (row.metric.replace('_', " "), unit);
            }
        };
        (words.to_owned(), unit)
    }

    /// What this machine says of a figure.
    fn figure(self, cell: &Cell, facts: &StudyFacts) -> StudyRow {
        let mut figure = StudyRow { grade: cell.grade, ..StudyRow::default() };
        if let Some(rtt) = &cell.rtt_ns {
            (figure.here, figure.here_ci95) = (rtt.p50, rtt.p50_ci95);
        }
        figure.here_as_paper = match self {
            // One exchange of a batch is no longer than a reading of the clock.
            Self::Mean if facts.launch_means_ns.is_empty() => figure.here,
            Self::Mean => stats::median(&facts.launch_means_ns),
            Self::MinByCounter => stats::median(&facts.launch_mins_ns),
            Self::MinByClock => stats::median(&facts.launch_clock_mins_ns),
            Self::SizeByMin | Self::Other => None,
        };
        if self == Self::SizeByMin {
            (figure.here, figure.here_ci95) = (cell.bytes_per_s, cell.bytes_per_s_ci95);
        }
        figure
    }
}

/// Whether `cell` is what repeats `row`.
fn matches(cell: &Cell, row: &PaperRow, statistic: Statistic, layout: &StudyPlacement) -> bool {
    let kind = match statistic {
        Statistic::SizeByMin => Kind::Throughput,
        _ => Kind::Latency,
    };
    // Tables of calls by reference have no size; latency tables of Enea do not say theirs.
    let same_size = row.message_bytes.is_none_or(|bytes| bytes == cell.message_bytes);
    let same_load = collect::load_of(cell) == Some(row.load);
    cell.kind == kind && same_load && same_size && is_at(cell, row.placement, layout)
}

fn is_at(cell: &Cell, placement: Placement, layout: &StudyPlacement) -> bool {
    let class = cell.placement.class.as_str();
    let pair = |client: u16, server: u16| {
        let of = |cpu: u16| layout.cpus().get(usize::from(cpu)).copied().flatten().map(u32::from);
        let here = (cell.placement.client_cpu, cell.placement.server_cpu);
        of(client).is_some() && here == (of(client), of(server))
    };
    match placement {
        Placement::PinnedOneCpu => class == "same_cpu",
        Placement::SameCpu(client, server)
        | Placement::SmtSibling(client, server)
        | Placement::CrossCore(Some((client, server))) => pair(client, server),
        Placement::CrossCore(None) | Placement::Pinned => {
            class != "unpinned" && class != "same_cpu"
        }
        Placement::NotStated
        | Placement::NotApplicable
        | Placement::SameProcess
        | Placement::System => class == "unpinned",
    }
}

fn printed(row: &PaperRow, figure: Option<StudyRow>, layout: &StudyPlacement) -> StudyRow {
    let paper = row.value_base();
    let figure = figure.unwrap_or_else(|| {
        let note = if paper.is_none() { "not printed" } else { missing(row, layout) };
        StudyRow { note: Some(note.to_owned()), ..StudyRow::default() }
    });
    let load = match row.load {
        Load::Idle => "",
        Load::Stress => "stress",
        Load::Duty35 => "35%",
    };
    StudyRow {
        mechanism: row.mechanism.clone(),
        placement: placement_words(row.placement),
        load: load.to_owned(),
        message_bytes: row.message_bytes,
        paper,
        ratio: figure.here_as_paper.zip(paper).map(|(here, paper)| here / paper),
        ..figure
    }
}

/// Why a printed figure has none of ours beside it.
fn missing(row: &PaperRow, layout: &StudyPlacement) -> &'static str {
    let has = |cpu: u16| layout.cpus().get(usize::from(cpu)).copied().flatten().is_some();
    match row.placement {
        Placement::SmtSibling(..) if layout.first_sibling.is_none() => "no SMT here",
        Placement::SameCpu(client, server) | Placement::CrossCore(Some((client, server)))
            if !has(client) || !has(server) =>
        {
            "no such CPU here"
        }
        _ => "not measured",
    }
}

fn placement_words(placement: Placement) -> String {
    match placement {
        Placement::NotStated | Placement::NotApplicable | Placement::System => String::new(),
        Placement::SameProcess => "one process".to_owned(),
        Placement::Pinned => "pinned".to_owned(),
        Placement::PinnedOneCpu => "one CPU".to_owned(),
        Placement::SameCpu(client, server) => format!("{client}-{server} same CPU"),
        Placement::SmtSibling(client, server) => format!("{client}-{server} one core"),
        Placement::CrossCore(Some((client, server))) => format!("{client}-{server} two cores"),
        Placement::CrossCore(None) => "two cores".to_owned(),
    }
}

/// Cells that no printed figure stands for, as tables by kind, placement and load.
fn pictures(cells: &[(&Cell, &StudyFacts)], used: &[bool]) -> Vec<StudyTable> {
    let mut tables: Vec<StudyTable> = Vec::new();
    let unused = cells.iter().zip(used).filter(|(_, used)| !**used).map(|(cell, _)| cell);
    for (cell, facts) in unused {
        let (statistic, unit) = match (cell.kind, cell.shape.as_str()) {
            (Kind::Throughput, _) => ("throughput", "bytes/s"),
            (Kind::Latency, "echo") => ("round trip, mean; echo", "ns"),
            (Kind::Latency, _) => ("round trip, mean", "ns"),
        };
        let at = tables.iter().position(|table| table.statistic == statistic);
        let at = at.unwrap_or_else(|| {
            let (table, rows) = ("pictures".to_owned(), Vec::new());
            let (statistic, unit) = (statistic.to_owned(), unit.to_owned());
            tables.push(StudyTable { table, statistic, unit, rows });
            tables.len() - 1
        });
        let mut figure = Statistic::Mean.figure(cell, facts);
        if cell.kind == Kind::Throughput {
            (figure.here, figure.here_ci95) = (cell.bytes_per_s, cell.bytes_per_s_ci95);
            figure.here_as_paper = figure.here;
        }
        tables[at].rows.push(StudyRow {
            mechanism: facts.mechanism.clone(),
            placement: measured_words(cell),
            load: if cell.load == "idle" { String::new() } else { cell.load.clone() },
            message_bytes: Some(cell.message_bytes),
            ..figure
        });
    }
    tables
}

fn measured_words(cell: &Cell) -> String {
    let placement = &cell.placement;
    match (placement.class.as_str(), placement.client_cpu, placement.server_cpu) {
        ("unpinned", ..) => "not pinned".to_owned(),
        ("same_cpu", ..) => "one CPU".to_owned(),
        ("smt", ..) => "one core".to_owned(),
        (_, Some(client), Some(server)) => format!("CPUs {client}-{server}"),
        (class, ..) => class.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RttNs;

    fn cell(mechanism: &str, bytes: u64, cpus: Option<[u32; 2]>) -> Cell {
        let mut cell = Cell::new(Kind::Latency, "study-pipe", bytes);
        cell.placement.class = if cpus.is_some() { "same_llc" } else { "unpinned" }.to_owned();
        cell.placement.client_cpu = cpus.map(|cpus| cpus[0]);
        cell.placement.server_cpu = cpus.map(|cpus| cpus[1]);
        cell.rtt_ns = Some(RttNs { p50: Some(5_000.0), ..RttNs::default() });
        cell.study = Some(StudyFacts {
            study: "enea".to_owned(),
            mechanism: mechanism.to_owned(),
            launch_means_ns: vec![6_000.0, 8_000.0, 7_000.0],
            ..StudyFacts::default()
        });
        cell
    }

    #[test]
    fn a_pair_of_the_paper_stands_beside_ours_of_the_same_part() {
        let layout =
            StudyPlacement { first: Some(4), second: Some(6), ..StudyPlacement::default() };
        let cells = [cell("pipe", 128, Some([4, 6])), cell("pipe", 4096, None)];
        let tables = tables(Study::Enea, &cells, &layout, &|_| None);
        let first = &tables[0];
        assert_eq!((first.table.as_str(), first.unit.as_str()), ("table1", "ns"));
        let with = |placement: &str| {
            let mut rows = first.rows.iter().filter(|row| row.mechanism == "pipe");
            rows.find(|row| row.placement == placement).unwrap()
        };
        let row = with("0-2 two cores");
        assert_eq!((row.paper, row.here_as_paper), (Some(13_000.0), Some(7_000.0)));
        assert_eq!((row.here, row.ratio), (Some(5_000.0), Some(7.0 / 13.0)));
        let row = with("0-1 one core");
        assert_eq!(row.note.as_deref(), Some("no SMT here"));
        assert_eq!(with("2-0 two cores").note.as_deref(), Some("not measured"));
        let last = tables.last().unwrap();
        assert_eq!((last.table.as_str(), last.rows.len()), ("pictures", 1));
        assert_eq!(last.rows[0].paper, None);
    }

    #[test]
    fn every_table_of_every_study_is_there() {
        let names = |study| -> Vec<String> {
            let tables = tables(study, &[], &StudyPlacement::default(), &|_| None);
            tables.into_iter().map(|table| table.table).collect()
        };
        let motorola = names(Study::Motorola);
        for number in 1..=8 {
            assert!(motorola.contains(&format!("table{number}")), "{number}");
        }
        assert_eq!(names(Study::Enea), ["table1", "table2"]);
        assert!(names(Study::WisconsinLatency).contains(&"table3".to_owned()));
        assert!(names(Study::WisconsinEvaluation).contains(&"table2".to_owned()));
    }
}
