//! The list of checks, and what each is made of.
//!
//! A new check is an entry in `checks/ipc.rs` or `checks/measuring.rs`.

mod ipc;
mod measuring;

use super::{Concern, Facts, Finding, Severity};

/// One check: a judgement of the facts, and why it is made.
pub(super) struct Check {
    name: &'static str,
    concerns: Concern,
    why: &'static str,
    judge: fn(&Facts) -> Judged,
}

impl Check {
    pub(super) fn run(&self, facts: &Facts) -> Finding {
        let judged = (self.judge)(facts);
        Finding {
            what: self.name.to_owned(),
            concerns: self.concerns,
            severity: judged.severity,
            found: judged.found,
            why: self.why.to_owned(),
            advice: judged.advice.to_owned(),
        }
    }
}

/// What a check says about one machine.
struct Judged {
    severity: Severity,
    found: String,
    advice: &'static str,
}

fn ok(found: impl Into<String>) -> Judged {
    Judged { severity: Severity::Ok, found: found.into(), advice: "" }
}

fn unknown(found: &str) -> Judged {
    Judged { severity: Severity::Unknown, found: found.to_owned(), advice: "" }
}

fn note(found: impl Into<String>, advice: &'static str) -> Judged {
    Judged { severity: Severity::Note, found: found.into(), advice }
}

fn warning(found: impl Into<String>, advice: &'static str) -> Judged {
    Judged { severity: Severity::Warning, found: found.into(), advice }
}

fn problem(found: impl Into<String>, advice: &'static str) -> Judged {
    Judged { severity: Severity::Problem, found: found.into(), advice }
}

/// A process limit as the kernel words it, as a number; "unlimited" is the largest.
fn limit_number(text: &str) -> Option<u64> {
    if text == "unlimited" { Some(u64::MAX) } else { text.parse().ok() }
}

/// All checks, in the order in which findings of equal severity are shown.
pub(super) const ALL: [&Check; 24] = [
    &ipc::MECHANISMS,
    &ipc::RUNTIME_DIR,
    &ipc::DEV_SHM,
    &ipc::IO_URING,
    &ipc::PTRACE_SCOPE,
    &ipc::DESCRIPTORS,
    &ipc::LOCKED_MEMORY,
    &ipc::MEMORY,
    &ipc::CONTAINER,
    &measuring::CPUS_ALLOWED,
    &measuring::CPU_QUOTA,
    &measuring::LOAD,
    &measuring::STEAL,
    &measuring::GOVERNOR,
    &measuring::BOOST,
    &measuring::IDLE_STATES,
    &measuring::SMT,
    &measuring::CLOCKSOURCE,
    &measuring::TSC,
    &measuring::HYPERVISOR,
    &measuring::MITIGATIONS,
    &measuring::HUGE_PAGES,
    &measuring::SWAP,
    &measuring::PERF_EVENTS,
];
