//! What could not be looked at, and how to permit it.
//!
//! A profile never fails for want of a permission: it reports what is missing.

use nearcall_os::ptrace;

use crate::profile::result::Missing;

/// What is reported where perf gave no stacks, because of `why`.
pub(crate) fn stacks(why: &str) -> Missing {
    let how = match why {
        _ if why.contains("No such file") => {
            "install it: Debian's package linux-perf, Ubuntu's linux-tools-generic"
        }
        _ if is_refusal(why) => PERMIT_PERF,
        _ => "",
    };
    missing("stacks", why, how)
}

/// What is reported where stacks have no frame of the kernel: perf then samples user space alone,
/// and succeeds.
pub(crate) fn kernel_stacks() -> Missing {
    let why = "no sample shows the kernel: perf may not look into it, or neither end was there";
    missing("the kernel's part of the stacks", why, PERMIT_PERF)
}

/// Returns the line of what perf complained about that says why: one that speaks of permission, or
/// the first.
pub(crate) fn complaint(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !matches!(*line, "" | "Error:"));
    lines().find(|line| is_refusal(line)).or_else(|| lines().next())
}

/// Whether perf says that it is not permitted to look.
fn is_refusal(text: &str) -> bool {
    let text = text.to_lowercase();
    // The last: "Access to performance monitoring and observability operations is limited."
    let words = ["permission", "not permitted", "paranoid", "performance monitoring"];
    words.iter().any(|word| text.contains(word))
}

/// What is reported where ptrace was refused.
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

/// What is reported where the program that was sampled has no symbols.
pub(crate) fn function_names() -> Missing {
    let why = "the program has no symbols";
    missing("names of functions", why, "cargo run --profile profiling -- profile ...")
}

fn missing(what: &str, why: &str, how: &str) -> Missing {
    Missing { what: what.to_owned(), why: why.to_owned(), how: how.to_owned() }
}

const PERMIT_PERF: &str =
    "as root: sysctl kernel.perf_event_paranoid=1, or give CAP_PERFMON (capabilities(7))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_trace_names_the_setting_that_refuses() {
        let of = |yama_scope| system_calls(&ptrace::Refusal::Forbidden { yama_scope });
        assert!(of(Some(2)).how.contains("ptrace_scope=1") && of(Some(2)).why.contains("is 2"));
        assert!(of(Some(3)).how.contains("boot"));
        assert!(of(None).how.contains("SYS_PTRACE") && of(Some(0)).how.contains("SYS_PTRACE"));
        assert!(system_calls(&ptrace::Refusal::TooOld).how.contains("5.3"));
    }

    #[test]
    fn only_what_perf_was_refused_has_to_be_permitted() {
        assert!(stacks("perf: No such file or directory (os error 2)").how.contains("linux-perf"));
        for why in [
            "perf: No permission to enable cycles event.",
            "perf: You may not have permission to collect stats.",
            "perf: Access to performance monitoring and observability operations is limited.",
            "perf: The sys_perf_event_open() syscall returned with 1 (Operation not permitted)",
        ] {
            assert_eq!(stacks(why).how, PERMIT_PERF, "{why}");
        }
        for why in ["perf: it did not end in time", "perf: it recorded nothing"] {
            assert_eq!(stacks(why).how, "", "{why}");
        }
        assert_eq!(kernel_stacks().how, PERMIT_PERF);
    }

    #[test]
    fn the_line_that_speaks_of_permission_is_perfs_complaint() {
        let refused = "Error:\nFailure to open event 'cycles:P' on PMU 'cpu'.\n\
                       Access to performance monitoring and observability operations is limited.\n";
        assert!(complaint(refused).unwrap().starts_with("Access to"));
        assert_eq!(complaint("\nError:\n a \nb\n"), Some("a"));
        assert_eq!(complaint("Error:\n\n"), None);
    }
}
