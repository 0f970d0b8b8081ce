//! A comparison of two runs: the answer, what else differs, and the cells that differ.

use super::grid::{Align, clean};
use crate::compare::{CellComparison, Comparison, Difference, RunFacts, Verdict, Worse, shown};
use crate::report::columns::{self, Column, values};
use crate::report::lines::{Ink, Style, Writer};
use crate::report::number::{self, MISSING};
use crate::run::UNKNOWN;

/// Renders the flagged cells, with `all` every cell, and the answer. Ends with a line break.
#[must_use]
pub fn table(comparison: &Comparison, all: bool, style: Style) -> String {
    let mut out = Writer::new(style);
    for warning in &comparison.warnings {
        out.wrap("WARNING   ", &clean(warning));
    }
    if !comparison.warnings.is_empty() {
        out.blank();
    }
    print_runs(&mut out, comparison);
    print_differences(&mut out, "machine", &comparison.machine);
    print_differences(&mut out, "differs", &comparison.settings);
    out.wrap("  method    ", &method(comparison));
    let told = Verdict::ALL.into_iter().filter(|&verdict| all || verdict <= Verdict::Faster);
    for verdict in told {
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
            out.wrap("", &clean(sentence));
        }
        out.answer(&clean(answer));
    }
    out.finish()
}

fn print_runs(out: &mut Writer, comparison: &Comparison) {
    out.wrap("  before    ", &run(&comparison.before));
    out.wrap("  after     ", &run(&comparison.after));
    if comparison.same_machine {
        let RunFacts { cpu_model, kernel, machine_id, .. } = &comparison.after;
        let words = [known(cpu_model, "processor"), known(kernel, "kernel"), clean(machine_id)];
        out.wrap("  machine   ", &format!("the same: {}", words.join(" · ")));
    } else {
        let of = |facts: &RunFacts| known(&facts.machine_id, "id");
        let words = format!("two: {} and {}", of(&comparison.before), of(&comparison.after));
        out.wrap("  machine   ", &words);
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

fn print_differences(out: &mut Writer, label: &str, differences: &[Difference]) {
    for difference in differences {
        let [before, after] = [&difference.before, &difference.after].map(|text| clean(text));
        let text = format!("{}: {before} → {after}", clean(&difference.what));
        out.wrap(&format!("  {label:<10}"), &text);
    }
}

fn method(comparison: &Comparison) -> String {
    let margin = shown::percent(comparison.rules.min_effect);
    format!(
        "ratios are after / before of the typical launch; Welch's test on logarithms of launches, \
         corrected for {} cells (Benjamini-Hochberg), decides; {margin} or more matters",
        comparison.tested()
    )
}

fn print_verdict(out: &mut Writer, comparison: &Comparison, verdict: Verdict) {
    let cells: Vec<&CellComparison> =
        comparison.cells.iter().filter(|cell| cell.verdict == verdict).collect();
    if cells.is_empty() {
        return;
    }
    out.blank();
    out.title(&format!("{} ({})", heading(verdict), cells.len()));
    let mut grid = columns::grid(&COLUMNS);
    for cell in cells {
        grid.row(values(&COLUMNS, cell));
        match verdict {
            Verdict::Slower => grid.paint(0, Ink::Bad),
            Verdict::Faster => grid.paint(0, Ink::Good),
            _ => {}
        }
    }
    grid.print(out);
}

fn heading(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "Slower",
        Verdict::Faster => "Faster",
        Verdict::CannotTell => "Cannot tell",
        Verdict::NoDifference => "No difference",
        Verdict::TooNoisy => "Too noisy",
        Verdict::Incomplete => "Incomplete",
    }
}

const COLUMNS: [Column<CellComparison>; 6] = [
    Column::figure("ratio", 6, |cell| told(cell.ratio, number::ratio)),
    Column::figure("95 % interval", 13, |cell| told(cell.ratio_ci95, shown::interval)),
    Column::figure("before", 8, |cell| {
        told(cell.before.typical, |value| shown::figure(&cell.unit, value))
    }),
    Column::figure("after", 8, |cell| {
        told(cell.after.typical, |value| shown::figure(&cell.unit, value))
    }),
    Column::figure("p", 7, |cell| told(cell.p_corrected, shown::p_value)),
    Column { align: Align::Text, ..Column::words("cell", 0, words) },
];

fn told<T>(value: Option<T>, format: impl Fn(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), format)
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

fn print_rest(out: &mut Writer, comparison: &Comparison) {
    let count = |verdict| comparison.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let rest = Verdict::ALL.into_iter().filter(|&verdict| verdict > Verdict::Faster);
    let told: Vec<String> = rest
        .map(|verdict| (count(verdict), verdict.words()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    if !told.is_empty() {
        out.blank();
        out.wrap("", &format!("Not shown: {} (--all shows them).", told.join(", ")));
    }
}

fn print_only(out: &mut Writer, title: &str, keys: &[crate::run::CellKey], all: bool) {
    if keys.is_empty() {
        return;
    }
    out.blank();
    out.title(&format!("{title} ({})", keys.len()));
    let most = if all { usize::MAX } else { ONLY_MAX };
    for key in keys.iter().take(most) {
        out.line(&format!("    {}", clean(&key.to_string())));
    }
    if keys.len() > most {
        out.line(&format!("    and {} more (--all shows them)", keys.len() - most));
    }
}

/// Cells of one run only are told; more than this would push the answer out of sight.
const ONLY_MAX: usize = 8;
