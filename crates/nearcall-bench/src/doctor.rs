//! What this machine lacks or has badly set for IPC and for measuring, and what to do about it.
//!
//! A pure judgement of facts; [`read`] gathers them.
//! **Invariants:** every check gives exactly one finding, so that what was looked at can be seen
//! too; a fact that cannot be read is a finding of severity "unknown", never an error. Nothing is
//! changed here. How findings are shown is the program's.

mod checks;

use nearcall_channel::{Mechanism, runtime_dir};
use nearcall_os::cpu_load::{self, CpuTimes};
use serde::{Deserialize, Serialize};

use crate::system_files::SystemFiles;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check's name; stable.
    pub what: String,
    /// Which users it concerns.
    pub concerns: Concern,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// What to do; empty if nothing.
    pub advice: String,
}

/// How bad a finding is. The order is from harmless to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// The machine does not say.
    Unknown,
    /// Worth knowing when reading figures; often nothing can be done.
    Note,
    /// Makes figures worse, or refuses some uses.
    Warning,
    /// Something does not work.
    Problem,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Which users a finding concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// Programs that talk to each other.
    Ipc,
    /// Figures that are to be trusted.
    Measuring,
}

/// What the checks need beside files.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The system's files.
    pub files: SystemFiles,
    /// Each mechanism that does not work here, and why.
    pub unsupported: Vec<(String, String)>,
    /// The directory for sockets by name with what has chosen it, and why it cannot be used.
    pub runtime_dir: (String, Result<(), String>),
    /// Time of each CPU since boot.
    pub cpu_times: Vec<CpuTimes>,
}

/// Looks at this machine. Tries every mechanism: takes some milliseconds.
#[must_use]
pub fn read() -> Vec<Finding> {
    findings(&read_facts())
}

/// Gathers what the checks need.
#[must_use]
pub fn read_facts() -> Facts {
    let tried = Mechanism::all().map(|mechanism| (mechanism, mechanism.supported()));
    let unsupported = tried.filter_map(|(mechanism, supported)| {
        supported.err().map(|reason| (mechanism.name().to_owned(), reason))
    });
    let path = format!("{}, chosen by {}", runtime_dir::path().display(), runtime_dir::chosen_by());
    Facts {
        files: SystemFiles::real(),
        unsupported: unsupported.collect(),
        runtime_dir: (path, judge_runtime_dir()),
        cpu_times: cpu_load::cpu_times(),
    }
}

/// Judges the facts: every check once, the worst first.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (concerns, checks) in checks::ALL {
        findings.extend(checks.iter().map(|check| check.run(concerns, facts)));
    }
    // A stable sort: findings of equal severity keep the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Returns whether the directory can be used, or could be made.
fn judge_runtime_dir() -> Result<(), String> {
    match runtime_dir::check_usable() {
        Ok(true) => Ok(()),
        Ok(false) => match runtime_dir::path().parent().map(std::fs::metadata) {
            Some(Ok(parent)) if parent.is_dir() => Ok(()),
            _ => Err("it cannot be made, because its parent directory is missing".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
