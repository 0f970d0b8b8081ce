//! The text of a profile for a person at a terminal: 100 columns.
//!
//! A function of the stored profile. Printing is left to the caller.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::profile::result::{
    CopyCounts, CountedCall, CountedCalls, HardwareCount, Profile, Stacks, Used,
};
use crate::report::number;
use crate::run::PerEnd;

/// Renders a profile. Ends with a line break.
#[must_use]
pub fn table(profile: &Profile) -> String {
    let mut out = String::new();
    head(&mut out, profile);
    used(&mut out, &profile.used);
    if let Some(calls) = &profile.calls {
        system_calls(&mut out, calls);
    }
    copies(&mut out, &profile.copies);
    if let Some(counts) = &profile.hardware {
        hardware(&mut out, counts);
    }
    if let Some(stacks) = &profile.stacks {
        tops(&mut out, stacks);
    }
    if !profile.missing.is_empty() {
        out.push_str("\nNot looked at\n");
        for missing in &profile.missing {
            let how = if missing.how.is_empty() { "" } else { "; to permit it: " };
            let text = format!("{}: {}{how}{}", missing.what, missing.why, missing.how);
            wrap(&mut out, &text);
        }
    }
    if !profile.warnings.is_empty() {
        out.push_str("\nKeep in mind\n");
        profile.warnings.iter().for_each(|warning| wrap(&mut out, warning));
    }
    out
}

fn head(out: &mut String, profile: &Profile) {
    let place = &profile.placement;
    let cpus = match (place.client_cpu, place.server_cpu) {
        (Some(client), Some(server)) => format!("CPUs {client} and {server} ({})", place.class),
        _ => place.class.clone(),
    };
    let size = number::size(profile.message_bytes);
    let Profile { mechanism, shape, wait, .. } = profile;
    line(out, &format!("{mechanism}: {shape} of {size}, both ends wait by {wait}, {cpus}"));
    let Some(rtt) = &profile.rtt_ns else { return };
    let median = rtt.p50.map_or_else(|| number::MISSING.to_owned(), number::time);
    let interval = rtt.p50_ci95.map_or_else(String::new, |[low, high]| {
        format!(", 95 %: {} to {}", number::time(low), number::time(high))
    });
    let exchanges = profile.exchanges;
    line(out, &format!("Round trip {median} (median of {exchanges}, undisturbed{interval})"));
}

fn used(out: &mut String, used: &PerEnd<Used>) {
    columns(out, "\nPer round trip", &["client", "server"]);
    let mut row = |name: &str, of: fn(&Used) -> Option<f64>, shown: fn(f64) -> String| {
        let cell = |end| of(end).map_or_else(|| number::MISSING.to_owned(), shown);
        columns(out, &format!("  {name}"), &[&cell(&used.client), &cell(&used.server)]);
    };
    row("CPU time", |used| used.cpu_ns, number::time);
    row("  in user space, by ticks", |used| used.user_ns, number::time);
    row("  in the kernel, by ticks", |used| used.system_ns, number::time);
    row("sleeps, each ended by a wake-up", |used| used.sleeps, times);
    row("times the CPU was taken away", |used| used.involuntary_switches, times);
    row("page faults", |used| used.page_faults, times);
    row("moves to another CPU", |used| used.migrations, times);
}

fn system_calls(out: &mut String, calls: &CountedCalls) {
    let title = format!("\nSystem calls, counted over {}", calls.exchanges);
    let PerEnd { client, server } = &calls.ends;
    let declares = client.iter().any(|call| call.declared.is_some());
    columns(out, &title, &["client", "server", if declares { "declared" } else { "" }]);
    let mut names: BTreeMap<&str, Option<[f64; 2]>> = BTreeMap::new();
    for call in client.iter().chain(server) {
        names.insert(&call.name, call.declared);
    }
    let count = |end: &[CountedCall], name: &str| {
        end.iter().find(|call| call.name == name).map_or(0.0, |call| call.per_exchange)
    };
    for (name, declared) in names {
        let declared = declared.map_or_else(String::new, range);
        let (client, server) = (times(count(client, name)), times(count(server, name)));
        columns(out, &format!("  {name}"), &[&client, &server, &declared]);
    }
    let all = |end: &[CountedCall]| times(end.iter().map(|call| call.per_exchange).sum());
    columns(out, "  all", &[&all(client), &all(server)]);
}

fn range([least, most]: [f64; 2]) -> String {
    match most <= least {
        true => format!("{least}"),
        false => format!("{least} to {most}"),
    }
}

fn copies(out: &mut String, copies: &CopyCounts) {
    columns(out, "\nCopies of the payload", &["one way", "and back", "declared"]);
    let counted = |count: Option<f64>| count.map_or_else(|| number::MISSING.to_owned(), times);
    let (one_way, both) = (counted(copies.kernel_one_way), counted(copies.kernel_there_and_back));
    let declared = copies.declared_kernel.to_string();
    columns(out, "  by the kernel, counted by bytes", &[&one_way, &both, &declared]);
    let (inside, ends) = (copies.declared_inside, copies.declared_send + copies.declared_receive);
    let mut declared = |name: &str, count: u8| {
        columns(out, name, &["", "", &count.to_string()]);
    };
    declared("  in user space, within the channel", inside);
    declared("  in user space, by send and receive", ends);
    declared("  all one way, written and read in place", copies.in_place());
    declared("  all one way, by send and receive", copies.by_value());
    wrap(
        out,
        "Counted as in the study `motorola`, whose marshalled call over a socket is copied 6 times \
         one way (marshalled, 2 by write, 2 by read, unmarshalled), and 2 times over shared memory.",
    );
}

fn hardware(out: &mut String, counts: &PerEnd<Vec<HardwareCount>>) {
    columns(out, "\nHardware counters", &["client", "server"]);
    for (client, server) in counts.client.iter().zip(&counts.server) {
        let shown = |count: &HardwareCount| number::three_digits(count.per_exchange);
        columns(out, &format!("  {}", client.event), &[&shown(client), &shown(server)]);
    }
}

fn tops(out: &mut String, stacks: &Stacks) {
    let PerEnd { client, server } = stacks.samples;
    let event = &stacks.event;
    line(out, &format!("\nWhere samples of {event} were ({client} of the client, {server})"));
    for (end, top) in [("client", &stacks.top.client), ("server", &stacks.top.server)] {
        for hot in top {
            let share = 100.0 * hot.share;
            let head = format!("  {end}  {share:5.1} %  ");
            let left = COLUMNS.saturating_sub(head.chars().count());
            let function: String = hot.function.chars().take(left).collect();
            line(out, &(head + &function));
        }
    }
    line(out, &format!("  Stacks: {}", stacks.folded));
    line(out, &format!("  Flame graph: {}", stacks.flame_graph));
}

/// How often per exchange.
fn times(count: f64) -> String {
    // No minus before a zero.
    format!("{:.2}", if count.abs() < 0.005 { 0.0 } else { count })
}

/// A name and figures to the right of it.
fn columns(out: &mut String, name: &str, cells: &[&str]) {
    let (breaks, name) = match name.strip_prefix('\n') {
        Some(name) => ("\n", name),
        None => ("", name),
    };
    let mut text = format!("{breaks}{name:<NAME$}");
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(text, "{cell:>CELL$}");
    }
    line(out, &text);
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

/// An indented paragraph.
fn wrap(out: &mut String, text: &str) {
    let mut row = String::from(" ");
    for word in text.split_whitespace() {
        if row.len() > 1 && row.chars().count() + 1 + word.chars().count() > COLUMNS {
            line(out, &row);
            row = String::from("   ");
        }
        row.push(' ');
        row.push_str(word);
    }
    line(out, &row);
}

/// The width of a terminal's line that is asked for.
const COLUMNS: usize = 100;

/// Widths of the first column and of the others.
const NAME: usize = 44;
const CELL: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::result::{Hot, Missing, SCHEMA};
    use crate::run::{Machine, Placement, RttNs, Tool};

    fn invented() -> Profile {
        let call = |name: &str, per_exchange, declared| CountedCall {
            name: name.to_owned(),
            per_exchange,
            declared,
        };
        let hot = Hot { function: "finish_task_switch_[k]".repeat(9), share: 0.25 };
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
            hardware: None,
            stacks: Some(Stacks {
                event: "cpu-clock".to_owned(),
                folded: "profile-pipe.folded".to_owned(),
                flame_graph: "profile-pipe.svg".to_owned(),
                samples: PerEnd { client: 10, server: 20 },
                top: PerEnd { client: vec![hot.clone()], server: vec![hot] },
            }),
            missing: vec![Missing {
                what: "hardware counters".to_owned(),
                why: "this machine has no such counter ".repeat(4),
                how: "use another".to_owned(),
            }],
            warnings: vec!["a warning ".repeat(20)],
        }
    }

    #[test]
    fn a_profile_fits_100_columns_and_says_what_is_missing() {
        let text = table(&invented());
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
            assert_eq!(line.trim_end(), line);
        }
        for part in [
            "pipe: echo of 1 KiB, both ends wait by block, CPUs 0 and 1 (same_llc)",
            "Round trip 9.88 µs (median of 12345, undisturbed, 95 %: 9.80 µs to 9.90 µs)",
            "0 to 2\n",
            "to permit it: use another",
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
        assert!(json.starts_with("{\"schema\":\"nearcall.profile/1\""), "{json}");
    }

    #[test]
    fn copies_add_up_as_the_study_counts_them() {
        let shared = CopyCounts { declared_send: 1, declared_receive: 1, ..CopyCounts::default() };
        assert_eq!((shared.in_place(), shared.by_value()), (0, 2));
        assert_eq!(invented().copies.by_value(), 4);
    }
}
