//! What a profile may look at here, and how to permit the rest.
//!
//! Pure judgements of the kernel's files and refusals, so that strict machines are tested from
//! texts. A profile never fails for want of a permission: it says what is missing.

use nearcall_os::{perf, ptrace};

use crate::profile::result::Missing;
use crate::system_files::SystemFiles;

/// How far the program perf may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Into the kernel as well.
    All,
    /// Only at what runs in user space.
    UserOnly {
        /// kernel.perf_event_paranoid.
        paranoid: i64,
    },
    /// Not at all.
    Nothing {
        /// kernel.perf_event_paranoid, if there is such a thing.
        paranoid: Option<i64>,
    },
}

/// Reads how far perf may look for this process.
pub(crate) fn scope(files: &SystemFiles) -> Scope {
    let paranoid = files.line("/proc/sys/kernel/perf_event_paranoid");
    let Some(paranoid) = paranoid.and_then(|text| text.parse::<i64>().ok()) else {
        return Scope::Nothing { paranoid: None };
    };
    match paranoid {
        ..=1 => Scope::All,
        _ if may_look_anyway(files) => Scope::All,
        2 => Scope::UserOnly { paranoid },
        // Debian's and Android's own.
        _ => Scope::Nothing { paranoid: Some(paranoid) },
    }
}

/// CAP_PERFMON, or what it was before Linux 5.8.
fn may_look_anyway(files: &SystemFiles) -> bool {
    let status = files.text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    capabilities.is_some_and(|set| set & (1 << CAP_PERFMON | 1 << CAP_SYS_ADMIN) != 0)
}

/// Where the program perf is, in the folders of PATH.
pub(crate) fn find_perf(files: &SystemFiles, path: &str) -> Option<String> {
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| format!("{folder}/perf")).find(|file| files.exists(file))
}

/// What is to be said of stacks where perf looks so far.
pub(crate) fn stacks(scope: Scope, perf: Option<&str>) -> Option<Missing> {
    if perf.is_none() {
        let how = "install it: Debian's package linux-perf, Ubuntu's linux-tools-generic";
        return Some(missing("stacks", "the program perf is not installed", how));
    }
    match scope {
        Scope::All => None,
        Scope::UserOnly { paranoid } => {
            Some(missing("the kernel's part of stacks", &is_paranoid(paranoid), PERMIT_PERF))
        }
        Scope::Nothing { paranoid: Some(paranoid) } => {
            Some(missing("stacks", &is_paranoid(paranoid), PERMIT_PERF))
        }
        Scope::Nothing { paranoid: None } => {
            Some(missing("stacks", "this kernel has no perf events", "use one that has them"))
        }
    }
}

/// What is to be said where a hardware counter was refused.
pub(crate) fn hardware(refusal: &perf::Refusal) -> Missing {
    let how = match refusal {
        perf::Refusal::Forbidden(_) => PERMIT_PERF,
        perf::Refusal::NoSuchEvent => {
            "use a machine of metal, or let the host give its guest counters (a vPMU)"
        }
        perf::Refusal::Missing => "use a kernel that has them",
        perf::Refusal::Os(_) => "",
    };
    missing("hardware counters", &refusal.to_string(), how)
}

/// What is to be said where ptrace was refused.
pub(crate) fn system_calls(refusal: &ptrace::Refusal) -> Missing {
    let how = match refusal {
        ptrace::Refusal::Forbidden { yama_scope: Some(3..) } => {
            "boot anew: a scope of 3 cannot be lowered"
        }
        ptrace::Refusal::Forbidden { yama_scope: Some(1..) } => {
            "as root: sysctl kernel.yama.ptrace_scope=1, or give CAP_SYS_PTRACE"
        }
        ptrace::Refusal::Forbidden { .. } => {
            "run it outside strace and debuggers; a container: docker run --cap-add SYS_PTRACE"
        }
        ptrace::Refusal::TooOld => "use Linux 5.3 or newer",
        ptrace::Refusal::Os(_) => "",
    };
    missing("counts of system calls", &refusal.to_string(), how)
}

/// Reports that the program which was sampled has no symbols.
pub(crate) fn function_names() -> Missing {
    let why = "the program has no symbols";
    missing("names of functions", why, "cargo run --profile profiling -- profile ...")
}

fn is_paranoid(paranoid: i64) -> String {
    format!("kernel.perf_event_paranoid is {paranoid}")
}

fn missing(what: &str, why: &str, how: &str) -> Missing {
    Missing { what: what.to_owned(), why: why.to_owned(), how: how.to_owned() }
}

const PERMIT_PERF: &str =
    "as root: sysctl kernel.perf_event_paranoid=1, or give CAP_PERFMON (capabilities(7))";

/// Numbers of linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(paranoid: &str, capabilities: &str) -> Scope {
        let status = format!("Name:\tx\nCapEff:\t{capabilities}\n");
        scope(&SystemFiles::forged(&[
            ("/proc/sys/kernel/perf_event_paranoid", paranoid),
            ("/proc/self/status", &status),
        ]))
    }

    #[test]
    fn paranoia_limits_what_perf_may_look_at() {
        let (none, perfmon, root) = ("0000000000000000", "0000004000000000", "000001fffeffffff");
        assert_eq!(machine("-1\n", none), Scope::All);
        assert_eq!(machine("1\n", none), Scope::All);
        assert_eq!(machine("2\n", none), Scope::UserOnly { paranoid: 2 });
        assert_eq!(machine("3\n", none), Scope::Nothing { paranoid: Some(3) });
        assert_eq!(machine("2\n", perfmon), Scope::All);
        assert_eq!(machine("3\n", root), Scope::All);
        assert_eq!(machine("2\n", "nonsense"), Scope::UserOnly { paranoid: 2 });
        assert_eq!(scope(&SystemFiles::forged(&[])), Scope::Nothing { paranoid: None });
    }

    #[test]
    fn what_is_missing_is_said_with_how_to_permit_it() {
        let perf = Some("/usr/bin/perf");
        assert_eq!(stacks(Scope::All, perf), None);
        let said = |missing: Option<Missing>| {
            let Missing { what, why, how } = missing.unwrap();
            format!("{what}: {why}; {how}")
        };
        let user_only = said(stacks(Scope::UserOnly { paranoid: 2 }, perf));
        assert!(user_only.starts_with("the kernel's part"), "{user_only}");
        assert!(user_only.contains("paranoid is 2") && user_only.contains("CAP_PERFMON"));
        let nothing = said(stacks(Scope::Nothing { paranoid: Some(4) }, perf));
        assert!(nothing.starts_with("stacks: kernel.perf_event_paranoid is 4"), "{nothing}");
        assert!(said(stacks(Scope::All, None)).contains("linux-perf"));
        let refused = hardware(&perf::Refusal::Forbidden(Some(3)));
        assert!(refused.why.contains('3') && refused.how.contains("perf_event_paranoid=1"));
        assert!(hardware(&perf::Refusal::NoSuchEvent).how.contains("vPMU"));
    }

    #[test]
    fn a_refused_trace_names_the_setting_that_refuses() {
        let of = |yama_scope| system_calls(&ptrace::Refusal::Forbidden { yama_scope });
        assert!(of(Some(2)).how.contains("ptrace_scope=1") && of(Some(2)).why.contains("is 2"));
        assert!(of(Some(3)).how.contains("boot"));
        assert!(of(None).how.contains("SYS_PTRACE") && of(Some(0)).how.contains("SYS_PTRACE"));
        assert!(system_calls(&ptrace::Refusal::TooOld).how.contains("5.3"));
    }

    #[test]
    fn perf_is_looked_for_in_the_folders_of_path() {
        let files = SystemFiles::forged(&[("/usr/bin/perf", "")]);
        assert_eq!(find_perf(&files, "/bin:/usr/bin"), Some("/usr/bin/perf".to_owned()));
        assert_eq!(find_perf(&files, "usr/bin:/sbin:"), None);
    }
}
