//! What a machine is and what is fast on it, in words: the first screen, as plain data.
//!
//! **Invariants:** each figure comes from one cell, stands with its interval, grade and definition,
//! and is compared only with cells of the same exchange. Cells of grade D decide nothing. What an
//! interval does not tell apart is named. HTML is in `page/first.rs`.

use serde::Serialize;

use super::answers::{self, Advised, Answer};
use super::text::{known, plain, plain_long};
use crate::noise::{self, Grade};
use crate::report::hosts::Host;
use crate::report::number;
use crate::run::{Machine, Run, Skipped, UNKNOWN};

/// The first screen of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The machine's id.
    pub machine: String,
    /// How the machine is called on this page.
    pub name: String,
    /// What it is, one sentence.
    pub sentence: String,
    /// What else decides how fast IPC is: label and text.
    pub facts: Vec<(&'static str, String)>,
    /// What is fast and what to use.
    pub answers: Vec<Answer>,
    /// How a server and a client use the first address that is advised: a line of Rust for each.
    pub snippet: Option<String>,
    /// Runs that were cut short: cells of their plans are missing.
    pub partial: Vec<CutShort>,
    /// What the runs warn of.
    pub warnings: Vec<String>,
    /// What could not be measured.
    pub skipped: Vec<Skipped>,
    /// Cells that a later run measured again, which counts.
    pub superseded: usize,
}

/// A run that was cut short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CutShort {
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// Why, if that is stored.
    pub reason: Option<String>,
}

/// Says what `host` is, the `index`th of `count`.
#[must_use]
pub fn summary(host: &Host<'_>, index: usize, count: usize) -> Summary {
    let answers = answers::answers(host);
    Summary {
        machine: plain(&host.machine.id),
        name: name(host, index, count),
        sentence: sentence(host.machine),
        facts: facts(host),
        snippet: snippet(&answers),
        answers,
        partial: host.runs.iter().filter(|run| run.partial).map(|run| cut_short(run)).collect(),
        warnings: host.runs.iter().flat_map(|run| &run.warnings).map(|w| plain_long(w)).collect(),
        skipped: host.runs.iter().flat_map(|run| &run.skipped).map(skipped).collect(),
        superseded: host.superseded,
    }
}

/// Both ends of the README's service at the first address that an answer with a figure advises.
fn snippet(answers: &[Answer]) -> Option<String> {
    let addresses = answers.iter().find_map(|answer| match &answer.advice {
        Advised::Use { address, server_address, .. } if answer.found.is_some() => {
            Some([server_address, address])
        }
        _ => None,
    })?;
    let [server, client] = addresses.map(|at| at.replacen("NAME", "thermostat", 1));
    Some(format!(
        "server.listen({server:?})?;\n\
         let thermostat = ThermostatCaller::new(&Client::new(), {client:?})?;"
    ))
}

fn cut_short(run: &Run) -> CutShort {
    let reason = run.partial_reason.as_deref().map(plain_long);
    CutShort { started_unix_s: run.started_unix_s, reason }
}

/// The same without what no terminal should see.
fn skipped(skipped: &Skipped) -> Skipped {
    let clean = |text: &Option<String>| text.as_deref().map(plain);
    Skipped {
        mechanism: plain(&skipped.mechanism),
        reason: plain_long(&skipped.reason),
        shape: clean(&skipped.shape),
        wait: clean(&skipped.wait),
        ..*skipped
    }
}

/// How a machine is called where several stand beside each other.
pub(super) fn name(host: &Host<'_>, index: usize, count: usize) -> String {
    let model = model(host.machine);
    if count == 1 { model } else { format!("Machine {}: {model}", index + 1) }
}

fn model(machine: &Machine) -> String {
    match known(&machine.cpu_model) {
        text if text == UNKNOWN => "unknown processor".to_owned(),
        text => text,
    }
}

fn sentence(machine: &Machine) -> String {
    let cpus = match machine.cpus {
        Some(1) => "one CPU".to_owned(),
        Some(cpus) => format!("{cpus} CPUs"),
        None => "an unknown number of CPUs".to_owned(),
    };
    let topology = match known(&machine.topology) {
        text if text == UNKNOWN => String::new(),
        text => format!(" ({text})"),
    };
    let memory = machine.memory_bytes.map_or_else(String::new, |bytes| {
        format!(" and {} of memory", number::memory(bytes as f64))
    });
    let place = match (machine.hypervisor.as_str(), machine.container.as_str()) {
        (UNKNOWN | "", _) => "it is unknown whether under a hypervisor".to_owned(),
        ("none", "none" | UNKNOWN | "") => "on the bare machine".to_owned(),
        ("none", container) => {
            format!("on the bare machine, in a container ({})", plain(container))
        }
        (guest, "none" | UNKNOWN | "") => format!("as a guest of {}", plain(guest)),
        (guest, container) => {
            format!("as a guest of {}, in a container ({})", plain(guest), plain(container))
        }
    };
    let kernel = kernel(machine);
    format!("{} with {cpus}{topology}{memory}, running {kernel}, {place}.", model(machine))
}

/// Name and release, without what the build adds.
fn kernel(machine: &Machine) -> String {
    match known(&machine.kernel) {
        text if text == UNKNOWN => "an unknown kernel".to_owned(),
        text => text.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
    }
}

fn facts(host: &Host<'_>) -> Vec<(&'static str, String)> {
    let machine = host.machine;
    let (from, to) = dates(host);
    let measured = if from == to { from } else { format!("{from} to {to}") };
    let runs = match host.runs.len() {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let cache = machine.caches.last().map_or_else(|| UNKNOWN.to_owned(), |cache| plain(cache));
    vec![
        ("Shared cache", cache),
        ("Clock", clock(machine)),
        ("Sleep states", idle(machine)),
        ("Noise", noise_with_meaning(host)),
        ("Measured", format!("{runs}, {} cells, {measured}", host.entries.len())),
    ]
}

fn clock(machine: &Machine) -> String {
    let highest = machine.frequency_max_khz.map_or_else(
        || "frequency unknown".to_owned(),
        |khz| format!("up to {} GHz", number::three_digits(khz as f64 / 1e6)),
    );
    format!("{highest}, governor {}, {}", known(&machine.governor), machine.boost_words())
}

fn idle(machine: &Machine) -> String {
    match machine.idle_states.as_slice() {
        [] => UNKNOWN.to_owned(),
        states => plain(&states.join(", ")),
    }
}

/// How many cells have which grade, and what that means.
fn grades(host: &Host<'_>) -> String {
    let total = host.entries.len();
    if total == 0 {
        return "nothing was measured".to_owned();
    }
    let words = noise::count_words(host.entries.iter().map(|entry| entry.cell.grade));
    format!("{words} (of {total} cells)")
}

/// The same, and what the most frequent grade means.
fn noise_with_meaning(host: &Host<'_>) -> String {
    let count = |grade| host.entries.iter().filter(|e| e.cell.grade == Some(grade)).count();
    let most = Grade::ALL.into_iter().filter(|&grade| count(grade) > 0).max_by_key(|&g| count(g));
    let meaning = most.map(|grade| format!("; {grade} is {}", grade_meaning(grade)));
    grades(host) + &meaning.unwrap_or_default()
}

/// What a grade lets a reader rely on.
pub(super) const fn grade_meaning(grade: Grade) -> &'static str {
    match grade {
        Grade::A => "undisturbed, as on an isolated CPU; every percentile can be relied on",
        Grade::B => "an ordinary quiet machine: timer ticks and little else",
        Grade::C => "disturbed: high percentiles are partly those of the disturbance",
        Grade::D => "something else ran on the same CPU: high percentiles say nothing of the cell",
    }
}

/// When the first and the last run began.
fn dates(host: &Host<'_>) -> (String, String) {
    let starts = || host.runs.iter().map(|run| run.started_unix_s);
    (number::date(starts().min().unwrap_or(0)), number::date(starts().max().unwrap_or(0)))
}
