//! What could not be looked at, and how to permit it.
//!
//! A profile never fails for want of a permission: it reports what is missing.

use nearcall_os::ptrace;

use crate::profile::result::Missing;

/// What is reported where perf gave no stacks, because of `why`.
pub(crate) fn stacks(why: &str) -> Missing {
    let how = match why.contains("No such file") {
        true => "install it: Debian's package linux-perf, Ubuntu's linux-tools-generic",
        false => {
            "as root: sysctl kernel.perf_event_paranoid=1, or give CAP_PERFMON (capabilities(7))"
        }
    };
    missing("stacks", why, how)
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
        assert!(stacks("perf: No such file or directory (os error 2)").how.contains("linux-perf"));
        assert!(stacks("perf: No permission").how.contains("perf_event_paranoid"));
    }
}
