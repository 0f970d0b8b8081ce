//! What the server has counted of its calls, from all of its loops, and its connections as tools
//! see them.
//!
//! **Invariants:** a method that several loops serve is one row; a method that was never called is
//! none.
//! **Not here:** counting (`connection/call_counts.rs`), who may see it (`built_in.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use nearcall_os::clock::{self, Clock};
use nearcall_os::cpu;

use super::ServerCore;
use super::gathering::Gathering;
use crate::connection::call_counts::CallCounts;
use crate::connection::connection_info::ConnectionInfo;
use crate::connection::{switch_history, traffic};
use crate::control::{
    self, Connection, CountersReply, ErrorCount, MessageCounts, MethodCounts, SwitchRecord,
};
use crate::limits::TIMED_ONE_IN;
use crate::peer::Peer;
use crate::reactor::acceptor::Acceptor;
use crate::services::responder::Responder;

/// What one loop contributes.
enum Row {
    /// Of the method of an object.
    Method(String, &'static str, CallCounts),
    Connection(Box<Connection>),
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// The connections of this user and nothing else; none: everything.
    pub(super) of_user: Option<u32>,
    pub(super) with_connections: bool,
    /// The caller is on this machine.
    pub(super) is_near: bool,
}

impl ServerCore {
    /// Answers with what all loops have counted. `asking` is the number of the caller's connection.
    pub(super) fn gather_counts(
        &self,
        wanted: Wanted,
        asking: Option<u64>,
        responder: Responder<CountersReply>,
    ) {
        let uptime_us = u64::try_from(self.state.uptime().as_micros()).unwrap_or(u64::MAX);
        let gathering = Gathering::new(responder, move |rows| CountersReply {
            uptime_us,
            ..assemble(rows, wanted, asking)
        });
        for handle in self.state.loops() {
            if handle.index == self.acceptor.loop_index {
                gathering.add(count_loop(&self.acceptor, wanted));
            } else {
                let gathering = Arc::clone(&gathering);
                handle.post(move |acceptor| gathering.add(count_loop(acceptor, wanted)));
            }
        }
    }
}

fn count_loop(acceptor: &Acceptor, wanted: Wanted) -> Vec<Row> {
    let mut rows = Vec::new();
    let objects = acceptor.objects().filter(|_| wanted.of_user.is_none());
    if let Some(objects) = objects {
        for (object, interface, counters) in objects.counters() {
            let called = counters.read().filter(|(_, counts)| counts.calls > 0);
            rows.extend(called.map(|(id, counts)| {
                let method = id.and_then(|id| interface.method(id));
                Row::Method(object.clone(), method.map_or("", |method| method.name), counts)
            }));
        }
    }
    if wanted.with_connections {
        rows.extend(
            describe_loop(acceptor, wanted.of_user)
                .into_iter()
                .map(|it| Row::Connection(Box::new(it))),
        );
    }
    rows
}

fn assemble(rows: Vec<Row>, wanted: Wanted, asking: Option<u64>) -> CountersReply {
    let mut methods: BTreeMap<(String, &'static str), CallCounts> = BTreeMap::new();
    let mut connections = Vec::new();
    for row in rows {
        match row {
            Row::Method(object, method, counts) => {
                methods.entry((object, method)).or_default().add(&counts);
            }
            Row::Connection(mut connection) => {
                connection.is_asking = asking == Some(connection.number);
                connections.push(*connection);
            }
        }
    }
    let methods = methods.into_iter().map(|((object, method), counts)| MethodCounts {
        object,
        method: method.to_owned(),
        counts: Some(describe_calls(counts)),
    });
    let sees_process = wanted.is_near && wanted.of_user.is_none();
    CountersReply {
        timed_one_in: TIMED_ONE_IN,
        cpu_ns: sees_process.then(|| Clock::ProcessCpu.read_ns()),
        methods: methods.collect(),
        connections,
        ..CountersReply::default()
    }
}

/// Describes what was counted of some calls.
fn describe_calls(counts: CallCounts) -> control::CallCounts {
    let CallCounts { calls, in_flight, received_bytes, sent_bytes, errors, times } = counts;
    let errors = errors
        .into_iter()
        .map(|(code, count)| ErrorCount { code: i32::from(code.number()), count });
    control::CallCounts {
        calls,
        in_flight,
        received_bytes,
        sent_bytes,
        errors: errors.collect(),
        times: times.counts().to_vec(),
    }
}

/// Describes the connections of one loop, or those of one user.
pub(super) fn describe_loop(acceptor: &Acceptor, of_user: Option<u32>) -> Vec<Connection> {
    let (cpu, connections) = (cpu::current_cpu(), acceptor.connections().into_iter());
    connections
        .filter(|connection| of_user.is_none() || connection.peer.uid() == of_user)
        .map(|connection| Connection {
            cpu: u32::try_from(cpu).ok(),
            ..describe_connection(acceptor.loop_index, connection.info())
        })
        .collect()
}

/// Describes a connection.
pub(super) fn describe_connection(loop_index: usize, info: ConnectionInfo) -> Connection {
    let remote_address = match &info.peer {
        Peer::Remote(address) => address.to_string(),
        Peer::Local | Peer::Process(_) => String::new(),
    };
    Connection {
        pid: info.peer.pid(),
        uid: info.peer.uid(),
        name: info.name,
        remote_address,
        mechanism: info.mechanism.name().to_owned(),
        wait: info.wait.name().to_owned(),
        trusted: info.is_trusted,
        descriptors: info.descriptors as u64,
        room_bytes: info.room_bytes as u64,
        slots_lent: info.slots_lent.map(|slots| slots as u64),
        slots_borrowed: info.slots_borrowed.map(|slots| slots as u64),
        r#loop: u32::try_from(loop_index).unwrap_or(u32::MAX),
        number: info.number.unwrap_or_default(),
        is_asking: false,
        switches: info.switches.into_iter().map(describe_switch).collect(),
        traffic: info.traffic.map(|traffic| control::Traffic {
            received: Some(describe_counts(&traffic.received)),
            sent: Some(describe_counts(&traffic.sent)),
        }),
        calls: info.calls.map(describe_calls),
        wakes_given: info.wakes.and_then(|wakes| wakes.given),
        wakes_taken: info.wakes.map(|wakes| wakes.taken),
        cpu: None,
    }
}

fn describe_switch(record: switch_history::SwitchRecord) -> SwitchRecord {
    let age = clock::now().saturating_duration_since(record.at);
    SwitchRecord {
        age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        from: record.from.name().to_owned(),
        to: record.to.map_or_else(String::new, |to| to.name().to_owned()),
        cause: record.cause.name().to_owned(),
        failure: record.outcome.err().unwrap_or_default(),
        note: record.note,
    }
}

fn describe_counts(counts: &traffic::MessageCounts) -> MessageCounts {
    MessageCounts { bytes: counts.bytes, by_size: counts.by_size.to_vec() }
}
