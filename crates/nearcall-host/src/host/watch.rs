//! Asks one service of a process whether it serves, at a socket that only the host can connect to:
//! until it does, and after that as often as its watchdog asks for.
//!
//! The socket is listened at before the process starts, so a question waits in its queue, and is
//! answered when the service begins to serve.
//!
//! **Invariants:** a watcher holds up no other service: each has a thread, which ends with the
//! process that it watches, or when it has nothing more to ask.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall::control::{HealthRequest, ServerCaller};
use nearcall::event_loop::Stopper;
use nearcall::server::Health;
use nearcall::{CallOptions, Client, Code, Deadline, Status};
use nearcall_os::socket;

use crate::config::{Run, Service, Unit};
use crate::limits::{HEALTH_BACKLOG, NOT_SERVING_PAUSE};
use crate::supervisor::InstanceId;

/// What a watcher has found.
#[derive(Debug)]
pub(super) enum Finding {
    Ready,
    NotReady(String),
    Unresponsive,
    Responsive,
}

/// What the watchers of a host have found and it has not looked at.
pub(super) struct Findings {
    findings: Mutex<Vec<(InstanceId, String, Finding)>>,
    stopper: Stopper,
}

impl Findings {
    pub(super) fn new(stopper: Stopper) -> Arc<Self> {
        Arc::new(Self { findings: Mutex::default(), stopper })
    }

    pub(super) fn take(&self) -> Vec<(InstanceId, String, Finding)> {
        std::mem::take(&mut *self.findings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, id: InstanceId, service: &str, finding: Finding) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.push((id, service.to_owned(), finding));
        drop(findings);
        // Its loop returns to the host.
        self.stopper.stop();
    }
}

/// A socket at which a process is asked, and to which no other process than this one can connect:
/// it has no name.
pub(super) struct HealthSocket {
    /// For the process that is asked.
    pub(super) socket: OwnedFd,
    /// Leads to it.
    handle: OwnedFd,
}

impl HealthSocket {
    /// Makes one, in the first of the directories in which a file can be made for a moment.
    pub(super) fn listen(directories: &[PathBuf]) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for directory in directories {
            let path = directory.join(format!(".{:016x}.health", fastrand::u64(..)));
            match socket::unix_listen_unnamed(&path, HEALTH_BACKLOG) {
                Ok((socket, handle)) => return Ok(Self { socket, handle }),
                Err(error) => failed = error,
            }
        }
        let text = format!(
            "a socket for questions cannot be made in any of {directories:?}: {failed}: give the \
             host one of them to write to"
        );
        Err(io::Error::new(failed.kind(), text))
    }
}

/// The thread that asks one service. It ends after this is dropped.
pub(super) struct Watcher {
    /// Closed with this.
    _end: Sender<()>,
    /// Questions fail when the process has closed its own and this is closed.
    _socket: OwnedFd,
}

struct Watch {
    id: InstanceId,
    service: String,
    caller: ServerCaller,
    by: Deadline,
    /// It is well when it answers: what it answers is the health of its servers.
    is_gateway: bool,
    watchdog: Option<Duration>,
    findings: Arc<Findings>,
    end: Receiver<()>,
    /// The address leads through its number.
    _handle: OwnedFd,
}

impl Watcher {
    pub(super) fn start(
        id: InstanceId,
        unit: &Unit,
        service: &Service,
        HealthSocket { socket, handle }: HealthSocket,
        findings: Arc<Findings>,
    ) -> io::Result<Self> {
        let (give, end) = channel();
        let address = format!("unix:/proc/self/fd/{}?via=unix-stream", handle.as_raw_fd());
        let caller = ServerCaller::new(&Client::new(), &address).map_err(io::Error::other)?;
        let by = Deadline::after(unit.ready_within);
        let is_gateway = service.run == Run::Gateway;
        let (watchdog, service) = (service.watchdog, service.name.clone());
        let watch =
            Watch { id, service, caller, by, is_gateway, watchdog, findings, end, _handle: handle };
        std::thread::Builder::new().name("nearcall-watch".into()).spawn(move || watch.run())?;
        Ok(Self { _end: give, _socket: socket })
    }
}

impl Watch {
    fn run(self) {
        if !self.wait_until_ready() {
            return;
        }
        self.report(Finding::Ready);
        let Some(span) = self.watchdog else { return };
        while self.has_not_ended_after(span / 2) {
            match self.ask(Deadline::after(span)) {
                Err(status) if status.code() == Code::DeadlineExceeded => {
                    self.report(Finding::Unresponsive);
                }
                // It has ended, or will say that it does not serve; that is not silence.
                Err(_) => {}
                Ok(_) => self.report(Finding::Responsive),
            }
        }
    }

    /// Returns whether it serves, in time. What becomes of one that does not is decided elsewhere.
    fn wait_until_ready(&self) -> bool {
        loop {
            match self.ask(self.by) {
                Ok(health) if self.is_gateway || health == Health::Serving => return true,
                Ok(_) => {}
                // It answers, and does not know this question: another implementation.
                Err(status) if status.code() == Code::Unimplemented => return true,
                Err(status) if is_final(&status) => {
                    self.report(Finding::NotReady(status.to_string()));
                    return false;
                }
                Err(_) => {}
            }
            if self.by.has_passed() || !self.has_not_ended_after(NOT_SERVING_PAUSE) {
                return false;
            }
        }
    }

    fn ask(&self, by: Deadline) -> Result<Health, Status> {
        let options = match by.remaining() {
            Some(left) => CallOptions::new().deadline(left),
            None => CallOptions::new(),
        };
        self.caller.with(options).health(&HealthRequest::default()).map(|reply| reply.health())
    }

    fn has_not_ended_after(&self, pause: Duration) -> bool {
        self.end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
    }

    fn report(&self, finding: Finding) {
        self.findings.add(self.id, &self.service, finding);
    }
}

/// Returns whether asking again would not help.
fn is_final(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled
    )
}
