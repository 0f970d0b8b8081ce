//! A comparison of two runs: the answer, what else differs, and the cells that differ, for a
//! terminal and as Markdown, which is short enough for a comment in a review.
//!
//! **Invariants:** text from the runs is made harmless: in Markdown it can make no link, no mention
//! and no table of its own.

use super::grid::{Align, clean};
use crate::compare::summary::percent;
use crate::compare::{CellComparison, Comparison, Difference, RunFacts, Verdict, Worse};
use crate::report::columns::{self, Column, figure, shown, values};
use crate::report::document::Document;
use crate::report::lines::{Ink, Style, capital};
use crate::report::markdown::{self, escape};
use crate::report::number;
use crate::run::UNKNOWN;

/// Renders the flagged cells, with `all` every cell, and the answer. Ends with a line break.
#[must_use]
pub fn table(comparison: &Comparison, all: bool, style: Style) -> String {
    let mut out = Document::default();
    for warning in &comparison.warnings {
        out.wrap("WARNING   ", clean(warning));
    }
    if !comparison.warnings.is_empty() {
        out.blank();
    }
    print_runs(&mut out, comparison);
    print_differences(&mut out, "machine", &comparison.machine);
    print_differences(&mut out, "differs", &comparison.settings);
    out.wrap("  method    ", method(comparison));
    let shown = Verdict::ALL.into_iter().filter(|&verdict| all || verdict <= Verdict::Faster);
    for verdict in shown {
        print_verdict(&mut out, comparison, verdict);
    }
    if !all {
        print_rest(&mut out, comparison);
    }
    print_only(&mut out, "Only in the first run", &comparison.only_before, all);
    print_only(&mut out, "Only in the second run", &comparison.only_after, all);
    if let Some((answer, others)) = comparison.summary.split_first() {
        out.blank();
        for sentence in others {
            out.wrap("", clean(sentence));
        }
        out.answer(clean(answer));
    }
    out.text(style)
}

fn print_runs(out: &mut Document, comparison: &Comparison) {
    out.wrap("  before    ", run(&comparison.before));
    out.wrap("  after     ", run(&comparison.after));
    if comparison.same_machine {
        let RunFacts { cpu_model, kernel, machine_id, .. } = &comparison.after;
        let words = [known(cpu_model, "processor"), known(kernel, "kernel"), clean(machine_id)];
        out.wrap("  machine   ", format!("the same: {}", words.join(" · ")));
    } else {
        let of = |facts: &RunFacts| known(&facts.machine_id, "id");
        let words = format!("two: {} and {}", of(&comparison.before), of(&comparison.after));
        out.wrap("  machine   ", words);
    }
}

fn known(text: &str, name: &str) -> String {
    if ["", UNKNOWN].contains(&text) { format!("{name} unknown") } else { clean(text) }
}

fn run(facts: &RunFacts) -> String {
    [
        format!("nearcall {}", known(&facts.tool.version, "version")),
        known(&facts.tool.profile, "build"),
        number::date(facts.started_unix_s),
        format!("{} launches", facts.launches),
    ]
    .join(" · ")
}

fn print_differences(out: &mut Document, label: &str, differences: &[Difference]) {
    for difference in differences {
        let [before, after] = [&difference.before, &difference.after].map(|text| clean(text));
        let text = format!("{}: {before} → {after}", clean(&difference.what));
        out.wrap(&format!("  {label:<10}"), text);
    }
}

fn method(comparison: &Comparison) -> String {
    let margin = percent(comparison.rules.min_effect);
    format!(
        "ratios are after / before of the typical launch; Welch's test on logarithms of launches, \
         corrected for {} cells (Benjamini-Hochberg), decides; {margin} or more matters",
        comparison.tested()
    )
}

fn print_verdict(out: &mut Document, comparison: &Comparison, verdict: Verdict) {
    let cells: Vec<&CellComparison> =
        comparison.cells.iter().filter(|cell| cell.verdict == verdict).collect();
    if cells.is_empty() {
        return;
    }
    out.part(format!("{} ({})", capital(verdict.name()), cells.len()));
    let mut grid = columns::grid(&COLUMNS);
    for cell in cells {
        grid.row(values(&COLUMNS, cell));
        match verdict {
            Verdict::Slower => grid.paint(0, Ink::Bad),
            Verdict::Faster => grid.paint(0, Ink::Good),
            _ => {}
        }
    }
    out.grid(grid);
}

const COLUMNS: [Column<CellComparison>; 6] = [
    Column::figure("ratio", 6, |cell| figure(cell.ratio, number::ratio)),
    Column::figure("95 % interval", 13, |cell| {
        let bare = |value: f64| number::ratio(value).trim_end_matches('×').to_owned();
        shown(cell.ratio_ci95.map(|[low, high]| format!("{} to {}", bare(low), bare(high))))
    }),
    Column::figure("before", 8, |cell| number::optional(cell.before.typical, &cell.unit)),
    Column::figure("after", 8, |cell| number::optional(cell.after.typical, &cell.unit)),
    Column::figure("p", 7, |cell| {
        figure(cell.p_corrected, |p| match p {
            p if p < 0.000_1 => "<0.0001".to_owned(),
            p if p < 0.01 => format!("{p:.4}"),
            p => format!("{p:.2}"),
        })
    }),
    Column::words("cell", 0, words).aligned(Align::Text),
];

/// Renders the answer and the flagged cells as Markdown; with `all` every cell. Ends with a line
/// break.
#[must_use]
pub fn markdown(comparison: &Comparison, all: bool) -> String {
    let mut lines = vec!["### nearcall compare\n".to_owned()];
    let warnings = comparison.warnings.iter();
    lines.extend(warnings.map(|warning| format!("> **Warning:** {}\n", escape(warning))));
    for (index, sentence) in comparison.summary.iter().enumerate() {
        let mark = if index == 0 { "**" } else { "" };
        lines.push(format!("{mark}{}{mark}\n", escape(sentence)));
    }
    let cells = || comparison.cells.iter().filter(|cell| all || cell.verdict <= Verdict::Faster);
    let most = if all { usize::MAX } else { MARKDOWN_ROWS_MAX };
    if cells().next().is_some() {
        let verdict =
            Column::words("verdict", 0, |cell: &CellComparison| cell.verdict.name().to_owned());
        let [figures @ .., name] = COLUMNS;
        let columns: Vec<_> = [verdict, name].into_iter().chain(figures).collect();
        lines.push(markdown::table(&columns::table(&columns, cells().take(most))));
    }
    let left_out = cells().count().saturating_sub(most);
    if left_out > 0 {
        lines.push(format!("and {left_out} more.\n"));
    }
    for Difference { what, before, after } in comparison.machine.iter().chain(&comparison.settings)
    {
        let [what, before, after] = [what, before, after].map(|text| escape(text));
        lines.push(format!("- {what}: {before} → {after}"));
    }
    lines.join("\n") + "\n"
}

/// The cell's name with what else must be said of it.
fn words(cell: &CellComparison) -> String {
    let mut words = clean(&cell.name);
    if cell.worse == Worse::Lower && cell.verdict <= Verdict::Faster {
        words.push_str(" (a rate: less is slower)");
    }
    if let Some(launches) = cell.launches_needed {
        words.push_str(&format!(" (needs about {launches} launches)"));
    }
    if let Some(reason) = &cell.reason {
        words.push_str(&format!(" ({})", clean(reason)));
    }
    words
}

fn print_rest(out: &mut Document, comparison: &Comparison) {
    let count = |verdict| comparison.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let rest = Verdict::ALL.into_iter().filter(|&verdict| verdict > Verdict::Faster);
    let counts: Vec<String> = rest
        .map(|verdict| (count(verdict), verdict.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    if !counts.is_empty() {
        out.blank();
        out.wrap("", format!("Not shown: {} (--all shows them).", counts.join(", ")));
    }
}

fn print_only(out: &mut Document, title: &str, keys: &[crate::run::CellKey], all: bool) {
    if keys.is_empty() {
        return;
    }
    out.part(format!("{title} ({})", keys.len()));
    let most = if all { usize::MAX } else { ONLY_MAX };
    for key in keys.iter().take(most) {
        out.line(format!("    {}", clean(&key.to_string())));
    }
    if keys.len() > most {
        out.line(format!("    and {} more (--all shows them)", keys.len() - most));
    }
}

/// Cells of one run only that are listed; more would push the answer out of sight.
const ONLY_MAX: usize = 8;

/// A comment with more rows is not read; `--all` has them.
const MARKDOWN_ROWS_MAX: usize = 40;
