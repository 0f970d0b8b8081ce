//! Timers as descriptors, on CLOCK_MONOTONIC.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::deadline::timespec;

/// A timer that is not running, blocking to read, close-on-exec.
///
/// # Errors
///
/// EMFILE when this process has no room for a descriptor.
pub fn create() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?)
}

/// Lets the timer expire `first` from now and then `every` so often. Zero counts as one nanosecond.
///
/// # Errors
///
/// The error of the kernel.
pub fn arm(timer: impl AsFd, first: Duration, every: Option<Duration>) -> io::Result<()> {
    let at_least = Duration::from_nanos(1);
    let setting = Itimerspec {
        it_value: timespec(first.max(at_least)),
        it_interval: timespec(every.map_or(Duration::ZERO, |every| every.max(at_least))),
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(())
}

/// Stops the timer.
///
/// # Errors
///
/// The error of the kernel.
pub fn disarm(timer: impl AsFd) -> io::Result<()> {
    let zero = timespec(Duration::ZERO);
    let setting = Itimerspec { it_value: zero, it_interval: zero };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(())
}

/// Waits for the timer and returns how often it has expired since the last read.
///
/// # Errors
///
/// The error of the kernel.
pub fn read(timer: impl AsFd) -> io::Result<u64> {
    let mut count = [0; 8];
    retry_on_intr(|| rustix::io::read(&timer, &mut count))?;
    Ok(u64::from_ne_bytes(count))
}
