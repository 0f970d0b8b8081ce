//! Servers that are killed or end while clients call: what is sent again, and what is not.
//!
//! `NEARCALL_RESTARTS`: 5 by default, 1000 for the figure.
#![allow(clippy::print_stderr, reason = "it prints figures")]

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use nearcall::client::ReconnectPolicy;
use nearcall_os::process::{Child, kill_pidfd};
use nearcall_os::signal::{Signal, send_by_pidfd};
use nearcall_os::socket::{self, UnixAddress};

use nearcall_testkit::directory::Directory;

use crate::figures::count;
use crate::observed::PATIENCE;
use crate::stage::prelude::*;
use crate::two_processes::{start, start_with};

/// `Say` with this number and more has the server exit with what is above it.
pub(crate) const EXIT: u64 = 1 << 32;

/// Is a server that ends by a signal or by `Say`. It writes each number that `Say` has brought into
/// a file beside its socket, if that has a directory.
#[allow(clippy::exit, reason = "that is the end that its client has to learn")]
pub(crate) fn serve(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let log = address.strip_prefix("unix:/").map(|path| {
        OpenOptions::new().create(true).append(true).open(log_of(&format!("/{path}"))).unwrap()
    });
    let service = Scripted::new(move |_, request| {
        if let Some(code) = request.number.checked_sub(EXIT) {
            std::process::exit(i32::try_from(code).unwrap());
        }
        if let Some(mut log) = log.as_ref() {
            log.write_all(&request.number.to_le_bytes()).unwrap();
        }
        Ok(request.clone())
    });
    server.register(EchoDispatcher::new(service)).unwrap();
    server.listen(address).unwrap();
    server.run_until_signal(&event_loop).unwrap();
}

fn log_of(socket: &str) -> PathBuf {
    format!("{socket}.log").into()
}

/// Time between the calls of one caller: 1,000 a second.
const PACE: Duration = Duration::from_millis(1);

/// Calls that each server has answered before it ends.
const CALLS_EACH: u64 = 10;

/// What callers have seen of the methods `Say`, which is not idempotent, and `Look`, which is.
#[derive(Default)]
struct Seen {
    answered: AtomicU64,
    is_over: AtomicBool,
}

impl Seen {
    /// Calls until it is over, at the pace. Returns how many calls there were, and the longest.
    fn call(&self, mut call: impl FnMut(u64)) -> (u64, Duration) {
        let (start, mut longest, mut calls) = (clock::now(), Duration::ZERO, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            let begun = clock::now();
            call(calls);
            longest = longest.max(begun.elapsed());
            calls += 1;
            let next = start + PACE * u32::try_from(calls).unwrap();
            clock::pause(next.saturating_duration_since(clock::now()));
        }
        (calls, longest)
    }

    fn note(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// How a server is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    Killed,
    Orderly,
    /// As `Orderly`, and the next process has the socket before: no call has to wait for it.
    HandedOver,
}

impl Restart {
    fn policy(self) -> ReconnectPolicy {
        match self {
            Self::HandedOver => ReconnectPolicy::Once,
            Self::Killed | Self::Orderly => ReconnectPolicy::Wait(PATIENCE),
        }
    }
}

/// Restarts a server while a thread and tasks call it, and judges what they have seen.
fn restart(how: Restart) {
    let directory = Directory::new();
    let path = directory.0.join("socket").display().to_string();
    let (address, place) = (&*format!("unix:{path}"), UnixAddress::Path(path.as_ref()));
    let bound = (how == Restart::HandedOver).then(|| socket::unix_listen(place, 128).unwrap());
    let start = || match &bound {
        None => start("restarted", address),
        Some(bound) => start_with(bound, "restarted", address),
    };
    let client = &Client::builder().reconnect(how.policy()).build();
    let options = &CallOptions::new().deadline(3 * PATIENCE);
    let (seen, restarts) = (&Seen::default(), count("NEARCALL_RESTARTS", 5));
    let first = start();
    client.hunt(address, PATIENCE).unwrap();
    let begun = clock::now();
    let (looks, tasks, says) = thread::scope(|scope| {
        let look = scope.spawn(|| {
            let echo = EchoCaller::new(client, address).unwrap();
            seen.call(|_| {
                echo.with(options.clone()).look(&()).expect("it is idempotent");
                seen.note();
            })
        });
        let task = scope.spawn(|| {
            let echo = EchoAsyncCaller::new(client, address).unwrap();
            seen.call(|_| {
                block_on(echo.with(options.clone()).look(&())).expect("it is idempotent");
            })
        });
        let say = scope.spawn(|| {
            let echo = EchoCaller::new(client, address).unwrap();
            let mut outcomes = Vec::new();
            seen.call(|number| {
                outcomes.push(echo.with(options.clone()).say(&words(number)).map(drop));
            });
            outcomes
        });
        let mut server = first;
        for _ in 0..restarts {
            let answered = seen.answered.load(Ordering::Relaxed);
            wait_until("some calls", || {
                seen.answered.load(Ordering::Relaxed) >= answered + CALLS_EACH || look.is_finished()
            });
            if look.is_finished() {
                break;
            }
            let next = bound.is_some().then(&start);
            next.iter().for_each(|next| wait_until_listening(place, next));
            end(how, &mut server);
            server = next.unwrap_or_else(&start);
        }
        seen.is_over.store(true, Ordering::Relaxed);
        (look.join().unwrap(), task.join().unwrap(), say.join().unwrap())
    });
    let seconds = begun.elapsed().as_secs_f64();
    let lost = judge(&says, &fs::read(log_of(&path)).unwrap(), how != Restart::Killed);
    eprintln!(
        "{restarts} restarts ({how:?}) in {seconds:.1} s: {} idempotent calls of a thread, {} of \
         tasks, \
         none failed, the longest took {:.0} ms; {} calls that are not idempotent, {lost} lost, \
         none run twice",
        looks.0,
        tasks.0,
        looks.1.max(tasks.1).as_secs_f64() * 1e3,
        says.len(),
    );
}

/// Waits until a process was the last to listen at a socket.
fn wait_until_listening(place: UnixAddress<'_>, server: &Child) {
    wait_until("the next server to listen", || {
        let client = socket::unix_connect(place, Some(PATIENCE)).unwrap();
        let listening = socket::peer_credentials(&client).unwrap().pid;
        listening == i32::try_from(server.pid()).ok()
    });
}

/// Compares the ends of calls that are not idempotent with what has run. Returns how many failed.
fn judge(ends: &[Result<(), Status>], log: &[u8], is_orderly: bool) -> usize {
    let mut runs: HashMap<u64, usize> = HashMap::new();
    for number in log.chunks_exact(8) {
        *runs.entry(u64::from_le_bytes(number.try_into().unwrap())).or_default() += 1;
    }
    for (number, end) in ends.iter().enumerate() {
        let runs = runs.get(&(number as u64)).copied().unwrap_or(0);
        match end {
            Ok(()) => assert_eq!(runs, 1, "call {number}"),
            Err(status) => {
                assert!(!is_orderly, "call {number}: {status}");
                assert_eq!(status.code(), Code::Unavailable, "call {number}: {status}");
                let most = usize::from(!status.has_not_begun());
                assert!(runs <= most, "call {number} has run {runs} times: {status}");
            }
        }
    }
    ends.iter().filter(|end| end.is_err()).count()
}

fn end(how: Restart, server: &mut Child) {
    match how {
        Restart::Killed => {
            kill_pidfd(server.pidfd()).unwrap();
            server.wait(PATIENCE).unwrap().unwrap();
        }
        Restart::Orderly | Restart::HandedOver => {
            send_by_pidfd(server.pidfd(), Signal::TERM).unwrap();
            assert!(server.wait(PATIENCE).unwrap().unwrap().success());
        }
    }
}

#[test]
fn idempotent_calls_survive_servers_that_are_killed_and_no_other_call_runs_twice() {
    restart(Restart::Killed);
}

#[test]
fn no_call_fails_when_servers_end_well() {
    restart(Restart::Orderly);
}

/// Neither in threads nor in tasks, which connect again without any wait.
#[test]
fn no_call_fails_that_does_not_wait_when_the_next_server_has_the_socket() {
    restart(Restart::HandedOver);
}

/// The server has read the call after it had begun to drain.
#[timed]
fn a_call_that_a_draining_server_refuses_goes_to_the_next_one() {
    let address = unique_address();
    let event_loop = EventLoop::new().unwrap();
    let first = Server::new(&event_loop);
    first.register(EchoDispatcher::new(Scripted::new(|_, _| panic!("not here")))).unwrap();
    first.listen(&address).unwrap();
    thread::scope(|scope| {
        let echo = EchoCaller::new(&Client::new(), &address).unwrap();
        let (connected, is_connected) = mpsc::channel();
        let (drained, is_drained) = mpsc::channel();
        // In the thread that has the connection: the call is sent over that.
        let caller = scope.spawn(move || {
            echo.nothing(&()).unwrap();
            connected.send(()).unwrap();
            is_drained.recv().unwrap();
            echo.say(&words(7)).unwrap()
        });
        turn_until(&event_loop, || is_connected.try_recv().is_ok());
        first.drain();
        let _second = Served::at(&address);
        drained.send(()).unwrap();
        turn_until(&event_loop, || caller.is_finished());
        assert_eq!(caller.join().unwrap().number, 7);
    });
}

/// It is known to the caller of a call that is taken later, which is not sent again.
#[timed]
fn a_pending_call_that_a_draining_server_refuses_has_not_begun() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(EchoDispatcher::new(Scripted::new(|_, _| panic!("not here")))).unwrap();
    let address = unique_address();
    server.listen(&address).unwrap();
    thread::scope(|scope| {
        let (connected, is_connected) = mpsc::channel();
        let (drained, is_drained) = mpsc::channel();
        let caller = scope.spawn(move || {
            let echo = EchoCaller::new(&Client::new(), &address).unwrap();
            echo.nothing(&()).unwrap();
            connected.send(()).unwrap();
            is_drained.recv().unwrap();
            echo.start_say(&words(7)).wait().unwrap_err()
        });
        turn_until(&event_loop, || is_connected.try_recv().is_ok());
        server.drain();
        drained.send(()).unwrap();
        turn_until(&event_loop, || caller.is_finished());
        let refused = caller.join().unwrap();
        assert_eq!((refused.code(), refused.has_not_begun()), (Code::Unavailable, true));
        assert!(refused.message().contains("the method has not run"), "{refused}");
    });
}

#[timed]
fn a_call_that_was_lost_says_so() {
    let address = unique_address();
    let mut server = start("restarted", &address);
    let client = Client::new();
    client.hunt(&address, PATIENCE).unwrap();
    let echo = EchoCaller::new(&client, &address).unwrap();
    let lost = echo.say(&words(EXIT)).unwrap_err();
    assert_eq!((lost.code(), lost.has_not_begun()), (Code::Unavailable, false), "{lost}");
    server.wait(PATIENCE).unwrap().unwrap();
    let nowhere = echo.say(&words(1)).unwrap_err();
    assert_eq!((nowhere.code(), nowhere.has_not_begun()), (Code::Unavailable, true));
}
