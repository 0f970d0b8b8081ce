//! The claims of study 004: pipes, shared memory with a semaphore, and UNIX sockets, while other
//! work keeps each CPU 35 % busy.
//!
//! The study prints no figures, only limits, so each claim is judged at all sizes that were
//! measured on its side of the limit.

use std::ops::RangeBounds;

use crate::claims::rule::{Check, Rule, at_least, at_most, each, less, once, rises};
use crate::claims::term::{Domain, SPREAD, alone, latency, over};
use crate::evidence::Quantity;

pub(crate) fn rules() -> Vec<Rule> {
    let name = "slowest / quickest size of pipe";
    let sizes = Domain::measured(3, 64..=12_000);
    let spread = over("sizes", SPREAD, name, [latency(PIPE)], sizes);
    let follows = |one| rises(one, Domain::measured(3, ..));
    let set_up = alone(Some(Quantity::SetUp), PIPE).named("set-up of a pipe");
    let transfer = latency(PIPE).named("a transfer under 35 % load");
    let slowest = [PIPE, UNIX].map(|other| less(latency(other), latency(SEMAPHORE)));
    vec![
        Rule::all("S01", [once([at_most(1.2, spread)])]),
        Rule::all("S02", [once([SEMAPHORE, UNIX].map(follows))]),
        everywhere("S03", ..4600, quicker(SEMAPHORE, [PIPE, UNIX])),
        everywhere("S04", 4601.., slowest),
        everywhere("S05", 5100..=12_000, quicker(UNIX, [PIPE, SEMAPHORE])),
        everywhere("S06", 12_001.., quicker(PIPE, [UNIX, SEMAPHORE])),
        Rule::all("S07", [each([1024], [at_least(2.0, set_up / transfer)])]),
    ]
}

/// At all sizes in `range` at which all three were measured.
fn everywhere(id: &'static str, range: impl RangeBounds<u64>, checks: [Check; 2]) -> Rule {
    let group = each(Domain::measured(1, range), checks);
    Rule::all(id, [group.clone()]).points("sizes", group)
}

fn quicker(one: &'static str, others: [&'static str; 2]) -> [Check; 2] {
    others.map(|other| less(latency(one), latency(other)))
}

const PIPE: &str = "pipe";
const UNIX: &str = "unix";
const SEMAPHORE: &str = "shm_semaphore";
