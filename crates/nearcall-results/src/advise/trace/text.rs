//! A recording as a person reads it.

use super::{Format, Recording};
use crate::report::lines::{Style, Writer};
use crate::report::number;
use crate::report::table::grid::{Align, Grid};

/// The recorded traffic: how much, how often, and the sizes by direction.
#[must_use]
pub fn summary(recording: &Recording, style: Style) -> String {
    let mut out = Writer::new(style);
    out.title("Recorded traffic");
    let format = match recording.format {
        Format::Csv => "a table",
        Format::Strace => "strace",
    };
    let messages = recording.messages;
    out.line(&format!("  {messages} messages in {:.3} s, from {format}", recording.span_s));
    if let Some(answered) = recording.answered {
        out.line(&format!("  {:.0} % of them were answered", 100.0 * answered));
    }
    if let Some(rate) = recording.rate_per_s {
        let most = recording.busiest_second;
        out.line(&format!("  busiest stream: {rate:.1} per second, {most} in its busiest second"));
    }
    for stream in recording.streams.iter().filter(|stream| stream.pid > 0) {
        let does = if stream.asks { "asks" } else { "answers" };
        out.line(&format!(
            "  thread {} {does} on descriptor {}: {} messages, {} answered",
            stream.pid, stream.descriptor, stream.messages, stream.answered
        ));
    }
    out.blank();
    let columns = ["from", "calls", "one-way", "share"].map(|name| (name, Align::Right, 0));
    let mut grid = Grid::new(&columns).compact();
    for range in &recording.ranges {
        let share = 100.0 * (range.calls + range.one_way) as f64 / messages as f64;
        grid.row(vec![
            number::size(range.from_bytes),
            range.calls.to_string(),
            range.one_way.to_string(),
            format!("{share:.0} %"),
        ]);
    }
    grid.print(&mut out);
    out.finish()
}
