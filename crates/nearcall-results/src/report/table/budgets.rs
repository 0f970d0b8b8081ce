//! Budgets: each figure beside its floor, what it may be, and what comes of it.
//!
//! Under a row that falls short stands what its launches gave, and nothing that was not measured.
//!
//! **Invariants:** rows that are judged by the same floor stand under one heading.

use super::cells::{place, print_legend};
use super::grid::{clean, clip};
use crate::report::columns::{self, Column, figure, spread, values};
use crate::report::document::Document;
use crate::report::lines::Ink;
use crate::report::number;
use crate::run::{Budget, Run, Verdict};

/// Adds the budgets in one table.
pub(super) fn print(out: &mut Document, run: &Run) {
    if let Some(cell) = run.cells.iter().find(|cell| cell.placement.class != SAME_CPU) {
        out.line(format!("{}.", place(&cell.placement)));
    }
    let mut grid = columns::grid(&COLUMNS);
    let mut against = "";
    for budget in run.budgets.iter().take(ROWS_MAX) {
        if budget.against != against {
            grid.heading(clean(&budget.against));
            against = &budget.against;
        }
        grid.row(values(&COLUMNS, budget));
        grid.paint(VERDICT_COLUMN, ink(budget));
        if budget.verdict == Verdict::Short && !budget.launch_values.is_empty() {
            let grade = budget.grade.map(|grade| format!("; grade {grade}")).unwrap_or_default();
            grid.note(format!("launches: {}{grade}", launches(budget)));
        }
        if budget.name == "connection-memory"
            && let Some(shared) = run.at_rest.iter().find_map(|one| one.shared_bytes_per_connection)
        {
            let shared = figure(Some(shared), number::memory);
            grid.note(format!("of it in memory that both ends map: {shared}"));
        }
    }
    out.grid(grid);
    out.blank();
    print_legend(out, LEGEND, run.cells.iter().chain(&run.floors));
}

fn limit(budget: &Budget) -> String {
    let sign = if budget.at_least { "≥" } else { "≤" };
    // Beside a ratio the sign that it is one would only take room.
    let bare = |value: f64| judged(budget, value).replace('×', "");
    match budget.goal {
        Some(goal) => format!("{sign} {} ({})", bare(budget.budget), bare(goal)),
        None => format!("{sign} {}", bare(budget.budget)),
    }
}

fn verdict(budget: &Budget) -> String {
    let word = match (budget.verdict, budget.short_by) {
        (Verdict::Goal, _) => "goal".to_owned(),
        (Verdict::Within, _) => "within".to_owned(),
        (Verdict::Short, Some(part)) if part.is_finite() && part < SHORT_MAX => {
            format!("short {:.0} %", part * 100.0)
        }
        (Verdict::Short, _) => "short".to_owned(),
        (Verdict::Unmeasured, _) => "–".to_owned(),
    };
    match budget.verdict {
        Verdict::Unmeasured => word,
        _ if budget.certain => word,
        _ => word + "?",
    }
}

fn launches(budget: &Budget) -> String {
    let shown = budget.launch_values.iter().take(LAUNCHES_SHOWN_MAX);
    let mut texts: Vec<String> = shown.map(|&value| judged(budget, value)).collect();
    if budget.launch_values.len() > LAUNCHES_SHOWN_MAX {
        texts.push("…".to_owned());
    }
    texts.join(", ")
}

/// What is judged: the ratio to the floor, or the figure itself.
fn judged(budget: &Budget, value: f64) -> String {
    match budget.floor {
        Some(_) => number::ratio(value),
        None => amount(&budget.unit, value),
    }
}

fn amount(unit: &str, value: f64) -> String {
    match unit {
        "cpu_share" => number::in_unit(value * 100.0, "percent"),
        "per_s_sleeps" => format!("{} /s", number::three_digits(value)),
        "threads" => format!("{value:.0}"),
        unit => number::in_unit(value, unit),
    }
}

fn ink(budget: &Budget) -> Ink {
    match budget.verdict {
        Verdict::Goal | Verdict::Within => Ink::Good,
        Verdict::Short => Ink::Bad,
        Verdict::Unmeasured => Ink::Plain,
    }
}

/// How many budgets are met, how certain that is, and which is furthest off.
pub(super) fn answer(run: &Run) -> String {
    let of = |verdict: &[Verdict]| -> Vec<&Budget> {
        run.budgets.iter().filter(|one| verdict.contains(&one.verdict)).collect()
    };
    let open = |budgets: &[&Budget]| match budgets.iter().filter(|one| !one.certain).count() {
        0 => String::new(),
        open => format!(" ({open} of them not for certain)"),
    };
    let (met, short) = (of(&[Verdict::Goal, Verdict::Within]), of(&[Verdict::Short]));
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    let mut text = format!(
        "{} of {} budgets {} met{}, {} {} not{}",
        met.len(),
        run.budgets.len(),
        are(met.len()),
        open(&met),
        short.len(),
        are(short.len()),
        open(&short),
    );
    let missing = of(&[Verdict::Unmeasured]).len();
    if missing > 0 {
        text += &format!(", {missing} could not be measured");
    }
    let off = |budget: &&&Budget| budget.short_by.filter(|part| part.is_finite());
    let furthest = short.iter().filter(|budget| off(budget).is_some());
    let furthest = furthest.max_by(|a, b| off(a).unwrap_or(0.0).total_cmp(&off(b).unwrap_or(0.0)));
    match furthest {
        Some(worst) => {
            let by = off(&worst).unwrap_or_default() * 100.0;
            let open = if worst.certain { "" } else { ", not for certain" };
            let by = if by < 1e15 { format!("{by:.0}") } else { number::three_digits(by) };
            format!("{text}. Furthest off: {}, by {by} %{open}.", clean(&worst.what))
        }
        None => text + ".",
    }
}

/// The class of placement of both ends on one CPU.
const SAME_CPU: &str = "same_cpu";

const COLUMNS: [Column<Budget>; 7] = [
    Column::words("", 28, |one| clip(&clean(&one.what), WHAT_COLUMNS_MAX)),
    Column::figure("value", 8, |one| figure(one.value, |value| judged(one, value))),
    Column::words("budget (goal)", 13, limit),
    Column::words("verdict", 0, verdict),
    Column::figure("± 95 %", 6, |one| spread(one.value, one.value_ci95)),
    Column::figure("measured", 8, |one| figure(one.measured, |value| amount(&one.unit, value))),
    Column::figure("floor", 7, |one| figure(one.floor_value, |value| amount(&one.unit, value))),
];

const VERDICT_COLUMN: usize = 3;

const LEGEND: &str = "value: what is judged: the median of the ratios to the floor, a ratio for \
                      each round of launches, or the figure itself; measured, floor: medians over \
                      launches, closed loop, the same run; ?: the interval includes the budget; as \
                      usual: with the default wait policy; 100 idle connections: opened by the \
                      client's process, greeted, silent; launches: the value of each round, of a \
                      row that falls short.";

/// Holds "one-way calls of 8 B, wait=spin" with room.
const WHAT_COLUMNS_MAX: usize = 44;

/// There are fewer; a file may claim more.
const ROWS_MAX: usize = 200;

/// As many as fit in a line.
const LAUNCHES_SHOWN_MAX: usize = 8;

/// Above ten times the budget a percentage says nothing.
const SHORT_MAX: f64 = 10.0;
