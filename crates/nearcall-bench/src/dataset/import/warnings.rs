//! What is known to be wrong with an imported run, in sentences with counts.
//!
//! Always true: a defect is named if a cell of the run has it, and only then.

use super::archive::Archive;
use super::cells::{AT_STEP, Made};
use super::results::Results;
use crate::run::{Cell, Definition, Kind};

pub(super) fn warnings(archive: &Archive, results: &Results, made: &Made) -> Vec<String> {
    let mut found = vec![
        "measured by ipc-bench with its own implementations; no interval, no grade, no record of \
         load, clock frequency and sleep states"
            .to_owned(),
    ];
    let count = |is: &dyn Fn(&&Cell) -> bool| made.cells.iter().filter(is).count();
    let times = count(&|cell| cell.kind == Kind::Latency);
    let rates = made.cells.len() - times;
    if times > 0 {
        times_of(&mut found, made, times);
    }
    if rates > 0 {
        rates_of(&mut found, made, rates);
    }
    found.push(
        "no warm-up, memory not touched before, ends pinned only after set-up; each figure was \
         measured once"
            .to_owned(),
    );
    if !archive.files.contains_key("logs/cpuinfo") {
        found.push("no logs/cpuinfo: the machine is not known".to_owned());
    }
    if results.contradictions > 0 {
        found.push(format!(
            "{} headlines differ from the matrix or the headline before them, which count",
            results.contradictions
        ));
    }
    if let Some(first) = &results.first_refused {
        found.push(format!(
            "{} lines of results could not be read; the first: {first}",
            results.refused
        ));
    }
    if !made.skipped.is_empty() {
        let names: Vec<&str> =
            made.skipped.iter().take(NAMES_MAX).map(|skip| skip.mechanism.as_str()).collect();
        found.push(format!(
            "left out, since their figures have no known meaning: {}",
            names.join(", ")
        ));
    }
    if archive.left > 0 {
        found.push(format!("{} files of other forms were not read", archive.left));
    }
    found
}

fn times_of(found: &mut Vec<String>, made: &Made, times: usize) {
    let count = |is: &dyn Fn(&&Cell) -> bool| made.cells.iter().filter(is).count();
    let at_step = count(&|cell| cell.tags.iter().any(|tag| tag == AT_STEP));
    found.push(format!(
        "times were printed in steps of one microsecond; {at_step} of {times} are 0 or 1 µs and \
         say only that (marked {AT_STEP})"
    ));
    let two = count(&|cell| cell.definition == Definition::TwoRtt);
    if two > 0 {
        found.push(format!(
            "{two} times of mempipe count two round trips and no payload; they stand apart from \
             those of one"
        ));
    }
    found.push(
        "times are arithmetic means: one interruption moves them, and there is no median"
            .to_owned(),
    );
    found.push(
        "in matrices the line is taken for the receiver's CPU and the column for the sender's"
            .to_owned(),
    );
}

fn rates_of(found: &mut Vec<String>, made: &Made, rates: usize) {
    let count = |is: &dyn Fn(&&Cell) -> bool| made.cells.iter().filter(is).count();
    let verified = count(&|cell| cell.shape.contains("+verify"));
    found.push(format!(
        "rates include writing each message, and {verified} of {rates} also checking it, which \
         alone can cost four times the transfer; they were rounded down to whole Mb/s"
    ));
    let batched = |cell: &&Cell| {
        let name = cell.mechanism.strip_prefix(super::PREFIX);
        cell.kind == Kind::Throughput && name.is_some_and(|name| name.starts_with("mempipe"))
    };
    if count(&batched) > 0 {
        found.push(
            "rates of mempipe gain from publishing messages in batches, which its times do not"
                .to_owned(),
        );
    }
}

/// Names of tests that one sentence lists.
const NAMES_MAX: usize = 10;
