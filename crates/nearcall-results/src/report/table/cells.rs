//! What both tables say alike: places, figures, what was not measured.

use nearcall_channel::Mechanism;

use super::grid::{clean, clip};
use crate::noise::Grade;
use crate::report::columns::NAME_COLUMNS_MAX;
use crate::report::document::Document;
use crate::report::number;
use crate::run::{Cell, LoadAchieved, Placement, Run};

/// Where both ends ran.
pub(super) fn place(placement: &Placement) -> String {
    let class = class_words(&placement.class);
    match (placement.client_cpu, placement.server_cpu) {
        (Some(client), Some(server)) => {
            format!("Client on CPU {client}, server on CPU {server} ({class})")
        }
        _ => format!("Ends not pinned ({class})"),
    }
}

/// Where two CPUs lie to each other, in words.
pub fn class_words(class: &str) -> String {
    match CLASSES.iter().find(|(name, _)| *name == class) {
        Some((_, meaning)) => (*meaning).to_owned(),
        None => clean(class),
    }
}

/// The classes of placement, the nearest first, and what they mean.
pub(super) const CLASSES: [(&str, &str); 7] = [
    ("same_cpu", "one CPU"),
    ("smt", "threads of one core"),
    ("same_llc", "cores of one cache"),
    ("same_node", "one memory node"),
    ("cross_node", "two memory nodes"),
    ("unpinned", "not pinned"),
    ("unknown", "unknown"),
];

/// What the load of these cells really was; `None` for idle ones.
pub(in crate::report) fn load_achieved(cells: &[&Cell]) -> Option<String> {
    let all: Vec<&LoadAchieved> =
        cells.iter().filter_map(|cell| cell.load_achieved.as_ref()).collect();
    if all.is_empty() {
        return None;
    }
    let range = |mut values: Vec<f64>, format: &dyn Fn(f64) -> String| {
        values.retain(|value| value.is_finite());
        let low = format(values.iter().copied().reduce(f64::min)?);
        let high = format(values.into_iter().reduce(f64::max)?);
        Some(if low == high { low } else { format!("{low} to {high}") })
    };
    let percent = |value: f64| format!("{value:.1} %");
    let rate =
        |of: fn(&LoadAchieved) -> Option<f64>| all.iter().filter_map(|one| of(one)).collect();
    let pinned = all.iter().any(|one| !one.cpus.is_empty());
    let whose = if pinned { "of each CPU" } else { "of a CPU for each cpu worker" };
    let cpu: Vec<f64> = all.iter().flat_map(|one| one.cpu_percent.clone()).collect();
    let parts = [
        range(cpu, &percent).map(|cpu| format!("{cpu} {whose}")),
        range(rate(|one| one.memory_bytes_per_s), &number::byte_rate)
            .map(|rate| format!("memory {rate}")),
        range(rate(|one| one.io_bytes_per_s), &number::byte_rate).map(|rate| format!("io {rate}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut text = format!("Load achieved: {}.", parts.join(", "));
    let fell_short = all.iter().filter(|one| !one.not_reached.is_empty()).count();
    if let Some(reason) = all.iter().find_map(|one| one.not_reached.first()) {
        text += &format!(" NOT REACHED in {fell_short} of {} cells: {}.", all.len(), clean(reason));
    }
    Some(text)
}

/// Adds where the cells of a run were measured, beside what, and `what` of them if that is said.
pub(super) fn print_place(out: &mut Document, first: Option<&Cell>, what: &str) {
    if let Some(first) = first {
        out.line(format!("{};{what} load: {}.", place(&first.placement), clean(&first.load)));
    }
}

/// Adds what the columns of a table mean, and how to read on.
pub(super) fn print_legend<'a>(
    out: &mut Document,
    legend: &str,
    cells: impl IntoIterator<Item = &'a Cell>,
) {
    out.note(legend);
    if cells.into_iter().any(|cell| cell.grade == Some(Grade::D)) {
        out.note(DISTURBED);
    }
    out.note("Every cell with its interval: nearcall show --all RUN.json");
}

/// Adds how many rows a table leaves out, unless it has all.
pub(super) fn print_left_out(out: &mut Document, rows: usize) {
    if rows > 0 {
        out.note(format!("{rows} more rows are not shown: nearcall show --json RUN.json"));
    }
}

/// Adds what could not be measured, with the reasons.
pub(super) fn print_skipped(out: &mut Document, run: &Run) {
    if run.skipped.is_empty() {
        return;
    }
    out.part("Not measured");
    for skipped in &run.skipped {
        let mut what = Vec::new();
        if let Some(kind) = skipped.kind {
            what.push(kind.to_string());
        }
        what.extend(skipped.shape.as_deref().map(clean));
        what.extend(skipped.message_bytes.map(number::size));
        what.extend(skipped.wait.as_deref().map(clean));
        if skipped.unsupported {
            what.push("unsupported".to_owned());
        }
        let what = if what.is_empty() { String::new() } else { what.join(", ") + ": " };
        let name = clip(&clean(&skipped.mechanism), NAME_COLUMNS_MAX);
        let label = format!("    {name:<NAME_COLUMNS_MAX$}  ");
        out.wrap(&label, format!("{what}{}", clean(&skipped.reason)));
    }
}

/// Adds which of the measured mechanisms are never advised, or only for one client.
pub(super) fn print_restricted(out: &mut Document, run: &Run) {
    let of = |fits: fn(&Mechanism) -> bool| -> String {
        let known = Mechanism::all().filter(&fits).map(Mechanism::name);
        let here = known.filter(|name| run.cells.iter().any(|cell| cell.mechanism == **name));
        here.collect::<Vec<_>>().join(", ")
    };
    let measured_only = of(|mechanism| mechanism.measured_only());
    let one_client = of(|mechanism| mechanism.one_client_in_a_loop() && !mechanism.measured_only());
    if !measured_only.is_empty() {
        out.note(format!("Here to be measured, never advised: {measured_only}."));
    }
    if !one_client.is_empty() {
        out.note(format!("For one client of a server with an event loop only: {one_client}."));
    }
}

/// Nearcall's own channel, which stands first.
pub(super) const OURS: &str = "shm";

/// Under every table with a grade D.
pub(super) const DISTURBED: &str = "Cells whose tails are of grade D lost much of their time to \
                                    something else: measure them again for p99 and above.";
