//! Whether a choice meets what was asked, by a table of its own.
//!
//! Written from what the mechanisms are, not from what the advisor goes by: a mistake in one of the
//! two shows as a difference. Always true: every mechanism stands in the table; a test asks the
//! other one.

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::advise::{Candidate, Need, Placement, Requirements};

/// What `choice` does not meet, in words; empty if it meets everything.
#[must_use]
pub(crate) fn violations(choice: &Candidate, requirements: &Requirements) -> Vec<String> {
    let mut found = Vec::new();
    let Some(has) = row(choice.mechanism) else {
        return vec![format!("{} is not in the table of the check", choice.mechanism)];
    };
    let spins = choice.wait == WaitPolicy::Spin || has.contains('!');
    for need in &requirements.needs {
        let meets = match need {
            Need::Pollable => {
                has.contains('p') && matches!(choice.wait, WaitPolicy::Poll | WaitPolicy::Adaptive)
            }
            Need::CrashDetection => has.contains('c'),
            Need::Isolation => has.contains('i'),
            Need::DescriptorPassing => !requirements.needs.contains(&Need::MultiMachine),
            Need::MultiMachine => choice.mechanism == Mechanism::Tcp,
            Need::NoSpin => !spins && choice.wait != WaitPolicy::Adaptive,
            Need::SameCpuSafe => !spins,
            Need::Oversized => true,
            Need::DeliversAfterDeath => has.contains('d'),
            Need::KillSafe => has.contains('k'),
            Need::NothingLeft => has.contains('n'),
            Need::SharedMemory => choice.mechanism.name().starts_with("shm"),
        };
        if !meets {
            found.push(format!("{choice} is not {need}"));
        }
    }
    if requirements.placement == Placement::SameCpu && spins {
        found.push(format!("{choice} spins and both ends share a CPU"));
    }
    if let Err(reason) = choice.mechanism.supported() {
        found.push(format!("{choice} does not work here: {reason}"));
    }
    found
}

/// p: has a descriptor to poll; c: its object tells of a death; i: a hostile peer cannot interfere;
/// d: delivers what a killed end had sent; k: no kill breaks a lock; n: nothing is left after both;
/// !: spins whatever it is told.
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
        ("sysv-mq", "dk"),
        ("vmsplice", "pcidkn"),
        // The bytes lie in the sender and go with it.
        ("cma", "pcikn"),
        ("uring", "pcidkn"),
        ("shm-spin", "idkn!"),
        ("shm-futex", "idkn"),
        // A shared counter that either end can drain.
        ("shm-eventfd", "pdkn"),
        ("shm-unix", "pcidkn"),
        ("shm-pipe", "pcidkn"),
        ("shm-signal", "pidkn"),
        ("shm-posix-mq", "pdkn"),
        ("shm-semaphore", "dkn"),
        // Locks in memory that both can write.
        ("shm-condvar", "dn"),
        ("shm-mq", "dn"),
    ];
    rows.into_iter().find(|row| row.0 == mechanism.name()).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use nearcall_results::advise::{Excluded, eligible};

    use super::*;

    #[test]
    fn the_table_of_the_check_and_that_of_the_mechanisms_agree() {
        let placements = [Placement::Cross, Placement::SameCpu];
        for (need, placement) in
            Need::ALL.into_iter().flat_map(|need| placements.map(|placement| (need, placement)))
        {
            let needs = vec![need];
            let wanted =
                Requirements { needs, placement, clients: Some(1), ..Requirements::default() };
            let (kept, excluded) = eligible(&wanted);
            let fails = |one: &Candidate| {
                let found = violations(one, &wanted);
                found.iter().any(|text| !text.contains("does not work here"))
            };
            for one in &kept {
                assert!(!fails(one), "{one} {need} {placement:?}");
            }
            let is_for_use = |one: &&Excluded| !one.candidate.mechanism.measured_only();
            for one in excluded.iter().filter(is_for_use) {
                assert!(fails(&one.candidate), "{} {need} {placement:?}", one.candidate);
            }
        }
    }
}
