//! The first lines of the table: what measured, where, how, and how quiet it was.

use super::grid::clean;
use crate::noise;
use crate::report::document::Document;
use crate::report::number;
use crate::run::{Machine, Run, Tool, UNKNOWN};

/// Everything about the machine.
pub(super) fn print(out: &mut Document, run: &Run) {
    print_title(out, run);
    for (label, text) in machine_lines(&run.machine) {
        out.wrap(label, text);
    }
    out.wrap("  settings  ", settings(run));
    out.wrap("  timer     ", timer(run));
    if !run.settings.memory.is_empty() {
        out.wrap("  memory    ", clean(&run.settings.memory));
    }
    print_noise(out, run);
}

/// What a figure cannot be read without.
pub(super) fn print_short(out: &mut Document, run: &Run) {
    print_title(out, run);
    print_machine(out, &run.machine);
    out.wrap("  settings  ", settings(run));
    print_noise(out, run);
}

/// What measured, and when.
pub(super) fn print_tool(out: &mut Document, tool: &Tool, started_unix_s: u64) {
    let name = format!("nearcall {}", clean(&tool.version));
    let title = join(&[name, clean(&tool.profile), number::date(started_unix_s)]);
    out.wrap("", title);
}

/// The machine's first two lines as one.
pub(super) fn print_machine(out: &mut Document, machine: &Machine) {
    let [(label, machine), (_, system), _] = machine_lines(machine);
    out.wrap(label, join(&[machine, system]));
}

fn print_title(out: &mut Document, run: &Run) {
    print_tool(out, &run.tool, run.started_unix_s);
    if run.partial {
        let reason = run.partial_reason.as_deref().map_or_else(|| UNKNOWN.to_owned(), clean);
        out.wrap("PARTIAL   ", format!("{reason}; cells of the plan are missing"));
    }
    out.blank();
}

fn print_noise(out: &mut Document, run: &Run) {
    out.wrap("  noise     ", grades(run));
    for warning in &run.warnings {
        out.wrap("  warning   ", clean(warning));
    }
}

fn machine_lines(machine: &Machine) -> [(&'static str, String); 3] {
    let known = |name: &str, text: &str| match text {
        "" | UNKNOWN => format!("{name} unknown"),
        _ => format!("{name} {}", clean(text)),
    };
    let cpus =
        machine.cpus.map_or_else(|| "CPUs unknown".to_owned(), |cpus| format!("{cpus} CPUs"));
    let memory = machine.memory_bytes.map_or_else(
        || "memory unknown".to_owned(),
        |bytes| format!("{} GiB", number::three_digits(bytes as f64 / (1_u64 << 30) as f64)),
    );
    let model = known("", &machine.cpu_model).trim_start().to_owned();
    // The last one is the one that both ends share, if any.
    let cache = machine.caches.last().map(|cache| clean(cache)).unwrap_or_default();
    [
        ("  machine   ", join(&[model, cpus, clean(&machine.topology), cache, memory])),
        (
            "  system    ",
            join(&[
                known("kernel", &machine.kernel),
                known("hypervisor", &machine.hypervisor),
                known("clock source", &machine.clocksource),
                known("huge pages", &machine.huge_pages),
            ]),
        ),
        (
            "  power     ",
            join(&[
                known("governor", &machine.governor),
                machine.boost_words().to_owned(),
                known("CPUs allowed", &machine.allowed_cpus),
                known("id", &machine.id),
            ]),
        ),
    ]
}

fn settings(run: &Run) -> String {
    let settings = &run.settings;
    let touch = match settings.touch.as_str() {
        "full" => "payload written and read in full".to_owned(),
        other => format!("payload touched: {}", clean(other)),
    };
    let launches = match settings.launches {
        1 => "1 launch per cell".to_owned(),
        launches => format!("{launches} launches per cell in random order"),
    };
    let quick = if settings.quick { "quick" } else { "" };
    let sleep = match settings.sleep_states.as_str() {
        "" => String::new(),
        words => format!("sleep states {}", clean(words)),
    };
    join(&[launches, format!("seed {}", settings.seed), touch, quick.to_owned(), sleep])
}

fn timer(run: &Run) -> String {
    let Some(timer) = run.timers.iter().find(|timer| timer.used) else {
        return UNKNOWN.to_owned();
    };
    let time = |ns: Option<f64>| ns.map_or_else(|| UNKNOWN.to_owned(), number::time);
    join(&[
        clean(&timer.source),
        format!("a reading costs {}", time(timer.overhead_ns)),
        format!("smallest step {}", time(timer.granularity_ns)),
    ])
}

/// How many cells have which grade.
fn grades(run: &Run) -> String {
    let measured = run.floors.iter().chain(&run.bare).chain(&run.cells);
    let studies = run.study_cells.iter().chain(&run.library_cells);
    let cells: Vec<_> = measured.chain(studies).collect();
    match noise::count_words(cells.iter().map(|cell| cell.grade)) {
        words if words.is_empty() => UNKNOWN.to_owned(),
        words => format!("cells: {words}"),
    }
}

/// Joins what is not empty.
fn join(parts: &[String]) -> String {
    let shown: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    shown.join(" · ")
}
