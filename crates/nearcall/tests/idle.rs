//! Servers and clients that have nothing to do cost nothing, nor do clients that wait for servers:
//! no thread of the process wakes up.
//!
//! For `NEARCALL_IDLE_S` seconds, 1 by default; 10 for the figure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "it prints a figure")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{self, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::client::{ReconnectPolicy, WaitPolicy};
use nearcall::event_loop::Stopper;
use nearcall::{Client, EventLoop, Mechanism, Server, Status};
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::{clock, process};

use nearcall_testkit::echo::{EchoAsyncCaller, EchoCaller, EchoDispatcher, Words};
use nearcall_testkit::support::Service;

/// One spins; the others wait in slices, because a condition variable reports no death.
const NEVER_IDLE: [Mechanism; 3] = [Mechanism::ShmSpin, Mechanism::ShmCondvar, Mechanism::ShmMq];

/// Longer than the test takes.
const HUNT_TIME: Duration = Duration::from_secs(300);

/// A server, a client in a loop, a client and a task that wait for an answer, all idle.
struct Idle {
    server: (Stopper, JoinHandle<()>),
    in_loop: (Stopper, JoinHandle<()>),
    waiting: JoinHandle<()>,
    /// A call that is waited for as a future, if the mechanism can.
    task: Option<Task>,
}

type Task = Pin<Box<dyn Future<Output = Result<Words, Status>>>>;

/// A call of which the answer does not come, polled once: the driver waits for it.
fn waiting_task(via: &str) -> Task {
    let client = Client::new();
    let echo = EchoCaller::new(&client, via).unwrap();
    let tasks = EchoAsyncCaller::new(&client, via).unwrap();
    echo.nothing(&()).unwrap();
    let mut task: Task = Box::pin(async move {
        tasks.nothing(&()).await?;
        tasks.later(&Words::default()).await
    });
    let until = clock::now() + Duration::from_secs(20);
    // Until it is connected, and the call is on its way.
    while client.connections().len() < 2 {
        assert!(task.as_mut().poll(&mut task::Context::from_waker(Waker::noop())).is_pending());
        assert!(clock::now() < until, "not connected");
        thread::yield_now();
    }
    for _ in 0..100 {
        assert!(task.as_mut().poll(&mut task::Context::from_waker(Waker::noop())).is_pending());
        thread::yield_now();
    }
    task
}

impl Idle {
    fn start(mechanism: Mechanism) -> Self {
        let name = format!("unix:@nearcall-idle-{}-{mechanism}", process::pid());
        let via = format!("{name}?via={mechanism}");
        let listens = name.clone();
        let server = looping(format!("s {mechanism}"), move |event_loop| {
            let server = Server::new(event_loop);
            server.register(EchoDispatcher::new(Service::default())).unwrap();
            server.listen(&format!("{listens}?allow=all")).unwrap();
            Box::new(server)
        });
        // A loop sleeps in one connection only where the mechanism has no descriptor.
        let many = mechanism.waits().contains(&WaitPolicy::Poll);
        let other = if many { via.clone() } else { name };
        let in_loop = looping(format!("l {mechanism}"), move |event_loop| {
            let client = Client::in_loop(event_loop);
            let echo = EchoCaller::new(&client, &other).unwrap();
            for _ in 0..100 {
                echo.nothing(&()).unwrap();
            }
            Box::new(echo)
        });
        // A signal is for one thread, and tasks belong to none.
        let for_tasks = many && mechanism != Mechanism::ShmSignal;
        let task = for_tasks.then(|| waiting_task(&via));
        let (give, take) = mpsc::channel();
        let waiting = named(format!("w {mechanism}"), move || {
            let client = Client::new();
            let echo = EchoCaller::new(&client, &via).unwrap();
            echo.nothing(&()).unwrap();
            let started = echo.start_later(&Words::default());
            give.send(()).unwrap();
            started.wait().unwrap_err();
        });
        take.recv().unwrap();
        Self { server, in_loop, waiting, task }
    }

    fn stop(self) {
        for (stopper, thread) in [self.in_loop, self.server] {
            stopper.stop();
            thread.join().unwrap();
        }
        self.waiting.join().unwrap();
        drop(self.task);
    }
}

/// Waits for a server at an address.
type Hunt = fn(&str) -> Result<(), Status>;

/// Clients that wait for servers: one that has never been there, one that was killed, and one that
/// has ended, whose client opens the connection again by itself.
struct Hunters {
    directory: PathBuf,
    threads: Vec<JoinHandle<()>>,
    reopening: Client,
}

impl Hunters {
    fn address(&self, name: &str) -> String {
        format!("unix:{}", self.directory.join(name).display())
    }

    fn start() -> Self {
        let name = format!("nearcall-idle-{:016x}", fastrand::u64(..));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let reopening = Client::builder().reconnect(ReconnectPolicy::AtOnce(HUNT_TIME)).build();
        let mut hunters = Self { directory, threads: Vec::new(), reopening };
        // As a server leaves its files that is killed.
        let killed = hunters.directory.join("killed");
        drop(socket::unix_listen(UnixAddress::Path(&killed), 1).unwrap());
        fs::write(hunters.directory.join(".killed.lock"), "").unwrap();
        for name in ["absent", "killed"] {
            let forms: [Hunt; 3] = [
                |address| Client::new().hunt(address, HUNT_TIME),
                |address| Client::in_loop(&EventLoop::new().unwrap()).hunt(address, HUNT_TIME),
                |address| smol::block_on(Client::new().hunt_async(address, HUNT_TIME)),
            ];
            for hunt in forms {
                let address = hunters.address(name);
                let hunter = named(format!("h {name}"), move || hunt(&address).unwrap());
                hunters.threads.push(hunter);
            }
        }
        let (stopper, server) = serve_at([hunters.address("ended")]);
        smol::block_on(hunters.reopening.hunt_async(&hunters.address("ended"), HUNT_TIME)).unwrap();
        stopper.stop();
        server.join().unwrap();
        hunters.wait_for_connections(0);
        hunters
    }

    fn wait_for_connections(&self, count: usize) {
        let until = clock::now() + Duration::from_secs(20);
        while self.reopening.connections().len() != count {
            assert!(clock::now() < until, "not {count} connections");
            thread::yield_now();
        }
    }

    /// Starts what they wait for.
    fn stop(mut self) {
        let addresses = ["absent", "killed", "ended"].map(|name| self.address(name));
        let (stopper, server) = serve_at(addresses);
        self.threads.drain(..).for_each(|hunter| hunter.join().unwrap());
        self.wait_for_connections(1);
        stopper.stop();
        server.join().unwrap();
        fs::remove_dir(&self.directory).unwrap();
    }
}

/// A server at these addresses.
fn serve_at<const N: usize>(addresses: [String; N]) -> (Stopper, JoinHandle<()>) {
    looping("hunted".into(), move |event_loop| {
        let server = Server::new(event_loop);
        addresses.iter().for_each(|address| drop(server.listen(address).unwrap()));
        Box::new(server)
    })
}

/// A loop in a thread of its own that keeps what `make` makes.
fn looping(
    name: String,
    make: impl FnOnce(&EventLoop) -> Box<dyn std::any::Any> + Send + 'static,
) -> (Stopper, JoinHandle<()>) {
    let (give, take) = mpsc::channel();
    let thread = named(name, move || {
        let event_loop = EventLoop::new().unwrap();
        let kept = make(&event_loop);
        give.send(event_loop.stopper()).unwrap();
        event_loop.run().unwrap();
        drop(kept);
    });
    (take.recv().unwrap(), thread)
}

/// The names of threads appear in the result.
fn named(name: String, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name).spawn(body).unwrap()
}

/// Of one thread: turns on a processor, time there, and whether it waits for something else than a
/// processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    is_asleep: bool,
    voluntary_switches: u64,
    run_ns: Option<u64>,
}

/// Of all threads but this one, by name and number.
fn used() -> BTreeMap<String, Used> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        let path = entry.unwrap().path();
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let number = path.file_name().unwrap().to_string_lossy().into_owned();
        if number == process::tid().to_string() {
            continue;
        }
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_once(':').unwrap().1.trim().to_owned()
        };
        let schedstat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let schedstat = nearcall_os::counters::parse_schedstat(&schedstat);
        let voluntary_switches = field("voluntary_ctxt_switches").parse().unwrap();
        let (is_asleep, run_ns) = (field("State").starts_with('S'), schedstat.map(|it| it.run_ns));
        let used = Used { is_asleep, voluntary_switches, run_ns };
        threads.insert(format!("{} {number}", field("Name")), used);
    }
    threads
}

/// Once nothing changes any more and nothing waits for a processor.
fn settled() -> BTreeMap<String, Used> {
    let until = clock::now() + Duration::from_secs(20);
    let mut last = used();
    loop {
        clock::pause(Duration::from_millis(100));
        let now = used();
        if now == last && now.values().all(|used| used.is_asleep) {
            return now;
        }
        let busy: Vec<_> = now
            .iter()
            .filter(|(name, used)| !used.is_asleep || last.get(*name) != Some(used))
            .collect();
        assert!(clock::now() < until, "never idle: {busy:#?}");
        last = now;
    }
}

#[test]
fn a_process_without_work_does_nothing() {
    let seconds = std::env::var("NEARCALL_IDLE_S").ok().and_then(|text| text.parse().ok());
    let idle_time = Duration::from_secs(seconds.unwrap_or(1));
    let all: Vec<_> = Mechanism::all()
        .filter(|mechanism| mechanism.supported().is_ok())
        .filter(|mechanism| !NEVER_IDLE.contains(mechanism))
        .map(Idle::start)
        .collect();
    let hunters = Hunters::start();
    let before = settled();
    clock::pause(idle_time);
    let after = used();
    let woken: Vec<_> =
        after.iter().filter(|(name, used)| before.get(*name) != Some(used)).collect();
    eprintln!(
        "{} threads over {} mechanisms, idle for {idle_time:?}: {} woke up {woken:?}",
        after.len(),
        all.len(),
        woken.len()
    );
    assert!(woken.is_empty(), "{woken:#?}");
    all.into_iter().for_each(Idle::stop);
    hunters.stop();
}
