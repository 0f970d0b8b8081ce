//! What is stored of a machine is what a process goes by. Each case is a process of its own, since
//! a process reads it once.

use std::env;
use std::path::Path;
use std::process::Stdio;

use nearcall_channel::spin::tuning::{self, Tuning};
use nearcall_channel::wake_up_cost;
use nearcall_os::process::Child;

use crate::support::prelude::*;

/// Runs `the_cost_is_the_expected_one` in a process of its own.
#[track_caller]
fn check(file: Option<&Path>, home: &Path, expected: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "tuning::the_cost_is_the_expected_one"]);
    command.env_remove("NEARCALL_TUNING").env_remove("XDG_CONFIG_HOME").env("HOME", home);
    command.env(EXPECTED, expected).stdout(Stdio::null());
    if let Some(file) = file {
        command.env("NEARCALL_TUNING", file);
    }
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(DEADLINE)).unwrap();
    if status.is_none() {
        child.kill().unwrap();
    }
    assert!(status.is_some_and(|status| status.success()), "{file:?}: {status:?}");
}

/// Only means something where [`check`] runs it.
#[test]
fn the_cost_is_the_expected_one() {
    let Ok(expected) = env::var(EXPECTED) else { return };
    let cost = wake_up_cost();
    let (measured, stored) = ("measured", Duration::from_nanos(STORED_NS));
    match expected == measured {
        // That it is the same to the nanosecond does not happen.
        true => assert_ne!(cost, stored),
        false => assert_eq!(cost, stored),
    }
    assert_eq!(tuning::stored().is_some(), expected != measured);
}

#[test]
fn what_is_stored_of_this_machine_is_used_and_nothing_else() {
    let dir = env::temp_dir().join(format!("nearcall-tuned-{}", std::process::id()));
    fs::create_dir_all(dir.join(".config/nearcall")).unwrap();
    let (machine, costs) = (tuning::machine(), Vec::new());
    let tuning = Tuning { machine, wake_up_ns: STORED_NS, spin_ns: None, costs };
    let good = dir.join("good");
    fs::write(&good, tuning.to_string()).unwrap();
    check(Some(&good), &dir, "stored");
    let bad = dir.join("bad");
    fs::write(&bad, "nearcall.tuning/1\nwake_up_ns = soon\n").unwrap();
    check(Some(&bad), &dir, "measured");
    let other = Tuning { machine: "another".to_owned(), ..tuning.clone() };
    fs::write(&bad, other.to_string()).unwrap();
    check(Some(&bad), &dir, "measured");
    check(Some(&dir.join("none")), &dir, "measured");
    fs::write(dir.join(".config/nearcall/tuning.conf"), tuning.to_string()).unwrap();
    check(None, &dir, "stored");
    // Empty: none, not even that of the home.
    check(Some(Path::new("")), &dir, "measured");
    fs::remove_dir_all(&dir).unwrap();
}

const EXPECTED: &str = "NEARCALL_TEST_EXPECTED";

/// No machine has exactly this.
const STORED_NS: u64 = 43_219;

const DEADLINE: Duration = Duration::from_secs(20);
