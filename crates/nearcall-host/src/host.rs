//! A host of services: does what its supervisor decides, and reports to it what happens.
//!
//! **Invariants:** the host never waits for one service, nor for who reads its log: whatever may
//! take long is in a thread of its own, or comes as an event. Processes are started by one thread,
//! with which they die.
//! **Not here:** the decisions (`supervisor.rs`), one process (`host/process.rs`), asking services
//! whether they serve (`host/watch.rs`), being asked (`host/service.rs`).
//!
//! **Invariant:** what a host has started ends with it, however it ends, and what a service has
//! left in its process group ends with the service. *Checked by*
//! `nothing_is_left_of_a_host_that_is_killed`, `what_a_service_has_started_ends_with_it`.
//!
//! **Invariant:** the host runs no code of a library and waits for no service. *Checked by*
//! `of_twenty_libraries_one_panics_one_blocks_and_one_aborts`.

mod log;
mod notify;
mod process;
mod service;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use nearcall::event_loop::Event;
use nearcall::event_loop::{DescriptorId, Signal};
use nearcall::server::{ListenError, RegisterError};
use nearcall::service::Responder;
use nearcall::{Deadline, EventLoop, Server};
use nearcall_channel::{Address, Listener, Refusal, SocketAccess};
use nearcall_os::process::DescriptorLimit;
use nearcall_os::{clock, process as os_process};

use self::log::Log;
use self::process::{Parts, Process};
use self::service::{HostService, Request, Requests};
use self::watch::{Finding, Findings};
use crate::config::{Config, Unit};
use crate::limits::ACCEPTS_AT_CLOSE_MAX;
use crate::proto::{HostDispatcher, HostRestartReply};
use crate::supervisor::{Action, End, Ending, InstanceId, State, Supervisor, Time, Token};

/// What a host is given beside its configuration.
pub struct HostOptions {
    /// The program and the arguments that start the process of a group of libraries. It reads its
    /// libraries from its standard input and calls [`run_worker`](crate::run_worker).
    pub worker: Vec<OsString>,
    /// The program and the first arguments of a gateway: those of `nearcall gateway` follow.
    pub gateway: Vec<OsString>,
    /// Writes a line of the log. Called in a thread of its own, so that it may wait for a reader.
    pub log: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HostOptions");
        shown.field("worker", &self.worker).field("gateway", &self.gateway);
        shown.finish_non_exhaustive()
    }
}

/// Why a host does not run.
pub enum HostError {
    /// It cannot be asked at its address: another host may have it.
    Listen(ListenError),
    /// Its interface was not registered.
    Register(RegisterError),
    /// So many services need more descriptors than the process may have.
    Descriptors {
        /// The number of services.
        services: usize,
        /// What they need.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// A system call failed.
    Os(io::Error),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => write!(
                f,
                "the host cannot be asked at its address: {error}; to run another host, write \
                 another `listen` below `[host]`"
            ),
            Self::Register(error) => error.fmt(f),
            Self::Descriptors { services, needed, allowed } => write!(
                f,
                "{services} services need {needed} descriptors, and this process may have \
                 {allowed}: raise its hard limit (`ulimit -Hn`, or `LimitNOFILE={needed}` in the \
                 unit of systemd), or run two hosts"
            ),
            Self::Os(error) => write!(f, "the host cannot run: {error}"),
        }
    }
}

/// Prints like [`Display`](fmt::Display).
impl fmt::Debug for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for HostError {}

impl From<io::Error> for HostError {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

/// Runs the services of a configuration until SIGTERM or SIGINT has come and all of them have
/// ended; a second signal ends them at once. SIGHUP has it read its file again.
///
/// Call it in the main thread, before other threads start: they would take its signals, and what it
/// has started ends with the thread that calls it.
///
/// # Errors
///
/// Another host has its address, or the kernel refuses what every host needs. A service that does
/// not start is no error.
pub fn run(config: Config, options: HostOptions) -> Result<Ending, HostError> {
    let descriptors = DescriptorLimit::of_process()?;
    fit_descriptors(&config)?;
    let event_loop = EventLoop::new()?;
    event_loop.add_signals(&[Signal::TERM, Signal::INT, Signal::HUP])?;
    let server = Server::new(&event_loop);
    let requests = Requests::default();
    let service = HostService::new(Rc::clone(&requests), event_loop.stopper());
    server.register(HostDispatcher::new(service)).map_err(HostError::Register)?;
    server.listen(&config.listen.to_string()).map_err(HostError::Listen)?;
    let findings = Findings::new(event_loop.stopper());
    let own = config.listen.awaited_path().ok().flatten();
    let own = own.and_then(|path| path.parent().map(Path::to_owned));
    let directories = own.into_iter().chain([std::env::temp_dir()]).collect();
    let mut host = Host {
        event_loop,
        requests,
        findings,
        supervisor: Supervisor::new(config),
        listeners: BTreeMap::new(),
        processes: BTreeMap::new(),
        waiting: BTreeMap::new(),
        next_token: 0,
        started: clock::now(),
        worker: options.worker,
        gateway: options.gateway,
        log: Log::start(options.log)?,
        descriptors,
        directories,
    };
    let outcome = host.serve();
    // Its own address goes last: whoever sees it free finds nothing else of the host.
    host.processes.clear();
    host.listeners.clear();
    drop(server);
    outcome
}

struct Host {
    event_loop: EventLoop,
    requests: Requests,
    findings: Arc<Findings>,
    supervisor: Supervisor,
    /// By the text of the address.
    listeners: BTreeMap<String, Listener>,
    processes: BTreeMap<InstanceId, Process>,
    /// Callers that wait for a restart.
    waiting: BTreeMap<u64, Responder<HostRestartReply>>,
    next_token: u64,
    started: Instant,
    worker: Vec<OsString>,
    gateway: Vec<OsString>,
    log: Log,
    /// The limits that it was started with, and its services get.
    descriptors: DescriptorLimit,
    /// Where it can make files.
    directories: Vec<PathBuf>,
}

/// Raises the limit of open descriptors of this process to what the services need, and to twice as
/// much if it may, for a restart of all of them.
fn fit_descriptors(config: &Config) -> Result<(), HostError> {
    let needed = config.descriptor_count();
    let allowed = os_process::raise_descriptor_limit(needed.saturating_mul(2))?;
    match allowed >= needed {
        true => Ok(()),
        false => Err(HostError::Descriptors { services: config.service_count(), needed, allowed }),
    }
}

impl Host {
    fn now(&self) -> Time {
        self.started.elapsed()
    }

    fn serve(&mut self) -> Result<Ending, HostError> {
        self.supervisor.handle_time(self.now());
        loop {
            if let Some(ending) = self.act() {
                return Ok(ending);
            }
            let deadline = match self.supervisor.next_due() {
                Some(due) => Deadline::after(due.saturating_sub(self.now())),
                None => Deadline::NEVER,
            };
            match self.event_loop.next(deadline)? {
                Some(Event::Descriptor(descriptor, _)) => self.handle_descriptor(descriptor),
                Some(Event::Signal(info)) if info.signal == Signal::HUP.as_raw() => {
                    self.restart(&[], None);
                }
                Some(Event::Signal(_)) => {
                    notify::stopping();
                    self.supervisor.handle_stop(self.now());
                }
                Some(Event::Stopped) => {
                    self.handle_findings();
                    self.handle_requests();
                }
                _ => {}
            }
            let now = self.now();
            if self.supervisor.next_due().is_some_and(|due| due <= now) {
                self.supervisor.handle_time(now);
            }
        }
    }

    /// Does what the supervisor has decided. Returns how the host ends, if that is it.
    fn act(&mut self) -> Option<Ending> {
        loop {
            let actions = self.supervisor.take_actions();
            if actions.is_empty() {
                return None;
            }
            for action in actions {
                match action {
                    Action::Start(id, unit) => self.start(id, &unit),
                    Action::Terminate(id) => self.with(id, Process::terminate),
                    Action::Kill(id) => self.with(id, Process::kill),
                    Action::Close(address) => self.close(&address),
                    Action::SetAccess => self.set_access(),
                    Action::Report(report) => self.log.add(&report.to_string()),
                    Action::Reply(token, outcome) => self.reply(token, outcome),
                    Action::Settled => notify::ready(&self.summary()),
                    Action::Exit(ending) => return Some(ending),
                }
            }
        }
    }

    fn with(&self, id: InstanceId, act: impl FnOnce(&Process)) {
        if let Some(process) = self.processes.get(&id) {
            act(process);
        }
    }

    /// Starts the process of a unit.
    fn start(&mut self, id: InstanceId, unit: &Rc<Unit>) {
        let started = self.listen(unit).and_then(|()| {
            let parts = Parts {
                listeners: &self.listeners,
                event_loop: &self.event_loop,
                findings: &self.findings,
                worker: &self.worker,
                gateway: &self.gateway,
                log: &self.log,
                directories: &self.directories,
                descriptors: self.descriptors,
            };
            Process::start(id, unit, &parts)
        });
        match started {
            Ok(process) => drop(self.processes.insert(id, process)),
            Err(error) => {
                let end = End::NotStarted(error.to_string());
                self.supervisor.handle_end(id, end, Vec::new(), self.now());
            }
        }
    }

    /// Binds the sockets of a unit that are not bound yet, or whose files are gone.
    fn listen(&mut self, unit: &Unit) -> io::Result<()> {
        let places = unit.services.iter().flat_map(|service| {
            let sockets = service.sockets.iter().map(|socket| (socket, SocketAccess::default()));
            let places = std::iter::once((&service.listen, service.access)).chain(sockets);
            places.map(|(address, access)| (service.name.as_str(), address, access))
        });
        for (service, address, access) in places {
            let name = address.to_string();
            if let Some(listener) = self.listeners.get(&name) {
                // The next process gets the new socket; the host cannot give it to one that runs.
                match listener.restore_file() {
                    Ok(false) => {}
                    Ok(true) => self.log.add(&format!(
                        "{service}: another program had removed the socket of {name}, which is \
                         made again"
                    )),
                    Err(error) => self.log.add(&format!("{service}: {error}")),
                }
                continue;
            }
            let listener = Listener::bind_for(address, access).map_err(|error| {
                io::Error::other(format!("it cannot listen at {address}: {error}"))
            })?;
            if listener.is_inherited() && access != SocketAccess::default() {
                self.log.add(&format!(
                    "{service}: `socket-mode` and `socket-owner` mean nothing for {address}, which \
                     was bound before this host started: write `SocketMode=`, `SocketUser=` and \
                     `SocketGroup=` into its unit of systemd"
                ));
            }
            self.listeners.insert(name, listener);
        }
        Ok(())
    }

    /// Gives the sockets that are open the access of the configuration.
    fn set_access(&self) {
        for service in self.supervisor.config().services() {
            let listener = self.listeners.get(&service.listen.to_string());
            let outcome = listener.map_or(Ok(()), |listener| listener.set_access(service.access));
            if let Err(error) = outcome {
                let name = &service.name;
                self.log.add(&format!("{name}: clients have access as before: {error}"));
            }
        }
    }

    /// Closes the socket of a service. Clients in its queue get the reason.
    fn close(&mut self, address: &Address) {
        let name = address.to_string();
        // What systemd has bound, it goes on with, and so does the next process of the service:
        // this descriptor is the only one by which it can be handed over.
        if self.listeners.get(&name).is_none_or(Listener::is_inherited) {
            return;
        }
        let Some(listener) = self.listeners.remove(&name) else { return };
        listener.unlink();
        let why = format!("the service at {address} is stopped: ask `nearcall status`");
        for _ in 0..ACCEPTS_AT_CLOSE_MAX {
            let Ok(Some(client)) = listener.accept_socket() else { break };
            // Not `Draining`, for which the client would try again and lose the reason. Its call
            // has not begun, whatever the refusal is.
            listener.rendezvous().reject(client, Refusal::Other, &why);
        }
    }

    fn handle_descriptor(&mut self, descriptor: DescriptorId) {
        let owner = self.processes.iter().find(|(_, process)| process.owns(descriptor));
        let Some(id) = owner.map(|(id, _)| *id) else {
            // Of a process whose start has failed half-way.
            self.event_loop.remove_descriptor(descriptor);
            return;
        };
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.is_stderr(descriptor) {
            process.read_stderr(&self.event_loop);
            return;
        }
        let Some(end) = process.take_end(&self.event_loop) else { return };
        let lines = process.last_lines();
        if let Some(process) = self.processes.remove(&id) {
            self.listen_again(&process);
        }
        self.supervisor.handle_end(id, end, lines, self.now());
    }

    /// Has the kernel name this process to clients that connect while no process serves, and not
    /// one that has ended.
    fn listen_again(&self, ended: &Process) {
        for service in &ended.unit().services {
            let others = self.processes.values().flat_map(|process| &process.unit().services);
            let is_served = others.into_iter().any(|other| other.listen == service.listen);
            let listener = self.listeners.get(&service.listen.to_string());
            if let (false, Some(listener)) = (is_served, listener) {
                // Only what a tool shows of the server would be wrong.
                let _ = listener.listen_again();
            }
        }
    }

    fn handle_findings(&mut self) {
        for (id, service, finding) in self.findings.take() {
            match finding {
                Finding::Ready => self.supervisor.handle_ready(id, &service, self.now()),
                Finding::NotReady(why) => self.supervisor.handle_not_ready(id, &service, &why),
                Finding::Unresponsive => self.supervisor.handle_unresponsive(id, &service),
                Finding::Responsive => self.supervisor.handle_responsive(id, &service),
            }
        }
    }

    fn handle_requests(&mut self) {
        let requests: Vec<Request> = self.requests.take();
        for request in requests {
            match request {
                Request::Status(responder) => responder.finish(Ok(self.status())),
                Request::Restart(services, responder) => {
                    let token = self.next_token;
                    self.next_token += 1;
                    self.waiting.insert(token, responder);
                    self.restart(&services, Some(Token(token)));
                }
            }
        }
    }

    /// Reads the file again and applies it.
    fn restart(&mut self, services: &[String], token: Option<Token>) {
        let path = self.supervisor.config().path.clone();
        let config = match Config::read(&path) {
            Ok(config) => config,
            Err(error) => return self.refuse(token, &error),
        };
        match fit_descriptors(&config) {
            Ok(()) => self.supervisor.handle_apply(config, services, token, self.now()),
            Err(error) => self.refuse(token, &error),
        }
    }

    fn refuse(&mut self, token: Option<Token>, error: &dyn fmt::Display) {
        let text = format!("{error}; what ran before goes on");
        self.log.add(&format!("not restarted: {text}"));
        if let Some(token) = token {
            self.reply(token, Err(text));
        }
    }

    fn reply(&mut self, token: Token, outcome: Result<String, String>) {
        if let Some(responder) = self.waiting.remove(&token.0) {
            let outcome = outcome.map(|text| HostRestartReply { text });
            responder.finish(outcome.map_err(nearcall::Status::failed_precondition));
        }
    }

    /// Returns how many services are up, for a line.
    fn summary(&self) -> String {
        let states = self.supervisor.status(self.now());
        let up = states.iter().filter(|it| it.state == State::Up).count();
        format!("{up} of {} services are up", states.len())
    }
}
