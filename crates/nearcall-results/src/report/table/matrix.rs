//! A run from CPU to CPU: for each mechanism a square of medians, and a line for each class.
//!
//! Always true: a row is the client's CPU, a column the server's; what was not measured is a dash.

use super::answer;
use super::cells::{CLASSES, load_achieved};
use super::grid::{Align, Grid, clean};
use super::notes::DISTURBED;
use crate::noise::Grade;
use crate::report::columns::{micros, spread};
use crate::report::lines::Writer;
use crate::report::number::{self, MISSING};
use crate::run::{Cell, Run};
use crate::stats;

/// Whether the run is one from CPU to CPU.
pub(super) fn is_of_matrix(run: &Run) -> bool {
    run.matrix.is_some() && !run.cells.is_empty()
}

/// Adds all mechanisms.
pub(super) fn print(out: &mut Writer, run: &Run) {
    let Some(matrix) = &run.matrix else { return };
    for key in keys(run) {
        let cells: Vec<&Cell> = run.cells.iter().filter(|cell| key.is_of(cell)).collect();
        key.print(out);
        if let Some(text) = load_achieved(&cells) {
            out.wrap("  ", &text);
        }
        out.blank();
        print_square(out, "µs", &matrix.cpus, |client, server| figure(&cells, client, server));
        print_classes(out, &cells);
        out.blank();
    }
    if matrix.left_out > 0 {
        let text = format!("{} of {} pairs were left out.", matrix.left_out, matrix.pairs);
        out.wrap("  ", &text);
    }
    out.note(LEGEND);
    if run.cells.iter().any(is_disturbed) {
        out.note(DISTURBED);
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// The nearest and the farthest pair of CPUs, for each exchange.
pub(super) fn answer(run: &Run) -> String {
    let keys = keys(run);
    let parts = keys.iter().take(ANSWERS_MAX).map(|key| {
        let usable = |cell: &&Cell| key.is_of(cell) && !is_disturbed(cell);
        let disturbed = run.cells.iter().filter(|one| key.is_of(one) && is_disturbed(one)).count();
        let disturbed = match disturbed {
            0 => String::new(),
            count => format!("; left out: {count} of grade D"),
        };
        let mut pairs: Vec<(f64, &Cell)> =
            run.cells.iter().filter(usable).filter_map(|cell| Some((p50(cell)?, cell))).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = answer::name(&key.mechanism, &key.wait);
        let (Some((low, nearest)), Some((high, farthest))) = (pairs.first(), pairs.last()) else {
            return format!("{name}: every pair is of grade D; measure again.");
        };
        let at = |ns: f64, cell: &Cell| format!("{} {}", number::time(ns), arrow(cell));
        match pairs.len() {
            1 => format!("{name}: {}, the only pair{disturbed}.", at(*low, nearest)),
            _ => format!(
                "{name}: from {} to {}, {} as much{disturbed}.",
                at(*low, nearest),
                at(*high, farthest),
                number::ratio(high / low)
            ),
        }
    });
    answer::join(parts.collect())
}

/// What the cells of one square have in common.
#[derive(PartialEq, Eq)]
struct Key {
    mechanism: String,
    wait: String,
    shape: String,
    message_bytes: u64,
    load: String,
}

impl Key {
    fn of(cell: &Cell) -> Self {
        Self {
            mechanism: cell.mechanism.clone(),
            wait: cell.wait.clone(),
            shape: cell.shape.clone(),
            message_bytes: cell.message_bytes,
            load: cell.load.clone(),
        }
    }

    fn is_of(&self, cell: &Cell) -> bool {
        *self == Self::of(cell)
    }

    fn print(&self, out: &mut Writer) {
        let name = format!(
            "{} {}, {} of {}; load: {}",
            clean(&self.mechanism),
            clean(&self.wait),
            clean(&self.shape),
            number::size(self.message_bytes),
            clean(&self.load),
        );
        out.title(&name);
    }
}

fn keys(run: &Run) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for cell in &run.cells {
        let key = Key::of(cell);
        if !keys.contains(&key) && keys.len() < KEYS_MAX {
            keys.push(key);
        }
    }
    keys
}

/// A square of figures, some columns at a time: a row is the client's CPU, a column the server's.
pub(super) fn print_square(
    out: &mut Writer,
    corner: &str,
    cpus: &[u32],
    figure: impl Fn(u32, u32) -> String,
) {
    if cpus.len() > CPUS_MAX {
        out.line(&format!("    {} CPUs are too many for a square.", cpus.len()));
        return;
    }
    for columns in cpus.chunks(COLUMNS) {
        let names: Vec<String> = columns.iter().map(u32::to_string).collect();
        let mut head = vec![(corner, Align::Right, 4)];
        head.extend(names.iter().map(|name| (name.as_str(), Align::Right, FIGURE_COLUMNS)));
        let mut grid = Grid::new(&head);
        for &client in cpus {
            let mut row = vec![client.to_string()];
            row.extend(columns.iter().map(|&server| figure(client, server)));
            grid.row(row);
        }
        grid.print(out);
        out.blank();
    }
}

fn figure(cells: &[&Cell], client: u32, server: u32) -> String {
    let at = (Some(client), Some(server));
    let cell =
        cells.iter().find(|cell| (cell.placement.client_cpu, cell.placement.server_cpu) == at);
    let Some(cell) = cell else { return MISSING.to_owned() };
    let mark = if is_disturbed(cell) { "D" } else { "" };
    format!("{}{mark}", micros(p50(cell)))
}

/// The middle and the ends of each class.
fn print_classes(out: &mut Writer, cells: &[&Cell]) {
    let mut grid = Grid::new(&CLASSES_HEAD);
    for (class, meaning) in CLASSES {
        let mut found: Vec<(f64, &Cell)> = cells
            .iter()
            .filter(|cell| cell.placement.class == class)
            .filter_map(|cell| Some((p50(cell)?, *cell)))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let times: Vec<f64> = found.iter().map(|(ns, _)| *ns).collect();
        let (Some((low, lowest)), Some((high, highest))) = (found.first(), found.last()) else {
            continue;
        };
        let at = |ns: f64, cell: &Cell| format!("{} {}", number::time(ns), arrow(cell));
        let widest = found.iter().filter_map(|(_, cell)| width(cell)).reduce(f64::max);
        grid.row(vec![
            meaning.to_owned(),
            found.len().to_string(),
            stats::median(&times).map_or_else(|| MISSING.to_owned(), number::time),
            at(*low, lowest),
            at(*high, highest),
            spread(Some(1.0), widest.map(|half| [1.0 - half, 1.0 + half])),
        ]);
    }
    grid.print(out);
}

/// Half the confidence interval, relative to the figure.
fn width(cell: &Cell) -> Option<f64> {
    let rtt = cell.rtt_ns.as_ref()?;
    let [low, high] = rtt.p50_ci95?;
    Some((high - low) / 2.0 / rtt.p50?)
}

fn arrow(cell: &Cell) -> String {
    let number = |cpu: Option<u32>| cpu.map_or_else(|| MISSING.to_owned(), |cpu| cpu.to_string());
    format!("({}→{})", number(cell.placement.client_cpu), number(cell.placement.server_cpu))
}

fn p50(cell: &Cell) -> Option<f64> {
    cell.rtt_ns.as_ref()?.p50
}

fn is_disturbed(cell: &Cell) -> bool {
    cell.grade == Some(Grade::D)
}

const CLASSES_HEAD: [(&str, Align, usize); 6] = [
    ("class", Align::Left, 17),
    ("pairs", Align::Right, 5),
    ("median", Align::Right, 7),
    ("lowest", Align::Right, 14),
    ("highest", Align::Right, 14),
    ("± 95 %", Align::Right, 6),
];

const LEGEND: &str = "median round trip, not halved, closed loop; row: the client's CPU, column: \
                      the server's. – was not measured: an end that spins cannot share a CPU. D: \
                      grade D. Classes: the median of their pairs, the pairs at both ends, the \
                      widest interval of a pair.";

/// Fit on a page.
const COLUMNS: usize = 10;

/// Holds "99.9D" with room.
const FIGURE_COLUMNS: usize = 6;

/// A larger square is for a program to read.
const CPUS_MAX: usize = 64;

/// More would be a table again.
const ANSWERS_MAX: usize = 4;

/// A run that anybody could have written must not fill the terminal.
const KEYS_MAX: usize = 100;
