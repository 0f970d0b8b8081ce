//! Connections with `via=auto`. Each case is a process of its own, since a process reads once what
//! is stored of its machine.

use std::process::{Command, Stdio};
use std::{env, fs};

use nearcall::observe::{ConnectionInfo, SwitchCause};
use nearcall_channel::spin::tuning;
use nearcall_os::process::Child;

use crate::stage::prelude::*;

const CASE: &str = "NEARCALL_TEST_AUTOMATIC";

/// Does what a case says; nothing when the harness runs it.
#[test]
fn entry() {
    let Ok(case) = env::var(CASE) else { return };
    match case.as_str() {
        "taken back" => {
            is_taken_back(&Client::new(), blocking);
            let event_loop = EventLoop::new().unwrap();
            is_taken_back(&Client::in_loop(&event_loop), blocking);
        }
        "taken back by futures" => is_taken_back(&Client::new(), awaiting),
        "not for futures" => in_time(has_no_descriptor),
        "not allowed" => in_time(is_not_allowed),
        "nothing stored" => in_time(has_nothing_stored),
        other => panic!("there is no case `{other}`"),
    }
}

/// Runs a case with this stored of the machine.
#[track_caller]
fn run(case: &str, stored: Option<&str>) {
    let name = format!("nearcall-automatic-{}-{}", std::process::id(), case.len());
    let path = env::temp_dir().join(name);
    if let Some(stored) = stored {
        fs::write(&path, stored).unwrap();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["automatic::entry", "--exact", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .env("NEARCALL_TUNING", stored.map_or("".as_ref(), |_| path.as_os_str()))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(2 * PATIENCE)).unwrap();
    if status.is_none() {
        child.kill().unwrap();
    }
    let _ = fs::remove_file(&path);
    assert!(status.is_some_and(|status| status.success()), "{case}: {status:?}");
}

/// A table that is wrong: datagrams are said to be much quicker than `shm`, as soon as calls are
/// made without a pause.
fn wrong() -> String {
    wrong_for(Mechanism::UnixDgram)
}

/// The same for another mechanism than datagrams.
fn wrong_for(wrong: Mechanism) -> String {
    let machine = tuning::machine();
    let mut text = format!("nearcall.tuning/1\nmachine = {machine}\nwake_up_ns = 5000\n");
    for placement in ["two-cpus", "one-cpu"] {
        // `shm` is still said to be the best over all, to begin with.
        let rows = [("shm", 900_000, 100), (wrong.name(), 1_000, 100_000)];
        for (mechanism, busy_ns, rare_ns) in rows {
            for (pace, ns) in [("busy", busy_ns), ("rare", rare_ns)] {
                text += &format!("cost = {mechanism} {placement} {pace} 64 {ns} {ns}\n");
            }
        }
    }
    text
}

#[test]
fn a_switch_that_makes_things_worse_is_taken_back() {
    run("taken back", Some(&wrong()));
}

#[test]
fn one_that_tasks_share_takes_a_switch_back_as_well() {
    run("taken back by futures", Some(&wrong()));
}

#[test]
fn one_that_tasks_share_stays_off_what_has_no_descriptor() {
    run("not for futures", Some(&wrong_for(Mechanism::ShmFutex)));
}

#[test]
fn a_server_that_allows_no_switch_leaves_the_connection_where_it_is() {
    run("not allowed", Some(&wrong()));
}

#[test]
fn without_a_stored_table_nothing_is_switched() {
    run("nothing stored", None);
}

/// A server whose calls take long while this is set.
fn serve(switches_per_minute_max: u32, is_slow: &Arc<AtomicBool>) -> Served {
    let limits = Limits { switches_per_minute_max, ..Limits::default() };
    let is_slow = Arc::clone(is_slow);
    serve_scripted(limits, move |_| {
        Scripted::new(move |_, request| {
            if is_slow.load(Ordering::Relaxed) {
                clock::pause(SLOW);
            }
            Ok(request.clone())
        })
    })
}

/// Far more than a call takes, on a busy machine as well.
const SLOW: Duration = Duration::from_millis(5);

/// What makes one call.
type Say = Box<dyn Fn(&Words) -> Words>;

fn blocking(client: &Client, at: &str) -> Say {
    let echo = EchoCaller::new(client, at).unwrap();
    Box::new(move |words| echo.say(words).unwrap())
}

fn awaiting(client: &Client, at: &str) -> Say {
    let echo = EchoAsyncCaller::new(client, at).unwrap();
    Box::new(move |words| block_on(echo.say(words)).unwrap())
}

/// Calls until the connection is as `is_so` says.
fn call_until(client: &Client, say: &Say, is_so: impl Fn(&ConnectionInfo) -> bool) {
    let end = clock::now() + PATIENCE;
    loop {
        for number in 0..20 {
            assert_eq!(say(&words(number)), words(number));
        }
        let [info] = &client.connections()[..] else { panic!("one connection") };
        if is_so(info) {
            return;
        }
        assert!(clock::now() < end, "{info}: {:?}, {:?}", info.automatic, info.switches);
    }
}

fn is_taken_back(client: &Client, caller: fn(&Client, &str) -> Say) {
    let is_slow = Arc::default();
    let served = serve(100, &is_slow);
    let say = caller(client, &served.via("?via=auto#s"));
    call_until(client, &say, |info| {
        is_slow.store(info.mechanism != Mechanism::Shm, Ordering::Relaxed);
        info.switches.len() >= 2 && !info.switches[1].note.is_empty()
    });
    let info = client.connections().remove(0);
    let [there, back] = &info.switches[..] else { panic!("{:?}", info.switches) };
    assert_eq!((there.from, there.to), (Mechanism::Shm, Some(Mechanism::UnixDgram)));
    assert_eq!((back.from, back.to), (Mechanism::UnixDgram, Some(Mechanism::Shm)));
    for one in [there, back] {
        assert_eq!((one.cause, &one.outcome), (SwitchCause::Automatic, &Ok(())), "{one}");
        assert!(one.note.contains("seen: "), "{one}");
    }
    assert!(there.note.contains("expected: ") && there.note.contains("worth: +"), "{there}");
    assert!(back.note.contains("measured: "), "{back}");
    assert_eq!(info.mechanism, Mechanism::Shm);
    // It is remembered.
    let end = clock::now() + Duration::from_secs(2);
    call_until(client, &say, |_| clock::now() >= end);
    assert_eq!(client.connections()[0].switches.len(), 2);
}

fn has_no_descriptor() {
    let served = serve(100, &Arc::default());
    let client = Client::new();
    let say = awaiting(&client, &served.via("?via=auto#s"));
    call_until(&client, &say, |info| {
        let why = info.automatic.as_deref().unwrap_or_default();
        why.contains("cannot wait for it")
    });
    let info = client.connections().remove(0);
    assert_eq!((info.mechanism, info.switches.len()), (Mechanism::Shm, 0));
}

fn is_not_allowed() {
    let served = serve(0, &Arc::default());
    let client = Client::new();
    call_until(&client, &blocking(&client, &served.via("?via=auto#s")), |info| {
        let why = info.automatic.as_deref().unwrap_or_default();
        why.contains("cannot move")
    });
    assert_eq!(client.connections()[0].mechanism, Mechanism::Shm);
}

fn has_nothing_stored() {
    let served = serve(100, &Arc::default());
    let client = Client::new();
    let end = clock::now() + Duration::from_secs(1);
    call_until(&client, &blocking(&client, &served.via("?via=auto#s")), |_| clock::now() >= end);
    let info = client.connections().remove(0);
    assert!(info.switches.is_empty());
    let why = info.automatic.unwrap();
    assert!(why.contains("nearcall advise --profile"), "{why}");
    // One that is not automatic has nothing to explain.
    let plain = Client::new();
    EchoCaller::new(&plain, &served.address).unwrap().nothing(&()).unwrap();
    assert_eq!(plain.connections()[0].automatic, None);
}
