//! One run: a server, clients and what happens to them, from a seed; first with faults, then
//! without.
//!
//! **Invariants:** what a run finds depends on its seed only.
//! **Not here:** what a client does (`worker.rs`), which system calls fail (`nearcall-os`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall::event_loop::{Event, Stopper};
use nearcall::{Deadline, EventLoop, Server};
use nearcall_channel::account::{Accounts, Resource};
use nearcall_os::simulation::{self, Faults, Process, Report};
use nearcall_os::{clock, process};

use crate::service::Ledger;
use crate::stress::{StressAsyncDispatcher, StressDispatcher};
use crate::worker::{ASYNC, Account, Shared, Worker};

/// What a run has seen, to prove that all runs together see everything.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) answered: u64,
    pub(crate) oneways: u64,
    pub(crate) items: u64,
    pub(crate) cancelled: u64,
    pub(crate) failed: u64,
    pub(crate) client_deaths: u64,
    pub(crate) server_deaths: u64,
    pub(crate) drains: u64,
    pub(crate) stops: u64,
    pub(crate) hostile: u64,
}

/// A client process.
struct Client {
    process: Process,
    is_hostile: bool,
    workers: Vec<(u64, Arc<Shared>)>,
}

/// What the test and a server share.
#[derive(Default)]
struct Control {
    stopper: Option<Stopper>,
    order: Option<Order>,
    /// What was left when the server ended by order.
    left: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    /// Refuse calls, and end with the connections.
    Drain,
    /// Wait until all clients are gone, and end.
    End,
    /// Describe the connections.
    Show,
}

struct World {
    random: fastrand::Rng,
    address: String,
    ledger: Arc<Ledger>,
    server: Process,
    control: Arc<Mutex<Control>>,
    clients: Vec<Client>,
    /// The end of processes that were killed is not waited for at once.
    killed: Vec<Process>,
    next_worker: u64,
    seen: Seen,
    faults: Vec<String>,
}

/// Runs one seed. Returns what must not happen, beside what it has seen.
pub(crate) fn run(seed: u64) -> (Report, Seen, Vec<String>) {
    let (report, (seen, mut faults)) = simulation::run(seed, STEPS_MAX, || World::new(seed).live());
    faults.extend(report.failures.iter().map(|failure| format!("a thread panicked: {failure}")));
    faults.extend(report.left.iter().map(|open| format!("a descriptor is left: {open}")));
    (report, seen, faults)
}

impl World {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            random,
            address: format!("unix:@nearcall-simulation-{}-{seed}", process::pid()),
            ledger: Arc::default(),
            server: simulation::new_process(),
            control: Arc::default(),
            clients: Vec::new(),
            killed: Vec::new(),
            next_worker: 0,
            seen: Seen::default(),
            faults: Vec::new(),
        }
    }

    fn live(mut self) -> (Seen, Vec<String>) {
        self.start_server();
        for _ in 0..self.random.usize(1..=CLIENTS_MAX) {
            self.start_client(false);
        }
        if self.random.u8(0..3) == 0 {
            self.start_client(true);
        }
        simulation::set_faults(self.faults());
        for _ in 0..self.random.u32(EVENTS) {
            clock::pause(Duration::from_micros(self.random.u64(0..EVENT_US_MAX)));
            self.disturb();
        }
        simulation::set_faults(Faults::default());
        self.calm_down();
        self.end_server();
        (self.seen, self.faults)
    }

    /// How often calls fail in this run: in one of four not at all, so that only the order differs.
    fn faults(&mut self) -> Faults {
        let rate = [0, 500, 5_000, 30_000][self.random.usize(0..4)];
        let mut chance = |divisor: u32| match self.random.u8(0..3) {
            0 => 0,
            _ => rate / divisor,
        };
        Faults {
            interrupted: chance(1),
            blocked: chance(1),
            partial: chance(1) * 4,
            reset: chance(20),
            no_memory: chance(2),
            no_descriptor: chance(2),
            refused: chance(1),
            spurious: chance(1),
            delay: chance(4),
        }
    }

    fn start_server(&mut self) {
        self.server = simulation::new_process();
        self.control = Arc::default();
        let (address, ledger) = (self.address.clone(), Arc::clone(&self.ledger));
        let control = Arc::clone(&self.control);
        let serve = move || serve(&address, &ledger, &control);
        simulation::start(self.server, "server", serve).unwrap();
    }

    fn start_client(&mut self, is_hostile: bool) {
        let process = simulation::new_process();
        if is_hostile {
            let chance = self.random.u32(HOSTILE_CHANCE);
            simulation::set_hostile(process, chance);
            self.seen.hostile += 1;
        }
        let mut workers = Vec::new();
        for _ in 0..self.random.usize(1..=WORKERS_MAX) {
            self.next_worker += 1;
            // Far from each other, so that no wrong byte makes one of another.
            let id = self.next_worker.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let shared = Arc::<Shared>::default();
            let via = VIA[self.random.usize(0..VIA.len())];
            let worker = Worker {
                id,
                seed: self.random.u64(..),
                address: format!("{}{via}", self.address),
                has_loop: self.random.bool(),
                shared: Arc::clone(&shared),
            };
            let name = format!("worker {}", self.next_worker);
            simulation::start(process, &name, || worker.run()).unwrap();
            workers.push((id, shared));
        }
        self.clients.push(Client { process, is_hostile, workers });
    }

    /// Something happens to a process.
    fn disturb(&mut self) {
        match self.random.u8(0..24) {
            0..4 => {
                let victim = self.any_process();
                let time = Duration::from_micros(self.random.u64(0..STOP_US_MAX));
                simulation::stop_for(victim, time);
                self.seen.stops += 1;
            }
            4..6 => self.kill_client(),
            6 => {
                simulation::kill(self.server);
                self.killed.push(self.server);
                self.seen.server_deaths += 1;
                self.start_server();
            }
            7 => self.replace_server(),
            _ => {}
        }
    }

    fn any_process(&mut self) -> Process {
        match self.random.usize(0..=self.clients.len()) {
            0 => self.server,
            index => self.clients[index - 1].process,
        }
    }

    fn kill_client(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let client = self.clients.swap_remove(self.random.usize(0..self.clients.len()));
        simulation::kill(client.process);
        self.killed.push(client.process);
        self.seen.client_deaths += 1;
        self.check(&client);
        self.start_client(client.is_hostile);
    }

    /// Has the server drain, and starts another one.
    fn replace_server(&mut self) {
        self.order(Order::Drain);
        clock::pause(Duration::from_micros(self.random.u64(0..EVENT_US_MAX)));
        simulation::kill(self.server);
        self.killed.push(self.server);
        self.seen.drains += 1;
        self.start_server();
    }

    fn order(&self, order: Order) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        control.order = Some(order);
        let stopper = control.stopper.clone();
        drop(control);
        if let Some(stopper) = stopper {
            stopper.stop();
        }
    }

    /// Nothing goes wrong from here on: every call ends, and every client succeeds once more.
    fn calm_down(&mut self) {
        for client in &self.clients {
            if client.is_hostile {
                simulation::kill(client.process);
            }
            client.workers.iter().for_each(|(_, shared)| {
                shared.is_calm.store(true, std::sync::atomic::Ordering::Relaxed);
            });
        }
        let deadline = Deadline::after(CALM);
        for client in std::mem::take(&mut self.clients) {
            while !client.is_hostile && !client.has_ended() {
                if deadline.has_passed() {
                    let workers: Vec<_> =
                        client.workers.iter().map(|(id, shared)| (id, shared.account())).collect();
                    let threads = simulation::describe();
                    self.faults.push(format!("a client does not end: {threads}\n{workers:?}"));
                    self.order(Order::Show);
                    clock::pause(LOOK * 2);
                    let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
                    self.faults.extend(control.left.take().unwrap_or_default());
                    drop(control);
                    break;
                }
                clock::pause(Duration::from_millis(1));
            }
            // What is left of it is the thread that watches its peers.
            simulation::kill(client.process);
            self.killed.push(client.process);
            self.check(&client);
        }
        for process in std::mem::take(&mut self.killed) {
            if !simulation::wait_ended(process, CALM) {
                self.faults.push("a process that was killed does not end".to_owned());
            }
            self.check_memory(process);
        }
    }

    fn check_memory(&mut self, process: Process) {
        let left = simulation::mappings(process);
        if left > 0 {
            self.faults.push(format!("{left} mappings are left of a process"));
        }
    }

    /// The server sees that all clients are gone, and ends without anything left.
    fn end_server(&mut self) {
        self.order(Order::End);
        let deadline = Deadline::after(CALM);
        loop {
            let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(left) = control.left.take() {
                self.faults.extend(left);
                break;
            }
            drop(control);
            if deadline.has_passed() {
                let threads = simulation::describe();
                self.faults.push(format!("the server does not end{threads}"));
                break;
            }
            clock::pause(Duration::from_millis(1));
            self.order(Order::End);
        }
        simulation::kill(self.server);
        simulation::wait_ended(self.server, CALM);
        self.check_memory(self.server);
    }

    /// Compares what the workers of a client know with what was served.
    fn check(&mut self, client: &Client) {
        if client.is_hostile {
            return;
        }
        for (id, shared) in &client.workers {
            let (account, served) = (shared.account(), self.ledger.of(*id));
            let Account { answered, last, .. } = &account;
            let mut fault = |text: String| self.faults.push(format!("worker {id:x}: {text}"));
            if let Some(number) = answered.difference(&served.numbers).next() {
                fault(format!("{number} was answered and not served"));
            }
            if served.numbers.last() > Some(last) {
                fault(format!("{:?} was served and not sent", served.numbers.last()));
            }
            served.faults.iter().chain(&account.faults).for_each(|text| fault(text.clone()));
            self.seen.answered += account.answered.len() as u64;
            self.seen.oneways += account.oneways;
            self.seen.items += account.items;
            self.seen.cancelled += account.cancelled;
            self.seen.failed += account.failed.iter().sum::<u64>();
        }
    }
}

impl Client {
    fn has_ended(&self) -> bool {
        self.workers.iter().all(|(_, shared)| shared.account().has_ended)
    }
}

/// The thread of a server.
fn serve(address: &str, ledger: &Arc<Ledger>, control: &Mutex<Control>) {
    let lock = || control.lock().unwrap_or_else(PoisonError::into_inner);
    // The one before may not be gone yet, or no descriptor is left.
    let (event_loop, server) = loop {
        let event_loop = EventLoop::new();
        if let Ok(event_loop) = event_loop {
            let server = Server::new(&event_loop);
            server.register(StressDispatcher::shared(Arc::clone(ledger))).unwrap();
            let streams = StressAsyncDispatcher::shared(Arc::clone(ledger));
            server.register_as(ASYNC, streams).unwrap();
            if server.listen(address).is_ok() {
                break (event_loop, server);
            }
        }
        clock::pause(Duration::from_millis(1));
    };
    lock().stopper = Some(event_loop.stopper());
    let order = loop {
        // Sooner or later it looks, also for an order that came before the stopper.
        let event = event_loop.next(Deadline::after(LOOK)).unwrap();
        let order = lock().order.take();
        match (event, order) {
            (_, Some(Order::End)) => break Order::End,
            (_, Some(Order::Drain)) => server.drain(),
            (_, Some(Order::Show)) => {
                let connections = server.connections();
                let connections = connections.iter().map(|connection| format!("{connection:?}"));
                lock().left = Some(connections.collect());
            }
            (Some(Event::Stopped) | None, None) => {}
            (event, None) => panic!("an event that nothing was asked for: {event:?}"),
        }
    };
    assert!(matches!(order, Order::End));
    let until = Deadline::after(CALM / 2);
    while !server.connections().is_empty() && !until.has_passed() {
        event_loop.next(Deadline::after(LOOK)).unwrap();
    }
    let left = server.connections();
    let left = left.iter().map(|connection| format!("left at the server: {connection:?}"));
    let mut left: Vec<_> = left.collect();
    drop((server, event_loop));
    left.extend(charges_left());
    lock().left = Some(left);
}

/// Returns what the accounts of this process say that users still hold.
fn charges_left() -> impl Iterator<Item = String> {
    let accounts = Accounts::of_process();
    [Resource::Descriptors, Resource::Mappings, Resource::Bytes].into_iter().filter_map(
        move |resource| match accounts.used(resource) {
            (0, _) => None,
            (used, total) => Some(format!("{used} of {total} {resource} are still charged")),
        },
    )
}

/// Client processes at a time, and threads of each.
const CLIENTS_MAX: usize = 4;
const WORKERS_MAX: usize = 2;
/// How clients connect.
const VIA: [&str; 4] = ["", "?wait=block", "?via=unix-stream", "?via=unix-seqpacket"];
/// How many times something may happen to a process, and the time in between.
const EVENTS: std::ops::Range<u32> = 5..60;
const EVENT_US_MAX: u64 = 4_000;
/// A stop, at most.
const STOP_US_MAX: u64 = 20_000;
/// Chances in a million that a call of a hostile process writes something wrong.
const HOSTILE_CHANCE: std::ops::Range<u32> = 100..100_000;
/// By when all has ended once nothing goes wrong any more: longer than every timeout of the
/// library that a lost peer could cost.
const CALM: Duration = Duration::from_secs(60);
/// How often a server looks for an order.
const LOOK: Duration = Duration::from_millis(5);
/// No run takes as many.
const STEPS_MAX: u64 = 400_000;
