//! What both tables say alike: places, figures, what was not measured.

use super::grid::{clean, clip, print_wrapped};
use crate::report::number::{self, MISSING};
use crate::run::{Kind, Placement, Run};

/// Where both ends ran.
pub(super) fn place(placement: &Placement) -> String {
    let class = clean(&placement.class);
    match (placement.client_cpu, placement.server_cpu) {
        (Some(client), Some(server)) => {
            format!("Client on CPU {client}, server on CPU {server} ({class})")
        }
        _ => format!("Ends not pinned ({class})"),
    }
}

/// A figure, or a dash where there is none.
pub(super) fn figure(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| MISSING.to_owned(), format)
}

/// A time in microseconds, without the unit.
pub(super) fn micros(ns: Option<f64>) -> String {
    figure(ns.map(|ns| ns / 1e3), number::three_digits)
}

/// Adds what could not be measured, with the reasons.
pub(super) fn print_skipped(out: &mut String, run: &Run) {
    if run.skipped.is_empty() {
        return;
    }
    out.push_str("\nNot measured\n");
    for skipped in &run.skipped {
        let mut what = Vec::new();
        if let Some(kind) = skipped.kind {
            what.push(if kind == Kind::Latency { "latency" } else { "throughput" }.to_owned());
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
        print_wrapped(out, &label, &format!("{what}{}", clean(&skipped.reason)));
    }
}

/// Nearcall's own channel, which stands first.
pub(super) const OURS: &str = "shm";

/// Holds "floor-chunked-copy". A longer name is not one of ours.
pub(super) const NAME_COLUMNS_MAX: usize = 18;
