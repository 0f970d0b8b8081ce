//! The list of checks, and what each is made of.
//!
//! A new check is an entry in `checks/ipc.rs` or `checks/measuring.rs`.

mod ipc;
mod measuring;

use super::{Concern, Facts, Finding, Severity};

/// One check: a judgement of the facts, and why it is made.
pub(super) struct Check {
    name: &'static str,
    why: &'static str,
    judge: fn(&Facts) -> Judged,
}

impl Check {
    pub(super) fn run(&self, concerns: Concern, facts: &Facts) -> Finding {
        let Judged { severity, found, advice } = (self.judge)(facts);
        let [what, why, advice] = [self.name, self.why, advice].map(str::to_owned);
        Finding { what, concerns, severity, found, why, advice }
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
pub(super) const ALL: [(Concern, &[Check]); 2] =
    [(Concern::Ipc, ipc::CHECKS), (Concern::Measuring, measuring::CHECKS)];
