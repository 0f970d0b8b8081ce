//! How the runs came about: warnings, what is missing, the machine record, settings, timers.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::table::Table;
use super::text::{known, optional, plain, plain_long};
use super::{PageFacts, runs};
use crate::report::columns::{Column, table};
use crate::report::hosts::Host;
use crate::report::number::{self, size};
use crate::run::{Run, Skipped, Timer, UNKNOWN};

/// Warnings, what was skipped, and whether runs were cut short.
pub(super) fn warnings(host: &Host<'_>, id: &str) -> Option<Markup> {
    let noisy = super::grades(host);
    let skipped = host.runs.iter().flat_map(|run| run.skipped.iter().take(LINES_MAX));
    let skipped: Vec<&Skipped> = skipped.collect();
    let caption = "What could not be measured";
    let id = format!("{id}-skipped");
    let table = table(&SKIPPED, skipped.iter().copied());
    Some(html! {
        p {
            "Noise: " (noisy) ". What a grade means stands under "
            a href="#words" { "words and grades" } "."
        }
        @for run in &host.runs { (of_run(run)) }
        @if skipped.is_empty() { p { "Nothing was skipped." } }
        @else { (Table::new(&id, caption, &table).in_order()) }
    })
}

const SKIPPED: [Column<Skipped>; 3] = [
    Column::words("mechanism", 0, |one| plain(&one.mechanism)),
    Column::words("what of it", 0, |one| {
        let (kind, size) = (one.kind.map(|kind| kind.to_string()), one.message_bytes.map(size));
        let parts = [kind, one.shape.clone(), one.wait.clone(), size];
        let what: Vec<String> = parts.into_iter().flatten().map(|part| plain(&part)).collect();
        if what.is_empty() { "all".to_owned() } else { what.join(" ") }
    }),
    Column::words("reason", 0, |one| plain_long(&one.reason)),
];

fn of_run(run: &Run) -> Markup {
    html! {
        @if run.partial {
            p.warning {
                "The run of " (number::date(run.started_unix_s)) " was cut short ("
                (run.partial_reason.as_deref().map_or_else(|| UNKNOWN.to_owned(), plain_long))
                "): cells of its plan are missing."
            }
        }
        @for warning in run.warnings.iter().take(LINES_MAX) {
            p.warning { (plain_long(warning)) }
        }
    }
}

/// Every fact of the machine record, under the names that it has in files.
pub(super) fn machine(host: &Host<'_>, id: &str) -> Option<Markup> {
    let title = "The machine as the latest run describes it; unknown is what it does not tell";
    let facts = table(&FACTS, &facts(host.machine));
    Some(html! { div.record { (Table::new(&format!("{id}-table"), title, &facts).in_order()) } })
}

/// A name and what was found.
type Named = (String, String);

const FACTS: [Column<Named>; 2] = [
    Column::words("fact", 0, |(label, _)| label.clone()),
    Column::words("found", 0, |(_, text)| text.clone()),
];

/// The fields of a stored record in words, those of its parts after its own.
fn facts(record: &impl Serialize) -> Vec<Named> {
    let Ok(Value::Object(fields)) = serde_json::to_value(record) else { return Vec::new() };
    let (parts, own): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(_, value)| matches!(value, Value::Object(_)));
    let words = |name: &str| name.replace('_', " ");
    let mut facts: Vec<Named> =
        own.iter().map(|(name, value)| (words(name), fact(name, value))).collect();
    for (_, part) in parts {
        facts.extend(self::facts(&part));
    }
    facts
}

fn fact(name: &str, value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) if name.ends_with("_bytes") => {
            number::memory(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::Array(values) if values.is_empty() => UNKNOWN.to_owned(),
        Value::Array(values) => {
            let shown = values.iter().take(LINES_MAX);
            let texts: Vec<String> = shown.map(|value| fact(name, value)).collect();
            texts.join("; ")
        }
        Value::String(text) => known(text),
        other => plain(&other.to_string()),
    }
}

/// Settings and timers of each run.
pub(super) fn body(hosts: &[Host<'_>]) -> Markup {
    let several = hosts.len() > 1;
    html! {
        @for (index, run) in runs(hosts).enumerate() {
            h3 id={ "run-" (index + 1) } {
                "Run of " (number::date(run.started_unix_s))
                @if several { ", machine " (known(&run.machine.id)) }
            }
            dl.facts.wide {
                @for (label, text) in settings(run) { div { dt { (label) } dd { (text) } } }
            }
            (timers(run, index))
        }
        p.note {
            "Each cell comes from new pairs of processes, pinned, in random order; its interval is \
             Student's, of the logarithms of its launches. No outlier is removed. The complete files hold every \
             histogram."
        }
    }
}

fn settings(run: &Run) -> Vec<Named> {
    let words = run.settings.arguments.iter().take(LINES_MAX).map(|word| quoted(word));
    let command: Vec<String> = std::iter::once("nearcall".to_owned()).chain(words).collect();
    let took = run.finished_unix_s.map_or_else(
        || UNKNOWN.to_owned(),
        |end| format!("{} s", end.saturating_sub(run.started_unix_s)),
    );
    let own = [("command", plain_long(&command.join(" "))), ("took", took)];
    let own = own.map(|(label, text)| (label.to_owned(), text));
    let asked = facts(&run.settings).into_iter().filter(|(label, _)| label != "arguments");
    own.into_iter().chain(facts(&run.tool)).chain(asked).collect()
}

/// A word as a shell reads it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(harmless) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn timers(run: &Run, index: usize) -> Markup {
    let caption = "The clocks, measured before anything else";
    let timers = table(&TIMERS, run.timers.iter().take(LINES_MAX));
    html! {
        @if run.timers.is_empty() { p.missing { "No clock is recorded." } }
        @else { (Table::new(&format!("timers-{}", index + 1), caption, &timers).in_order()) }
    }
}

const TIMERS: [Column<Timer>; 4] = [
    Column::words("clock", 0, |timer| plain(&timer.source)),
    Column::figure("a reading costs", 0, |timer| optional(timer.overhead_ns, "ns")),
    Column::figure("smallest step", 0, |timer| optional(timer.granularity_ns, "ns")),
    Column::words("used", 0, |timer| match (&timer.unusable, timer.used) {
        (Some(reason), _) => format!("no: {}", plain(reason)),
        (None, true) => "yes, all figures come from it".to_owned(),
        (None, false) => "no".to_owned(),
    }),
];

/// What made the page.
pub(super) fn footer(hosts: &[Host<'_>], facts: &PageFacts) -> Markup {
    html! {
        p {
            "Made by nearcall " (facts.version) " from " (runs(hosts).count()) " stored runs, \
             and from nothing else"
            @if !facts.command.is_empty() { ": " code { (plain_long(&facts.command)) } }
            "."
        }
    }
}

/// A page shows no more of anything; a file may claim more.
const LINES_MAX: usize = 300;
