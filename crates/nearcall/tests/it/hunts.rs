//! Clients that wait for servers, blocking, in a loop and as futures: by the directories of the
//! sockets, and per call.
//!
//! **Not here:** limits of the kernel and the runtime directory (`../faults/hunts.rs`), that a
//! client that waits sleeps (`../idle.rs`), times (`figures/hunts.rs`).

use std::fs;
use std::thread::{self, JoinHandle};

use futures_util::future::join_all;
use nearcall::client::ReconnectPolicy;
use nearcall_os::socket::{self, UnixAddress};

use nearcall_testkit::directory::Directory;

use crate::async_client::poll_once;
use crate::observed::PATIENCE;
use crate::stage::prelude::*;

/// A way to call and to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Blocking,
    InLoop,
    Async,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Blocking, Self::InLoop, Self::Async];

    /// Waits for a server.
    pub(crate) fn hunt(self, address: &str, timeout: Duration) -> Result<(), Status> {
        match self {
            Self::Blocking => Client::new().hunt(address, timeout),
            Self::InLoop => Client::in_loop(&EventLoop::new().unwrap()).hunt(address, timeout),
            Self::Async => block_on(Client::new().hunt_async(address, timeout)),
        }
    }

    /// Calls with these options.
    fn call(
        self,
        policy: ReconnectPolicy,
        address: &str,
        options: &CallOptions,
    ) -> Result<(), Status> {
        let builder = Client::builder().reconnect(policy);
        match self {
            Self::Blocking => EchoCaller::new(&builder.build(), address)
                .unwrap()
                .with(options.clone())
                .nothing(&()),
            Self::InLoop => {
                let event_loop = EventLoop::new().unwrap();
                let client = builder.in_loop(&event_loop).build();
                EchoCaller::new(&client, address).unwrap().with(options.clone()).nothing(&())
            }
            Self::Async => {
                let echo = EchoAsyncCaller::new(&builder.build(), address).unwrap();
                block_on(echo.with(options.clone()).nothing(&()))
            }
        }
    }

    fn hunter(self, address: &str) -> JoinHandle<Result<(), Status>> {
        let address = address.to_owned();
        thread::spawn(move || self.hunt(&address, PATIENCE))
    }
}

/// Any time, often about as long as it takes to begin to wait.
fn pause_at_random() {
    clock::pause(Duration::from_micros(fastrand::u64(..600)));
}

/// Serves until a hunter has found the server.
#[track_caller]
fn serve_until_found(address: &str, hunter: JoinHandle<Result<(), Status>>) {
    let _served = Served::at(address);
    hunter.join().unwrap().unwrap_or_else(|status| panic!("{address}: {status}"));
}

#[test]
fn a_server_that_listens_while_a_client_begins_to_wait_is_not_missed() {
    let directory = Directory::new();
    for round in 0..40 {
        for form in Form::ALL {
            let address = directory.address(&format!("{form:?}-{round}"));
            let hunter = form.hunter(&address);
            pause_at_random();
            serve_until_found(&address, hunter);
        }
    }
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0, "something was left");
}

#[test]
fn a_server_that_takes_over_a_stale_socket_is_found() {
    let directory = Directory::new();
    for form in Form::ALL {
        for has_lock in [true, false] {
            let name = format!("{form:?}-{has_lock}");
            let path = directory.0.join(&name);
            drop(socket::unix_listen(UnixAddress::Path(&path), 1).unwrap());
            if has_lock {
                fs::write(directory.0.join(format!(".{name}.lock")), "").unwrap();
            }
            let hunter = form.hunter(&directory.address(&name));
            pause_at_random();
            serve_until_found(&directory.address(&name), hunter);
        }
    }
}

#[test]
fn directories_on_the_way_to_a_socket_may_come_later() {
    for form in Form::ALL {
        let directory = Directory::new();
        let address = directory.address("a/b/socket");
        let hunter = form.hunter(&address);
        pause_at_random();
        fs::create_dir(directory.0.join("a")).unwrap();
        pause_at_random();
        fs::create_dir(directory.0.join("a/b")).unwrap();
        serve_until_found(&address, hunter);
    }
}

#[test]
fn a_directory_that_is_replaced_is_watched_again() {
    for form in Form::ALL {
        let directory = Directory::new();
        let [run, old] = ["run", "old"].map(|name| directory.0.join(name));
        fs::create_dir(&run).unwrap();
        let address = directory.address("run/socket");
        let hunter = form.hunter(&address);
        pause_at_random();
        fs::rename(&run, &old).unwrap();
        fs::create_dir(&run).unwrap();
        pause_at_random();
        fs::remove_dir(&run).unwrap();
        fs::create_dir(&run).unwrap();
        serve_until_found(&address, hunter);
    }
}

/// What a link leads to may appear in another directory.
#[test]
fn a_server_is_found_through_a_link() {
    let directory = Directory::new();
    let elsewhere = Directory::new();
    for form in Form::ALL {
        for is_made_later in [false, true] {
            let name = format!("{form:?}-{is_made_later}");
            let link = || {
                std::os::unix::fs::symlink(elsewhere.0.join(&name), directory.0.join(&name))
                    .unwrap();
            };
            if !is_made_later {
                link();
            }
            let hunter = form.hunter(&directory.address(&name));
            pause_at_random();
            if is_made_later {
                link();
                pause_at_random();
            }
            serve_until_found(&elsewhere.address(&name), hunter);
        }
    }
}

/// A program that makes its socket, listens some time later, and touches nothing.
#[test]
fn a_listener_that_reports_nothing_is_found_as_well() {
    let directory = Directory::new();
    let path = directory.0.join("socket");
    for form in Form::ALL {
        let bind = || socket::unix_bind(UnixAddress::Path(&path)).unwrap();
        let bound_before = fastrand::bool().then(bind);
        let hunter = form.hunter(&directory.address("socket"));
        pause_at_random();
        let mut listener = bound_before.unwrap_or_else(bind);
        pause_at_random();
        socket::start_listening(&listener, 1).unwrap();
        // Should this thread have had no turn for so long that the client has given up trying by
        // itself, the next socket has another one.
        while socket::accept(&listener, Some(PATIENCE / 5)).unwrap().is_none() {
            assert!(!hunter.is_finished(), "{form:?} did not find it");
            fs::remove_file(&path).unwrap();
            listener = bind();
            socket::start_listening(&listener, 1).unwrap();
        }
        drop(listener);
        serve_until_found(&directory.address("socket"), hunter);
    }
}

#[test]
fn tasks_that_wait_for_one_server_share_a_connection() {
    let directory = Directory::new();
    let address = directory.address("socket");
    let client = Client::new();
    let mut hunts = Box::pin(join_all((0..50).map(|_| client.hunt_async(&address, PATIENCE))));
    assert!(poll_once(hunts.as_mut()).is_pending());
    let at = address.clone();
    let server = thread::spawn(move || {
        pause_at_random();
        Served::at(&at)
    });
    for outcome in block_on(hunts) {
        outcome.unwrap();
    }
    assert_eq!(client.connections().len(), 1);
    drop(server.join().unwrap());
}

#[test]
fn a_call_that_waits_for_its_server_is_made_when_that_listens() {
    let directory = Directory::new();
    let options = CallOptions::new().wait_for_ready(true).deadline(PATIENCE);
    for policy in [ReconnectPolicy::Once, ReconnectPolicy::Wait(Duration::from_millis(1))] {
        for form in Form::ALL {
            let address = directory.address(&format!("{form:?}"));
            thread::scope(|scope| {
                let caller = scope.spawn(|| form.call(policy, &address, &options));
                pause_at_random();
                let served = Served::at(&address);
                caller.join().unwrap().unwrap();
                drop(served);
            });
        }
    }
}

#[test]
fn a_call_that_waits_in_vain_ends_by_its_deadline() {
    let directory = Directory::new();
    let address = directory.address("absent");
    let options = CallOptions::new().wait_for_ready(true).deadline(Duration::from_millis(20));
    for form in Form::ALL {
        let status = form.call(ReconnectPolicy::Once, &address, &options).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{form:?}: {status}");
        assert!(status.message().contains(&address), "{form:?}: {status}");
        // On a busy machine the thread that connects may not have begun.
        let why = ["no server listens", "it is being opened"];
        assert!(why.iter().any(|why| status.message().contains(why)), "{form:?}: {status}");
    }
}

#[test]
fn a_call_that_is_not_to_wait_ends_at_once_whatever_its_client_does() {
    let directory = Directory::new();
    let address = directory.address("absent");
    let hours = ReconnectPolicy::Wait(Duration::from_secs(36_000));
    let options = CallOptions::new().wait_for_ready(false);
    for form in Form::ALL {
        let status = form.call(hours, &address, &options).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{form:?}: {status}");
    }
    let echo = EchoCaller::new(&Client::new(), &address).unwrap();
    let waits = CallOptions::new().wait_for_ready(true);
    let status =
        echo.with(waits.clone().no_wait()).start_nothing(&()).ensure_started().err().unwrap();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    expect_code(echo.with(waits.clone().no_wait()).note(&words(0)), Code::Unavailable);
}

#[test]
fn a_loop_serves_while_it_waits_for_a_server() {
    let directory = Directory::new();
    let address = directory.address("later");
    let (give, take) = mpsc::channel();
    let awaited = address.clone();
    let front = serve_scripted(Limits::default(), move |event_loop| {
        let client = Client::in_loop(event_loop);
        Scripted::new(move |_, request| {
            give.send(()).unwrap();
            client.hunt(&awaited, PATIENCE)?;
            EchoCaller::new(&client, &awaited)?.nothing(&())?;
            Ok(request.clone())
        })
    });
    let echo = EchoCaller::new(&Client::new(), &front.via("#s")).unwrap();
    let waiting = echo.start_say(&words(7));
    // The call is on its way once another one has been answered.
    echo.nothing(&()).unwrap();
    take.recv_timeout(PATIENCE).unwrap();
    for _ in 0..10 {
        echo.nothing(&()).unwrap();
    }
    let later = Served::at(&address);
    assert_eq!(waiting.wait().unwrap().number, 7);
    drop(later);
}
