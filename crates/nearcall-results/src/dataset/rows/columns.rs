//! The columns of the flat table: for each its name, what it holds, what it says, and its value.

use serde_json::Value;

use super::{Column, Holds, Line};
use crate::run::{Cell, ClientsFacts, Kind, List, Rhythm, RttNs};

/// Every column, in order.
pub const COLUMNS: &[Column] = &[
    // The machine.
    text("machine_id", "The machine: a hash of its facts", |l| l.run.machine.id.as_str().into()),
    text("cpu_model", "The processor", |l| l.run.machine.cpu_model.as_str().into()),
    text("architecture", "x86_64, aarch64", |l| l.run.machine.architecture.as_str().into()),
    whole("cpus", "CPUs that the system sees", |l| l.run.machine.cpus.into()),
    text("topology", "Sockets, cores, threads in words", |l| {
        l.run.machine.topology.as_str().into()
    }),
    whole("memory_bytes", "Physical memory", |l| l.run.machine.memory_bytes.into()),
    text("kernel", "Release and version of the kernel", |l| l.run.machine.kernel.as_str().into()),
    text("hypervisor", "The hypervisor, or none", |l| l.run.machine.hypervisor.as_str().into()),
    text("container", "The container, or none", |l| l.run.machine.container.as_str().into()),
    text("governor", "Who sets the clock frequency", |l| l.run.machine.governor.as_str().into()),
    // The run.
    text("source", "native: measured by nearcall; imported: by another program", source),
    text("run_file", "Where the run lies in a data set; its name has a hash of it", |l| {
        l.run_file.into()
    }),
    text(
        "run_kind",
        "What was measured: tour, calls, waits, matrix, studies, import and others",
        |l| crate::dataset::kind_of_run(l.run).into(),
    ),
    whole("run_started_unix_s", "When the run began, seconds since 1970 (UTC)", |l| {
        l.run.started_unix_s.into()
    }),
    truth("run_partial", "Whether cells are missing because the run was cut short", |l| {
        l.run.partial.into()
    }),
    text("tool_version", "The version of the program that measured", |l| {
        l.run.tool.version.as_str().into()
    }),
    text("tool_profile", "release or debug", |l| l.run.tool.profile.as_str().into()),
    text("touch", "How much of the payload is written and read: full, header, none", touch),
    // What was measured.
    text("list", "cells, floors, bare, parts, study_cells or library_cells", |l| {
        list(l.key.list).into()
    }),
    text("kind", "latency or throughput", |l| match l.key.kind {
        Kind::Latency => "latency".into(),
        Kind::Throughput => "throughput".into(),
    }),
    text("definition", "What one time or rate means; never mix two of them", |l| {
        l.key.definition.name().into()
    }),
    text("mechanism", "The mechanism, or the floor", |l| l.key.mechanism.as_str().into()),
    text("shape", "echo, sink, call, one-way", |l| l.key.shape.as_str().into()),
    whole("message_bytes", "Payload of one message", |l| l.key.message_bytes.into()),
    text("wait", "How both ends wait", |l| l.key.wait.as_str().into()),
    text("caller", "Who calls; missing in cells that are no calls", |l| named(&l.key.caller)),
    truth("by_reference", "Whether arguments pass by reference", |l| l.key.by_reference.into()),
    text("placement", "same_cpu, smt, same_llc, same_node, cross_node, unpinned", |l| {
        l.key.class.as_str().into()
    }),
    whole("client_cpu", "Where the client ran; missing if not pinned", |l| {
        l.cell.placement.client_cpu.into()
    }),
    whole("server_cpu", "Where the server ran; missing if not pinned", |l| {
        l.cell.placement.server_cpu.into()
    }),
    text("load", "What else ran on purpose; idle if nothing", |l| l.key.load.as_str().into()),
    text("rhythm", "steady, pace, gap, burst, clients, threads, start or switches", |l| {
        rhythm(l.key.rhythm).into()
    }),
    text("switched_to", "The mechanism that the connection moved to; missing if it did not", |l| {
        named(&l.key.to)
    }),
    whole("pace_per_s", "Exchanges per second that should begin", |l| match l.key.rhythm {
        Rhythm::Pace(rate) => rate.into(),
        _ => Value::Null,
    }),
    whole("gap_ns", "Pause after each exchange", |l| match l.key.rhythm {
        Rhythm::Gap(ns) => ns.into(),
        _ => Value::Null,
    }),
    whole("burst_messages", "Messages of one burst", |l| match l.key.rhythm {
        Rhythm::Burst(messages) => messages.into(),
        _ => Value::Null,
    }),
    whole("clients", "Clients, or threads of one caller, that call at once", |l| {
        match l.key.rhythm {
            Rhythm::Clients(clients) | Rhythm::Threads(clients, _) => clients.into(),
            _ => Value::Null,
        }
    }),
    whole("loops", "Event loops of the server that threads call", |l| match l.key.rhythm {
        Rhythm::Threads(_, loops) => loops.into(),
        _ => Value::Null,
    }),
    whole("connects", "Connections, one after the other", |l| match l.key.rhythm {
        Rhythm::Start(connects) => connects.into(),
        _ => Value::Null,
    }),
    text("study", "The study by whose protocol it was measured", |l| {
        l.key.study.as_ref().map(|study| study.study.as_str()).into()
    }),
    text("study_mechanism", "What that study calls the mechanism", |l| {
        l.key.study.as_ref().map(|study| study.mechanism.as_str()).into()
    }),
    whole("study_exchanges", "Exchanges per launch that it asks for; 0: for a time", |l| {
        l.key.study.as_ref().map(|study| study.exchanges).into()
    }),
    // How well it was measured.
    text(
        "statistic",
        "The column that stands for the cell; missing if it has no figure",
        statistic,
    ),
    text("grade", "How undisturbed it was: A to D; missing if unknown", |l| {
        l.cell.grade.map(|grade| format!("{grade:?}")).into()
    }),
    whole("launches", "Independent launches of new processes", |l| l.cell.launches.into()),
    whole("messages", "Messages that were measured, over all launches", |l| l.cell.count.into()),
    whole("messages_per_sample", "Messages that share one pair of clock readings", |l| {
        l.cell.messages_per_sample.into()
    }),
    text("tags", "What makes it special, with a semicolon between", |l| {
        named(&l.cell.tags.join(";"))
    }),
    // Times.
    whole("min_ns", "The shortest time", |l| times(l).and_then(|times| times.min).into()),
    real("p50_ns", "The median", |l| times(l).and_then(|times| times.p50).into()),
    real("p50_ci95_low_ns", "The median's 95 % confidence interval: from", |l| {
        end(times(l).and_then(|times| times.p50_ci95), 0)
    }),
    real("p50_ci95_high_ns", "The median's 95 % confidence interval: to", |l| {
        end(times(l).and_then(|times| times.p50_ci95), 1)
    }),
    real("p90_ns", "90 % are shorter", |l| times(l).and_then(|times| times.p90).into()),
    real("p99_ns", "99 % are shorter", |l| times(l).and_then(|times| times.p99).into()),
    real("p999_ns", "99.9 % are shorter", |l| times(l).and_then(|times| times.p999).into()),
    real("p9999_ns", "99.99 % are shorter", |l| times(l).and_then(|times| times.p9999).into()),
    whole("max_ns", "The longest time", |l| times(l).and_then(|times| times.max).into()),
    real("mean_ns", "The arithmetic mean; pauses of the machine move it a lot", |l| {
        times(l).and_then(|times| times.mean).into()
    }),
    // Rates.
    real("messages_per_s", "Messages per second, one way", |l| l.cell.messages_per_s.into()),
    real("messages_per_s_ci95_low", "Its 95 % confidence interval: from", |l| {
        end(l.cell.messages_per_s_ci95, 0)
    }),
    real("messages_per_s_ci95_high", "Its 95 % confidence interval: to", |l| {
        end(l.cell.messages_per_s_ci95, 1)
    }),
    real("bytes_per_s", "Payload bytes per second, one way", |l| l.cell.bytes_per_s.into()),
    real("bits_per_cpu_s", "Payload bits that one second of CPU time of both ends moves", |l| {
        l.cell.bits_per_cpu_s.into()
    }),
    real("calls_per_s", "Calls per second of all clients", |l| {
        clients(l).and_then(|clients| clients.calls_per_s).into()
    }),
    real("calls_per_s_ci95_low", "Its 95 % confidence interval: from", |l| {
        end(clients(l).and_then(|clients| clients.calls_per_s_ci95), 0)
    }),
    real("calls_per_s_ci95_high", "Its 95 % confidence interval: to", |l| {
        end(clients(l).and_then(|clients| clients.calls_per_s_ci95), 1)
    }),
    // Costs and bounds.
    real("client_cpu_ns_per_message", "CPU time of the client per message or round trip", |l| {
        l.cell.cpu_ns_per_message.client.into()
    }),
    real("server_cpu_ns_per_message", "CPU time of the server per message or round trip", |l| {
        l.cell.cpu_ns_per_message.server.into()
    }),
    text("floor", "The floor that it is compared with", |l| l.cell.floor.as_deref().into()),
    real("ratio_to_floor", "How many times the floor's cost it is", |l| {
        l.cell.ratio_to_floor.into()
    }),
    real("ratio_to_bare", "Of a call: to the bare exchange of the same run", |l| {
        l.cell.call.as_ref().and_then(|call| call.ratio_to_bare).into()
    }),
];

type Get = fn(&Line<'_>) -> Value;

const fn text(name: &'static str, about: &'static str, value: Get) -> Column {
    Column { name, holds: Holds::Text, about, value }
}

const fn whole(name: &'static str, about: &'static str, value: Get) -> Column {
    Column { name, holds: Holds::Whole, about, value }
}

const fn real(name: &'static str, about: &'static str, value: Get) -> Column {
    Column { name, holds: Holds::Real, about, value }
}

const fn truth(name: &'static str, about: &'static str, value: Get) -> Column {
    Column { name, holds: Holds::Truth, about, value }
}

fn times<'a>(line: &Line<'a>) -> Option<&'a RttNs> {
    line.cell.rtt_ns.as_ref()
}

fn clients<'a>(line: &Line<'a>) -> Option<&'a ClientsFacts> {
    line.cell.clients.as_ref()
}

fn end(interval: Option<[f64; 2]>, which: usize) -> Value {
    interval.map(|ends| ends[which]).into()
}

/// The text, or nothing if it is empty.
fn named(text: &str) -> Value {
    Some(text).filter(|text| !text.is_empty()).into()
}

fn source(line: &Line<'_>) -> Value {
    if line.run.imported.is_some() { "imported" } else { "native" }.into()
}

fn touch(line: &Line<'_>) -> Value {
    // Runs of before there was a choice.
    if line.run.settings.touch.is_empty() {
        "full".into()
    } else {
        line.run.settings.touch.as_str().into()
    }
}

fn list(list: List) -> &'static str {
    match list {
        List::Cells => "cells",
        List::Floors => "floors",
        List::Bare => "bare",
        List::Parts => "parts",
        List::StudyCells => "study_cells",
        List::Libraries => "library_cells",
    }
}

fn rhythm(rhythm: Rhythm) -> &'static str {
    match rhythm {
        Rhythm::Steady => "steady",
        Rhythm::Pace(_) => "pace",
        Rhythm::Gap(_) => "gap",
        Rhythm::Burst(_) => "burst",
        Rhythm::Clients(_) => "clients",
        Rhythm::Threads(..) => "threads",
        Rhythm::Start(_) => "start",
        Rhythm::Switches => "switches",
    }
}

/// The column with the figure that stands for the cell, as `Cell::headline` chooses it; the mean
/// where another program published nothing else.
fn statistic(line: &Line<'_>) -> Value {
    let cell: &Cell = line.cell;
    let mean = times(line).and_then(|times| times.mean);
    match (cell.headline(), cell.kind) {
        (Some(_), _) if cell.clients.is_some() => "calls_per_s".into(),
        (Some(_), Kind::Latency) => "p50_ns".into(),
        (Some(_), Kind::Throughput) => "messages_per_s".into(),
        (None, Kind::Latency) if mean.is_some() => "mean_ns".into(),
        (None, _) => Value::Null,
    }
}
