//! What is known to be wrong with an imported run, in sentences with counts.
//!
//! **Invariants:** a defect is named if a cell of the run has it, and only then.

use super::PREFIX;
use super::archive::Archive;
use super::cells::{AT_STEP, Made};
use super::results::Results;
use crate::run::{Cell, Definition, Kind};

pub(super) fn warnings(archive: &Archive, results: &Results, made: &Made) -> Vec<String> {
    let count = |is: &dyn Fn(&&Cell) -> bool| made.cells.iter().filter(is).count();
    let times = count(&|cell| cell.kind == Kind::Latency);
    let rates = made.cells.len() - times;
    let at_step = count(&|cell| cell.tags.iter().any(|tag| tag == AT_STEP));
    let two = count(&|cell| cell.definition == Definition::TwoRtt);
    let verified = count(&|cell| cell.shape.contains("+verify"));
    let batched = count(&|cell| {
        let name = cell.mechanism.strip_prefix(PREFIX);
        cell.kind == Kind::Throughput && name.is_some_and(|name| name.starts_with("mempipe"))
    });
    let (contradictions, refused, left) = (results.contradictions, results.refused, archive.left);
    let first = results.first_refused.as_ref().map(ToString::to_string).unwrap_or_default();
    let skipped = made.skipped.iter().take(NAMES_MAX).map(|skip| skip.mechanism.as_str());
    let names = skipped.collect::<Vec<_>>().join(", ");
    let all = [
        (true, OF_ALL.to_owned()),
        (
            times > 0,
            format!(
                "times were printed in steps of one microsecond; {at_step} of {times} are 0 or 1 \
                 µs and say only that (marked {AT_STEP})"
            ),
        ),
        (
            two > 0,
            format!(
                "{two} times of mempipe count two round trips and no payload; they stand apart \
                 from those of one"
            ),
        ),
        (times > 0, OF_MEANS.to_owned()),
        (times > 0, OF_MATRICES.to_owned()),
        (
            rates > 0,
            format!(
                "rates include writing each message, and {verified} of {rates} also checking it, \
                 which alone can cost four times the transfer; they were rounded down to whole \
                 Mb/s"
            ),
        ),
        (batched > 0, OF_BATCHES.to_owned()),
        (true, OF_METHOD.to_owned()),
        (!archive.files.contains_key("logs/cpuinfo"), OF_CPUINFO.to_owned()),
        (
            contradictions > 0,
            format!(
                "{contradictions} headlines differ from the matrix or the headline before them, \
                 which count"
            ),
        ),
        (refused > 0, format!("{refused} lines of results could not be read; the first: {first}")),
        (
            !names.is_empty(),
            format!("left out, since their figures have no known meaning: {names}"),
        ),
        (left > 0, format!("{left} files of other forms were not read")),
    ];
    all.into_iter().filter_map(|(is_so, text)| is_so.then_some(text)).collect()
}

const OF_ALL: &str = "measured by ipc-bench with its own implementations; no interval, no grade, \
                      no record of load, clock frequency and sleep states";
const OF_MEANS: &str =
    "times are arithmetic means: one interruption moves them, and there is no median";
const OF_MATRICES: &str =
    "in matrices the line is taken for the receiver's CPU and the column for the sender's";
const OF_BATCHES: &str =
    "rates of mempipe gain from publishing messages in batches, which its times do not";
const OF_METHOD: &str = "no warm-up, memory not touched before, ends pinned only after set-up; \
                         each figure was measured once";
const OF_CPUINFO: &str = "no logs/cpuinfo: the machine is not known";

/// Names of tests that one sentence lists.
const NAMES_MAX: usize = 10;
