//! Restarts: orderly ones that lose no call, moves between process and library, kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::{Client, Code, Status};
use nearcall_os::clock;
use nearcall_os::process::{Child, kill_pidfd, pidfd_open};
use nearcall_os::signal::Signal;

use crate::home::{SetTargetRequest, ThermostatCaller};
use crate::tested::{
    PATIENCE, TestedHost, figure, has_ended, in_time, library, process, wait_until,
};

/// Callers that call one after the other until they are told to end.
struct Load {
    threads: Vec<JoinHandle<Counts>>,
    is_over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    failed: Vec<Status>,
    longest: Duration,
}

impl Load {
    fn start(addresses: &[String], make: Call) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let threads = addresses.iter().map(|address| {
            let caller = ThermostatCaller::new(&Client::new(), address).unwrap();
            let (is_over, done) = (Arc::clone(&is_over), Arc::clone(&done));
            thread::spawn(move || run(&caller, make, &is_over, &done))
        });
        Self { threads: threads.collect(), is_over, done }
    }

    /// Waits until so many more calls were made, so that something happens under load.
    fn let_pass(&self, calls: u64) {
        let wanted = self.done.load(Ordering::Relaxed) + calls;
        wait_until("the calls", || self.done.load(Ordering::Relaxed) >= wanted);
    }

    fn end(self) -> Counts {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Counts::default();
        for thread in self.threads {
            let counts = thread.join().unwrap();
            all.calls += counts.calls;
            all.failed.extend(counts.failed);
            all.longest = all.longest.max(counts.longest);
        }
        all
    }
}

/// One call of a load.
type Call = fn(&ThermostatCaller) -> Result<(), Status>;

/// Makes a call that is not made again if it may have run.
fn call_once(caller: &ThermostatCaller) -> Result<(), Status> {
    match caller.with(in_time()).reset(&()) {
        // It is answered so.
        Err(status) if status.code() == Code::OutOfRange => Ok(()),
        Err(status) => Err(status),
        Ok(()) => Err(Status::internal("this service never says that")),
    }
}

/// Makes a call that may run twice.
fn call_idempotent(caller: &ThermostatCaller) -> Result<(), Status> {
    let options = in_time().reconnect(ReconnectPolicy::Wait(PATIENCE));
    caller.with(options).set_target(&SetTargetRequest { celsius: 20.0 }).map(drop)
}

fn run(caller: &ThermostatCaller, make: Call, is_over: &AtomicBool, done: &AtomicU64) -> Counts {
    let mut counts = Counts::default();
    while !is_over.load(Ordering::Relaxed) {
        let begun = clock::now();
        counts.failed.extend(make(caller).err());
        counts.longest = counts.longest.max(begun.elapsed());
        counts.calls += 1;
        done.fetch_add(1, Ordering::Relaxed);
        // At most some thousands a second of each, so that the rest of the machine gets its turn.
        clock::pause(Duration::from_micros(200));
    }
    counts
}

#[test]
fn orderly_restarts_lose_no_call() {
    let restarts = figure("NEARCALL_RESTARTS", 5);
    let mut host = TestedHost::start(&process("room", &["plain"], ""));
    host.wait_until_up();
    let load = Load::start(&[0; 3].map(|_| host.address("room")), call_once);
    let mut pids = vec![host.service("room").pid];
    for _ in 0..restarts {
        load.let_pass(20);
        host.restart(&["room"]).unwrap_or_else(|status| panic!("{status}\n{}", host.log()));
        pids.push(host.service("room").pid);
    }
    load.let_pass(20);
    let counts = load.end();
    println!(
        "{restarts} orderly restarts under {} calls: {} failed, the longest took {:.1?}",
        counts.calls,
        counts.failed.len(),
        counts.longest
    );
    assert_eq!(counts.failed.len(), 0, "{:?}\n{}", counts.failed, host.log());
    pids.dedup();
    assert_eq!(pids.len() as u64, restarts + 1, "each has a process of its own");
    assert_eq!(host.service("room").restarts, restarts);
    let (last, before) = pids.split_last().unwrap();
    wait_until("the end of the ones before", || before.iter().all(|pid| has_ended(*pid)));
    assert!(!has_ended(*last));
    assert_eq!(host.stop(), Some(0));
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}

#[test]
fn kills_lose_no_call_that_may_be_made_again() {
    let kills = figure("NEARCALL_RESTARTS", 5);
    let rest = "restart-limit = 0\nback-off-min = \"1ms\"\nback-off-max = \"10ms\"";
    let mut host = TestedHost::start(&process("room", &["plain"], rest));
    host.wait_until_up();
    let load = Load::start(&[0; 3].map(|_| host.address("room")), call_idempotent);
    for _ in 0..kills {
        load.let_pass(20);
        let pid = host.service("room").pid;
        kill_pidfd(pidfd_open(i32::try_from(pid).unwrap()).unwrap()).unwrap();
        host.wait_for("room", |service| service.state == "up" && service.pid != pid);
    }
    load.let_pass(20);
    let counts = load.end();
    println!(
        "{kills} kills under {} idempotent calls: {} failed, the longest took {:.1?}",
        counts.calls,
        counts.failed.len(),
        counts.longest
    );
    assert_eq!(counts.failed.len(), 0, "{:?}\n{}", counts.failed, host.log());
    let service = host.service("room");
    assert_eq!((service.restarts, service.last_end.as_str()), (kills, "was killed by SIGKILL"));
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_service_that_is_called_back_serves_in_every_set_up() {
    // A calls B, which calls A.
    type Make = fn(&str, &[&str], &str) -> String;
    let setups: [(Make, Make, bool, bool); 6] = [
        (process, process, false, false),
        (process, library, false, false),
        (library, process, false, false),
        (library, library, false, false),
        (library, library, true, false),
        (library, library, true, true),
    ];
    let mut services = String::new();
    for (number, (make_a, make_b, is_one_group, is_nonblocking)) in setups.iter().enumerate() {
        let rest = if *is_one_group { format!("group = \"group{number}\"") } else { String::new() };
        let promise = if *is_nonblocking { "nonblocking" } else { "" };
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let address = |name: &str| format!("unix:DIRECTORY/{name}");
        services.push_str(&make_a(&a, &["back", &address(&b), promise], &rest));
        services.push_str(&make_b(&b, &["ask", &address(&a), promise], &rest));
    }
    let mut host = TestedHost::start(&services);
    host.wait_until_up();
    let options = in_time();
    for (number, (.., is_nonblocking)) in setups.iter().enumerate() {
        let caller = host.thermostat(&format!("a{number}"));
        // Several at once, each inside the one before.
        let calls: [_; 3] = std::array::from_fn(|_| {
            caller.with(options.clone()).start_set_target(&SetTargetRequest { celsius: 20.0 })
        });
        for call in calls {
            let reply = call.wait().unwrap_or_else(|status| panic!("set-up {number}: {status}"));
            // Only a call of a function has no caller by the kernel.
            assert_eq!(reply.celsius_before == -1.0, *is_nonblocking, "set-up {number}");
        }
    }
    assert_eq!(host.stop(), Some(0), "{}", host.log());
}

#[test]
fn services_move_between_process_and_library_by_their_file_only() {
    let rounds = figure("NEARCALL_MOVES", 1);
    let relay = |make: fn(&str, &[&str], &str) -> String, rest: &str| {
        make("relay", &["relay", "unix:DIRECTORY/room"], &format!("after = [\"room\"]\n{rest}"))
    };
    let group = "group = \"small\"";
    let setups = [
        [process("room", &["plain"], ""), relay(process, "")],
        [process("room", &["plain"], ""), relay(library, "")],
        [library("room", &["plain"], group), relay(library, group)],
        [library("room", &["plain"], ""), relay(library, "")],
        [library("room", &["plain"], ""), relay(process, "")],
    ]
    .map(|services| services.concat());
    let mut host = TestedHost::start(&setups[0]);
    host.wait_until_up();
    let load = Load::start(&["room", "relay", "relay"].map(|name| host.address(name)), call_once);
    let mut moves = 0;
    for _ in 0..rounds {
        for setup in setups[1..].iter().chain([&setups[0]]) {
            load.let_pass(20);
            host.write(setup);
            host.restart(&[]).unwrap_or_else(|status| panic!("{status}\n{}", host.log()));
            moves += 1;
            load.let_pass(20);
        }
    }
    let counts = load.end();
    println!(
        "{moves} moves of two services between processes, libraries and a group under {} calls: {} \
         failed, the longest took {:.1?}",
        counts.calls,
        counts.failed.len(),
        counts.longest
    );
    assert_eq!(counts.failed.len(), 0, "{:?}\n{}", counts.failed, host.log());
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_call_under_way_ends_in_the_process_before() {
    let mut host = TestedHost::start(&process("room", &["plain"], ""));
    host.wait_until_up();
    let before = host.service("room").pid;
    let caller = host.thermostat("room");
    // Blocks the only loop of the process until that is killed. Not to be made again then.
    let once = in_time().reconnect(ReconnectPolicy::Never);
    let request = SetTargetRequest { celsius: -3.0 };
    let blocked = thread::spawn(move || caller.with(once.clone()).set_target(&request));
    host.wait_until_blocked(1);
    host.restart(&["room"]).unwrap();
    let after = host.service("room").pid;
    assert_ne!(before, after);
    assert!(!has_ended(before) && !blocked.is_finished());
    assert_eq!(host.status().retiring, 1);
    host.thermostat("room").with(in_time()).set_target(&SetTargetRequest { celsius: 1.0 }).unwrap();
    host.signal(Signal::TERM);
    // Two signals at once could be one.
    wait_until("the first signal", || host.log().contains("stopping"));
    host.signal(Signal::TERM);
    assert_eq!(host.wait(), Some(130));
    assert_eq!(blocked.join().unwrap().unwrap_err().code(), Code::Unavailable);
}

#[test]
fn clients_that_come_while_a_service_is_down_wait_in_its_queue() {
    let slow = "back-off-min = \"300ms\"\nrestart = \"always\"";
    let host = TestedHost::start(&process("room", &["plain"], slow));
    host.wait_until_up();
    for round in 1..=3 {
        let service = host.service("room");
        kill_pidfd(pidfd_open(i32::try_from(service.pid).unwrap()).unwrap()).unwrap();
        // A test that looks late may find that the next process is there.
        host.wait_for("room", |it| it.state == "backing-off" || it.pid != service.pid);
        // A client that was not there before: the listener of the host takes its connection.
        let options = in_time();
        let request = SetTargetRequest { celsius: 1.0 };
        host.thermostat("room").with(options).set_target(&request).unwrap();
        let now = host.service("room");
        assert_eq!((now.restarts, now.last_end.as_str()), (round, "was killed by SIGKILL"));
    }
}

#[test]
fn nothing_is_left_of_a_host_that_is_killed() {
    let services = [
        process("room", &["plain"], ""),
        library("hall", &["plain"], "group = \"small\""),
        library("attic", &["plain"], "group = \"small\""),
    ]
    .concat();
    let mut host = TestedHost::start(&services);
    host.wait_until_up();
    let mut pids: Vec<u32> = host.status().services.iter().map(|service| service.pid).collect();
    pids.dedup();
    assert_eq!(pids.len(), 2, "two processes beside the host");
    host.child.kill().unwrap();
    let begun = clock::now();
    wait_until("the end of what it has started", || pids.iter().all(|pid| has_ended(*pid)));
    println!("what a killed host had started was gone after {:.1?}", begun.elapsed());
    for name in ["room", "hall", "attic", "host"] {
        let status =
            host.thermostat(name).with(in_time()).set_target(&SetTargetRequest { celsius: 1.0 });
        assert_eq!(status.unwrap_err().code(), Code::Unavailable, "{name}");
    }
    // The next one takes the addresses over.
    host.child = Child::spawn(&mut TestedHost::command(&host.directory)).unwrap();
    Client::new().hunt(&host.address("host"), PATIENCE).unwrap();
    host.wait_until_up();
    for name in ["room", "hall", "attic"] {
        host.thermostat(name)
            .with(in_time())
            .set_target(&SetTargetRequest { celsius: 1.0 })
            .unwrap();
    }
    assert_eq!(host.stop(), Some(0));
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}
