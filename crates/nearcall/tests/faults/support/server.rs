//! A server in a process of its own, which reports its state when it is asked.

use std::io::BufRead;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use nearcall::event_loop::Event;
use nearcall::observe::RefusalKind;
use nearcall::server::ListenOptions;
use nearcall::{Client, Deadline, EventLoop, Limits, Server};
use nearcall_channel::account::{Accounts, Resource};
use nearcall_os::poll::Interest;
use nearcall_os::process;

use super::child::{Process, command, report};
use super::leaks::LeakOracle;
use super::{Role, Service, unique_address, wait_until};
use crate::echo::{EchoCaller, EchoDispatcher};

pub(crate) const ROLES: &[Role] =
    &[("server", |address| serve(address, Limits::default(), |_, _| {}))];

/// The state that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Clients that are connected.
    pub(crate) connections: usize,
    /// Calls of `Later` without an answer.
    pub(crate) later: usize,
    /// Of those, calls whose client still waits.
    pub(crate) wanted: usize,
    /// Protocol violations, all kinds together.
    pub(crate) violations: u64,
    /// Everything that was refused, those included.
    pub(crate) refusals: u64,
    /// Bytes that are charged to the accounts of all users.
    pub(crate) bytes: u64,
}

/// How a server is started.
#[derive(Debug, Clone)]
pub(crate) struct ServerSetup {
    role: &'static str,
    address: String,
    parameters: String,
    limits: String,
}

/// A server with an `Echo` in a process of its own. It dies with this; one that died by itself
/// fails the test.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Where it listens, without parameters.
    pub(crate) address: String,
    /// Its runtime directory, which no other process uses.
    pub(crate) runtime: PathBuf,
    /// The thread of its loop.
    pub(crate) tid: i32,
    process: Process,
}

impl ServerSetup {
    /// A server whose process runs this role, at an address of its own.
    pub(crate) fn new(role: &'static str) -> Self {
        let (parameters, limits) = (String::new(), String::new());
        Self { role, address: unique_address(), parameters, limits }
    }

    /// At this address.
    pub(crate) fn at(mut self, address: &str) -> Self {
        address.clone_into(&mut self.address);
        self
    }

    /// With parameters of the listening address, such as `?allow=all`.
    pub(crate) fn parameters(mut self, parameters: &str) -> Self {
        parameters.clone_into(&mut self.parameters);
        self
    }

    /// With limits of the process as words of the shell's `ulimit`, such as `-n 40`.
    pub(crate) fn ulimit(mut self, words: &str) -> Self {
        words.clone_into(&mut self.limits);
        self
    }

    /// Starts it and waits until it listens.
    pub(crate) fn start(self) -> ServerProcess {
        let name = format!("nearcall-faults-{:016x}", fastrand::u64(..));
        let runtime = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        let listen = format!("{}{}", self.address, self.parameters);
        let mut command = command(self.role, &listen, &self.limits);
        command.env("NEARCALL_RUNTIME_DIR", &runtime);
        let mut process = Process::start_as(self.role, command);
        let listens = process.hear("listens");
        let (address, tid) = listens.split_once(' ').unwrap();
        let address = address.split('?').next().unwrap_or_default().to_owned();
        ServerProcess { address, runtime, tid: tid.parse().unwrap(), process }
    }
}

impl ServerProcess {
    /// A server with usual limits at an address of its own.
    pub(crate) fn start() -> Self {
        ServerSetup::new("server").start()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The address with parameters for a client.
    pub(crate) fn via(&self, parameters: &str) -> String {
        format!("{}{parameters}", self.address)
    }

    /// The name of its socket in the abstract namespace.
    pub(crate) fn abstract_name(&self) -> &str {
        self.address.strip_prefix("unix:@").expect("an abstract address")
    }

    /// Asks it for its state. It answers from its loop, so this also shows that the loop runs.
    #[track_caller]
    pub(crate) fn state(&mut self) -> State {
        self.process.tell("state");
        let text = self.process.hear("state");
        let mut numbers = text.split(' ').map(|word| word.parse::<u64>().unwrap());
        let mut next = || numbers.next().unwrap();
        let mut small = || usize::try_from(next()).unwrap();
        let (connections, later, wanted) = (small(), small(), small());
        State { connections, later, wanted, violations: next(), refusals: next(), bytes: next() }
    }

    /// Waits until so many clients are connected.
    #[track_caller]
    pub(crate) fn wait_for_connections(&mut self, count: usize) {
        wait_until("the connections", || self.state().connections == count);
    }

    /// Lets a client of each of these ways to connect call once and go, so that what a process
    /// keeps of a mechanism, such as a thread that watches, is there.
    #[track_caller]
    pub(crate) fn warm_up(&mut self, vias: &[&str]) {
        self.warm_up_beside(vias, 0);
    }

    /// Works like [`ServerProcess::warm_up`] beside so many other clients.
    #[track_caller]
    pub(crate) fn warm_up_beside(&mut self, vias: &[&str], others: usize) {
        for via in vias {
            let client = Client::new();
            EchoCaller::new(&client, &self.via(via)).unwrap().nothing(&()).unwrap();
            drop(client);
            self.wait_for_connections(others);
        }
    }

    /// What it holds now, to be compared later.
    pub(crate) fn leak_oracle(&self) -> LeakOracle {
        LeakOracle::look(self.pid(), Some(&self.runtime))
    }

    /// Kills it and reaps it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to end, and demands that it does without an error.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        self.process.tell("stop");
        self.process.finish();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

/// Serves an `Echo` at `address` in this process until the parent says `stop`, once `prepare` has
/// added to it; for roles that need other limits or services.
pub(crate) fn serve(address: &str, limits: Limits, prepare: impl FnOnce(&EventLoop, &Server)) {
    serve_with(address, &ListenOptions::new(), limits, prepare);
}

/// Works like [`serve`] with options of the listener.
pub(crate) fn serve_with(
    address: &str,
    options: &ListenOptions,
    limits: Limits,
    prepare: impl FnOnce(&EventLoop, &Server),
) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::with_limits(&event_loop, limits);
    let service = Arc::<Service>::default();
    server.register(EchoDispatcher::shared(Arc::clone(&service))).unwrap();
    let address = server.listen_with(address, options).unwrap();
    prepare(&event_loop, &server);
    let input = std::io::stdin();
    let watched = event_loop.add_descriptor(&input, Interest::Readable).unwrap();
    report(&format!("listens {address} {}", process::tid()));
    let mut commands = String::new();
    loop {
        match event_loop.next(Deadline::NEVER).unwrap() {
            Some(Event::Descriptor(which, _)) if which == watched => {
                commands.clear();
                // The parent writes one line at a time, and reads the answer.
                let bytes = input.lock().read_line(&mut commands).unwrap();
                match commands.trim() {
                    "state" => report(&state_line(&server, &service)),
                    _ if bytes == 0 => return,
                    "stop" => return,
                    other => panic!("no command `{other}`"),
                }
            }
            Some(Event::Stopped) => return,
            _ => {}
        }
    }
}

fn state_line(server: &Server, service: &Service) -> String {
    let later = service.later.borrow();
    let wanted = later.iter().filter(|(_, responder)| !responder.is_cancelled()).count();
    let count = |is_it: fn(RefusalKind) -> bool| -> u64 {
        let counts = server.refusals().into_iter().filter(|row| is_it(row.kind));
        counts.map(|row| row.count).sum()
    };
    let violations = count(|kind| matches!(kind, RefusalKind::ProtocolViolation(_)));
    let (connections, later, refusals) = (server.connections().len(), later.len(), count(|_| true));
    let (bytes, _) = Accounts::of_process().used(Resource::Bytes);
    format!("state {connections} {later} {wanted} {violations} {refusals} {bytes}")
}
