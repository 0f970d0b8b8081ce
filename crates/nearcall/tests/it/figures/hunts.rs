//! Servers that begin to listen after a random time, while a client waits for each.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nearcall::Limits;
use nearcall_os::{clock, process};

use super::{count, percentile};
use crate::echo::EchoDispatcher;
use crate::hunts::{Directory, Form};
use crate::observed::{PATIENCE, wait_until};
use crate::support::{LoopThread, Service};

/// Set where the runtime directory is the test's own.
const INNER: &str = "NEARCALL_TEST_HUNTS";

/// The longest time after which a server begins to listen, in microseconds.
const DELAY_US_MAX: u64 = 20_000;

/// `NEARCALL_NAMES`, 10 by default, 1000 for the figure, for each form of waiting: how long after
/// its `listen` has begun a server is found, and how often the waiting thread has woken up before.
#[test]
fn names_that_appear_after_a_random_time() {
    if std::env::var_os(INNER).is_some() {
        return Form::ALL.into_iter().for_each(measure);
    }
    let directory = Directory::make();
    let runtime = directory.0.join("runtime");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "figures::hunts::names_that_appear_after_a_random_time";
    command.args([test, "--exact", "--nocapture"]).env(INNER, "");
    let output = command.env("NEARCALL_RUNTIME_DIR", &runtime).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.lines().filter(|line| line.starts_with("hunt")).for_each(|line| eprintln!("{line}"));
    // The client has made it, before any server.
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0, "something was left");
}

fn measure(form: Form) {
    let names = count("NEARCALL_NAMES", 10);
    let (ask, asked) = mpsc::channel::<String>();
    let (tell, told) = mpsc::channel();
    let hunter = thread::spawn(move || {
        tell.send((process::tid(), 0)).unwrap();
        for name in asked {
            form.hunt(&name, PATIENCE).unwrap();
            tell.send((process::tid(), clock::monotonic_ns())).unwrap();
        }
    });
    let (tid, _) = told.recv().unwrap();
    let (mut found_ns, mut wake_ups) = (Vec::new(), 0);
    for number in 0..names {
        let name = format!("hunted-{form:?}-{number}");
        ask.send(name.clone()).unwrap();
        let asleep = sleeps_once_asleep(tid);
        clock::pause(Duration::from_micros(fastrand::u64(..DELAY_US_MAX)));
        let (_thread, (sleeps, listen_ns)) = LoopThread::serve(Limits::default(), move |_, it| {
            it.register(EchoDispatcher::new(Service::default())).unwrap();
            let (sleeps, listen_ns) = (sleeps(tid).0, clock::monotonic_ns());
            it.listen(&name).unwrap();
            (sleeps, listen_ns)
        });
        wake_ups += sleeps - asleep;
        let (_, ns) = told.recv_timeout(PATIENCE).unwrap();
        found_ns.push(ns - listen_ns);
    }
    drop(ask);
    hunter.join().unwrap();
    found_ns.sort_unstable();
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| percentile(&found_ns, share));
    eprintln!(
        "hunt {form:?}: {names} names found {p50:.0} us (median), {p99:.0} us (99 %), {most:.0} us \
         (most) after `listen` has begun; {wake_ups} wake-ups while waiting"
    );
    let polls = names as u64 * 2;
    assert!(wake_ups < polls.max(4), "it asked again and again: {wake_ups} wake-ups");
}

/// How often a thread has gone to sleep, and whether it sleeps.
fn sleeps(tid: i32) -> (u64, bool) {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    (field("voluntary_ctxt_switches:").parse().unwrap(), field("State:") == "S")
}

/// How often a thread has gone to sleep, once it sleeps for longer than anything but a wait takes.
fn sleeps_once_asleep(tid: i32) -> u64 {
    let mut last = None;
    wait_until("the client to wait", || {
        let (now, is_asleep) = sleeps(tid);
        let is_same = is_asleep && last == Some(now);
        last = Some(now);
        clock::pause(Duration::from_millis(3));
        is_same && sleeps(tid) == (now, true)
    });
    sleeps(tid).0
}
