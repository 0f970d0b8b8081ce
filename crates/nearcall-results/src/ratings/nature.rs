//! Ratings of what no time can tell: by what the mechanisms are and what their table says.
//!
//! Knows no run. The words of each field name what it is judged by.

use nearcall_channel::{DataPath, Mechanism};

use super::{GROUPS, Group, RatedField, RatedProperty};
use crate::ratings::Rating;

/// Data integrity and monitoring, in the paper's order.
pub(super) fn properties() -> [RatedProperty; 2] {
    [
        property(
            "data_integrity",
            "Data integrity",
            "who can change a message on its way, from the documented capabilities of the \
             mechanisms; nothing is measured",
            "green: the kernel copies, the peer cannot change what was sent, and what was sent \
             before a death still arrives; yellow: what was sent may be lost with its sender, or \
             lies in memory that the peer can write until it is copied out and judged; red: a \
             peer can also harm what others need",
            integrity,
        ),
        property(
            "monitoring",
            "Monitoring",
            "what a third party sees of the messages, from what the mechanisms are; nothing is \
             measured",
            "green: tools of the system record every message with its content; yellow: each \
             message is a system call that a tracer sees; red: messages pass without the kernel",
            monitoring,
        ),
    ]
}

fn property(
    name: &str,
    title: &str,
    figure: &str,
    thresholds: &str,
    judge: fn(Mechanism) -> (Rating, &'static str),
) -> RatedProperty {
    let field = |group: Group| {
        let (here, words) = judge(mechanism(group));
        RatedField {
            group,
            paper: group.paper(name),
            here: Some(here),
            shown: words.to_owned(),
            value: None,
            unit: String::new(),
            times_best: None,
            grade: None,
            run_started_unix_s: None,
            missing: None,
        }
    };
    RatedProperty {
        property: name.to_owned(),
        title: title.to_owned(),
        figure: figure.to_owned(),
        thresholds: thresholds.to_owned(),
        measured: false,
        fields: GROUPS.into_iter().map(field).collect(),
    }
}

/// What stands for a group: nearcall's own.
fn mechanism(group: Group) -> Mechanism {
    match group {
        Group::SharedMemory => Mechanism::Shm,
        Group::Pipe => Mechanism::Pipe,
        Group::Unix => Mechanism::UnixStream,
        Group::Tcp => Mechanism::Tcp,
    }
}

fn integrity(mechanism: Mechanism) -> (Rating, &'static str) {
    let can = mechanism.capabilities();
    match (mechanism.data_path(), can.isolation, can.delivers_after_death) {
        (DataPath::KernelCopies, true, true) => (
            Rating::Green,
            "the kernel copies: nobody can change what was sent, and it still arrives if the \
             sender dies",
        ),
        (DataPath::KernelCopies, true, false) => (
            Rating::Yellow,
            "the kernel copies: nobody can change what was sent, but a reset when the sender dies \
             may take what had not been read",
        ),
        (DataPath::SharedMemory, true, _) => (
            Rating::Yellow,
            "lies in shared memory: the peer can write it until it is copied out; what was copied \
             is judged, and no lock can be held",
        ),
        _ => (Rating::Red, "a peer can change it, or hold a lock that the other end needs"),
    }
}

fn monitoring(mechanism: Mechanism) -> (Rating, &'static str) {
    match (mechanism, mechanism.data_path()) {
        (Mechanism::Tcp, _) => (
            Rating::Green,
            "packets on the loopback interface: tcpdump records them, ss shows each connection",
        ),
        (_, DataPath::KernelCopies) => (
            Rating::Yellow,
            "each message is a system call, which strace sees; nothing records it as packets are",
        ),
        (_, DataPath::SharedMemory) => (
            Rating::Red,
            "the kernel sees wake-ups only, and not even those while the waiter spins",
        ),
    }
}
