//! Whether a choice meets what was asked, by a table of its own.
//!
//! Written from what the mechanisms are, not from what the advisor goes by: a mistake in one of the
//! two shows as a difference.
//! **Invariants:** what does not stand in the table must not be advised; a test compares the table
//! with what the advisor goes by.

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::advise::{Candidate, Need, Placement, Requirements};

/// What `choice` does not meet, in words; empty if it meets everything.
pub(crate) fn violations(choice: &Candidate, requirements: &Requirements) -> Vec<String> {
    let Some(has) = row(choice.mechanism) else {
        return vec![format!("{choice} is not to be advised")];
    };
    let spins = choice.wait == WaitPolicy::Spin || has.contains('!');
    let meets = |need: Need| match need {
        Need::Pollable => {
            has.contains('p') && matches!(choice.wait, WaitPolicy::Poll | WaitPolicy::Adaptive)
        }
        Need::CrashDetection => has.contains('c'),
        Need::Isolation => has.contains('i'),
        Need::Oversized => true,
        Need::DescriptorPassing => !requirements.needs.contains(&Need::MultiMachine),
        Need::MultiMachine => choice.mechanism == Mechanism::Tcp,
        Need::NoSpin => !spins && choice.wait != WaitPolicy::Adaptive,
        Need::SameCpuSafe => !spins,
        Need::DeliversAfterDeath => has.contains('d'),
        Need::KillSafe => has.contains('k'),
        Need::NothingLeft => has.contains('n'),
        Need::SharedMemory => choice.mechanism.name().starts_with("shm"),
    };
    let lacks = requirements.needs.iter().filter(|need| !meets(**need));
    let mut found: Vec<String> = lacks.map(|need| format!("{choice} is not {need}")).collect();
    if requirements.placement == Placement::SameCpu && spins {
        found.push(format!("{choice} spins and both ends share a CPU"));
    }
    if requirements.clients != Some(1) && has.contains('1') {
        found.push(format!("{choice} serves one client"));
    }
    if let Err(reason) = choice.mechanism.supported() {
        found.push(format!("{choice} {UNSUPPORTED}: {reason}"));
    }
    found
}

const UNSUPPORTED: &str = "does not work here";

/// p: has a descriptor to poll; c: its object reports a death; i: a hostile peer cannot interfere;
/// d: delivers what a killed end had sent; k: no kill breaks a lock; n: nothing is left after both;
/// !: spins whatever it is told; 1: serves one client of an event loop. Not here: what exists to be
/// compared with.
fn row(mechanism: Mechanism) -> Option<&'static str> {
    let rows = [
        ("shm", "pcidkn"),
        ("pipe", "pcidkn"),
        ("fifo", "pcidkn"),
        ("unix-stream", "pcidkn"),
        ("unix-seqpacket", "pcidkn"),
        // A datagram socket has no connection that ends.
        ("unix-dgram", "pidkn"),
        // A reset throws away what was not read.
        ("tcp", "pcikn"),
        ("udp", "pidkn"),
        // Whoever may open a queue may take from it.
        ("posix-mq", "pdkn"),
        ("sysv-mq", "dk1"),
        ("vmsplice", "pcidkn"),
        // The bytes lie in the sender and go with it.
        ("cma", "pcikn"),
        ("uring", "pcidkn"),
        ("shm-spin", "idkn!"),
        ("shm-futex", "idkn1"),
        ("shm-unix", "pcidkn"),
        ("shm-pipe", "pcidkn"),
        ("shm-signal", "pidkn"),
    ];
    rows.into_iter().find(|row| row.0 == mechanism.name()).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use nearcall_results::advise::eligible;

    use super::*;

    #[test]
    fn the_table_of_the_check_and_that_of_the_mechanisms_agree() {
        for need in Need::ALL {
            for (placement, clients) in [
                (Placement::Cross, None),
                (Placement::Cross, Some(1)),
                (Placement::SameCpu, Some(1)),
            ] {
                let needs = vec![need];
                let wanted = Requirements { needs, placement, clients, ..Requirements::default() };
                let kept = eligible(&wanted).0;
                for one in Candidate::all() {
                    let found = violations(&one, &wanted);
                    let meets = found.iter().all(|text| text.contains(UNSUPPORTED));
                    assert_eq!(meets, kept.contains(&one), "{one} {wanted:?}: {found:?}");
                }
            }
        }
    }
}
