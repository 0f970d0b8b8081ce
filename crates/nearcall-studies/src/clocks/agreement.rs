//! How far the clocks agree over the same spans of busy work, which study 002 says is 0.5 %.
//!
//! All clocks are read at both ends of each span. A span counts only if nothing came between the
//! readings at an end: otherwise one clock would be blamed for an interrupt before the next.

use nearcall_os::clock;
use nearcall_os::tsc::Tsc;
use nearcall_results::findings::clocks::{ClockFinding, ClockName, Disagreement, SpanFinding};

use super::reader::Moment;
use super::resolution::increments;
use crate::stats;

/// Works through `count` spans of `span_ns` each. `None` if interrupted before the first ended, or
/// if none was undisturbed.
pub(super) fn measure(
    span_ns: u64,
    count: u32,
    tsc: Option<Tsc>,
    clocks: &[ClockFinding],
    interrupted: &dyn Fn() -> bool,
) -> Option<SpanFinding> {
    let mut spans = Vec::new();
    for _ in 0..count {
        // Asking takes longer than a short span.
        if spans.len().is_multiple_of(ASKED_EVERY) && interrupted() {
            break;
        }
        let begin = Moment::read(tsc.as_ref());
        let end_ns = begin.clock_gettime_ns.saturating_add(span_ns);
        while clock::monotonic_ns() < end_ns {
            increments(WORK);
        }
        let end = Moment::read(tsc.as_ref());
        spans.push(Span {
            times_ns: end.since_ns(&begin, tsc.as_ref()),
            width_ns: begin.width_ns.max(end.width_ns) as f64,
        });
    }
    let steps_ns = ClockName::ALL.map(|name| {
        let finding = clocks.iter().find(|finding| finding.name == name);
        finding.and_then(|finding| finding.granularity_ns).unwrap_or(0.0)
    });
    judge(span_ns as f64, &spans, steps_ns)
}

/// One span.
struct Span {
    /// By each clock.
    times_ns: [Option<f64>; 3],
    /// How long the readings took at the end that took longer.
    width_ns: f64,
}

fn judge(span_ns: f64, spans: &[Span], steps_ns: [f64; 3]) -> Option<SpanFinding> {
    let widths: Vec<f64> = spans.iter().map(|span| span.width_ns).collect();
    let usual_ns = stats::median(&widths)?;
    let quiet: Vec<&Span> =
        spans.iter().filter(|span| span.width_ns <= usual_ns * WIDTHS_MAX).collect();
    let pair = |(one, other): (usize, usize)| {
        let apart = |span: &&Span| {
            let (one, other) = (span.times_ns[one]?, span.times_ns[other]?);
            Some((one - other).abs() / ((one + other) / 2.0))
        };
        let apart: Option<Vec<f64>> = quiet.iter().map(apart).collect();
        let apart = apart?;
        Some(Disagreement {
            one: ClockName::ALL[one],
            other: ClockName::ALL[other],
            median_relative: stats::median(&apart)?,
            largest_relative: apart.iter().copied().fold(0.0, f64::max),
            step_relative: steps_ns[one].max(steps_ns[other]) / span_ns,
        })
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(SpanFinding {
        span_ns,
        spans: count(quiet.len()),
        disturbed: count(spans.len() - quiet.len()),
        readings_relative: usual_ns / span_ns,
        pairs: PAIRS.into_iter().filter_map(pair).collect(),
    })
}

/// Each with each, in the order of `ClockName::ALL`; the pair of the study first.
const PAIRS: [(usize, usize); 3] = [(0, 2), (0, 1), (2, 1)];

/// Readings at an end that take longer than this many times the usual were interrupted.
const WIDTHS_MAX: f64 = 2.0;

/// Some tens of nanoseconds between two looks at the clock.
const WORK: u64 = 16;

/// Spans between two questions whether to go on.
const ASKED_EVERY: usize = 10;

/// Length in nanoseconds and number; not quite a second in all.
pub(super) const SPANS: [(u64, u32); 6] = [
    (1_000, 1_000),
    (10_000, 1_000),
    (100_000, 400),
    (1_000_000, 100),
    (10_000_000, 20),
    (100_000_000, 5),
];

/// With `quick`.
pub(super) const SPANS_QUICK: [(u64, u32); 4] =
    [(1_000, 300), (10_000, 300), (100_000, 100), (1_000_000, 50)];

#[cfg(test)]
mod tests {
    use super::*;

    fn span(times_ns: [f64; 3], width_ns: f64) -> Span {
        Span { times_ns: times_ns.map(Some), width_ns }
    }

    #[test]
    fn the_distance_of_two_clocks_is_a_part_of_their_mean() {
        let mut spans = vec![
            span([1_000_000.0, 1_000_000.0, 1_001_000.0], 80.0),
            span([1_000_000.0, 999_000.0, 1_000_000.0], 80.0),
            span([1_000_000.0, 1_000_000.0, 1_000_000.0], 90.0),
            // An interrupt between two of its readings.
            span([1_000_000.0, 1_000_000.0, 1_009_000.0], 9_080.0),
        ];
        let found = judge(1_000_000.0, &spans, [1.0, 1_000.0, 0.5]).unwrap();
        assert_eq!((found.spans, found.disturbed), (3, 1));
        let [monotonic_tsc, monotonic_wall, _] = &found.pairs[..] else { panic!("{found:?}") };
        assert_eq!(
            (monotonic_tsc.one, monotonic_tsc.other),
            (ClockName::ClockGettime, ClockName::Tsc)
        );
        assert!((monotonic_tsc.largest_relative - 0.001).abs() < 1e-6, "{found:?}");
        assert_eq!(monotonic_tsc.median_relative, 0.0);
        assert!((monotonic_wall.largest_relative - 0.001).abs() < 1e-6, "{found:?}");
        assert_eq!(monotonic_wall.step_relative, 0.001);

        spans.iter_mut().for_each(|span| span.times_ns[2] = None);
        let found = judge(1_000_000.0, &spans, [1.0, 1_000.0, 0.0]).unwrap();
        assert_eq!(found.pairs.len(), 1);
        assert_eq!(judge(1_000.0, &[], [1.0; 3]), None);
    }
}
