//! System calls of a process inside its measured region, by name, and the bytes that they copied.
//!
//! The region is known by the calls that open and close it: each end asks for its resource use just
//! before and just after (`exchange/count.rs`), and nowhere else.
//! Pure: events in, numbers out. Not here: where events come from (`profile/watching.rs`).

use std::collections::BTreeMap;

use nearcall_os::ptrace::Event;
use nearcall_os::syscall_names::syscall_name;

use crate::launch::Role;

/// What one process did inside the measured region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By name.
    calls: BTreeMap<String, u64>,
    /// What the kernel copied out of its memory, and into it.
    bytes: Moved,
    /// How often it has asked for its resource use.
    borders: u32,
}

/// Bytes copied by system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// On their way to the other end.
    pub(crate) out: u64,
    /// From the other end.
    pub(crate) into: u64,
}

impl Tally {
    /// Counts a call that has ended. One that will be begun again counts only then.
    pub(crate) fn note(&mut self, event: &Event) {
        let Event::Ended { number, arguments, outcome, .. } = *event else { return };
        if RESTARTS.contains(&outcome) {
            return;
        }
        let name = syscall_name(number);
        if name == Some(BORDER) {
            self.borders += 1;
        }
        if self.borders != 1 || is_ours(name, &arguments) {
            return;
        }
        if let (Some(name), 0..) = (name, outcome) {
            let (out, into) = moved(name, &arguments, outcome.unsigned_abs());
            self.bytes.out += out;
            self.bytes.into += into;
        }
        let name = name.map_or_else(|| format!("number {number}"), str::to_owned);
        *self.calls.entry(name).or_default() += 1;
    }

    /// What one of so many exchanges costs. `None`: the region was not seen from border to border.
    ///
    /// The region of the server has the answer to one mark and the next mark beside the exchanges.
    pub(crate) fn per_exchange(&self, exchanges: u64, role: Role) -> Option<PerExchange> {
        let marks = match role {
            Role::Client => 0,
            Role::Server => 1,
        };
        let each = |count: u64, times: u64| count as f64 / times.max(1) as f64;
        (self.borders == 2).then(|| PerExchange {
            calls: self
                .calls
                .iter()
                .map(|(name, &count)| (name.clone(), each(count, exchanges + marks)))
                .collect(),
            bytes_out: each(self.bytes.out, exchanges),
            bytes_into: each(self.bytes.into, exchanges),
        })
    }
}

/// What one end does for one exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PerExchange {
    pub(crate) calls: BTreeMap<String, f64>,
    pub(crate) bytes_out: f64,
    pub(crate) bytes_into: f64,
}

/// The bytes that a call which succeeded has copied out of the process and into it. What only
/// refers to pages copies nothing; what io_uring does is not seen.
fn moved(name: &str, arguments: &[u64; 6], outcome: u64) -> (u64, u64) {
    match name {
        "write" | "writev" | "pwrite64" | "pwritev2" | "sendto" | "sendmsg" => (outcome, 0),
        "read" | "readv" | "pread64" | "preadv2" | "recvfrom" | "recvmsg" | "mq_timedreceive"
        | "msgrcv" | "process_vm_readv" => (0, outcome),
        "process_vm_writev" => (outcome, 0),
        // They give zero, and have the length as the third argument.
        "mq_timedsend" | "msgsnd" => (arguments[2], 0),
        _ => (0, 0),
    }
}

/// What the kernel gives inside when a signal interrupts a call that it will begin again: -ERESTART
/// of include/linux/errno.h, never seen by the program.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// What stands at both borders of the region.
const BORDER: &str = "getrusage";

/// Whether the call belongs to counting: the CPU time is read inside the borders.
fn is_ours(name: Option<&str>, arguments: &[u64; 6]) -> bool {
    const PROCESS_CPU: u64 = 2;
    name == Some(BORDER) || (name == Some("clock_gettime") && arguments[0] == PROCESS_CPU)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(calls: &[(u64, [u64; 6], i64)]) -> Tally {
        let mut tally = Tally::default();
        for &(number, arguments, outcome) in calls {
            tally.note(&Event::Ended { tid: 1, number, arguments, outcome });
        }
        tally
    }

    fn number(name: &str) -> u64 {
        (0..1_000).find(|&number| syscall_name(number) == Some(name)).unwrap()
    }

    #[test]
    fn bytes_are_counted_on_the_side_where_they_were_copied() {
        let (read, write, send) = (number("read"), number("write"), number("msgsnd"));
        let splice = number("vmsplice");
        let found = tally(&[
            (number(BORDER), [0; 6], 0),
            (read, [0; 6], 100),
            (read, [0; 6], -11),
            (read, [0; 6], -512),
            (write, [0; 6], 30),
            (send, [0, 0, 7, 0, 0, 0], 0),
            (send, [0, 0, 7, 0, 0, 0], -11),
            (splice, [0; 6], 1_000),
            (9_999, [0; 6], 5),
        ]);
        assert_eq!(found.bytes, Moved { out: 37, into: 100 });
        assert_eq!(found.calls["read"], 2, "the one that is begun again counts then");
        assert_eq!(found.calls["number 9999"], 1);
    }

    #[test]
    fn only_what_lies_between_the_borders_counts() {
        let (read, clock, border) = (number("read"), number("clock_gettime"), number(BORDER));
        let mut calls = vec![(read, [0; 6], 3); 50];
        calls.push((border, [0; 6], 0));
        calls.push((clock, [2, 0, 0, 0, 0, 0], 0));
        calls.extend(vec![(read, [0; 6], 10); 20]);
        calls.push((clock, [2, 0, 0, 0, 0, 0], 0));
        assert_eq!(tally(&calls).per_exchange(10, Role::Client), None, "no end was seen");
        calls.push((border, [0; 6], 0));
        calls.push((read, [0; 6], 3));
        let each = tally(&calls).per_exchange(10, Role::Client).unwrap();
        assert_eq!(each.calls, BTreeMap::from([("read".to_owned(), 2.0)]));
        assert!((each.bytes_into - 20.0).abs() < 1e-9);
        let of_server = tally(&calls).per_exchange(9, Role::Server).unwrap();
        assert!((of_server.calls["read"] - 2.0).abs() < 1e-9, "its marks are no exchange");
    }
}
