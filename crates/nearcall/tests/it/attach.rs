//! Attachments to servers in other processes: one notice each, with the cause.
//!
//! `NEARCALL_ATTACHES`: how often each cause is had, 1 by default, 100 for the histogram.
#![allow(clippy::print_stderr, reason = "it prints figures")]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Instant;

use nearcall::client::{AttachOptions, Attachment, Cause, Notice, NoticeSource, ReconnectPolicy};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::{Child, kill_pidfd, wait_pidfd};
use nearcall_os::signal::{Signal, send_by_pidfd};
use nearcall_os::socket::{UnixAddress, unix_listen};

use nearcall_testkit::directory::Directory;

use crate::async_client::poll_once;
use crate::figures::{count, percentile};
use crate::restarts::EXIT;
use crate::stage::prelude::*;
use crate::two_processes::{start, start_with, stop};

/// A ping interval that no busy machine takes for a server that has stopped: 1 s.
const SLOW_PING: Duration = Duration::from_secs(1);
/// One that a server answers in time though it does not run for some seconds.
const VERY_SLOW_PING: Duration = Duration::from_secs(10);

/// A server in another process, once it listens, and its address.
fn server() -> (Child, String) {
    let address = unique_address();
    let server = start("attached", &address);
    Client::new().hunt(&address, PATIENCE).unwrap();
    (server, address)
}

/// An attachment with a loop that counts its notices.
struct Counted {
    event_loop: EventLoop,
    attachment: Attachment,
    notices: Arc<AtomicUsize>,
    noticed_at: Arc<Mutex<Option<Instant>>>,
}

impl Counted {
    fn new(address: &str, options: AttachOptions) -> Self {
        let event_loop = EventLoop::new().unwrap();
        let attachment = Client::in_loop(&event_loop).attach_with(address, options).unwrap();
        let (notices, noticed_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let (count, at) = (Arc::clone(&notices), Arc::clone(&noticed_at));
        attachment.notify(&event_loop.poster(), move |_, _| {
            *at.lock().unwrap() = Some(clock::now());
            count.fetch_add(1, Ordering::Relaxed);
        });
        Self { event_loop, attachment, notices, noticed_at }
    }

    fn expect_none(&self) {
        assert_eq!(self.attachment.wait(Duration::from_millis(200)), None);
        self.turn(Duration::ZERO);
        assert_eq!(self.notices.load(Ordering::Relaxed), 0);
    }

    fn turn(&self, span: Duration) {
        let end = Deadline::after(span);
        while self.event_loop.next(end).unwrap().is_some() || !end.has_passed() {}
    }

    /// Returns the notice, and how long after `since` the loop had it. It must be the only one.
    #[track_caller]
    fn expect(&self, since: Instant) -> (Notice, Duration) {
        turn_until(&self.event_loop, || self.notices.load(Ordering::Relaxed) > 0);
        let took = self.noticed_at.lock().unwrap().unwrap() - since;
        let notice = self.attachment.notice().unwrap();
        assert_eq!(self.attachment.wait(PATIENCE), Some(notice.clone()));
        assert!(poll_one(&self.attachment, Interest::Readable, Deadline::NOW).unwrap().is_some());
        assert_eq!(block_on(self.attachment.ended()), notice);
        (notice, took)
    }

    /// What comes later is no other notice.
    #[track_caller]
    fn expect_no_other(&self, notice: &Notice) {
        self.turn(Duration::from_millis(20));
        assert_eq!(self.notices.load(Ordering::Relaxed), 1, "{notice}");
        assert_eq!(self.attachment.notice().as_ref(), Some(notice));
    }
}

/// What ends a server.
#[derive(Debug, Clone, Copy)]
enum End {
    Exit(u64),
    Signal(Signal),
    /// SIGTERM, which the server catches.
    Orderly,
}

impl End {
    fn cause(self) -> Cause {
        match self {
            Self::Exit(code) => Cause::Exited { code: i32::try_from(code).unwrap() },
            Self::Signal(signal) => Cause::Killed { signal: signal.as_raw() },
            Self::Orderly => Cause::Closed,
        }
    }

    fn bring(self, server: &Child, address: &str) {
        match self {
            Self::Exit(code) => {
                let echo = EchoCaller::new(&Client::new(), address).unwrap();
                assert_eq!(echo.say(&words(EXIT + code)).unwrap_err().code(), Code::Unavailable);
            }
            Self::Signal(signal) => send_by_pidfd(server.pidfd(), signal).unwrap(),
            Self::Orderly => send_by_pidfd(server.pidfd(), Signal::TERM).unwrap(),
        }
    }
}

/// Signals that a program keeps its default for under `nohup` or in the background of a shell.
const ENDS: [End; 8] = [
    End::Exit(0),
    End::Exit(7),
    End::Signal(Signal::KILL),
    End::Signal(Signal::ABORT),
    End::Signal(Signal::USR2),
    End::Signal(Signal::USR1),
    End::Signal(Signal::ALARM),
    End::Orderly,
];

/// Also while the server is a zombie, since its parent waits for it only afterwards.
#[test]
fn an_attachment_gives_one_notice_with_the_cause() {
    in_time_of(count("NEARCALL_ATTACHES", 1), |rounds| {
        let mut all_ns = Vec::new();
        for (index, end) in ENDS.into_iter().enumerate() {
            let mut times_ns = Vec::new();
            for round in 0..rounds {
                let (mut server, address) = server();
                // The parent waits for every second one at once, so that it is no zombie.
                let reaps = (round + index) % 2 == 1;
                let counted = Counted::new(&address, AttachOptions::new());
                assert_eq!(counted.attachment.notice(), None);
                let pid = i32::try_from(server.pid()).unwrap();
                let (notice, took) = thread::scope(|scope| {
                    let since = clock::now();
                    end.bring(&server, &address);
                    let server = &mut server;
                    let reaper = reaps.then(|| scope.spawn(|| server.wait(PATIENCE).unwrap()));
                    let noticed = counted.expect(since);
                    drop(reaper);
                    noticed
                });
                let source = match end {
                    End::Orderly => NoticeSource::ControlLine,
                    _ => NoticeSource::Pidfd,
                };
                let expected = (end.cause(), source, Some(pid));
                assert_eq!((notice.cause, notice.source, notice.pid), expected, "{notice}");
                if !reaps {
                    wait_pidfd(server.pidfd(), PATIENCE).unwrap();
                    assert_eq!(state_of(&server), Some('Z'), "{end:?}");
                    server.wait(PATIENCE).unwrap().unwrap();
                }
                counted.expect_no_other(&notice);
                times_ns.push(u64::try_from(took.as_nanos()).unwrap());
            }
            eprintln!("{end:?}: {}", describe(&mut times_ns));
            all_ns.extend(times_ns);
        }
        eprintln!(
            "all, from the signal or the call to the notice in the loop: {}",
            describe(&mut all_ns)
        );
        histogram(&all_ns);
    });
}

/// Gives a test that may be enlarged more time.
fn in_time_of(rounds: usize, body: impl FnOnce(usize) + Send + 'static) {
    match rounds {
        1 => in_time(move || body(rounds)),
        _ => body(rounds),
    }
}

fn state_of(process: &Child) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn describe(times_ns: &mut [u64]) -> String {
    times_ns.sort_unstable();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| percentile(times_ns, share) / 1e3);
    format!("{} notices, median {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms", times_ns.len())
}

fn histogram(times_ns: &[u64]) {
    for bucket in 0..14 {
        let (from, to) = (125_000_u64 << bucket >> 1, 125_000_u64 << bucket);
        let from = if bucket == 0 { 0 } else { from };
        let within = times_ns.iter().filter(|ns| (from..to).contains(*ns)).count();
        if within > 0 {
            eprintln!("  below {:8.3} ms: {within}", to as f64 / 1e6);
        }
    }
}

#[timed]
fn a_stopped_server_is_unresponsive_to_pings_and_alive_without() {
    let (server, address) = server();
    let without = Counted::new(&address, AttachOptions::new());
    let pinged = Counted::new(&address, AttachOptions::new().ping(SLOW_PING));
    pinged.expect_none();
    let stopped = clock::now();
    stop(&server);
    let (notice, _) = pinged.expect(stopped);
    let expected = (Cause::Unresponsive, NoticeSource::Ping);
    assert_eq!((notice.cause, notice.source), expected, "{notice}");
    without.expect_none();
    send_by_pidfd(server.pidfd(), Signal::CONT).unwrap();
    without.expect_none();
    let killed = clock::now();
    kill_pidfd(server.pidfd()).unwrap();
    assert_eq!(without.expect(killed).0.cause, Cause::Killed { signal: 9 });
    pinged.expect_no_other(&notice);
}

#[timed]
fn a_server_that_answers_pings_stays_attached() {
    let (server, address) = server();
    let attach = |ping| Counted::new(&address, AttachOptions::new().ping(ping));
    let (often, seldom) = (attach(Duration::from_millis(20)), attach(VERY_SLOW_PING));
    // Some ten of them. A machine that is too busy for that is not for some very slow ones.
    if let Some(notice) = often.attachment.wait(Duration::from_millis(200)) {
        assert_eq!(notice.cause, Cause::Unresponsive, "{notice}");
        assert_eq!(seldom.attachment.wait(VERY_SLOW_PING * 5 / 2), None);
    }
    kill_pidfd(server.pidfd()).unwrap();
    assert_eq!(seldom.expect(clock::now()).0.cause, Cause::Killed { signal: 9 });
}

#[timed]
fn a_process_with_the_number_of_the_server_is_not_taken_for_it() {
    let (mut server, address) = server();
    let attached = Counted::new(&address, AttachOptions::new());
    let pid = server.pid();
    let killed = clock::now();
    server.kill().unwrap();
    let successor = (0..1000).find_map(|_| {
        // The kernel tries the next number first. Other processes may be quicker.
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let child = Child::spawn(Command::new("cat").stdin(std::process::Stdio::piped())).unwrap();
        (child.pid() == pid).then_some(child)
    });
    let (notice, _) = attached.expect(killed);
    assert_eq!(notice.cause, Cause::Killed { signal: 9 }, "{notice}");
    let Some(mut successor) = successor else {
        return eprintln!("SKIPPED: the number of a process cannot be chosen, which needs root");
    };
    send_by_pidfd(successor.pidfd(), Signal::TERM).unwrap();
    successor.wait(PATIENCE).unwrap().unwrap();
    attached.expect_no_other(&notice);
}

#[timed]
fn a_server_that_drains_has_closed_or_was_replaced() {
    let directory = Directory::new();
    let at = |name: &str| directory.address(name);
    let start = |name: &str| {
        let echo = Threaded::new(|_, request| Ok(request.clone()));
        Server::builder().register(echo).listen(&at(name)).start().unwrap()
    };
    let (first, second) = (start("first"), start("second"));
    let link = directory.0.join("link");
    symlink(directory.0.join("first"), &link).unwrap();
    let moved = Counted::new(&at("link"), AttachOptions::new());
    let second_closes = Counted::new(&at("second"), AttachOptions::new());
    fs::remove_file(&link).unwrap();
    symlink(directory.0.join("second"), &link).unwrap();
    let since = clock::now();
    assert!(first.drain(PATIENCE));
    let (notice, _) = moved.expect(since);
    let pid = i32::try_from(std::process::id()).ok();
    assert_eq!(notice.cause, Cause::Replaced { pid }, "{notice}");
    // Without a goodbye, and its process lives.
    let since = clock::now();
    second.stop().unwrap();
    let (closed, _) = second_closes.expect(since);
    let expected = (Cause::Closed, NoticeSource::ControlLine);
    assert_eq!((closed.cause, closed.source), expected, "{closed}");
    moved.expect_no_other(&notice);
}

#[timed]
fn an_attachment_is_a_future_and_needs_a_server() {
    let client = Client::new();
    let nowhere = unique_address();
    assert_eq!(client.attach(&nowhere).unwrap_err().code(), Code::Unavailable);
    assert_eq!(client.attach("no such:address").unwrap_err().code(), Code::InvalidArgument);
    let hasty = AttachOptions::new().ping(Duration::ZERO);
    expect_error(client.attach_with(&nowhere, hasty), Code::InvalidArgument, &["minimum of 1ms"]);
    let (server, address) = server();
    let attachment = block_on(client.attach_async(&address, AttachOptions::new())).unwrap();
    // One that is dropped gives no notice.
    drop(client.attach(&address).unwrap());
    let mut ended = Box::pin(attachment.ended());
    assert!(poll_once(ended.as_mut()).is_pending());
    // Calls of the same client go on beside it.
    block_on(EchoAsyncCaller::new(&client, &address).unwrap().nothing(&())).unwrap();
    kill_pidfd(server.pidfd()).unwrap();
    assert_eq!(block_on(ended).cause, Cause::Killed { signal: 9 });
}

#[timed]
fn a_client_in_a_loop_attaches_to_a_server_of_the_same_loop() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let address = unique_address();
    server.listen(&address).unwrap();
    let attachment = Client::in_loop(&event_loop).attach(&address).unwrap();
    drop(server);
    turn_until(&event_loop, || attachment.notice().is_some());
    assert_eq!(attachment.notice().unwrap().cause, Cause::Closed);
}

/// A process that serves at a socket which another one has bound, as in a restart: a client that
/// has connected before belongs to the process that answers, and not to the one that listened then.
#[timed]
fn clients_that_wait_for_the_next_process_are_not_of_the_one_before() {
    let address = unique_address();
    let name = address.strip_prefix("unix:@").unwrap();
    let socket = unix_listen(UnixAddress::Abstract(name.as_bytes()), 8).unwrap();
    let first = start_with(&socket, "attached", &address);
    Client::new().hunt(&address, PATIENCE).unwrap();
    // It accepts no more, and its clients wait in the queue.
    stop(&first);
    let (attached, asked, second) = thread::scope(|scope| {
        let attached = scope.spawn(|| Client::new().attach(&address).unwrap());
        wait_for_client(&socket);
        // Once connected, and by no other connection.
        let client = Client::builder().reconnect(ReconnectPolicy::Never).build();
        let (served, is_served) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let caller = scope.spawn({
            let address = &address;
            move || {
                let echo = EchoCaller::new(&client, address).unwrap();
                echo.say(&words(1)).unwrap();
                served.send(()).unwrap();
                has_ended.recv().unwrap();
                echo.say(&words(2)).map(|reply| reply.number)
            }
        });
        let second = start_with(&socket, "attached", &address);
        is_served.recv_timeout(PATIENCE).unwrap();
        let attached = attached.join().unwrap();
        drop(first);
        assert_eq!(attached.wait(Duration::from_millis(200)), None, "the second one lives");
        ended.send(()).unwrap();
        (attached, caller.join().unwrap(), second)
    });
    assert_eq!(asked.unwrap(), 2, "the connection is to the second one");
    kill_pidfd(second.pidfd()).unwrap();
    let notice = attached.wait(PATIENCE).unwrap();
    let expected = (Cause::Killed { signal: 9 }, i32::try_from(second.pid()).ok());
    assert_eq!((notice.cause, notice.pid), expected, "{notice}");
}

/// A client that has connected while no process served yet belongs to none that has bound the
/// socket.
#[timed]
fn the_first_client_of_a_bound_socket_learns_how_its_server_was_killed() {
    let address = unique_address();
    let name = address.strip_prefix("unix:@").unwrap();
    let socket = unix_listen(UnixAddress::Abstract(name.as_bytes()), 8).unwrap();
    let (server, attached) = thread::scope(|scope| {
        let attached = scope.spawn(|| Client::new().attach(&address).unwrap());
        wait_for_client(&socket);
        let server = start_with(&socket, "attached", &address);
        (server, attached.join().unwrap())
    });
    kill_pidfd(server.pidfd()).unwrap();
    let notice = attached.wait(PATIENCE).unwrap();
    let expected = (Cause::Killed { signal: 9 }, i32::try_from(server.pid()).ok());
    assert_eq!((notice.cause, notice.pid), expected, "{notice}");
}

/// Waits until a client is in the queue of a listening socket.
fn wait_for_client(socket: &OwnedFd) {
    assert!(poll_one(socket, Interest::Readable, PATIENCE).unwrap().is_some());
}
