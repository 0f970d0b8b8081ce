//! Perf events of a thread: the software counters, and the hardware ones where there are any.
//!
//! **Invariants:** a counter that a virtual machine lacks or that the user may not read is a
//! [`Refusal`], never a zero.
//! **Not here:** counters of `getrusage` and /proc (`counters.rs`).
#![allow(unsafe_code, reason = "rustix has no perf_event_open")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The event to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Switches to another thread.
    ContextSwitches,
    /// Moves to another CPU.
    Migrations,
    /// Page faults, minor and major.
    PageFaults,
    /// Time on a processor, in nanoseconds.
    TaskClock,
    /// Processor cycles (hardware).
    Cycles,
    /// Instructions (hardware).
    Instructions,
    /// Misses of the last cache (hardware).
    CacheMisses,
    /// Mispredicted branches (hardware).
    BranchMisses,
}

/// A running counter of one thread, or of one and all that it starts.
#[derive(Debug)]
pub struct Counter {
    fd: OwnedFd,
}

/// The reason why there is no counter.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// kernel.perf_event_paranoid (its value, if readable) or seccomp forbids it.
    #[error("{}", explain_forbidden(*.0))]
    Forbidden(Option<i32>),
    /// This machine has no such event: a virtual machine without hardware counters.
    #[error("this machine has no such counter")]
    NoSuchEvent,
    /// The kernel has no perf events.
    #[error("this kernel has no perf events")]
    Missing,
    /// Anything else.
    #[error("cannot open a perf event: {0}")]
    Os(io::Error),
}

impl Counter {
    /// Starts to count `event` for the calling thread, on any CPU, in user and kernel mode.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn open(event: Event) -> Result<Self, Refusal> {
        Self::open_with(event, THIS_THREAD, EXCLUDE_HV)
    }

    /// Starts to count `event` for the main thread of process `pid` and all threads that it starts
    /// from now on. What it has counted can still be read when the process has ended.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; also of a process of another user.
    pub fn open_for(event: Event, pid: u32) -> Result<Self, Refusal> {
        let pid = libc::pid_t::try_from(pid);
        let pid = pid.map_err(|error| Refusal::Os(io::Error::other(error)))?;
        Self::open_with(event, pid, EXCLUDE_HV | INHERIT)
    }

    fn open_with(event: Event, tid: libc::pid_t, flags: u64) -> Result<Self, Refusal> {
        let (kind, config) = event.code();
        let attr = Attr {
            kind,
            size: ATTR_BYTES,
            config,
            read_format: WITH_TIMES,
            flags,
            ..Attr::default()
        };
        let (any_cpu, no_group) = (-1, -1);
        // SAFETY: `attr` is a perf_event_attr of the size it states and outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                tid,
                any_cpu,
                no_group,
                FLAG_FD_CLOEXEC,
            )
        };
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => {
                // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
                Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
            }
            _ => Err(refusal(io::Error::last_os_error())),
        }
    }

    /// The count since it was opened; `None` if the processor had no free counter for it all the
    /// time, so that the count is too small. One system call.
    ///
    /// # Errors
    ///
    /// The kernel's; `UnexpectedEof` when the event could not be scheduled.
    pub fn read(&self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 24];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut bytes))?;
        if read != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [count, enabled_ns, running_ns] = words;
        Ok((running_ns >= enabled_ns).then_some(count))
    }
}

impl Event {
    /// All of them, software first.
    pub const ALL: [Self; 8] = [
        Self::ContextSwitches,
        Self::Migrations,
        Self::PageFaults,
        Self::TaskClock,
        Self::Cycles,
        Self::Instructions,
        Self::CacheMisses,
        Self::BranchMisses,
    ];

    /// The events that the processor counts itself.
    pub const HARDWARE: [Self; 4] =
        [Self::Cycles, Self::Instructions, Self::CacheMisses, Self::BranchMisses];

    /// Its name, as the program perf has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContextSwitches => "context-switches",
            Self::Migrations => "cpu-migrations",
            Self::PageFaults => "page-faults",
            Self::TaskClock => "task-clock",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::CacheMisses => "cache-misses",
            Self::BranchMisses => "branch-misses",
        }
    }

    /// The event's type and number in the kernel's interface (linux/perf_event.h).
    fn code(self) -> (u32, u64) {
        let (hardware, software) = (0, 1);
        match self {
            Self::TaskClock => (software, 1),
            Self::PageFaults => (software, 2),
            Self::ContextSwitches => (software, 3),
            Self::Migrations => (software, 4),
            Self::Cycles => (hardware, 0),
            Self::Instructions => (hardware, 1),
            Self::CacheMisses => (hardware, 3),
            Self::BranchMisses => (hardware, 5),
        }
    }
}

fn explain_forbidden(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(value) => {
            format!("kernel.perf_event_paranoid is {value} (at most 1 allows it), or seccomp")
        }
        None => "perf events are not allowed here".to_owned(),
    }
}

fn refusal(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            Refusal::Forbidden(text.ok().and_then(|text| text.trim().parse().ok()))
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => Refusal::NoSuchEvent,
        Some(libc::ENOSYS) => Refusal::Missing,
        _ => Refusal::Os(error),
    }
}

/// `perf_event_attr` in its first published size, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// PERF_ATTR_SIZE_VER0.
const ATTR_BYTES: u32 = 64;
const _: () = assert!(size_of::<Attr>() == 64);
/// The thread that asks.
const THIS_THREAD: libc::pid_t = 0;
/// PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING: the count, then both times.
const WITH_TIMES: u64 = 1 | 2;
/// Bit 1 of the flags: count also for threads that are started later.
const INHERIT: u64 = 1 << 1;
/// Bit 6 of the flags: do not count the hypervisor.
const EXCLUDE_HV: u64 = 1 << 6;
/// PERF_FLAG_FD_CLOEXEC.
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
