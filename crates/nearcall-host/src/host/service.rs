//! How a host is asked what it does, and told to restart.
//!
//! **Invariants:** only root and the host's own user are answered, by what the kernel knows of the
//! caller.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use nearcall::event_loop::Stopper;
use nearcall::service::Responder;
use nearcall::{Context, Status};
use nearcall_os::process::user_id;

use super::Host;
use crate::config::UnitName;
use crate::limits::{STATUS_END_BYTES_MAX, STATUS_LINES_BYTES_MAX};
use crate::proto::{
    Host as HostInterface, HostRestartReply, HostRestartRequest, HostStatusReply,
    HostStatusRequest, HostedService,
};

/// What callers wait for.
pub(super) enum Request {
    Status(Responder<HostStatusReply>),
    Restart(Vec<String>, Responder<HostRestartReply>),
}

/// Requests that the host has not looked at.
pub(super) type Requests = Rc<RefCell<Vec<Request>>>;

pub(super) struct HostService {
    requests: Requests,
    stopper: Stopper,
}

impl HostService {
    pub(super) fn new(requests: Requests, stopper: Stopper) -> Self {
        Self { requests, stopper }
    }

    fn add(&self, request: Request) {
        self.requests.borrow_mut().push(request);
        // The loop returns to the host.
        self.stopper.stop();
    }
}

/// Refuses users that are neither root nor this one.
fn check_user(context: &Context<'_>) -> Result<(), Status> {
    match context.peer().uid() {
        Some(uid) if uid == 0 || uid == user_id() => Ok(()),
        uid => {
            let who =
                uid.map_or("a process of another machine".into(), |uid| format!("user {uid}"));
            Err(Status::permission_denied(format!(
                "{who} may not ask a host of user {}: ask as that user, or as root",
                user_id()
            )))
        }
    }
}

impl HostInterface for HostService {
    fn status(
        &self,
        context: &Context<'_>,
        _request: &HostStatusRequest,
    ) -> Result<HostStatusReply, Status> {
        check_user(context)?;
        context.answer_later(|responder| self.add(Request::Status(responder)))
    }

    fn restart(
        &self,
        context: &Context<'_>,
        request: &HostRestartRequest,
    ) -> Result<HostRestartReply, Status> {
        check_user(context)?;
        let services = request.services.clone();
        context.answer_later(|responder| self.add(Request::Restart(services, responder)))
    }
}

impl Host {
    /// Returns what is known of all services.
    pub(super) fn status(&self) -> HostStatusReply {
        let config = self.supervisor.config();
        let states = self.supervisor.status(self.now());
        let lines_bytes_max = STATUS_LINES_BYTES_MAX / config.process_count().max(1);
        let services = states.into_iter().map(|state| {
            let unit = config.unit_of(&state.name);
            let service =
                unit.and_then(|unit| unit.services.iter().find(|it| it.name == state.name));
            let process = state.instance.and_then(|id| self.processes.get(&id));
            let (last_end, last_lines) = state.last_end.unzip();
            HostedService {
                listen: service.map(|it| it.listen.to_string()).unwrap_or_default(),
                run: service.map_or("", |it| it.run.name()).to_owned(),
                group: match &state.unit {
                    UnitName::Group(group) => group.clone(),
                    // What a gateway forwards, it serves beside itself.
                    UnitName::Service(unit) if *unit != state.name => unit.clone(),
                    UnitName::Service(_) => String::new(),
                },
                state: state.state.name().to_owned(),
                pid: process.map_or(0, super::Process::pid),
                uptime_ms: state.up.map_or(0, milliseconds),
                restarts: state.restarts,
                failures: state.failures,
                restart: unit.map_or("", |unit| unit.policy.restart.name()).to_owned(),
                last_end: last_end.map(|end| shorten(end.to_string())).unwrap_or_default(),
                last_lines: last_that_fit(last_lines.unwrap_or_default(), lines_bytes_max),
                is_unresponsive: state.is_unresponsive,
                missed: state.missed,
                name: state.name,
            }
        });
        HostStatusReply {
            pid: std::process::id(),
            uptime_ms: milliseconds(self.now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file: config.path.display().to_string(),
            is_stopping: self.supervisor.is_stopping(),
            retiring: u32::try_from(self.supervisor.retiring_count()).unwrap_or(u32::MAX),
            services: services.collect(),
        }
    }
}

/// Returns as many of the last lines as have so many bytes.
fn last_that_fit(mut lines: Vec<String>, bytes_max: usize) -> Vec<String> {
    let mut bytes = 0;
    let kept = lines.iter().rev().take_while(|line| {
        bytes += line.len();
        bytes <= bytes_max
    });
    let first = lines.len() - kept.count();
    lines.drain(..first);
    lines
}

/// Cuts a text that a service has a part in.
fn shorten(mut text: String) -> String {
    let mut ends = (0..=text.len().min(STATUS_END_BYTES_MAX)).rev();
    let end = ends.find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_that_fit() {
        let lines = || ["one", "two", "three"].map(str::to_owned).to_vec();
        assert_eq!(last_that_fit(lines(), 100), lines());
        assert_eq!(last_that_fit(lines(), 8), ["two", "three"]);
        assert_eq!(last_that_fit(lines(), 7), ["three"]);
        assert!(last_that_fit(lines(), 4).is_empty() && last_that_fit(Vec::new(), 4).is_empty());
        assert_eq!(shorten("x".repeat(5000)).len(), STATUS_END_BYTES_MAX);
        assert_eq!(shorten("\u{fffd}".repeat(2000)).len(), STATUS_END_BYTES_MAX / 3 * 3);
    }
}
