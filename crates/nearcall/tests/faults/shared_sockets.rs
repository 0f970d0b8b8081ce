//! R21: a client plays tricks with the sockets between it and the server, of which it may change
//! flags, owner, times, room and directions: the loop of the server never waits for it.
//!
//! **Not here:** an eventfd that both ends hold (`nearcall-os/tests/it/epoll.rs`), over which no
//! mechanism runs that a server offers by default.

use std::os::fd::BorrowedFd;

use nearcall::Message;
use nearcall_channel::{DataPath, Endpoint, Interest};
use nearcall_os::poll::{self, poll_one};
use nearcall_os::socket::{self, Half};
use nearcall_os::{descriptor, signal};

use crate::raw_frames::call;
use crate::support::hostile::greeted;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[("r21-trickster", play_all)];

/// Longest time for an answer to the good client. It is a millisecond on a machine that has nothing
/// else to do, so that only a server that waits for the trickster exceeds it.
const WATCHDOG: Duration = Duration::from_secs(10);
/// Requests whose answers are not read: more than any buffer between the two takes.
const REQUESTS: u64 = 600;
/// Requests at once whose answers are awaited, and how often.
const BATCH: u64 = 64;
const ROUNDS: u64 = 96;
/// Time in which a server that reads takes a request.
const SOON: Duration = Duration::from_millis(20);
/// Writes that fill a socket, also of a server that reads meanwhile.
const FILLS: usize = 4096;

/// What the trickster does with a socket that connects it with process `server`.
type Trick = (&'static str, fn(fd: BorrowedFd<'_>, server: i32));

const TRICKS: &[Trick] = &[
    ("clears O_NONBLOCK", |fd, _| descriptor::set_nonblocking(fd, false).unwrap()),
    ("sets O_NONBLOCK", |fd, _| descriptor::set_nonblocking(fd, true).unwrap()),
    ("has the server sent SIGIO", |fd, server| signal::send_when_ready(fd, server).unwrap()),
    ("sets the timeouts", |fd, _| socket::set_timeouts(fd, Duration::from_micros(1)).unwrap()),
    ("takes the room", |fd, _| {
        socket::set_buffer_bytes(fd, Some(1), Some(1)).unwrap();
    }),
    ("fills it", |fd, _| {
        // The server may end the connection for what it reads there.
        let _ = (0..FILLS).find(|_| !matches!(socket::try_send(fd, &[0; 512]), Ok(Some(_))));
    }),
    ("receives no more", |fd, _| socket::shutdown(fd, Half::Receive).unwrap()),
    ("sends no more", |fd, _| socket::shutdown(fd, Half::Send).unwrap()),
    ("ends both", |fd, _| socket::shutdown(fd, Half::Both).unwrap()),
];

fn offered() -> impl Iterator<Item = Mechanism> {
    Mechanism::all().filter(|mechanism| mechanism.offered_by_default())
}

/// Plays each trick on each socket of each mechanism, one for each line of input, and holds the
/// connection until the next. The address is that of the server, and its process.
fn play_all(server: &str) {
    let (address, pid) = server.split_once(' ').unwrap();
    let pid = pid.parse().unwrap();
    let mut lines = std::io::stdin().lock().lines();
    let mut held: Option<Endpoint> = None;
    for mechanism in offered() {
        for (name, trick) in TRICKS {
            for control in [true, false] {
                let Some(Ok(_)) = lines.next() else { return };
                if let Some(mut before) = held.take() {
                    before.discard_unsent();
                }
                let mut endpoint = greeted(address, mechanism);
                let (socket, place) = match control {
                    true => (endpoint.control_fd(), "control socket"),
                    false => (endpoint.readiness(Interest::Receive).unwrap().fd, "data socket"),
                };
                trick(socket, pid);
                let rings = match mechanism.data_path() {
                    DataPath::SharedMemory => leave_rings(&mut endpoint),
                    _ => 0,
                };
                let asked = ask_without_reading(&mut endpoint);
                report(&format!(
                    "played {mechanism}, {place}: {name}; {rings} answers, {asked} requests"
                ));
                held = Some(endpoint);
            }
        }
    }
}

/// Reads every answer and none of the rings that come with them: more than the socket of the server
/// takes. Returns how many answers.
fn leave_rings(endpoint: &mut Endpoint) -> u64 {
    let end = Deadline::after(PATIENCE);
    for number in 0..ROUNDS * BATCH {
        if number % BATCH == 0 {
            // To send takes the announced sleep back, and the rings: there is none now.
            for slot in 0..BATCH {
                let request = call((number + 1) << 16 | slot, "Nothing", &[], &[]);
                if endpoint.send(&request, end).is_err() {
                    return number;
                }
            }
        }
        // The server takes this for a sleep, and rings. Once there is an answer, it is none any
        // more, so that to receive it takes no ring away.
        while endpoint.arm(Interest::Receive) && !is_over(endpoint) {
            assert!(!end.has_passed(), "neither an answer nor an end");
        }
        if endpoint.receive(Deadline::NOW).is_err() {
            return number;
        }
    }
    ROUNDS * BATCH
}

/// Whether the server has ended the connection.
fn is_over(endpoint: &Endpoint) -> bool {
    poll_one(endpoint.control_fd(), poll::Interest::HangUp, Deadline::NOW).unwrap().is_some()
}

/// Asks until the server takes no more. Returns how often.
fn ask_without_reading(endpoint: &mut Endpoint) -> u64 {
    let body = Words { data: vec![7; 2000].into(), ..Words::default() }.encode_to_vec();
    for number in 0..REQUESTS {
        // Beyond those of the rings.
        let id = ((ROUNDS * BATCH + number / 256 + 1) << 16) | (number % 256);
        if endpoint.send(&call(id, "Say", &[], &body), Deadline::after(SOON)).is_err() {
            return number;
        }
    }
    REQUESTS
}

#[timed]
fn r21_tricks_with_shared_sockets_never_block_the_loop() {
    let mut server = ServerProcess::start();
    let vias: Vec<_> = offered().map(|mechanism| format!("?via={mechanism}")).collect();
    server.warm_up(&vias.iter().map(String::as_str).collect::<Vec<_>>());
    let oracle = server.leak_oracle();
    let mut good = GoodClient::start(&server.address, User::Same);
    let good_pid = good.pid();
    // A client of the server's user may end the server by any signal; another user must not.
    let (user, signalled) = match User::another() {
        Some(user) => (user, server.pid()),
        None => {
            skip("r21 SIGIO to the server", "only root can start a client of another user");
            (User::Same, 0)
        }
    };
    let mut trickster = start_as("r21-trickster", &server.address, signalled, user);
    trickster.expect_end();
    let (mut played, mut worst) = (0, (Duration::ZERO, String::new()));
    loop {
        let (what, calls) = good.measure_while(|| {
            trickster.tell("next");
            let what = trickster.hear_or_end("played")?;
            server.state();
            Some(what)
        });
        let Some(what) = what else { break };
        assert!(calls.max < WATCHDOG, "{what}: {calls:?}");
        played += 1;
        worst = worst.max((calls.max, what));
    }
    println!("r21: {played} tricks; slowest answer to the good client {worst:?}");
    assert_eq!(played, offered().count() * TRICKS.len() * 2, "the trickster has ended early");
    let trickster_pid = trickster.pid();
    trickster.finish();
    good.finish();
    server.wait_for_connections(0);
    oracle.check(&[good_pid, trickster_pid]);
    server.finish();
}

fn start_as(role: &str, address: &str, pid: u32, user: User) -> Process {
    let mut command = command(role, &format!("{address} {pid}"), "");
    if let User::Uid(uid) = user {
        command.uid(uid).gid(uid);
    }
    Process::start_as(role, command)
}
