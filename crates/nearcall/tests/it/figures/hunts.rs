//! Servers that begin to listen after a random time, while a client waits for each.

#![allow(clippy::print_stdout, reason = "one process reports to another")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use nearcall_os::process::Child;

use super::{count, percentile};
use crate::hunts::Form;
use crate::observed::PATIENCE;
use crate::stage::prelude::*;
use crate::support::LoopThread;
use nearcall_testkit::directory::Directory;

/// What a process of this test does. Not set: it starts the one that measures, which has a runtime
/// directory of its own and starts processes that only wait for servers.
const PART: &str = "NEARCALL_TEST_HUNTS";

/// The longest time after which a server begins to listen, in microseconds.
const DELAY_US_MAX: u64 = 20_000;

/// The longest median time from the beginning of `listen` until its server is found, where many
/// names are measured.
const MEDIAN_US_MAX: f64 = 5_000.0;

/// `NEARCALL_NAMES`, 10 by default, 1000 for the figure, for each form of waiting: how long after
/// its `listen` has begun a server is found, and how often any thread of the process that waits has
/// woken up before.
#[test]
fn names_that_appear_after_a_random_time() {
    match std::env::var(PART).ok().as_deref() {
        None => start_measuring(),
        Some("measure") => Form::ALL.into_iter().for_each(measure),
        Some(form) => {
            let form = Form::ALL.into_iter().find(|it| format!("{it:?}") == form).unwrap();
            for name in std::io::stdin().lines() {
                form.hunt(&name.unwrap(), PATIENCE).unwrap();
                println!("{FOUND}{}", clock::monotonic_ns());
            }
        }
    }
}

/// Begins a line with the moment at which a server was found.
const FOUND: &str = "found at ";

fn command(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "figures::hunts::names_that_appear_after_a_random_time";
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

fn start_measuring() {
    let directory = Directory::new();
    let runtime = directory.0.join("runtime");
    let output = command("measure").env("NEARCALL_RUNTIME_DIR", &runtime).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.lines().filter(|line| line.starts_with("hunt")).for_each(|line| eprintln!("{line}"));
    // The client has made it, before any server.
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0, "something was left");
}

fn measure(form: Form) {
    let names = count("NEARCALL_NAMES", 10);
    let mut hunter = command(&format!("{form:?}"));
    let mut hunter = Child::spawn(hunter.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let pid = hunter.pid();
    let pipes = hunter.pipes();
    let (mut asked, output) = (pipes.stdin.take().unwrap(), pipes.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let (mut found_ns, mut wake_ups) = (Vec::new(), 0);
    for number in 0..names {
        let name = format!("hunted-{form:?}-{number}");
        writeln!(asked, "{name}").unwrap();
        let asleep = sleeps_once_waiting(pid);
        clock::pause(Duration::from_micros(fastrand::u64(..DELAY_US_MAX)));
        let (_thread, (sleeps, listen_ns)) = LoopThread::serve(Limits::default(), move |_, it| {
            it.register(EchoDispatcher::new(Service::default())).unwrap();
            let (sleeps, listen_ns) = (sleeps(pid).0, clock::monotonic_ns());
            it.listen(&name).unwrap();
            (sleeps, listen_ns)
        });
        wake_ups += sleeps - asleep;
        let found = lines.by_ref().find_map(|line| {
            line.unwrap().split_once(FOUND).map(|(_, ns)| ns.parse::<u64>().unwrap())
        });
        found_ns.push(found.unwrap() - listen_ns);
    }
    drop(asked);
    assert!(hunter.wait(PATIENCE).unwrap().unwrap().success());
    found_ns.sort_unstable();
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| percentile(&found_ns, share));
    eprintln!(
        "hunt {form:?}: {names} names found {p50:.0} us (median), {p99:.0} us (99 %), {most:.0} us \
         (most) after `listen` has begun; {wake_ups} wake-ups while waiting"
    );
    assert_eq!(wake_ups, 0, "it woke up while no server listened");
    if std::env::var_os("NEARCALL_NAMES").is_some() {
        assert!(p50 <= MEDIAN_US_MAX, "the median is above {MEDIAN_US_MAX} us");
    }
}

/// How often the threads of a process have gone to sleep, and whether all sleep.
fn sleeps(pid: u32) -> (u64, bool) {
    let (mut sum, mut all_sleep) = (0, true);
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // One may end meanwhile.
        let path = task.unwrap().path();
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        sum += field("voluntary_ctxt_switches:").parse::<u64>().unwrap();
        all_sleep &= field("State:") == "S";
    }
    (sum, all_sleep)
}

/// How often a process has gone to sleep, once it watches a directory and sleeps for longer than
/// anything but a wait takes.
fn sleeps_once_waiting(pid: u32) -> u64 {
    let watches = || {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
        let mut infos = descriptors.filter_map(|it| fs::read_to_string(it.ok()?.path()).ok());
        infos.any(|info| info.contains("inotify wd:"))
    };
    let mut last = None;
    wait_until("the client to wait", || {
        let (now, are_asleep) = sleeps(pid);
        let is_same = watches() && are_asleep && last == Some(now);
        last = Some(now);
        clock::pause(Duration::from_millis(3));
        is_same && sleeps(pid) == (now, true)
    });
    sleeps(pid).0
}
