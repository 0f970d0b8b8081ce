//! Processes that are forked from one that calls or serves: they use nothing of their parent, and
//! the parent goes on.

use std::pin::pin;
use std::process::Stdio;
use std::task::{Context, Poll, Waker};

use nearcall_os::fork;

use crate::echo::EchoAsyncCaller;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] =
    &[("forking-client", call_and_fork), ("forking-server", serve_and_fork)];

fn call(echo: &EchoCaller) -> Result<(), Status> {
    echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&())
}

/// Exits of forked processes: each is another way to be wrong.
const FINE: u8 = 0;

/// Whether a call in a forked process is refused because of that.
fn is_refused(outcome: Result<(), Status>) -> bool {
    outcome.is_err_and(|status| {
        status.code() == Code::FailedPrecondition && status.message().contains("was forked")
    })
}

/// Calls, forks in the midst of it, and goes on calling.
fn call_and_fork(address: &str) {
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    let future = EchoAsyncCaller::new(&client, address).unwrap();
    call(&echo).unwrap();
    let (mut held, mut unused) = (Some((client, echo)), Some(Client::new()));
    for _ in 0..20 {
        let code = fork::run_in_child(|| {
            let (client, echo) = held.take().unwrap();
            if !is_refused(call(&echo)) {
                return 1;
            }
            // One that had no connection before.
            let unused = unused.take().unwrap();
            if !is_refused(call(&EchoCaller::new(&unused, address).unwrap())) {
                return 2;
            }
            let outcome = {
                let mut pending = pin!(future.nothing(&()));
                pending.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            };
            let Poll::Ready(outcome) = outcome else { return 5 };
            if !is_refused(outcome) {
                return 3;
            }
            drop((echo, client, unused));
            // The error says to make a new one, and that works.
            if call(&EchoCaller::new(&Client::new(), address).unwrap()).is_err() {
                return 4;
            }
            FINE
        });
        assert_eq!(code.unwrap(), FINE);
        let (_, echo) = held.as_ref().unwrap();
        for _ in 0..50 {
            call(echo).unwrap();
        }
    }
    report("done");
    let mut list = Command::new("sh");
    list.args(["-c", "ls -l /proc/self/fd"]).stdin(Stdio::null()).stderr(Stdio::null());
    let listed = list.output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(!listed.contains("socket:") && !listed.contains("memfd"), "{listed}");
    report("executed");
}

/// Serves, forks, and goes on serving while the forked process drops all that it has.
fn serve_and_fork(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.listen(address).unwrap();
    let second = unique_address();
    let running = Server::builder().threads(2).listen(&second).start().unwrap();
    report(&format!("listens {second}"));
    // Clients are connected to both by now.
    let turn = || {
        let soon = clock::now() + Duration::from_millis(1);
        event_loop.next(Deadline::at(soon)).map(drop)
    };
    while server.connections().is_empty() || running.connections().is_empty() {
        turn().unwrap();
    }
    let mut held = Some((server, running));
    let code = fork::run_in_child(|| {
        let (server, running) = held.take().unwrap();
        if turn().is_ok() {
            return 1;
        }
        if running.stop().is_err() || running.drain(PATIENCE) {
            return 2;
        }
        drop((server, running));
        FINE
    });
    assert_eq!(code.unwrap(), FINE);
    report("forked");
    let mut rest = clock::now() + PATIENCE;
    let input = std::io::stdin();
    event_loop.add_descriptor(&input, nearcall_os::poll::Interest::Readable).unwrap();
    while let Ok(event) = event_loop.next(Deadline::at(rest)) {
        if event.is_some() {
            break;
        }
        rest = clock::now() + PATIENCE;
    }
}

#[timed]
fn r27_a_forked_client_is_refused_and_its_parent_goes_on() {
    for via in ["", "?via=unix-stream", "?wait=poll"] {
        let mut server = ServerProcess::start();
        let mut client = Process::start("forking-client", &server.via(via));
        client.hear("done");
        client.hear("executed");
        client.finish();
        server.wait_for_connections(0);
        assert_eq!(server.state().violations, 0, "{via}");
        server.finish();
    }
}

#[timed]
fn r27_a_forked_server_takes_nothing_from_its_parent() {
    let name = format!("nearcall-fork-{:016x}", fastrand::u64(..));
    let path = std::env::temp_dir().join(name);
    let address = format!("unix:{}", path.display());
    let mut server = Process::start("forking-server", &address);
    let second = server.hear("listens");
    // No object is there, and that is said by a server that serves.
    let ask = |echo: &EchoCaller| {
        expect_code(call(echo), Code::Unimplemented);
    };
    let clients = [&address, &second].map(|at| (Client::new(), at));
    let echoes = clients.each_ref().map(|(client, at)| EchoCaller::new(client, at).unwrap());
    echoes.iter().for_each(&ask);
    server.hear("forked");
    // Those that were connected, and new ones.
    echoes.iter().for_each(&ask);
    assert!(path.exists(), "the forked process has removed the socket");
    for at in [&address, &second] {
        ask(&EchoCaller::new(&Client::new(), at).unwrap());
    }
    server.tell("end");
    server.finish();
    assert!(!path.exists());
}
