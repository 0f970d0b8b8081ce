//! Either end of a connection is killed at a random step of a switch: the other one notices, ends
//! each call once, and keeps nothing of it.
//!
//! Three of four kills come at a system call, of which each switch between two mechanisms has as
//! many as were counted before; the others come a random while after the beginning.
//! `NEARCALL_KILLS` kills of each end, 20 by default; `cargo xtask kill-storm` runs a thousand.
//! **Not here:** kills in the middle of calls (`killed_clients.rs`, `killed_servers.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

use crate::support::leaks::{Holdings, LeakOracle, entries};
use crate::support::number;
use crate::support::prelude::*;
use crate::support::stepping::{Steps, Unit, random};

pub(crate) const ROLES: &[Role] =
    &[("switching-server", serve_switches), ("switching-client", switch_when_told)];

/// Far above what a kill takes on a busy machine, with the start of a process.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);
/// What a test takes beside its kills.
const TIME_MORE: Duration = Duration::from_secs(120);
/// Kills between the same mechanisms, whose system calls are counted once.
const KILLS_OF_A_PAIR: u32 = 10;
/// Of so many kills one comes by chance, and not at a system call.
const BY_CHANCE: u32 = 4;
/// Bytes of the calls that are under way. None of them has memory of its own, so that descriptors
/// show how far a switch is.
const CALLS: [usize; 3] = [0, 300, 3_000];
/// A FIFO has such a name between two system calls of the server that makes it.
const FIFO_NAME: &str = ".nearcall-fifo-";

fn serve_switches(address: &str) {
    let limits = Limits { switches_per_minute_max: u32::MAX, ..Limits::default() };
    serve(address, limits, |_, _| {});
}

/// Where a client is, and where it goes.
struct Connected {
    client: Client,
    echo: EchoCaller,
    address: String,
    to: String,
    _event_loop: Option<EventLoop>,
}

impl Connected {
    fn new(address: &str, from: &str, to: &str, kind: &str) -> Self {
        let event_loop = (kind == "loop").then(|| EventLoop::new().unwrap());
        let client = event_loop.as_ref().map_or_else(Client::new, Client::in_loop);
        let address = format!("{address}?via={from}");
        let echo = EchoCaller::new(&client, &address).unwrap();
        Self { client, echo, address, to: to.to_owned(), _event_loop: event_loop }
    }

    /// Calls, switches while calls are under way, and calls again. Reports each outcome.
    fn switch(&self) {
        let options = CallOptions::new().deadline(PATIENCE);
        let later = self.echo.with(options.clone()).start_later(&Words::default());
        let said = CALLS.map(|bytes| {
            let words = Words { data: vec![7; bytes].into(), number: 1 };
            self.echo.with(options.clone()).start_say(&words)
        });
        let begin = clock::now();
        let switched = code(self.client.switch(&self.address, &self.to, PATIENCE));
        let us = begin.elapsed().as_micros();
        let after = code(self.echo.with(options.clone()).nothing(&()));
        let said = said.map(|call| code(call.wait()));
        report(&format!("done {us} {switched} {after} {}", said.join(" ")));
        // A server that lives does not answer it.
        std::io::stdin().lock().read_line(&mut String::new()).unwrap();
        report(&format!("later {}", code(later.wait())));
    }
}

/// `at FROM TO KIND`, and then `go`.
fn switch_when_told(address: &str) {
    let mut connected = None;
    loop {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).unwrap() == 0 {
            return;
        }
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["at", from, to, kind] => {
                let made = connected.insert(Connected::new(address, from, to, kind));
                report(&format!("at {}", code(made.echo.nothing(&()))));
            }
            ["go"] => connected.take().unwrap().switch(),
            ["forget"] => {
                connected = None;
                report("forgot");
            }
            _ => panic!("no command `{line}`"),
        }
    }
}

fn code<T>(outcome: Result<T, Status>) -> String {
    match outcome.map_err(|status| (status.code(), status)) {
        Ok(_) => "OK".to_owned(),
        // A switch that begins when the connection has ended has none to move.
        Err((Code::Unavailable | Code::FailedPrecondition, _)) => "UNAVAILABLE".to_owned(),
        Err((_, status)) => status.to_string().replace(' ', "_"),
    }
}

/// What a loop can watch, or spins in.
fn mechanisms() -> Vec<Mechanism> {
    let usable = |mechanism: &Mechanism| {
        let can = mechanism.capabilities();
        mechanism.supported().is_ok()
            && *mechanism != Mechanism::Tcp
            // Others use the few queues that a user may have.
            && *mechanism != Mechanism::PosixMq
            && (can.pollable || can.needs_spinning)
    };
    Mechanism::all().filter(usable).collect()
}

/// A switch from one mechanism to another, as it goes without a kill.
#[derive(Clone)]
struct Pair {
    from: Mechanism,
    to: Mechanism,
    kind: &'static str,
    /// The system calls of the victim, entries and exits; `None` without ptrace.
    steps: Option<u64>,
    took: Duration,
    /// Descriptors of the victim before and after it.
    descriptors: [usize; 2],
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}, {}", self.from, self.to, self.kind)
    }
}

/// How a victim is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    No,
    Step(u64),
    After(Duration),
}

impl Pair {
    fn choose(random: &mut fastrand::Rng) -> Self {
        let all = mechanisms();
        let from = all[random.usize(..all.len())];
        let others: Vec<Mechanism> = all.into_iter().filter(|to| *to != from).collect();
        let to = others[random.usize(..others.len())];
        let kind = if random.bool() { "loop" } else { "blocking" };
        Self { from, to, kind, steps: None, took: Duration::ZERO, descriptors: [0; 2] }
    }

    fn tell(&self, client: &mut Process) {
        // The first call may find the end of the connection to the last server.
        for _ in 0..2 {
            client.tell(&format!("at {} {} {}", self.from, self.to, self.kind));
            if client.hear("at") == "OK" {
                return;
            }
        }
        panic!("{self}: the client does not find the server");
    }

    fn kill(&self, number: u32, random: &mut fastrand::Rng) -> Kill {
        match self.steps {
            Some(steps) if !number.is_multiple_of(BY_CHANCE) => Kill::Step(random.u64(1..=steps)),
            _ => Kill::After(self.took.mul_f64(random.f64())),
        }
    }

    /// Where a victim is that holds so many descriptors.
    fn place(&self, held: usize, step: u64) -> &'static str {
        let [before, after] = self.descriptors;
        let is_early = step < self.steps.unwrap_or_default() / 2;
        match held {
            held if held > before.max(after) => "with both channels or a half-open one",
            _ if is_early => "with the old channel only",
            _ => "with the new channel only",
        }
    }
}

/// How often what was seen.
#[derive(Default)]
struct Tally(BTreeMap<String, u64>);

impl Tally {
    fn add(&mut self, what: &str) {
        *self.0.entry(what.to_owned()).or_default() += 1;
    }

    fn print(&self, test: &str, kills: u32, slowest: Duration) {
        let seen: Vec<_> = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        println!("{test}: {kills} kills: {}; noticed after {slowest:?} at most", seen.join(", "));
    }
}

/// A victim that was sent on its way.
struct Sent {
    steps: Option<Steps>,
    kill: Kill,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// What a victim held when it was killed, and when that was.
#[derive(Clone, Copy)]
struct Seen {
    descriptors: usize,
    at: Instant,
}

impl Sent {
    /// Has the victim run step by step if it is to be killed at one, or if steps are counted.
    fn attach(victim: &mut Process, kill: Kill) -> Self {
        let seen = Arc::new(Mutex::new(None));
        victim.expect_end();
        let at = match kill {
            Kill::After(_) => return Self { steps: None, kill, seen },
            Kill::Step(step) => Some(step),
            Kill::No => None,
        };
        let (pid, noted) = (victim.pid(), Arc::clone(&seen));
        let look = move || {
            let seen = Seen { descriptors: descriptors(pid), at: clock::now() };
            *noted.lock().unwrap() = Some(seen);
        };
        let steps = Steps::attach_with(victim, Unit::SystemCalls, at, look);
        Self { steps, kill, seen }
    }

    /// Kills the victim by now. Returns where it was in words, and when it was killed.
    fn end(self, victim: &mut Process, pair: &Pair) -> (&'static str, Instant) {
        let now = clock::now();
        if let Some(steps) = self.steps {
            steps.end(victim);
        }
        victim.kill();
        match (self.kill, self.seen.lock().unwrap().take()) {
            (Kill::Step(step), Some(seen)) => (pair.place(seen.descriptors, step), seen.at),
            (Kill::After(_), _) => ("by chance", now),
            _ => ("after the end", now),
        }
    }
}

fn descriptors(pid: u32) -> usize {
    Holdings::of(pid).map_or(0, |holdings| holdings.descriptor_count())
}

fn microseconds(done: &str) -> Duration {
    Duration::from_micros(done.split(' ').next().unwrap().parse().unwrap())
}

/// Who is killed.
trait Victims {
    /// Finds out how the switch goes without a kill.
    fn measure(&mut self, pair: &mut Pair);

    /// Kills, and returns how long the other end took to notice.
    fn kill(&mut self, pair: &Pair, kill: Kill, tally: &mut Tally) -> Duration;
}

/// Kills victims, some in each of some pairs.
fn storm(test: &str, victims: &mut impl Victims) {
    let (kills, mut random) = (kills(), random(test));
    let (mut tally, mut slowest, mut pair) = (Tally::default(), Duration::ZERO, None);
    for number in 0..kills {
        let known = pair.take().filter(|_| !number.is_multiple_of(KILLS_OF_A_PAIR));
        let current = known.unwrap_or_else(|| {
            let mut next = Pair::choose(&mut random);
            victims.measure(&mut next);
            next
        });
        let kill = current.kill(number, &mut random);
        slowest = slowest.max(victims.kill(&current, kill, &mut tally));
        pair = Some(current);
    }
    tally.print(test, kills, slowest);
}

fn kills() -> u32 {
    u32::try_from(number("NEARCALL_KILLS", 20)).unwrap()
}

fn setup() -> ServerSetup {
    ServerSetup::new("switching-server").parameters("?allow=all")
}

/// Clients that are killed, beside a good one.
struct Clients {
    server: ServerProcess,
    oracle: LeakOracle,
}

impl Clients {
    /// Starts a client of the pair that waits for its `go`.
    fn client(&self, pair: &Pair) -> Process {
        let mut client = Process::start("switching-client", &self.server.address);
        pair.tell(&mut client);
        client
    }

    /// Waits until the server has noticed the end of a client, and demands that nothing is left.
    fn expect_nothing(&mut self, pid: u32) {
        self.server.wait_for_connections(1);
        wait_until("the end of its calls", || self.server.state().wanted == 0);
        self.oracle.check(&[pid]);
    }
}

impl Victims for Clients {
    fn measure(&mut self, pair: &mut Pair) {
        for is_traced in [true, false] {
            let mut client = self.client(pair);
            let before = descriptors(client.pid());
            let traced = is_traced.then(|| Sent::attach(&mut client, Kill::No));
            client.tell("go");
            let done = client.hear("done");
            assert!(done.ends_with(" OK OK OK OK OK"), "{pair}: {done}");
            pair.took = microseconds(&done);
            pair.descriptors = [before, descriptors(client.pid())];
            let pid = client.pid();
            if let Some(sent) = traced {
                pair.steps = sent.steps.as_ref().map(Steps::taken);
                sent.end(&mut client, pair);
            }
            client.kill();
            self.expect_nothing(pid);
        }
    }

    fn kill(&mut self, pair: &Pair, kill: Kill, tally: &mut Tally) -> Duration {
        let mut client = self.client(pair);
        let sent = Sent::attach(&mut client, kill);
        client.tell("go");
        match kill {
            Kill::After(time) => clock::pause(time),
            _ => drop(client.hear_or_end("done")),
        }
        let pid = client.pid();
        let (place, killed) = sent.end(&mut client, pair);
        tally.add(place);
        self.server.wait_for_connections(1);
        let noticed = killed.elapsed();
        self.expect_nothing(pid);
        noticed
    }
}

#[test]
fn a_client_killed_in_a_switch_leaves_nothing_in_its_server() {
    within(KILL_TIME_MAX * kills() + TIME_MORE, || {
        let mut server = setup().start();
        for mechanism in mechanisms() {
            server.warm_up(&[&format!("?via={mechanism}")]);
        }
        let good = GoodClient::start(&server.address, User::Same);
        server.wait_for_connections(1);
        let oracle = server.leak_oracle();
        let mut clients = Clients { server, oracle };
        storm("clients killed in a switch", &mut clients);
        let Clients { mut server, .. } = clients;
        assert_eq!(server.state().violations, 0);
        good.finish();
        server.finish();
    });
}

/// One client that sees many servers die.
struct Servers {
    address: String,
    client: Process,
    oracle: LeakOracle,
}

impl Servers {
    /// A client that has used every mechanism, so that what a process keeps of one is there.
    fn new() -> Self {
        let address = unique_address();
        let mut client = Process::start("switching-client", &address);
        let server = setup().at(&address).start();
        for from in mechanisms() {
            for kind in ["loop", "blocking"] {
                let pair = Pair { from, kind, ..Pair::choose(&mut fastrand::Rng::new()) };
                pair.tell(&mut client);
            }
        }
        client.tell("forget");
        client.hear("forgot");
        let oracle = LeakOracle::look(client.pid(), None);
        server.finish();
        Self { address, client, oracle }
    }

    /// A server that the client is connected to, and that has not got a call of those before it.
    fn server(&mut self, pair: &Pair) -> ServerProcess {
        let mut server = setup().at(&self.address).start();
        pair.tell(&mut self.client);
        let state = server.state();
        assert_eq!((state.connections, state.later), (1, 0), "{pair}: a call was repeated");
        server
    }

    /// Demands that the last call to a dead server has ended as well, and that nothing is left.
    fn expect_nothing(&mut self, pair: &Pair, pid: u32) {
        self.client.tell("forget");
        assert_eq!(self.client.hear("later"), "UNAVAILABLE", "{pair}");
        self.oracle.check(&[pid]);
    }
}

impl Victims for Servers {
    fn measure(&mut self, pair: &mut Pair) {
        for is_traced in [true, false] {
            let mut server = self.server(pair);
            let before = descriptors(server.pid());
            let traced = is_traced.then(|| Sent::attach(server.process(), Kill::No));
            self.client.tell("go");
            let done = self.client.hear("done");
            assert!(done.ends_with(" OK OK OK OK OK"), "{pair}: {done}");
            pair.took = microseconds(&done);
            pair.descriptors = [before, descriptors(server.pid())];
            if let Some(sent) = traced {
                pair.steps = sent.steps.as_ref().map(Steps::taken);
                sent.end(server.process(), pair);
            }
            server.kill();
            self.expect_nothing(pair, server.pid());
        }
    }

    fn kill(&mut self, pair: &Pair, kill: Kill, tally: &mut Tally) -> Duration {
        let mut server = self.server(pair);
        let names = entries(&server.runtime);
        let sent = Sent::attach(server.process(), kill);
        self.client.tell("go");
        let done = match kill {
            Kill::After(time) => {
                clock::pause(time);
                None
            }
            _ => Some((self.client.hear("done"), clock::now())),
        };
        let (place, killed) = sent.end(server.process(), pair);
        let (done, ended) = done.unwrap_or_else(|| (self.client.hear("done"), clock::now()));
        tally.add(place);
        let outcomes: Vec<&str> = done.split(' ').skip(1).collect();
        let ends = |outcome: &&str| ["OK", "UNAVAILABLE"].contains(outcome);
        assert!(outcomes.len() == 5 && outcomes.iter().all(ends), "{pair}, {kill:?}: {done}");
        let mut left: Vec<_> = entries(&server.runtime).difference(&names).cloned().collect();
        let all = left.len();
        left.retain(|name| !name.starts_with(FIFO_NAME));
        if left.len() < all {
            tally.add("that left the name of a FIFO");
        }
        assert!(left.is_empty(), "{pair}, {kill:?}: {left:?} in the runtime directory");
        self.expect_nothing(pair, server.pid());
        ended.saturating_duration_since(killed)
    }
}

#[test]
fn a_server_killed_in_a_switch_ends_each_call_once() {
    within(KILL_TIME_MAX * kills() + TIME_MORE, || {
        let mut servers = Servers::new();
        storm("servers killed in a switch", &mut servers);
        servers.client.kill();
    });
}
