//! The columns of the flat table: for each its name, type, meaning and value.

use serde_json::Value;

use super::{Column, Get, Holds, Line};
use crate::run::fact::{self, Fact};
use crate::run::{Rhythm, RttNs};

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
    text("run_file", "Where the run lies in a data set; its name has a hash of it", |l| {
        l.run_file.into()
    }),
    text("run_kind", "What was measured: tour, calls, waits, matrix, studies and others", |l| {
        crate::dataset::kind_of_run(l.run).into()
    }),
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
        l.key.list.name().into()
    }),
    text("kind", "latency or throughput", |l| l.key.kind.name().into()),
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
    fact(&fact::P50),
    end("p50_ci95_low_ns", "The median's 95 % confidence interval: from", &fact::P50, 0),
    end("p50_ci95_high_ns", "The median's 95 % confidence interval: to", &fact::P50, 1),
    fact(&fact::P90),
    fact(&fact::P99),
    fact(&fact::P999),
    fact(&fact::P9999),
    whole("max_ns", "The longest time", |l| times(l).and_then(|times| times.max).into()),
    fact(&fact::MEAN),
    // Rates.
    fact(&fact::MESSAGES),
    end("messages_per_s_ci95_low", FROM, &fact::MESSAGES, 0),
    end("messages_per_s_ci95_high", TO, &fact::MESSAGES, 1),
    fact(&fact::BYTES),
    fact(&fact::BITS_PER_CPU),
    fact(&fact::CALLS),
    end("calls_per_s_ci95_low", FROM, &fact::CALLS, 0),
    end("calls_per_s_ci95_high", TO, &fact::CALLS, 1),
    // Costs and bounds.
    fact(&fact::CPU_CLIENT),
    fact(&fact::CPU_SERVER),
    fact(&fact::SLEEPS_CLIENT),
    fact(&fact::SLEEPS_SERVER),
    text("floor", "The floor that it is compared with", |l| l.cell.floor.as_deref().into()),
    fact(&fact::TO_FLOOR),
    fact(&fact::TO_BARE),
];

const FROM: &str = "Its 95 % confidence interval: from";
const TO: &str = "Its 95 % confidence interval: to";

type Own = fn(&Line<'_>) -> Value;

const fn text(name: &'static str, about: &'static str, value: Own) -> Column {
    Column { name, holds: Holds::Text, about, value: Get::Own(value) }
}

const fn whole(name: &'static str, about: &'static str, value: Own) -> Column {
    Column { name, holds: Holds::Whole, about, value: Get::Own(value) }
}

const fn truth(name: &'static str, about: &'static str, value: Own) -> Column {
    Column { name, holds: Holds::Truth, about, value: Get::Own(value) }
}

const fn fact(fact: &'static Fact) -> Column {
    Column { name: fact.name, holds: Holds::Real, about: fact.about, value: Get::Fact(fact) }
}

const fn end(name: &'static str, about: &'static str, fact: &'static Fact, which: usize) -> Column {
    Column { name, holds: Holds::Real, about, value: Get::End(fact, which) }
}

fn times<'a>(line: &Line<'a>) -> Option<&'a RttNs> {
    line.cell.rtt_ns.as_ref()
}

/// The text, or nothing if it is empty.
fn named(text: &str) -> Value {
    Some(text).filter(|text| !text.is_empty()).into()
}

fn touch(line: &Line<'_>) -> Value {
    // Runs of before there was a choice.
    if line.run.settings.touch.is_empty() {
        "full".into()
    } else {
        line.run.settings.touch.as_str().into()
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

/// The column with the figure that stands for the cell, as `Cell::headline` chooses it.
fn statistic(line: &Line<'_>) -> Value {
    let fact = line.cell.main_fact();
    (fact.of)(line.cell).map(|_| fact.name).into()
}
