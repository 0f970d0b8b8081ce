//! Load beside a measurement: told when it is less than asked for, and gone however it ends.

use std::fs::{self, File};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::process::{self, Child};
use nearcall_os::signal::{self, Signal};
use serde_json::Value;

use crate::bench::children;
use crate::program::Folder;

/// One for each CPU, one for memory, one for io.
fn workers() -> usize {
    nearcall_os::cpu::allowed().len() + 2
}

fn is_left(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.to_str() == Some(env!("CARGO_BIN_EXE_nearcall")))
}

/// Starts a long run beside stress, ends it by `signal` once all workers are there, and looks for
/// what is left. Gives the exit code.
#[track_caller]
fn ended_by(end: Signal) -> Option<i32> {
    let folder = Folder::new();
    let words = "bench latency --mechanism pipe --size 8 --load cpu,memory,io --time 1m --json";
    let mut command = folder.command(&words.split(' ').collect::<Vec<_>>());
    command.stdout(File::create(folder.home().join("stdout")).unwrap());
    command.stderr(File::create(folder.home().join("stderr")).unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let start = clock::now();
    let mut started = Vec::new();
    while started.len() < workers() {
        assert!(start.elapsed() < Duration::from_secs(30), "no workers: {started:?}");
        started = children(child.pid());
    }
    signal::send_by_pidfd(child.pidfd(), end).unwrap();
    let status = child.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends");
    for pid in started {
        // The kernel ends them when the program is gone, a moment later.
        if let Ok(pidfd) = process::pidfd_open(pid.try_into().unwrap())
            && is_left(pid)
        {
            assert!(process::wait_pidfd(pidfd, Some(Duration::from_secs(10))).unwrap(), "{pid}");
        }
    }
    status.code()
}

#[test]
fn workers_are_gone_after_an_interruption_and_after_a_kill() {
    assert_eq!(ended_by(Signal::INT), Some(130));
    assert_eq!(ended_by(Signal::KILL), None);
}

#[test]
fn a_load_without_a_folder_to_write_in_is_told_and_the_rest_is_measured() {
    let folder = Folder::new();
    let words = "bench latency --mechanism pipe --size 8 --load io --launches 2 --time 2s --json";
    let mut command = folder.command(&words.split(' ').collect::<Vec<_>>());
    let stdout = folder.home().join("stdout");
    command.env("TMPDIR", "/no/such/directory").stdout(File::create(&stdout).unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(Duration::from_secs(60))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let run: Value = serde_json::from_str(&fs::read_to_string(stdout).unwrap()).unwrap();
    let cell = &run["cells"][0];
    assert_eq!(cell["load"], "io");
    let reason = cell["load_achieved"]["not_reached"][0].as_str().unwrap();
    assert!(reason.contains("cannot write in /no/such/directory"), "{reason}");
    assert!(cell["tags"].as_array().unwrap().contains(&"load_not_reached".into()), "{cell}");
    assert!(cell["rtt_ns"]["p50"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_matrix_is_a_run_whose_cells_say_which_cpus() {
    let folder = Folder::new();
    let words = "bench matrix --mechanism pipe --launches 1 --time 2s --json";
    let ended = folder.run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let run: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(run["schema"], "nearcall.run/1");
    let cpus = run["matrix"]["cpus"].as_array().unwrap();
    let cells = run["cells"].as_array().unwrap();
    assert!(!cells.is_empty() && cells.len() <= cpus.len() * cpus.len());
    for cell in cells {
        assert!(cpus.contains(&cell["placement"]["client_cpu"]), "{cell}");
        assert!(cpus.contains(&cell["placement"]["server_cpu"]), "{cell}");
    }
}
