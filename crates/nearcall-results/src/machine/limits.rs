//! Limits that touch IPC: of this process and of the kernel.
//!
//! Pure functions of files.
//!
//! **Invariants:** each name appears, with "unknown" if it could not be read.

use crate::run::UNKNOWN;
use crate::system_files::SystemFiles;

/// All of them, "name=value" each.
pub fn limits(files: &SystemFiles) -> Vec<String> {
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let own = PROCESS_LIMITS
        .iter()
        .map(|(name, label)| format!("{name}={}", known(process_limit(files, label))));
    let kernel =
        SYSCTLS.iter().map(|name| format!("{name}={}", known(files.line(&sysctl_path(name)))));
    let shm = shm_bytes(files).map(|bytes| bytes.to_string());
    own.chain(kernel).chain([format!("dev_shm_bytes={}", known(shm))]).collect()
}

/// The soft limit in the words of `/proc/self/limits`: a number or "unlimited".
pub fn process_limit(files: &SystemFiles, label: &str) -> Option<String> {
    let text = files.text("/proc/self/limits")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_ascii_whitespace().next().map(str::to_owned)
}

/// Where a kernel setting lies: "fs.mqueue.msg_max" is `/proc/sys/fs/mqueue/msg_max`.
pub fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The size of `/dev/shm`. `None` if nothing is mounted there.
pub fn shm_bytes(files: &SystemFiles) -> Option<u64> {
    let mounts = files.text("/proc/self/mounts")?;
    // A later mount covers an earlier one.
    let options = mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        (fields.next()? == "/dev/shm").then(|| fields.nth(1))?
    })?;
    match options.split(',').find_map(|option| option.strip_prefix("size=")) {
        Some(size) => size_bytes(size),
        // tmpfs without a size takes up to half of the memory.
        None => Some(super::kernel::meminfo_bytes(files, "MemTotal")? / 2),
    }
}

fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'm', 'g', 'K', 'M', 'G']);
    let factor = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 1 << 10,
        b'm' => 1 << 20,
        b'g' => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Our name and the kernel's words.
const PROCESS_LIMITS: [(&str, &str); 7] = [
    ("RLIMIT_NOFILE", "Max open files"),
    ("RLIMIT_MEMLOCK", "Max locked memory"),
    ("RLIMIT_MSGQUEUE", "Max msgqueue size"),
    ("RLIMIT_SIGPENDING", "Max pending signals"),
    ("RLIMIT_NPROC", "Max processes"),
    ("RLIMIT_AS", "Max address space"),
    ("RLIMIT_RTPRIO", "Max realtime priority"),
];

const SYSCTLS: [&str; 19] = [
    "fs.file-max",
    "fs.pipe-max-size",
    "fs.pipe-user-pages-soft",
    "fs.mqueue.msg_max",
    "fs.mqueue.msgsize_max",
    "fs.mqueue.queues_max",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.io_uring_disabled",
    "kernel.perf_event_paranoid",
    "kernel.yama.ptrace_scope",
    "kernel.sched_rt_runtime_us",
    "kernel.numa_balancing",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.wmem_default",
    "net.core.rmem_default",
    "net.unix.max_dgram_qlen",
];
