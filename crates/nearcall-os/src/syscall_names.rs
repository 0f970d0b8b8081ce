//! Names of system calls, for those that programs of this project make.
//!
//! Numbers are those of the architecture that this is built for.
//! **Not here:** seeing calls being made (`ptrace.rs`), calls of some architectures only
//! (`platform.rs`).

use crate::platform::SYSCALL_NAMES;

/// The name of system call `number`; `None` for one that is not in the table.
#[must_use]
pub fn syscall_name(number: u64) -> Option<&'static str> {
    let number = libc::c_long::try_from(number).ok()?;
    let all = NAMES.iter().chain(SYSCALL_NAMES);
    all.copied().find_map(|(one, name)| (one == number).then_some(name))
}

/// Calls of every architecture.
const NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_clock_gettime, "clock_gettime"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_close, "close"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_dup, "dup"),
    (libc::SYS_epoll_create1, "epoll_create1"),
    (libc::SYS_epoll_ctl, "epoll_ctl"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_eventfd2, "eventfd2"),
    (libc::SYS_exit, "exit"),
    (libc::SYS_exit_group, "exit_group"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_faccessat, "faccessat"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fchmod, "fchmod"),
    (libc::SYS_fchmodat, "fchmodat"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_fstatfs, "fstatfs"),
    (libc::SYS_geteuid, "geteuid"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_futex_waitv, "futex_waitv"),
    (libc::SYS_getcpu, "getcpu"),
    (libc::SYS_getpid, "getpid"),
    (libc::SYS_getppid, "getppid"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_getrusage, "getrusage"),
    (libc::SYS_getsockname, "getsockname"),
    (libc::SYS_getsockopt, "getsockopt"),
    (libc::SYS_gettid, "gettid"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_inotify_add_watch, "inotify_add_watch"),
    (libc::SYS_inotify_init1, "inotify_init1"),
    (libc::SYS_inotify_rm_watch, "inotify_rm_watch"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_io_uring_register, "io_uring_register"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_listen, "listen"),
    (libc::SYS_lseek, "lseek"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_membarrier, "membarrier"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_mq_getsetattr, "mq_getsetattr"),
    (libc::SYS_mq_notify, "mq_notify"),
    (libc::SYS_mq_open, "mq_open"),
    (libc::SYS_mq_timedreceive, "mq_timedreceive"),
    (libc::SYS_mq_timedsend, "mq_timedsend"),
    (libc::SYS_mq_unlink, "mq_unlink"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_msgctl, "msgctl"),
    (libc::SYS_msgget, "msgget"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_msgsnd, "msgsnd"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_pidfd_open, "pidfd_open"),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
    (libc::SYS_pipe2, "pipe2"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_preadv2, "preadv2"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_restart_syscall, "restart_syscall"),
    (libc::SYS_rseq, "rseq"),
    (libc::SYS_rt_sigaction, "rt_sigaction"),
    (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
    (libc::SYS_rt_sigreturn, "rt_sigreturn"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo"),
    (libc::SYS_sched_getaffinity, "sched_getaffinity"),
    (libc::SYS_sched_setaffinity, "sched_setaffinity"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_semctl, "semctl"),
    (libc::SYS_semget, "semget"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_set_robust_list, "set_robust_list"),
    (libc::SYS_set_tid_address, "set_tid_address"),
    (libc::SYS_setsockopt, "setsockopt"),
    (libc::SYS_shutdown, "shutdown"),
    (libc::SYS_sigaltstack, "sigaltstack"),
    (libc::SYS_signalfd4, "signalfd4"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_tee, "tee"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_timerfd_create, "timerfd_create"),
    (libc::SYS_timerfd_settime, "timerfd_settime"),
    (libc::SYS_uname, "uname"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_utimensat, "utimensat"),
    (libc::SYS_vmsplice, "vmsplice"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_by_their_numbers() {
        let number = |call: libc::c_long| u64::try_from(call).unwrap();
        assert_eq!(syscall_name(number(libc::SYS_write)), Some("write"));
        assert_eq!(syscall_name(number(libc::SYS_process_vm_readv)), Some("process_vm_readv"));
        assert_eq!(syscall_name(u64::MAX), None);
        assert_eq!(syscall_name(9_999), None);
    }

    #[test]
    fn no_number_has_two_names() {
        let mut numbers: Vec<_> =
            NAMES.iter().chain(SYSCALL_NAMES).map(|(number, _)| number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
