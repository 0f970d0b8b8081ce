//! Five published evaluations of IPC on Linux, which can be repeated here.
//!
//! A [`Study`] is one of them. What they printed is in `published.rs`, what was measured of them on
//! a machine in `evidence.rs`, the verdicts on what they claim in `claims.rs`. How each is repeated
//! is in `protocol.rs`; `reproduce.rs` does it.
//! The mechanisms that only studies used are in `methods`; the harness measures them as
//! [`Methods`](methods::Methods), given by the program (`peer::run_with` of `nearcall-bench`).
//! **Not here:** launches, loops and noise (`nearcall-bench`).
//!
//! Data flows one way: `data/*.csv` (printed figures and claims, read by `published.rs`) and the
//! CPUs of this machine (`cpu_layout.rs`) give the cells (`protocol/`); the runner measures them;
//! `collect.rs` turns cells into evidence, `tables.rs` into tables beside the printed figures;
//! `claims/` judges the evidence. A claim is a row: figures as terms (`claims/term.rs`), compared
//! by one of a dozen predicates (`claims/rule.rs`). `stored.rs` judges a stored run again, so that
//! a corrected row corrects it. Exchanges are counted, not timed, and have no warm-up
//! (`exchange/exact.rs` of `nearcall-bench`), as in the papers.
//!
//! `clocks/` compares clock_gettime, gettimeofday and the processor's counter. All clocks read the
//! same sleeps and spans, so that common error (the wake-up) is separated from the error of each
//! clock.
//!
//! **Invariant:** the harness knows no protocol, no printed figure and no claim. *Checked by*
//! `crates_depend_one_way_and_share_lints`, since only `crates/nearcall-cli` depends on this crate.
#![forbid(unsafe_code)]

mod background;
pub mod claims;
pub mod clocks;
mod collect;
mod cpu_layout;
pub mod evidence;
pub mod figure;
pub mod methods;
mod protocol;
pub mod published;
pub mod reproduce;
pub mod stored;
mod tables;

// The harness and what it stores: modules of this crate use them by these names.
use std::fmt;
use std::str::FromStr;

use nearcall_bench::{bench_plan, cell, cell_list, conditions, footprint, machine, runner, timers};
use nearcall_results::{report, run, stats};
use serde::{Deserialize, Serialize};

/// A published evaluation of IPC on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// 000: calls in an event-driven embedded platform, and what shared memory would save.
    Motorola,
    /// 001: throughput and latency of rings, pipes and sockets, idle and under load.
    Enea,
    /// 002: pipes, TCP and a bounded buffer; the minimum of 100 round trips.
    WisconsinLatency,
    /// 003: pipes, TCP and shared memory with semaphores.
    WisconsinEvaluation,
    /// 004: pipes, shared memory and UNIX sockets while other work runs.
    ShortComparison,
}

impl Study {
    /// All studies, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Motorola,
        Self::Enea,
        Self::WisconsinLatency,
        Self::WisconsinEvaluation,
        Self::ShortComparison,
    ];

    /// Number, name and title of each, in the order above.
    const TEXTS: [[&'static str; 3]; 5] = [
        ["000", "motorola", "calls in an embedded platform (Motorola, a thesis of Linköping)"],
        ["001", "enea", "throughput and latency, idle and under load (Enea)"],
        ["002", "wisconsin-latency", "minimal latency of three mechanisms (Wisconsin)"],
        ["003", "wisconsin-evaluation", "latency and throughput of three mechanisms (Wisconsin)"],
        ["004", "short-comparison", "pipes, shared memory and sockets under 35 % load"],
    ];

    /// Its number: "000" to "004".
    #[must_use]
    pub fn number(self) -> &'static str {
        Self::TEXTS[self as usize][0]
    }

    /// Its name on the command line and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TEXTS[self as usize][1]
    }

    /// What it is about, for a heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        Self::TEXTS[self as usize][2]
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Study {
    type Err = String;

    /// Knows names and numbers; otherwise lists them.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text || one.number() == text);
        let known = Self::ALL.map(|study| format!(" {} ({})", study.name(), study.number()));
        found.ok_or_else(|| format!("unknown study `{text}`; known:{}", known.concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_study() {
        for study in Study::ALL {
            assert_eq!(study.name().parse(), Ok(study));
            assert_eq!(study.number().parse(), Ok(study));
            assert_eq!(serde_json::to_string(&study).unwrap(), format!("\"{}\"", study.name()));
        }
    }

    #[test]
    fn an_unknown_study_lists_all() {
        let error = "ulm".parse::<Study>().unwrap_err();
        assert!(error.contains("`ulm`"), "{error}");
        for study in Study::ALL {
            assert!(error.contains(study.name()), "{error}");
        }
    }
}
