//! What differs between processors and between C libraries: numbers, names and types.
//!
//! Nothing here makes a system call. What a processor lacks is `None` or empty here, and is said to
//! be unsupported by what needs it.
//! **Not here:** the time stamp counter, all of which is of one processor (`tsc.rs`).
#![allow(unsafe_code, reason = "declares functions of glibc that the libc crate does not list")]

use std::time::Duration;

/// The number of this processor in ELF files; zero where it is not known.
pub(crate) const ELF_MACHINE: u16 = match () {
    () if cfg!(target_arch = "x86_64") => 62,
    () if cfg!(target_arch = "aarch64") => 183,
    () if cfg!(target_arch = "riscv64") => 243,
    () if cfg!(target_arch = "powerpc64") => 21,
    () if cfg!(target_arch = "s390x") => 22,
    () if cfg!(target_arch = "x86") => 3,
    () if cfg!(target_arch = "arm") => 40,
    () => 0,
};

/// The type of a request of ptrace, which C libraries declare differently.
#[cfg(target_env = "musl")]
pub(crate) type PtraceRequest = libc::c_int;
/// The type of a request of ptrace, which C libraries declare differently.
#[cfg(not(target_env = "musl"))]
pub(crate) type PtraceRequest = libc::c_uint;

/// What ptrace has for stops in system calls, which musl's headers lack: the kernel's numbers.
pub(crate) const PTRACE_GET_SYSCALL_INFO: PtraceRequest = 0x420e;
pub(crate) const PTRACE_SYSCALL_INFO_ENTRY: u8 = 1;
pub(crate) const PTRACE_SYSCALL_INFO_EXIT: u8 = 2;

/// Where the registers that decide about a system call lie for ptrace.
pub(crate) struct CallRegisters {
    /// Of the number of a call that begins, in bytes.
    pub(crate) number: usize,
    /// Of the result of a call that ends, in bytes.
    pub(crate) outcome: usize,
}

/// `None` where the kernel has them written in another way, or where it was never tried.
#[cfg(target_arch = "x86_64")]
pub(crate) const CALL_REGISTERS: Option<CallRegisters> = Some(CallRegisters {
    number: std::mem::offset_of!(libc::user_regs_struct, orig_rax),
    outcome: std::mem::offset_of!(libc::user_regs_struct, rax),
});
/// `None` where the kernel has them written in another way, or where it was never tried.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const CALL_REGISTERS: Option<CallRegisters> = None;

/// Names of system calls that not every processor has.
#[cfg(target_arch = "x86_64")]
pub(crate) const SYSCALL_NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_access, "access"),
    (libc::SYS_arch_prctl, "arch_prctl"),
    (libc::SYS_epoll_create, "epoll_create"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_eventfd, "eventfd"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_open, "open"),
    (libc::SYS_pipe, "pipe"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_readlink, "readlink"),
    (libc::SYS_select, "select"),
    (libc::SYS_signalfd, "signalfd"),
    (libc::SYS_unlink, "unlink"),
];
/// Names of system calls that not every processor has.
#[cfg(all(not(target_arch = "x86_64"), target_pointer_width = "64"))]
pub(crate) const SYSCALL_NAMES: &[(libc::c_long, &str)] =
    &[(libc::SYS_mmap, "mmap"), (libc::SYS_newfstatat, "newfstatat")];
/// Names of system calls that not every processor has. Those with times of 64 bits have the same
/// numbers on all processors of 32.
#[cfg(target_pointer_width = "32")]
pub(crate) const SYSCALL_NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_fcntl64, "fcntl64"),
    (libc::SYS_fstatat64, "fstatat64"),
    (libc::SYS_mmap2, "mmap2"),
    (403, "clock_gettime64"),
    (414, "ppoll_time64"),
    (422, "futex_time64"),
];

/// Whether locks and semaphores in shared memory lie there as in most processes of this machine,
/// and can wait by the monotonic clock: glibc's. Those of musl have another layout.
pub(crate) const HAS_SHARED_LOCKS: bool = cfg!(target_env = "gnu");

// SAFETY: the signatures are glibc's (since 2.30); the libc crate does not list them.
#[cfg(target_env = "gnu")]
unsafe extern "C" {
    pub(crate) fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        end: *const libc::timespec,
    ) -> libc::c_int;
    pub(crate) fn sem_clockwait(
        semaphore: *mut libc::sem_t,
        clock: libc::clockid_t,
        end: *const libc::timespec,
    ) -> libc::c_int;
}

/// Refuses: other C libraries wait by the wall clock only.
#[cfg(not(target_env = "gnu"))]
pub(crate) unsafe fn pthread_mutex_clocklock(
    _: *mut libc::pthread_mutex_t,
    _: libc::clockid_t,
    _: *const libc::timespec,
) -> libc::c_int {
    libc::ENOTSUP
}

/// Refuses: other C libraries wait by the wall clock only.
#[cfg(not(target_env = "gnu"))]
pub(crate) unsafe fn sem_clockwait(
    _: *mut libc::sem_t,
    _: libc::clockid_t,
    _: *const libc::timespec,
) -> libc::c_int {
    // SAFETY: the pointer is to the error number of this thread, which is always there.
    unsafe { *libc::__errno_location() = libc::ENOTSUP };
    -1
}

/// A duration as the C library has it, whose fields have 32 or 64 bits. One that does not fit is as
/// long as 32 bits can say: 68 years.
pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: duration.subsec_nanos().cast_signed().into(),
    }
}

/// A number of the C library without its sign, of 32 or 64 bits; negative ones are zero.
pub(crate) fn count(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}
