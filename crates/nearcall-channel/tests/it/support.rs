//! What all cases stand on: their processes, what those leave behind, the bytes that they send.

pub(crate) mod bytes;
pub(crate) mod diagnosis;
pub(crate) mod leaks;
pub(crate) mod play;
pub(crate) mod raw;
pub(crate) mod stage;
pub(crate) mod switcher;

use std::time::Duration;

use nearcall_channel::{Deadline, MechanismSet, Options};

/// What most cases need.
pub(crate) mod prelude {
    pub(crate) use std::os::fd::{AsFd, OwnedFd};
    pub(crate) use std::process::Command;
    pub(crate) use std::time::Duration;
    pub(crate) use std::{fs, thread};

    pub(crate) use nearcall_channel::{
        Address, Deadline, Endpoint, HandshakeError, Interest, Listener, Mechanism, Options,
        ReceiveError, Refusal, SendError, VERSION, Violation, WaitPolicy, accept_over, connect,
        connect_over,
    };
    pub(crate) use nearcall_os::{clock, process};

    pub(crate) use super::bytes::{expect_pattern, pattern};
    pub(crate) use super::play::{Play, note};
    pub(crate) use super::stage::report;
    pub(crate) use super::{DEATH_NOTICED, PATIENCE, expect_err, offering_all, patient, sleeps};
}

/// Checks that an outcome is an error of this pattern, and returns the error.
macro_rules! expect_err {
    ($outcome:expr, $pattern:pat) => {{
        let error = $outcome.err().expect("it must fail");
        assert!(matches!(error, $pattern), "{error:?}");
        error
    }};
}
pub(crate) use expect_err;

/// The options of an end that offers every mechanism.
pub(crate) fn offering_all() -> Options {
    Options::offering(MechanismSet::ALL)
}

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);

/// What a survivor may take in a test to notice that the other end is gone. The promise is 100 ms;
/// a busy machine may keep a process from running for longer than that.
pub(crate) const DEATH_NOTICED: Duration = Duration::from_secs(2);

/// The deadline of a step that must succeed.
pub(crate) fn patient() -> Deadline {
    Deadline::after(PATIENCE)
}

/// How many seconds each case of live mutation lasts, if `NEARCALL_HOSTILE_S` asks for more than
/// the second of a usual run.
pub(crate) fn live_seconds() -> Option<u64> {
    std::env::var("NEARCALL_HOSTILE_S").ok().and_then(|text| text.parse().ok())
}

/// How often a thread of ours has gone to sleep.
pub(crate) fn sleeps(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
