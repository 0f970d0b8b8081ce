//! Connections of a client that choose their mechanism by themselves: `?via=auto`.
//!
//! **Invariants:** a look never waits: a switch is begun, and its end comes with later messages.
//! **Not here:** what is decided (`auto.rs`), moving a connection (`connection/switching.rs`).

use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::EndPlacement;
use nearcall_os::{clock, cpu};

use super::core::ClientCore;
use crate::auto::{Chooser, Surroundings, SwitchNote, Verdict, has_one_cpu};
use crate::connection::switch_history::SwitchCause;
use crate::connection::{Connection, Host, Oneway, Outgoing, SendMode};
use crate::control::{ServerCaller, SwitchReport};
use crate::deadline::Deadline;
use crate::interface::object_id;
use crate::limits::AUTO_SWITCH_TIMEOUT;
use crate::status::Status;

impl ClientCore {
    /// Ends a call that is timed.
    #[cold]
    pub(crate) fn end_sample(&self, connection: &Rc<Connection>, begun_ns: u64) {
        end_sample(connection, Some(begun_ns), self.try_mode());
    }

    /// Notes a call that was only started, or a one-way message.
    #[cold]
    pub(crate) fn end_start(&self, connection: &Rc<Connection>) {
        end_sample(connection, None, self.try_mode());
    }
}

/// Ends a call that is timed, or notes one that was only started, or a one-way message. `mode`: how
/// the server is told what was seen.
#[cold]
pub(super) fn end_sample<H: Host>(
    connection: &Connection<H>,
    begun_ns: Option<u64>,
    mode: SendMode,
) {
    let Some(chooser) = connection.chooser() else { return };
    let now_ns = clock::monotonic_ns();
    if chooser.end(begun_ns, now_ns) {
        look(connection, chooser, now_ns, mode);
    }
}

fn look<H: Host>(connection: &Connection<H>, chooser: &Chooser, now_ns: u64, mode: SendMode) {
    if connection.is_closed() {
        return;
    }
    if let Some((to, begun_ns)) = chooser.under_way()
        && !end_switch(connection, chooser, to, now_ns.saturating_sub(begun_ns), mode)
    {
        return;
    }
    // By the program, by an ask of the server, or away from tcp: what it brings is looked at then.
    if connection.awaits_switch() {
        return;
    }
    let around = Surroundings {
        now_ns,
        traffic: connection.traffic(),
        mechanism: connection.mechanism(),
        placement: placement_of(connection),
    };
    let verdict = chooser.look(&around);
    if let Some(note) = chooser.take_note() {
        report(connection, note, mode);
    }
    if let Verdict::Switch(to) = verdict {
        if !connection.host().can_wait_for(to) {
            let why = Status::failed_precondition("what drives this connection cannot wait for it");
            return chooser.ended(to, now_ns, Some(&why));
        }
        match connection.begin_switch(to, SwitchCause::Automatic) {
            Ok(()) => chooser.begun(to, now_ns),
            Err(status) => chooser.ended(to, now_ns, Some(&status)),
        }
    }
}

/// Looks whether a switch has ended. False: it is under way.
fn end_switch<H: Host>(
    connection: &Connection<H>,
    chooser: &Chooser,
    to: Mechanism,
    span_ns: u64,
    mode: SendMode,
) -> bool {
    let is_late = Duration::from_nanos(span_ns) >= AUTO_SWITCH_TIMEOUT;
    let outcome: Result<(), Status> = match connection.take_switch_outcome(SwitchCause::Automatic) {
        Some(outcome) => outcome,
        None if connection.mechanism() == to => Ok(()),
        None if is_late => Err(connection.late_switch(to, SwitchCause::Automatic)),
        None => return false,
    };
    let now_ns = clock::monotonic_ns();
    match outcome {
        Ok(()) => {
            chooser.ended(to, now_ns, None);
            if let Some(note) = chooser.trial_note() {
                report(connection, note, mode);
            }
        }
        Err(status) => chooser.ended(to, now_ns, Some(&status)),
    }
    true
}

/// Notes why a switch was made, or what it was worth: at this end, and at the other if it is the
/// last, since a server takes a report for that.
fn report<H: Host>(connection: &Connection<H>, note: SwitchNote, mode: SendMode) {
    let SwitchNote { from, to, text: note } = note;
    if !connection.amend_automatic_switch(from, to, &note) {
        return;
    }
    let report = SwitchReport { cause: SwitchCause::Automatic.name().to_owned(), note };
    let interface = ServerCaller::INTERFACE;
    let Some(method) = interface.methods.iter().find(|it| it.name == "ReportSwitch") else {
        return;
    };
    let (object, method) = (object_id(&interface.object_name(None)), method.id);
    let outgoing = Outgoing { object, method, deadline: Deadline::NEVER, metadata: &[] };
    // A server without room for it, or of an earlier version, does not hear why.
    let _ = connection.request(Oneway, &outgoing, &report, mode);
}

/// Returns where both ends may run, by the kernel: of the other end its first thread.
fn placement_of<H: Host>(connection: &Connection<H>) -> EndPlacement {
    let own = cpu::allowed();
    let theirs = connection.peer.pid().and_then(|pid| cpu::allowed_of(pid).ok());
    match (&own[..], theirs.as_deref()) {
        ([own], Some([theirs])) if own == theirs => EndPlacement::OneCpu,
        ([_], _) if has_one_cpu() => EndPlacement::OneCpu,
        _ => EndPlacement::TwoCpus,
    }
}
