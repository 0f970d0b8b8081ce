//! What every case needs: a server in a process of its own, an oracle for leaks, a good client that
//! measures, and a peer that breaks the rules.
//!
//! ```ignore
//! let mut server = ServerProcess::start();
//! server.warm_up(&["", "?via=unix-stream"]);
//! let oracle = server.leak_oracle();
//! let mut good = GoodClient::start(&server.address, User::Same);
//! let quiet = good.measure(Duration::from_millis(200));
//! let (outcome, storm) = good.measure_while(|| attack(&server.address));
//! good.finish();
//! oracle.check(&[]);
//! ```
//! **Invariants:** nothing here sleeps to synchronise; every wait has a deadline.

pub(crate) mod child;
pub(crate) mod good;
pub(crate) mod hostile;
pub(crate) mod leaks;
pub(crate) mod server;
pub(crate) mod stepping;

/// The handshake by hand.
#[allow(dead_code, reason = "shared with the tests of channels, which use the rest")]
#[path = "../../../nearcall-channel/tests/it/support/raw.rs"]
pub(crate) mod raw;

use std::time::Duration;

pub(crate) use self::good::{GoodClient, User};
pub(crate) use self::leaks::Holdings;
pub(crate) use self::server::ServerProcess;
pub(crate) use crate::observed::{wait_until, within};
pub(crate) use crate::served::{Service, hello, unique_address};
pub(crate) use nearcall_testkit::timed;

/// What most cases need.
pub(crate) mod prelude {
    pub(crate) use std::io::BufRead;
    pub(crate) use std::os::fd::{AsFd, OwnedFd};
    pub(crate) use std::os::unix::process::CommandExt;
    pub(crate) use std::process::Command;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::time::Duration;

    pub(crate) use nearcall::{
        CallOptions, Client, Code, Context, Deadline, EventLoop, Limits, Mechanism, Server, Status,
    };
    pub(crate) use nearcall_os::clock;

    pub(crate) use super::child::{Process, command, report, wait_for_the_parent};
    pub(crate) use super::server::{ServerSetup, serve};
    pub(crate) use super::{
        GoodClient, PATIENCE, Role, ServerProcess, User, skip, timed, unique_address, wait_until,
        within,
    };
    pub(crate) use crate::echo::{EchoCaller, Words};
    pub(crate) use crate::served::{expect_code, expect_error};
}

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Longest time of a test whose duration no variable sets.
const TEST_TIME_MAX: Duration = Duration::from_secs(120);

/// A name, and the function that a child process of this name runs, with its address.
pub(crate) type Role = (&'static str, fn(&str));

/// Runs a test that may block, and fails if it does not end.
pub(crate) fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    within(TEST_TIME_MAX, body)
}

/// The number in the environment variable `name`, or `default`.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}"))
    })
}

/// Reports that a test cannot run here.
pub(crate) fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
}
