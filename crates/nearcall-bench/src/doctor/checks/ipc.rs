//! Checks for programs that talk to each other: limits, permissions, what the kernel lacks.

use nearcall_results::machine::limits::{process_limit, shm_bytes, sysctl_path};
use nearcall_results::machine::{kernel, surroundings};

use super::{Check, Facts, Judged, limit_number, note, ok, problem, unknown, warning};
use crate::report::number::size;
use crate::system_files::SystemFiles;

/// In the order in which findings of equal severity are shown.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "mechanisms",
        why: "a mechanism that does not work here can be neither used nor measured",
        judge: |facts| match &facts.unsupported[..] {
            [] => ok("all mechanisms work here"),
            missing => {
                let reasons: Vec<String> =
                    missing.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
                problem(reasons.join("; "), "see `nearcall mechanisms`; the others work")
            }
        },
    },
    Check {
        name: "runtime_directory",
        why: "servers put their sockets there, so no other user may be able to",
        judge: |facts| match &facts.runtime_dir {
            (path, Ok(())) => ok(path.as_str()),
            (path, Err(why)) => problem(
                format!("{path}: {why}"),
                "set NEARCALL_RUNTIME_DIR to a directory of yours with mode 0700",
            ),
        },
    },
    Check {
        name: "dev_shm",
        why: "programs that use named shared memory fail there when it is full",
        judge: |facts| match shm_bytes(&facts.files) {
            None => warning("nothing is mounted on /dev/shm", "mount a tmpfs on /dev/shm"),
            Some(bytes) if bytes <= SHM_BYTES_SMALL => warning(
                format!("/dev/shm has {}", size(bytes)),
                "in a container: start it with --shm-size=1g; else: mount -o remount,size=1g \
                 /dev/shm",
            ),
            Some(bytes) => ok(format!("/dev/shm has {}", size(bytes))),
        },
    },
    Check {
        name: "io_uring",
        why: "the mechanism uring needs it",
        judge: |facts| match facts.files.number(&sysctl_path("kernel.io_uring_disabled")) {
            None => unknown("the kernel has no setting for it"),
            Some(0) => ok("allowed"),
            Some(1) => note(
                "only for members of kernel.io_uring_group",
                "sysctl kernel.io_uring_disabled=0, or join that group",
            ),
            Some(_) => warning("switched off for everybody", "sysctl kernel.io_uring_disabled=0"),
        },
    },
    Check {
        name: "ptrace_scope",
        why: "the mechanism cma reads the other process's memory, which Yama restricts",
        judge: |facts| match facts.files.number(&sysctl_path("kernel.yama.ptrace_scope")) {
            None => ok("no restriction by Yama"),
            Some(0) => ok("processes of one user may read each other"),
            Some(1) => note(
                "only descendants, and who was allowed by prctl",
                "nothing, if both ends allow each other; else sysctl kernel.yama.ptrace_scope=0",
            ),
            Some(_) => warning(
                "only with CAP_SYS_PTRACE, or never",
                "sysctl kernel.yama.ptrace_scope=1 (3 lasts until the next boot)",
            ),
        },
    },
    Check {
        name: "rlimit_nofile",
        why: "each connection takes several descriptors",
        judge: |facts| at_least(facts, "Max open files", DESCRIPTORS_FEW, "ulimit -n 4096"),
    },
    Check {
        name: "rlimit_memlock",
        why: "rings that cannot be locked may be swapped out; old kernels count io_uring here too",
        judge: |facts| at_least(facts, "Max locked memory", LOCKED_BYTES, "ulimit -l 8192"),
    },
    Check {
        name: "message_queues",
        why: "the mechanism posix-mq takes two queues for each connection, of a small share of \
              each user",
        judge: |facts| {
            let bytes = process_limit(&facts.files, "Max msgqueue size");
            let queues = facts.files.number(&sysctl_path("fs.mqueue.queues_max"));
            let advice = "ulimit -q 8192000 and sysctl fs.mqueue.queues_max=1024, if posix-mq is \
                          to be used";
            match (bytes.as_deref().and_then(limit_number), queues) {
                (None, _) => unknown("/proc/self/limits cannot be read"),
                (_, None) => note("the kernel has no POSIX message queues", "nothing: use `shm`"),
                (Some(bytes), Some(queues)) if bytes < QUEUE_BYTES_FEW || queues < QUEUES_FEW => {
                    note(format!("{} and {queues} queues", size(bytes)), advice)
                }
                (Some(_), Some(queues)) => ok(format!("{queues} queues")),
            }
        },
    },
    Check {
        name: "peer_pidfd",
        why: "by SO_PEERPIDFD (Linux 6.5) the end of a process is noticed and its number means no \
              other process later",
        judge: |facts| match kernel_release(&facts.files) {
            None => unknown("the release of the kernel cannot be read"),
            Some(release) if release < PEER_PIDFD_SINCE => note(
                format!("Linux {}.{}", release.0, release.1),
                "nothing: peers are then known by numbers; a newer kernel closes the gap",
            ),
            Some(release) => ok(format!("Linux {}.{}", release.0, release.1)),
        },
    },
    Check {
        name: "memory",
        why: "shared memory is memory; without room the kernel ends processes",
        judge: |facts| match kernel::meminfo_bytes(&facts.files, "MemAvailable") {
            None => unknown("/proc/meminfo cannot be read"),
            Some(bytes) if bytes < MEMORY_BYTES_FEW => {
                warning(format!("{} available", mib(bytes)), "end other programs, or add memory")
            }
            Some(bytes) => ok(format!("{} available", mib(bytes))),
        },
    },
    Check {
        name: "container",
        why: "containers have their own names, small /dev/shm, and often forbid io_uring and cma",
        judge: |facts| match surroundings::container(&facts.files).as_deref() {
            None => unknown("whether this is a container cannot be read"),
            Some("none") => ok("none"),
            Some(name) => {
                note(name, "if a mechanism is refused, look at the container's seccomp rules")
            }
        },
    },
];

/// Judges a limit of this process.
fn at_least(facts: &Facts, label: &str, least: u64, advice: &'static str) -> Judged {
    let Some(text) = process_limit(&facts.files, label) else {
        return unknown("/proc/self/limits cannot be read");
    };
    match limit_number(&text) {
        Some(limit) if limit < least => warning(text, advice),
        _ => ok(text),
    }
}

fn mib(bytes: u64) -> String {
    size(bytes >> 20 << 20)
}

/// Returns the first two numbers of the release of the kernel.
fn kernel_release(files: &SystemFiles) -> Option<(u32, u32)> {
    let text = files.text(&sysctl_path("kernel.osrelease"))?;
    let mut numbers = text.trim().split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// From there on the kernel has SO_PEERPIDFD.
const PEER_PIDFD_SINCE: (u32, u32) = (6, 5);

/// Ten connections by posix-mq take more.
const QUEUE_BYTES_FEW: u64 = 1 << 20;
const QUEUES_FEW: u64 = 20;

/// What Docker gives if not told otherwise.
const SHM_BYTES_SMALL: u64 = 64 << 20;

/// Fewer are used up by a server with a hundred clients.
const DESCRIPTORS_FEW: u64 = 1_024;

/// Two rings of the default size, with room for io_uring.
const LOCKED_BYTES: u64 = 1 << 20;

/// Two processes with buffers for the largest messages need a part of this.
const MEMORY_BYTES_FEW: u64 = 256 << 20;
