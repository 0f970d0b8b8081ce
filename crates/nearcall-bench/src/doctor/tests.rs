//! Findings of forged machines.

use std::collections::BTreeSet;

use super::*;

fn facts(files: &[(&str, &str)]) -> Facts {
    Facts {
        files: SystemFiles::forged(files),
        unsupported: Vec::new(),
        runtime_dir: ("/run/nearcall".to_owned(), Ok(())),
        cpu_times: Vec::new(),
    }
}

#[track_caller]
fn check(what: &str, file: (&str, &str), severity: Severity, found: &str) {
    let all = findings(&facts(&[file]));
    let finding = all.iter().find(|finding| finding.what == what).unwrap();
    assert_eq!((finding.severity, finding.found.as_str()), (severity, found), "{file:?}");
    assert_eq!(finding.advice.is_empty(), severity <= Severity::Unknown, "{finding:?}");
}

#[test]
fn limits_of_ipc_are_judged() {
    use Severity::{Note, Ok, Unknown, Warning};
    let uring = "/proc/sys/kernel/io_uring_disabled";
    check("io_uring", (uring, "0\n"), Ok, "allowed");
    check("io_uring", (uring, "1\n"), Note, "only for members of kernel.io_uring_group");
    check("io_uring", (uring, "2\n"), Warning, "switched off for everybody");
    check("io_uring", (uring, "x\n"), Unknown, "the kernel has no setting for it");
    let shm = |size| ("/proc/self/mounts", size);
    let small = "tmpfs /dev/shm tmpfs rw,size=65536k 0 0\n";
    check("dev_shm", shm(small), Warning, "/dev/shm has 64 MiB");
    check("dev_shm", shm("tmpfs /dev/shm tmpfs rw,size=1g 0 0\n"), Ok, "/dev/shm has 1 GiB");
    check("dev_shm", shm(""), Warning, "nothing is mounted on /dev/shm");
    let limits = |text| ("/proc/self/limits", text);
    let locked = "Max locked memory         65536                65536                bytes\n";
    check("rlimit_memlock", limits(locked), Warning, "65536");
    let free = "Max open files            unlimited            unlimited            files\n";
    check("rlimit_nofile", limits(free), Ok, "unlimited");
    let queues = "Max msgqueue size         819200               819200               bytes\n";
    check("message_queues", limits(queues), Note, "the kernel has no POSIX message queues");
    let release = "/proc/sys/kernel/osrelease";
    check("peer_pidfd", (release, "6.5.0-rc1\n"), Ok, "Linux 6.5");
    check("peer_pidfd", (release, "5.15.0-91-generic\n"), Note, "Linux 5.15");
    check("peer_pidfd", (release, "x\n"), Unknown, "the release of the kernel cannot be read");
    let scope = "/proc/sys/kernel/yama/ptrace_scope";
    check("ptrace_scope", (scope, "3"), Warning, "only with CAP_SYS_PTRACE, or never");
    check("ptrace_scope", ("/none", ""), Ok, "no restriction by Yama");
}

#[test]
fn what_disturbs_figures_is_judged() {
    use Severity::{Note, Ok, Unknown, Warning};
    let status = "/proc/thread-self/status";
    check("cpus_allowed", (status, "Cpus_allowed_list:\t3\n"), Warning, "only CPU 3 may be used");
    check("cpus_allowed", (status, "Cpus_allowed_list:\t0-1\n"), Ok, "CPUs 0-1");
    check("cpus_allowed", ("/none", ""), Unknown, "the allowed CPUs cannot be read");
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    check("clocksource", (source, "hpet"), Warning, "hpet");
    check("clocksource", (source, "kvm-clock"), Note, "kvm-clock");
    check("clocksource", (source, "tsc"), Ok, "tsc");
    let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
    check("huge_pages", (huge, "[always] madvise never"), Note, "always");
    check("huge_pages", (huge, "always [madvise] never"), Ok, "madvise");
    let swap = "SwapTotal: 4096 kB\nSwapFree: 1024 kB\n";
    check("swap", ("/proc/meminfo", swap), Note, "3 MiB in use");
    let paranoid = "/proc/sys/kernel/perf_event_paranoid";
    check("perf_event_paranoid", (paranoid, "4"), Note, "4");
    check("perf_event_paranoid", (paranoid, "-1"), Ok, "-1: own processes");
    check("load", ("/proc/loadavg", "3.00 1 1 2/9 7"), Warning, "3.00 on 1 CPUs over one minute");
}

#[test]
fn steal_is_a_share_of_the_time_wanted() {
    let mut facts = facts(&[]);
    facts.cpu_times = vec![CpuTimes { cpu: 0, busy: 80, idle: 1_000_000, steal: 20 }];
    let all = findings(&facts);
    let steal = all.iter().find(|finding| finding.what == "steal").unwrap();
    assert_eq!(steal.severity, Severity::Warning);
    assert_eq!(steal.found, "20.0 % of the time wanted since boot");
}

#[test]
fn a_missing_mechanism_is_a_problem_and_comes_first() {
    let mut facts = facts(&[]);
    facts.unsupported = vec![("uring".to_owned(), "io_uring is switched off".to_owned())];
    let first = &findings(&facts)[0];
    assert_eq!((first.what.as_str(), first.severity), ("mechanisms", Severity::Problem));
    assert_eq!(first.found, "uring: io_uring is switched off");
}

#[test]
fn every_check_has_its_own_name_and_one_finding() {
    let all = findings(&facts(&[]));
    let names: BTreeSet<&str> = all.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(names.len(), all.len());
    assert_eq!(all.len(), 26);
    assert!(all.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    assert!(all.iter().all(|finding| !finding.found.is_empty() && !finding.why.is_empty()));
}

#[test]
fn this_machine_can_be_judged() {
    assert_eq!(read().len(), 26);
}
