//! The clocks beside what two studies printed of theirs.
//!
//! One block for each question: what a reading costs, what it resolves, how far a sleep is off,
//! whether the clocks agree.

use super::grid::{Align, Grid, clean};
use super::head;
use crate::findings::clocks::printed::{DISAGREEMENT_MAX, printed};
use crate::findings::clocks::{
    ClockFinding, ClockFindings, ClockName, Disagreement, Overhead, SleepError, SpanFinding,
};
use crate::report::columns::{self, Column, figure, shown, time, values};
use crate::report::document::Document;
use crate::report::lines::Style;
use crate::report::number::{self, three_digits};

/// Renders the findings. Ends with a line break.
#[must_use]
pub fn table(found: &ClockFindings, style: Style) -> String {
    let mut out = Document::default();
    print_head(&mut out, found);
    print_overhead(&mut out, found);
    print_resolution(&mut out, found);
    print_sleeps(&mut out, found);
    print_agreement(&mut out, found);
    out.answer(answer(found));
    out.text(style)
}

fn print_head(out: &mut Document, found: &ClockFindings) {
    head::print_tool(out, &found.tool, found.started_unix_s);
    if let Some(reason) = &found.partial {
        out.wrap("PARTIAL   ", format!("{}; what is missing says so", clean(reason)));
    }
    out.blank();
    head::print_machine(out, &found.machine);
    let cpu =
        found.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("pinned to CPU {cpu}"));
    let quick = if found.quick { " · quick" } else { "" };
    out.wrap("  readings  ", format!("{cpu}{quick}"));
    for finding in &found.clocks {
        if let Some(reason) = &finding.unusable {
            out.wrap("  refused   ", format!("{}: {}", finding.name, clean(reason)));
        }
    }
    for warning in &found.warnings {
        out.wrap("  warning   ", clean(warning));
    }
}

fn print_overhead(out: &mut Document, found: &ClockFindings) {
    let readings = found.clocks.iter().find_map(|clock| clock.overhead.as_ref());
    let readings = readings.map_or(0, |overhead| overhead.readings);
    out.part(format!("A reading costs ({readings} readings back to back)"));
    out.table(&OVERHEAD, &found.clocks);
    out.note(OVERHEAD_LEGEND);
}

fn print_resolution(out: &mut Document, found: &ClockFindings) {
    out.part("What it resolves");
    out.table(&RESOLUTION, &found.clocks);
    out.note(RESOLUTION_LEGEND);
}

fn print_sleeps(out: &mut Document, found: &ClockFindings) {
    out.part("Error over sleeps of known length, in µs (measured minus asked)");
    let mut grid = columns::grid(&SLEEPS);
    for sleep in &found.sleeps {
        let (mean, sd) = (three_digits(sleep.wake_up_mean_us), three_digits(sleep.wake_up_sd_us));
        grid.heading(format!(
            "{} sleeps of {}: the wake-up is late by {mean}, sd {sd}",
            sleep.sleeps,
            number::time(sleep.asked_us * NS_PER_US),
        ));
        for error in &sleep.clocks {
            grid.row(values(&SLEEPS, error));
        }
    }
    print_grid(out, grid, found.sleeps.is_empty());
    out.note(SLEEPS_LEGEND);
}

fn print_agreement(out: &mut Document, found: &ClockFindings) {
    let claim = percent(DISAGREEMENT_MAX);
    let text = format!("Agreement over the same busy spans (study 002: always within {claim})");
    out.part(text);
    let mut grid = Grid::new(&[
        ("span", Align::Left, 8),
        ("clocks", Align::Left, 28),
        ("median", Align::Right, FIGURE),
        ("largest", Align::Right, FIGURE),
        ("step", Align::Right, FIGURE),
        ("readings", Align::Right, FIGURE),
        ("spans", Align::Right, 5),
        ("", Align::Left, 5),
    ]);
    for span in &found.agreement {
        for (at, pair) in span.pairs.iter().enumerate() {
            let of_span = |text: String| if at == 0 { text } else { String::new() };
            grid.row(vec![
                of_span(number::time(span.span_ns)),
                format!("{} {}", pair.one, pair.other),
                percent(pair.median_relative),
                percent(pair.largest_relative),
                percent(pair.step_relative),
                of_span(percent(span.readings_relative)),
                of_span(span.spans.to_string()),
                judgement(pair, span).to_owned(),
            ]);
        }
    }
    print_grid(out, grid, found.agreement.is_empty());
    out.note(AGREEMENT_LEGEND);
}

/// Whether the pair keeps the study's bound, if spans of this length can tell.
fn judgement(pair: &Disagreement, span: &SpanFinding) -> &'static str {
    if pair.largest_relative <= DISAGREEMENT_MAX {
        return "yes";
    }
    match pair.step_relative.max(span.readings_relative) > DISAGREEMENT_MAX {
        true => "blind",
        false => "no",
    }
}

/// Which clock is cheapest to read, and whether clocks agree.
fn answer(found: &ClockFindings) -> String {
    let cost = |clock: &&ClockFinding| clock.overhead.as_ref().map(|overhead| overhead.median_ns);
    let mut clocks: Vec<(f64, ClockName)> =
        found.clocks.iter().filter_map(|clock| Some((cost(&clock)?, clock.name))).collect();
    clocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut parts = Vec::new();
    if let Some((ns, name)) = clocks.first() {
        let text = |(ns, name): &(f64, ClockName)| format!("{name}, {}", number::time(*ns));
        let next = clocks.get(1).map(|next| format!("; next is {}", text(next)));
        let first = text(&(*ns, *name));
        parts.push(format!("Cheapest to read: {first}{}.", next.unwrap_or_default()));
    }
    let pairs =
        || found.agreement.iter().flat_map(|span| span.pairs.iter().map(move |p| (p, span)));
    let judged = pairs().filter(|(pair, span)| judgement(pair, span) != "blind").count();
    if judged > 0 {
        let agree = pairs().filter(|(pair, span)| judgement(pair, span) == "yes").count();
        let bound = percent(DISAGREEMENT_MAX);
        parts.push(format!("{agree} of {judged} pairs of clocks agree within {bound}."));
    }
    parts.join(" ")
}

fn print_grid(out: &mut Document, grid: Grid, is_empty: bool) {
    if is_empty {
        out.line("    Not measured.");
    } else {
        out.grid(grid);
    }
}

fn percent(part: f64) -> String {
    let percent = part * 100.0;
    // Parts per million are what the calibration is good for.
    if percent < 0.0005 { "0 %".to_owned() } else { format!("{} %", three_digits(percent)) }
}

const OVERHEAD: [Column<ClockFinding>; 9] = [
    Column::words("", NAME, |clock| clock.name.to_string()),
    Column::figure("batch", FIGURE, |clock| {
        time(clock.overhead.as_ref().and_then(|overhead| overhead.batch_ns))
    }),
    Column::figure("min", FIGURE, |clock| cost(clock, |overhead| overhead.min_ns)),
    Column::figure("mean", FIGURE, |clock| cost(clock, |overhead| overhead.mean_ns)),
    Column::figure("sd", FIGURE, |clock| cost(clock, |overhead| overhead.sd_ns)),
    Column::figure("median", FIGURE, |clock| cost(clock, |overhead| overhead.median_ns)),
    Column::figure("outliers", FIGURE, |clock| {
        shown(clock.overhead.as_ref().map(|overhead| overhead.outliers))
    }),
    Column::figure("above", FIGURE, |clock| cost(clock, |overhead| overhead.outlier_above_ns)),
    Column::figure("study 002", FIGURE, |clock| time(printed(clock.name).overhead_ns)),
];

fn cost(clock: &ClockFinding, of: fn(&Overhead) -> f64) -> String {
    time(clock.overhead.as_ref().map(of))
}

const RESOLUTION: [Column<ClockFinding>; 8] = [
    Column::words("", NAME, |clock| clock.name.to_string()),
    Column::figure("stated", FIGURE, |clock| time(clock.stated_resolution_ns)),
    Column::figure("found", FIGURE, |clock| time(clock.granularity_ns)),
    Column::figure("i++ run", FIGURE, |clock| shown(clock.smallest_run.map(|run| run.increments))),
    Column::figure("shows", FIGURE, |clock| time(clock.smallest_run.map(|run| run.ns))),
    Column::figure("study 002", FIGURE, |clock| time(printed(clock.name).smallest_run_ns)),
    Column::figure("shrunk", FIGURE, |clock| time(clock.shrunk.map(|interval| interval.ns))),
    Column::figure("study 003", FIGURE, |clock| time(printed(clock.name).shrunk_ns)),
];

const SLEEPS: [Column<SleepError>; 7] = [
    Column::words("", NAME, |error| error.clock.to_string()),
    Column::figure("mean", FIGURE, |error| three_digits(error.mean_error_us)),
    Column::figure("sd", FIGURE, |error| three_digits(error.error_sd_us)),
    Column::figure("own mean", FIGURE, |error| three_digits(error.own_mean_us)),
    Column::figure("own sd", FIGURE, |error| three_digits(error.own_sd_us)),
    Column::figure("study 003: mean", FIGURE, |error| {
        figure(printed(error.clock).mean_error_us, three_digits)
    }),
    Column::figure("sd", FIGURE, |error| figure(printed(error.clock).error_sd_us, three_digits)),
];

/// The longest name of a clock.
const NAME: usize = 13;

/// A time with its unit.
const FIGURE: usize = 8;

const NS_PER_US: f64 = 1_000.0;

const OVERHEAD_LEGEND: &str = "batch: per reading in the fastest batch of 500, by clock_gettime. \
    The others: between readings, by the clock itself; mean and sd without outliers, which took \
    longer than stands under above (the median and three medians more, or ten median deviations, \
    or two steps of the clock, whichever is most).";

const RESOLUTION_LEGEND: &str = "stated: clock_getres, the unit, or one tick. found: the step in \
    which times of short work come. i++ run: the fewest increments whose median time is above \
    that of none, and by how much (study 002). shrunk: the shortest time above zero while the code \
    between two readings shrinks to nothing, so mostly the reading itself (study 003).";

const SLEEPS_LEGEND: &str = "All clocks read the same sleeps, which end at a set time of \
    CLOCK_MONOTONIC. Most of the error is the wake-up: timer, idle state and scheduler. own: what a \
    clock says beside the median of all clocks; only that is the clock's. The study's sleeps have \
    no length given, and each clock had its own.";

const AGREEMENT_LEGEND: &str = "Distance of two clocks, as a part of the mean of both. step: the \
    coarser one's step; readings: what reading all of them takes; both as parts of the span. yes: \
    the largest distance keeps the study's bound; no: it does not; blind: such short spans cannot \
    tell.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lines::COLUMNS;

    fn findings() -> ClockFindings {
        let text = include_str!("../../../tests/data/findings/clocks.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_table_fits_the_page_and_has_the_studies_beside() {
        for width in 40..=200 {
            let text = table(&findings(), Style::new(Some(width), false));
            let wide = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(wide, None, "{width}");
        }
        let text = table(&findings(), Style::new(Some(COLUMNS), false));
        assert!(text.lines().all(|line| !line.ends_with('…')), "{text}");
        for part in [
            "PARTIAL   interrupted",
            "refused   tsc: a processor lacks nonstop_tsc",
            "65.0 ns",
            "100 sleeps of 10.0 ms: the wake-up is late by 66.0, sd 9.00",
            "81.0",
            "0.610 %",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn nothing_measured_says_so() {
        let text = table(&ClockFindings::default(), Style::PLAIN);
        assert!(text.contains("Not measured."), "{text}");
    }

    #[test]
    fn a_bound_is_judged_only_where_spans_can_tell() {
        let mut found = findings();
        let mut span = found.agreement.remove(0);
        let mut pair = span.pairs.remove(0);
        assert_eq!(judgement(&pair, &span), "no");
        span.readings_relative = 0.07;
        assert_eq!(judgement(&pair, &span), "blind");
        pair.largest_relative = 0.004;
        assert_eq!(judgement(&pair, &span), "yes");
    }
}
