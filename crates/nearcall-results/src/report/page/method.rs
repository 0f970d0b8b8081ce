//! How the runs came about: warnings, what is missing, the machine record, settings, timers.

use maud::{Markup, html};

use super::table::{Slot, Table};
use super::text::{known, optional, plain, plain_long};
use super::{PageFacts, runs};
use crate::report::hosts::Host;
use crate::report::number;
use crate::run::{Machine, Run, UNKNOWN};

/// Warnings, what was skipped, and whether runs were cut short.
pub(super) fn warnings(host: &Host<'_>, id: &str) -> Option<Markup> {
    let noisy = super::grades(host);
    let mut skipped = Table::new(
        &format!("{id}-skipped"),
        "What could not be measured",
        &["mechanism", "what of it", "reason"],
    )
    .in_order();
    for run in &host.runs {
        for skip in run.skipped.iter().take(LINES_MAX) {
            let size = skip.message_bytes.map(number::size);
            let kind = skip.kind.map(|kind| format!("{kind:?}").to_lowercase());
            let parts = [kind, skip.shape.clone(), skip.wait.clone(), size];
            let what: Vec<String> = parts.into_iter().flatten().map(|part| plain(&part)).collect();
            let what = if what.is_empty() { "all".to_owned() } else { what.join(" ") };
            skipped.row(vec![
                Slot::text(plain(&skip.mechanism)),
                Slot::text(what),
                Slot::text(plain_long(&skip.reason)),
            ]);
        }
    }
    Some(html! {
        p {
            "Noise: " (noisy) ". What a grade means stands under "
            a href="#words" { "words and grades" } "."
        }
        @for run in &host.runs { (of_run(run)) }
        @if skipped.is_empty() { p { "Nothing was skipped." } } @else { (skipped) }
    })
}

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

/// Every fact of the machine record.
pub(super) fn machine(host: &Host<'_>, id: &str) -> Option<Markup> {
    let title = "The machine as the latest run describes it; unknown is what it does not tell";
    let mut table = Table::new(&format!("{id}-table"), title, &["fact", "found"]).in_order();
    for (label, text) in facts(host.machine) {
        table.row(vec![Slot::text(label), Slot::text(text)]);
    }
    Some(html! { div.record { (table) } })
}

fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let number = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), |v| v.to_string());
    let bytes = |value: Option<u64>| {
        value.map_or_else(|| UNKNOWN.to_owned(), |bytes| number::memory(bytes as f64))
    };
    let yes = |value: Option<bool>| match value {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => UNKNOWN.to_owned(),
    };
    let khz =
        |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), |khz| format!("{khz} kHz"));
    let list = |values: &[String]| match values {
        [] => UNKNOWN.to_owned(),
        values => values.iter().map(|value| plain(value)).collect::<Vec<_>>().join("; "),
    };
    vec![
        ("id (a hash of these facts)", known(&machine.id)),
        ("processor", known(&machine.cpu_model)),
        ("architecture", known(&machine.architecture)),
        ("microcode", known(&machine.microcode)),
        ("CPUs", number(machine.cpus.map(u64::from))),
        ("CPUs allowed", known(&machine.allowed_cpus)),
        ("topology", known(&machine.topology)),
        ("caches", list(&machine.caches)),
        ("memory nodes", number(machine.numa_nodes.map(u64::from))),
        ("memory", bytes(machine.memory_bytes)),
        ("page", bytes(machine.page_bytes)),
        ("kernel", known(&machine.kernel)),
        ("kernel command line", known(&machine.kernel_command_line)),
        ("kernel configuration", list(&machine.kernel_config)),
        ("mitigations", list(&machine.mitigations)),
        ("clock source", known(&machine.clocksource)),
        ("TSC constant and never stopping", yes(machine.tsc_invariant)),
        ("frequency governor", known(&machine.governor)),
        ("boost", yes(machine.boost)),
        ("lowest frequency", khz(machine.frequency_min_khz)),
        ("highest frequency", khz(machine.frequency_max_khz)),
        ("idle states", list(&machine.idle_states)),
        ("huge pages", known(&machine.huge_pages)),
        ("hypervisor", known(&machine.hypervisor)),
        ("container", known(&machine.container)),
        ("CPU quota", known(&machine.cpu_quota)),
        ("limits", list(&machine.limits)),
        ("host name", known(&machine.state.host_name)),
        ("load average at the start", load(machine)),
        ("memory available at the start", bytes(machine.state.memory_available_bytes)),
        ("up for", seconds(machine.state.uptime_s)),
        ("deep sleep states kept off", yes(machine.state.idle_held)),
    ]
}

fn load(machine: &Machine) -> String {
    let words = |load: [f64; 3]| load.map(|part| format!("{part:.2}")).join(", ");
    machine.state.load_average.map_or_else(|| UNKNOWN.to_owned(), words)
}

fn seconds(value: Option<u64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |seconds| format!("{seconds} s"))
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

fn settings(run: &Run) -> Vec<(&'static str, String)> {
    let settings = &run.settings;
    let tool = format!("nearcall {} ({})", known(&run.tool.version), known(&run.tool.profile));
    let command = std::iter::once("nearcall".to_owned())
        .chain(settings.arguments.iter().take(LINES_MAX).map(|word| quoted(word)))
        .collect::<Vec<_>>()
        .join(" ");
    let took = run.finished_unix_s.map_or_else(
        || UNKNOWN.to_owned(),
        |end| format!("{} s", end.saturating_sub(run.started_unix_s)),
    );
    let launches = format!("{} per cell, in random order", settings.launches);
    let accuracy = if settings.quick { "given up for speed (quick)" } else { "full" };
    let mut facts = vec![
        ("command", plain_long(&command)),
        ("tool", tool),
        ("compiler", known(&run.tool.compiler)),
        ("took", took),
        ("launches", launches),
        ("seed", settings.seed.to_string()),
        ("payload touched", known(&settings.touch)),
        ("wait", known(&settings.wait)),
        ("placement", known(&settings.placement)),
        ("accuracy", accuracy.to_owned()),
    ];
    let optional = [("sleep states", &settings.sleep_states), ("memory", &settings.memory)];
    for (label, text) in optional {
        if !text.is_empty() {
            facts.push((label, plain_long(text)));
        }
    }
    facts
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
    let heads = ["clock", "#a reading costs", "#smallest step", "used"];
    let id = format!("timers-{}", index + 1);
    let mut table = Table::new(&id, "The clocks, measured before anything else", &heads).in_order();
    for timer in run.timers.iter().take(LINES_MAX) {
        let used = match (&timer.unusable, timer.used) {
            (Some(reason), _) => format!("no: {}", plain(reason)),
            (None, true) => "yes, all figures come from it".to_owned(),
            (None, false) => "no".to_owned(),
        };
        table.row(vec![
            Slot::text(plain(&timer.source)),
            Slot::text(optional(timer.overhead_ns, "ns")),
            Slot::text(optional(timer.granularity_ns, "ns")),
            Slot::text(used),
        ]);
    }
    html! { @if table.is_empty() { p.missing { "No clock is recorded." } } @else { (table) } }
}

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

/// More of anything than this helps nobody; a file may claim more.
const LINES_MAX: usize = 300;
