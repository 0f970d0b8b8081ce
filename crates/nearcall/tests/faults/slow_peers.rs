//! R10, R11, R12: peers that are stopped, that do not read, or that open connections and say
//! nothing: others are served meanwhile.

use nearcall::Message;
use nearcall_channel::SendError;
use nearcall_os::signal::{Signal, send_by_pidfd};
use nearcall_os::socket::{UnixAddress, unix_connect};

use crate::raw_frames::call;
use crate::shares::cpu_ticks;
use crate::support::child::wait_for_state;
use crate::support::good::Latencies;
use crate::support::hostile::greeted;
use crate::support::in_time;
use crate::support::leaks::anonymous_bytes;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("r12-silent", stay_silent),
    ("r11-server", |address| serve(address, impatient(), |_, _| {})),
    ("r11-unread", stop_reading),
];

/// How long the good client is measured with nothing else.
const QUIET: Duration = Duration::from_millis(200);

#[timed]
fn r10_a_stopped_client_delays_no_other_and_finds_its_session_closed() {
    let address = unique_address();
    let mut server = ServerSetup::new("server").at(&address).start();
    let mut client = Process::start("r09-client", &address);
    client.tell("long");
    assert_eq!(client.hear("said"), "OK");
    // It has a call under way, and is stopped.
    send_by_pidfd(client.child().pidfd(), Signal::STOP).unwrap();
    wait_for_state(client.pid(), 'T');
    let mut good = GoodClient::start(&address, User::Same);
    println!("r10: beside a stopped client: {:?}", good.measure(QUIET));
    good.finish();
    assert_eq!(server.state().wanted, 1, "its call is still under way");
    // Its session ends with the server, while it cannot notice.
    server.kill();
    drop(server);
    let mut next = ServerSetup::new("server").at(&address).start();
    let good = GoodClient::start(&address, User::Same);
    send_by_pidfd(client.child().pidfd(), Signal::CONT).unwrap();
    assert_eq!(client.hear("later"), "UNAVAILABLE");
    client.tell("warm");
    assert_eq!(client.hear("warm"), "OK", "it connects again");
    let state = next.state();
    assert_eq!((state.later, state.violations), (0, 0), "{state:?}: nothing of the old session");
    good.finish();
    client.kill();
    next.wait_for_connections(0);
    next.finish();
}

/// Limits of a server that waits for a short time only for replies to be read.
fn impatient() -> Limits {
    Limits { unread_timeout: Duration::from_millis(300), ..Limits::default() }
}

/// Sends requests and reads no reply until the server closes or takes no more. Returns how many.
fn ask_without_reading(address: &str, mechanism: Mechanism) -> u64 {
    let mut endpoint = greeted(address, mechanism);
    let body = Words { data: vec![7; 2000].into(), ..Words::default() }.encode_to_vec();
    for calls in 0.. {
        let id = ((calls / 256 + 1) << 16) | (calls % 256);
        match endpoint.send(&call(id, "Say", &[], &body), Deadline::after(PATIENCE)) {
            Ok(()) => {}
            Err(SendError::PeerGone) => return calls,
            Err(error) => panic!("{mechanism}: neither room nor an end after {calls}: {error}"),
        }
    }
    0
}

#[timed]
fn r11_clients_that_never_read_are_cut_off_and_leave_nothing_open() {
    let mut server = ServerSetup::new("r11-server").start();
    server.warm_up(&["", "?via=unix-stream"]);
    let good_user = User::another().unwrap_or(User::Same);
    let mut good = GoodClient::start(&server.address, good_user);
    server.wait_for_connections(1);
    let quiet = good.measure(QUIET);
    let oracle = server.leak_oracle();
    let before = anonymous_bytes(server.pid());
    let mut peak = 0;
    let attack = || {
        for mechanism in [Mechanism::Shm, Mechanism::UnixStream] {
            std::thread::scope(|scope| {
                let address = &server.address;
                let attackers: Vec<_> = (0..3)
                    .map(|_| scope.spawn(move || ask_without_reading(address, mechanism)))
                    .collect();
                for attacker in attackers {
                    let calls = attacker.join().unwrap();
                    println!("r11: cut off after {calls} calls over {mechanism}");
                    peak = peak.max(anonymous_bytes(server.pid()));
                }
            });
        }
    };
    let ((), storm) = good.measure_while(attack);
    server.wait_for_connections(1);
    let after = anonymous_bytes(server.pid());
    println!("r11: good client {quiet:?}, beside non-readers {storm:?}");
    println!("r11: memory {} -> {} -> {} KiB", before >> 10, peak >> 10, after >> 10);
    oracle.check(&[]);
    good.finish();
    server.finish();
}

/// Sends requests and reads no reply, until the server reads no more, and then does nothing.
fn stop_reading(words: &str) {
    let (address, mechanism) = words.split_once(' ').unwrap();
    let mut endpoint = greeted(address, mechanism.parse().unwrap());
    let body = Words { data: vec![7; 2000].into(), ..Words::default() }.encode_to_vec();
    for calls in 0.. {
        let id = ((calls / 256 + 1) << 16) | (calls % 256);
        let request = call(id, "Say", &[], &body);
        match endpoint.send(&request, Deadline::after(Duration::from_secs(1))) {
            Ok(()) => {}
            Err(SendError::Full) => break,
            Err(error) => panic!("{mechanism}: {error}"),
        }
    }
    report("unread");
    wait_for_the_parent();
}

#[test]
fn r11_a_loop_sleeps_while_replies_wait_and_notices_the_end_of_their_client() {
    use nearcall::Mechanism::{
        Pipe, PosixMq, Shm, ShmEventfd, ShmFutex, ShmSignal, Tcp, UnixStream,
    };

    in_time(|| {
        let mut local = ServerSetup::new("server").parameters("?allow=all").start();
        let mut remote = ServerSetup::new("server").at("tcp://127.0.0.1:0").start();
        for mechanism in [Shm, ShmEventfd, ShmFutex, ShmSignal, UnixStream, Pipe, PosixMq, Tcp] {
            if mechanism.supported().is_err() {
                continue;
            }
            let server = if mechanism == Tcp { &mut remote } else { &mut local };
            let words = format!("{} {mechanism}", server.address);
            let mut client = Process::start("r11-unread", &words);
            client.hear("unread");
            let (before, time) = (cpu_ticks(server.pid()), Duration::from_millis(500));
            clock::pause(time);
            let ticks = cpu_ticks(server.pid()) - before;
            println!("r11: {mechanism}: {} ms of a CPU in {time:?}", 10 * ticks);
            assert!(ticks <= 5, "{mechanism}: {ticks} hundredths of a second in {time:?}");
            client.kill();
            server.wait_for_connections(0);
        }
        local.finish();
        remote.finish();
    });
}

/// Sockets that an attacker holds at once.
const SILENT: usize = 200;

/// Keeps connections open on which nothing is said, or a part of a greeting, and replaces those
/// that the server closes, until it is killed.
fn stay_silent(address: &str) {
    let name = address.strip_prefix("unix:@").unwrap().as_bytes();
    let connect = |half: bool| {
        let socket = unix_connect(UnixAddress::Abstract(name), Some(PATIENCE)).ok()?;
        // The first half of a handshake, and no more.
        let hello = crate::support::raw::good_hello(Mechanism::Shm);
        let sent = !half || nearcall_os::socket::send(&socket, &hello).is_ok();
        sent.then_some(socket)
    };
    let mut lines: Vec<_> = (0..SILENT).map(|number| connect(number % 2 == 0)).collect();
    report("silent");
    let mut buffer = [0; 2048];
    loop {
        for (number, line) in lines.iter_mut().enumerate() {
            let is_open = line.as_ref().is_some_and(|line| {
                // An offer may have come; an end is nothing, or an error.
                !matches!(nearcall_os::socket::try_recv(line, &mut buffer), Ok(Some(0)) | Err(_))
            });
            if !is_open {
                *line = connect(number % 2 == 0);
            }
        }
        clock::pause(Duration::from_millis(1));
    }
}

/// How long new clients need from the start of their process to their first answer. `start` starts
/// one.
fn log_in(address: &str, user: User, start_client: fn(&str, User) -> GoodClient) -> Latencies {
    let mut took: Vec<_> = (0..10)
        .map(|_| {
            let start = clock::now();
            start_client(address, user).finish();
            start.elapsed()
        })
        .collect();
    took.sort_unstable();
    Latencies { calls: 10, failed: 0, p50: took[5], p99: took[9], max: took[9] }
}

#[timed]
fn r12_half_open_connections_keep_no_client_out() {
    let mut server = ServerProcess::start();
    server.warm_up(&["", "?via=unix-stream"]);
    let oracle = server.leak_oracle();
    let attacker_user = User::another();
    let quiet = log_in(&server.address, User::Same, GoodClient::start);
    let mut command = command("r12-silent", &server.address, "");
    if let Some(User::Uid(uid)) = attacker_user {
        command.uid(uid).gid(uid);
    }
    let mut attacker = Process::start_as("r12-silent", command);
    attacker.hear("silent");
    // Of the attacker's user: on a machine with too much to do it may be taken for a silent
    // client as well, and is told to try again.
    let same_user = attacker_user.unwrap_or(User::Same);
    let same = log_in(&server.address, same_user, GoodClient::start_patient);
    println!("r12: logins: quiet {quiet:?}; user of {SILENT} silent connections {same:?}");
    if attacker_user.is_some() {
        // Of another user: nothing of the kind.
        let other = log_in(&server.address, User::Same, GoodClient::start);
        println!("r12: another user {other:?}");
    } else {
        skip("r12 of another user", "only root can become another user");
    }
    attacker.kill();
    server.wait_for_connections(0);
    oracle.check(&[attacker.pid()]);
    server.finish();
}
