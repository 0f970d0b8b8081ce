//! How an administrator has the clients of a server move to another mechanism.
//!
//! **Invariants:** no loop waits: clients are asked a few at a time, between its other work, and
//! each answers when it does; the caller gets its answer by its time at the latest, unless a method
//! keeps a loop.
//! **Not here:** who may do that (`built_in.rs`), asking one client (`connection/switch_asks.rs`).
//!
//! **Invariant:** a request that clients switch (`Switch` of the built-in service) gets one answer
//! about each connection, by the time that it gives, and no loop waits for a client: asks go out a
//! few at a time, posted to the loop of each connection, and the answer is sent by whichever loop
//! is the last. A client follows unless its program forbids it (`ClientBuilder::follow_asks`), in
//! its loop at once and without a loop when it calls; a connection that tasks share follows when
//! its driver or a task next receives, which is at once unless the last call found its reply amid
//! its looks and left the connection unarmed. A loop and a driver follow to mechanisms that they
//! can wait for (`Host::can_wait_for`). *Checked by* `tests/it/switch_asks.rs`,
//! `tests/it/async_client/asks.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::{Mechanism, UnknownMechanism};

use super::ServerCore;
use super::gathering::{Gathering, LoopHandle};
use crate::connection::connection_info::ConnectionInfo;
use crate::control::{SwitchOutcome, SwitchReply, SwitchRequest};
use crate::deadline::Deadline;
use crate::limits::{ASK_WAIT_DEFAULT, ASK_WAIT_MAX, ASKS_PER_TURN_MAX};
use crate::reactor::acceptor::Acceptor;
use crate::services::responder::Responder;
use crate::status::{Code, Status};

/// A request that was checked.
pub(super) struct Switches {
    mechanism: Mechanism,
    until: Deadline,
    /// The connections of each loop.
    chosen: BTreeMap<usize, Vec<SwitchOutcome>>,
}

/// Shared by all asks of one request.
struct Job {
    mechanism: Mechanism,
    until: Deadline,
    gathering: Arc<Gathering<SwitchReply, SwitchOutcome>>,
}

impl Switches {
    /// Checks a request that came over connection `own` of the server.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: of the request itself. `NOT_FOUND`: no connection is chosen.
    pub(super) fn parse(
        core: &ServerCore,
        request: &SwitchRequest,
        own: Option<u64>,
    ) -> Result<Self, Status> {
        let mechanism = request
            .mechanism
            .parse()
            .map_err(|error: UnknownMechanism| Status::invalid_argument(error.to_string()))?;
        // Sets: a request may name very many.
        let numbers: BTreeSet<u64> = request.connections.iter().copied().collect();
        let choices = [!numbers.is_empty(), request.pid.is_some(), request.all];
        if choices.iter().filter(|is_given| **is_given).count() != 1 {
            return Err(Status::invalid_argument(
                "choose connections by numbers, or by the process of a client, or all",
            ));
        }
        let is_chosen = |info: &ConnectionInfo| match request.pid {
            _ if !numbers.is_empty() => info.number.is_some_and(|number| numbers.contains(&number)),
            Some(pid) => info.peer.pid() == Some(pid),
            None => true,
        };
        if let Some(own) = own.filter(|own| numbers.contains(own)) {
            let text = format!("connection {own} carries this call, and stays where it is");
            return Err(Status::invalid_argument(text));
        }
        let infos = core.state.census.connections(|_, info| info.number != own && is_chosen(info));
        let known: BTreeSet<u64> = infos.iter().filter_map(|(_, info)| info.number).collect();
        if let Some(missing) = numbers.difference(&known).next() {
            let text = format!("this server has no connection {missing}; it may have ended");
            return Err(Status::not_found(text));
        }
        if infos.is_empty() {
            return Err(Status::not_found(match request.pid {
                Some(pid) => format!(
                    "process {pid} has no connection to this server; calls within the thread of a \
                     loop have none"
                ),
                None => "no other client is connected to this server".to_owned(),
            }));
        }
        let wait = Duration::from_millis(request.timeout_ms.into());
        let wait = if wait.is_zero() { ASK_WAIT_DEFAULT } else { wait.min(ASK_WAIT_MAX) };
        let mut chosen = BTreeMap::<_, Vec<_>>::new();
        for (loop_index, info) in infos {
            chosen.entry(loop_index).or_default().push(row_of(info));
        }
        Ok(Self { mechanism, until: Deadline::after(wait), chosen })
    }

    /// Asks the clients, and answers once all have.
    pub(super) fn start(self, core: &ServerCore, responder: Responder<SwitchReply>) {
        let gathering = Gathering::new(responder, |mut connections: Vec<SwitchOutcome>| {
            connections.sort_by_key(|row| row.number);
            SwitchReply { connections }
        });
        let (mechanism, until) = (self.mechanism, self.until);
        let job = Arc::new(Job { mechanism, until, gathering });
        for (loop_index, rows) in self.chosen {
            let handle = core.state.loop_of(loop_index);
            match handle {
                Some(handle) if loop_index == core.acceptor.loop_index => {
                    ask_some(&core.acceptor, &handle, rows, &job);
                }
                Some(handle) => {
                    let (job, in_loop) = (Arc::clone(&job), handle.clone());
                    handle.post(move |acceptor| ask_some(acceptor, &in_loop, rows, &job));
                }
                None => job.gathering.add(rows.into_iter().map(gone)),
            }
        }
    }
}

/// Asks the first few of these clients, and has the loop ask the others in its next rounds.
fn ask_some(
    acceptor: &Rc<Acceptor>,
    handle: &LoopHandle,
    mut rows: Vec<SwitchOutcome>,
    job: &Arc<Job>,
) {
    let later = rows.split_off(rows.len().min(ASKS_PER_TURN_MAX));
    for row in rows {
        let Some(connection) = acceptor.connection_of_number(row.number) else {
            job.gathering.add([gone(row)]);
            continue;
        };
        let row = SwitchOutcome { before: connection.mechanism().name().to_owned(), ..row };
        let gathering = Arc::clone(&job.gathering);
        let asked = job.mechanism;
        let report = Box::new(move |outcome| gathering.add([ended(row, asked, outcome)]));
        connection.ask_switch(asked, job.until, report);
    }
    if !later.is_empty() {
        let (job, in_loop) = (Arc::clone(job), handle.clone());
        handle.post(move |acceptor| ask_some(acceptor, &in_loop, later, &job));
    }
}

fn row_of(info: ConnectionInfo) -> SwitchOutcome {
    let before = info.mechanism.name().to_owned();
    SwitchOutcome {
        number: info.number.unwrap_or_default(),
        pid: info.peer.pid(),
        name: info.name,
        after: before.clone(),
        before,
        ..SwitchOutcome::default()
    }
}

fn ended(
    row: SwitchOutcome,
    asked: Mechanism,
    outcome: Result<Mechanism, Status>,
) -> SwitchOutcome {
    match outcome {
        Ok(moved) if moved == asked => SwitchOutcome { after: moved.name().to_owned(), ..row },
        // What a client opens is its own choice.
        Ok(moved) => {
            let message = format!("the client has moved to {moved} instead of {asked}");
            let code = Code::FailedPrecondition as i32;
            SwitchOutcome { after: moved.name().to_owned(), code, message, ..row }
        }
        Err(status) => {
            let (code, message) = (status.code() as i32, status.message().to_owned());
            SwitchOutcome { after: row.before.clone(), code, message, ..row }
        }
    }
}

fn gone(row: SwitchOutcome) -> SwitchOutcome {
    let message = "the connection has ended".to_owned();
    SwitchOutcome { code: Code::Unavailable as i32, message, ..row }
}
