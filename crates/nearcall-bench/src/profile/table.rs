//! The text of a profile for a person at a terminal.
//!
//! **Invariants:** a function of the stored profile and the [`Style`] alone.
//!
//! **Not here:** printing.

use std::collections::BTreeMap;

use crate::profile::result::{CopyCounts, CountedCall, CountedCalls, Profile, Used};
use crate::report::document::Document;
use crate::report::lines::Style;
use crate::report::number;
use crate::report::table::class_words;
use crate::report::table::grid::{Align, Grid};
use crate::run::PerEnd;

/// Renders a profile. Ends with a line break.
#[must_use]
pub fn table(profile: &Profile, style: Style) -> String {
    let mut out = Document::default();
    head(&mut out, profile);
    used(&mut out, &profile.used);
    if let Some(calls) = &profile.calls {
        system_calls(&mut out, calls);
    }
    copies(&mut out, &profile.copies);
    if let Some(stacks) = &profile.stacks {
        let PerEnd { client, server } = stacks.samples;
        out.part(format!("Stacks of {client} samples of the client, {server} of the server"));
        out.line(format!("  {}", stacks.folded));
    }
    if !profile.missing.is_empty() {
        out.part("Not looked at");
        for missing in &profile.missing {
            let how = if missing.how.is_empty() { "" } else { "; to permit it: " };
            let text = format!("{}: {}{how}{}", missing.what, missing.why, missing.how);
            item(&mut out, &text);
        }
    }
    if !profile.warnings.is_empty() {
        out.part("Keep in mind");
        profile.warnings.iter().for_each(|warning| item(&mut out, warning));
    }
    out.answer(answer(profile));
    out.text(style)
}

fn head(out: &mut Document, profile: &Profile) {
    let place = &profile.placement;
    let class = class_words(&place.class);
    let cpus = match (place.client_cpu, place.server_cpu) {
        (Some(client), Some(server)) => format!("CPUs {client} and {server} ({class})"),
        _ => class,
    };
    let size = number::size(profile.message_bytes);
    let Profile { mechanism, shape, wait, .. } = profile;
    out.title(format!("{mechanism}: {shape} of {size}, both ends wait by {wait}, {cpus}"));
    let Some(rtt) = &profile.rtt_ns else { return };
    let median = rtt.p50.map_or_else(|| number::MISSING.to_owned(), number::time);
    let interval = rtt.p50_ci95.map_or_else(String::new, |[low, high]| {
        format!(", 95 %: {} to {}", number::time(low), number::time(high))
    });
    let exchanges = profile.exchanges;
    out.line(format!("Round trip {median} (median of {exchanges}, undisturbed{interval})"));
}

fn used(out: &mut Document, used: &PerEnd<Used>) {
    let mut table = columns(out, "Per round trip", &["client", "server"]);
    let mut row = |name: &str, of: fn(&Used) -> Option<f64>, shown: fn(f64) -> String| {
        let cell = |end| of(end).map_or_else(|| number::MISSING.to_owned(), shown);
        table.row(vec![name.to_owned(), cell(&used.client), cell(&used.server)]);
    };
    row("CPU time", |used| used.cpu_ns, number::time);
    row("  in user space, by ticks", |used| used.user_ns, number::time);
    row("  in the kernel, by ticks", |used| used.system_ns, number::time);
    row("sleeps, each ended by a wake-up", |used| used.sleeps, times);
    row("times the CPU was taken away", |used| used.involuntary_switches, times);
    row("page faults", |used| used.page_faults, times);
    row("moves to another CPU", |used| used.migrations, times);
    out.grid(table);
}

fn system_calls(out: &mut Document, calls: &CountedCalls) {
    let title = format!("System calls, counted over {}", calls.exchanges);
    let PerEnd { client, server } = &calls.ends;
    let declares = client.iter().any(|call| call.declared.is_some());
    let declared = if declares { "declared" } else { "" };
    let mut table = columns(out, &title, &["client", "server", declared]);
    let mut names: BTreeMap<&str, Option<[f64; 2]>> = BTreeMap::new();
    for call in client.iter().chain(server) {
        names.insert(&call.name, call.declared);
    }
    let count = |end: &[CountedCall], name: &str| {
        end.iter().find(|call| call.name == name).map_or(0.0, |call| call.per_exchange)
    };
    let mut seldom = 0;
    for (name, declared) in names {
        let counts = (count(client, name), count(server, name));
        if declared.is_none() && counts.0.max(counts.1) < SELDOM {
            seldom += 1;
            continue;
        }
        let declared = declared.map_or_else(String::new, range);
        table.row(vec![name.to_owned(), times(counts.0), times(counts.1), declared]);
    }
    if seldom > 0 {
        table.note(format!("hardly ever, of other names: {seldom}"));
    }
    table.row(vec!["all".to_owned(), times(sum(client)), times(sum(server)), String::new()]);
    out.grid(table);
}

/// System calls of one end per exchange.
fn sum(end: &[CountedCall]) -> f64 {
    end.iter().map(|call| call.per_exchange).sum()
}

/// Where a round trip goes: CPU time, sleeps and system calls of both ends.
fn answer(profile: &Profile) -> String {
    let PerEnd { client, server } = &profile.used;
    let both = |of: fn(&Used) -> Option<f64>| of(client).zip(of(server)).map(|(a, b)| a + b);
    let calls =
        profile.calls.as_ref().map(|calls| sum(&calls.ends.client) + sum(&calls.ends.server));
    let parts = [
        both(|used| used.cpu_ns).map(|ns| format!("{} of CPU time", number::time(ns))),
        both(|used| used.sleeps).map(|sleeps| format!("{} sleeps", times(sleeps))),
        calls.map(|calls| format!("{} system calls", times(calls))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    let median = profile.rtt_ns.as_ref().and_then(|rtt| rtt.p50);
    let median = median.map_or_else(String::new, |ns| format!(" of {}", number::time(ns)));
    let mechanism = &profile.mechanism;
    format!("A round trip{median} over {mechanism} takes both ends {}.", parts.join(", "))
}

fn range([least, most]: [f64; 2]) -> String {
    match most <= least {
        true => format!("{least}"),
        false => format!("{least} to {most}"),
    }
}

fn copies(out: &mut Document, copies: &CopyCounts) {
    let mut table = columns(out, "Copies of the payload", &["one way", "and back", "declared"]);
    let counted = |count: Option<f64>| count.map_or_else(|| number::MISSING.to_owned(), times);
    let (one_way, both) = (counted(copies.kernel_one_way), counted(copies.kernel_there_and_back));
    let declared = copies.declared_kernel.to_string();
    table.row(vec!["by the kernel, counted by bytes".to_owned(), one_way, both, declared]);
    let (inside, ends) = (copies.declared_inside, copies.declared_send + copies.declared_receive);
    let mut declared = |name: &str, count: u8| {
        table.row(vec![name.to_owned(), String::new(), String::new(), count.to_string()]);
    };
    declared("in user space, within the channel", inside);
    declared("in user space, by send and receive", ends);
    declared("all one way, written and read in place", copies.in_place());
    declared("all one way, by send and receive", copies.by_value());
    out.grid(table);
    out.note(
        "Counted as in the study `motorola`, whose marshalled call over a socket is copied 6 times \
         one way (marshalled, 2 by write, 2 by read, unmarshalled), and 2 times over shared memory.",
    );
}

/// How often per exchange.
fn times(count: f64) -> String {
    // No minus before a zero.
    format!("{:.2}", if count.abs() < 0.005 { 0.0 } else { count })
}

/// A table of names and figures to the right of them, below a heading.
fn columns(out: &mut Document, title: &str, heads: &[&str]) -> Grid {
    out.part(title);
    let mut columns = vec![("", Align::Left, NAME)];
    columns.extend(heads.iter().map(|head| (*head, Align::Right, CELL)));
    Grid::new(&columns)
}

/// An indented paragraph whose later lines are indented further.
fn item(out: &mut Document, text: &str) {
    out.line(format!("  {text}"));
}

/// What would be shown as 0.00: made once, such as when an adaptive end measures what waking costs.
const SELDOM: f64 = 0.005;

/// Widths of the first column and of the others.
const NAME: usize = 40;
const CELL: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::result::{Missing, SCHEMA, Stacks};
    use crate::run::{Machine, Placement, RttNs, Tool};

    fn invented() -> Profile {
        let call = |name: &str, per_exchange, declared| CountedCall {
            name: name.to_owned(),
            per_exchange,
            declared,
        };
        let used = Used { cpu_ns: Some(1_234.0), sleeps: Some(0.998), ..Used::default() };
        Profile {
            schema: SCHEMA.to_owned(),
            tool: Tool::default(),
            machine: Machine::default(),
            arguments: Vec::new(),
            mechanism: "pipe".to_owned(),
            message_bytes: 1_024,
            shape: "echo".to_owned(),
            wait: "block".to_owned(),
            placement: Placement {
                class: "same_llc".to_owned(),
                client_cpu: Some(0),
                server_cpu: Some(1),
            },
            rtt_ns: Some(RttNs {
                p50: Some(9_876.0),
                p50_ci95: Some([9_800.0, 9_900.0]),
                ..RttNs::default()
            }),
            exchanges: 12_345,
            used: PerEnd { client: used, server: Used::default() },
            calls: Some(CountedCalls {
                exchanges: 500,
                ends: PerEnd {
                    client: vec![call("read", 1.0, Some([1.0, 1.0])), call("brk", -0.001, None)],
                    server: vec![call("futex", 1.8, Some([0.0, 2.0]))],
                },
            }),
            copies: CopyCounts {
                kernel_one_way: Some(2.016),
                declared_kernel: 2,
                declared_send: 1,
                declared_receive: 1,
                ..CopyCounts::default()
            },
            stacks: Some(Stacks {
                folded: "profile-pipe.folded".to_owned(),
                samples: PerEnd { client: 10, server: 20 },
            }),
            missing: vec![Missing {
                what: "stacks".to_owned(),
                why: "perf has no permission to look ".repeat(4),
                how: "ask its owner".to_owned(),
            }],
            warnings: vec!["a warning ".repeat(20)],
        }
    }

    #[test]
    fn a_profile_fits_every_terminal_and_says_what_is_missing() {
        for width in 40..=200 {
            let text = table(&invented(), Style::new(Some(width), false));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert_eq!(line.trim_end(), line);
            }
        }
        let text = table(&invented(), Style::new(Some(100), false));
        for part in [
            "pipe: echo of 1 KiB, both ends wait by block, CPUs 0 and 1 (cores of one cache)",
            "Round trip 9.88 µs (median of 12345, undisturbed, 95 %: 9.80 µs to 9.90 µs)",
            "0 to 2\n",
            "hardly ever, of other names: 1\n",
            "to permit it: ask its owner",
            "Keep in mind\n",
            "2.02",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("-0.00"), "{text}");
    }

    #[test]
    fn a_profile_survives_being_stored() {
        let profile = invented();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        assert!(json.starts_with("{\"schema\":\"nearcall.profile/2\""), "{json}");
    }

    #[test]
    fn copies_add_up_as_the_study_counts_them() {
        let shared = CopyCounts { declared_send: 1, declared_receive: 1, ..CopyCounts::default() };
        assert_eq!((shared.in_place(), shared.by_value()), (0, 2));
        assert_eq!(invented().copies.by_value(), 4);
    }
}
