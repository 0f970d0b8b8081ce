//! The service that every server answers beside its objects: `nearcall.v1.Server`.
//!
//! **Invariants:** what concerns other users, and the end of the server, is for the server's own
//! user and for root, as the kernel reports the caller; callers of other machines learn nothing of
//! the process.
//! **Not here:** what a server knows of itself (`state.rs`), the interface (`control.rs`).
//!
//! **Invariant:** every server answers `nearcall.v1.Server`, and no registered object takes calls
//! away from it; what concerns other users is for the server's own user and root. *Checked by*
//! `tests/it/built_in.rs`, `tests/faults/names.rs`.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use nearcall_channel::{Invitation, Mechanism, MechanismSet};
use nearcall_os::process;
use nearcall_os::users::is_overflow_user;

use super::ServerCore;
use super::counting::{Wanted, describe_connection, describe_loop};
use super::gathering::Gathering;
use super::record_service::Reserved;
use super::switch_service::Switches;
use crate::connection::connection_info::ConnectionInfo;
use crate::connection::switch_history::SwitchCause;
use crate::control::{
    self, Connection, ConnectionsReply, ConnectionsRequest, CountersReply, CountersRequest,
    DescribeReply, DescribeRequest, HealthReply, HealthRequest, Interface, MechanismUse, MeetReply,
    MeetRequest, Object, RecordReply, RecordRequest, Refusal, Server, ServerDispatcher, StopReply,
    StopRequest, SwitchReply, SwitchReport, SwitchRequest,
};
use crate::interface::{self, fnv1a};
use crate::limits::OBJECT_NAME_BYTES_MAX;
use crate::peer::Peer;
use crate::recording::Recording;
use crate::refusals::RefusedUser;
use crate::services::context::Context;
use crate::services::dispatcher::Registered;
use crate::services::responder::Responder;
use crate::status::Status;
use crate::stream::ItemSender;
use crate::trust::Trust;

/// The service of one server in one of its loops.
struct BuiltIn {
    core: Weak<ServerCore>,
}

/// Has the server answer calls of its built-in service.
pub(super) fn install(core: &Rc<ServerCore>) {
    let service = BuiltIn { core: Rc::downgrade(core) };
    core.objects.set_built_in(Registered::new(ServerDispatcher::new(service)));
}

impl ServerCore {
    /// Returns whether an interface is the one that the server answers itself.
    pub(super) fn is_built_in(&self, interface: &'static interface::Interface) -> bool {
        let built_in = self.objects.built_in_interface();
        built_in.is_some_and(|built_in| built_in.name == interface.name)
    }
}

/// Returns whether a caller may see and do what concerns all users of the server.
fn is_administrator(peer: &Peer) -> bool {
    peer.uid() == Some(0) || Trust::SameUser.covers(peer)
}

/// Names a caller in an error text.
fn describe_caller(peer: &Peer) -> String {
    match peer.uid() {
        Some(uid) => format!("user {uid}"),
        None => "a client of another machine".to_owned(),
    }
}

impl BuiltIn {
    fn core(&self) -> Result<Rc<ServerCore>, Status> {
        self.core.upgrade().ok_or_else(|| Status::unavailable("the server was closed"))
    }

    /// Returns the user whose connections the caller asks for; none: all, which only an
    /// administrator may see.
    fn visible_user(
        context: &Context<'_>,
        own_only: bool,
        what: &str,
    ) -> Result<Option<u32>, Status> {
        match (own_only, context.peer().uid()) {
            (true, Some(uid)) if !is_overflow_user(uid) => Ok(Some(uid)),
            _ => {
                let what = format!("{what} (ask for your own by `own_only`)");
                Self::check_administrator(context, &what).map(|()| None)
            }
        }
    }

    /// Refuses what only an administrator may do.
    fn check_administrator(context: &Context<'_>, what: &str) -> Result<(), Status> {
        let peer = context.peer();
        if is_administrator(&peer) {
            return Ok(());
        }
        let (caller, own) = (describe_caller(&peer), process::user_id());
        let text =
            format!("{caller} may not {what}: that is for user {own}, the server's, and root");
        Err(context.deny(text))
    }
}

impl Server for BuiltIn {
    fn describe(
        &self,
        context: &Context<'_>,
        request: &DescribeRequest,
    ) -> Result<DescribeReply, Status> {
        let core = self.core()?;
        let (state, peer) = (&core.state, context.peer());
        let is_near = !matches!(peer, Peer::Remote(_));
        let places = state.places();
        let mut served = core.objects.descriptions();
        if !request.interface.is_empty() {
            served.retain(|(_, interface)| interface.name == request.interface);
        }
        let objects = served.iter().map(|(name, interface)| Object {
            interface: interface.name.to_owned(),
            instance: instance_of(name, interface.name).to_owned(),
            health: state.health(name).unwrap_or_default().into(),
            name: name.clone(),
        });
        let objects = objects.collect();
        let (near, own) = (|text: String| is_near.then_some(text), process::user_id());
        Ok(DescribeReply {
            pid: is_near.then(process::pid),
            uid: is_near.then_some(own),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: u64::try_from(state.uptime().as_millis()).unwrap_or(u64::MAX),
            addresses: places.iter().filter_map(|(at, _)| near(at.to_string())).collect(),
            health: state.health("").unwrap_or_default().into(),
            objects,
            interfaces: describe_interfaces(&served, request.with_descriptor_sets),
            mechanisms: core.describe_mechanisms(
                places.iter().flat_map(|(_, offered)| offered.iter()).collect(),
                context.mechanism(),
                is_administrator(&peer),
            ),
        })
    }

    fn health(
        &self,
        _context: &Context<'_>,
        request: &HealthRequest,
    ) -> Result<HealthReply, Status> {
        let name = &request.object;
        if name.len() > OBJECT_NAME_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "a name of {} bytes is asked for, above the limit of {OBJECT_NAME_BYTES_MAX} bytes \
                 for names of objects; `Describe` lists the objects of this server",
                name.len()
            )));
        }
        let health = self.core()?.state.health(name).ok_or_else(|| {
            Status::not_found(format!(
                "this server has no object `{}`: leave the name out for the server as a whole",
                name.escape_debug()
            ))
        })?;
        Ok(HealthReply { health: health.into() })
    }

    fn connections(
        &self,
        context: &Context<'_>,
        request: &ConnectionsRequest,
    ) -> Result<ConnectionsReply, Status> {
        let core = self.core()?;
        let what = "list the connections of all users";
        let own = Self::visible_user(context, request.own_only, what)?;
        let mut refusals = core.state.census.refusals.counts();
        if let Some(uid) = own {
            refusals.retain(|refusal| refusal.user == RefusedUser::Uid(uid));
        }
        let refusals = refusals.into_iter().map(|refusal| Refusal {
            kind: refusal.kind.to_string(),
            user: refusal.user.to_string(),
            count: refusal.count,
        });
        let refusals = refusals.collect();
        let asking = context.own_connection().and_then(|connection| connection.number());
        let reply = move |mut connections: Vec<Connection>| {
            let is_asking = |it: &Connection| asking.is_some_and(|number| it.number == number);
            connections.iter_mut().for_each(|it| it.is_asking = is_asking(it));
            ConnectionsReply { connections, refusals }
        };
        if request.live {
            return context
                .answer_later(|responder| core.gather_connections(own, reply, responder));
        }
        Ok(reply(core.describe_connections(own)))
    }

    fn counters(
        &self,
        context: &Context<'_>,
        request: &CountersRequest,
    ) -> Result<CountersReply, Status> {
        let (core, peer) = (self.core()?, context.peer());
        let of_user =
            Self::visible_user(context, request.own_only, "see the counters of all users")?;
        let wanted = Wanted {
            of_user,
            with_connections: !request.methods_only,
            is_near: !matches!(peer, Peer::Remote(_)),
        };
        let asking = context.own_connection().and_then(|connection| connection.number());
        context.answer_later(|responder| core.gather_counts(wanted, asking, responder))
    }

    fn switch(
        &self,
        context: &Context<'_>,
        request: &SwitchRequest,
    ) -> Result<SwitchReply, Status> {
        Self::check_administrator(context, "have connections of this server switch")?;
        let core = self.core()?;
        let own = context.own_connection().and_then(|connection| connection.number());
        let switches = Switches::parse(&core, request, own)?;
        context.answer_later(|responder| switches.start(&core, responder))
    }

    fn report_switch(&self, context: &Context<'_>, request: &SwitchReport) {
        if let Some(connection) = context.own_connection() {
            connection.amend_switch(SwitchCause::from_name(&request.cause), &request.note);
        }
    }

    fn record(
        &self,
        context: &Context<'_>,
        request: &RecordRequest,
        items: ItemSender<RecordReply>,
    ) -> Result<(), Status> {
        Self::check_administrator(context, "record the calls of this server")?;
        let core = self.core()?;
        let reserved = Reserved::new(&core, Recording::new(request)?)?;
        context.answer_later(|responder| reserved.start(items, responder))
    }

    fn stop(&self, context: &Context<'_>, _request: &StopRequest) -> Result<StopReply, Status> {
        Self::check_administrator(context, "stop this server")?;
        let pid = process::pid();
        let core = self.core()?;
        if core.state.stop() {
            return Ok(StopReply { pid });
        }
        if let Some(remedy) = core.state.stop_remedy() {
            return Err(Status::failed_precondition(remedy));
        }
        let text = format!(
            "the program of this server does not wait for its end: end it by a signal to \
             process {pid}"
        );
        let refusal = Status::failed_precondition(text);
        Err(refusal.clone().with_metadata(control::STOP_BY_SIGNAL, "SIGTERM").unwrap_or(refusal))
    }

    fn meet(&self, context: &Context<'_>, request: &MeetRequest) -> Result<MeetReply, Status> {
        let Some(connection) = context.own_connection() else {
            let text = "a call within a thread comes over no connection";
            return Err(Status::failed_precondition(text));
        };
        let client = request.number[..].try_into().map_err(|_| {
            Status::invalid_argument("`number` has the 16 bytes that name the caller's socket")
        })?;
        let Invitation { number, place } = connection.invite(client)?;
        Ok(MeetReply { number: Bytes::copy_from_slice(&number), place })
    }
}

impl ServerCore {
    /// Describes the mechanisms that are offered or in use; how many connections use one only if
    /// the caller may know.
    fn describe_mechanisms(
        &self,
        offered: MechanismSet,
        of_this_call: Option<Mechanism>,
        with_counts: bool,
    ) -> Vec<MechanismUse> {
        let used = if with_counts { self.state.census.mechanisms() } else { Vec::new() };
        let rows = Mechanism::all().filter_map(|mechanism| {
            let used = used.iter().filter(|used| **used == mechanism).count();
            let used = used.saturating_sub(usize::from(of_this_call == Some(mechanism)));
            let offered = offered.contains(mechanism);
            let connections = with_counts.then_some(u32::try_from(used).unwrap_or(u32::MAX));
            let name = mechanism.name().to_owned();
            (offered || used > 0).then_some(MechanismUse { name, offered, connections })
        });
        rows.collect()
    }

    /// Describes the connections of all loops, or those of one user: those of this loop as they are
    /// now.
    fn describe_connections(&self, of_user: Option<u32>) -> Vec<Connection> {
        let own_loop = self.acceptor.loop_index;
        let is_asked_for = |peer: &Peer| of_user.is_none() || peer.uid() == of_user;
        let own = describe_loop(&self.acceptor, of_user);
        let is_chosen =
            |loop_index, info: &ConnectionInfo| loop_index != own_loop && is_asked_for(&info.peer);
        let others = self.state.census.connections(is_chosen);
        let others = others.into_iter().map(|(index, info)| describe_connection(index, info));
        own.into_iter().chain(others).collect()
    }

    /// Answers with the connections of all loops, or those of one user, as they are now.
    fn gather_connections(
        &self,
        of_user: Option<u32>,
        reply: impl FnOnce(Vec<Connection>) -> ConnectionsReply + Send + 'static,
        responder: Responder<ConnectionsReply>,
    ) {
        let gathering = Gathering::new(responder, reply);
        for handle in self.state.loops() {
            if handle.index == self.acceptor.loop_index {
                gathering.add(describe_loop(&self.acceptor, of_user));
            } else {
                let gathering = Arc::clone(&gathering);
                handle.post(move |acceptor| gathering.add(describe_loop(acceptor, of_user)));
            }
        }
    }
}

/// Describes the interfaces of these objects, each once.
fn describe_interfaces(
    objects: &[(String, &'static interface::Interface)],
    with_descriptor_sets: bool,
) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for (_, interface) in objects {
        let is_known = |known: &Interface| known.name == interface.name;
        // Objects are sorted by name, so those of one interface follow each other.
        if interfaces.iter().rev().take(1).any(is_known) {
            continue;
        }
        let set = interface.descriptor_set;
        interfaces.push(Interface {
            name: interface.name.to_owned(),
            descriptor_hash: fnv1a(set),
            descriptor_set: if with_descriptor_sets { set.into() } else { Default::default() },
        });
    }
    interfaces
}

/// Returns the part of an object's name behind that of its interface; empty if there is none.
fn instance_of<'a>(name: &'a str, interface: &str) -> &'a str {
    name.strip_prefix(interface).and_then(|rest| rest.strip_prefix('@')).unwrap_or_default()
}
